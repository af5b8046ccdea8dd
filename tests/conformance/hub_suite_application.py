"""Sessions in the application's transaction: how it ends, what it is on, what they are given. Run by test_hub_*.py."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import psycopg
import psycopg.rows
import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from mgw.gateway.aq.hub import Hub
from mgw.gateway.aq.model import Agent, DequeueMode, DequeueOptions, EnqueueOptions, Navigation
from mgw.transforms.errors import AqError, ArgumentInvalid, HubClosed, SessionClosed
from mgw.transforms.message import Header, Message, ValueType
from tests.conformance.hub_suite import HubCase, body_of, now, refused
from tests.support.waiting import eventually


class ApplicationCase(HubCase):
    """A queue, a table of the application's, and its engine."""

    @pytest.fixture(autouse=True)
    def _application(self, _hub: None) -> Iterator[None]:
        self.queue()
        self.engine = sa.create_engine(self.application_url)
        with self.engine.begin() as conn:
            conn.exec_driver_sql("CREATE TABLE booking (id integer PRIMARY KEY)")
        yield
        self.engine.dispose()

    def bookings(self) -> int:
        with self.engine.connect() as conn:
            return int(conn.exec_driver_sql("SELECT COUNT(*) FROM booking").scalar_one())

    def counted(self, table: str = "orders_t") -> int:
        """Failed attempts of what is in a queue table."""
        return sum(row["RETRY_COUNT"] for row in self.view(table))

    def eventually_counted(self, number: int) -> None:
        eventually(lambda: self.counted() == number, what=f"{number} attempts counted")


#: Ends of a program that has not closed its hub: a statement each, with a hub, a connection and a session on it.
_ENDS = {
    "closed": "session.dequeue('orders', now); conn.rollback(); hub.close()",
    "exit": "session.dequeue('orders', now); conn.rollback(); sys.exit()",
    "raises": "session.dequeue('orders', now); conn.close(); 1 / 0",
    "killed": "session.dequeue('orders', now); conn.rollback(); os.kill(os.getpid(), 9)",
    "own": "own.dequeue('orders', now); 1 / 0",
    "forgotten": "dequeue_and_forget(); 1 / 0",
}

_PROGRAM = """
    import os, sys
    import sqlalchemy as sa
    from mgw.gateway.aq.hub import Hub
    from mgw.gateway.aq.model import DequeueOptions

    now = DequeueOptions(wait=0)
    hub = Hub.open(sys.argv[1])
    engine = sa.create_engine(sys.argv[3])
    conn = engine.connect()
    session, own = hub.session(conn), hub.session()

    def dequeue_and_forget():
        Hub.open(sys.argv[1]).session().dequeue("orders", now)

    exec(sys.argv[2])
"""


class AttemptSuite(ApplicationCase):
    """A failed attempt is counted, however the application's transaction fails and its program ends."""

    @pytest.fixture(autouse=True)
    def _message(self, _application: None) -> None:
        self.send("orders", "x")

    def test_rollback_counts_at_once(self) -> None:
        with self.engine.connect() as conn:
            session = self.hub.session(conn)
            for turn in (1, 2, 3):
                session.dequeue("orders", now())
                conn.rollback()
                assert self.counted() == turn
            session.dequeue("orders", now())
        assert self.counted() == 4

    def test_poison_goes_to_the_exception_queue(self) -> None:
        self.admin.alter_queue("orders", max_retries=0)
        with pytest.raises(ZeroDivisionError), self.engine.begin() as conn:  # noqa: PT012
            self.hub.session(conn).dequeue("orders", now())
            raise ZeroDivisionError
        assert self.states("orders_t") == ["EXPIRED"]

    @pytest.mark.parametrize("end", _ENDS)
    def test_program_ends(self, end: str) -> None:
        with self.hub.write() as conn:  # the program goes by the true time
            conn.exec_driver_sql("UPDATE aq_message SET ready_at = 0, enq_time = 0")
        program = [sys.executable, "-c", textwrap.dedent(_PROGRAM), self.url, _ENDS[end], self.application_url]
        ended = subprocess.run(program, check=False, timeout=60, capture_output=True, text=True)
        assert "ORA-" not in ended.stderr
        assert ended.returncode == {"closed": 0, "exit": 0, "killed": -9}.get(end, 1), ended.stderr
        assert self.counted() == 1

    def test_hub_that_is_closed_first(self) -> None:
        with Hub.open(self.url, clock=self.clock) as other, self.engine.connect() as conn:
            other.session(conn).dequeue("orders", now())
            other.close()
            conn.rollback()
        assert self.counted() == 1

    def test_session_that_is_open_when_the_hub_is_closed(self) -> None:
        with Hub.open(self.url, clock=self.clock) as other:
            session = other.session()
            session.dequeue("orders", now())
        assert self.counted() == 1
        session.close()
        assert self.counted() == 1
        assert self.take("orders") == ["x"]

    def test_session_that_is_forgotten(self) -> None:
        self.hub.session().dequeue("orders", now())
        self.eventually_counted(1)
        assert self.take("orders") == ["x"]

    def test_session_that_is_forgotten_while_the_thread_is_made(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Memory is cleaned up wherever something is allocated."""
        sessions = [self.hub.session(), self.hub.session()]
        sessions[0].dequeue("orders", now())

        class Thread(threading.Thread):
            def __init__(self, *given: Any, **named: Any) -> None:
                if sessions:
                    sessions.pop()
                super().__init__(*given, **named)

        forgetting = threading.Thread(target=lambda: sessions.pop() and None, daemon=True)
        with monkeypatch.context() as patch:
            patch.setattr("mgw.gateway.aq.sessions.attempts.threading.Thread", Thread)
            forgetting.start()
            forgetting.join(30)
        assert not forgetting.is_alive(), "it waits for itself"
        self.eventually_counted(1)

    def test_rollback_to_a_savepoint_counts_without_another_call(self) -> None:
        with self.engine.begin() as conn:
            with conn.begin_nested() as nested:
                self.hub.session(conn).dequeue("orders", now())
                nested.rollback()
            conn.exec_driver_sql("INSERT INTO booking VALUES (1)")
        self.eventually_counted(1)

    def test_rollback_of_a_transaction_of_the_hub(self) -> None:
        with pytest.raises(ZeroDivisionError), self.hub.write() as conn:  # noqa: PT012
            self.hub.session(conn).dequeue("orders", now())
            raise ZeroDivisionError
        self.eventually_counted(1)

    def test_commit_that_fails(self) -> None:
        with self.engine.begin() as conn:
            deferred = "REFERENCES booking (id) DEFERRABLE INITIALLY DEFERRED"
            conn.exec_driver_sql(f"CREATE TABLE item (booking integer {deferred})")
        with pytest.raises(sa.exc.IntegrityError), self.engine.connect() as conn:  # noqa: PT012
            if not self.hub.postgresql:
                conn.exec_driver_sql("PRAGMA foreign_keys=ON")
                conn.rollback()
            self.hub.session(conn).dequeue("orders", now())
            conn.exec_driver_sql("INSERT INTO item VALUES (7)")
            conn.commit()
        assert self.counted() == 1

    def test_error_that_is_not_of_the_commit_before(self) -> None:
        """Rows that cannot be fetched are an error without a statement, too; the application goes on after it."""
        with self.engine.connect() as conn:
            session = self.hub.session(conn)
            session.dequeue("orders", now())
            conn.commit()
            conn.exec_driver_sql("INSERT INTO booking VALUES (1)")
            session.enqueue("orders", Message("y"))
            numbers = "SELECT abs(n) FROM (SELECT 1 AS n UNION ALL SELECT -9223372036854775808) AS numbers"
            part = conn.begin_nested() if self.hub.postgresql else nullcontext()
            with pytest.raises(sa.exc.DBAPIError), part:
                conn.exec_driver_sql(numbers).all()
            conn.commit()
        assert self.bookings() == 1
        assert self.states("orders_t") == ["READY"]
        assert self.counted() == 0

    def test_commit_counts_nothing(self) -> None:
        with self.engine.begin() as conn:
            self.hub.session(conn).dequeue("orders", now())
        with self.engine.connect() as conn:
            with pytest.raises(sa.exc.SQLAlchemyError):
                conn.exec_driver_sql("SELECT nothing FROM nowhere")
            conn.rollback()
        assert not self.hub.rolled_back
        assert self.view("orders_t") == []

    def test_nobody_waits_for_a_count(self) -> None:
        """Whoever dequeues while another thread counts finds it done."""
        self.admin.alter_queue("orders", max_retries=100)
        with self.engine.connect() as conn:
            session = self.hub.session(conn)
            for turn in range(1, 5):
                with self.hub.session() as own:
                    assert own.dequeue("orders", now()).message.attempts == 2 * (turn - 1)
                    own.rollback()
                with conn.begin_nested() as nested:
                    session.dequeue("orders", now())
                    nested.rollback()
                conn.commit()


class AutocommitSuite(ApplicationCase):
    """Where every statement is committed at once there is no transaction to work in."""

    @pytest.fixture(autouse=True)
    def _message(self, _application: None) -> None:
        self.send("orders", "x")

    def refused(self, conn: Any) -> None:
        with pytest.raises(AqError, match=r"AUTOCOMMIT.*cure: use"):
            self.hub.session(conn)
        assert self.take("orders") == ["x"]

    def test_engine(self) -> None:
        engine = sa.create_engine(self.application_url, isolation_level="AUTOCOMMIT")
        with engine.connect() as conn:
            self.refused(conn)
        engine.dispose()

    def test_engine_with_options(self) -> None:
        with self.engine.execution_options(isolation_level="AUTOCOMMIT").connect() as conn:
            self.refused(conn)

    def test_connection(self) -> None:
        with self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
            self.refused(conn)
        with self.engine.begin() as conn:  # the pool put it back
            assert body_of_none(self.hub, conn)

    def test_driver(self) -> None:
        with self.engine.connect() as conn:
            driver: Any = conn.connection.driver_connection
            if self.hub.postgresql:
                driver.autocommit = True
            else:
                driver.isolation_level = None
            self.refused(conn)

    @pytest.mark.parametrize("orm_session", [False, True])
    def test_option_changed_after_the_session_was_made(self, *, orm_session: bool) -> None:
        with self.engine.connect() as conn:
            given: Any = orm.Session(conn) if orm_session else conn
            session = self.hub.session(given)
            session.enqueue("orders", Message("y"))
            given.commit()
            conn.execution_options(isolation_level="AUTOCOMMIT")
            for call in (
                lambda: session.dequeue("orders", now()),
                lambda: session.enqueue("orders", Message("z")),
            ):
                with pytest.raises(AqError, match="AUTOCOMMIT"):
                    call()
            given.rollback()
        assert self.take("orders") == ["x", "y"]

    def test_transaction_that_the_application_begins_itself(self) -> None:
        """SQLAlchemy's recipe for SQLite: the driver begins nothing, an event does."""
        engine = sa.create_engine(self.application_url)
        if not self.hub.postgresql:

            @sa.event.listens_for(engine, "connect")
            def _no_begin(driver: Any, _: Any) -> None:
                driver.isolation_level = None

            @sa.event.listens_for(engine, "begin")
            def _begin(conn: sa.Connection) -> None:
                conn.exec_driver_sql("BEGIN")

        with engine.connect() as conn:
            session = self.hub.session(conn)
            session.dequeue("orders", now())
            session.enqueue("orders", Message("y"))
            conn.rollback()
            session.dequeue("orders", now())
            conn.commit()
        engine.dispose()
        assert self.view("orders_t") == []

    def test_orm_session_on_such_an_engine(self) -> None:
        with orm.Session(self.engine.execution_options(isolation_level="AUTOCOMMIT")) as given:
            with pytest.raises(AqError, match="AUTOCOMMIT"):
                self.hub.session(given).dequeue("orders", now())
            given.rollback()
        assert self.take("orders") == ["x"]


def body_of_none(hub: Hub, conn: sa.Connection) -> bool:
    """Whether a session on the connection works and finds nothing."""
    with refused(25228):
        hub.session(conn).dequeue("orders", now())
    return True


class Base(orm.DeclarativeBase):
    pass


class Booking(Base):
    __tablename__ = "booking"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)


class OrmSuite(ApplicationCase):
    """An ORM session: the hub's session works in its transaction, whichever that is."""

    def test_commit_and_rollback_go_together(self) -> None:
        with orm.Session(self.engine) as own:
            session = self.hub.session(own)
            own.add(Booking(id=1))
            session.enqueue("orders", Message("one"))
            own.commit()
            own.add(Booking(id=2))
            session.enqueue("orders", Message("two"))
            own.rollback()
            own.add(Booking(id=3))
            session.enqueue("orders", Message("three"))
            own.commit()
            assert self.bookings() == 2
            assert body_of(session.dequeue("orders", now())) == "one"
            own.rollback()
            assert self.counted() == 1
            assert [body_of(one) for one in session.dequeue_array("orders", now())] == ["one", "three"]
            own.commit()
        assert self.view("orders_t") == []

    def test_begin_blocks(self) -> None:
        make = orm.sessionmaker(self.engine)
        with make.begin() as own:
            own.add(Booking(id=1))
            self.hub.session(own).enqueue("orders", Message("one"))
        with pytest.raises(ZeroDivisionError), make() as own, own.begin():  # noqa: PT012
            assert body_of(self.hub.session(own).dequeue("orders", now())) == "one"
            raise ZeroDivisionError
        assert (self.bookings(), self.counted()) == (1, 1)

    def test_session_made_before_the_transaction(self) -> None:
        with orm.Session(self.engine) as own:
            session = self.hub.session(own)
            assert not own.in_transaction()
            with own.begin():
                session.enqueue("orders", Message("one"))
        assert self.take("orders") == ["one"]

    def test_nested_transaction(self) -> None:
        self.send("orders", "x", "y")
        with orm.Session(self.engine) as own:
            session = self.hub.session(own)
            own.add(Booking(id=1))
            assert body_of(session.dequeue("orders", now())) == "x"
            with pytest.raises(ZeroDivisionError), own.begin_nested():  # noqa: PT012
                own.add(Booking(id=2))
                assert body_of(session.dequeue("orders", now())) == "y"
                session.enqueue("orders", Message("no"))
                raise ZeroDivisionError
            with own.begin_nested():
                session.enqueue("orders", Message("z"))
            own.commit()
        self.eventually_counted(1)
        assert (self.bookings(), self.take("orders")) == (1, ["y", "z"])

    def test_scoped_session_and_session_on_a_connection(self) -> None:
        scoped = orm.scoped_session(orm.sessionmaker(self.engine))
        self.hub.session(scoped).enqueue("orders", Message("one"))
        scoped.commit()
        scoped.remove()
        with self.engine.begin() as conn, orm.Session(conn) as own:
            self.hub.session(own).enqueue("orders", Message("two"))
        assert self.take("orders") == ["one", "two"]

    def test_session_that_needs_a_rollback(self) -> None:
        with orm.Session(self.engine) as own:
            session = self.hub.session(own)
            own.add_all([Booking(id=1), Booking(id=2)])
            own.commit()
            own.execute(sa.insert(Booking), [{"id": 3}])
            own.add(Booking(id=1))
            with pytest.raises(sa.exc.IntegrityError):
                own.flush()
            own.rollback()
            session.enqueue("orders", Message("one"))
            own.commit()
        assert (self.bookings(), self.take("orders")) == (2, ["one"])


class ArgumentSuite(ApplicationCase):
    """What a call cannot take is refused in words that say what to give."""

    @pytest.mark.parametrize("given", ["text", b"bytes", None, 5, {"body": "x"}, ("body",)], ids=repr)
    def test_what_is_no_message(self, given: Any) -> None:
        with self.hub.session() as session:
            with pytest.raises(ArgumentInvalid, match=r"only a Message.*cure: .*(Message\(|enqueue_array)") as caught:
                session.enqueue("orders", given)
            assert isinstance(caught.value, TypeError)
            with pytest.raises(ArgumentInvalid, match=r"only a Message.*index 1.*cure: .*(Message\(|enqueue_array)"):
                session.enqueue_array("orders", [Message("good"), given])
            if not isinstance(given, tuple):
                with pytest.raises(ArgumentInvalid, match=r"takes a list of messages.*cure: pass \[Message"):
                    session.enqueue_array("orders", given)
            session.commit()
        assert self.view("orders_t") == []

    def test_messages_from_an_iterator(self) -> None:
        with self.hub.session() as session:
            session.enqueue_array("orders", (Message(str(number)) for number in range(3)))  # type: ignore[arg-type]
            session.commit()
        assert self.take("orders") == ["0", "1", "2"]

    @pytest.mark.parametrize("given", [None, {"wait": 0}, Agent("RED")], ids=repr)
    def test_other_options(self, given: Any) -> None:
        with self.hub.session() as session:
            for call in (
                lambda: session.enqueue("orders", Message("x"), given),
                lambda: session.enqueue("orders", Message("x"), now()),  # type: ignore[arg-type]
                lambda: session.dequeue("orders", given),
                lambda: session.dequeue_array("orders", EnqueueOptions()),  # type: ignore[arg-type]
            ):
                with pytest.raises(ArgumentInvalid, match=r"options are (En|De)queueOptions.*cure: pass"):
                    call()

    def test_what_is_no_connection(self) -> None:
        driver = self.engine.raw_connection()
        wrong: list[Any] = [self.engine, "scott", 5, orm.sessionmaker(self.engine), driver]
        for given in wrong:
            with pytest.raises(ArgumentInvalid, match=r"takes the application's connection.*cure: pass a connection"):
                self.hub.session(given)
        with pytest.raises(ArgumentInvalid, match=r"hub.session\(user='scott'\)"):
            self.hub.session("scott")  # type: ignore[arg-type]
        driver.close()

    def test_asynchronous_session(self) -> None:
        kind = type("AsyncSession", (), {"__module__": "sqlalchemy.ext.asyncio.session"})  # the real one needs greenlet
        with pytest.raises(ArgumentInvalid, match="asynchronous"):
            self.hub.session(kind())

    def test_closed_connection(self) -> None:
        with self.engine.connect() as conn:
            session = self.hub.session(conn)
        for call in (lambda: self.hub.session(conn), lambda: session.enqueue("orders", Message("x"))):
            with pytest.raises(AqError, match=r"cause: it is closed"):
                call()

    def test_connection_of_another_driver(self) -> None:
        engine = sa.create_engine("sqlite://" if self.hub.postgresql else "postgresql+psycopg://nowhere")
        with pytest.raises(AqError, match=r"it uses .* cure: connect through"):
            self.hub.session(orm.Session(engine))


class DriverSuite(ApplicationCase):
    """The driver's own connection, as programs without SQLAlchemy have one."""

    @pytest.fixture(autouse=True)
    def _driver(self, _application: None) -> Iterator[None]:
        self.driver = self.connect()
        yield
        self.driver.close()

    def connect(self, **options: Any) -> Any:
        if not self.hub.postgresql:
            return sqlite3.connect(self.hub.path or "", **options)
        url = sa.make_url(self.application_url).set(drivername="postgresql")
        return psycopg.connect(url.render_as_string(hide_password=False), **options)

    def test_commit_makes_both(self) -> None:
        self.driver.execute("INSERT INTO booking VALUES (1)")
        self.hub.session(self.driver).enqueue("orders", Message("x"))
        assert self.states("orders_t") == []
        self.driver.commit()
        assert (self.bookings(), self.take("orders")) == (1, ["x"])

    def test_rollback_makes_neither(self) -> None:
        self.driver.execute("INSERT INTO booking VALUES (1)")
        self.hub.session(self.driver).enqueue_array("orders", [Message(str(number)) for number in range(50)])
        self.driver.rollback()
        assert (self.bookings(), self.take("orders")) == (0, [])

    def test_many_with_everything_that_a_message_has(self) -> None:
        headers = (Header("h", ValueType.LONG, 2**40),)
        sent = [Message(f"{n}", headers=headers, correlation="c", priority=n, expiration=1e9) for n in range(50)]
        self.hub.session(self.driver).enqueue_array("orders", sent)
        self.driver.commit()
        with self.hub.session() as session:
            found = [each.message for each in session.dequeue_array("orders", now(), 100)]
        assert [(each.body, each.headers, each.priority, each.expiration) for each in found] == [
            (each.body, each.headers, each.priority, each.expiration) for each in sent
        ]

    def test_rows_of_the_applications_kind(self) -> None:
        """The application has chosen dictionaries for rows, and cursors that bind parameters themselves."""
        if self.hub.postgresql:
            self.driver.row_factory = psycopg.rows.dict_row
            self.driver.cursor_factory = psycopg.ClientCursor
        else:
            self.driver.row_factory = lambda cursor, row: {each[0]: row for each in cursor.description}
        self.driver.execute("INSERT INTO booking VALUES (1)")
        session = self.hub.session(self.driver)
        session.enqueue("orders", Message("x", correlation="c"))
        session.enqueue_array("orders", [Message("y"), Message("z")])
        browse = now(dequeue_mode=DequeueMode.BROWSE, deq_condition="tab.corrid = 'c'")
        assert body_of(session.dequeue("orders", browse)) == "x"
        self.driver.commit()
        assert self.take("orders") == ["x", "y", "z"]

    def test_no_message_is_taken_whose_failed_attempt_nobody_could_count(self) -> None:
        self.send("orders", "x")
        self.driver.execute("INSERT INTO booking VALUES (1)")
        session = self.hub.session(self.driver)
        for mode in (DequeueMode.REMOVE, DequeueMode.REMOVE_NODATA):
            with pytest.raises(AqError, match=r"messages cannot be dequeued.*cure: dequeue with hub.session\(\)"):
                session.dequeue("orders", now(dequeue_mode=mode))
        assert body_of(session.dequeue("orders", now(dequeue_mode=DequeueMode.BROWSE))) == "x"
        self.driver.commit()
        assert self.take("orders") == ["x"]

    def test_connection_without_a_transaction_is_refused(self) -> None:
        other = self.connect(**({"autocommit": True} if self.hub.postgresql else {"isolation_level": None}))
        with pytest.raises(AqError, match="AUTOCOMMIT"):
            self.hub.session(other)
        other.execute("BEGIN")
        self.hub.session(other).enqueue("orders", Message("x"))
        other.execute("COMMIT")
        other.close()
        with pytest.raises(AqError, match="it is closed"):
            self.hub.session(other)
        assert self.take("orders") == ["x"]

    def test_transaction_group_is_that_of_the_session(self) -> None:
        self.queue("grouped", table={"message_grouping": "TRANSACTIONAL"})
        for group in "ab":
            session = self.hub.session(self.driver)
            for number in "12":
                session.enqueue("grouped", Message(group + number))
            self.driver.commit()
        with self.hub.session() as session:
            found = session.dequeue_array("grouped", now(navigation=Navigation.FIRST_MESSAGE_MULTI_GROUP), 10)
        assert [body_of(each) for each in found] == ["a1", "a2", "b1", "b2"]
        assert len({each.transaction_group for each in found}) == 2


class ClosedSuite(ApplicationCase):
    """Nothing works on a hub, or a session, that was closed; to close it again is no error."""

    def calls(self, session: Any) -> list[Any]:
        return [
            lambda: session.enqueue("orders", Message("x")),
            lambda: session.enqueue_array("orders", [Message("x")]),
            lambda: session.enqueue_array("orders", []),
            lambda: session.enqueue("orders", Message("x"), EnqueueOptions("IMMEDIATE")),
            lambda: session.dequeue("orders", now()),
            lambda: session.dequeue_array("orders", now()),
            lambda: session.listen([Agent(None, "orders")], wait=0),
            session.commit,
            session.rollback,
            lambda: session.savepoint("here"),
            lambda: session.rollback_to("here"),
            lambda: session.release("here"),
        ]

    def test_closed_session(self) -> None:
        with self.engine.connect() as conn:
            for session in (self.hub.session(), self.hub.session(conn)):
                session.close()
                session.close()
                for call in self.calls(session):
                    with pytest.raises(SessionClosed, match=r"is closed.*cure: create another"):
                        call()
        assert self.view("orders_t") == []

    def test_closed_hub(self) -> None:
        hub = Hub.open(self.url, clock=self.clock)
        with self.engine.connect() as conn:
            sessions = [hub.session(), hub.session(conn)]
            sessions[0].enqueue("orders", Message("no"))
            hub.close()
            hub.close()
            calls = [call for session in sessions for call in self.calls(session)]
            calls += [hub.session, lambda: hub.session(conn), lambda: hub.read().__enter__()]
            calls += [lambda: hub.write().__enter__()]
            for call in calls:
                with pytest.raises(HubClosed, match=r"is closed.*cure: open it again"):
                    call()
            for session in sessions:
                session.close()
        hub.close()
        assert self.view("orders_t") == []

    @pytest.mark.parametrize("what", ["hub", "session"])
    def test_who_waits_learns_it(self, what: str) -> None:
        hub = Hub.open(self.url, clock=self.clock)
        session = hub.session()
        raised: list[Exception] = []

        def wait() -> None:
            try:
                session.dequeue("orders", DequeueOptions(wait=60))
            except AqError as error:
                raised.append(error)
            except HubClosed as error:
                raised.append(error)

        waiter = threading.Thread(target=wait)
        waiter.start()
        eventually(lambda: hub.notifier.waiting)
        (hub if what == "hub" else session).close()
        waiter.join(20)
        assert [type(error) for error in raised] == [HubClosed if what == "hub" else SessionClosed]
        hub.close()
