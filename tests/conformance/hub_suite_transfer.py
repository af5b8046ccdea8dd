"""What every hub database must do for routes, and between processes. Run by test_hub_*.py."""

from __future__ import annotations

import os
import signal
import threading
import time
from multiprocessing.connection import Connection
from typing import Any

import pytest

from mgw.gateway.aq.errors import MessageRefused
from mgw.gateway.aq.hub import Hub
from mgw.gateway.aq.model import DequeueOptions, QueueRef
from mgw.gateway.aq.queues import transfer
from mgw.gateway.aq.upkeep import time_manager
from mgw.transforms.errors import AqError, GatewayError, HubError
from mgw.transforms.message import Header, Message, ValueType
from tests.conformance.hub_suite import HubCase, refused
from tests.support.children import CHILDREN
from tests.support.waiting import eventually


class TransferSuite(HubCase):
    """The verbs of a route."""

    def ref(self, name: str) -> QueueRef:
        with self.hub.read() as conn:
            return transfer.resolve(conn, name)

    def put(self, queue: QueueRef, *bodies: str, **options: Any) -> transfer.PutResult:
        with self.hub.write() as conn:
            return transfer.put(conn, queue, [Message(body) for body in bodies], **options)

    @pytest.mark.parametrize("consumer", [None, "RED"])
    @pytest.mark.parametrize("count", [1, 150])
    def test_batch_goes_through_in_order(self, consumer: str | None, count: int) -> None:
        queue = self.ref(self.topic("red", "GREEN") if consumer else self.queue())
        bodies = [str(n) for n in range(count)]
        put = self.put(queue, *bodies)
        with self.hub.write() as conn:
            claimed = transfer.claim(conn, queue, consumer, 1000)
        assert [one.message.body for one in claimed] == bodies
        assert [one.message.msgid for one in claimed] == put.msgids
        ids = [one.id for one in claimed]
        with self.hub.write() as conn:
            assert transfer.claim(conn, queue, consumer, 1000) == []
            assert [one.id for one in transfer.load(conn, queue, consumer, ids[::-1])] == ids[::-1]
            assert transfer.complete(conn, queue, consumer, ids) == count
        if not consumer:
            assert self.view("orders_t") == []

    @pytest.mark.parametrize("consumer", [None, "RED"])
    def test_released_messages_keep_their_place(self, consumer: str | None) -> None:
        queue = self.ref(self.topic("RED") if consumer else self.queue())
        self.put(queue, "a", "b", "c")
        with self.hub.write() as conn:
            first, second = transfer.claim(conn, queue, consumer, 2)
            assert transfer.release(conn, queue, consumer, [first.id, second.id]) == 2
            again = transfer.claim(conn, queue, consumer, 5)
        assert [one.message.body for one in again] == ["a", "b", "c"]
        assert [one.message.attempts for one in again] == [0, 0, 0]

    def test_what_is_checked_is_not_stored(self) -> None:
        queue = self.ref(self.topic("RED"))
        (before,) = self.put(queue, "before").msgids
        good = [Message("a"), Message("b", (Header("n", ValueType.LONG, 1),))]
        with self.hub.read() as conn:
            assert [row[-1] for row in transfer.check(conn, queue, good)] == [b"a", b"b"]
            with pytest.raises(MessageRefused) as wrong:
                transfer.check(conn, queue, [*good, Message(())])
        assert wrong.value.index == 2
        (after,) = self.put(queue, "after").msgids
        assert before is not None and after is not None  # noqa: PT018
        assert int.from_bytes(after) == int.from_bytes(before) + 1, "no message id was used up"
        assert self.take(queue.name, "RED") == ["before", "after"]

    def test_exception_messages_are_taken_once(self) -> None:
        self.queue(max_retries=0)
        self.send("orders", "a", "b")
        with self.hub.session() as session:
            taken = session.dequeue_array("orders", DequeueOptions(wait=0), 2)
            session.rollback()
        exceptions = self.ref("aq$_orders_t_e")
        numbers = [int.from_bytes(each.msgid[8:]) for each in taken]
        with self.hub.write() as conn, pytest.raises(AqError, match="not enabled for dequeue"):
            transfer.take_exceptions(conn, exceptions, numbers)
        self.admin.start_queue("aq$_orders_t_e", enqueue=False)
        for expected in (set(numbers), set()):
            with self.hub.write() as conn:
                assert transfer.take_exceptions(conn, exceptions, [*numbers, 999_999]) == expected
        self.hub.statistics.flush(self.hub)
        with self.hub.read() as conn:
            counted = f"SELECT dequeued_msgs FROM V$PERSISTENT_QUEUES WHERE queue_id = {exceptions.id}"
            assert conn.exec_driver_sql(counted).scalar_one() == 2

    @pytest.mark.parametrize("consumer", [None, "RED"])
    def test_a_plan_leaves_what_has_expired_to_the_time_manager(self, consumer: str | None) -> None:
        queue = self.ref(self.topic("RED") if consumer else self.queue())
        with self.hub.write() as conn:
            transfer.put(conn, queue, [Message("short", expiration=5), Message("long")])
        self.clock.time += 5
        with self.hub.write() as conn:
            assert [one.message.body for one in transfer.claim(conn, queue, consumer, 10)] == ["long"]
        assert self.run_time().expired == 1
        assert self.states("events_t" if consumer else "orders_t") == ["EXPIRED", "READY"]

    def test_claims_of_a_plan_survive_the_time_manager(self) -> None:
        queue = self.ref(self.queue())
        self.put(queue, "a")
        with self.hub.write() as conn:
            (claimed,) = transfer.claim(conn, queue, None, 5)
        assert self.run_time(1000).returned == 0
        with self.hub.write() as conn:
            assert transfer.complete(conn, queue, None, [claimed.id]) == 1

    def test_unrouted_messages_are_listed_or_refused(self) -> None:
        self.topic()
        self.admin.add_subscriber("events", "RED", rule="priority = 1")
        queue = self.ref("events")
        batch = [Message("a", priority=1), Message("b", priority=2), Message("c", priority=1)]
        with pytest.raises(MessageRefused, match="ORA-24033") as caught, self.hub.write() as conn:
            transfer.put(conn, queue, batch)
        assert caught.value.index == 1
        with self.hub.write() as conn:
            result = transfer.put(conn, queue, batch, discard_unrouted=True)
        assert result.discarded == [1]
        assert [msgid is None for msgid in result.msgids] == [False, True, False]
        assert self.take("events", "RED") == ["a", "c"]

    def test_rule_that_fails_names_subscriber_and_message(self) -> None:
        self.topic()
        self.admin.add_subscriber("events", "RED", rule="10 / priority > 1")
        with pytest.raises(MessageRefused, match=r"subscriber RED.*message 1") as caught, self.hub.write() as conn:
            transfer.put(conn, self.ref("events"), [Message("a", priority=1), Message("b", priority=0)])
        assert caught.value.index == 1
        assert self.view("events_t") == []

    def test_stopped_queue_refuses_put_and_claim(self) -> None:
        queue = self.ref(self.queue())
        self.admin.stop_queue("orders")
        with refused(25207):
            self.put(queue, "x")
        with refused(25226), self.hub.write() as conn:
            transfer.claim(conn, queue, None, 1)

    def test_moved_message_lands_in_the_job_exception_queue(self) -> None:
        queue = self.ref(self.topic("RED"))
        problems = self.ref(self.queue("problems"))
        with self.hub.write() as conn:
            transfer.put(conn, queue, [Message("x", expiration=5)])
            (claimed,) = transfer.claim(conn, queue, "RED", 5)
            reason = Header("MGW_reason", ValueType.TEXT, "too large")
            changed = transfer.Claimed(claimed.id, Message("x", (reason,), expiration=5))
            transfer.move(conn, queue, "RED", [changed], problems)
        self.run_time(100)
        assert self.view("events_t") == []
        with self.hub.session() as session:
            found = session.dequeue("problems", DequeueOptions(wait=0)).message
        assert (found.body, found.headers, found.expires_at) == ("x", (reason,), None)
        assert found.original_msgid == claimed.message.msgid

    @pytest.mark.parametrize("consumer", [None, "RED"])
    @pytest.mark.parametrize("retention", [0, 100])
    def test_messages_that_went_behind_the_back_of_a_plan_stop_its_completion(
        self, consumer: str | None, retention: int
    ) -> None:
        name = self.topic("RED", retention_time=retention) if consumer else self.queue(retention_time=retention)
        queue, table = self.ref(name), "aq_entry" if consumer else "aq_message"
        problems = self.ref(self.queue("problems"))
        self.put(queue, "a", "b", "c")
        with self.hub.write() as conn:
            claimed = transfer.claim(conn, queue, consumer, 3)
        with self.hub.write() as conn:
            transfer.complete(conn, queue, consumer, [claimed[1].id])
        ids = [one.id for one in claimed]
        what = r"1 of 3 messages .* missing.*RESET_SUB_MISSING"
        with pytest.raises(GatewayError, match=what) as caught, self.hub.write() as conn:
            transfer.complete(conn, queue, consumer, ids)
        assert caught.value.number == 415
        with pytest.raises(GatewayError, match="1 of 3 messages"), self.hub.write() as conn:
            transfer.move(conn, queue, consumer, claimed, problems)
        with pytest.raises(GatewayError, match="2 of 2 messages"), self.hub.write() as conn:  # noqa: PT012
            conn.exec_driver_sql(f"UPDATE {table} SET state = 0 WHERE state = 8 AND queue_id = {queue.id}")
            transfer.complete(conn, queue, consumer, [claimed[0].id, claimed[2].id])
        with self.hub.write() as conn:
            assert [one.message.body for one in transfer.load(conn, queue, consumer, ids)] == ["a", "c"]
            assert transfer.backlog(conn, problems).ready == 0
            assert transfer.complete(conn, queue, consumer, [claimed[0].id, claimed[2].id]) == 2

    def test_backlog_counts_by_state(self) -> None:
        queue = self.ref(self.topic("RED"))
        self.put(queue, "a", "b", "c")
        with self.hub.write() as conn:
            transfer.claim(conn, queue, "RED", 1)
            counts = transfer.backlog(conn, queue, "RED")
        assert (counts.ready, counts.claimed, counts.oldest) == (2, 1, self.clock.time)

    def test_threads_claim_without_overlap(self) -> None:
        queue = self.ref(self.queue())
        self.put(queue, *(str(n) for n in range(1000)))
        seen: list[int] = []

        def consume() -> None:
            while True:
                with self.hub.write() as conn:
                    claimed = transfer.claim(conn, queue, None, 17)
                    transfer.complete(conn, queue, None, [one.id for one in claimed])
                if not claimed:
                    return
                seen.extend(one.id for one in claimed)

        threads = [threading.Thread(target=consume) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=30)
        assert len(seen) == len(set(seen)) == 1000


def _consume(url: str, pipe: Connection) -> None:
    """Child: take everything in small transactions, every third one rolled back first; report the ids."""
    taken: list[bytes] = []
    with Hub.open(url) as hub, hub.session() as session:
        pipe.send("ready")
        pipe.recv()
        turn = 0
        while True:
            try:
                found = session.dequeue_array("orders", DequeueOptions(wait=0), 7)
            except AqError:
                break
            turn += 1
            if turn % 3 == 0:
                session.rollback()
                continue
            session.commit()
            taken += [one.msgid for one in found]
    pipe.send(taken)


def _hold(url: str, pipe: Connection) -> None:
    """Child: take three messages and wait to be killed."""
    with Hub.open(url) as hub, hub.session() as session:
        session.dequeue_array("orders", DequeueOptions(wait=0), 3)
        pipe.send("held")
        pipe.recv()


def _pump(url: str, pipe: Connection) -> None:
    """Child: write without a pause until told to stop."""
    with Hub.open(url) as hub:
        with hub.read() as conn:
            queue = transfer.resolve(conn, "orders")
        pipe.send("pumping")
        while not pipe.poll():
            with hub.write() as conn:
                transfer.put(conn, queue, [Message("x" * 200)] * 100)


def _wait(url: str, pipe: Connection) -> None:
    """Child: wait for a message and report when it came."""
    with Hub.open(url) as hub, hub.session() as session:
        pipe.send("waiting")
        found = session.dequeue("orders", DequeueOptions(wait=30))
        pipe.send((found.message.body, time.time()))
        session.commit()


class ProcessSuite(HubCase):
    """Several processes on one hub."""

    def child(self, target: Any, context: Any = CHILDREN) -> tuple[Any, Connection]:
        here, there = context.Pipe()
        process = context.Process(target=target, args=(self.url, there))
        process.start()
        there.close()
        return process, here

    def end(self, process: Any, pipe: Connection) -> None:
        process.join(timeout=20)
        pipe.close()
        assert process.exitcode is not None

    def test_two_processes_take_every_message_exactly_once(self) -> None:
        self.queue(max_retries=1000)
        with self.hub.session() as session:
            ids = session.enqueue_array("orders", [Message(str(n)) for n in range(600)])
            session.commit()
        children = [self.child(_consume) for _ in range(2)]
        for _, pipe in children:
            assert pipe.recv() == "ready"
        for _, pipe in children:
            pipe.send("go")
        taken = [pipe.recv() for _, pipe in children]
        for process, pipe in children:
            self.end(process, pipe)
        rest = [one.encode() for one in self.take("orders")]  # rolled back by one while the other found nothing
        assert len(taken[0]) + len(taken[1]) + len(rest) == 600
        assert len(set(taken[0]) | set(taken[1])) == 600 - len(rest)
        assert set(taken[0]) | set(taken[1]) <= set(ids)

    def test_busy_process_leaves_room_for_another(self) -> None:
        self.queue()
        process, pipe = self.child(_pump)
        assert pipe.recv() == "pumping"
        longest = 0.0
        for number in range(50):
            started = time.monotonic()
            self.send("orders", str(number))
            longest = max(longest, time.monotonic() - started)
        pipe.send("stop")
        self.end(process, pipe)
        assert longest < 5

    def test_messages_of_a_killed_consumer_come_back(self) -> None:
        self.queue()
        self.send("orders", *"abcd")
        process, pipe = self.child(_hold)
        assert pipe.recv() == "held"
        assert self.take("orders") == ["d"]
        os.kill(process.pid, signal.SIGKILL)
        self.end(process, pipe)

        def back() -> list[Any]:
            time_manager.run_once(self.hub)
            return self.take("orders")

        assert eventually(back, what="the messages of the killed consumer") == ["a", "b", "c"]

    def test_killed_consumer_counts_no_attempt(self) -> None:
        self.queue(max_retries=0)
        self.send("orders", *"abc")
        process, pipe = self.child(_hold)
        assert pipe.recv() == "held"
        os.kill(process.pid, signal.SIGKILL)
        self.end(process, pipe)
        eventually(lambda: time_manager.run_once(self.hub) and self.view("orders_t")[0]["IN_TRANSACTION"] in (0, False))
        with self.hub.session() as session:
            found = eventually(
                lambda: session.dequeue("orders", DequeueOptions(wait=0)), tolerate=(AqError,), what="the messages"
            )
            assert found.message.attempts == 0
            session.commit()

    def test_commit_wakes_a_consumer_in_another_process(self) -> None:
        self.queue()
        process, pipe = self.child(_wait)
        assert pipe.recv() == "waiting"
        assert not pipe.poll(0.3)  # it sits in its wait by now, or will find the message at once
        sent = time.time()
        self.send("orders", "x")
        body, received = pipe.recv()
        self.end(process, pipe)
        assert body == "x"
        assert received - sent < 0.8

    def test_commit_of_a_session_that_lost_its_claims_is_refused(self) -> None:
        self.queue()
        self.send("orders", "x")
        with self.hub.session() as session:
            session.dequeue("orders", DequeueOptions(wait=0))
            session.enqueue("orders", Message("with it"))
            if self.hub.postgresql:
                pid = session._work._writer[1].info.backend_pid  # type: ignore[attr-defined]
                with self.hub.write() as conn:
                    conn.exec_driver_sql(f"SELECT pg_terminate_backend({pid})")
            else:
                with self.hub.write() as conn:
                    conn.exec_driver_sql("UPDATE aq_message SET state = 0, claim = NULL")
            for _ in range(2):  # and it stays refused: nothing pretends that the work was done
                with pytest.raises(HubError):
                    session.commit()
            session.rollback()
        assert self.take("orders") == ["x"]
