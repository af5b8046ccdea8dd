"""The time manager: everything that time does to messages (AQ guide 12.2 §2.16, §1.7).

It works in short transactions: each takes as many rows as went through in a fifth of a second lately, so other writers
get their turn in between however much is due.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter

from mgw.gateway.aq.queues import consumers_sql
from mgw.gateway.aq.queues import search_bounds_sql as heads_sql
from mgw.gateway.aq.queues.statistics import forget_ended
from mgw.gateway.aq.sessions import sessions_sql
from mgw.gateway.aq.sessions.attempts import count_rolled_back
from mgw.gateway.aq.sessions.ground import SessionGround
from mgw.gateway.aq.store.processes import is_dead
from mgw.gateway.aq.store.statements import Db
from mgw.gateway.aq.store.wal import shorten
from mgw.gateway.aq.upkeep import time_sql
from mgw.gateway.aq.upkeep.time_sql import Expired

__all__ = ["TimeManagerReport", "return_claims", "run_once"]

_FIRST_ROWS, _FEWEST_ROWS, _MOST_ROWS = 100, 10, 2000  # of one transaction
_LONGEST = 0.2  # seconds a transaction should take at most


@dataclass(frozen=True, slots=True)
class TimeManagerReport:
    """What a pass did, in messages (entries, on multi-consumer queues).

    Attributes:
        made_ready: their delay or retry delay ended.
        expired: went to an exception queue because nobody took them in time.
        removed: consumed by everybody, or retained long enough.
        returned: were held by sessions that died.
        expirations: those that expired, per queue and exception queue.
    """

    made_ready: int = 0
    expired: int = 0
    removed: int = 0
    returned: int = 0
    expirations: Sequence[Expired] = ()


def run_once(hub: SessionGround, now: float | None = None, *, stop: threading.Event | None = None) -> TimeManagerReport:
    """Do all that is due at time ``now`` (default: the hub's clock), and wake those who wait for it.

    Messages become READY and expire only here; call it every second or so. Any number of processes may.

    Args:
        stop: ends the pass between two transactions; what is left is due at the next one.

    Raises:
        HubError: the database refused; what was done in earlier transactions of the pass stays done.
    """
    started = perf_counter()
    moment = hub.clock.now() if now is None else now
    count_rolled_back(hub.attempts)
    with hub.read() as conn:
        due = time_sql.due(Db(conn), moment)
    steps = _Steps(hub, stop or threading.Event())
    returned = made_ready = removed = 0
    expirations: list[Expired] = []
    if due.sessions:
        returned = return_claims(hub, moment)
    if due.messages:
        made_ready += steps.repeat(lambda db, limit: time_sql.make_messages_ready(db, moment, limit))
    if due.entries:
        made_ready += steps.repeat(lambda db, limit: time_sql.make_entries_ready(db, moment, limit))
    if due.expired or made_ready:
        expirations = steps.expire(moment)
    if due.left_over:
        with hub.write() as conn:
            consumers_sql.drop_removed(Db(conn))
    if due.log or due.left_over:
        removed += steps.sweep()
    if due.retained or removed:
        removed += steps.repeat(lambda db, limit: (time_sql.remove_retained(db, moment, limit), set()))
    if due.reopened:
        steps.repeat(lambda db, limit: (heads_sql.forget_reopened(db, limit), set()))
    shorten(hub)
    hub.statistics.passed(perf_counter() - started)
    hub.statistics.flush(hub)
    if due.processes:
        forget_ended(hub, moment)
    expired = sum(each.messages for each in expirations)
    return TimeManagerReport(made_ready, expired, removed, returned, tuple(expirations))


class _Steps:
    """Transactions one after another; how long they take decides how much the next one does."""

    def __init__(self, hub: SessionGround, stop: threading.Event) -> None:
        self._hub = hub
        self._stop = stop
        self._rows = _FIRST_ROWS

    @contextmanager
    def _step(self) -> Iterator[tuple[Db, int, set[int]]]:
        """A transaction, how many rows it may take, and a set for the queues that get messages by it."""
        queues: set[int] = set()
        with self._hub.write() as conn:
            started = self._hub.clock.monotonic()
            db = Db(conn)
            yield db, self._rows, queues
            db.notify(queues)
        taken = self._hub.clock.monotonic() - started
        if taken > _LONGEST:
            self._rows = max(_FEWEST_ROWS, self._rows // 2)
        elif taken < _LONGEST / 4:
            self._rows = min(_MOST_ROWS, self._rows * 2)
        self._hub.notifier.committed(queues)

    def repeat(self, step: Callable[[Db, int], tuple[int, set[int]]]) -> int:
        """Until a step finds less than it may take."""
        total = 0
        while not self._stop.is_set():
            with self._step() as (db, limit, queues):
                number, touched = step(db, limit)
                queues.update(touched)
            total += number
            if number < limit:
                break
        return total

    def expire(self, now: float) -> list[Expired]:
        total: Counter[tuple[str, str]] = Counter()
        after: tuple[float, int] | None = (0.0, 0)
        while after is not None and not self._stop.is_set():
            with self._step() as (db, limit, queues):
                moved, touched, after = time_sql.expire_messages(db, now, limit, after)
                queues.update(touched)
            for queue, exception_queue, number in moved:
                total[queue, exception_queue] += number
        return [Expired(*names, number) for names, number in total.items()]

    def sweep(self) -> int:
        total = 0
        after: int | None = 0
        while after is not None and not self._stop.is_set():
            with self._step() as (db, limit, queues):
                number, touched, after = time_sql.sweep_log(db, limit, after)
                queues.update(touched)
            total += number
        return total


def return_claims(hub: SessionGround, now: float) -> int:
    """Return what dead sessions hold; returns how many messages.

    Raises:
        HubError: the database refused.
    """
    hub.renew_leases()
    with hub.read() as conn:
        known = sessions_sql.sessions(Db(conn))
    total = 0
    for number, host, pid, lease_until in known:
        if not is_dead(host, pid, lease_until, now):
            continue
        with hub.write() as conn:
            db = Db(conn)
            again = {each: (host, pid, until) for each, host, pid, until in sessions_sql.sessions(db)}.get(number)
            if again is None or not is_dead(*again, now):
                continue  # it renewed its lease meanwhile
            returned, queues = sessions_sql.return_claims(db, number, now)
            db.notify(queues)
        hub.notifier.committed(queues)
        total += returned
    return total
