"""The hub on SQLite."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from mgw.gateway.aq.hub import Hub
from mgw.gateway.aq.model import DequeueMode, DequeueOptions
from mgw.gateway.aq.queues import transfer
from mgw.gateway.aq.upkeep import time_manager
from mgw.transforms.errors import HubError, HubFull, HubVersionMismatch, LeaseLost
from mgw.transforms.message import Message
from tests.conformance import hub_suite as base
from tests.conformance import suites
from tests.support.ready_hubs import ready_file


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ready_file(tmp_path_factory.mktemp("ready") / "hub.db", partial(Hub.open, create=True))


@pytest.fixture
def hub_url(ready: Path, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    if not getattr(request.cls, "makes_its_hub", False):
        shutil.copy(ready, tmp_path / "hub.db")
    return f"sqlite:///{tmp_path}/hub.db"


globals().update(suites.classes("sqlite", __name__))


class TestSQLite(base.HubCase):
    """What only a file can do."""

    def test_nobody_else_may_read_the_files(self, tmp_path: Path) -> None:
        before = os.umask(0o022)
        try:
            with Hub.open(f"sqlite:///{tmp_path}/private.db", create=True) as hub, hub.write():
                modes = {path.name: path.stat().st_mode & 0o007 for path in tmp_path.glob("private.db*")}
        finally:
            os.umask(before)
        assert set(modes) >= {"private.db", "private.db-wal"}
        assert set(modes.values()) == {0}

    def test_no_rule_about_a_column_builds_a_list_for_every_message(self) -> None:
        with self.hub.read() as conn:
            for table in ("aq_message", "aq_entry"):
                program = conn.exec_driver_sql(f"EXPLAIN INSERT INTO {table} DEFAULT VALUES")
                assert "OpenEphemeral" not in {row.opcode for row in program}, table

    def test_full_commits_are_durable(self) -> None:
        with self.hub.read() as conn:
            assert conn.exec_driver_sql("PRAGMA synchronous").scalar() == 2
            assert conn.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert self.hub.durability == "full"
        with Hub.open(self.url, durability="fast") as fast, fast.read() as conn:
            assert conn.exec_driver_sql("PRAGMA synchronous").scalar() == 1

    def test_only_claims_may_be_forgotten_at_a_power_failure(self) -> None:
        with self.hub.write(durable=False) as conn:
            assert conn.exec_driver_sql("PRAGMA synchronous").scalar() == 1
        with self.hub.write() as conn:
            assert conn.exec_driver_sql("PRAGMA synchronous").scalar() == 2
        with self.hub.engine.begin() as conn:
            assert conn.exec_driver_sql("PRAGMA synchronous").scalar() == 2

    def test_full_disk_is_named_and_loses_nothing(self) -> None:
        self.queue()
        self.send("orders", "kept")
        with self.hub.write() as conn:  # the limit is the connection's: the one that writes
            pages = conn.exec_driver_sql("PRAGMA page_count").scalar_one()
            conn.exec_driver_sql(f"PRAGMA max_page_count = {pages + 3}")
        with self.hub.session() as session:
            session.enqueue("orders", Message(bytes(100_000)))
            with pytest.raises(HubFull, match=r"is full.*nothing was stored"):
                session.commit()
            session.rollback()
        with self.hub.write() as conn:
            conn.exec_driver_sql("PRAGMA max_page_count = 1000000")
        assert self.take("orders") == ["kept"]

    def test_session_keeps_no_write_lock_between_calls(self) -> None:
        self.queue()
        self.send("orders", "a", "b")
        with self.hub.session() as session:
            session.dequeue("orders", DequeueOptions(wait=0))
            session.enqueue("orders", Message("c"))
            writer = sqlite3.connect(self.hub.path or "", timeout=0)
            writer.execute("BEGIN IMMEDIATE")
            writer.rollback()
            writer.close()

    @pytest.mark.parametrize("consumer", [None, "RED"])
    def test_session_that_was_taken_for_dead_and_goes_on_loses_nothing_when_it_dies(self, consumer: str | None) -> None:
        queue = self.topic("RED") if consumer else self.queue()
        session = self.hub.session()
        self.send(queue, "a", "b")
        session.dequeue(queue, base.now(consumer_name=consumer, dequeue_mode=DequeueMode.LOCKED))
        with Hub.open(self.url, clock=self.clock) as other:
            self.clock.time += 31
            assert time_manager.run_once(other).returned == 1
            session.rollback()
            session.dequeue_array(queue, base.now(consumer_name=consumer))
            assert time_manager.run_once(other).returned == 0
            self.hub.registry.forget(session._work.claim or 0)
            self.clock.time += 31
            assert time_manager.run_once(other).returned == 2
        assert self.take(queue, consumer) == ["a", "b"]

    def test_session_that_was_taken_for_dead_commits_what_it_takes_afterwards(self) -> None:
        self.queue()
        (first, *_) = self.send("orders", "a", "b", "c")
        with self.hub.session() as session, Hub.open(self.url, clock=self.clock) as other:
            session.dequeue("orders", base.now(dequeue_mode=DequeueMode.LOCKED))
            session.savepoint("here")
            session.dequeue("orders", base.now(msgid=first))  # to be locked again
            self.clock.time += 31
            assert time_manager.run_once(other).returned == 1
            session.rollback_to("here")
            assert self.take("orders", dequeue_mode=DequeueMode.LOCKED) == ["a", "b", "c"]
            session.dequeue("orders", base.now())
            self.clock.time += 31
            assert time_manager.run_once(other).returned == 1
            session.dequeue("orders", base.now())
            with pytest.raises(LeaseLost):
                session.commit()
            session.rollback()
            session.dequeue("orders", base.now())
            session.commit()
        assert len(self.view("orders_t")) == 2

    def test_hub_is_closed_soon_although_somebody_writes(self) -> None:
        other = Hub.open(self.url, clock=self.clock)
        self.queue()
        with other.session() as session:
            session.enqueue("orders", Message("x"))
            session.commit()
        other.statistics.flush(other)  # so that there is something to forget
        writer = sqlite3.connect(self.hub.path or "", isolation_level=None)
        writer.execute("BEGIN IMMEDIATE")
        started = time.monotonic()
        other.close()
        assert time.monotonic() - started < 10
        writer.rollback()
        writer.close()

    def test_second_write_transaction_of_a_thread_is_refused_at_once(self) -> None:
        with self.hub.write(), pytest.raises(HubError, match="second write transaction"), self.hub.write():
            pass

    def test_writers_take_turns_in_order_of_arrival(self) -> None:
        order: list[int] = []
        with self.hub.write():
            threads = []
            for number in range(8):

                def work(number: int = number) -> None:
                    with self.hub.write():
                        order.append(number)

                thread = threading.Thread(target=work)
                thread.start()
                threads.append(thread)
                waiting = self.hub._lock._waiting  # type: ignore[union-attr]
                base.eventually(lambda waiting=waiting, number=number: len(waiting) == number + 1)
        for thread in threads:
            thread.join()
        assert order == list(range(8))

    def test_row_ids_are_never_given_twice(self) -> None:
        self.queue()
        first = self.send("orders", "a")
        assert self.take("orders") == ["a"]
        assert self.send("orders", "a") != first

    def test_plain_sqlite3_reads_the_message_view(self) -> None:
        self.queue("Orders")
        self.send("orders", "hello", correlation="c")
        connection = sqlite3.connect(self.hub.path or "")
        rows = connection.execute('SELECT "QUEUE", "CORR_ID", "MSG_STATE", "USER_DATA" FROM "AQ$ORDERS_T"').fetchall()
        connection.close()
        assert rows == [("ORDERS", "c", "READY", "hello")]

    def plan(self, sql: str) -> str:
        with self.hub.read() as conn:
            return "\n".join(row[3] for row in conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}"))

    def test_numbers_and_ages_of_messages_read_no_messages(self) -> None:
        self.queue()
        for view in ("V$AQ", "GV$AQ", "V$PERSISTENT_QUEUES"):
            plan = self.plan(f"SELECT * FROM {view}")
            assert "aq_total" in plan, plan
            assert not re.search(r"aq_message|\bm\b", plan), plan
            # of entries those that wait for the end of a delay
            assert all("INDEX aq_entry_waiting" in step for step in plan.splitlines() if re.search(r"\be\b", step)), (
                plan
            )

    def test_counting_activity_costs_a_session_no_statement(self) -> None:
        self.queue()
        self.topic("RED")
        statements: list[str] = []
        with self.hub.session() as session:
            with self.hub.write() as conn:
                conn.connection.driver_connection.set_trace_callback(statements.append)  # type: ignore[union-attr]
            for queue, consumer in (("orders", None), ("events", "RED")):
                session.enqueue(queue, Message("x", sender_name="shop"))
                session.commit()
                session.dequeue(queue, DequeueOptions(consumer, wait=0))
                session.commit()
        assert any("INSERT INTO aq_message" in statement for statement in statements)
        assert [each for each in statements if "aq_process" in each or "aq_activity" in each] == []
        self.run_time()
        with self.hub.read() as conn:
            assert conn.exec_driver_sql("SELECT sum(enqueued_msgs) FROM V$PERSISTENT_QUEUES").scalar() == 2

    def test_put_and_claim_cost_statements_per_batch(self) -> None:
        self.queue()
        statements: list[str] = []
        with self.hub.read() as conn:
            queue = transfer.resolve(conn, "orders")
        with self.hub.write() as conn:
            conn.connection.driver_connection.set_trace_callback(statements.append)  # type: ignore[union-attr]
            transfer.put(conn, queue, [Message(str(n)) for n in range(200)])
            inserts = sum(statement.startswith("INSERT") for statement in statements)
            others = len(statements) - inserts
            claimed = transfer.claim(conn, queue, None, 200)
            transfer.complete(conn, queue, None, [one.id for one in claimed])
            conn.connection.driver_connection.set_trace_callback(None)  # type: ignore[union-attr]
        # A statement is told again for every row that a trigger looks at.
        statements = [statement for statement, _ in itertools.groupby(statements)]
        assert inserts == 10 + 1  # one prepared statement, run for 20 rows at a time; the numbers of messages
        assert (
            sum("INTO aq_total" in statement for statement in statements) == 2
        )  # of those that came, of those that went
        assert others <= 4
        assert len(statements) - inserts - others <= 8


class TestForeignFiles:
    """Files that are no hub are refused and left alone."""

    def test_missing_hub_says_how_to_make_it(self, tmp_path: Path) -> None:
        with pytest.raises(HubError, match=r"does not exist.*mgw apply"):
            Hub.open(f"sqlite:///{tmp_path}/none.db")
        assert not (tmp_path / "none.db").exists()

    @pytest.mark.parametrize("create", [False, True])
    def test_other_file_is_untouched(self, tmp_path: Path, create: bool) -> None:
        path = tmp_path / "notes.txt"
        path.write_text("this is no database, but a text of some length")
        before = path.read_bytes()
        with pytest.raises(HubVersionMismatch, match="not an SQLite database"):
            Hub.open(f"sqlite:///{path}", create=create)
        assert path.read_bytes() == before

    @pytest.mark.parametrize("create", [False, True])
    def test_other_database_is_untouched(self, tmp_path: Path, create: bool) -> None:
        path = tmp_path / "other.db"
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE customers (id integer)")
        connection.close()
        before = path.read_bytes()
        with pytest.raises(HubError, match="journal_mode delete" if create else r"does not exist.*customers"):
            Hub.open(f"sqlite:///{path}", create=create)
        assert path.read_bytes() == before

    def test_opening_a_hub_again_keeps_the_locks_of_the_process(self, tmp_path: Path) -> None:
        """Another process that closes the hub must see that it is not the last one: else it removes the log."""
        url = f"sqlite:///{tmp_path}/hub.db"
        change = "UPDATE aq_counter SET value = value + 1"
        program = f"from mgw.gateway.aq.hub import Hub\nwith Hub.open({url!r}) as hub, hub.write() as conn:\n"
        program += f"    conn.exec_driver_sql({change!r})\n"
        with Hub.open(url, create=True) as hub:
            Hub.open(url).close()
            log = (tmp_path / "hub.db-wal").stat().st_ino
            subprocess.run([sys.executable, "-c", program], check=True)
            assert (tmp_path / "hub.db-wal").stat().st_ino == log
            with hub.write() as conn:
                conn.exec_driver_sql(change)
            subprocess.run([sys.executable, "-c", program], check=True)
            with hub.read() as conn:
                assert conn.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"

    @pytest.mark.parametrize("url", ["nonsense", "mysql://host/db", "sqlite://", "sqlite:///:memory:"])
    def test_unusable_url_is_explained(self, url: str) -> None:
        with pytest.raises(HubError, match=r"cannot be (read|used)"):
            Hub.open(url, create=True)

    def test_folder_that_does_not_exist_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(HubError, match="no-such-folder"):
            Hub.open(f"sqlite:///{tmp_path}/no-such-folder/hub.db", create=True)
