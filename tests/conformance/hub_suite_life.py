"""What every hub database must do: the life of a message, row by row. Run by test_hub_*.py."""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from typing import Any

import pytest

from mgw.gateway.aq.model import INFINITE, Dequeued, DequeueMode, DequeueOptions, EnqueueOptions, Visibility
from mgw.gateway.aq.store.tables import State
from mgw.gateway.aq.upkeep import time_manager
from mgw.transforms.errors import HubError
from mgw.transforms.message import Message
from tests.conformance.hub_suite import NOW, HubCase, body_of, now, refused
from tests.support.waiting import eventually


class LifeSuite(HubCase):
    """States and what leads from one to the next (AQ guide 12.2 §1.7, §9.10)."""

    def state_of(self, table: str = "orders_t") -> Any:
        (row,) = self.view(table)
        return row["MSG_STATE"], row["RETRY_COUNT"]

    def browse(self, queue: str, msgid: bytes, consumer: str | None = None) -> State:
        with self.hub.session() as session:
            look = now(consumer_name=consumer, msgid=msgid, dequeue_mode=DequeueMode.BROWSE)
            return session.dequeue(queue, look).state

    # -- new, waiting ----------------------------------------------------------------------------------------------

    def test_new_message_is_ready_or_waits_for_its_delay(self) -> None:
        self.queue()
        self.topic("RED")
        for queue in ("orders", "events"):
            self.send(queue, "a")
            self.send(queue, "b", delay=7 * 86400, expiration=14 * 86400)
            assert self.states(f"{queue}_t") == ["READY", "WAIT"]
        assert self.run_time(7 * 86400 - 1).made_ready == 0
        assert self.run_time(1).made_ready == 2
        assert self.run_time(14 * 86400 - 1).expired == 0
        assert self.run_time(1).expired == 2

    def test_waiting_message_taken_by_its_id_is_as_ready(self) -> None:
        self.queue()
        self.topic("RED")
        for queue, consumer in (("orders", None), ("events", "RED")):
            (msgid,) = self.send(queue, "x", delay=60)
            assert self.take(queue, consumer) == []
            assert self.take(queue, consumer, msgid=msgid) == ["x"]
        self.run_time(60)
        assert self.view("orders_t") == self.view("events_t") == []

    def test_waiting_message_that_was_only_locked_waits_on(self) -> None:
        self.queue()
        self.topic("RED")
        for queue, consumer in (("orders", None), ("events", "RED")):
            (msgid,) = self.send(queue, "x", delay=60)
            lock = now(consumer_name=consumer, msgid=msgid, dequeue_mode=DequeueMode.LOCKED)
            with self.hub.session() as session:
                for end in (session.commit, session.rollback):
                    assert session.dequeue(queue, lock).state is State.WAITING
                    end()
                    assert self.state_of(f"{queue}_t") == ("WAIT", 0)
                    assert self.take(queue, consumer) == []

    # -- failed attempts -------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("mode", [DequeueMode.REMOVE, DequeueMode.REMOVE_NODATA])
    def test_removal_that_is_rolled_back_is_an_attempt(self, mode: DequeueMode) -> None:
        self.queue()
        self.send("orders", "x")
        with self.hub.session() as session:
            session.dequeue("orders", now(dequeue_mode=mode))
            session.rollback()
        assert self.state_of() == ("READY", 1)

    @pytest.mark.parametrize("mode", [DequeueMode.BROWSE, DequeueMode.LOCKED])
    def test_looking_and_locking_are_no_attempts(self, mode: DequeueMode) -> None:
        self.queue(max_retries=0)
        self.send("orders", "x")
        with self.hub.session() as session:
            session.dequeue("orders", now(dequeue_mode=mode))
            session.rollback()
        assert self.state_of() == ("READY", 0)

    def test_immediate_removal_cannot_fail_any_more(self) -> None:
        self.queue(retention_time=10)
        self.send("orders", "x")
        with self.hub.session() as session:
            session.dequeue("orders", now(visibility=Visibility.IMMEDIATE))
            session.rollback()
        assert self.state_of() == ("PROCESSED", 0)

    def test_retry_keeps_the_place_in_the_queue(self) -> None:
        self.queue(retry_delay=60)
        self.send("orders", "x", "y")
        self.fail("orders")
        assert self.take("orders", correlation=None) == ["y"]
        self.send("orders", "z")
        self.run_time(60)
        assert self.take("orders") == ["x", "z"]

    def test_retry_that_would_come_after_the_expiration_is_not_made(self) -> None:
        self.queue(retry_delay=60)
        self.topic("RED", retry_delay=60)
        for queue, consumer in (("orders", None), ("events", "RED")):
            self.send(queue, "x", expiration=30)
            self.fail(queue, consumer)
        report = self.run_time(31)
        assert (report.made_ready, report.expired) == (0, 2)
        assert self.run_time(60).made_ready == 0
        for table in ("orders_t", "events_t"):
            (row,) = self.view(table)
            assert (row["EXPIRATION_REASON"], row["RETRY_COUNT"]) == ("TIME_EXPIRATION", 1)

    def test_settings_altered_meanwhile_hold_for_the_next_failure(self) -> None:
        self.queue(max_retries=5)
        self.send("orders", "x")
        self.fail("orders", times=2)
        self.admin.alter_queue("orders", max_retries=2)
        assert self.states("orders_t") == ["READY"]
        self.fail("orders")
        assert self.states("orders_t") == ["EXPIRED"]

    def test_attempts_are_counted_for_each_consumer(self) -> None:
        self.topic("RED", "GREEN", retry_delay=60)
        self.send("events", "x")
        self.fail("events", "RED")
        rows = {row["CONSUMER_NAME"]: (row["MSG_STATE"], row["RETRY_COUNT"]) for row in self.view("events_t")}
        assert rows == {"RED": ("WAIT", 1), "GREEN": ("READY", 0)}
        assert self.take("events", "GREEN") == ["x"]

    def test_blocked_entry_can_be_taken_by_its_id(self) -> None:
        self.topic("RED", "GREEN", max_retries=0)
        (msgid,) = self.send("events", "x")
        self.fail("events", "RED")
        assert self.take("events", "RED") == []
        with self.hub.session() as session:
            session.dequeue("events", now(consumer_name="RED", msgid=msgid))
            session.rollback()
        rows = {row["CONSUMER_NAME"]: (row["MSG_STATE"], row["RETRY_COUNT"]) for row in self.view("events_t")}
        assert rows == {"RED": ("UNDELIVERABLE", 2), "GREEN": ("READY", 0)}
        assert self.take("events", "RED", msgid=msgid) == ["x"]
        assert self.take("events", "GREEN") == ["x"]
        self.run_time()
        assert self.view("events_t") == []

    # -- consumed --------------------------------------------------------------------------------------------------

    def test_consumed_message_of_a_plain_queue_is_gone_at_the_commit(self) -> None:
        self.queue()
        self.send("orders", "x")
        self.take("orders")
        assert self.view("orders_t") == []

    def test_retained_message_keeps_who_took_it_and_when(self) -> None:
        self.queue(retention_time=INFINITE)
        self.topic("RED", "GREEN", retention_time=100)
        with self.hub.session(user="SYSTEM") as session:
            session.enqueue("orders", Message("x"))
            session.enqueue("events", Message("x"))
            enqueued = session.transaction_id
            session.commit()
        self.clock.time += 5
        for queue, consumer in (("orders", None), ("events", "RED"), ("events", "GREEN")):
            with self.hub.session(user="SYS") as session:
                session.dequeue(queue, now(consumer_name=consumer))
                taken = session.transaction_id
                session.commit()
        rows = self.view("orders_t") + self.view("events_t")
        assert [row["MSG_STATE"] for row in rows] == ["PROCESSED"] * 3
        assert {(row["ENQ_USER_ID"], row["ENQ_TXN_ID"]) for row in rows} == {("SYSTEM", enqueued)}
        assert {row["DEQ_USER_ID"] for row in rows} == {"SYS"}
        assert taken in {row["DEQ_TXN_ID"] for row in rows}
        assert len({row["DEQ_TIMESTAMP"] for row in rows} | {row["ENQ_TIMESTAMP"] for row in rows}) == 2
        self.run_time()
        assert self.run_time(99).removed == 0
        assert self.run_time(1).removed == 1
        assert self.run_time(10 * 365 * 86400).removed == 0  # the other is kept for ever
        assert self.state_of() == ("PROCESSED", 0)

    def test_retention_of_a_topic_counts_from_the_last_consumer(self) -> None:
        self.topic("RED", "GREEN", retention_time=100)
        (msgid,) = self.send("events", "x")
        self.take("events", "RED")
        self.run_time(60)
        self.take("events", "GREEN")
        self.run_time(60)
        assert self.browse("events", msgid, "RED") is State.PROCESSED
        assert self.run_time(39).removed == 0
        assert self.run_time(1).removed == 1

    def test_subscriber_who_leaves_was_the_last_to_wait_for_a_retained_message(self) -> None:
        self.topic("RED", "GREEN", retention_time=100)
        self.send("events", "x")
        self.take("events", "RED")
        self.admin.remove_subscriber("events", "GREEN")
        self.run_time()
        assert self.states("events_t") == ["PROCESSED"]
        assert self.run_time(100).removed == 1
        assert self.view("events_t") == []

    # -- expired ---------------------------------------------------------------------------------------------------

    def test_time_is_up_at_the_second_and_by_the_time_manager_only(self) -> None:
        self.queue()
        self.send("orders", "x", "y", expiration=5)
        assert self.run_time(4.999).expired == 0
        self.clock.time = NOW + 3600
        assert self.take("orders") == ["x", "y"]  # late, but nobody has looked
        self.send("orders", "z", expiration=0)
        assert self.states("orders_t") == ["READY"]
        assert self.run_time().expired == 1

    def test_expired_row_tells_where_it_came_from(self) -> None:
        self.topic("RED", "GREEN")
        self.queue()
        (one,), (two,) = self.send("orders", "x", expiration=1), self.send("events", "x", expiration=1)
        self.run_time(1)
        for table, queue, msgid in (("orders_t", "orders", one), ("events_t", "events", two)):
            rows = self.view(table)
            assert {row["MSG_STATE"] for row in rows} == {"EXPIRED"}
            assert {row["EXPIRATION_REASON"] for row in rows} == {"TIME_EXPIRATION"}
            assert {row["ORIGINAL_QUEUE_NAME"] for row in rows} == {queue.upper()}
            assert {row["ORIGINAL_QUEUE_OWNER"] for row in rows} == {"MGW"}
            assert {row["MSG_ID"] for row in rows} == {msgid.hex().upper()}
        with refused(25263):
            self.take("orders", msgid=one)
        with refused(25263):
            self.take("events", "RED", msgid=two)

    def test_message_over_its_retries_tells_why_and_is_expired_all_the_same(self) -> None:
        self.queue(max_retries=0)
        (msgid,) = self.send("orders", "x", exception_queue="AQ$_orders_t_E")
        self.fail("orders")
        self.admin.start_queue("AQ$_orders_t_E", enqueue=False)
        with self.hub.session() as session:
            found = session.dequeue("AQ$_orders_t_E", now(msgid=msgid))
            assert (found.state, found.message.attempts) == (State.EXPIRED, 1)
            assert found.message.exception_queue == "AQ$_orders_t_E"
            session.commit()
        assert self.view("orders_t") == []

    def test_exception_queue_of_the_other_kind_is_not_used(self, caplog: pytest.LogCaptureFixture) -> None:
        self.queue()
        self.topic("RED", name="events")
        self.admin.create_queue("multi_e", "events_t", queue_type="EXCEPTION_QUEUE")
        for name in ("multi_e", "orders", "no such", "other.schema.name"):
            self.send("orders", name, expiration=1, exception_queue=name)
        with caplog.at_level(logging.WARNING):
            assert self.run_time(1).expired == 4
        assert {row["QUEUE"] for row in self.view("orders_t")} == {"AQ$_ORDERS_T_E"}
        assert {row["EXCEPTION_QUEUE"] for row in self.view("orders_t")} == {None}
        assert caplog.text.count("exception queue") >= 4
        assert self.view("events_t") == []

    def test_exception_queue_of_another_table_takes_the_message(self) -> None:
        self.topic("RED")
        self.queue("other", table={"multiple_consumers": True})
        self.admin.create_queue("broken", "other_t", queue_type="EXCEPTION_QUEUE")
        self.admin.start_queue("broken", enqueue=False)
        self.send("events", "x", expiration=1, exception_queue="mgw.BROKEN")
        self.run_time(1)
        assert self.view("events_t") == []
        assert {row["QUEUE"] for row in self.view("other_t")} == {"BROKEN"}
        with self.hub.session() as session:
            assert session.dequeue("broken", now()).message.exception_queue == "mgw.BROKEN"
            session.commit()
        assert self.view("other_t") == []

    def test_expiration_wakes_whoever_waits_on_the_exception_queue(self) -> None:
        self.topic("RED")
        self.admin.start_queue("AQ$_events_t_E", enqueue=False)
        self.send("events", "x", expiration=1)
        found: list[Dequeued] = []

        def consume() -> None:
            with self.hub.session() as session:
                found.append(session.dequeue("AQ$_events_t_E", DequeueOptions(wait=20)))
                session.commit()

        thread = threading.Thread(target=consume)
        thread.start()
        eventually(lambda: self.hub.notifier._callbacks, what="the consumer waits")
        self.run_time(2)
        thread.join(timeout=10)
        assert [(body_of(one), one.state) for one in found] == [("x", State.EXPIRED)]

    def test_retry_delay_that_ends_wakes_whoever_waits(self) -> None:
        self.topic("RED", retry_delay=30)
        self.send("events", "x")
        self.fail("events", "RED")
        found: list[Dequeued] = []

        def consume() -> None:
            with self.hub.session() as session:
                found.append(session.dequeue("events", DequeueOptions("RED", wait=20)))
                session.commit()

        thread = threading.Thread(target=consume)
        thread.start()
        eventually(lambda: self.hub.notifier._callbacks, what="the consumer waits")
        assert self.run_time(30).made_ready == 1
        thread.join(timeout=10)
        assert [one.message.attempts for one in found] == [1]

    # -- the time manager itself -----------------------------------------------------------------------------------

    def test_pass_that_is_stopped_leaves_the_rest_to_the_next(self) -> None:
        self.queue()
        self.topic("RED")
        self.send("orders", "x", delay=1)
        self.send("events", "x")
        self.take("events", "RED")
        self.clock.time += 1
        stop = threading.Event()
        stop.set()
        assert time_manager.run_once(self.hub, stop=stop) == time_manager.TimeManagerReport()
        assert self.run_time() == time_manager.TimeManagerReport(made_ready=1, removed=1)

    def test_backlog_of_every_duty_is_done_in_one_pass_of_many_transactions(self) -> None:
        self.queue(retention_time=1)
        self.topic("RED", "GREEN")
        batch = [Message("x", delay=5, expiration=5)] * 700
        with self.hub.session() as session:
            session.enqueue_array("orders", batch)
            session.enqueue_array("events", batch)
            session.commit()
        assert self.run_time(5).made_ready == 700 + 2 * 700
        assert len(self.take("orders")) == 700
        assert len(self.take("events", "RED")) == len(self.take("events", "GREEN")) == 700
        self.send("orders", *["y"] * 700, expiration=1)
        commits: list[int] = []
        unsubscribe = self.hub.notifier.subscribe(self.queue_ids(), lambda: commits.append(1))
        report = self.run_time(5)
        unsubscribe()
        assert (report.expired, report.removed) == (700, 700 + 700)
        assert len(commits) >= 2
        assert {row["MSG_STATE"] for row in self.view("orders_t")} == {"EXPIRED"}
        assert self.view("events_t") == []

    def queue_ids(self) -> list[int]:
        with self.hub.read() as conn:
            return [int(row[0]) for row in conn.exec_driver_sql("SELECT id FROM aq_queue")]

    # -- sessions that die -----------------------------------------------------------------------------------------

    def test_dead_session_gives_back_within_its_lease_what_it_had_as_it_was(self) -> None:
        self.queue(max_retries=0)
        self.topic("RED", max_retries=0)
        (waiting,) = self.send("orders", "later", delay=3600)
        self.send("orders", "a", "b")
        self.send("events", "c")
        session = self.hub.session()
        session.dequeue("orders", now())
        session.dequeue("orders", now(dequeue_mode=DequeueMode.LOCKED))
        session.dequeue("orders", now(msgid=waiting))
        session.dequeue("events", now(consumer_name="RED"))
        session.enqueue("orders", Message("never"))
        self.kill(session)
        if not self.hub.postgresql:
            assert self.run_time(29).returned == 0
            assert self.take("orders") == []
            assert self.run_time(1).returned == 4
        rows = {row["MSG_ID"]: (row["MSG_STATE"], row["RETRY_COUNT"]) for row in self.view("orders_t")}
        assert sorted(rows.values()) == [("READY", 0), ("READY", 0), ("WAIT", 0)]
        assert rows[waiting.hex().upper()] == ("WAIT", 0)
        assert (self.take("orders"), self.take("events", "RED")) == (["a", "b"], ["c"])

    def kill(self, session: Any) -> None:
        """End a session as the death of its process on another machine does."""
        if self.hub.postgresql:
            pid = session._work._writer[1].info.backend_pid
            with self.hub.write() as conn:
                conn.exec_driver_sql(f"SELECT pg_terminate_backend({pid})")

            def gone() -> bool:
                with self.hub.read() as conn:
                    found = conn.exec_driver_sql(f"SELECT 1 FROM pg_stat_activity WHERE pid = {pid}").scalar()
                return found is None

            eventually(gone, what="the end of the connection")
            session._work._taken = {}  # nobody is left to count
            with suppress(HubError):
                session.close()
            return
        with self.hub.write() as conn:
            conn.exec_driver_sql("UPDATE aq_session SET host = 'elsewhere'")
        self.hub.registry.forget(session._work.claim)

    def test_two_transactions_may_be_open_and_only_one_fails(self) -> None:
        self.queue()
        self.send("orders", "a", "b")
        with self.hub.session() as one, self.hub.session() as two:
            one.dequeue("orders", now())
            two.dequeue("orders", now())
            one.enqueue("orders", Message("c"), EnqueueOptions())
            two.rollback()
            one.commit()
        rows = [(row["MSG_STATE"], row["RETRY_COUNT"]) for row in self.view("orders_t")]
        assert rows == [("READY", 1), ("READY", 0)]
