"""The time manager: everything that time does to messages (AQ guide 12.2 §2.16, §1.7)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

from gateway.aq import statements_time as time_sql
from gateway.aq.claims import is_dead
from gateway.aq.statements import Db
from gateway.aq.statistics import forget_ended
from gateway.aq.work import count_rolled_back

if TYPE_CHECKING:
    from gateway.aq.hub import Hub

__all__ = ["TimeManagerReport", "run_once"]

_BATCH = 500  # rows of one transaction: other writers get in between


@dataclass(frozen=True, slots=True)
class TimeManagerReport:
    """What a pass did, in messages (entries, on multi-consumer queues).

    Attributes:
        made_ready: their delay or retry delay ended.
        expired: went to an exception queue because nobody took them in time.
        removed: consumed by everybody, or retained long enough.
        returned: were in the hands of sessions that died.
    """

    made_ready: int = 0
    expired: int = 0
    removed: int = 0
    returned: int = 0


def run_once(hub: Hub, now: float | None = None) -> TimeManagerReport:
    """Do all that is due at time ``now`` (default: the hub's clock), and wake whoever waits for it.

    Messages become READY and expire only here; call it every second or so. Any number of processes may.

    Raises:
        HubError: the database refused; what was done in earlier transactions of the pass stays done.
    """
    started = perf_counter()
    moment = hub.clock.now() if now is None else now
    count_rolled_back(hub)
    with hub.read() as conn:
        due = time_sql.due(Db(conn), moment)
    returned = made_ready = expired = removed = 0
    if due.sessions:
        hub.renew_leases()
        returned = _return_claims(hub, moment)
    if due.messages:
        made_ready += _repeat(hub, lambda db: time_sql.make_messages_ready(db, moment, _BATCH))
    if due.entries:
        made_ready += _repeat(hub, lambda db: time_sql.make_entries_ready(db, moment, _BATCH))
    if due.expired or made_ready:
        expired = _expire(hub, moment)
    if due.log:
        removed += _sweep(hub)
    if due.retained or removed:
        removed += _repeat(hub, lambda db: (time_sql.remove_retained(db, moment, _BATCH), set()))
    hub.statistics.passed(perf_counter() - started)
    hub.statistics.flush(hub)
    if due.processes:
        forget_ended(hub, moment)
    return TimeManagerReport(made_ready, expired, removed, returned)


def _repeat(hub: Hub, step: Callable[[Db], tuple[int, set[int]]]) -> int:
    """Run a step in transactions of its own until it finds less than a batch."""
    total = 0
    while True:
        with hub.write() as conn:
            db = Db(conn)
            number, queues = step(db)
            db.notify(queues)
        hub.notifier.committed(queues)
        total += number
        if number < _BATCH:
            return total


def _expire(hub: Hub, now: float) -> int:
    total = 0
    after: tuple[float, int] | None = (0.0, 0)
    while after is not None:
        with hub.write() as conn:
            db = Db(conn)
            number, queues, after = time_sql.expire_messages(db, now, _BATCH, after)
            db.notify(queues)
        hub.notifier.committed(queues)
        total += number
    return total


def _sweep(hub: Hub) -> int:
    total = 0
    while True:
        with hub.write() as conn:
            db = Db(conn)
            read, number, queues = time_sql.sweep_log(db, _BATCH)
            db.notify(queues)
        hub.notifier.committed(queues)
        total += number
        if read < _BATCH:
            return total


def _return_claims(hub: Hub, now: float) -> int:
    with hub.read() as conn:
        known = time_sql.sessions(Db(conn))
    total = 0
    for number, host, pid, lease_until in known:
        if not is_dead(host, pid, lease_until, now):
            continue
        with hub.write() as conn:
            db = Db(conn)
            again = {row[0]: row for row in time_sql.sessions(db)}.get(number)
            if again is None or not is_dead(again[1], again[2], again[3], now):
                continue  # it renewed its lease meanwhile
            returned, queues = time_sql.return_claims(db, number)
            db.notify(queues)
        hub.notifier.committed(queues)
        total += returned
    return total
