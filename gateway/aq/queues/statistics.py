"""What this process did with the queues since it opened the hub: counted in memory, stored now and then.

Counting costs about a microsecond per call and a tenth of one per message, and no statement. What a transaction did
counts when it has committed. The numbers are stored in rows of this process's own by the time manager's pass, and at
the commit and the end of a session if that was not done for ten seconds; the views add the rows of all living
processes. Nothing but these views reads them.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from mgw.gateway.aq.queues import statistics_sql
from mgw.gateway.aq.queues.activity import Dequeued, Enqueued, Event, HandedOut, LeftOut, Managed, Publisher
from mgw.gateway.aq.queues.statistics_sql import Key, Kind
from mgw.gateway.aq.store.ground import Ground
from mgw.gateway.aq.store.processes import host_name, is_dead
from mgw.gateway.aq.store.statements import Db, Row
from mgw.transforms.clock import Clock
from mgw.transforms.errors import HubError

__all__ = ["Activity", "Statistics", "forget_ended"]

FLUSH_SECONDS = 10.0
_LAST_SECONDS = 1.0  # how long a process that ends waits for others to let it forget its numbers
LEASE = 3600.0  # seconds after which a process of another machine that stored nothing is taken for ended
MAX_PUBLISHERS = 1000
OTHERS = "(others)"  # the publishers beyond
_KIND, _OBJECT = Key._fields.index("kind"), Key._fields.index("object_id")
_LEFT_OUT = len(Key._fields) + statistics_sql.VALUES.index("left_out")


class Activity:
    """The counters of a queue, a consumer or a publisher; names as the columns of ``aq_activity``."""

    __slots__ = (*statistics_sql.VALUES, "changed")

    def __init__(self, now: float) -> None:
        for name in statistics_sql.VALUES:
            setattr(self, name, None if name.startswith("last_") or name == "latency" else 0)
        self.first_time = now
        self.changed = True

    if TYPE_CHECKING:
        first_time: float
        enqueued: int
        dequeued: int
        browsed: int
        expired: int
        made_ready: int
        delayed: int
        expiring: int
        enqueue_transactions: int
        dequeue_transactions: int
        enqueue_seconds: float
        dequeue_seconds: float
        rule_seconds: float
        transform_seconds: float
        latency: float | None
        last_enqueue: float | None
        last_dequeue: float | None
        last_expired: float | None
        last_ready: float | None
        managed: int
        managed_seconds: float
        last_managed: float | None
        logged: int
        logged_seconds: float
        last_logged: float | None
        left_out: int


class Statistics:
    """The counters of one hub in this process; for any number of threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._mutex = threading.Lock()
        self._queues: dict[int, Activity] = {}
        self._consumers: dict[int, Activity] = {}
        self._publishers: dict[tuple[int, Publisher], Activity] = {}
        self._passes = 0
        self._pass_seconds = 0.0
        self._storing = threading.Lock()
        self._process = secrets.randbits(62)
        self._stored = self._closed = False
        self._told: dict[int, int] = {}  # of consumers, as stored: it stays where this process is taken for ended
        self._next = time.monotonic() + FLUSH_SECONDS
        self._renew = 0.0

    # -- counting --------------------------------------------------------------------------------------------------

    def add(self, events: Sequence[Event]) -> None:
        """Count what one committed transaction did."""
        with self._mutex:
            if len(events) == 1:
                self._count(events[0], 1)
                return
            seen = set[tuple[int, bool]]()
            for event in events:
                before = len(seen)
                if isinstance(event, Enqueued | Dequeued):
                    seen.add((event.queue_id, isinstance(event, Enqueued)))
                self._count(event, len(seen) - before)

    def _count(self, event: Event, transaction: int) -> None:
        if isinstance(event, Enqueued):
            self._enqueued(event, transaction)
        elif isinstance(event, Dequeued):
            self._dequeued(event, transaction)
        elif isinstance(event, HandedOut):
            self._handed_out(*event)
        elif isinstance(event, LeftOut):
            self._left_out(event)
        else:
            self._managed(event)

    def handed_out(  # noqa: PLR0917  (on the path of every message)
        self, queue_id: int, consumer: int, now: float, number: int, browse: bool, seconds: float, latency: float
    ) -> None:
        """Count a :class:`~mgw.gateway.aq.queues.activity.HandedOut` at once."""
        with self._mutex:
            self._handed_out(queue_id, consumer, now, number, browse, seconds, latency)

    def transformed(self, queue_id: int, seconds: float) -> None:
        """Count the time that the transformation of a queue's messages took."""
        with self._mutex:
            self._touched(queue_id, self._clock.now()).transform_seconds += seconds

    def _enqueued(self, event: Enqueued, transaction: int) -> None:
        queue_id, now, number, delayed, expiring, seconds, rule_seconds, one, publishers, consumers = event
        queue = self._queues.get(queue_id) or self._queue(queue_id, now)
        queue.enqueued += number
        queue.enqueue_seconds += seconds
        queue.enqueue_transactions += transaction
        queue.last_enqueue = now
        queue.changed = True
        if delayed or expiring or rule_seconds:
            queue.delayed += delayed
            queue.expiring += expiring
            queue.rule_seconds += rule_seconds
        for name, count in ((one, number),) if one is not None else publishers.items():
            publisher = self._publishers.get((queue_id, name)) or self._publisher(queue_id, name, now)
            publisher.enqueued += count
            publisher.enqueue_seconds += seconds * count / number
            publisher.enqueue_transactions += transaction
            publisher.last_enqueue = now
            publisher.changed = True
        for consumer, count in consumers.items():
            reader = self._consumers.get(consumer) or self._consumer(consumer, now)
            reader.enqueued += count
            reader.last_enqueue = now
            reader.changed = True

    def _dequeued(self, event: Dequeued, transaction: int) -> None:
        queue = self._queues.get(event.queue_id) or self._queue(event.queue_id, event.time)
        queue.dequeued += event.gone
        queue.dequeue_transactions += transaction
        queue.last_dequeue = event.time
        queue.changed = True
        if event.consumer:
            reader = self._consumers.get(event.consumer) or self._consumer(event.consumer, event.time)
            reader.dequeued += event.number
            reader.dequeue_transactions += transaction
            reader.last_dequeue = event.time
            reader.changed = True

    def _left_out(self, event: LeftOut) -> None:
        now = self._clock.now()
        for consumer, number in event.consumers.items():
            reader = self._consumers.get(consumer) or self._consumer(consumer, now)
            reader.left_out += number
            reader.changed = True

    def _handed_out(  # noqa: PLR0917
        self, queue_id: int, consumer: int, now: float, number: int, browse: bool, seconds: float, latency: float
    ) -> None:
        queue = self._queues.get(queue_id)
        if queue is None:
            if not number:
                return  # looking in vain is no activity
            queue = self._queue(queue_id, now)
        queue.dequeue_seconds += seconds
        if not number:
            return
        queue.changed = True
        if browse:
            queue.browsed += number
        else:
            queue.latency = latency
        if consumer:
            reader = self._consumers.get(consumer) or self._consumer(consumer, now)
            reader.changed = True
            if browse:
                reader.browsed += number
            else:
                reader.latency = latency

    def _managed(self, event: Managed) -> None:
        now = self._clock.now()
        touched = Counter(event.ready) + Counter(event.expired)
        touched += Counter() if event.logged else Counter(event.removed)
        for queue_id, number in touched.items():
            queue = self._touched(queue_id, now)
            queue.managed += number
            queue.managed_seconds += event.seconds * number / touched.total()
            queue.last_managed = now
        for queue_id, number in event.logged.items():
            queue = self._touched(queue_id, now)
            queue.logged += number
            queue.logged_seconds += event.seconds * number / sum(event.logged.values())
            queue.last_logged = now
        for queue_id, number in event.ready.items():
            queue = self._touched(queue_id, now)
            queue.made_ready += number
            queue.last_ready = now
        for queue_id, number in event.expired.items():
            queue = self._touched(queue_id, now)
            queue.expired += number
            queue.last_expired = now
        for queue_id, number in event.removed.items():
            self._touched(queue_id, now).dequeued += number
        for consumer, number in event.consumers.items():
            reader = self._consumers.get(consumer) or self._consumer(consumer, now)
            reader.expired += number
            reader.last_expired = now
            reader.changed = True

    def _touched(self, queue_id: int, now: float) -> Activity:
        queue = self._queues.get(queue_id) or self._queue(queue_id, now)
        queue.changed = True
        return queue

    def passed(self, seconds: float) -> None:
        """The time manager made a pass."""
        with self._mutex:
            self._passes += 1
            self._pass_seconds += seconds

    def _queue(self, queue_id: int, now: float) -> Activity:
        return self._queues.setdefault(queue_id, Activity(now))

    def _consumer(self, consumer: int, now: float) -> Activity:
        return self._consumers.setdefault(consumer, Activity(now))

    def _publisher(self, queue_id: int, name: Publisher, now: float) -> Activity:
        if len(self._publishers) >= MAX_PUBLISHERS:
            name = (OTHERS, "", 0)
        return self._publishers.setdefault((queue_id, name), Activity(now))

    # -- storing ---------------------------------------------------------------------------------------------------

    def flush(self, hub: Ground) -> None:
        """Store what changed, and forget processes that ended. Nothing happens if another thread is about it.

        Raises:
            HubError: the database refused; the numbers are stored the next time.
        """
        if not self._storing.acquire(blocking=False):
            return
        try:
            self._next = time.monotonic() + FLUSH_SECONDS
            self._flush(hub)
        finally:
            self._storing.release()

    def flush_sometimes(self, hub: Ground) -> None:
        """:meth:`flush` if it is ten seconds since the last; a hub that refuses is left to those who need it."""
        if time.monotonic() >= self._next:
            with suppress(HubError):
                self.flush(hub)

    def _flush(self, hub: Ground) -> None:
        with self._mutex:
            changed = list(self._rows(changed=True))
            passes = (self._passes, self._pass_seconds)
            if self._closed or not (changed or (self._stored and time.monotonic() >= self._renew)):
                return
            for _, activity in self._activities():
                activity.changed = False
        now = hub.clock.now()
        try:
            with hub.write(durable=False) as conn:
                db = Db(conn)
                if not statistics_sql.renew_process(db, self._process, now + LEASE, *passes):
                    statistics_sql.insert_process(
                        db, self._process, (host_name(), os.getpid(), now, now + LEASE, *passes)
                    )
                    with self._mutex:
                        for consumer, number in self._told.items():
                            self._consumers[consumer].left_out -= number
                        self._told.clear()
                        changed = list(self._rows())
                statistics_sql.store(db, self._process, changed)
            self._told |= {row[_OBJECT]: row[_LEFT_OUT] for row in changed if row[_KIND] is Kind.CONSUMER}
            self._stored, self._renew = True, time.monotonic() + LEASE / 2
        except BaseException:
            with self._mutex:
                for _, activity in self._activities():
                    activity.changed = True
            raise

    def _activities(self) -> Iterator[tuple[Key, Activity]]:
        for queue_id, activity in self._queues.items():
            yield Key(Kind.QUEUE, queue_id), activity
        for consumer, activity in self._consumers.items():
            yield Key(Kind.CONSUMER, consumer), activity
        for (queue_id, publisher), activity in self._publishers.items():
            yield Key(Kind.PUBLISHER, queue_id, *publisher), activity

    def _rows(self, *, changed: bool = False) -> Iterator[Row]:
        for key, activity in self._activities():
            if activity.changed or not changed:
                yield (*key, *(getattr(activity, name) for name in statistics_sql.VALUES))

    def forget(self, hub: Ground) -> None:
        """This process ends: its numbers go, except for what rules refused. A hub that refuses keeps what is stored of
        them until a time manager finds the process gone."""
        self._closed = True
        with self._mutex:
            kept = {consumer: each.left_out for consumer, each in self._consumers.items() if each.left_out}
        if self._stored or kept:
            with suppress(HubError), hub.write_last(durable=False, patience=_LAST_SECONDS) as conn:
                db = Db(conn)
                if self._stored and not statistics_sql.is_known(db, self._process):
                    kept = {consumer: number - self._told.get(consumer, 0) for consumer, number in kept.items()}
                statistics_sql.end_process(db, self._process, kept, hub.clock.now())
            self._stored = False


def forget_ended(hub: Ground, now: float) -> None:
    """Forget the numbers of processes that ended without closing the hub.

    Raises:
        HubError: the database refused.
    """
    with hub.read() as conn:
        known = statistics_sql.processes(Db(conn))
    for number, host, pid, lease_until in known:
        if is_dead(host, pid, lease_until, now):
            with hub.write(durable=False) as conn:
                statistics_sql.end_process(Db(conn), number, None, now)
