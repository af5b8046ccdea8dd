"""The queue a write goes to, as the user who writes may see it."""

from __future__ import annotations

from typing import NamedTuple

import sqlalchemy as sa

from mgw.gateway.aq import DEFAULT_SCHEMA, Db, Hub, QueueRef, QueueType, Rights, rights_of
from mgw.gateway.aq import queue_catalog as catalog
from mgw.pipelines.sink.options import WriteOptions
from mgw.transforms.errors import ConfigInvalid

__all__ = ["Target", "target_of"]


class Target(NamedTuple):
    """Where rows go."""

    queue: QueueRef
    rights: Rights | None  # None: the owner of the hub writes
    user: str | None
    exceptions: tuple[QueueRef, ...] = ()  # where the messages that the rows were made of are removed


def target_of(hub: Hub, conn: sa.Connection, options: WriteOptions) -> Target:
    """The target of a write.

    Raises:
        AqError: 25205 no such queue (for the user), 1031 a privilege is missing.
        ConfigInvalid: it takes no messages from a writer, or messages are to be removed from a normal queue.
    """
    db = Db(conn)
    user = hub.user_for(options.user)
    rights = rights_of(user)
    if rights is None:
        queue = catalog.require_queue(db, options.queue, DEFAULT_SCHEMA)
    else:
        queue = rights.enqueue_target(db, options.queue)
    if queue.queue_type is not QueueType.NORMAL:
        raise ConfigInvalid(
            f"queue {queue.full_name} cannot be written to",
            cause="only the hub moves messages into an exception queue",
            cure="write to a normal queue",
        )
    exceptions = []
    for name in options.remove_from:
        if rights is None:
            found = catalog.require_queue(db, name, DEFAULT_SCHEMA)
        else:
            found = rights.dequeue_target(db, name, None)
        if found.queue_type is not QueueType.EXCEPTION:
            raise ConfigInvalid(
                f"messages cannot be removed from queue {found.full_name} by a write",
                cause="it is a normal queue: its consumers take them",
                cure="name exception queues in removeFrom",
            )
        exceptions.append(found)
    return Target(queue, rights, user, tuple(exceptions))
