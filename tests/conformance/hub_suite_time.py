"""What every hub database must do: time, retries, exception queues. Run by test_hub_*.py."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import sqlalchemy as sa

from mgw.gateway.aq.hub import Hub
from mgw.gateway.aq.model import DequeueMode, DequeueOptions
from mgw.gateway.aq.store.statements import Db
from mgw.gateway.aq.store.tables import State
from mgw.gateway.aq.upkeep import time_sql
from mgw.transforms.errors import HubError
from mgw.transforms.message import Message
from tests.conformance.hub_suite import HubCase, body_of, now, refused
from tests.support.waiting import eventually


class RetrySuite(HubCase):
    """Failed attempts."""

    def test_message_moves_when_attempts_exceed_max_retries(self) -> None:
        self.queue(max_retries=2)
        self.send("orders", "x")
        self.fail("orders", times=2)
        assert self.states("orders_t") == ["READY"]
        self.fail("orders")
        (row,) = self.view("orders_t")
        assert (row["MSG_STATE"], row["EXPIRATION_REASON"]) == ("EXPIRED", "MAX_RETRY_EXCEEDED")
        assert (row["QUEUE"], row["ORIGINAL_QUEUE_NAME"], row["RETRY_COUNT"]) == ("AQ$_ORDERS_T_E", "ORDERS", 3)

    def test_default_is_five_retries(self) -> None:
        self.queue()
        self.send("orders", "x")
        self.fail("orders", times=5)
        assert self.states("orders_t") == ["READY"]
        self.fail("orders")
        assert self.states("orders_t") == ["EXPIRED"]

    def test_no_retries_means_the_first_failure_moves_it(self) -> None:
        self.queue(max_retries=0, retry_delay=60)
        self.send("orders", "x")
        self.fail("orders")
        assert self.states("orders_t") == ["EXPIRED"]

    def test_retry_delay_hides_the_message_but_not_from_its_id(self) -> None:
        self.queue(retry_delay=60)
        (msgid,) = self.send("orders", "x")
        self.fail("orders")
        assert self.states("orders_t") == ["WAIT"]
        assert self.take("orders") == []
        with self.hub.session() as session:
            found = session.dequeue("orders", now(msgid=msgid))
            assert (body_of(found), found.message.attempts, found.state) == ("x", 1, State.WAITING)
            session.rollback()
        assert self.run_time(59).made_ready == 0
        assert self.run_time(1).made_ready == 1
        assert self.take("orders") == ["x"]

    def test_one_blocked_recipient_leaves_the_others_theirs(self) -> None:
        self.topic("RED", "GREEN", max_retries=1)
        self.send("events", "x")
        self.fail("events", "RED", times=2)
        self.run_time()
        assert self.states("events_t") == ["READY", "UNDELIVERABLE"]
        assert self.take("events", "RED") == []
        self.fail("events", "GREEN", times=2)
        rows = self.view("events_t")
        assert {row["MSG_STATE"] for row in rows} == {"EXPIRED"}
        self.admin.start_queue("AQ$_events_t_E", enqueue=False)
        assert self.take("AQ$_events_t_E") == ["x"]
        assert self.view("events_t") == []

    @pytest.mark.parametrize("end", ["commit", "rollback", "rollback_to"])
    def test_blocked_recipient_stays_blocked_when_the_message_was_only_locked(self, end: str) -> None:
        self.topic("RED", "GREEN", max_retries=0)
        bad, good = self.send("events", "bad", "good")
        self.fail("events", "RED")
        lock = {"consumer_name": "RED", "dequeue_mode": DequeueMode.LOCKED}
        with self.hub.session() as session:
            session.dequeue("events", now(msgid=good, **lock))
            session.savepoint("here")
            session.dequeue("events", now(msgid=bad, **lock))
            session.rollback_to("here") if end == "rollback_to" else getattr(session, end)()
        states = [row["MSG_STATE"] for row in self.view("events_t") if row["CONSUMER_NAME"] == "RED"]
        assert states == ["UNDELIVERABLE", "READY"]
        assert self.take("events", "RED") == ["good"]
        assert self.take("events", "GREEN") == ["bad", "good"]

    def test_blocked_recipient_moves_when_the_rest_has_consumed(self) -> None:
        self.topic("RED", "GREEN", max_retries=0)
        self.send("events", "x")
        self.fail("events", "RED")
        assert self.take("events", "GREEN") == ["x"]
        self.run_time()
        rows = {row["CONSUMER_NAME"]: row for row in self.view("events_t")}
        assert rows["GREEN"]["DEQ_TIMESTAMP"] is not None
        assert {row["EXPIRATION_REASON"] for row in rows.values()} == {"MAX_RETRY_EXCEEDED"}

    def test_whoever_lets_go_of_a_message_does_not_keep_it_from_its_exception_queue(self) -> None:
        self.topic("RED", "GREEN", max_retries=0)
        (msgid,) = self.send("events", "x")
        self.fail("events", "RED")
        with self.hub.session() as session:
            session.dequeue("events", now(consumer_name="RED", msgid=msgid, dequeue_mode=DequeueMode.LOCKED))
            session.dequeue("events", now(consumer_name="GREEN"))
            session.rollback()
        assert self.states("events_t") == ["EXPIRED", "EXPIRED"]

    def attempts(self, queue: str = "orders") -> int:
        """Failed attempts of the only message of a queue, as whoever takes it next is told."""
        with self.hub.session() as session:
            attempts = session.dequeue(queue, now()).message.attempts
            session.rollback()
        return attempts

    @contextmanager
    def uncountable(self, table: str) -> Iterator[None]:
        """The database refuses to count attempts."""
        head = f"CREATE TRIGGER refuse BEFORE UPDATE ON {table}"
        with self.hub.write() as conn:
            if self.hub.postgresql:
                body = "BEGIN RAISE EXCEPTION 'refused for a test'; END"
                conn.exec_driver_sql(f"CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $${body}$$")
                each = "FOR EACH ROW WHEN (NEW.attempts <> OLD.attempts)"
                conn.exec_driver_sql(f"{head} {each} EXECUTE FUNCTION refuse()")
            else:
                body = "BEGIN SELECT RAISE(ABORT, 'refused for a test'); END"
                conn.exec_driver_sql(f"{head} WHEN NEW.attempts <> OLD.attempts {body}")
        yield
        with self.hub.write() as conn:
            conn.exec_driver_sql(f"DROP TRIGGER refuse ON {table}" if self.hub.postgresql else "DROP TRIGGER refuse")

    @pytest.mark.parametrize("consumer", [None, "RED"])
    def test_attempt_is_counted_when_the_hub_failed_at_the_rollback(self, consumer: str | None) -> None:
        queue = self.topic("RED") if consumer else self.queue()
        self.send(queue, "x")
        session = self.hub.session()
        with self.uncountable("aq_entry" if consumer else "aq_message"):
            assert body_of(session.dequeue(queue, now(consumer_name=consumer))) == "x"
            if self.hub.postgresql:
                session.rollback()  # that is done; only the counting is not
            else:
                with pytest.raises(HubError, match="refused for a test"):
                    session.rollback()
        session.rollback()
        with session:
            assert session.dequeue(queue, now(consumer_name=consumer)).message.attempts == 1

    def test_attempt_is_counted_when_a_session_ends_while_the_hub_fails(self) -> None:
        self.queue()
        self.send("orders", "x")
        session = self.hub.session()
        with self.uncountable("aq_message"):
            session.dequeue("orders", now())
            if self.hub.postgresql:
                session.close()
            else:
                with pytest.raises(HubError, match="refused for a test"):
                    session.close()
        session.close()
        self.run_time(31)  # on SQLite the claims end with the lease
        self.run_time()
        assert self.attempts() == 1

    def test_attempt_is_counted_after_whoever_took_the_message_meanwhile(self) -> None:
        self.queue()
        self.send("orders", "x")
        engine = sa.create_engine(self.application_url)
        with engine.connect() as conn, Hub.open(self.url, clock=self.clock) as elsewhere:
            self.hub.session(conn).dequeue("orders", now())
            with elsewhere.session() as other:
                with self.hub.attempts.counting:  # it cannot be counted before somebody else takes the message
                    conn.rollback()
                    assert other.dequeue("orders", now()).message.attempts == 0
                self.run_time()
                other.rollback()
            self.run_time()
            # Each hub counts its own; one that met the other at the message tries again by a thread.
            counts = (self.hub.attempts, elsewhere.attempts)
            eventually(lambda: not any(each.pending for each in counts), what="nothing to count")
            assert self.attempts() == 2
        engine.dispose()

    def test_nothing_is_counted_for_a_message_that_is_gone(self) -> None:
        self.queue()
        self.send("orders", "x")
        engine = sa.create_engine(self.application_url)
        with engine.connect() as conn, Hub.open(self.url, clock=self.clock) as elsewhere:
            self.hub.session(conn).dequeue("orders", now())
            with elsewhere.session() as other:
                with self.hub.attempts.counting:
                    conn.rollback()
                    other.dequeue("orders", now())
                self.run_time()
                eventually(lambda: self.hub.rolled_back, what="the attempt waits")  # the hub's thread looks at it too
                other.commit()
            self.run_time()
            assert not self.hub.rolled_back
            self.send("orders", "y")
            self.hub.session(conn).dequeue("orders", now())
            conn.rollback()
        engine.dispose()
        self.admin.stop_queue("orders")
        self.admin.drop_queue("orders")
        self.run_time()
        assert not self.hub.rolled_back


class TimeSuite(HubCase):
    """Delay, expiration, retention, removal."""

    def test_delayed_message_waits_for_the_time_manager(self) -> None:
        self.queue()
        (msgid,) = self.send("orders", "x", delay=10)
        assert self.states("orders_t") == ["WAIT"]
        self.clock.time += 11
        assert self.take("orders") == []
        assert self.run_time().made_ready == 1
        with self.hub.session() as session:
            assert session.dequeue("orders", now(msgid=msgid)).message.delay == 0

    def test_expiration_counts_from_ready_and_only_the_time_manager_acts(self) -> None:
        self.queue()
        self.send("orders", "x", "y", delay=10, expiration=5)
        self.run_time(10)
        self.clock.time += 4
        with self.hub.session() as session:
            assert body_of(session.dequeue("orders", now())) == "x"
            session.commit()
        self.clock.time += 1
        assert self.states("orders_t") == ["READY"]
        assert self.run_time().expired == 1
        (row,) = self.view("orders_t")
        assert (row["MSG_STATE"], row["EXPIRATION_REASON"]) == ("EXPIRED", "TIME_EXPIRATION")

    def test_delay_of_a_topic_message_holds_for_every_consumer(self) -> None:
        self.topic("RED", "GREEN")
        self.send("events", "x", delay=5)
        assert self.take("events", "RED") == []
        assert self.run_time(5).made_ready == 2
        assert self.take("events", "RED") == ["x"]

    def test_message_somebody_missed_expires_for_all_and_history_stays(self) -> None:
        self.topic("RED", "GREEN")
        self.send("events", "x", expiration=5)
        assert self.take("events", "RED") == ["x"]
        assert self.run_time(6).expired == 1
        rows = {row["CONSUMER_NAME"]: row for row in self.view("events_t")}
        assert rows["RED"]["DEQ_TIMESTAMP"] is not None
        assert rows["GREEN"]["DEQ_TIMESTAMP"] is None
        self.admin.start_queue("AQ$_events_t_E", enqueue=False)
        with refused(25243):
            self.take("AQ$_events_t_E", "GREEN")
        assert self.take("AQ$_events_t_E") == ["x"]
        assert self.take("AQ$_events_t_E") == []

    def test_message_everybody_took_does_not_expire(self) -> None:
        self.topic("RED")
        self.send("events", "x", expiration=5)
        assert self.take("events", "RED") == ["x"]
        report = self.run_time(6)
        assert (report.expired, report.removed) == (0, 1)

    def test_message_in_hand_does_not_expire_until_it_is_let_go(self) -> None:
        self.queue()
        self.topic("RED")
        self.send("orders", "x", expiration=5)
        self.send("events", "x", expiration=5)
        with self.hub.session() as session:
            session.dequeue("orders", now())
            session.dequeue("events", now(consumer_name="RED"))
            assert self.run_time(6).expired == 0
        assert self.run_time().expired == 2

    def test_exception_queue_of_a_single_consumer_table_gives_by_id_only(self) -> None:
        self.queue()
        (msgid,) = self.send("orders", "x", expiration=1)
        self.run_time(2)
        exceptions = "AQ$_orders_t_E"
        with refused(25226):
            self.take(exceptions, msgid=msgid)
        self.admin.start_queue(exceptions, enqueue=False)
        with refused(25239):
            self.take(exceptions)
        with self.hub.session() as session:
            browsed = session.dequeue(exceptions, now(dequeue_mode=DequeueMode.BROWSE))
            assert (browsed.msgid, browsed.state) == (msgid, State.EXPIRED)
            session.dequeue(exceptions, now(msgid=msgid))
            session.rollback()
            assert body_of(session.dequeue(exceptions, now(msgid=msgid))) == "x"
            session.commit()
        assert self.view("orders_t") == []

    def test_named_exception_queue_takes_the_message(self) -> None:
        self.queue()
        self.admin.create_queue("broken", "orders_t", queue_type="EXCEPTION_QUEUE")
        self.send("orders", "x", expiration=1, exception_queue="Broken")
        self.run_time(2)
        assert [row["QUEUE"] for row in self.view("orders_t")] == ["BROKEN"]

    def test_missing_exception_queue_falls_back_to_the_default_with_a_warning(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        self.queue()
        self.send("orders", "x", expiration=1, exception_queue="gone")
        with caplog.at_level(logging.WARNING):
            self.run_time(2)
        assert "exception queue gone" in caplog.text
        (row,) = self.view("orders_t")
        assert (row["QUEUE"], row["EXCEPTION_QUEUE"], row["MSG_STATE"]) == ("AQ$_ORDERS_T_E", None, "EXPIRED")

    def test_consumed_topic_messages_go_at_the_next_sweep(self) -> None:
        self.topic("RED", "GREEN")
        self.send("events", "x")
        self.take("events", "RED")
        assert self.run_time().removed == 0
        assert self.states("events_t") == ["READY", "PROCESSED"]
        self.take("events", "GREEN")
        assert self.states("events_t") == ["PROCESSED", "PROCESSED"]
        assert self.run_time().removed == 1
        assert self.view("events_t") == []

    def test_retained_message_is_readable_by_id_until_its_time(self) -> None:
        self.queue(retention_time=100)
        self.topic("RED", retention_time=100)
        (msgid,) = self.send("orders", "x")
        self.send("events", "x")
        self.take("orders")
        self.take("events", "RED")
        self.run_time()
        assert self.take("orders") == []
        with self.hub.session() as session:
            found = session.dequeue("orders", now(msgid=msgid, dequeue_mode=DequeueMode.BROWSE))
            assert (body_of(found), found.state) == ("x", State.PROCESSED)
        assert self.run_time(99).removed == 0
        assert self.states("orders_t") == ["PROCESSED"]
        assert self.run_time(1).removed == 2
        assert self.view("orders_t") == self.view("events_t") == []

    @pytest.mark.parametrize("consumer", [None, "RED"])
    def test_retained_message_cannot_expire_and_is_not_looked_at(self, consumer: str | None) -> None:
        queue = self.topic("RED", retention_time=100) if consumer else self.queue(retention_time=100)
        self.send(queue, "x", "y", expiration=5)
        assert self.take(queue, consumer) == ["x", "y"]
        self.run_time()
        self.send(queue, "z", expiration=5)
        with self.hub.session() as session:
            session.dequeue(queue, now(consumer_name=consumer))
            session.rollback()
        self.clock.time += 4
        with self.hub.read() as conn:
            assert not time_sql.due(Db(conn), self.clock.time).expired
        self.clock.time += 1
        with self.hub.read() as conn:
            assert time_sql.due(Db(conn), self.clock.time).expired
        assert self.run_time().expired == 1
        with self.hub.read() as conn:
            assert not time_sql.due(Db(conn), self.clock.time).expired
        assert sorted(self.states(f"{queue}_t")) == ["EXPIRED", "PROCESSED", "PROCESSED"]
        assert self.run_time(95).removed == 2

    def test_more_than_a_batch_is_done_in_one_pass(self) -> None:
        self.queue()
        with self.hub.session() as session:
            session.enqueue_array("orders", [Message(str(n), delay=1, expiration=5) for n in range(1201)])
            session.commit()
        assert self.run_time(2).made_ready == 1201
        assert self.run_time(10).expired == 1201

    def test_time_manager_wakes_a_waiting_consumer(self) -> None:
        self.queue()
        self.send("orders", "x", delay=5)
        woken: list[int] = []
        with self.hub.read() as conn:
            queue_id = int(conn.exec_driver_sql("SELECT id FROM aq_queue WHERE name = 'orders'").scalar_one())
        unsubscribe = self.hub.notifier.subscribe([queue_id], lambda: woken.append(1))
        self.run_time(6)
        unsubscribe()
        assert woken
        with self.hub.session() as session:
            assert body_of(session.dequeue("orders", DequeueOptions(wait=5))) == "x"
