"""What every hub database must do: savepoints, and attempts counted exactly. Run by test_hub_*.py."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from mgw.gateway.aq.hub import Hub
from mgw.gateway.aq.model import DequeueMode, DequeueOptions
from mgw.gateway.aq.sessions.session import Session
from mgw.transforms.errors import AqError
from mgw.transforms.message import Message
from tests.conformance.hub_suite import HubCase, body_of, now, refused
from tests.support.waiting import eventually


class SavepointSuite(HubCase):
    """A session's own savepoints."""

    def attempts(self, table: str = "orders_t") -> list[int]:
        """Failed attempts of every message, by its id."""
        return [row["RETRY_COUNT"] for row in self.view(table)]

    def test_messages_enqueued_after_a_savepoint_vanish(self) -> None:
        self.queue()
        with self.hub.session() as session:
            session.enqueue("orders", Message("a"))
            session.savepoint("here")
            session.enqueue_array("orders", [Message("b"), Message("c")])
            session.rollback_to("here")
            session.enqueue("orders", Message("d"))
            session.rollback_to("here")
            session.enqueue("orders", Message("e"))
            session.commit()
        assert self.take("orders") == ["a", "e"]

    def test_messages_removed_after_a_savepoint_are_back_at_once_with_an_attempt(self) -> None:
        self.queue()
        self.send("orders", "x", "y", "z")
        with self.hub.session() as session, self.hub.session() as other:
            assert body_of(session.dequeue("orders", now())) == "x"
            session.savepoint("here")
            assert [body_of(one) for one in session.dequeue_array("orders", now(), 2)] == ["y", "z"]
            session.rollback_to("here")
            back = other.dequeue("orders", now())
            assert (body_of(back), back.message.attempts) == ("y", 1)
            other.rollback()
            session.commit()
        assert self.attempts() == [2, 1]
        assert self.take("orders") == ["y", "z"]

    def test_attempt_counted_at_a_savepoint_survives_the_rollback_of_the_rest(self) -> None:
        self.queue()
        self.send("orders", "x", "y")
        with self.hub.session() as session:
            session.dequeue("orders", now())
            session.savepoint("here")
            session.dequeue("orders", now())
            session.rollback_to("here")
            session.rollback()
            assert self.attempts() == [1, 1]
            session.savepoint("start")
            session.dequeue("orders", now())
            session.rollback_to("start")
            session.dequeue("orders", now())
            session.rollback_to("START")
            assert self.attempts() == [3, 1]
            session.commit()
        assert self.attempts() == [3, 1]

    def test_savepoint_rollbacks_use_up_the_retries(self) -> None:
        self.queue(max_retries=1)
        self.topic("RED", "GREEN", max_retries=0)
        self.send("orders", "x")
        self.send("events", "y")
        with self.hub.session() as session:
            session.enqueue("orders", Message("kept"))
            session.savepoint("here")
            session.dequeue("events", now(consumer_name="RED"))
            for _ in range(2):
                session.dequeue("orders", now())
                session.rollback_to("here")
            session.commit()
        states = {(row["USER_DATA"], row["MSG_STATE"]) for row in self.view("orders_t")}
        assert {(self.text(body), state) for body, state in states} == {("x", "EXPIRED"), ("kept", "READY")}
        assert sorted(self.states("events_t")) == ["READY", "UNDELIVERABLE"]

    def text(self, body: Any) -> str:
        return body if isinstance(body, str) else bytes(body).decode()

    def test_locks_taken_after_a_savepoint_are_released_and_earlier_ones_stay(self) -> None:
        self.queue()
        (one, two, three) = self.send("orders", "1", "2", "3")
        lock = {"dequeue_mode": DequeueMode.LOCKED}
        with self.hub.session() as session:
            session.dequeue("orders", now(msgid=one, **lock))
            session.savepoint("here")
            session.dequeue("orders", now(msgid=two, **lock))
            session.dequeue("orders", now(msgid=one))  # locked before, removed after
            assert self.take("orders", dequeue_mode=DequeueMode.BROWSE) == ["1", "2", "3"] or self.hub.postgresql
            session.rollback_to("here")
            assert self.take("orders") == ["2", "3"]
            with self.hub.session() as other, refused(25263):
                other.dequeue("orders", now(msgid=one))
            session.commit()
        self.run_time()
        assert (self.attempts(), self.take("orders")) == ([1], ["1"])
        assert three != two

    def test_names_are_moved_released_and_unknown(self) -> None:
        self.queue()
        with self.hub.session() as session:
            with pytest.raises(AqError, match=r"^ORA-01086: savepoint 'here' does not exist"):
                session.rollback_to("here")
            session.savepoint("outer")
            session.enqueue("orders", Message("a"))
            session.savepoint("inner")
            session.enqueue("orders", Message("b"))
            session.savepoint("Inner")  # moves
            session.enqueue("orders", Message("c"))
            session.rollback_to("inner")
            session.release("inner")
            for call in (session.rollback_to, session.release):
                with refused(1086):
                    call("inner")
            session.savepoint("inner")
            session.rollback_to("outer")
            with refused(1086):
                session.rollback_to("inner")
            session.enqueue("orders", Message("d"))
            session.savepoint("last")
            session.release("outer")
            with refused(1086):
                session.rollback_to("last")
            session.savepoint("last")
            session.commit()
            with refused(1086):
                session.rollback_to("last")
            session.savepoint("last")
            session.rollback()
            with refused(1086):
                session.release("last")
        assert self.take("orders") == ["d"]

    def test_deviating_messages_follow_the_savepoint(self) -> None:
        from tests.conformance.hub_suite_enqueue import TOP, before

        self.queue()
        (b,) = self.send("orders", "b")
        with self.hub.session() as session:
            session.enqueue("orders", Message("a"), before(b))
            session.savepoint("here")
            gone = session.enqueue("orders", Message("no"), before(b))
            session.enqueue("orders", Message("no"), TOP)
            session.rollback_to("here")
            with refused(25210):
                session.enqueue("orders", Message("no"), before(gone))
            session.enqueue("orders", Message("a2"), before(b))
            session.commit()
        assert self.take("orders") == ["a", "a2", "b"]

    def test_exception_queue_gets_its_messages_back_without_an_attempt(self) -> None:
        self.topic("RED", max_retries=0)
        self.send("events", "x")
        self.fail("events", "RED")
        self.admin.start_queue("AQ$_events_t_E", enqueue=False)
        with self.hub.session() as session:
            session.savepoint("here")
            assert body_of(session.dequeue("AQ$_events_t_E", now())) == "x"
            session.rollback_to("here")
            assert [row["RETRY_COUNT"] for row in self.view("events_t")] == [1]
            assert body_of(session.dequeue("AQ$_events_t_E", now())) == "x"
            session.commit()
        assert self.view("events_t") == []

    def test_exception_message_locked_before_a_savepoint_stays_locked(self) -> None:
        self.topic("RED", max_retries=0)
        self.send("events", "x")
        self.fail("events", "RED")
        self.admin.start_queue("AQ$_events_t_E", enqueue=False)
        with self.hub.session() as session:
            session.dequeue("AQ$_events_t_E", now(dequeue_mode=DequeueMode.LOCKED))
            session.savepoint("here")
            session.dequeue("AQ$_events_t_E", now())
            session.rollback_to("here")
            assert self.take("AQ$_events_t_E") == []
            session.commit()
        assert self.take("AQ$_events_t_E") == ["x"]

    def test_savepoint_ends_with_its_transaction_also_when_nothing_was_done(self) -> None:
        for end in ("commit", "rollback"):
            with self.hub.session() as session:
                session.savepoint("here")
                getattr(session, end)()
                with refused(1086):
                    session.rollback_to("here")

    def test_session_with_a_savepoint_may_wait(self) -> None:
        self.queue()
        with self.hub.session() as session:
            session.enqueue("orders", Message("kept"))
            session.savepoint("here")
            session.enqueue("orders", Message("no"))
            with refused(25228):
                session.dequeue("orders", DequeueOptions(wait=0.05, correlation="none"))
            session.rollback_to("here")
            session.commit()
            session.savepoint("before anything")
            with refused(25228):
                session.dequeue("orders", DequeueOptions(wait=0.05, correlation="none"))
            session.enqueue("orders", Message("no"))
            session.rollback_to("before anything")
            session.commit()
        assert self.take("orders") == ["kept"]


class ApplicationSavepointSuite(HubCase):
    """Savepoints of the application's own transaction."""

    @pytest.fixture(autouse=True)
    def _application(self, _hub: None) -> Iterator[None]:
        self.queue()
        self.send("orders", "x", "y")
        engine = sa.create_engine(self.application_url)
        with engine.begin() as conn:
            conn.exec_driver_sql("CREATE TABLE booking (id integer)")
        with engine.connect() as self.conn:
            self.conn.exec_driver_sql("INSERT INTO booking VALUES (1)")
            self.session = self.hub.session(self.conn)
            yield
        engine.dispose()

    def found(self) -> list[tuple[Any, int]]:
        """Body and attempts of what is there, after the counting."""
        self.run_time()
        with self.hub.session() as session:
            try:
                return [(body_of(one), one.message.attempts) for one in session.dequeue_array("orders", now())]
            except AqError:
                return []

    def take_one(self) -> str:
        return str(body_of(self.session.dequeue("orders", now())))

    def test_nested_rollback_gives_back_and_counts(self) -> None:
        assert self.take_one() == "x"
        with self.conn.begin_nested() as nested:
            self.session.enqueue("orders", Message("no"))
            assert self.take_one() == "y"
            nested.rollback()
        self.conn.commit()
        assert self.found() == [("y", 1)]

    def test_nested_rollback_before_the_first_take(self) -> None:
        with self.conn.begin_nested() as outer:
            with self.conn.begin_nested():
                assert self.take_one() == "x"
            assert self.take_one() == "y"
            outer.rollback()
        self.session.enqueue("orders", Message("z"))
        self.conn.commit()
        assert self.found() == [("x", 1), ("y", 1), ("z", 0)]

    def test_released_savepoint_belongs_to_the_whole(self) -> None:
        with self.conn.begin_nested():
            assert self.take_one() == "x"
        with self.conn.begin_nested() as nested:
            assert self.take_one() == "y"
            nested.commit()
        self.conn.rollback()
        assert self.found() == [("x", 1), ("y", 1)]

    def test_attempts_of_savepoint_and_transaction_add_up(self) -> None:
        for _ in range(2):
            with self.conn.begin_nested() as nested:
                assert self.take_one() == "x"
                nested.rollback()
        assert self.take_one() == "x"
        self.conn.rollback()
        assert self.found() == [("x", 3), ("y", 0)]

    def test_message_taken_for_good_after_a_nested_rollback_is_gone(self) -> None:
        with self.conn.begin_nested() as nested:
            assert self.take_one() == "x"
            nested.rollback()
        with self.conn.begin_nested():
            assert {self.take_one(), self.take_one()} == {"x", "y"}
        self.conn.commit()
        assert self.found() == []
        assert not self.hub.rolled_back

    def test_session_leaves_savepoints_to_the_application(self) -> None:
        for call in (self.session.savepoint, self.session.rollback_to, self.session.release):
            with pytest.raises(AqError, match=r"application's transaction.*nested"):
                call("here")


class CountingSuite(HubCase):
    """Exactly as many failed attempts as there were rollbacks."""

    def test_concurrent_rollbacks_are_all_counted(self) -> None:
        self.queue(max_retries=10_000)
        self.topic("RED", max_retries=10_000)
        self.send("orders", "x", "y")
        self.send("events", "z")
        rolled_back = [0, 0]
        count = threading.Lock()

        def work(hub: Hub) -> None:
            with hub.session() as session:
                for turn in range(24):
                    queue, consumer = ("events", "RED") if turn % 2 else ("orders", None)
                    done = eventually(lambda q=queue, c=consumer: self.taken(session, q, c), tolerate=(AqError,))
                    assert done
                    with count:
                        rolled_back[turn % 2] += 1

        with Hub.open(self.url, clock=self.clock) as elsewhere:
            hubs = [self.hub, self.hub, elsewhere, elsewhere]
            threads = [threading.Thread(target=work, args=(hub,)) for hub in hubs]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            from mgw.gateway.aq.upkeep import time_manager

            time_manager.run_once(elsewhere)
            self.run_time()
        assert rolled_back == [48, 48]
        assert sum(row["RETRY_COUNT"] for row in self.view("orders_t")) == 48
        assert sum(row["RETRY_COUNT"] for row in self.view("events_t")) == 48

    @staticmethod
    def taken(session: Session, queue: str, consumer: str | None) -> bool:
        session.dequeue(queue, DequeueOptions(consumer, wait=0))
        session.rollback()
        return True
