"""Statements on the schedules of the older gateway (DBMS_HQADM); each is part of a job."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa

from mgw.gateway.definitions.outbound import OutboundSchedule
from mgw.gateway.state import tables as t

__all__ = [
    "OUTBOUND_COLUMNS",
    "OUTBOUND_PREFIX",
    "delete_outbound_schedule",
    "insert_outbound_schedule",
    "last_outbound_number",
    "outbound_of",
    "set_window",
]

OUTBOUND_PREFIX = "HQ$_"  # of the names of their jobs
_NUMBERED = re.compile(re.escape(OUTBOUND_PREFIX) + r"(\d+)")
_TABLE = t.outbound_schedule.c
#: For the row of a job.
OUTBOUND_COLUMNS = tuple(column.label(f"outbound_{column.name}") for column in _TABLE)


def outbound_of(row: sa.Row[Any]) -> OutboundSchedule | None:
    """The schedule in the row of a job with :data:`OUTBOUND_COLUMNS`; None: it has none."""
    if row.outbound_job_id is None:
        return None
    return OutboundSchedule(
        row.outbound_protocol,
        row.outbound_latency,
        row.outbound_start_time,
        row.outbound_duration,
        row.outbound_next_time,
        row.outbound_exception_queue,
        row.outbound_window_begin,
    )


def insert_outbound_schedule(conn: sa.Connection, job_id: int, schedule: OutboundSchedule) -> None:
    """Store the schedule of a job that was stored just now."""
    values = asdict(schedule)
    values["window_begin"] = values.pop("window")
    conn.execute(sa.insert(t.outbound_schedule).values(job_id=job_id, **values))


def set_window(conn: sa.Connection, job_id: int, schedule: OutboundSchedule) -> None:
    """Store which window is open or opens next; no change of a definition."""
    statement = sa.update(t.outbound_schedule).where(_TABLE.job_id == job_id)
    conn.execute(statement.values(window_begin=schedule.window))


def delete_outbound_schedule(conn: sa.Connection, job_id: int) -> None:
    """Remove the schedule of a job; the job stays."""
    conn.execute(sa.delete(t.outbound_schedule).where(_TABLE.job_id == job_id))


def last_outbound_number(conn: sa.Connection) -> int:
    """The highest number among the jobs that were made for schedules and are still there; 0: there is none."""
    names = conn.execute(sa.select(t.job.c.name_key).where(t.job.c.name_key.like(f"{OUTBOUND_PREFIX}%"))).scalars()
    return max((int(found[1]) for name in names if (found := _NUMBERED.fullmatch(name))), default=0)
