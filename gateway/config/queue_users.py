"""What of the gateway uses a queue of the hub: jobs, halves of jobs of the old style, schedules of DBMS_HQADM.

A queue that one of them uses is not removed before it: the job would fail, and its subscription be gone with the queue.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import sqlalchemy as sa

from mgw.gateway.aq import QueueRef
from mgw.gateway.config.forms import hub_name
from mgw.gateway.definitions.objects import JobDef, ScheduleDef, key
from mgw.gateway.state import catalog
from mgw.transforms.errors import GatewayError

__all__ = ["QueueIsUsed", "QueueUser", "refuse_use", "users_of_queues"]

_JOB_ENDS = ("source", "destination", "exception_queue")


class QueueIsUsed(GatewayError):
    """A queue cannot be removed before what uses it."""


@dataclass(frozen=True, slots=True)
class QueueUser:
    """What uses a queue.

    Attributes:
        kind: ``job``, ``schedule of DBMS_HQADM of job``, ``subscriber`` or ``schedule``; the last two without the other
            half.
        end: what the queue is for it: ``source``, ``destination`` or ``exception queue``.
        queue: as it names the queue.
        cure: how it lets go of the queue.
    """

    kind: str
    name: str
    end: str
    queue: str
    cure: str


def users_of_queues(conn: sa.Connection, queues: Collection[str]) -> list[QueueUser]:
    """What uses queues of the hub, given by name; what is marked for removal does not count."""
    wanted = {hub_name(name) for name in queues}
    jobs = catalog.list_jobs(conn)
    found = [
        _user(job, end.replace("_", " "), place)
        for job in catalog.list_subscribers(conn)
        if not job.status.leaving
        for end in _JOB_ENDS
        if (place := getattr(job, end)) is not None and hub_name(place) in wanted
    ]
    parts = {key(job.schedule) for job in jobs if job.schedule is not None}
    return found + [
        QueueUser("schedule", each.name, end, place, f"remove schedule {each.name} (mgw schedules remove {each.name})")
        for each in catalog.list_schedules(conn)
        if key(each.name) not in parts
        for end, place in _ends_of(each)
        if hub_name(place) in wanted
    ]


def refuse_use(conn: sa.Connection, what: str, queues: Collection[QueueRef]) -> None:
    """Refuse to remove queues that something uses.

    Args:
        what: is removed, as ``queue ORDERS``.

    Raises:
        QueueIsUsed: something does.
    """
    users = users_of_queues(conn, [f'"{queue.schema}"."{queue.name}"' for queue in queues])
    if not users:
        return
    alone = len(queues) == 1
    uses: dict[str, list[str]] = {}
    for each in users:
        uses.setdefault(f"{each.kind} {each.name}", []).append(each.end if alone else f"{each.end} ({each.queue})")
    raise QueueIsUsed(
        f"{what} cannot be removed",
        cause="; ".join(f"{user} uses it as its {' and '.join(ends)}" for user, ends in uses.items()),
        cure=f"first {'; '.join(dict.fromkeys(each.cure for each in users))}; then try again",
    )


def _user(job: JobDef, end: str, place: str) -> QueueUser:
    if job.outbound is not None:
        removal = job.outbound.removal(job.source, job.destination)
        return QueueUser("schedule of DBMS_HQADM of job", job.name, end, place, f"remove the schedule: {removal}")
    kind, noun = ("subscriber", "subscribers") if job.schedule is None else ("job", "jobs")
    cure = f"remove {kind} {job.name} (mgw {noun} remove {job.name})"
    if end == "exception queue":
        cure += f", or alter it (mgw {noun} alter {job.name} --exception-queue QUEUE)"
    return QueueUser(kind, job.name, end, place, cure)


def _ends_of(schedule: ScheduleDef) -> tuple[tuple[str, str], ...]:
    return (("source", schedule.source), ("destination", schedule.destination))
