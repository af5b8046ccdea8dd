"""Statements on the definitions of jobs."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from mgw.gateway.definitions.objects import JobDef, JobStatus, Propagation, key
from mgw.gateway.state import tables as t
from mgw.gateway.state.catalog.outbound import OUTBOUND_COLUMNS, outbound_of
from mgw.gateway.state.catalog.text import compact
from mgw.links.contract import Guarantee

__all__ = [
    "delete_job",
    "get_job",
    "get_subscriber",
    "insert_job",
    "jobs_of_source",
    "jobs_with_transformations",
    "list_jobs",
    "list_subscribers",
    "reset_job",
    "set_job_schedule",
    "set_job_status",
    "take_plans",
    "update_job",
]


def get_job(conn: sa.Connection, name: str) -> JobDef | None:
    """The job of that name, or None: a subscriber without a schedule is no job."""
    found = get_subscriber(conn, name)
    return found if found is not None and found.schedule is not None else None


def get_subscriber(conn: sa.Connection, name: str) -> JobDef | None:
    """The subscriber of that name, or None: of every job its own one, and those without a schedule."""
    row = conn.execute(_jobs().where(t.job.c.name_key == key(name))).one_or_none()
    return _job(row) if row is not None else None


def list_jobs(conn: sa.Connection, *, agent: str | None = None, link: str | None = None) -> list[JobDef]:
    """All jobs (of one agent, of one link), by name."""
    return [job for job in list_subscribers(conn, agent=agent, link=link) if job.schedule is not None]


def list_subscribers(conn: sa.Connection, *, agent: str | None = None, link: str | None = None) -> list[JobDef]:
    """All jobs, and the subscribers that have no schedule (of one agent, of one link), by name."""
    statement = _jobs().order_by(t.job.c.name_key)
    if agent is not None:
        statement = statement.where(t.job.c.agent_key == key(agent))
    jobs = [_job(row) for row in conn.execute(statement)]
    return jobs if link is None else [job for job in jobs if job.uses_link(link)]


def jobs_with_transformations(conn: sa.Connection) -> list[tuple[str, str]]:
    """(job, transformation as it is written) of every job that has one, by name."""
    statement = sa.select(t.job.c.name, t.job.c.transformation).where(t.job.c.transformation.is_not(None))
    return [(row.name, row.transformation) for row in conn.execute(statement.order_by(t.job.c.name_key))]


def insert_job(
    conn: sa.Connection, job: JobDef, *, source_key: str, destination_key: str, now: float | None = None
) -> JobDef:
    """Store a new job with its run state READY; the job with its id.

    ``source_key`` and ``destination_key`` are the resolved names in the form that compares: ``SCHEMA.QUEUE`` or
    ``QUEUE@LINK``. ``now`` is the time of creation in epoch seconds, the clock's if None.
    """
    statement = sa.insert(t.job).values(
        name_key=key(job.name),
        name=job.name,
        agent_key=key(job.agent),
        link_key=key(job.link) or None,
        propagation_type=job.propagation_type.value,
        source=job.source,
        destination=job.destination,
        source_key=source_key,
        destination_key=destination_key,
        prop_style="NATIVE",
        old_style=int(job.old_style),
        **_schedule_values(job.schedule if job.old_style else job.name),
        created=time.time() if now is None else now,
        **_job_values(job),
    )
    job_id = int(conn.execute(statement.returning(t.job.c.id)).scalar_one())
    conn.execute(sa.insert(t.job_state).values(job_id=job_id, status=JobStatus.READY.value))
    return replace(job, id=job_id, status=JobStatus.READY, schedule=job.schedule if job.old_style else job.name)


def update_job(conn: sa.Connection, job: JobDef) -> None:
    """Store what may change of a job: rule, transformation, exception queue, interval, options, enabled, comments."""
    switched = sa.select(t.job.c.id).where(t.job.c.id == job.id, t.job.c.enabled != job.enabled)
    state = t.job_state
    conn.execute(sa.update(state).where(state.c.job_id.in_(switched)).values(not_working_since=None))
    conn.execute(sa.update(t.job).where(t.job.c.id == job.id).values(**_job_values(job)))


def set_job_schedule(conn: sa.Connection, job: JobDef) -> None:
    """Store the schedule of a subscriber, with what belongs to a schedule: interval and enabled."""
    update_job(conn, job)
    conn.execute(sa.update(t.job).where(t.job.c.id == job.id).values(**_schedule_values(job.schedule)))


def set_job_status(conn: sa.Connection, job_id: int, status: JobStatus) -> None:
    """Set the status of a job."""
    conn.execute(sa.update(t.job_state).where(t.job_state.c.job_id == job_id).values(status=status.value))


def reset_job(conn: sa.Connection, job_id: int) -> None:
    """READY, no failures, no waiting for a next attempt. The last error stays readable."""
    conn.execute(
        sa.update(t.job_state)
        .where(t.job_state.c.job_id == job_id)
        .values(status=JobStatus.READY.value, failures=0, next_attempt=None, resets=t.job_state.c.resets + 1)
    )


def take_plans(conn: sa.Connection, job_id: int) -> list[int]:
    """Delete the job's plans; the ids of the messages that were in them, in plan order."""
    # In one statement: of two, the second would see, and delete, what a job that still works planned between them.
    taken = sa.delete(t.plan).where(t.plan.c.job_id == job_id).returning(t.plan.c.sequence, t.plan.c.message_ids)
    plans = sorted((row.sequence, row.message_ids) for row in conn.execute(taken))
    packed = b"".join(message_ids for _, message_ids in plans)
    return [int.from_bytes(packed[i : i + 8], "big") for i in range(0, len(packed), 8)]


def delete_job(conn: sa.Connection, job_id: int) -> None:
    """Remove a job with its run state and positions; its plans must have been taken."""
    for table in (t.position, t.job_state):
        conn.execute(sa.delete(table).where(table.c.job_id == job_id))
    conn.execute(sa.delete(t.job).where(t.job.c.id == job_id))


def _jobs() -> sa.Select[Any]:
    return (
        sa.select(
            t.job,
            t.agent.c.name.label("agent_name"),
            t.link.c.name.label("link_name"),
            t.job_state.c.status.label("status"),
            t.job_state.c.resets.label("resets"),
            *OUTBOUND_COLUMNS,
        )
        .join(t.agent, t.agent.c.name_key == t.job.c.agent_key)
        .outerjoin(t.link, t.link.c.name_key == t.job.c.link_key)
        .join(t.job_state, t.job_state.c.job_id == t.job.c.id)
        .outerjoin(t.outbound_schedule, t.outbound_schedule.c.job_id == t.job.c.id)
    )


def _schedule_values(name: str | None) -> dict[str, Any]:
    return {"schedule": name, "schedule_key": None if name is None else key(name)}


def _job_values(job: JobDef) -> dict[str, Any]:
    return {
        "rule": job.rule,
        "transformation": job.transformation,
        "exception_queue": job.exception_queue,
        "poll_interval": job.poll_interval,
        "options": compact(dict(job.options)),
        "require_guarantee": job.require_guarantee.value if job.require_guarantee is not None else None,
        "enabled": job.enabled,
        "comments": job.comments,
    }


def _job(row: sa.Row[Any]) -> JobDef:
    return JobDef(
        id=row.id,
        name=row.name,
        agent=row.agent_name,
        link=row.link_name or "",
        propagation_type=Propagation(row.propagation_type),
        source=row.source,
        destination=row.destination,
        rule=row.rule,
        transformation=row.transformation,
        exception_queue=row.exception_queue,
        poll_interval=row.poll_interval,
        options=json.loads(row.options),
        require_guarantee=Guarantee(row.require_guarantee) if row.require_guarantee is not None else None,
        enabled=bool(row.enabled),
        comments=row.comments,
        status=JobStatus(row.status),
        resets=row.resets,
        old_style=bool(row.old_style),
        schedule=row.schedule,
        outbound=outbound_of(row),
    )


def jobs_of_source(conn: sa.Connection, source_key: str) -> Sequence[tuple[str, str]]:
    """Of every job and subscriber that reads a source: name, and destination in the form that compares."""
    c = t.job.c
    rows = conn.execute(sa.select(c.name, c.destination_key).where(c.source_key == source_key).order_by(c.name_key))
    return [(row.name, row.destination_key) for row in rows]
