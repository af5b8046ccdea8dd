"""The queue of a topic job: durable, bound to the exchange, read by that job alone."""

from __future__ import annotations

import logging
from contextlib import suppress

from mgw.links.contract import Direction, JobUse
from mgw.links.rabbitmq.connection import Session
from mgw.links.rabbitmq.fence import Fence
from mgw.links.rabbitmq.source_plan import SourcePlan
from mgw.transforms.errors import LinkRefused, QueueMissing

__all__ = ["bind_job_queue", "collect", "declare_job_queue", "forget_job_queue", "job_queue"]

_LOGGER = logging.getLogger("mgw.rabbitmq")


def job_queue(use: JobUse) -> str:
    """Name of the durable queue that collects for a topic job."""
    return f"MGW_{use.job}"


def declare_job_queue(session: Session, plan: SourcePlan) -> int:
    """Declare the queue of a topic job; what is there already stays as it is. Returns how many consumers it has."""
    kind = "quorum" if plan.queue_type == "quorum" else "classic"
    with session.calling("connect"):
        session.channel.exchange_declare(plan.exchange, passive=True)
        made = session.channel.queue_declare(plan.queue, durable=True, arguments={"x-queue-type": kind})
    return int(made.method.consumer_count)


def bind_job_queue(session: Session, plan: SourcePlan) -> None:
    """Have the exchange give the queue of a topic job its messages."""
    with session.calling("connect"):
        session.channel.queue_bind(plan.queue, plan.exchange, plan.routing_key)


def collect(session: Session, use: JobUse, plan: SourcePlan) -> None:
    """Have the queue of a topic job get messages, unless somebody else reads it: connect says so then."""
    fence = Fence(use, Direction.INBOUND, session.settings.heartbeat)
    if not declare_job_queue(session, plan) or fence.held(session):
        bind_job_queue(session, plan)


def forget_job_queue(session: Session, use: JobUse) -> None:
    """Delete the queue of a topic job, unless somebody else reads it, whose messages would be lost with it."""
    queue, fence = job_queue(use), Fence(use, Direction.INBOUND, session.settings.heartbeat)
    with suppress(LinkRefused):  # without the lock a connection of the job may be alive: its reader counts, too
        fence.take(session)
    try:
        if not (others := fence.await_consumers(session, queue)):
            with session.calling("forget"):
                session.channel.queue_delete(queue)
            return
    except QueueMissing:
        return
    _LOGGER.warning(
        "job %s: its queue %r stays at the broker, because somebody else reads it (%d readers): another hub may have a "
        "job of this name on this virtual host",
        use.job,
        queue,
        others,
    )
