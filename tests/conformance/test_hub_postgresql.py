"""The hub on PostgreSQL."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa

from mgw.gateway.aq.conditions.rules import register_function, unregister_function
from mgw.gateway.aq.hub import Hub
from mgw.gateway.aq.model import DequeueMode, DequeueOptions, EnqueueOptions, Visibility
from mgw.gateway.aq.store.statements import Db
from mgw.gateway.aq.upkeep import time_manager
from mgw.transforms.errors import AqError, HubError, HubMissing, HubUnavailable
from mgw.transforms.message import Message
from tests.conformance import hub_suite as base
from tests.conformance import suites
from tests.support.brokers import PostgreSQL
from tests.support.ports import free_port
from tests.support.proxy import TcpProxy
from tests.support.ready_hubs import ready_hubs

pytestmark = pytest.mark.postgresql


@pytest.fixture(scope="module")
def hubs(postgresql: PostgreSQL) -> Iterator[Callable[[], AbstractContextManager[str]]]:
    with ready_hubs(postgresql, "hub_suite", partial(Hub.open, create=True)) as made:
        yield made


@pytest.fixture
def hub_url(
    hubs: Callable[[], AbstractContextManager[str]], postgresql: PostgreSQL, request: pytest.FixtureRequest
) -> Iterator[str]:
    if getattr(request.cls, "makes_its_hub", False):
        yield postgresql.create_database("hub_opened")
        postgresql.drop_database("hub_opened")
        return
    with hubs() as url:
        yield url


globals().update(suites.classes("postgresql", __name__))


class TestPostgreSQL(base.HubCase):
    """What only a server can do."""

    def test_message_that_failed_between_search_and_lock_is_judged_again(self) -> None:
        self.queue()
        self.send("orders", "a", "b")
        failed: list[str] = []

        def watch(payload: str) -> bool:
            if not failed:
                failed.append(payload)
                self.fail("orders")
            return True

        register_function("watch", watch)
        try:
            with self.hub.session() as session:
                options = DequeueOptions(deq_condition="watch(tab.user_data) AND retry_count = 0", wait=0)
                found = session.dequeue_array("orders", options, 10)
                assert [each.message.body for each in found] == ["b"]
        finally:
            unregister_function("watch")
        assert failed == ["a"]

    def test_full_commits_are_durable(self) -> None:
        with self.hub.read() as conn:
            assert conn.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"
        with Hub.open(self.url, durability="fast") as fast, fast.read() as conn:
            assert conn.exec_driver_sql("SHOW synchronous_commit").scalar() == "off"

    def test_numbers_and_ages_of_messages_read_no_messages(self) -> None:
        self.queue()
        for view in ("V$AQ", "GV$AQ", "V$PERSISTENT_QUEUES"):
            with self.hub.read() as conn:
                plan = "\n".join(row[0] for row in Db(conn).rows(f"EXPLAIN (VERBOSE) SELECT * FROM {view}"))
            assert "aq_total" in plan, plan
            assert "aq_message" not in plan, plan
            assert all("aq_entry_waiting" in step for step in plan.splitlines() if re.search(r"aq_entry e\b", step)), (
                plan
            )

    def test_plain_url_works_and_no_password_is_shown(self) -> None:
        url = self.url.replace("postgresql+psycopg://mgw@", "postgresql://mgw:geheim@")
        with Hub.open(url) as hub:
            assert "geheim" not in hub.name
            assert hub.hub_id == self.hub.hub_id

    def test_lost_connections_are_replaced(self) -> None:
        self.queue()
        self.kill_connections()

        def sent() -> bool:
            self.send("orders", "x")
            return True

        base.eventually(sent, tolerate=(HubUnavailable,))
        assert self.take("orders") == ["x"]

    def test_call_of_its_own_fails_once_when_its_connection_was_killed_while_idle(self) -> None:
        self.queue()
        at_once = EnqueueOptions(visibility=Visibility.IMMEDIATE)
        with self.hub.session() as session:
            session.enqueue("orders", Message("a"), at_once)
            self.kill_connections()
            with pytest.raises(HubUnavailable):
                session.enqueue("orders", Message("lost"), at_once)
            session.enqueue("orders", Message("b"), at_once)
            self.hub.statistics.flush(self.hub)
        assert self.take("orders") == ["a", "b"]
        with self.hub.read() as conn:
            assert conn.exec_driver_sql("SELECT sum(enqueued) FROM aq_activity WHERE kind = 'QUEUE'").scalar() == 2

    def keep_connections(self) -> None:
        """Several, for sessions and in the pool."""
        writers = [self.hub.take_writer() for _ in range(4)]
        for writer in writers:
            self.hub.keep_writer(writer)
        readers = [self.hub.engine.connect() for _ in range(4)]
        for each in readers:
            each.close()

    def kill_connections(self) -> None:
        """All of this hub, whatever they do."""
        with self.hub.engine.connect() as conn:
            conn.exec_driver_sql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )

    def test_one_write_fails_when_connections_kept_for_writing_were_killed_while_idle(self) -> None:
        self.queue()
        together = threading.Barrier(4)

        def write() -> None:
            with self.hub.write() as conn:
                conn.exec_driver_sql("SELECT 1")
                together.wait(30)

        threads = [threading.Thread(target=write) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.kill_connections()
        with pytest.raises(HubUnavailable), self.hub.write() as conn:
            Db(conn).rows("SELECT 1")
        for _ in range(8):
            with self.hub.write() as conn:
                assert Db(conn).rows("SELECT 1") == [(1,)]
            with self.hub.read() as conn:
                assert Db(conn).rows("SELECT 1") == [(1,)]

    def test_one_call_fails_when_connections_kept_for_sessions_were_killed_while_idle(self) -> None:
        self.queue()
        at_once = EnqueueOptions(visibility=Visibility.IMMEDIATE)
        self.keep_connections()
        self.kill_connections()
        with self.hub.session() as session:
            with pytest.raises(HubUnavailable):
                session.enqueue("orders", Message("lost"), at_once)
            for number in range(6):
                session.enqueue("orders", Message(f"{number}"), at_once)
        assert self.take("orders") == [f"{number}" for number in range(6)]

    def test_connection_killed_at_the_commit_is_not_used_again(self) -> None:
        def write() -> None:
            with self.hub.write() as conn:
                Db(conn).run("UPDATE aq_hub SET created = created + 1")
                self.kill_connections()

        with pytest.raises(HubUnavailable):
            write()
        with self.hub.write() as conn:
            assert Db(conn).rows("SELECT 1") == [(1,)]

    def test_connections_that_are_lost_together_at_a_commit_are_all_replaced(self) -> None:
        """Also those in the pool: each would take somebody else's transaction with it."""
        self.keep_connections()
        outside = sa.create_engine(self.hub.engine.url, poolclass=sa.pool.NullPool)

        def write() -> None:
            with self.hub.write() as conn:
                Db(conn).run("UPDATE aq_hub SET created = created + 1")
                with outside.connect() as other:
                    other.exec_driver_sql(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                    )

        with self.hub.read() as conn:
            before = Db(conn).scalar("SELECT created FROM aq_hub")
        with pytest.raises(HubUnavailable):
            write()
        for _ in range(6):
            with self.hub.write() as conn:
                assert Db(conn).scalar("SELECT created FROM aq_hub") == before
            with self.hub.read() as conn:
                assert Db(conn).rows("SELECT 1") == [(1,)]

    def test_hub_that_is_closed_while_a_thread_writes_leaves_no_connection_open(self) -> None:
        hub = Hub.open(self.url)
        inside, closed = threading.Event(), threading.Event()
        served: list[int] = []

        def write() -> None:
            with hub.write() as conn:
                served.append(Db(conn).rows("SELECT pg_backend_pid()")[0][0])
                inside.set()
                closed.wait(30)

        thread = threading.Thread(target=write)
        thread.start()
        assert inside.wait(30)
        hub.close()
        closed.set()
        thread.join()

        def gone() -> bool:
            with self.hub.read() as conn:
                return not Db(conn).rows("SELECT 1 FROM pg_stat_activity WHERE pid = ?", (served[0],))

        base.eventually(gone)

    def backends(self) -> int:
        with self.hub.read() as conn:
            return int(Db(conn).rows("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")[0][0])

    def test_hub_that_is_closed_while_a_session_waits_leaves_no_connection_open(self) -> None:
        self.queue()
        before = self.backends()
        hub = Hub.open(self.url)
        session = hub.session()

        def wait() -> None:
            with session, pytest.raises(HubUnavailable, match="is closed"):
                session.dequeue("orders", DequeueOptions(wait=60))

        thread = threading.Thread(target=wait)
        thread.start()
        base.eventually(lambda: hub.notifier.waiting)
        hub.close()
        thread.join(20)
        assert not thread.is_alive()
        base.eventually(lambda: self.backends() == before)

    def test_session_whose_connection_is_killed_goes_on_after_a_rollback(self) -> None:
        self.queue()
        self.send("orders", "a", "b")
        with self.hub.session() as session:
            session.enqueue("orders", Message("lost"))
            session.dequeue("orders", DequeueOptions(wait=0))
            self.kill_connections()
            for again in (session.commit, session.commit, lambda: session.dequeue("orders", DequeueOptions(wait=0))):
                with pytest.raises(HubUnavailable):
                    again()
            session.rollback()
            found = base.eventually(
                lambda: session.dequeue_array("orders", DequeueOptions(wait=0), 10), tolerate=(HubUnavailable, AqError)
            )
            assert [(each.message.body, each.message.attempts) for each in found] == [("a", 1), ("b", 0)]
            session.commit()

    @pytest.mark.parametrize("consumer", [None, "RED"])
    def test_commit_whose_answer_is_lost_happened_once(self, postgresql: PostgreSQL, consumer: str | None) -> None:
        queue = self.topic("RED") if consumer else self.queue()
        self.send(queue, "taken", "left")
        with (
            TcpProxy("127.0.0.1", postgresql.port) as proxy,
            Hub.open(self.url.replace(f":{postgresql.port}/", f":{proxy.port}/"), clock=self.clock) as hub,
        ):
            session = hub.session()
            session.dequeue(queue, DequeueOptions(consumer, wait=0))
            session.enqueue(queue, Message("put"))
            proxy.stall(requests=False)

            def commit() -> None:
                with pytest.raises(HubUnavailable):
                    session.commit()

            thread = threading.Thread(target=commit)
            thread.start()

            def committed() -> bool:
                options = DequeueOptions(consumer, DequeueMode.BROWSE, wait=0)
                with self.hub.session() as other:
                    return [base.body_of(one) for one in other.dequeue_array(queue, options, 10)] == ["left", "put"]

            base.eventually(committed)
            proxy.cut()
            proxy.resume()
            thread.join(20)
            assert not thread.is_alive()
            session.rollback()  # counts no attempt of what is consumed
            session.close()
            base.eventually(lambda: time_manager.run_once(hub), tolerate=(HubUnavailable,))
            assert not hub.rolled_back
        assert self.take(queue, consumer) == ["left", "put"]
        with self.hub.read() as conn:
            assert Db(conn).rows("SELECT max(attempts) FROM aq_entry" if consumer else "SELECT 0") == [(0,)]

    def test_connection_notices_that_the_server_does_not_answer(self) -> None:
        def options(hub: Hub) -> dict[str, str]:
            with hub.read() as conn:
                driver: Any = conn.connection.driver_connection
                known: dict[str, str] = driver.info.get_parameters()
                return known

        assert options(self.hub)["tcp_user_timeout"] == "60000"
        with Hub.open(f"{self.url}&tcp_user_timeout=5000") as hub:
            assert options(hub)["tcp_user_timeout"] == "5000"
            assert "5000" in hub.name

    def test_attempt_is_counted_when_the_connection_was_lost_before_the_rollback(self) -> None:
        self.queue()
        self.send("orders", "x")
        with self.hub.session() as session:
            session.dequeue("orders", DequeueOptions(wait=0))
            self.kill_connections()
            with pytest.raises(HubUnavailable):
                session.rollback()
        with self.hub.session() as session:

            def found() -> int:
                return session.dequeue("orders", DequeueOptions(wait=0)).message.attempts

            assert base.eventually(found, tolerate=(HubUnavailable, AqError)) == 1

    def test_foreign_database_is_refused(self, postgresql: PostgreSQL) -> None:
        url = postgresql.create_database("strangers")
        engine = base.sa.create_engine(url)
        with engine.begin() as conn:
            conn.exec_driver_sql("CREATE TABLE customers (id integer)")
        engine.dispose()
        with pytest.raises(HubError, match=r"not a hub.*customers"):
            Hub.open(f"{url}?schema=public", create=True)
        postgresql.drop_database("strangers")

    def test_server_that_is_away_is_named_without_password(self) -> None:
        port = free_port()
        with pytest.raises(HubUnavailable, match="cannot be reached") as caught:
            Hub.open(f"postgresql://mgw:geheim@127.0.0.1:{port}/hub")
        assert "geheim" not in str(caught.value)
        assert str(port) in str(caught.value)

    def test_missing_database_says_how_to_make_it(self) -> None:
        with pytest.raises(HubMissing, match=r"does not exist.*createdb"):
            Hub.open(self.url.rpartition("/")[0] + "/nothing_there")
