"""Statements on what the exception desk keeps of exception queues outside the hub.

A log gives no single message up, so the hub keeps which of its messages are done: by partition and offset, with a
digest of the message. Another message at the same place, in a log that was made again or lost its end, is not taken for
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import sqlalchemy as sa

from mgw.gateway.aq import Db

__all__ = ["DeskQueue", "add_done", "done", "find", "forget", "keep", "prune", "set_deliveries"]

_FIND = "SELECT id, identity, deliveries FROM gw_desk_queue WHERE place = ? AND queue = ?"
_INSERT = """INSERT INTO gw_desk_queue (place, queue, identity) VALUES (?, ?, ?)
              ON CONFLICT (place, queue) DO UPDATE SET identity = excluded.identity"""
_DELIVERIES = "UPDATE gw_desk_queue SET deliveries = ? WHERE id = ?"
_DONE = "SELECT position, digest FROM gw_desk_done WHERE desk_queue_id = ? AND part = ? AND position {ids}"
_ADD = """INSERT INTO gw_desk_done (desk_queue_id, part, position, digest) VALUES (?, ?, ?, ?)
           ON CONFLICT (desk_queue_id, part, position) DO UPDATE SET digest = excluded.digest"""
_FORGET = "DELETE FROM gw_desk_done WHERE desk_queue_id = ?"
_PRUNE = "DELETE FROM gw_desk_done WHERE desk_queue_id = ? AND part = ? AND position < ?"


class DeskQueue(NamedTuple):
    """An exception queue outside the hub. ``deliveries``: how often any message in it was handed out, at most."""

    id: int
    identity: str
    deliveries: int


def find(conn: sa.Connection, place: str, queue: str) -> DeskQueue | None:
    """What is kept of a queue; None: nothing."""
    for row in Db(conn).rows(_FIND, (place, queue)):
        return DeskQueue(*row)
    return None


def keep(conn: sa.Connection, place: str, queue: str, identity: str) -> DeskQueue:
    """The queue, from now on with that identity. What is kept of one with another identity is forgotten."""
    found = find(conn, place, queue)
    if found is not None and found.identity != identity:
        forget(conn, found.id)
    if found is None or found.identity != identity:
        Db(conn).run(_INSERT, (place, queue, identity))
        found = find(conn, place, queue)
    assert found is not None  # noqa: S101  # it was just written
    return found


def set_deliveries(conn: sa.Connection, queue_id: int, deliveries: int) -> None:
    """Keep how often messages of the queue were handed out, at most."""
    Db(conn).run(_DELIVERIES, (deliveries, queue_id))


def done(conn: sa.Connection, queue_id: int, part: int, positions: Sequence[int]) -> dict[int, str]:
    """Digests of those messages of a partition that are done, by offset."""
    db = Db(conn)
    return dict(db.rows(_DONE, (queue_id, part, db.ids(positions))))


def add_done(conn: sa.Connection, queue_id: int, messages: Iterable[tuple[int, int, str]]) -> None:
    """These messages are done: partition, offset, digest."""
    Db(conn).many(_ADD, [(queue_id, *message) for message in messages])


def forget(conn: sa.Connection, queue_id: int) -> None:
    """No message of the queue is done."""
    Db(conn).run(_FORGET, (queue_id,))


def prune(conn: sa.Connection, queue_id: int, begins: Mapping[int, int]) -> None:
    """Forget messages that the log no longer holds. ``begins``: the first offset of each partition."""
    db = Db(conn)
    for part, first in begins.items():
        db.run(_PRUNE, (queue_id, part, first))
