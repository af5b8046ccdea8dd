"""Transaction groups: all messages that a transaction puts into one queue belong together (AQ guide 12.2 §1.6).

A group is known by the id of its first message, whose priority, delay and expiration hold for all of it, as does its
place in the queue. Only queues of queue tables with message_grouping TRANSACTIONAL come here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from gateway.aq import statements_groups as groups_sql
from gateway.aq.model import QueueRef
from gateway.aq.statements import Db
from gateway.aq.tables import State

if TYPE_CHECKING:
    from gateway.aq.arrivals import Prepared

__all__ = ["in_group", "place"]

_INFO = "mgw_groups"  # in the info of a connection: its transaction, and the heads of its groups (SQLite)


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
    rows = [
        (*row[:2], own, *keys, head.priority, head.ready_at, head.expires_at, head.expiration, *row[10:], head.group)
        for row in prepared.rows
    ]
    entries = [
        (*entry[:3], state, *keys, head.ready_at, head.expires_at, *entry[9:], head.group) for entry in prepared.entries
    ]
    return prepared._replace(rows=rows, entries=entries)


def place(db: Db, prepared: Prepared) -> None:
    """Have messages of a commit-time queue, stored just now, get their place when their transaction commits."""
    if db.postgresql and prepared.queue.by_commit and prepared.rows:
        groups_sql.place_at_commit(db, prepared.queue, prepared.rows[0][-1])


def _head(db: Db, queue: QueueRef, prepared: Prepared) -> _Head:
    first = prepared.rows[0]
    number, _, _, k1, k2, k3, priority, ready_at, expires_at, expiration = first[:10]
    delayed = ready_at > first[11]
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
    info: dict[Any, Any] = db.connection.info
    transaction = db.connection.get_transaction() or db  # which is the only one of a transaction without
    known = info.get(_INFO)
    if known is None or known[0] is not transaction:
        known = info[_INFO] = (transaction, {})
    heads: dict[int, _Head] = known[1]
    return heads
