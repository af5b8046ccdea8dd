"""The ledger: what happened to every message, one row per batch or for several small ones, and the statements on it.

A row is written in the hub transaction that stores a batch (inbound) or completes it (outbound), so it cannot disagree
with what happened. Every row has a number that grows by one per job, and a checksum over what it says. Rows stay when
their job is removed, until they are pruned. :mod:`ledger.check` reads them; ``MGW_LEDGER`` shows the batches. Rows of
small batches are merged later (:mod:`mgw.gateway.ledger.upkeep`); readers find them as they were written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from struct import pack, unpack
from typing import Any, Protocol

import sqlalchemy as sa

from mgw.gateway.aq import Db, QueueRef, State, transfer
from mgw.gateway.aq import queue_consumers as consumers_sql
from mgw.gateway.definitions.objects import JobDef, Propagation
from mgw.gateway.ledger.merged import Row, expanded
from mgw.gateway.ledger.record import (
    Completed,
    Kept,
    Kind,
    Record,
    RefusedMessage,
    Sums,
    completed_detail,
    decode,
    digest,
    packed,
    received_detail,
)
from mgw.gateway.state.run_state import Counts
from mgw.gateway.state.tables import job_state, ledger, plan
from mgw.links.contract import Batch
from mgw.links.placement import Placement
from mgw.transforms.errors import AqError

__all__ = [
    "expired",
    "extent",
    "guarantee",
    "holding",
    "message_state",
    "planned_and_gone",
    "plans_holding",
    "read",
    "record_break",
    "record_carried",
    "record_completed",
    "record_received",
    "record_returned",
    "rows",
    "stranded",
    "waiting",
]

_EVER = float(2**60)  # seconds


# ----------------------------------------------------------------------------------------------------------- recording

_COLUMNS = (
    "job_id, number, kind, sequence, started, finished, messages, propagated, exceptioned, filtered, discarded, "
    "suppressed, first_id, last_id, message_ids, detail, digest"
)
_NEXT = "(SELECT coalesce(max(number), 0) + 1 FROM gw_ledger WHERE job_id = ?)"
_INSERT = f"INSERT INTO gw_ledger ({_COLUMNS}) VALUES (?, {_NEXT}"
_RECEIVED = f"{_INSERT}, 'RECEIVED', NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, ?, ?)"
# Time and ids come from the plan itself, the checksum from what was completed: if the two differ, it shows.
_PLAN = "FROM gw_plan WHERE job_id = ? AND sequence = ?"
_ENDED = f"{_INSERT}, ?, ?, (SELECT created {_PLAN}), ?, ?, ?, ?, ?, ?, ?, ?, ?, (SELECT message_ids {_PLAN}), ?, ?)"
_CARRIED = f"{_INSERT}, 'CARRIED', ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, NULL, NULL, ?, ?)"
_BREAK = f"{_INSERT}, 'BREAK', ?, ?, ?, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, ?, ?)"
_NOTHING = (0, 0, 0, 0, 0)


def record_received(
    conn: sa.Connection,
    job_id: int,
    batch: Batch,
    *,
    offered: Sequence[Kept],
    kept: Sequence[Kept],
    msgids: list[bytes | None],
    refused: Sequence[RefusedMessage],
    counts: Counts,
    read: float,
    now: float,
) -> None:
    """Record a batch in the transaction that stores it.

    Args:
        offered: messages made of the deliveries; kept: those whose key was new; msgids: what they are in the hub.
        refused: messages that went to the exception queue.
        read: when the batch had been read, now: when it is stored; epoch seconds.
    """
    number = len(batch.deliveries)
    plain = len(kept) == number == counts.propagated
    blob, first, last = received_detail(batch, offered=offered, kept=kept, msgids=msgids, refused=refused, plain=plain)
    sums = (counts.propagated, counts.exceptioned, counts.filtered, counts.discarded, counts.suppressed)
    check = digest((job_id, Kind.RECEIVED.value, None, number), sums, b"", blob)
    Db(conn).later(_RECEIVED, (job_id, job_id, read, now, number, *sums, first, last, blob, check))


class CarriedBatch(Protocol):
    """A batch from link to link that is completed."""

    sequence: int
    messages: int
    read: float
    sent_at: float
    confirmed_at: float
    final: Counts
    placement: Placement | None
    detail: dict[str, Any]
    lines: str  # origins that are not in ``detail``


def record_carried(conn: sa.Connection, job_id: int, batch: CarriedBatch, *, now: float) -> None:
    """Record a batch from link to link in the transaction that completes it."""
    detail, counts = {name: value for name, value in batch.detail.items() if name != "y"}, batch.final
    if batch.sent_at:
        detail["t"] = round(batch.sent_at, 3), round(batch.confirmed_at, 3)
    if batch.placement is not None:
        detail["w"] = batch.placement
    sums = (counts.propagated, counts.exceptioned, counts.filtered, counts.discarded, counts.suppressed)
    blob = packed(detail, batch.lines)
    check = digest((job_id, Kind.CARRIED.value, batch.sequence, batch.messages), sums, b"", blob)
    Db(conn).later(_CARRIED, (job_id, job_id, batch.sequence, batch.read, now, batch.messages, *sums, blob, check))


def record_completed(conn: sa.Connection, job_id: int, ended: Sequence[Completed], *, now: float) -> None:
    """Record planned batches in the transaction that completes them, before their plans are deleted."""
    rows = []
    for batch in ended:
        done = len(batch.ids) - len(batch.filtered) - len(batch.refused) - len(batch.expired)
        done -= len(batch.unrouted)
        suppressed = done + len(batch.filtered) if batch.sent_before else 0
        sums = (done, len(batch.refused), len(batch.filtered), len(batch.expired) + len(batch.unrouted), suppressed)
        head = (job_id, Kind.COMPLETED.value, batch.sequence, len(batch.ids))
        rows.append(_ended(head, batch.ids, sums, completed_detail(batch), now))
    if rows:
        Db(conn).many_later(_ENDED, rows)


def record_returned(
    conn: sa.Connection, job_id: int, plans: Sequence[tuple[int, Sequence[int]]], *, now: float, note: str
) -> None:
    """Record plans (sequence, ids) in the transaction that returns their messages, before the plans are deleted."""
    kind = Kind.RETURNED.value
    rows = [_ended((job_id, kind, sequence, len(ids)), ids, _NOTHING, {"n": note}, now) for sequence, ids in plans]
    if rows:
        Db(conn).many_later(_ENDED, rows)


def _ended(
    head: tuple[int, str, int, int], ids: Sequence[int], sums: Sums, detail: Mapping[str, Any], now: float
) -> tuple[Any, ...]:
    job_id, kind, sequence, messages = head
    blob = packed(detail) if detail else None
    check = digest(head, sums, pack(f">{messages}q", *ids), blob or b"")
    first, last = min(ids, default=None), max(ids, default=None)
    plan_key = (job_id, sequence)
    return (job_id, job_id, kind, sequence, *plan_key, now, messages, *sums, first, last, *plan_key, blob, check)


def record_break(conn: sa.Connection, job_id: int, note: str, *, sequence: int | None = None, now: float) -> None:
    """Record that the rows after this one do not join on to those before it. ``sequence``: the last one planned."""
    blob = packed({"n": note})
    check = digest((job_id, Kind.BREAK.value, sequence, 0), _NOTHING, b"", blob)
    Db(conn).run(_BREAK, (job_id, job_id, sequence, now, now, blob, check))


# ------------------------------------------------------------------------------------------------------------- reading


def read(
    conn: sa.Connection, job_id: int, *, since: float | None = None, until: float | None = None, last: int | None = None
) -> Iterator[Record]:
    """Rows of a job in the order they were written, those finished in ``since <= t < until`` (epoch seconds).

    ``last``: as few of the latest rows as hold so many messages.
    """
    chosen = sa.select(ledger).where(ledger.c.job_id == job_id).order_by(ledger.c.number)
    if since is not None:
        chosen = chosen.where(ledger.c.finished >= since)
    if until is not None:
        chosen = chosen.where(_begun(until))
    first = 0
    if last is not None:
        first = _first_of_last(conn, job_id, last, until)
        chosen = chosen.where(ledger.c.number >= first)
    with conn.execution_options(yield_per=500).execute(chosen) as result:
        for stored in result:
            for row in expanded(stored):
                if row.number >= first and (since is None or row.finished >= since) and _before(row, until):
                    yield decode(row)


def _begun(until: float) -> sa.ColumnElement[bool]:
    """Rows that may hold a record finished before ``until``: a merged row began before all it holds had ended."""
    return sa.or_(ledger.c.finished < until, ledger.c.started < until)


def _before(row: Row, until: float | None) -> bool:
    return until is None or row.finished < until


def _first_of_last(conn: sa.Connection, job_id: int, last: int, until: float | None) -> int:
    chosen = sa.select(ledger).where(ledger.c.job_id == job_id)
    if until is not None:
        chosen = chosen.where(_begun(until))
    found, first = 0, 0
    with conn.execution_options(yield_per=500).execute(chosen.order_by(ledger.c.number.desc())) as result:
        for stored in result:
            for row in reversed(list(expanded(stored))):
                if not _before(row, until):
                    continue
                first, found = row.number, found + row.messages
                if found >= last:
                    return first
    return first


def rows(conn: sa.Connection, job_id: int, first: int, last: int) -> Iterator[Row]:
    """Rows ``first`` to ``last`` of a job, in order, each as it was written for its batch."""
    chosen = sa.select(ledger).where(ledger.c.job_id == job_id, ledger.c.number >= first)
    upto = sa.select(sa.func.min(ledger.c.number)).where(ledger.c.job_id == job_id, ledger.c.number >= last)
    chosen = chosen.where(ledger.c.number <= sa.func.coalesce(upto.scalar_subquery(), last))
    with conn.execution_options(yield_per=100).execute(chosen.order_by(ledger.c.number)) as result:
        for stored in result:
            yield from (row for row in expanded(stored) if first <= row.number <= last)


def extent(conn: sa.Connection, job_id: int) -> tuple[int, int] | None:
    """Numbers of the first and the last row of a job, as they were written; None when there is none."""
    of_job = ledger.c.job_id == job_id
    last = conn.execute(sa.select(sa.func.max(ledger.c.number)).where(of_job)).scalar()
    stored = conn.execute(sa.select(ledger).where(of_job).order_by(ledger.c.number).limit(1)).first()
    return None if stored is None or last is None else (next(expanded(stored)).number, last)


def holding(conn: sa.Connection, number: int) -> list[Record]:
    """Rows of all jobs that name the message with this number in the hub, in time order."""
    chosen = sa.select(ledger).where(ledger.c.first_id <= number, ledger.c.last_id >= number)
    found = [decode(row) for stored in conn.execute(chosen) for row in expanded(stored) if _spans(row, number)]
    found.sort(key=lambda record: (record.finished, record.job_id, record.number))
    return [record for record in found if record.faults or any(number in entry.ids for entry in record.entries)]


def _spans(row: Row, number: int) -> bool:
    return row.first_id is not None and row.last_id is not None and row.first_id <= number <= row.last_id


def plans_holding(conn: sa.Connection, number: int) -> list[tuple[int, int, float]]:
    """Plans that name the message: job id, sequence, when it was made."""
    rows = conn.execute(sa.select(plan.c.job_id, plan.c.sequence, plan.c.created, plan.c.message_ids))
    wanted = pack(">q", number)
    return [(job_id, sequence, created) for job_id, sequence, created, ids in rows if _holds(bytes(ids), wanted)]


def _holds(ids: bytes, wanted: bytes) -> bool:
    at = ids.find(wanted)
    while at % 8 and at >= 0:
        at = ids.find(wanted, at + 1)
    return at >= 0


def guarantee(conn: sa.Connection, job_id: int) -> str | None:
    """What the job promises, as it last said; None before it first connected."""
    return conn.execute(sa.select(job_state.c.guarantee).where(job_state.c.job_id == job_id)).scalar()


_STATE = (
    "SELECT q.name, m.state, m.claim IS NULL, o.name, m.expiration_reason FROM aq_message m "
    "JOIN aq_queue q ON q.id = m.queue_id LEFT JOIN aq_queue o ON o.id = m.original_queue_id WHERE m.id = ?"
)
_STATES = {
    0: "ready",
    1: "waiting for its delay",
    2: "consumed and retained",
    9: "waiting for its consumers",
}
_REASONS = {
    "TIME_EXPIRATION": "it expired in queue {queue}, because it was not dequeued in time",
    "MAX_RETRY_EXCEEDED": "it was returned to queue {queue} too often",
}


def message_state(conn: sa.Connection, number: int) -> str | None:
    """Where the message is in the hub now, in words; None when it is gone (consumed by everybody, or purged)."""
    row = Db(conn).row(_STATE, (number,))
    if row is None:
        return None
    queue, state, planned, before, reason = row
    if state == State.EXPIRED:
        return f"queue {queue}: " + _REASONS.get(reason, "it could not stay in queue {queue}").format(queue=before)
    claimed = "planned by a job" if planned else "locked by a session"
    return f"queue {queue}: {_STATES.get(state, claimed)}"


# ----------------------------------------------------------------------------------------------------- a job's queue


def _source(conn: sa.Connection, job: JobDef) -> tuple[QueueRef, str | None] | None:
    """The hub queue an outbound job reads and the name of its consumer; None when the queue is gone."""
    try:
        queue = transfer.resolve(conn, job.source)
        return queue, job.subscriber if queue.multiple_consumers else None
    except AqError:
        return None


_EXPIRED = (
    "SELECT x.name, count(*) FROM aq_message m JOIN aq_queue x ON x.id = m.queue_id{entries} "
    f"WHERE m.state = {State.EXPIRED} AND m.original_queue_id = ? AND m.expiration_reason = 'TIME_EXPIRATION' "
    "AND m.ready_at + m.expiration >= ? AND m.ready_at + m.expiration < ?{one} GROUP BY x.name ORDER BY x.name"
)
_MISSED = f" JOIN aq_entry e ON e.message_id = m.id AND e.consumer_id = ? AND e.state = {State.EXPIRED}"


def expired(
    conn: sa.Connection,
    job: JobDef,
    *,
    since: float | None = None,
    until: float | None = None,
    number: int | None = None,
) -> dict[str, int]:
    """Messages of the job's queue in the hub that nobody took in time, by the exception queue that has them now.

    Of an outbound job on a multi-consumer queue only those that it did not take itself.

    Args:
        since, until: expired in ``since <= t < until``, epoch seconds.
        number: only this message.
    """
    outbound = not job.propagation_type.from_link
    if job.propagation_type is Propagation.THROUGH:
        return {}
    try:
        queue = transfer.resolve(conn, job.source if outbound else job.destination)
        consumer = job.subscriber if outbound and queue.multiple_consumers else None
        missed = (consumers_sql.require_consumer(Db(conn), queue, consumer),) if consumer is not None else ()
    except AqError:
        return {}
    span = (0.0 if since is None else since, _EVER if until is None else until)
    one = () if number is None else (number,)
    sql = _EXPIRED.format(entries=_MISSED if missed else "", one=" AND m.id = ?" if one else "")
    return dict(Db(conn).rows(sql, (*missed, queue.id, *span, *one)))


def stranded(conn: sa.Connection, job: JobDef) -> set[int]:
    """Messages of an outbound job that are set aside for a plan and are in no plan of any job, nor of a pipeline.

    Of a running job these may be messages that were completed while this looked: look twice.
    """
    source = _source(conn, job)
    if source is None:
        return set()
    queue, consumer = source
    found = transfer.set_aside(conn, queue, consumer)
    for (ids,) in conn.execute(sa.select(plan.c.message_ids)) if found else ():
        found.difference_update(unpack(f">{len(ids) // 8}q", ids))
    if found:
        found -= transfer.set_aside_by_parts(conn, queue)
    return found


def planned_and_gone(conn: sa.Connection, job: JobDef) -> list[tuple[int, int]]:
    """Messages in plans of the job that are not in the hub: sequence, number.

    What is planned at the second look, too, was not completed while this looked.
    """
    chosen = sa.select(plan.c.sequence, plan.c.message_ids).where(plan.c.job_id == job.id).order_by(plan.c.sequence)
    plans = {sequence: unpack(f">{len(ids) // 8}q", ids) for sequence, ids in conn.execute(chosen)}
    wanted = [number for ids in plans.values() for number in ids]
    if not wanted:
        return []
    there = transfer.present(conn, wanted)
    gone = [(sequence, number) for sequence, ids in plans.items() for number in ids if number not in there]
    left = {sequence for sequence, _ in conn.execute(chosen)} if gone else set()
    return [(sequence, number) for sequence, number in gone if sequence in left]


def waiting(conn: sa.Connection, job: JobDef) -> int | None:
    """Messages of an outbound job's queue that are in no plan yet; None when the queue is gone."""
    source = _source(conn, job)
    if source is None:
        return None
    counts = transfer.backlog(conn, *source)
    return counts.ready + counts.waiting
