"""Statements of the job ``flow``: the ledger as far as rates and latency need it, backlogs, and its own tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from operator import attrgetter
from typing import Any, NamedTuple

import sqlalchemy as sa

from mgw.gateway.ledger import store as records
from mgw.gateway.ledger.merged import expanded
from mgw.gateway.ledger.record import Kind
from mgw.gateway.state.tables import ledger
from mgw.pipelines.tables.flow import progress, window

__all__ = [
    "Batch",
    "Source",
    "backlogs",
    "batches",
    "extents",
    "forget",
    "last_batch",
    "note_batch",
    "put_windows",
    "sources",
    "upcoming",
]

_FINISHED = (Kind.RECEIVED, Kind.COMPLETED)


class Batch(NamedTuple):
    """A row of the ledger."""

    number: int
    kind: str
    started: float | None
    finished: float
    messages: int
    propagated: int
    suppressed: int
    message_ids: bytes | None
    detail: bytes | None


class Source(NamedTuple):
    """An inbound row of the ledger: when these messages were read."""

    started: float
    messages: int
    first_id: int
    last_id: int
    detail: bytes


def extents(conn: sa.Connection) -> dict[int, tuple[int, int]]:
    """Job -> numbers of its first and its last row."""
    jobs = [job for (job,) in conn.execute(sa.select(ledger.c.job_id).distinct())]
    return {job: ends for job in jobs if (ends := records.extent(conn, job)) is not None}


def upcoming(conn: sa.Connection, job_id: int, after: int, upto: int, limit: int) -> list[tuple[int, float]]:
    """Number and end of the next rows of a job, in order."""
    return [(row.number, row.finished) for row in islice(records.rows(conn, job_id, after + 1, upto), limit)]


def batches(conn: sa.Connection, job_id: int, after: int, upto: int) -> list[Batch]:
    """Rows ``after < number <= upto`` of a job that say what happened to messages."""
    fields = attrgetter(*Batch._fields)
    return [Batch(*fields(row)) for row in records.rows(conn, job_id, after + 1, upto) if row.kind in _FINISHED]


def sources(conn: sa.Connection, first_id: int, last_id: int) -> list[Source]:
    """Inbound rows that may have stored some of these messages."""
    query = sa.select(ledger).where(
        ledger.c.kind == Kind.RECEIVED, ledger.c.first_id <= last_id, ledger.c.last_id >= first_id
    )
    return [
        Source(row.started, row.messages, row.first_id, row.last_id, row.detail)
        for stored in conn.execute(query)
        for row in expanded(stored)
        if row.started is not None
        and row.first_id is not None
        and row.last_id is not None
        and row.detail is not None
        and row.first_id <= last_id
        and row.last_id >= first_id
    ]


def backlogs(conn: sa.Connection) -> dict[str, int]:
    """Job -> messages that wait for it now, as far as its source tells."""
    rows = conn.execute(sa.text("SELECT JOB_NAME, BACKLOG FROM MGW_JOBS WHERE BACKLOG IS NOT NULL"))
    return {name: int(count) for name, count in rows}


def last_batch(conn: sa.Connection, pipeline: str) -> tuple[str, int] | None:
    """Query and number of the batch that a pipeline wrote last."""
    found = conn.execute(sa.select(progress.c.query, progress.c.batch).where(progress.c.pipeline == pipeline)).first()
    return None if found is None else (found.query, found.batch)


def note_batch(conn: sa.Connection, pipeline: str, query: str, batch: int) -> None:
    """Remember it, in the transaction that writes its windows."""
    conn.execute(sa.delete(progress).where(progress.c.pipeline == pipeline))
    conn.execute(sa.insert(progress).values(pipeline=pipeline, query=query, batch=batch))


def put_windows(conn: sa.Connection, pipeline: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write windows, in the place of what was known of them; a backlog that was known stays if none is given."""
    for row in rows:
        same = sa.and_(
            window.c.pipeline == pipeline, window.c.job == row["job"], window.c.window_start == row["window_start"]
        )
        known = conn.execute(sa.select(window.c.backlog).where(same)).scalar()
        conn.execute(sa.delete(window).where(same))
        backlog = row["backlog"] if row["backlog"] is not None else known
        conn.execute(sa.insert(window).values({**row, "pipeline": pipeline, "backlog": backlog}))


def forget(conn: sa.Connection, pipeline: str, before: float) -> None:
    """Remove windows that began before a moment."""
    conn.execute(sa.delete(window).where(window.c.pipeline == pipeline, window.c.window_start < before))
