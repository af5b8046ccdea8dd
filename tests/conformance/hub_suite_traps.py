"""What is easily done wrong: one test for each trap of the queues' semantics. Run by test_hub_*.py."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import time

import pytest

from mgw.gateway.aq.model import Agent, DequeueMode
from mgw.gateway.aq.store.tables import State
from mgw.gateway.aq.upkeep import time_manager
from mgw.transforms.errors import AqError
from mgw.transforms.message import Message
from tests.conformance.hub_suite import HubCase, body_of, now, refused
from tests.conformance.hub_suite_transfer import ProcessSuite, _hold
from tests.support.waiting import eventually


class TrapSuite(HubCase):
    """Numbered as the traps are; the clock and the time manager are driven by hand."""

    def attempts(self, table: str = "orders_t") -> int:
        (row,) = self.view(table)
        return int(row["RETRY_COUNT"])

    def test_t01_smaller_priority_is_more_important_and_may_be_negative(self) -> None:
        self.queue(table={"sort_list": "PRIORITY,ENQ_TIME"})
        for priority in (3, -5, 1):
            self.send("orders", str(priority), priority=priority)
        assert self.take("orders") == ["-5", "1", "3"]

    def test_t06_message_moves_when_attempts_exceed_max_retries_not_before(self) -> None:
        self.queue(max_retries=2)
        self.queue("once", max_retries=0, retry_delay=60)
        self.send("orders", "x")
        self.send("once", "y")
        for attempt in (1, 2):
            self.fail("orders")
            assert (self.states("orders_t"), self.attempts()) == (["READY"], attempt)
        self.fail("orders")
        self.fail("once")
        for table in ("orders_t", "once_t"):
            (row,) = self.view(table)
            assert (row["QUEUE"], row["MSG_STATE"]) == (f"AQ$_{table.upper()}_E", "EXPIRED")
            assert row["EXPIRATION_REASON"] == "MAX_RETRY_EXCEEDED"

    def test_t07_retry_delay_hides_the_message_keeps_its_attempts_and_yields_to_its_id(self) -> None:
        self.queue(retry_delay=60)
        (msgid,) = self.send("orders", "x")
        self.fail("orders")
        assert (self.states("orders_t"), self.attempts()) == (["WAIT"], 1)
        with self.hub.session() as session:
            with refused(25228):
                session.dequeue("orders", now())
            assert body_of(session.dequeue("orders", now(msgid=msgid))) == "x"
            session.rollback()
        assert (self.states("orders_t"), self.attempts()) == (["WAIT"], 2)
        self.clock.time += 60
        assert self.take("orders") == []
        self.run_time()
        assert self.states("orders_t") == ["READY"]
        assert self.take("orders") == ["x"]

    def test_t08_killed_process_counts_no_attempt(self) -> None:
        self.queue(max_retries=0)
        self.send("orders", "x")
        process, pipe = ProcessSuite.child(self, _hold)  # type: ignore[arg-type]
        assert pipe.recv() == "held"
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        pipe.close()

        def back() -> bool:
            time_manager.run_once(self.hub)
            return self.take("orders", dequeue_mode=DequeueMode.LOCKED) == ["x"]

        eventually(back, what="the message of the killed process")
        assert (self.states("orders_t"), self.attempts()) == (["READY"], 0)

    def test_t08_killed_process_gives_its_message_back_before_its_parent_has_reaped_it(self) -> None:
        self.clock.time = time.time()  # as in the other process: its lease is not over
        self.queue(max_retries=0)
        self.send("orders", "x")
        process, pipe = ProcessSuite.child(  # this process must be the parent
            self,  # type: ignore[arg-type]
            _hold,
            multiprocessing.get_context("spawn"),
        )
        assert pipe.recv() == "held"
        os.kill(process.pid, signal.SIGKILL)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)

        def back() -> bool:
            time_manager.run_once(self.hub)
            return self.take("orders", dequeue_mode=DequeueMode.LOCKED) == ["x"]

        eventually(back, deadline=10, what="the message of the killed process")
        process.join()
        pipe.close()

    def test_t08_rollback_counts_an_attempt(self) -> None:
        self.queue()
        self.send("orders", "x")
        with self.hub.session() as session:
            session.dequeue("orders", now())
            session.rollback()
        assert self.attempts() == 1

    def test_t08_rollback_to_a_savepoint_counts_an_attempt(self) -> None:
        self.queue()
        self.send("orders", "x")
        with self.hub.session() as session:
            session.savepoint("here")
            session.dequeue("orders", now())
            session.rollback_to("here")
            session.commit()
        assert self.attempts() == 1

    def test_t08_error_of_the_procedure_counts_an_attempt(self) -> None:
        self.queue()
        self.send("orders", "x")

        def procedure() -> None:
            with self.hub.session() as session:
                session.dequeue("orders", now())
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            procedure()
        assert self.attempts() == 1

    def test_t09_expiration_counts_from_ready_and_only_the_time_manager_acts(self) -> None:
        self.queue()
        self.send("orders", "x", "y", "z", delay=10, expiration=5)
        self.run_time(14)
        with self.hub.session() as session:
            assert body_of(session.dequeue("orders", now())) == "x"
            session.commit()
        self.clock.time += 1
        assert self.states("orders_t") == ["READY", "READY"]
        self.clock.time += 1000
        with self.hub.session() as session:  # nobody has looked at the clock
            assert body_of(session.dequeue("orders", now())) == "y"
            session.commit()
        assert self.run_time().expired == 1
        assert [row["QUEUE"] for row in self.view("orders_t")] == ["AQ$_ORDERS_T_E"]

    def test_t10_expiry_needs_one_who_missed_it_retries_need_all(self) -> None:
        self.topic("RED", "GREEN")
        self.send("events", "late", expiration=5)
        assert self.take("events", "RED") == ["late"]
        self.run_time(5)
        self.admin.start_queue("AQ$_events_t_E", enqueue=False)
        rows = {row["CONSUMER_NAME"]: row for row in self.view("events_t")}
        assert {row["MSG_ID"] for row in rows.values()} == {rows["RED"]["MSG_ID"]}
        assert (rows["RED"]["DEQ_TIMESTAMP"] is None, rows["GREEN"]["DEQ_TIMESTAMP"] is None) == (False, True)
        with self.hub.session() as session:
            assert body_of(session.dequeue("AQ$_events_t_E", now())) == "late"
            with refused(25228):
                session.dequeue("AQ$_events_t_E", now())
            session.commit()
        self.send("events", "bad")
        self.fail("events", "RED", times=6)
        self.run_time()
        states = {row["CONSUMER_NAME"]: row["MSG_STATE"] for row in self.view("events_t")}
        assert states == {"RED": "UNDELIVERABLE", "GREEN": "READY"}
        self.fail("events", "GREEN", times=5)
        assert {row["QUEUE"] for row in self.view("events_t")} == {"EVENTS"}
        self.fail("events", "GREEN")
        assert {row["QUEUE"] for row in self.view("events_t")} == {"AQ$_EVENTS_T_E"}
        assert self.take("AQ$_events_t_E") == ["bad"]

    def test_t11_exception_queue_gives_once_for_all_or_by_id(self) -> None:
        self.topic("RED", "GREEN")
        self.queue()
        (one,), (two,) = self.send("events", "x", expiration=1), self.send("orders", "y", expiration=1)
        self.run_time(1)
        for name in ("AQ$_events_t_E", "AQ$_orders_t_E"):
            with refused(24017):
                self.admin.start_queue(name, enqueue=True)
            with refused(25226):
                self.take(name, msgid=one)
            self.admin.start_queue(name, enqueue=False)
        for queue in ("events", "AQ$_events_t_E"):
            with pytest.raises(AqError, match=r"^ORA-25(228|256|243): "), self.hub.session() as session:
                session.dequeue(queue, now(consumer_name="GREEN"))
        assert self.take("AQ$_events_t_E") == ["x"]
        assert self.take("AQ$_events_t_E") == []
        with refused(25239):
            self.take("AQ$_orders_t_E")
        assert self.take("AQ$_orders_t_E", msgid=two) == ["y"]

    def test_t12_exception_queue_is_looked_up_when_the_message_moves(self, caplog: pytest.LogCaptureFixture) -> None:
        self.queue(max_retries=0)
        self.admin.create_queue("later_gone", "orders_t", queue_type="EXCEPTION_QUEUE")
        ids = [*self.send("orders", "x", expiration=1, exception_queue="later_gone")]
        ids += self.send("orders", "y", exception_queue="not_yet")
        ids += self.send("orders", "z", exception_queue="later_gone")
        self.admin.drop_queue("later_gone")
        self.admin.create_queue("not_yet", "orders_t", queue_type="EXCEPTION_QUEUE")
        with caplog.at_level(logging.WARNING):
            self.run_time(1)
            assert caplog.text.count("exception queue later_gone") == 1
            self.fail("orders", times=2)
            assert caplog.text.count("exception queue later_gone") == 2
        rows = [(row["QUEUE"], row["EXCEPTION_QUEUE"], row["EXPIRATION_REASON"]) for row in self.view("orders_t")]
        assert rows == [
            ("AQ$_ORDERS_T_E", None, "TIME_EXPIRATION"),
            ("NOT_YET", "NOT_YET", "MAX_RETRY_EXCEEDED"),
            ("AQ$_ORDERS_T_E", None, "MAX_RETRY_EXCEEDED"),
        ]
        for queue, msgid in zip(("AQ$_orders_t_E", "not_yet", "AQ$_orders_t_E"), ids, strict=True):
            self.admin.start_queue(queue, enqueue=False)
            with self.hub.session() as session:
                assert session.dequeue(queue, now(msgid=msgid)).state is State.EXPIRED

    def test_t13_recipient_list_replaces_subscribers_and_nobody_gets_the_past(self) -> None:
        self.topic("RED", "GREEN")
        self.send("events", "1")
        self.send("events", "2", recipients=["RED", Agent("BLUE")])
        self.admin.add_subscriber("events", "PINK")
        got = {who: self.take("events", who) for who in ("RED", "GREEN", "BLUE", "PINK")}
        assert got == {"RED": ["1", "2"], "GREEN": ["1"], "BLUE": ["2"], "PINK": []}
        self.send("events", "3")
        assert (self.take("events", "PINK"), self.take("events", "BLUE")) == (["3"], [])

    def test_t14_message_for_nobody_is_refused_and_the_transaction_goes_on(self) -> None:
        self.topic()
        with refused(24033):
            self.send("events", "x")
        self.admin.add_subscriber("events", "RED", rule="priority < 2")
        with self.hub.session() as session:
            session.enqueue("events", Message("first", priority=1))
            with refused(24033):
                session.enqueue("events", Message("no", priority=5))
            assert self.view("events_t") == []
            session.enqueue("events", Message("second", priority=1))
            session.commit()
        assert self.take("events", "RED") == ["first", "second"]

    def test_t15_subscribing_waits_for_no_transaction_and_takes_effect_at_once(self) -> None:
        self.topic("RED")
        with self.hub.session() as session:
            session.enqueue("events", Message("1"))
            self.admin.add_subscriber("events", "GREEN", rule="priority < 5")
            session.enqueue("events", Message("2"))
            session.commit()
        assert (self.take("events", "RED"), self.take("events", "GREEN")) == (["1", "2"], ["2"])

    def test_t15_altering_a_subscriber_sets_both_attributes(self) -> None:
        self.topic()
        self.admin.add_subscriber("events", "RED", rule="priority < 5")
        self.admin.alter_subscriber("events", "RED", rule=None)
        (found,) = self.admin.queue_subscribers("events")
        assert (found.rule, found.transformation) == (None, None)

    def test_t15_removed_subscriber_loses_its_backlog_without_an_error(self) -> None:
        self.topic("RED", "GREEN")
        self.send("events", "1", "2")
        assert self.take("events", "RED") == ["1", "2"]
        self.admin.remove_subscriber("events", "GREEN")
        assert self.take("events", "GREEN") == []
        self.run_time()
        assert self.view("events_t") == []

    def test_t17_only_the_id_leads_to_waiting_and_retained_messages(self) -> None:
        self.queue(retention_time=100)
        (waiting,) = self.send("orders", "w", delay=50)
        (retained,) = self.send("orders", "r")
        with self.hub.session() as session:
            session.dequeue("orders", now(msgid=retained))
            session.commit()
            browse = {"dequeue_mode": DequeueMode.BROWSE}
            for options in ({}, browse, browse | {"correlation": "%"}, browse | {"deq_condition": "priority = 1"}):
                with refused(25228):
                    session.dequeue("orders", now(**options))
            found = [session.dequeue("orders", now(msgid=msgid, **browse)) for msgid in (waiting, retained)]
            assert [(body_of(one), one.state) for one in found] == [("w", State.WAITING), ("r", State.PROCESSED)]
            with refused(25263):
                session.dequeue("orders", now(msgid=retained))  # it can only be looked at
        assert self.run_time(99).removed == 0
        assert self.run_time(1).removed == 1
        assert [row["MSG_STATE"] for row in self.view("orders_t")] == ["READY"]

    def test_t18_topic_message_is_processed_when_all_have_taken_it_and_goes_at_the_sweep(self) -> None:
        self.topic("RED", "GREEN")
        self.send("events", "x")
        assert self.take("events", "RED") == ["x"]
        assert {row["CONSUMER_NAME"]: row["MSG_STATE"] for row in self.view("events_t")} == {
            "RED": "PROCESSED",
            "GREEN": "READY",
        }
        assert self.run_time(3600).removed == 0
        assert self.take("events", "GREEN") == ["x"]
        assert self.states("events_t") == ["PROCESSED", "PROCESSED"]
        assert self.run_time().removed == 1
        assert self.view("events_t") == []
