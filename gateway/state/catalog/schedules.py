"""Statements on schedules: those without a subscriber, and those that are part of the row of a job."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from mgw.gateway.definitions.objects import JobDef, Propagation, ScheduleDef, key
from mgw.gateway.state import tables as t
from mgw.gateway.state.catalog.jobs import get_subscriber, list_jobs

__all__ = [
    "delete_schedule",
    "find_schedule",
    "get_schedule",
    "insert_schedule",
    "job_of_schedule",
    "list_schedules",
    "release_schedule",
    "schedule_of_triplet",
    "subscriber_of_triplet",
    "update_schedule",
]


def job_of_schedule(conn: sa.Connection, name: str) -> JobDef | None:
    """The job that has the schedule of that name, or None."""
    statement = sa.select(t.job.c.name).where(t.job.c.schedule_key == key(name))
    job = conn.execute(statement).scalar_one_or_none()
    return None if job is None else get_subscriber(conn, job)


def get_schedule(conn: sa.Connection, name: str) -> ScheduleDef | None:
    """The schedule of that name that has no subscriber, or None."""
    row = conn.execute(_schedules().where(t.schedule.c.name_key == key(name))).one_or_none()
    return None if row is None else _schedule(row)


def find_schedule(conn: sa.Connection, name: str) -> ScheduleDef | None:
    """The schedule of that name, that of a job or one without a subscriber, or None."""
    job = job_of_schedule(conn, name)
    return get_schedule(conn, name) if job is None else _of_job(job)


def list_schedules(conn: sa.Connection) -> list[ScheduleDef]:
    """The schedules of all jobs, and those without a subscriber, by name."""
    alone = [_schedule(row) for row in conn.execute(_schedules())]
    of_jobs = [schedule for job in list_jobs(conn) if (schedule := _of_job(job)) is not None]
    return sorted([*alone, *of_jobs], key=lambda each: key(each.name))


def schedule_of_triplet(
    conn: sa.Connection, kind: Propagation, source_key: str, destination_key: str
) -> ScheduleDef | None:
    """The schedule of that type, source and destination that has no subscriber, or None."""
    c = t.schedule.c
    matching = (c.propagation_type == kind.value, c.source_key == source_key, c.destination_key == destination_key)
    row = conn.execute(_schedules().where(*matching)).one_or_none()
    return None if row is None else _schedule(row)


def subscriber_of_triplet(
    conn: sa.Connection, kind: Propagation, source_key: str, destination_key: str
) -> JobDef | None:
    """The job or subscriber of that type, source and destination, or None."""
    c = t.job.c
    matching = (c.propagation_type == kind.value, c.source_key == source_key, c.destination_key == destination_key)
    name = conn.execute(sa.select(c.name).where(*matching)).scalar_one_or_none()
    return None if name is None else get_subscriber(conn, name)


def insert_schedule(conn: sa.Connection, schedule: ScheduleDef, *, source_key: str, destination_key: str) -> None:
    """Store a schedule without a subscriber; the keys are the resolved names in the form that compares."""
    conn.execute(
        sa.insert(t.schedule).values(
            name_key=key(schedule.name),
            name=schedule.name,
            link_key=key(schedule.link),
            propagation_type=schedule.propagation_type.value,
            source=schedule.source,
            destination=schedule.destination,
            source_key=source_key,
            destination_key=destination_key,
            latency=schedule.latency,
            enabled=int(schedule.enabled),
        )
    )


def update_schedule(conn: sa.Connection, schedule: ScheduleDef) -> None:
    """Store what may change of one without a subscriber: latency and enabled."""
    statement = sa.update(t.schedule).where(t.schedule.c.name_key == key(schedule.name))
    conn.execute(statement.values(latency=schedule.latency, enabled=int(schedule.enabled)))


def delete_schedule(conn: sa.Connection, name: str) -> None:
    """Remove a schedule that has no subscriber."""
    conn.execute(sa.delete(t.schedule).where(t.schedule.c.name_key == key(name)))


def release_schedule(conn: sa.Connection, job: JobDef) -> None:
    """Keep the schedule of a job whose subscriber goes; the row of the job must be gone after this transaction."""
    schedule = _of_job(job)
    if schedule is None:
        return
    row = conn.execute(sa.select(t.job.c.source_key, t.job.c.destination_key).where(t.job.c.id == job.id)).one()
    insert_schedule(conn, schedule, source_key=row.source_key, destination_key=row.destination_key)


def _of_job(job: JobDef) -> ScheduleDef | None:
    if job.schedule is None:
        return None
    interval, enabled = job.poll_interval, job.enabled
    return ScheduleDef(job.schedule, job.link, job.propagation_type, job.source, job.destination, interval, enabled)


def _schedules() -> sa.Select[Any]:
    return sa.select(t.schedule, t.link.c.name.label("link_name")).join(
        t.link, t.link.c.name_key == t.schedule.c.link_key
    )


def _schedule(row: sa.Row[Any]) -> ScheduleDef:
    return ScheduleDef(
        row.name,
        row.link_name,
        Propagation(row.propagation_type),
        row.source,
        row.destination,
        row.latency,
        bool(row.enabled),
    )
