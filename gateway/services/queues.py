"""The queues of the hub: their administration, and what a face does in more than one call of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mgw.gateway.aq import (
    INFINITE,
    JOB_SUBSCRIBER,
    Counts,
    Db,
    Held,
    Hub,
    QueueAdmin,
    QueueInfo,
    SubscriberInfo,
    TimeManagerReport,
    is_of_job,
    role_statements,
)
from mgw.gateway.aq import queue_backlog as backlog
from mgw.gateway.aq import resolve_queue as resolve
from mgw.gateway.config.queue_users import refuse_use
from mgw.gateway.observe.events import Journalist
from mgw.gateway.runtime.timekeeping import Timekeeper, events_of
from mgw.gateway.services import lookup
from mgw.gateway.state.gateway_hub import complete
from mgw.transforms.errors import GatewayError

__all__ = [
    "INFINITE",
    "Counts",
    "Held",
    "OfAJob",
    "Purge",
    "QueueInfo",
    "QueueState",
    "Reading",
    "add_subscriber",
    "administration",
    "create_queue",
    "database_role",
    "drop_queue",
    "drop_queue_table",
    "job_of",
    "overview",
    "purge_queue",
    "readers",
    "remove_subscriber",
    "run_time_manager",
    "start_queue",
    "switch_queue",
]


def administration(hub: Hub, user: str | None = None) -> QueueAdmin:
    """The procedures on queue tables, queues, subscribers, types and privileges; ``user``: with that user's alone."""
    return QueueAdmin(hub, user=user)


class QueueState(NamedTuple):
    """A queue with the messages in it, and those of each subscriber by name."""

    queue: QueueInfo
    held: Counts
    by_reader: Mapping[str, Counts]


def overview(hub: Hub) -> list[QueueState]:
    """Every queue with its messages, in one transaction."""
    with hub.read() as conn:
        admin = QueueAdmin(hub, conn)
        readers = admin.queue_subscribers()
        found = []
        for queue in admin.queues():
            ref = resolve(conn, f'"{queue.schema}"."{queue.name}"')
            names = [each.name for each in readers if each.queue == queue.full_name and each.name]
            found.append(QueueState(queue, backlog(conn, ref), {name: backlog(conn, ref, name) for name in names}))
        return found


def create_queue(
    hub: Hub,
    name: str,
    queue_table: str,
    *,
    exception: bool = False,
    max_retries: int | None = None,
    retry_delay: float = 0,
    retention_time: float = 0,
    comment: str | None = None,
    started: bool = True,
) -> QueueInfo:
    """Make a queue and, if ``started``, start it in the same transaction; an exception queue for dequeue alone.

    Args:
        retry_delay, retention_time: seconds; ``INFINITE`` keeps consumed messages.

    Raises:
        AqError: as the two procedures; nothing was made.
    """
    with hub.write() as conn:
        admin = QueueAdmin(hub, conn)
        made = admin.create_queue(
            name,
            queue_table,
            queue_type="EXCEPTION_QUEUE" if exception else "NORMAL_QUEUE",
            max_retries=max_retries,
            retry_delay=retry_delay,
            retention_time=retention_time,
            comment=comment,
        )
        if started:
            admin.start_queue(name, enqueue=not exception)
    return made


def start_queue(hub: Hub, full_name: str, *, enqueue: bool, dequeue: bool) -> None:
    """Start a queue; nothing is enqueued to an exception queue, whatever is asked for.

    Raises:
        AqError: there is no such queue.
    """
    admin = QueueAdmin(hub)
    info = admin.queue(full_name)
    exception = info is not None and info.queue_type == "EXCEPTION_QUEUE"
    admin.start_queue(full_name, enqueue=enqueue and not exception, dequeue=dequeue)


def switch_queue(hub: Hub, name: str, *, on: bool, enqueue: bool, dequeue: bool, wait: float = 0) -> QueueInfo:
    """Start a queue or stop it, in one direction or both; what it is then.

    Args:
        wait: seconds for the transactions on it to end before it is stopped.

    Raises:
        NotFound: there is no queue of that name.
        AqError: 24018 transactions work on it still; nothing is changed.
    """
    full = lookup.queue(hub, name)
    if on:
        start_queue(hub, full, enqueue=enqueue, dequeue=dequeue)
    else:
        QueueAdmin(hub).stop_queue(full, enqueue=enqueue, dequeue=dequeue, wait=wait)
    found = QueueAdmin(hub).queue(full)
    if found is None:
        raise lookup.NotFound("queue", name, [])
    return found


def drop_queue(hub: Hub, name: str, *, force: bool, move_to: str | None = None) -> Held:
    """Drop a stopped queue that nothing of the gateway uses; what it held.

    Args:
        force: its messages are deleted with it.
        move_to: a queue that they go to first.

    Raises:
        QueueIsUsed: a job, or a subscriber or schedule of the old style, uses it.
        AqError: as :meth:`mgw.gateway.aq.QueueAdmin.drop_queue`.
    """
    return _careful(hub).drop_queue(name, force=force, move_to=move_to)


def drop_queue_table(hub: Hub, name: str, *, force: bool, move_to: str | None = None) -> Held:
    """Drop a queue table, with ``force`` also with its queues and their messages; what it held.

    Raises:
        QueueIsUsed: a job, or a subscriber or schedule of the old style, uses one of its queues.
        AqError: as :meth:`mgw.gateway.aq.QueueAdmin.drop_queue_table`.
    """
    return _careful(hub).drop_queue_table(name, force=force, move_to=move_to)


def _careful(hub: Hub) -> QueueAdmin:
    """The procedures, which drop no queue that the gateway uses."""
    complete(hub)
    admin = QueueAdmin(hub)
    admin.may_go = refuse_use
    return admin


class Purge(NamedTuple):
    """What a purge removed, or would remove.

    Attributes:
        messages: that are gone, or of which anything would go.
        entries: of multi-consumer messages: one for each consumer that has lost its own.
    """

    messages: int
    entries: int


def purge_queue(hub: Hub, name: str, condition: str | None, *, dry: bool, wait: float = 0, by: str) -> Purge:
    """Remove the messages of a queue for which a condition is true, and keep that in the audit.

    Args:
        condition: over the columns of the view ``AQ$<queue table>``, each with the prefix ``qtview.``; None: all.
        dry: only say what would be removed.
        wait: seconds for those who hold some of them.
        by: who does it.

    Raises:
        NotFound: there is no queue of that name.
        AqError: 25448, 25449 the condition; 54 others hold some of the messages.
    """
    full = lookup.queue(hub, name)
    admin = QueueAdmin(hub)
    admin.by = by
    done = admin.would_purge(full, condition) if dry else admin.purge_queue(full, condition, block=wait or False)
    return Purge(done.messages, done.entries)


class Reading(NamedTuple):
    """A subscriber of a queue with what waits for it; None where it is not a consumer of this queue itself."""

    subscriber: SubscriberInfo
    held: Counts | None


class OfAJob(GatewayError):
    """A subscriber belongs to a job, and goes with it."""


def readers(hub: Hub, name: str) -> list[Reading]:
    """The subscribers of a queue with what waits for each, in one transaction.

    Raises:
        NotFound: there is no queue of that name.
    """
    full = lookup.queue(hub, name)
    with hub.read() as conn:
        ref = resolve(conn, full)
        return [
            Reading(each, None if each.address or not each.name else backlog(conn, ref, each.name))
            for each in QueueAdmin(hub, conn).queue_subscribers(full)
        ]


def add_subscriber(
    hub: Hub,
    name: str,
    subscriber: str,
    *,
    rule: str | None = None,
    transformation: str | None = None,
    options: Mapping[str, str] | None = None,
) -> Reading:
    """Subscribe; the subscriber gets what is enqueued from now on.

    Raises:
        NotFound: there is no queue of that name.
        AqError: as :meth:`mgw.gateway.aq.QueueAdmin.add_subscriber`.
    """
    full = lookup.queue(hub, name)
    QueueAdmin(hub).add_subscriber(full, subscriber, rule=rule, transformation=transformation, options=options)
    known = subscriber.strip('"').upper()
    return next(each for each in readers(hub, full) if (each.subscriber.name or "").upper() == known)


def job_of(subscriber: str) -> str | None:
    """The job that a subscriber belongs to; None: it is nobody's but its own."""
    return subscriber[len(JOB_SUBSCRIBER) :] if is_of_job(subscriber) else None


def remove_subscriber(hub: Hub, name: str, subscriber: str, *, force: bool, by: str) -> Held:
    """End a subscription; what waited for it.

    Raises:
        NotFound: there is no queue of that name.
        OfAJob: it is the subscriber of a job.
        HoldsMessages: messages wait for it, and ``force`` is not given.
        AqError: 24035 there is no such subscriber.
    """
    full = lookup.queue(hub, name)
    if (job := job_of(subscriber)) is not None:
        raise OfAJob(
            f"subscriber {subscriber:.200} belongs to a job",
            cause="it goes with the job",
            cure=f"remove the job instead: mgw jobs remove {job:.200}",
        )
    admin = QueueAdmin(hub)
    admin.by = by
    return admin.remove_subscriber(full, subscriber, force=force)


def database_role(hub: Hub, role: str, *, apply: bool) -> Sequence[str]:
    """The statements that make a PostgreSQL role for programs with a login of their own; ``apply`` runs them, too.

    Raises:
        AqError: the hub is not on PostgreSQL, or the name cannot be that of a role.
    """
    with hub.read() as conn:
        statements = role_statements(Db(conn), role)
    if apply:
        with hub.write() as conn:
            for statement in statements:
                Db(conn).run(statement)
    return statements


def run_time_manager(hub: Hub) -> TimeManagerReport:
    """Do once what time demands: end delays, expire, remove."""
    return Timekeeper(hub, Journalist(events_of(hub, None, hub.clock)), hub.clock).run()
