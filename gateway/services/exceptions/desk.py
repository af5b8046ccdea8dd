"""Finds the desk of a job."""

from __future__ import annotations

from mgw.gateway.definitions.objects import JobDef
from mgw.gateway.services import lookup
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.services.exceptions.contract import Desk, DeskRefused
from mgw.gateway.services.exceptions.hub_desk import HubDesk
from mgw.gateway.services.exceptions.link_desk import LinkDesk
from mgw.gateway.services.queue_story import queue_story
from mgw.transforms.errors import GatewayError

__all__ = ["consumers_of", "desk_of", "jobs_with_desks"]


def desk_of(admin: GatewayAdmin, name: str, *, consumer: str | None = None, to: str | None = None) -> Desk:
    """The desk of a job. It connects to a messaging system when it is asked for messages.

    Args:
        consumer: subscriber that takes the messages, where the exception queue is a multi-consumer queue of the hub.
        to: foreign queue, on the link of the exception queue, that a replay writes to instead of the job's source.

    Raises:
        NotFound: there is no job of that name.
        DeskRefused: it has no exception queue, one that cannot be read back, or one that ``consumer`` or ``to`` is not
            for.
        GatewayError: a definition that the job needs is missing.
    """
    job = lookup.job(admin, name)
    if job.exception_queue is None:
        raise DeskRefused(
            f"job {job.name} has no exception queue",
            cure=f"give it one: mgw jobs alter {job.name} --exception-queue QUEUE",
        )
    if job.propagation_type.from_link:
        return LinkDesk(admin, job, consumer, to)
    if to is not None:
        raise DeskRefused(
            f"messages of exception queue {job.exception_queue} cannot be replayed to {to}",
            cause="it is a queue of the hub, whose messages go back to the queue they came from",
            cure="leave --to out",
        )
    return HubDesk(admin, job, consumer)


def consumers_of(admin: GatewayAdmin, name: str) -> list[str]:
    """The subscribers of the exception queue of a job, each of which has messages of its own there; none where it is a
    queue with one consumer, is on a link, or is missing.

    Raises:
        NotFound: there is no job of that name.
    """
    job = lookup.job(admin, name)
    if job.exception_queue is None or job.propagation_type.from_link:
        return []
    try:
        story = queue_story(admin.hub, job.exception_queue)
    except GatewayError:  # it was dropped
        return []
    return story.consumers if story.queue.multiple_consumers else []


def jobs_with_desks(admin: GatewayAdmin) -> list[JobDef]:
    """Jobs that have an exception queue."""
    return [job for job in admin.list_jobs() if job.exception_queue is not None]
