"""The subscriber ``MGW_<job>`` that an outbound job has on its multi-consumer source queue."""

from __future__ import annotations

import sqlalchemy as sa

from mgw.gateway.aq import Hub, QueueAdmin, QueueRef, transfer
from mgw.gateway.definitions.objects import JobDef
from mgw.gateway.services.admin.base import Ora
from mgw.transforms.errors import AdminError, AqError

__all__ = ["MAX_JOB_NAME", "add", "alter", "exists", "remove", "source_queue"]

MAX_JOB_NAME = 124  # bytes: with MGW_ before it, the name of a subscriber

_SUBSCRIBER_EXISTS = 24034
_NO_SUBSCRIBER = 24035


def add(hub: Hub, conn: sa.Connection, queue: QueueRef, job: JobDef) -> None:
    """Subscribe the job: what is enqueued after this transaction waits for it, whether it runs or not.

    Raises:
        AdminError: the queue refuses (the name is taken, or it has too many subscribers).
    """
    try:
        QueueAdmin(hub, conn).add_subscriber(_name(queue), job.subscriber, rule=job.rule)
    except AqError as error:
        raise _refused(job, error) from error


def alter(hub: Hub, conn: sa.Connection, queue: QueueRef, job: JobDef) -> None:
    """Give the subscriber the job's rule; it counts for messages enqueued from now on.

    Raises:
        AdminError: somebody removed the subscriber.
    """
    try:
        QueueAdmin(hub, conn).alter_subscriber(_name(queue), job.subscriber, rule=job.rule)
    except AqError as error:
        raise _refused(job, error) from error


def remove(hub: Hub, conn: sa.Connection, queue: QueueRef, job: JobDef) -> None:
    """End the subscription; one that is gone already is fine."""
    try:
        QueueAdmin(hub, conn).remove_subscriber(_name(queue), job.subscriber)
    except AqError as error:
        if error.number != _NO_SUBSCRIBER:
            raise


def exists(hub: Hub, conn: sa.Connection, queue: QueueRef, consumer: str | None) -> bool:
    """Whether claimed messages can be given back: on a single-consumer queue, or if the subscriber exists."""
    if consumer is None:
        return True
    found = QueueAdmin(hub, conn).queue_subscribers(_name(queue))
    return any((item.name or "").upper() == consumer.upper() for item in found)


def source_queue(conn: sa.Connection, job: JobDef) -> QueueRef | None:
    """The source of a job that reads from the hub; None for any other, or if the queue was dropped."""
    if job.propagation_type.from_link:
        return None
    try:
        return transfer.resolve(conn, job.source)
    except AqError:
        return None


def _name(queue: QueueRef) -> str:
    return f'"{queue.schema}"."{queue.name}"'


def _refused(job: JobDef, error: AqError) -> AdminError:
    cause, cure = error.cause, error.cure
    if error.number == _SUBSCRIBER_EXISTS:
        cause, cure = "somebody else made it", f"remove subscriber {job.subscriber}, or give the job another name"
    elif error.number == _NO_SUBSCRIBER:
        cause, cure = "somebody removed it", "remove the job and create it again"
    return AdminError(f"job {job.name}: {error.what}", number=error.number or Ora.INVALID_VALUE, cause=cause, cure=cure)
