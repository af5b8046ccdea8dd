"""The subscriber ``MGW_<job>`` that an outbound job has on its multi-consumer source queue."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from mgw.gateway.aq import Held, HoldsMessages, Hub, QueueAdmin, QueueRef, transfer
from mgw.gateway.definitions.objects import JobDef, key
from mgw.gateway.services.admin.base import Ora
from mgw.transforms.errors import AdminError, AqError

__all__ = ["MAX_JOB_NAME", "add", "alter", "held", "is_missing", "release", "remove", "source_queue"]

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


def is_missing(hub: Hub, conn: sa.Connection, queue: QueueRef, job: JobDef) -> bool:
    """Whether the job has no subscription: the queue was dropped and made again, or somebody removed the subscriber."""
    known = QueueAdmin(hub, conn).queue_subscribers(_name(queue))
    return key(job.subscriber) not in {key(each.name) for each in known if each.name}


def alter(hub: Hub, conn: sa.Connection, queue: QueueRef, job: JobDef) -> None:
    """Give the subscriber the job's rule; it counts for messages enqueued from now on.

    Raises:
        AdminError: somebody removed the subscriber.
    """
    try:
        QueueAdmin(hub, conn).alter_subscriber(_name(queue), job.subscriber, rule=job.rule)
    except AqError as error:
        raise _refused(job, error) from error


def remove(
    hub: Hub, conn: sa.Connection, queue: QueueRef, job: JobDef, *, force: bool, move_to: str | None = None
) -> Held:
    """End the subscription; one that is gone already is fine. The audit is for the caller.

    Raises:
        AdminError: messages wait for it, and neither ``force`` nor ``move_to`` says what becomes of them; or the queue
            for them does not take them.
    """
    admin = QueueAdmin(hub, conn)
    admin.audited = False
    try:
        return admin.remove_subscriber(_name(queue), job.subscriber, force=force, move_to=move_to)
    except HoldsMessages as error:
        raise AdminError(
            f"job {job.name} cannot be removed",
            number=Ora.INVALID_VALUE,
            cause=f"its subscription to queue {queue.full_name} {error.cause.removeprefix('it ')}",
            cure="let the job carry them, move them to another queue (--move-to QUEUE, in Python move_to), or delete "
            "them with it (--force, in Python force)",
        ) from error
    except AqError as error:
        if error.number == _NO_SUBSCRIBER:
            return Held(0)
        raise AdminError(
            f"job {job.name} cannot be removed: {error.what}",
            number=error.number or Ora.INVALID_VALUE,
            cause=error.cause,
            cure=error.cure,
        ) from error


def held(hub: Hub, conn: sa.Connection, queue: QueueRef, job: JobDef) -> Held:
    """What waits for the job's subscription."""
    return QueueAdmin(hub, conn).held_by_subscriber(_name(queue), job.subscriber)


def release(conn: sa.Connection, queue: QueueRef, job: JobDef, claimed: Sequence[int]) -> None:
    """Messages that the job had planned are READY again, in their place.

    Those of a subscriber that ceased to be one are left to the time manager.
    """
    try:
        transfer.release(conn, queue, job.subscriber if queue.multiple_consumers else None, claimed)
    except AqError as error:
        if error.number != _NO_SUBSCRIBER:
            raise


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
        cause, cure = "somebody else created it", f"remove subscriber {job.subscriber}, or give the job another name"
    elif error.number == _NO_SUBSCRIBER:
        cause, cure = "somebody removed it", f"subscribe the job again: mgw jobs reset {job.name}"
    return AdminError(f"job {job.name}: {error.what}", number=error.number or Ora.INVALID_VALUE, cause=cause, cure=cure)
