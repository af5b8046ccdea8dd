"""Many consumers at once, as threads and as processes that are killed: every message once, in order, none left behind.

A consumer writes a receipt for what it takes in the transaction that takes it. So whatever was rolled back or killed,
and whenever, the receipts tell what was consumed: each message must have one, for each of its consumers.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import pytest

from mgw.gateway.aq.errors import NoMessage
from mgw.gateway.aq.hub import Hub
from mgw.gateway.aq.model import DequeueMode, DequeueOptions, Navigation
from mgw.gateway.aq.sessions.session import Session
from mgw.gateway.aq.upkeep import time_manager
from mgw.transforms.message import Message
from tests.conformance.hub_suite import HubCase, body_of
from tests.support.children import CHILDREN
from tests.support.waiting import eventually

KILLS = int(os.environ.get("MGW_KILLS", "100"))
_PLACES: tuple[tuple[str, str | None], ...] = (("orders", None), ("events", "GREEN"), ("groups", None))
_GROUP = Navigation.FIRST_MESSAGE_ONE_GROUP


class Receipt(NamedTuple):
    """``who`` took ``body`` in its transaction number ``turn``."""

    queue: str
    consumer: str
    body: str
    who: str
    turn: int


def consume(hub: Hub, who: str, seed: int, alone: bool, stop: Callable[[], Any]) -> None:
    """Take messages until told to stop and nothing is there; one time in four undo it, in one way or another.

    ``alone``: the only consumer of RED; else one of the crowd.
    """
    chance = random.Random(seed)
    with hub.session() as session:
        for turn in itertools.count():
            queue, consumer = ("events", "RED") if alone else chance.choice(_PLACES)
            stopped = stop()
            try:
                bodies = _take(session, queue, consumer, chance)
            except NoMessage:
                if stopped:
                    return
                continue
            way = chance.random()
            if way < 0.1:
                session.rollback()
                continue
            receipts = [Message("|".join((queue, consumer or "", body, who, str(turn)))) for body in bodies]
            session.enqueue_array("receipts", receipts)
            if way < 0.15:
                session.rollback()
            elif way < 0.25:
                session.rollback_to("before")
                session.commit()
            else:
                session.commit()


def _take(session: Session, queue: str, consumer: str | None, chance: random.Random) -> list[str]:
    session.savepoint("before")
    wait = 0.02
    if queue == "groups":
        found = session.dequeue_array(queue, DequeueOptions(navigation=_GROUP, wait=wait), 100)
        return [str(body_of(one)) for one in found]
    first = DequeueOptions(consumer, navigation=Navigation.FIRST_MESSAGE, wait=wait)
    if chance.random() < 0.2:  # look, lock, and take by the id what was locked
        locked = session.dequeue(
            queue, DequeueOptions(consumer, DequeueMode.LOCKED, Navigation.FIRST_MESSAGE, wait=wait)
        )
        return [str(body_of(session.dequeue(queue, DequeueOptions(consumer, msgid=locked.msgid, wait=0))))]
    return [str(body_of(one)) for one in session.dequeue_array(queue, first, chance.choice((1, 3, 10)))]


def produce(hub: Hub, count: int) -> None:
    """Messages for ``orders``, one by one, and for ``groups``, a group in each transaction: ``group/number/size``."""
    chance = random.Random(count)
    with hub.session() as session:
        for number in range(count):
            session.enqueue("orders", Message(str(number)))
            size = number % 3 + 1
            session.enqueue_array("groups", [Message(f"{number}/{each}/{size}") for each in range(size)])
            if chance.random() < 0.1:
                session.rollback()
                session.enqueue("orders", Message(str(number)))
                session.enqueue_array("groups", [Message(f"{number}/{each}/{size}") for each in range(size)])
            session.commit()


def _child(url: str, pipe: Connection, who: str, seed: int, alone: bool) -> None:
    with Hub.open(url, durability="fast") as hub:
        pipe.send("ready")
        consume(hub, who, seed, alone, pipe.poll)
    pipe.send("done")


class CrowdSuite(HubCase):
    """Three queues: ``orders`` and ``groups`` for one consumer each, ``events`` for RED and GREEN, by priority."""

    def prepare(self, count: int) -> None:
        self.clock.time = time.time()  # the leases of processes are real
        self.queue("orders", max_retries=100_000)
        self.queue("groups", table={"message_grouping": "TRANSACTIONAL"}, max_retries=100_000)
        self.queue("events", table={"multiple_consumers": True, "sort_list": "PRIORITY,ENQ_TIME"}, max_retries=100_000)
        self.queue("receipts")
        for name in ("RED", "GREEN"):
            self.admin.add_subscriber("events", name)
        chance = random.Random(count)
        with self.hub.session() as session:
            events = [Message(f"{number}", priority=chance.randint(-2, 2)) for number in range(count)]
            self.in_order = [str(event.body) for event in sorted(events, key=lambda event: event.priority)]
            session.enqueue_array("events", events)
            session.commit()

    def work_off(self) -> bool:
        """Whether everybody has taken everything; the time manager removes it, and gives back what the dead had."""
        self.clock.time = time.time()
        time_manager.run_once(self.hub)
        return not any(self.view(f"{queue}_t") for queue in ("orders", "groups", "events"))

    def receipts(self) -> Iterator[Receipt]:
        for text in self.take("receipts", navigation=Navigation.FIRST_MESSAGE):
            queue, consumer, body, who, turn = text.split("|")
            yield Receipt(queue, consumer, body, who, int(turn))

    def judge(self, count: int) -> None:
        """Every message once for each of its consumers; groups whole; in order for whoever was alone; nothing held."""
        found: list[Receipt] = []
        while some := list(self.receipts()):
            found += some
        times = Counter((each.queue, each.consumer, each.body) for each in found)
        assert [each for each, number in times.items() if number != 1] == []
        groups = [f"{number}/{each}/{number % 3 + 1}" for number in range(count) for each in range(number % 3 + 1)]
        wanted = {("orders", ""): map(str, range(count)), ("groups", ""): groups}
        wanted |= {("events", "RED"): self.in_order, ("events", "GREEN"): self.in_order}
        for (queue, consumer), bodies in wanted.items():
            assert sorted(body for q, c, body in times if (q, c) == (queue, consumer)) == sorted(bodies)
        assert [each.body for each in found if each.consumer == "RED"] == self.in_order
        for transaction in _transactions(found, "groups"):
            (group, size), *more = {(body.split("/")[0], int(body.split("/")[2])) for body in transaction}
            assert (more, transaction) == ([], [f"{group}/{each}/{size}" for each in range(size)])
        place = {body: number for number, body in enumerate(self.in_order)}
        for transaction in _transactions(found, "events"):
            assert transaction == sorted(transaction, key=place.__getitem__)
        with self.hub.read() as conn:
            for table in ("aq_message", "aq_entry"):
                assert conn.exec_driver_sql(f"SELECT COUNT(*) FROM {table} WHERE state = 8").scalar() == 0

    def test_threads_take_every_message_once(self) -> None:
        count = 60
        self.prepare(count)
        stop = threading.Event()
        failures: list[BaseException] = []

        def run(work: Any, *args: Any) -> None:
            try:
                work(*args)
            except BaseException as error:  # a thread must not fail in silence
                failures.append(error)

        threads = [
            threading.Thread(target=run, args=(consume, self.hub, f"t{each}", each, each == 0, stop.is_set))
            for each in range(5)
        ]
        threads.append(threading.Thread(target=run, args=(produce, self.hub, count)))
        for thread in threads:
            thread.start()
        threads[-1].join(60)
        with suppress(AssertionError):
            eventually(lambda: failures or self.work_off(), deadline=60, what="everything taken")
        stop.set()
        for thread in threads:
            thread.join(60)
        assert failures == []
        self.judge(count)

    @pytest.mark.parametrize(
        ("kills", "count"),
        [
            pytest.param(2, 40, id="short"),
            pytest.param(KILLS, 60 * KILLS, marks=[pytest.mark.long, pytest.mark.timeout(3600)], id="long"),
        ],
    )
    def test_processes_that_are_killed_lose_and_double_nothing(self, kills: int, count: int) -> None:
        self.prepare(count)
        names = itertools.count()
        chance = random.Random(kills)

        def start(alone: bool = False) -> tuple[Any, Connection]:
            number = next(names)
            here, there = CHILDREN.Pipe()
            process = CHILDREN.Process(target=_child, args=(self.url, there, f"p{number}", number, alone))
            process.start()
            there.close()
            return process, here

        crowd = [start(alone=True), *(start() for _ in range(2))]
        for _, pipe in crowd:
            assert pipe.recv() == "ready"
        producer = threading.Thread(target=produce, args=(self.hub, count))
        producer.start()
        for _ in range(kills):
            index = chance.randrange(1, len(crowd))
            process, pipe = crowd[index]
            time.sleep(chance.random() * 0.1)  # anywhere in its work
            os.kill(process.pid, signal.SIGKILL)
            process.join(20)
            pipe.close()
            crowd[index] = start()
            assert crowd[index][1].recv() == "ready"
        producer.join(3000)
        eventually(self.work_off, deadline=120 if kills < 10 else 3000, what="everything taken")
        for _, pipe in crowd:
            pipe.send("stop")
        for process, pipe in crowd:
            assert pipe.recv() == "done"
            process.join(20)
            pipe.close()
        self.judge(count)


def _transactions(receipts: list[Receipt], queue: str) -> list[list[str]]:
    """What was taken together from a queue."""
    together: dict[tuple[str, int], list[str]] = {}
    for each in receipts:
        if each.queue == queue:
            together.setdefault((each.who, each.turn), []).append(each.body)
    return list(together.values())
