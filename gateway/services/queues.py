"""The queues of the hub: their administration, and what a face does in more than one call of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mgw.gateway.aq import INFINITE, Counts, Db, Held, Hub, QueueAdmin, QueueInfo, TimeManagerReport, role_statements
from mgw.gateway.aq import queue_backlog as backlog
from mgw.gateway.aq import resolve_queue as resolve
from mgw.gateway.observe.events import Journalist
from mgw.gateway.runtime.timekeeping import Timekeeper, events_of

__all__ = [
    "INFINITE",
    "Counts",
    "Held",
    "QueueInfo",
    "QueueState",
    "administration",
    "create_queue",
    "database_role",
    "overview",
    "run_time_manager",
    "start_queue",
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
