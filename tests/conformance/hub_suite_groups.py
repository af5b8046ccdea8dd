"""What every hub database must do: transaction groups. Run by test_hub_*.py."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import defaultdict
from multiprocessing.connection import Connection
from typing import Any

import pytest
import sqlalchemy as sa

from mgw.gateway.aq.errors import EndOfGroup, NoMessage
from mgw.gateway.aq.hub import Hub
from mgw.gateway.aq.model import Dequeued, DequeueMode, DequeueOptions, EnqueueOptions, Navigation, Visibility
from mgw.gateway.aq.queues import transfer
from mgw.gateway.aq.sessions.session import Session
from mgw.gateway.aq.store.statements import Db
from mgw.gateway.aq.upkeep import time_manager
from mgw.transforms.message import Message
from tests.conformance.hub_suite import HubCase, body_of, now, refused
from tests.support.children import CHILDREN
from tests.support.waiting import eventually

FIRST, NEXT, SKIP = Navigation.FIRST_MESSAGE, Navigation.NEXT_MESSAGE, Navigation.NEXT_TRANSACTION
ONE, FIRST_ONE = Navigation.NEXT_MESSAGE_ONE_GROUP, Navigation.FIRST_MESSAGE_ONE_GROUP
MULTI, FIRST_MULTI = Navigation.NEXT_MESSAGE_MULTI_GROUP, Navigation.FIRST_MESSAGE_MULTI_GROUP
GROUPED = {"message_grouping": "TRANSACTIONAL"}


class GroupCase(HubCase):
    """Queues with transaction groups, for one consumer or for RED and GREEN."""

    consumer: str | None = None

    def grouped(
        self, name: str = "orders", consumer: str | None = None, *, sort: str | None = None, **more: Any
    ) -> str:
        self.consumer = consumer
        table = {**GROUPED, "multiple_consumers": consumer is not None, "sort_list": sort}
        self.queue(name, table=table, **more)
        if consumer:
            self.admin.add_subscriber(name, consumer)
            self.admin.add_subscriber(name, "GREEN")
        return name

    def get(self, session: Session, navigation: Navigation = NEXT, **options: Any) -> Any:
        """Body of the next message, for the consumer of this test."""
        found = session.dequeue("orders", now(consumer_name=self.consumer, navigation=navigation, **options))
        assert found.transaction_group is None
        return body_of(found)

    def array(self, session: Session, navigation: Navigation, size: int = 100, **options: Any) -> list[Any]:
        wanted = now(consumer_name=self.consumer, navigation=navigation, **options)
        return [body_of(found) for found in session.dequeue_array("orders", wanted, size)]

    def everything(self) -> list[Any]:
        """Bodies of what can be taken now, without taking it."""
        with self.hub.session() as session:
            wanted = now(consumer_name=self.consumer, navigation=FIRST_MULTI, dequeue_mode=DequeueMode.LOCKED)
            try:
                return [body_of(found) for found in session.dequeue_array("orders", wanted, 1000)]
            except NoMessage:
                return []

    def mine(self, row: dict[str, Any]) -> bool:
        """Whether a row of the message view is for the consumer of this test."""
        return row["CONSUMER_NAME"] == self.consumer


both = pytest.mark.parametrize("consumer", [None, "RED"])


class GroupSuite(GroupCase):
    """One session after another."""

    @both
    def test_groups_come_one_by_one_and_tell_their_end(self, consumer: str | None) -> None:
        self.grouped(consumer=consumer)
        for group in "abc":
            with self.hub.session() as session:
                for number in "123":
                    session.enqueue("orders", Message(group + number))
                session.commit()
        seen, navigation = [], FIRST
        with self.hub.session() as session:
            while True:
                try:
                    seen.append(self.get(session, navigation))
                    navigation = NEXT
                except NoMessage:
                    break
                except EndOfGroup:
                    with refused(25235):  # and it stays at the end
                        self.get(session, NEXT)
                    seen.append("end")
                    session.commit()
                    navigation = SKIP
        assert seen == [*("a1", "a2", "a3", "end"), *("b1", "b2", "b3", "end"), *("c1", "c2", "c3", "end")]

    @both
    @pytest.mark.parametrize("sort", ["PRIORITY", "PRIORITY,ENQ_TIME", "ENQ_TIME,PRIORITY"])
    def test_first_message_decides_the_priority_of_its_group(self, consumer: str | None, sort: str) -> None:
        self.grouped(consumer=consumer, sort=sort)
        with self.hub.session() as one, self.hub.session() as two, self.hub.session() as three:
            for session, priorities in ((one, (5, -9)), (two, (1, 9)), (three, (5, 0))):
                for priority in priorities:
                    session.enqueue("orders", Message(f"{priorities[0]}:{priority}", priority=priority))
            three.commit()
            two.commit()
            one.commit()
        with self.hub.session() as session:
            found = session.dequeue_array("orders", now(consumer_name=consumer, navigation=FIRST_MULTI), 100)
        assert [body_of(each) for each in found] == ["1:1", "1:9", "5:5", "5:-9", "5:5", "5:0"]
        assert [each.message.priority for each in found] == [1, 1, 5, 5, 5, 5]
        groups = [each.transaction_group for each in found]
        assert groups[0] == groups[1] != groups[2] == groups[3] != groups[4] == groups[5]
        assert len(set(groups)) == 3

    @both
    def test_first_message_decides_delay_and_expiration_of_its_group(self, consumer: str | None) -> None:
        self.grouped(consumer=consumer)
        for head, second in (
            (Message("late", delay=60, expiration=30), Message("late too")),
            (Message("soon"), Message("soon too", delay=60, expiration=1)),
        ):
            with self.hub.session() as session:
                session.enqueue("orders", head)
                session.enqueue_array("orders", [second, second])
                session.commit()
        assert self.everything() == ["soon", "soon too", "soon too"]
        self.run_time(60)
        assert self.everything() == ["late", "late too", "late too", "soon", "soon too", "soon too"]
        self.run_time(30)
        assert self.everything() == ["soon", "soon too", "soon too"]
        expired = {row["MSG_ID"] for row in self.view("orders_t") if row["MSG_STATE"] == "EXPIRED"}
        assert len(expired) == 3

    def test_browsing_the_exception_queue_shows_every_message_of_an_expired_group(self) -> None:
        self.grouped()
        self.send("orders", *"abc", expiration=1)
        self.run_time(2)
        self.admin.start_queue("AQ$_orders_t_E", enqueue=False)
        look = now(dequeue_mode=DequeueMode.BROWSE)
        with self.hub.session() as session:
            assert [body_of(session.dequeue("AQ$_orders_t_E", look)) for _ in "abc"] == ["a", "b", "c"]
            with refused(25234):
                session.dequeue("AQ$_orders_t_E", now(dequeue_mode=DequeueMode.BROWSE, navigation=SKIP))

    @both
    @pytest.mark.parametrize("mode", [DequeueMode.REMOVE, DequeueMode.LOCKED])
    def test_whoever_takes_one_message_has_the_whole_group(self, consumer: str | None, mode: DequeueMode) -> None:
        self.grouped(consumer=consumer)
        self.send("orders", "a1", "a2")
        self.send("orders", "b1", "b2")
        with self.hub.session() as one, self.hub.session() as two, self.hub.session() as three:
            assert self.get(one, dequeue_mode=mode) == "a1"
            assert self.get(two, dequeue_mode=mode) == "b1"
            with refused(25228):
                self.get(three)
            assert self.get(three, dequeue_mode=DequeueMode.BROWSE) == "a1"
            assert self.get(one, dequeue_mode=mode) == "a2"
            with refused(25235):
                self.get(one, dequeue_mode=mode)
            one.rollback()
            assert self.get(three, FIRST) == "a1"
            three.rollback()
            two.commit()
        attempts = 1 if mode is DequeueMode.REMOVE else 0
        with self.hub.session() as session:
            found = session.dequeue_array("orders", now(consumer_name=consumer, navigation=FIRST_MULTI), 100)
            session.commit()
        left = {DequeueMode.REMOVE: ["a1", "a2", "b2"], DequeueMode.LOCKED: ["a1", "a2", "b1", "b2"]}[mode]
        assert [body_of(each) for each in found] == left
        assert [each.message.attempts for each in found][:2] == [attempts + 1, attempts]  # a1 was in three's hands too

    @both
    def test_arrays_stay_in_one_group_or_span_many(self, consumer: str | None) -> None:
        self.grouped(consumer=consumer)
        self.send("orders", "a1", "a2", "a3")
        self.send("orders", "b1")
        self.send("orders", "c1", "c2")
        with self.hub.session() as session:
            assert self.array(session, FIRST_ONE, 2) == ["a1", "a2"]
            assert self.array(session, ONE, 2) == ["a3"]
            assert self.array(session, ONE, 2) == ["b1"]
            session.rollback()
            assert self.array(session, FIRST_MULTI, 2) == ["a1", "a2"]
            assert self.array(session, MULTI, 3) == ["a3", "b1", "c1"]
            with self.hub.session() as other, refused(25228):
                self.get(other)  # the rest of c is locked with its first message
            assert self.array(session, MULTI, 3) == ["c2"]
            session.rollback()
            assert self.array(session, FIRST) == ["a1", "a2", "a3"]
            with refused(25235):
                self.array(session, NEXT)
            assert self.array(session, SKIP) == ["b1"]
            assert self.array(session, SKIP, 1) == ["c1"]
            assert self.array(session, NEXT) == ["c2"]
            with refused(25228):
                self.array(session, SKIP)
            session.commit()
        assert self.everything() == []

    @both
    def test_array_takes_no_more_groups_than_it_needs(self, consumer: str | None) -> None:
        self.grouped(consumer=consumer)
        for group in "abcd":
            self.send("orders", f"{group}1", f"{group}2", f"{group}3")
        with self.hub.session() as one, self.hub.session() as two:
            assert self.array(one, FIRST_MULTI, 4) == ["a1", "a2", "a3", "b1"]
            assert self.array(two, FIRST_MULTI, 100) == ["c1", "c2", "c3", "d1", "d2", "d3"]

    @both
    def test_skipping_leaves_the_group_and_first_message_comes_back_to_it(self, consumer: str | None) -> None:
        self.grouped(consumer=consumer)
        self.send("orders", "a1", "a2")
        self.send("orders", "b1", "b2")
        with self.hub.session() as session:
            assert self.get(session) == "a1"
            assert self.get(session, SKIP) == "b1"
            assert self.get(session, FIRST) == "a2"
            with refused(25235):
                self.get(session)
            assert self.get(session, SKIP) == "b2"
            session.commit()
        assert self.everything() == []

    @both
    @pytest.mark.parametrize("how", ["msgid", "correlation", "deq_condition"])
    def test_search_takes_a_message_out_of_its_group(self, consumer: str | None, how: str) -> None:
        self.grouped(consumer=consumer)
        with self.hub.session() as session:
            ids = [session.enqueue("orders", Message(f"a{n}", correlation=str(n))) for n in (1, 2, 3)]
            session.commit()
        self.send("orders", "b1")
        search: dict[str, Any] = {"msgid": ids[1], "correlation": "2", "deq_condition": "corrid = '2'"}
        with self.hub.session() as one, self.hub.session() as two:
            assert self.get(one, **{how: search[how]}) == "a2"
            assert self.get(two) == "b1"  # the other group: of this one a message is in somebody's hands
            one.commit()
            assert self.get(one, FIRST) == "a1"
            assert self.get(one) == "a3"
            with refused(25235):
                self.get(one)

    @both
    def test_partial_commit_leaves_a_smaller_group(self, consumer: str | None) -> None:
        self.grouped(consumer=consumer)
        self.send("orders", "a1", "a2", "a3")
        with self.hub.session() as one, self.hub.session() as two, self.hub.session() as three:
            assert self.get(one) == "a1"
            one.commit()
            assert self.get(two) == "a2"
            with refused(25235):
                self.get(one)  # what is left is in two's hands
            with refused(25228):
                self.get(three)
            two.rollback()
            assert self.get(one) == "a2"  # goes on after a1, and has locked the rest again
            with refused(25228):
                self.get(three)
            assert self.get(one) == "a3"

    @both
    def test_immediate_calls_are_transactions_of_their_own(self, consumer: str | None) -> None:
        self.grouped(consumer=consumer)
        at_once = EnqueueOptions(Visibility.IMMEDIATE)
        with self.hub.session() as session:
            session.enqueue("orders", Message("mine 1"))
            session.enqueue("orders", Message("alone"), at_once)
            session.enqueue_array("orders", [Message("pair 1"), Message("pair 2")], at_once)
            session.enqueue("orders", Message("mine 2"))
            session.commit()
            found = session.dequeue_array("orders", now(consumer_name=consumer, navigation=FIRST_MULTI), 100)
            session.rollback()
            groups = defaultdict(list)
            for each in found:
                groups[each.transaction_group].append(body_of(each))
            assert list(groups.values()) == [["mine 1", "mine 2"], ["alone"], ["pair 1", "pair 2"]]
            taken = [self.get(session, visibility=Visibility.IMMEDIATE) for _ in range(2)]
            with refused(25235):
                self.get(session, visibility=Visibility.IMMEDIATE)
            session.rollback()
        assert taken == ["mine 1", "mine 2"]
        assert self.everything() == ["alone", "pair 1", "pair 2"]

    @both
    def test_group_waits_as_a_whole_for_the_retry_delay_of_a_message(self, consumer: str | None) -> None:
        self.grouped(consumer=consumer, retry_delay=60)
        self.send("orders", "a1", "a2", "a3")
        with self.hub.session() as session:
            assert self.get(session) == "a1"
            session.rollback()
        assert self.everything() == []
        self.run_time(60)
        assert self.everything() == ["a1", "a2", "a3"]

    @both
    def test_message_over_its_retries_leaves_the_rest_of_its_group(self, consumer: str | None) -> None:
        self.grouped(consumer=consumer, max_retries=0)
        self.send("orders", "a1", "a2")
        with self.hub.session() as session:
            assert self.get(session) == "a1"
            session.rollback()
        assert self.everything() == ["a2"]

    @both
    def test_browsing_walks_through_groups_and_sees_what_others_hold(self, consumer: str | None) -> None:
        self.grouped(consumer=consumer)
        self.send("orders", "a1", "a2")
        self.send("orders", "b1")
        look = {"dequeue_mode": DequeueMode.BROWSE}
        with self.hub.session() as holder, self.hub.session() as session:
            assert self.get(holder) == "a1"
            assert self.get(session, **look) == "a1"
            assert self.get(session, **look) == "a2"
            with refused(25235):
                self.get(session, **look)
            assert self.get(session, SKIP, **look) == "b1"
            with refused(25228):
                self.get(session, SKIP, **look)
            assert self.array(session, FIRST_ONE, **look) == ["a1", "a2"]
            assert self.array(session, FIRST_MULTI, **look) == ["a1", "a2", "b1"]

    def test_groups_of_two_queues_are_two_groups(self) -> None:
        self.grouped()
        self.grouped("bills")
        with self.hub.session() as session:
            session.enqueue("orders", Message("o1"))
            session.enqueue("bills", Message("b1"))
            session.enqueue("orders", Message("o2"))
            session.enqueue("bills", Message("b2"))
            session.commit()
            assert self.array(session, FIRST) == ["o1", "o2"]
            assert [body_of(each) for each in session.dequeue_array("bills", now(), 9)] == ["b1", "b2"]

    @both
    def test_sessions_in_one_application_transaction_make_one_group(self, consumer: str | None) -> None:
        self.grouped(consumer=consumer)
        engine = sa.create_engine(self.application_url)
        for group in "ab":
            with engine.begin() as conn:
                for number in "123":
                    self.hub.session(conn).enqueue("orders", Message(group + number))
        with engine.connect() as conn:
            session = self.hub.session(conn)
            assert self.array(session, FIRST) == ["a1", "a2", "a3"]
            conn.commit()
            with refused(25235):
                self.get(session)
            assert self.get(session, SKIP) == "b1"
            if self.hub.postgresql:  # on SQLite the application's transaction keeps every other writer out
                with self.hub.session() as other, refused(25228):
                    self.get(other)
            conn.rollback()
            assert self.get(session) == "b1"  # not b2: the rollback gave b1 back
            conn.rollback()
        engine.dispose()

    @both
    def test_group_whose_first_message_was_undone_by_a_savepoint_has_another_head(self, consumer: str | None) -> None:
        self.grouped(consumer=consumer, sort="PRIORITY")
        engine = sa.create_engine(self.application_url)
        if not self.hub.postgresql:
            sa.event.listen(engine, "connect", lambda connection, _: setattr(connection, "isolation_level", None))
            sa.event.listen(engine, "begin", lambda conn: conn.exec_driver_sql("BEGIN"))
        with engine.begin() as conn:
            session = self.hub.session(conn)
            savepoint = conn.begin_nested()
            session.enqueue("orders", Message("gone", priority=1))
            savepoint.rollback()
            session.enqueue("orders", Message("head", priority=7))
            session.enqueue("orders", Message("second", priority=2))
        engine.dispose()
        self.send("orders", "before", priority=6)
        with self.hub.session() as session:
            found = session.dequeue_array("orders", now(consumer_name=consumer, navigation=FIRST_MULTI), 9)
        assert [body_of(each) for each in found] == ["before", "head", "second"]
        assert [each.message.priority for each in found] == [6, 7, 7]

    def test_waiting_consumer_gets_a_group_when_it_is_committed(self) -> None:
        self.grouped()
        found: list[Any] = []

        def consume() -> None:
            with self.hub.session() as session:
                wanted = DequeueOptions(navigation=ONE, wait=20)
                found.extend(body_of(each) for each in session.dequeue_array("orders", wanted, 100))
                session.commit()

        thread = threading.Thread(target=consume)
        thread.start()
        eventually(lambda: self.hub.notifier._callbacks, what="the consumer waits")
        self.send("orders", "a1", "a2", "a3")
        thread.join(timeout=15)
        assert found == ["a1", "a2", "a3"]
        with self.hub.session() as session, refused(25228):
            session.dequeue("orders", DequeueOptions(navigation=SKIP, wait=0.05))


class GroupTransferSuite(GroupCase):
    """Groups and the jobs of a gateway."""

    @both
    def test_batch_of_a_job_is_a_group_and_is_claimed_whole(self, consumer: str | None) -> None:
        self.grouped(consumer=consumer)
        with self.hub.read() as conn:
            queue = transfer.resolve(conn, "orders")
        for batch in ("abc", "de"):
            with self.hub.write() as conn:
                transfer.put(conn, queue, [Message(body, priority=ord(body)) for body in batch])
        with self.hub.session() as session:
            assert self.array(session, FIRST) == ["a", "b", "c"]
            with self.hub.write() as conn:
                claimed = transfer.claim(conn, queue, consumer, 1)
                assert [each.message.body for each in claimed] == ["d", "e"]
                assert transfer.claim(conn, queue, consumer, 1) == []
            session.rollback()
        with self.hub.session() as session:
            assert self.array(session, FIRST_MULTI) == ["a", "b", "c"]
            with refused(25228):
                self.array(session, MULTI)
        with self.hub.write() as conn:
            assert transfer.release(conn, queue, consumer, [claimed[1].id]) == 1
            assert [each.message.body for each in transfer.claim(conn, queue, consumer, 100)] == ["a", "b", "c"]
            assert transfer.complete(conn, queue, consumer, [claimed[0].id]) == 1
            assert [each.message.body for each in transfer.claim(conn, queue, consumer, 100)] == ["e"]

    def test_a_plan_leaves_a_group_that_has_expired_to_the_time_manager(self) -> None:
        self.grouped()
        with self.hub.read() as conn:
            queue = transfer.resolve(conn, "orders")
        for expiration, batch in ((5, "ab"), (None, "cd")):
            with self.hub.write() as conn:
                transfer.put(conn, queue, [Message(body, expiration=expiration) for body in batch])
        self.clock.time += 5
        with self.hub.write() as conn:
            assert [each.message.body for each in transfer.claim(conn, queue, None, 10)] == ["c", "d"]
        assert self.run_time().expired == 2

    def test_claim_costs_statements_per_batch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.grouped()
        with self.hub.read() as conn:
            queue = transfer.resolve(conn, "orders")
        for number in range(60):
            self.send("orders", f"{number}:1", f"{number}:2")
        with self.hub.write() as conn:
            statements: list[str] = []
            for name in ("rows", "run", "many"):
                original = getattr(Db, name)

                def counted(db: Db, sql: str, *rest: Any, original: Any = original) -> Any:
                    statements.append(sql)
                    return original(db, sql, *rest)

                monkeypatch.setattr(Db, name, counted)
            claimed = transfer.claim(conn, queue, None, 50)
        assert [each.message.body for each in claimed] == [f"{n}:{m}" for n in range(25) for m in (1, 2)]
        assert len(statements) <= 14  # whether it is 25 groups or one


# -- many at once ----------------------------------------------------------------------------------------------------


def produce(hub: Hub, producer: int, groups: int) -> None:
    """Groups of one to five messages, ``<producer>.<group>/<number>/<size>``, in one call or in several."""
    chance = random.Random(producer)
    with hub.session() as session:
        for group in range(groups):
            size = chance.randint(1, 5)
            bodies = [Message(f"{producer}.{group}/{number}/{size}") for number in range(size)]
            if chance.random() < 0.5:
                session.enqueue_array("orders", bodies)
            else:
                for body in bodies:
                    session.enqueue("orders", body)
            session.commit()


def take_groups(hub: Hub, consumer: str | None, seed: int, stop: Any) -> list[list[str]]:
    """Take group after group, in one of three ways, and roll back now and then; what was taken, per transaction."""
    chance = random.Random(seed)
    taken: list[list[str]] = []
    with hub.session() as session:
        while True:
            try:
                found = _take_group(session, consumer, chance)
            except NoMessage:
                if stop():
                    return taken
                found = []
            if found and chance.random() < 0.2:
                session.rollback()
                continue
            session.commit()
            if found:
                taken.append([str(body_of(each)) for each in found])


def _take_group(session: Session, consumer: str | None, chance: random.Random) -> list[Dequeued]:
    way = chance.randint(0, 2)
    if way == 0:
        wanted = DequeueOptions(consumer, navigation=FIRST_ONE, wait=0.02)
        return session.dequeue_array("orders", wanted, 100)
    if way == 1:
        wanted = DequeueOptions(consumer, navigation=FIRST_MULTI, wait=0.02)
        found = session.dequeue_array("orders", wanted, 4)
    else:
        found = [session.dequeue("orders", DequeueOptions(consumer, navigation=FIRST, wait=0.02))]
    while True:  # the rest of the last group
        try:
            found.append(session.dequeue("orders", now(consumer_name=consumer)))
        except EndOfGroup:
            return found


def check_whole(transactions: list[list[str]]) -> int:
    """Every group is in one transaction, complete, once and in its order; returns the number of messages."""
    seen: set[str] = set()
    for bodies in transactions:
        groups: dict[str, list[int]] = {}
        for body in bodies:
            group, number, size = body.split("/")
            groups.setdefault(group, []).append(int(number))
            assert body not in seen
            seen.add(body)
        for group, numbers in groups.items():
            size = int(next(body for body in bodies if body.startswith(f"{group}/")).split("/")[2])
            assert numbers == list(range(size)), f"group {group} was split: {bodies}"
    return len(seen)


def expected(producers: range, groups: int) -> int:
    total = 0
    for producer in producers:
        chance = random.Random(producer)
        for _ in range(groups):
            total += chance.randint(1, 5)
            chance.random()
    return total


def child(target: Any, *args: Any) -> tuple[Any, Connection]:
    """A process that runs ``target(url, pipe, ...)``."""
    here, there = CHILDREN.Pipe()
    process = CHILDREN.Process(target=target, args=(args[0], there, *args[1:]))
    process.start()
    there.close()
    return process, here


def end(process: Any, pipe: Connection) -> None:
    process.join(timeout=20)
    pipe.close()
    assert process.exitcode is not None


def _consume_groups(url: str, pipe: Connection, consumer: str | None, seed: int) -> None:
    """Child: take groups until told to stop and nothing is left."""
    with Hub.open(url) as hub:
        pipe.send("ready")
        pipe.send(take_groups(hub, consumer, seed, pipe.poll))


def _hold_group(url: str, pipe: Connection, consumer: str | None) -> None:
    """Child: take two messages of a group, and wait to be killed."""
    with Hub.open(url) as hub, hub.session() as session:
        found = [session.dequeue("orders", DequeueOptions(consumer, wait=20)) for _ in range(2)]
        pipe.send([body_of(each) for each in found])
        pipe.recv()


class GroupConcurrencySuite(GroupCase):
    """Threads and processes: no group is split, nothing is taken twice, nothing is lost."""

    @both
    def test_threads_take_whole_groups(self, consumer: str | None) -> None:
        self.grouped(consumer=consumer, max_retries=10_000)
        groups, producers = 25, range(2)
        done = threading.Event()
        taken: list[list[str]] = []
        failures: list[BaseException] = []

        def run(work: Any, *args: Any) -> None:
            try:
                taken.extend(work(*args) or [])
            except BaseException as error:  # a thread must not fail in silence
                failures.append(error)

        writers = [threading.Thread(target=run, args=(produce, self.hub, each, groups)) for each in producers]
        readers = [
            threading.Thread(target=run, args=(take_groups, self.hub, consumer, seed, done.is_set)) for seed in range(3)
        ]
        for thread in (*writers, *readers):
            thread.start()
        for thread in writers:
            thread.join(60)
        done.set()
        for thread in readers:
            thread.join(60)
        assert failures == []
        rest = [[body] for body in self.everything()]
        assert rest == []
        assert check_whole(taken) == expected(producers, groups)

    @both
    def test_processes_take_whole_groups_and_a_killed_one_gives_its_own_back(self, consumer: str | None) -> None:
        self.clock.time = time.time()  # the leases of the children are real
        self.grouped(consumer=consumer, max_retries=10_000)
        self.send("orders", *(f"9.0/{number}/4" for number in range(4)))
        victim, held = child(_hold_group, self.url, consumer)
        assert held.recv() == ["9.0/0/4", "9.0/1/4"]
        children = [child(_consume_groups, self.url, consumer, seed) for seed in range(2)]
        for _, pipe in children:
            assert pipe.recv() == "ready"
        produce(self.hub, 0, 30)
        os.kill(victim.pid, signal.SIGKILL)
        end(victim, held)

        def nothing_left() -> bool:
            time_manager.run_once(self.hub)
            return not {"READY", "WAIT"} & {row["MSG_STATE"] for row in self.view("orders_t") if self.mine(row)}

        eventually(nothing_left, what="everything taken")
        for _, pipe in children:
            pipe.send("stop")
        taken = [transaction for _, pipe in children for transaction in pipe.recv()]
        for process, pipe in children:
            end(process, pipe)
        assert self.everything() == []
        assert check_whole(taken) == expected(range(1), 30) + 4
