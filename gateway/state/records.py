"""What happened, newest first, and what lies in the queues: for those who look through it in pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import sqlalchemy as sa

from mgw.gateway.state.status import EventRow

__all__ = ["BatchRow", "QueueLoad", "batches", "queue_loads", "recent_events"]


@dataclass(frozen=True, slots=True)
class BatchRow:
    """A row of the ledger of a job. Times are epoch seconds."""

    number: int
    kind: str
    sequence: int | None
    started: float | None  # read, planned
    finished: float  # stored, completed
    messages: int
    propagated: int
    exceptioned: int
    filtered: int
    discarded: int
    suppressed: int


@dataclass(frozen=True, slots=True)
class QueueLoad:
    """How many messages lie in a queue of the hub: from what is kept, no message is looked at.

    Attributes:
        name_key: ``SCHEMA.NAME`` in upper case.
        ready: can be taken, or are in somebody's hand.
        waiting: their delay is not over.
        expired: in this exception queue.
    """

    name_key: str
    queue_type: str
    ready: int
    waiting: int
    expired: int


def recent_events(
    conn: sa.Connection,
    *,
    before: int | None = None,
    limit: int = 100,
    levels: Sequence[str] = (),
    text: str | None = None,
) -> list[EventRow]:
    """The last ``limit`` events with an id smaller than ``before``, newest first.

    Args:
        levels: only those.
        text: only those with this in their text or object, in whatever letter case.
    """
    conditions, values = ["1 = 1"], dict[str, Any](limit=limit)
    if before is not None:
        conditions.append("EVENT_ID < :before")
        values["before"] = before
    if levels:
        conditions.append("EVENT_LEVEL IN :levels")
        values["levels"] = list(levels)
    if text:
        conditions.append("(lower(EVENT_TEXT) LIKE :text ESCAPE '!' OR lower(OBJECT_NAME) LIKE :text ESCAPE '!')")
        plain = text.lower().replace("!", "!!").replace("%", "!%").replace("_", "!_")
        values["text"] = f"%{plain}%"
    tail = f"WHERE {' AND '.join(conditions)} ORDER BY EVENT_ID DESC LIMIT :limit"
    query = _select(EventRow, "MGW_EVENTS", tail)
    if levels:
        query = query.bindparams(sa.bindparam("levels", expanding=True))
    return [EventRow(*row) for row in conn.execute(query, values)]


def batches(conn: sa.Connection, job: str, *, limit: int = 20) -> list[BatchRow]:
    """The last ``limit`` rows of the ledger of a job, newest first; an old row may stand for several batches."""
    tail = "WHERE job_id = (SELECT j.id FROM gw_job j WHERE j.name_key = :job) ORDER BY number DESC LIMIT :limit"
    found = conn.execute(_select(BatchRow, "gw_ledger", tail), {"job": job.upper(), "limit": limit})
    return [BatchRow(*row) for row in found]


_LOADS = (
    "SELECT q.name_key, q.queue_type, v.READY, v.WAITING, v.EXPIRED FROM aq_queue q JOIN V$AQ v ON v.QID = q.id "
    "ORDER BY q.name_key"
)


def queue_loads(conn: sa.Connection) -> list[QueueLoad]:
    """What lies in each queue of the hub, by name."""
    return [QueueLoad(*row) for row in conn.execute(sa.text(_LOADS))]


def _select(kind: type[Any], view: str, tail: str) -> sa.TextClause:
    return sa.text(f"SELECT {', '.join(field.name for field in fields(kind))} FROM {view} {tail}")
