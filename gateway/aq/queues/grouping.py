"""Transaction groups: all messages that a transaction puts into one queue belong together (AQ guide 12.2 §1.6).

A group is known by the id of its first message, whose priority, delay and expiration hold for all of it, as does its
place in the queue. Only queues of queue tables with message_grouping TRANSACTIONAL come here.
"""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakKeyDictionary

import sqlalchemy as sa

from mgw.gateway.aq.model import QueueRef
from mgw.gateway.aq.queues import groups_sql
from mgw.gateway.aq.queues.prepared import Prepared
from mgw.gateway.aq.store.columns import NEW_ENTRY, NEW_MESSAGE
from mgw.gateway.aq.store.statements import Db
from mgw.gateway.aq.store.tables import State

__all__ = ["in_group", "place"]


_FIRST = NEW_MESSAGE.getter(
    "id", "k1", "k2", "k3", "priority", "ready_at", "expires_at", "expiration", "enq_time"
)  # fmt: skip
# What stays of a row when its message follows the first one of a group.
_BEFORE, _BEHIND = NEW_MESSAGE.around(
    "state", "k1", "k2", "k3", "priority", "ready_at", "expires_at", "expiration"
)  # fmt: skip
_ENTRY_BEFORE, _ENTRY_BEHIND = NEW_ENTRY.around("state", "k1", "k2", "k3", "ready_at", "expires_at")


class _Head(NamedTuple):
    """What the first message decides for its group."""

    group: int
    delayed: bool
    k1: float
    k2: float
    k3: float
    priority: int
    ready_at: float
    expires_at: float | None
    expiration: float | None


#: The last transaction of a connection in which there were groups, and their heads by queue (SQLite).
_heads: WeakKeyDictionary[sa.Connection, tuple[object, dict[int, _Head]]] = WeakKeyDictionary()


def in_group(db: Db, prepared: Prepared) -> Prepared:
    """The messages as members of the transaction's group in their queue; their rows end with the group.

    Works for everything that is one database transaction: several sessions, arrays and SQL functions included.
    """
    if not prepared.rows:
        return prepared
    queue = prepared.queue
    head = _head(db, queue, prepared)
    state = int(State.WAITING if head.delayed else State.READY)
    own = int(State.SPLIT) if queue.multiple_consumers else state
    keys = (head.k1, head.k2, head.k3)
    of_row = (own, *keys, head.priority, head.ready_at, head.expires_at, head.expiration)
    rows = [(*row[_BEFORE], *of_row, *row[_BEHIND], head.group) for row in prepared.rows]
    of_entry = (state, *keys, head.ready_at, head.expires_at)
    entries = [(*entry[_ENTRY_BEFORE], *of_entry, *entry[_ENTRY_BEHIND], head.group) for entry in prepared.entries]
    return prepared._replace(rows=rows, entries=entries, group=head.group)


def place(db: Db, prepared: Prepared) -> None:
    """Have messages of a commit-time queue, stored just now, get their place when their transaction commits."""
    if db.postgresql and prepared.queue.by_commit and prepared.group is not None:
        groups_sql.place_at_commit(db, prepared.queue, prepared.group)


def _head(db: Db, queue: QueueRef, prepared: Prepared) -> _Head:
    number, k1, k2, k3, priority, ready_at, expires_at, expiration, enqueued = _FIRST(prepared.rows[0])
    delayed = ready_at > enqueued
    by_commit = queue.by_commit and k3 == number  # else it goes ahead of others, and so does its group
    if db.postgresql:
        k2 = float("inf") if by_commit else k2
        mine = _Head(number, delayed, k1, k2, k3, priority, ready_at, expires_at, expiration)
        return _Head(*groups_sql.remember_head(db, queue, mine))  # type: ignore[arg-type]
    heads = _heads_of_transaction(db)
    known = heads.get(queue.id)
    if known is not None and groups_sql.group_exists(db, known.group):  # else it went with a savepoint
        return known
    k2 = groups_sql.next_commit_number(db) if by_commit else k2
    heads[queue.id] = _Head(number, delayed, k1, k2, k3, priority, ready_at, expires_at, expiration)
    return heads[queue.id]


def _heads_of_transaction(db: Db) -> dict[int, _Head]:
    transaction = db.connection.get_transaction() or db  # which is the only one of a transaction without
    known = _heads.get(db.connection)
    if known is None or known[0] is not transaction:
        known = _heads[db.connection] = (transaction, {})
    return known[1]
