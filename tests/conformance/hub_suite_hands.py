"""Messages in other hands, and sessions that end without a word: what nobody may wait for. Run by test_hub_*.py."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from mgw.gateway.aq.hub import Hub
from mgw.gateway.aq.model import Agent, DequeueMode, DequeueOptions, EnqueueOptions, Navigation, Visibility
from mgw.gateway.aq.sessions.session import Session
from mgw.gateway.aq.store.statements import Db
from mgw.gateway.aq.upkeep import time_manager
from mgw.transforms.errors import HubUnavailable
from mgw.transforms.message import Message
from tests.conformance.hub_suite import HubCase, now, refused
from tests.conformance.hub_suite_transfer import ProcessSuite
from tests.support.waiting import eventually


def _hold(url: str, pipe: Any) -> None:
    """Child: lock, or take, a message by its id and wait to be killed."""
    queue, consumer, msgid, mode = pipe.recv()
    with Hub.open(url) as hub, hub.session() as session:
        session.dequeue(queue, now(consumer_name=consumer, msgid=msgid, dequeue_mode=mode))
        pipe.send("held")
        pipe.recv()


class HandsSuite(HubCase):
    """A message that is over its retries for all its recipients, and that somebody has in hand all the same."""

    def entries(self) -> dict[str, str]:
        return {row["CONSUMER_NAME"]: row["MSG_STATE"] for row in self.view("events_t")}

    def blocked(self) -> bytes:
        """A message that RED may not have any more and GREEN fails to take next."""
        self.clock.time = time.time()  # other processes go by the true one
        self.topic("RED", "GREEN", max_retries=0)
        (msgid,) = self.send("events", "x")
        self.fail("events", "RED")
        assert self.entries() == {"RED": "UNDELIVERABLE", "GREEN": "READY"}
        return msgid

    @contextmanager
    def held(self, consumer: str, msgid: bytes, mode: DequeueMode) -> Iterator[None]:
        """Another process has the message in hand meanwhile, and is killed at the end."""
        process, pipe = ProcessSuite.child(self, _hold)  # type: ignore[arg-type]
        try:
            pipe.send(("events", consumer, msgid, mode))
            assert pipe.recv() == "held"
            yield
        finally:
            os.kill(process.pid, signal.SIGKILL)
            process.join()
            pipe.close()

    @pytest.mark.parametrize("mode", [DequeueMode.LOCKED, DequeueMode.REMOVE])
    def test_message_blocked_for_all_is_left_to_who_has_it_in_hand(self, mode: DequeueMode) -> None:
        msgid = self.blocked()
        with self.hub.session() as holder:
            holder.dequeue("events", now(consumer_name="RED", msgid=msgid, dequeue_mode=mode))
            failing = threading.Thread(target=self.fail, args=("events", "GREEN"), daemon=True)
            failing.start()
            failing.join(20)
            assert not failing.is_alive(), "the rollback waits for another session"
            working = threading.Thread(target=self.run_time, daemon=True)
            working.start()
            working.join(20)
            assert not working.is_alive(), "the time manager waits for a session"
            assert self.view("events_t")[0]["QUEUE"] == "EVENTS"
            holder.commit()
        self.run_time()
        rows = {row["CONSUMER_NAME"]: row for row in self.view("events_t")}
        assert {row["QUEUE"] for row in rows.values()} == {"AQ$_EVENTS_T_E"}
        assert (rows["RED"]["DEQ_TIMESTAMP"] is not None) is (mode is DequeueMode.REMOVE)

    def test_many_messages_in_hand_do_not_keep_the_time_manager_from_its_end(self) -> None:
        self.topic("RED", "GREEN", max_retries=0)
        number = 120  # more than one transaction of the time manager takes
        self.send("events", *map(str, range(number)))
        with self.hub.session() as session:
            session.dequeue_array("events", now(consumer_name="RED"), number)
            session.rollback()
        with self.hub.session() as holder, self.hub.session() as session:
            for found in session.dequeue_array("events", now(consumer_name="GREEN"), number):
                holder.dequeue("events", now(consumer_name="RED", msgid=found.msgid, dequeue_mode=DequeueMode.LOCKED))
            session.rollback()
            working = threading.Thread(target=self.run_time, daemon=True)
            working.start()
            working.join(20)
            assert not working.is_alive()
            holder.rollback()
        self.run_time()
        assert {row["QUEUE"] for row in self.view("events_t")} == {"AQ$_EVENTS_T_E"}

    @pytest.mark.parametrize("mode", [DequeueMode.LOCKED, DequeueMode.REMOVE])
    def test_killed_process_leaves_a_blocked_recipient_blocked(self, mode: DequeueMode) -> None:
        msgid = self.blocked()
        with self.held("RED", msgid, mode):
            self.fail("events", "GREEN")
            self.run_time()
            assert self.view("events_t")[0]["QUEUE"] == "EVENTS"

        def moved() -> bool:
            time_manager.run_once(self.hub)
            return {row["QUEUE"] for row in self.view("events_t")} == {"AQ$_EVENTS_T_E"}

        eventually(moved, what="a message that nobody can take any more")

    def test_killed_process_leaves_who_is_not_over_the_limit_ready(self) -> None:
        self.topic("RED", max_retries=1)
        (msgid,) = self.send("events", "x")
        self.fail("events", "RED")
        with self.held("RED", msgid, DequeueMode.REMOVE):
            pass

        def back() -> list[Any]:
            time_manager.run_once(self.hub)
            return self.take("events", "RED")

        assert eventually(back) == ["x"]

    def test_more_queues_than_a_notice_can_name_are_told_all_the_same(self) -> None:
        with self.hub.write() as conn:
            Db(conn).notify(range(10**9, 10**9 + 3000))
        self.queue()
        woken = threading.Event()
        with self.hub.read() as conn:
            (queue_id,) = conn.exec_driver_sql("SELECT id FROM aq_queue WHERE name_key = 'MGW.ORDERS'").one()
        unsubscribe = self.hub.notifier.subscribe([queue_id], woken.set)
        with Hub.open(self.url, clock=self.clock) as other, other.session() as session:

            def told() -> bool:
                with other.write() as conn:
                    Db(conn).notify([*range(10**9, 10**9 + 3000), queue_id])
                session.enqueue("orders", Message("x"), EnqueueOptions(visibility=Visibility.IMMEDIATE))
                return woken.wait(0.2)

            eventually(told)
        unsubscribe()

    def test_exception_queue_of_another_payload_type_takes_no_message(self, caplog: pytest.LogCaptureFixture) -> None:
        self.admin.create_type("oe.point", {"x": "NUMBER"})
        self.queue(table={"queue_payload_type": "OE.POINT"})
        self.admin.create_queue_table("other_t")
        self.admin.start_queue("AQ$_other_t_E", enqueue=False)
        with self.hub.session() as session:
            session.enqueue("orders", Message({"x": 1}, expiration=1, exception_queue="AQ$_other_t_E"))
            session.commit()
        with caplog.at_level(logging.WARNING):
            assert self.run_time(2).expired == 1
        assert "AQ$_other_t_E" in caplog.text
        (row,) = self.view("orders_t")
        assert (row["QUEUE"], row["EXCEPTION_QUEUE"]) == ("AQ$_ORDERS_T_E", None)
        with self.hub.session() as session, refused(25228):
            session.dequeue("AQ$_other_t_E", now(dequeue_mode=DequeueMode.BROWSE))

    def browsed(self, session: Session, queue: str = "orders", **options: Any) -> list[Any]:
        found = session.dequeue_array(queue, now(dequeue_mode=DequeueMode.BROWSE, **options), 10)
        return [each.message.body for each in found]

    @pytest.mark.parametrize("grouping", ["NONE", "TRANSACTIONAL"])
    def test_browser_does_not_see_what_it_has_removed_itself(self, grouping: str) -> None:
        self.queue(table={"message_grouping": grouping})
        for body in "abcd":
            self.send("orders", body)
        first = {"navigation": Navigation.FIRST_MESSAGE_MULTI_GROUP}
        with self.hub.session() as session, self.hub.session() as other:
            session.dequeue("orders", now())
            head = now(dequeue_mode=DequeueMode.LOCKED, navigation=Navigation.FIRST_MESSAGE)
            session.dequeue("orders", head)
            other.dequeue("orders", now())
            assert self.browsed(session, **first) == ["b", "c", "d"]
            assert self.browsed(other, **first) == ["a", "b", "d"]
            assert self.browsed(session, deq_condition="tab.user_data <> 'c'", **first) == ["b", "d"]
            session.rollback()
            assert self.browsed(session, **first) == ["a", "b", "c", "d"]

    @pytest.mark.parametrize("retention", [0, 60])
    def test_browser_finds_what_it_has_removed_by_its_id_only_where_it_is_retained(self, retention: int) -> None:
        self.queue(retention_time=retention)
        (msgid,) = self.send("orders", "a")
        with self.hub.session() as session:
            session.dequeue("orders", now(msgid=msgid))
            if retention:
                assert self.browsed(session, msgid=msgid) == ["a"]
            else:
                with refused(25263):
                    self.browsed(session, msgid=msgid)

    def test_call_in_a_long_transaction_costs_no_more_than_in_a_short_one(self) -> None:
        self.queue()
        number = 20_000
        self.send("orders", *["x"] * number)
        with self.hub.session() as session:
            for _ in range(20):
                session.dequeue_array("orders", now(), number // 20 - 1)
            session.dequeue("orders", now())
            tracemalloc.start()
            try:
                session.dequeue("orders", now())
                _, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
        assert peak < 4 * number, "bytes: the ids of all that was taken are copied"

    def test_connection_is_listened_to_once_however_many_sessions_it_sees(self) -> None:
        self.queue(max_retries=5)
        self.send("orders", *map(str, range(6)))
        with self.hub.engine.connect() as conn:
            listeners, before = set(), len(conn.dispatch.commit)  # type: ignore[attr-defined]
            for _ in range(4):
                self.hub.session(conn).dequeue("orders", now())
                conn.commit()
                listeners.add(len(conn.dispatch.commit) - before)  # type: ignore[attr-defined]
            assert listeners == {1}
            kept = self.hub.session(conn)
            kept.dequeue("orders", now())
            self.hub.session(conn).dequeue("orders", now())
            conn.rollback()
            self.run_time()
            found = kept.dequeue_array("orders", now(), 10)
            assert [(each.message.body, each.message.attempts) for each in found] == [("4", 1), ("5", 1)]
            conn.commit()

    def test_hub_that_is_closed_tells_who_waits_for_messages(self) -> None:
        self.queue()
        other = Hub.open(self.url, clock=self.clock)
        ended: list[str] = []

        def wait(how: Callable[[Session], object]) -> None:
            try:
                with other.session() as session:
                    how(session)
            except HubUnavailable as error:
                ended.append(str(error))

        waits: list[Callable[[Session], object]] = [
            lambda session: session.dequeue("orders", DequeueOptions(wait=60)),
            lambda session: session.listen([Agent(None, "orders")], 60),
        ]
        threads = [threading.Thread(target=wait, args=(how,)) for how in waits]
        for thread in threads:
            thread.start()
        eventually(lambda: other.notifier.waiting == len(threads))
        other.close()
        for thread in threads:
            thread.join(20)
            assert not thread.is_alive()
        assert len(ended) == len(threads)
        assert all("is closed" in text for text in ended)
