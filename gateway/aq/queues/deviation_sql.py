"""Statements of sequence deviation: the position of a message among its neighbours, and how room is made there.

A usual message has its own id as last sort key. Those that deviate have fractions between two whole numbers there, or
negative numbers, and are in an index of their own: finding a neighbour costs nothing on a queue of any length.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mgw.gateway.aq.model import QueueRef, SortList
from mgw.gateway.aq.store.statements import Db
from mgw.gateway.aq.store.tables import LEFT, State

__all__ = [
    "Reference",
    "alone_with_places",
    "deviated",
    "find_reference",
    "free_among",
    "keep_places",
    "last_deviated",
    "precedes_less_important",
    "precedes_shorter_delay",
    "set_places",
]

_LOCK = "('aq_entry'::regclass::oid::int, (?::bigint % 2147483647)::int)"  # of this hub's table, whatever is locked

_DELAY = "CASE WHEN m.attempts > 0 THEN 0 ELSE m.ready_at - m.enq_time END"  # a failed attempt: it was ready
_REFERENCE = f"""
    SELECT m.k1, m.k2, m.k3, m.priority, {_DELAY},
           CASE WHEN m.state = {State.PROCESSED} THEN 1
                WHEN m.state = {State.SPLIT} AND NOT EXISTS (SELECT 1 FROM aq_entry e
                                                  WHERE e.message_id = m.id AND e.state IN {LEFT}) THEN 1
                ELSE 0 END
      FROM aq_message m WHERE m.id = ? AND m.queue_id = ?"""
_LAST = """
    SELECT MAX(k3) FROM aq_message
     WHERE queue_id = ? AND k1 = ? AND k2 = ? AND k3 > ? AND k3 < ? AND k3 <> id"""
_DEVIATED = """
    SELECT id, k3 FROM aq_message
     WHERE queue_id = ? AND k1 = ? AND k2 = ? AND k3 > ? AND k3 < ? AND k3 <> id ORDER BY k3"""
_BY_PRIORITY = (SortList.PRIORITY, SortList.PRIORITY_ENQ_TIME, SortList.PRIORITY_COMMIT_TIME)


Keys = tuple[float, float, float]


class Reference(NamedTuple):
    """The message to go before; ``delay`` in seconds, as it was given."""

    k1: float
    k2: float
    k3: float
    priority: int
    delay: float
    consumed: bool


def find_reference(db: Db, queue: QueueRef, number: int) -> Reference | None:
    """A message of the queue, or None."""
    row = db.row(_REFERENCE, (number, queue.id))
    if row is None:
        return None
    found = Reference(*row)
    return found._replace(consumed=bool(found.consumed))


def _waiting(queue: QueueRef) -> tuple[State, ...]:
    """States of message rows whose messages may wait."""
    return (State.SPLIT,) if queue.multiple_consumers else (State.READY, State.WAITING)


def precedes_less_important(db: Db, queue: QueueRef, priority: int) -> bool:
    """Whether a message that waits in the queue is more important than this priority."""
    sorted_by_it = "k1 < ? AND " if queue.sort_list in _BY_PRIORITY else ""
    states = _waiting(queue)
    params = (queue.id, priority, priority) if sorted_by_it else (queue.id, priority)
    return any(
        db.row(
            f"SELECT 1 FROM aq_message WHERE queue_id = ? AND {sorted_by_it}state = {state} AND priority < ? LIMIT 1",
            params,
        )
        for state in states
    )


def precedes_shorter_delay(db: Db, queue: QueueRef, delay: float) -> bool:
    """Whether a message that waits in the queue has a delay below this one."""
    states = _waiting(queue)
    return any(
        db.row(
            f"SELECT 1 FROM aq_message m WHERE m.queue_id = ? AND m.state = {state} AND {_DELAY} < ? LIMIT 1",
            (queue.id, delay),
        )
        for state in states
    )


def last_deviated(db: Db, queue: QueueRef, where: Keys, high: float) -> float | None:
    """The highest last key of a deviating message between two keys, both left out."""
    key: float | None = db.scalar(_LAST, (queue.id, *where, high))
    return key


def deviated(db: Db, queue: QueueRef, where: Keys, high: float) -> list[tuple[int, float]]:
    """(id, last key) of every deviating message between two keys, in order."""
    return [(number, key) for number, key in db.rows(_DEVIATED, (queue.id, *where, high))]


def free_among(db: Db, queue: QueueRef, ids: Sequence[int]) -> set[int]:
    """Those messages that no other transaction has locked; they are locked now."""
    free = set(db.column("SELECT id FROM aq_message WHERE id {ids} {lock}", (db.ids(ids),)))
    if free and queue.multiple_consumers and db.postgresql:
        chosen = (db.ids(free),)
        locked: dict[int, int] = {}
        for (number,) in db.rows("SELECT message_id FROM aq_entry WHERE message_id {ids} {lock}", chosen):
            locked[number] = locked.get(number, 0) + 1
        counted = "SELECT message_id, COUNT(*) FROM aq_entry WHERE message_id {ids} GROUP BY message_id"
        free -= {number for number, total in db.rows(counted, chosen) if locked.get(number, 0) != total}
    return free


def set_places(db: Db, queue: QueueRef, places: Sequence[tuple[float, int]]) -> None:
    """Give messages (last key, id) another last key, with all of their entries."""
    db.many("UPDATE aq_message SET k3 = ? WHERE id = ?", places)
    if queue.multiple_consumers:
        db.many("UPDATE aq_entry SET k3 = ? WHERE message_id = ?", places)


def keep_places(db: Db, queue: QueueRef) -> None:
    """Nobody moves messages of this queue until the transaction ends (unless somebody does so already)."""
    if db.postgresql:
        db.row(f"SELECT pg_try_advisory_xact_lock_shared{_LOCK}", (queue.id,))


def alone_with_places(db: Db, queue: QueueRef) -> bool:
    """Whether no other transaction counts on the places of this queue's messages; then none does until the end."""
    if not db.postgresql:
        return True
    return bool(db.scalar(f"SELECT pg_try_advisory_xact_lock{_LOCK}", (queue.id,)))
