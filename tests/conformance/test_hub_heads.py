"""What a message costs does not grow: with those that wait, nor with those that are gone while somebody still reads.

Counted in index entries and steps of plans, never in time. The hint that searches on PostgreSQL begin at must never
hide a message: every way by which one comes up behind it is tried.
"""

from __future__ import annotations

import itertools
import os
import re
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from mgw.gateway.aq.admin import QueueAdmin
from mgw.gateway.aq.hub import Hub
from mgw.gateway.aq.model import EnqueueOptions, SequenceDeviation
from mgw.gateway.aq.queues import search_bounds as heads_module
from mgw.gateway.aq.queues import transfer
from mgw.gateway.aq.queues.search_bounds import Heads
from mgw.gateway.aq.sessions.session import Session
from mgw.gateway.aq.store.connection_state import state_of
from mgw.gateway.aq.store.statements import Db
from mgw.gateway.aq.store.wal import shorten
from mgw.transforms.errors import HubError
from mgw.transforms.message import Message
from tests.conformance.hub_suite import HubCase, now
from tests.support.brokers import PostgreSQL
from tests.support.waiting import eventually

_number = itertools.count(1)
BATCH = 200


@pytest.fixture(scope="module")
def database(postgresql: PostgreSQL) -> Iterator[str]:
    yield postgresql.create_database("hub_heads")
    postgresql.drop_database("hub_heads")


class Growth(HubCase):
    """Shorthands for many messages."""

    def through(self, session: Session, batches: int, size: int = BATCH) -> None:
        """Messages into the queue and out of it."""
        for _ in range(batches):
            session.enqueue_array("orders", [Message("x") for _ in range(size)])
            session.commit()
            assert len(session.dequeue_array("orders", now(), size)) == size
            session.commit()


@pytest.mark.postgresql
class TestHeads(Growth):
    """The hint, kept up to date at every search."""

    @pytest.fixture
    def hub_url(self, database: str) -> Iterator[str]:
        name = f"hub{next(_number)}"
        engine = sa.create_engine(database, poolclass=sa.NullPool)
        with engine.begin() as conn:
            conn.exec_driver_sql(f"CREATE SCHEMA {name}")
        yield f"{database}?options=-csearch_path%3D{name}"
        with engine.begin() as conn:
            conn.exec_driver_sql(f"DROP SCHEMA {name} CASCADE")

    @pytest.fixture(autouse=True)
    def _eager(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(heads_module, "_STEP", 0)
        monkeypatch.setattr(heads_module, "_SHARE", 0)
        monkeypatch.setattr(heads_module, "_LOOK", 0)

    def head(self) -> float:
        """Where searches begin."""
        with self.hub.read() as conn:
            queue = transfer.resolve(conn, "orders")
            state = state_of(conn)
        assert state is not None
        heads = state.memory
        assert isinstance(heads, Heads)
        found = heads.after(queue, None)
        return float("-inf") if found is None else found[2]

    def last(self) -> int:
        with self.hub.read() as conn:
            return Db(conn).last_message_id()

    def moved_on(self, number: int = 5) -> float:
        """The head after messages went through the queue; it is beyond those that were there before."""
        before = self.last()
        with self.hub.session() as session:
            for _ in range(number):
                session.enqueue("orders", Message("passing"))
                session.commit()
                session.dequeue("orders", now())
                session.commit()
        assert self.head() > before
        return self.head()

    def read_entries(self, conn: sa.Connection, session: Session, size: int) -> int:
        """Index entries that a dequeue in the transaction of ``conn`` reads, dead ones included."""

        def read() -> int:
            counted = "SELECT pg_stat_get_xact_tuples_returned('aq_message_ready'::regclass)"
            return int(conn.exec_driver_sql(counted).scalar() or 0)

        before = read()
        assert len(session.dequeue_array("orders", now(), size)) == size
        return read() - before

    def test_dead_entries_are_not_read_again_while_somebody_keeps_a_snapshot(self) -> None:
        self.queue()
        with self.hub.engine.connect().execution_options(isolation_level="REPEATABLE READ") as reader:
            assert reader.exec_driver_sql("SELECT count(*) FROM aq_message").scalar() == 0
            with self.hub.session() as session:
                self.through(session, 10)
                session.enqueue_array("orders", [Message("x") for _ in range(10)])
                session.commit()
            with self.hub.engine.connect() as conn, self.hub.session(conn) as session:
                assert self.read_entries(conn, session, 10) <= 10 + 3 * BATCH
            with Hub.open(self.url) as stranger, stranger.engine.connect() as conn, stranger.session(conn) as session:
                assert self.read_entries(conn, session, 10) >= 10 * BATCH  # it knows nothing: what the hint saves

    def test_nothing_is_known_of_a_server_that_has_crashed(self) -> None:
        """What it need not have kept is undone: messages that were gone are there again, and nobody noted them."""
        with PostgreSQL() as server:
            address = server.create_database("crashed")
            with Hub.open(address, create=True, durability="fast") as hub:
                self.hub, self.admin = hub, QueueAdmin(hub)
                self.queue()
                with hub.write() as conn:  # the queue is on disk before the crash
                    conn.exec_driver_sql("SET LOCAL synchronous_commit = on")
                    conn.exec_driver_sql("SELECT pg_logical_emit_message(true, 'test', 'flush')")
                self.moved_on()
                with hub.read() as conn:
                    pid = int(conn.exec_driver_sql("SELECT pg_backend_pid()").scalar() or 0)
                    os.kill(pid, signal.SIGKILL)
                    with suppress(Exception):
                        conn.exec_driver_sql("SELECT 1")
                hub.engine.dispose()
                eventually(lambda: self.head() == float("-inf"), tolerate=(HubError, AssertionError))

    def test_claims_of_plans_begin_at_the_head_too(self) -> None:
        self.queue()
        with self.hub.engine.connect().execution_options(isolation_level="REPEATABLE READ") as reader:
            assert reader.exec_driver_sql("SELECT count(*) FROM aq_message").scalar() == 0
            with self.hub.read() as conn:
                queue = transfer.resolve(conn, "orders")
            for _ in range(10):
                with self.hub.write() as conn:
                    transfer.put(conn, queue, [Message("x") for _ in range(BATCH)])
                with self.hub.write() as conn:
                    claimed = transfer.claim(conn, queue, None, BATCH)
                with self.hub.write() as conn:
                    transfer.complete(conn, queue, None, [each.id for each in claimed])
            assert self.head() > 7 * BATCH

    def test_message_that_was_being_enqueued_is_found(self) -> None:
        self.queue()
        with self.hub.session() as slow:
            slow.enqueue("orders", Message("slow"))
            early = self.last()
            with self.hub.session() as session:
                for _ in range(5):
                    session.enqueue("orders", Message("fast"))
                    session.commit()
                    session.dequeue("orders", now())
                    session.commit()
            assert self.head() < early
            slow.commit()
        assert self.take("orders") == ["slow"]
        self.moved_on()

    def test_message_in_other_hands_is_found_after_the_rollback(self) -> None:
        self.queue()
        self.send("orders", "held")
        with self.hub.session() as holder:
            holder.dequeue("orders", now())
            held = self.last()
            with self.hub.session() as session:
                for _ in range(5):
                    session.enqueue("orders", Message("fast"))
                    session.commit()
                    session.dequeue("orders", now())
                    session.commit()
            assert self.head() <= held
            holder.rollback()
        assert self.take("orders") == ["held"]

    def test_delayed_message_is_found_when_it_is_ready(self) -> None:
        self.queue()
        self.send("orders", "late", delay=60)
        self.moved_on()
        self.run_time(61)
        assert self.take("orders") == ["late"]

    def test_message_whose_retry_delay_is_over_is_found(self) -> None:
        self.queue(retry_delay=60)
        self.send("orders", "again")
        self.fail("orders")
        self.moved_on()
        self.run_time(61)
        assert self.take("orders") == ["again"]

    def test_message_that_a_plan_gives_back_is_found(self) -> None:
        self.queue()
        self.send("orders", "planned")
        with self.hub.write() as conn:
            queue = transfer.resolve(conn, "orders")
            claimed = transfer.claim(conn, queue, None, 1)
        self.moved_on()
        with self.hub.write() as conn:
            transfer.release(conn, queue, None, [claimed[0].id])
        assert self.take("orders") == ["planned"]

    def test_message_that_goes_ahead_of_all_is_found(self) -> None:
        self.queue()
        self.moved_on()
        self.send("orders", "usual")
        self.fail("orders", times=3)
        head = self.head()
        with self.hub.session() as session:
            options = EnqueueOptions(sequence_deviation=SequenceDeviation.TOP)
            session.enqueue("orders", Message("first"), options)
            session.commit()
        with self.hub.read() as conn:
            assert (conn.exec_driver_sql("SELECT min(k3) FROM aq_message").scalar() or 0) < head
        assert self.take("orders") == ["first", "usual"]

    def test_message_that_somebody_repairs_by_hand_is_found(self) -> None:
        self.queue()
        self.send("orders", "stuck")
        with self.hub.write() as conn:
            conn.exec_driver_sql("UPDATE aq_message SET state = 3")
        self.moved_on()
        with self.hub.write() as conn:
            conn.exec_driver_sql("UPDATE aq_message SET state = 0 WHERE state = 3")
        assert self.take("orders") == ["stuck"]

    def test_notes_are_kept_while_the_message_is_there_and_forgotten_after_it(self) -> None:
        def notes() -> Any:
            with self.hub.read() as conn:
                return conn.exec_driver_sql("SELECT count(*) FROM aq_reopened").scalar()

        self.queue()
        self.send("orders", "late", delay=60)
        self.moved_on()
        self.run_time(61)
        assert notes() == 1
        self.run_time()
        assert notes() == 1
        assert self.take("orders") == ["late"]
        self.run_time()
        assert notes() == 0

    def test_usual_messages_leave_no_notes(self) -> None:
        self.queue()
        with self.hub.session() as session:
            self.through(session, 2, 3)
            session.enqueue("orders", Message("x"))
            session.commit()
            session.dequeue("orders", now())
            session.rollback()
        with self.hub.read() as conn:
            assert conn.exec_driver_sql("SELECT count(*) FROM aq_reopened").scalar() == 0

    def test_hub_that_was_put_back_to_an_earlier_state_is_read_from_its_start(self) -> None:
        self.queue()
        self.moved_on()
        with self.hub.write() as conn:
            conn.exec_driver_sql("SELECT setval('aq_message_id', 1)")
        self.send("orders", "old")
        assert self.take("orders") == []  # and sees why
        assert self.take("orders") == ["old"]

    def test_statement_planned_for_an_empty_queue_follows_the_index_of_a_full_one(self) -> None:
        self.queue()
        self.read_little(self.hub.engine)

    def test_application_that_planned_for_an_empty_queue_follows_the_index_too(self) -> None:
        self.queue()
        engine = sa.create_engine(self.url)
        self.read_little(engine)
        engine.dispose()

    @pytest.mark.parametrize("consumer", [None, "RED"])
    def test_who_ends_some_does_not_read_all_that_is_in_hand(self, consumer: str | None) -> None:
        """Whatever the server thinks of a table that was empty when it looked, and after it has settled for a plan."""
        name = self.topic(consumer) if consumer else self.queue("events")
        index = "aq_entry_claimed" if consumer else "aq_message_claimed"
        with self.hub.write() as conn:
            queue = transfer.resolve(conn, name)
            transfer.put(conn, queue, [Message("x") for _ in range(1000)])
        with self.hub.write() as conn:
            ids = transfer.claim_numbers(conn, queue, consumer, 1000)
        read = []
        for number in range(0, 300, 30):
            with self.hub.write() as conn:
                assert len(transfer.load(conn, queue, consumer, ids[number : number + 30])) == 30
                transfer.release(conn, queue, consumer, ids[number : number + 10])
                transfer.complete(conn, queue, consumer, ids[number + 10 : number + 30])
                counted = f"SELECT pg_stat_get_xact_tuples_returned('{index}'::regclass)"
                read.append(conn.exec_driver_sql(counted).scalar())
        assert read == [0] * 10

    def read_little(self, engine: sa.Engine) -> None:
        """Few messages of many are read after the driver and the server have settled for a plan with none there."""
        with engine.connect() as conn, self.hub.session(conn) as session:
            for _ in range(12):
                session.enqueue("orders", Message("x"))
                session.dequeue("orders", now())
                conn.commit()
            session.enqueue_array("orders", [Message("x") for _ in range(5000)])
            conn.commit()
            with self.hub.session(conn) as other:  # the position of this one ends at the messages it has seen
                assert 1 <= self.read_entries(conn, other, 10) <= 50


@pytest.mark.postgresql
class TestViewOnPostgreSQL(Growth):
    """One queue with many messages, another with few."""

    @pytest.fixture
    def hub_url(self, postgresql: PostgreSQL) -> Iterator[str]:
        name = f"hub_views_{next(_number)}"
        yield postgresql.create_database(name)
        postgresql.drop_database(name)

    @pytest.mark.parametrize("few", [0, 3])
    @pytest.mark.parametrize("table", [{}, {"multiple_consumers": True}])
    def test_the_messages_of_other_queue_tables_are_not_looked_through(self, table: dict[str, Any], few: int) -> None:
        for queue in ("many", "few"):
            self.queue(queue, table=table)
            if table:
                self.admin.add_subscriber(queue, "me")
        with self.hub.session() as session:
            for _ in range(100):
                session.enqueue_array("many", [Message("x" * 200) for _ in range(BATCH)])
            for at in range(few):
                session.enqueue("few", Message(str(at)))
            session.commit()
        plain = sa.create_engine(self.hub.engine.url, poolclass=sa.NullPool)  # without what the hub tells its planner
        with plain.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
            conn.exec_driver_sql("VACUUM ANALYZE")
            query = 'SELECT * FROM "AQ$FEW_T" LIMIT 100'
            assert len(conn.exec_driver_sql(query).fetchall()) == few
            plan = "\n".join(row[0] for row in conn.exec_driver_sql(f"EXPLAIN {query}"))
            assert len(conn.exec_driver_sql('SELECT * FROM "AQ$MANY_T"').fetchall()) == 100 * BATCH
        assert "Seq Scan on aq_message" not in plan, plan


class TestSQLite(Growth):
    """SQLite removes what is deleted at once; a search follows the index and stops."""

    @pytest.fixture
    def hub_url(self, tmp_path: Path) -> str:
        return f"sqlite:///{tmp_path}/hub.db"

    @pytest.mark.parametrize("sort_list", ["ENQ_TIME", "PRIORITY"])
    def test_search_follows_an_index_without_sorting(self, sort_list: str) -> None:
        self.queue(table={"sort_list": sort_list})
        statements: list[str] = []
        with self.hub.session() as session:
            session.enqueue_array("orders", [Message("x") for _ in range(10)])
            session.commit()
            with self.hub.write() as conn:
                driver: Any = conn.connection.driver_connection
                driver.set_trace_callback(statements.append)
            session.dequeue_array("orders", now(), 5)
            session.commit()
            driver.set_trace_callback(None)
            del driver
        searches = [each for each in statements if "FROM aq_message" in each and "LIMIT" in each]
        assert searches
        with self.hub.read() as conn:
            for each in searches:
                plan = [row[3] for row in conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {each}")]
                assert "aq_message_ready" in plan[0], plan
                assert not [step for step in plan if "B-TREE" in step or step.startswith("SCAN")], plan

    def test_queue_that_is_emptied_again_and_again_is_searched_once_for_each_call(self) -> None:
        self.queue()
        statements: list[str] = []
        with self.hub.session() as session:
            self.through(session, 2, 5)
            with self.hub.write() as conn:
                driver: Any = conn.connection.driver_connection
                driver.set_trace_callback(statements.append)
            self.through(session, 3, 5)
            driver.set_trace_callback(None)
            del driver
        assert len([each for each in statements if "FROM aq_message" in each and "LIMIT" in each]) == 3

    def test_a_batch_by_priority_writes_as_many_pages_when_many_wait(self) -> None:
        self.queue("few", table={"sort_list": "PRIORITY"})
        self.queue("many", table={"sort_list": "PRIORITY"})
        written = []
        with self.hub.session() as session:

            def put(queue: str) -> None:
                session.enqueue_array(queue, [Message("x" * 250, priority=at % 10) for at in range(BATCH)])
                session.commit()

            for queue, batches in (("few", 2), ("many", 60)):
                for _ in range(batches):
                    put(queue)
                self._cut_log()
                put(queue)
                assert len(session.dequeue_array(queue, now(), BATCH)) == BATCH
                session.commit()
                written.append(Path(f"{self.hub.path}-wal").stat().st_size)
        assert written[1] < 1.8 * written[0]  # 500 pages instead of 60, where each message lies in a page of its own

    @pytest.mark.parametrize("table", [{}, {"multiple_consumers": True}])
    def test_view_of_a_queue_table_reads_no_more_than_it_shows(self, table: dict[str, Any]) -> None:
        self.queue(table=table)
        with self.hub.read() as conn:
            plan = [row[3] for row in conn.exec_driver_sql('EXPLAIN QUERY PLAN SELECT * FROM "AQ$orders_t" LIMIT 10')]
        through = {step for step in plan if re.match(r"SCAN [mx]\b", step)}
        assert through == {"SCAN x USING COVERING INDEX aq_message_waiting"}, plan  # by the time, for all queues
        assert not [step for step in plan if "AUTOMATIC" in step or "B-TREE" in step or "MATERIALIZE" in step], plan

    def _cut_log(self) -> None:
        with closing(sqlite3.connect(self.hub.path or "", isolation_level=None)) as other:
            assert other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0

    def test_log_is_cut_when_nobody_reads_it_and_its_growth_is_told(self, caplog: pytest.LogCaptureFixture) -> None:
        def size() -> int:
            return Path(f"{self.hub.path}-wal").stat().st_size

        self.queue()
        reader = sqlite3.connect(self.hub.path or "", isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM aq_message").fetchone()
        with self.hub.session() as session:
            self.through(session, 3)
        grown = size()
        assert grown > 100_000
        assert not shorten(self.hub, 100_000)
        assert not shorten(self.hub, 100_000)
        assert [
            record.getMessage() for record in caplog.records if "keeps a read transaction open" in record.getMessage()
        ]
        assert len(caplog.records) == 1  # it is said once, and again when the log has doubled
        assert size() == grown
        reader.execute("COMMIT")
        reader.close()
        assert shorten(self.hub, 100_000)
        assert size() == 0
        with self.hub.session() as session:
            self.through(session, 1)
        assert not shorten(self.hub, 1 << 30)
