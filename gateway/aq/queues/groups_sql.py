"""Statements on transaction groups: which are free, what is in them, who locks them. For grouped queues only.

All messages of a group have equal sort keys, and the message id decides among them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple

from mgw.gateway.aq.model import QueueRef
from mgw.gateway.aq.queues.messages_sql import UNPLACED, learnt
from mgw.gateway.aq.store.columns import GROUPED
from mgw.gateway.aq.store.statements import Db, Row
from mgw.gateway.aq.store.tables import COMMIT_COUNTER, PENDING, State

__all__ = [
    "Attempt",
    "Member",
    "attempt",
    "free_heads",
    "group_exists",
    "load",
    "members",
    "next_commit_number",
    "own_members",
    "place_at_commit",
    "remember_head",
    "rest_of_group",
]


_READY = f"< {State.READY + 1}"  # a range, so that only the index on groups fits


class Member(NamedTuple):
    """A message of a group."""

    number: int
    group: int
    keys: tuple[float, ...]


class Attempt:
    """Locks that may be given back before the transaction ends (PostgreSQL; SQLite has none)."""

    def __init__(self, db: Db) -> None:
        self._db = db
        self._undone = False

    def undo(self) -> None:
        """Give back every lock taken since the attempt began."""
        if self._db.postgresql and not self._undone:
            self._db.run("ROLLBACK TO SAVEPOINT mgw_groups")
        self._undone = True


@contextmanager
def attempt(db: Db) -> Iterator[Attempt]:
    """Begin to lock; what is not undone stays locked to the end of the transaction."""
    if db.postgresql:
        db.run("SAVEPOINT mgw_groups")
    yield Attempt(db)
    if db.postgresql:
        db.run("RELEASE SAVEPOINT mgw_groups")


class _Side(NamedTuple):
    """Where the state of a message is: in its own row, or in the one of a consumer."""

    table: str
    alias: str
    number: str
    owner: str
    source: str


_MESSAGE = _Side("aq_message", "m", "id", "queue_id", "aq_message m")
_ENTRY = _Side("aq_entry", "e", "message_id", "consumer_id", "aq_entry e JOIN aq_message m ON m.id = e.message_id")


def _side(consumer: int) -> _Side:
    return _ENTRY if consumer else _MESSAGE


def _order(side: _Side) -> str:
    a = side.alias
    return f"{a}.k1, {a}.k2, {a}.k3, {a}.{side.number}"


def _only(state: State) -> str:
    return f"> {state - 1} AND h.state < {state + 1}"


@cache
def _free(side: _Side) -> str:
    """A READY message that is the first of its group, of which nothing waits and nothing is claimed.

    Scalar subqueries, and states as ranges: from EXISTS, or with equal states, PostgreSQL would make joins and scans of
    whole queues while it has no statistics. As it is, each subquery is one look into the index on groups.
    """
    a, number, owner = side.alias, side.number, side.owner
    same = f"FROM {side.table} h WHERE h.group_id = {a}.group_id AND h.{owner} = {a}.{owner} AND h.state"
    return f"""{a}.{owner} = ? AND {a}.state = {State.READY} AND {a}.group_id IS NOT NULL AND {a}.k2 < {UNPLACED}
               AND CASE WHEN (SELECT h.{number} {same} {_READY} ORDER BY h.state, h.{number} LIMIT 1) <> {a}.{number}
                             THEN FALSE
                        WHEN (SELECT 1 {same} {_only(State.WAITING)} LIMIT 1) IS NOT NULL THEN FALSE
                        ELSE (SELECT 1 {same} {_only(State.CLAIMED)} LIMIT 1) IS NULL END"""


def free_heads(
    db: Db,
    queue: QueueRef,
    consumer: int,
    limit: int,
    *,
    after: tuple[float, ...] | None,
    upto: int | None,
    only: int | None,
    without: Sequence[int],
    alive: float | None = None,
) -> list[int]:
    """Up to ``limit`` groups in order whose first message can be had; PostgreSQL locks those first messages.

    ``alive``: only groups that have not expired at this time.
    """
    side = _side(consumer)
    where: list[str] = [_free(side)]
    params: list[object] = [consumer or queue.id]
    if alive is not None:
        where.append(f"({side.alias}.expires_at IS NULL OR {side.alias}.expires_at > ?)")
        params.append(alive)
    if only is not None:
        where.append(f"{side.alias}.group_id = ?")
        params.append(only)
    if after is not None:
        where.append(f"({_order(side)}) > (?, ?, ?, ?)")
        params.extend(after)
    if upto is not None:
        where.append(f"{side.alias}.{'k2' if queue.by_commit else side.number} <= ?")
        params.append(upto)
    if without:
        where.append(f"NOT ({side.alias}.group_id {{ids}})")
        params.append(db.ids(without))
    sql = f"""SELECT {side.alias}.group_id FROM {side.table} {side.alias} WHERE {" AND ".join(where)}
               ORDER BY {_order(side)} LIMIT ? {{lock}}"""
    return db.column(sql, (*params, limit))


def members(db: Db, queue: QueueRef, consumer: int, groups: Sequence[int]) -> tuple[list[Member], set[int]]:
    """What can be had of some groups, in order, and the groups of which something is in other hands.

    PostgreSQL locks what can be had.
    """
    side = _side(consumer)
    chosen = (consumer or queue.id, db.ids(groups))
    where = f"{side.owner} = ? AND group_id {{ids}} AND state"
    rows = db.rows(
        f"""SELECT {side.number}, group_id, k1, k2, k3 FROM {side.table} {side.alias} WHERE {where} {_READY}
             ORDER BY {_order(side)} {{lock}}""",
        chosen,
    )
    found = [Member(number, group, (*keys, number)) for number, group, *keys in rows]
    if not db.postgresql:
        return found, set()
    locked = Counter(member.group for member in found)
    there = db.rows(f"SELECT group_id, COUNT(*) FROM {side.table} WHERE {where} IN {PENDING} GROUP BY group_id", chosen)
    return found, {group for group, number in there if number != locked[group]}


def own_members(
    db: Db, queue: QueueRef, consumer: int, claim: int, taken: Sequence[int], *, after: tuple[float, ...] | None
) -> list[Member]:
    """What a session has locked and not yet taken, in order (SQLite)."""
    side = _side(consumer)
    a, number = side.alias, side.number
    params: list[object] = [consumer or queue.id, claim, db.ids(taken)]
    later = ""
    if after is not None:
        later = f"AND ({_order(side)}) > (?, ?, ?, ?)"
        params.extend(after)
    sql = f"""SELECT {a}.{number}, {a}.group_id, {a}.k1, {a}.k2, {a}.k3 FROM {side.table} {a}
               WHERE {a}.{side.owner} = ? AND {a}.state = {State.CLAIMED} AND {a}.claim = ?
                 AND NOT ({a}.{number} {{ids}}) {later}
               ORDER BY {_order(side)}"""
    return [Member(number, group, (*keys, number)) for number, group, *keys in db.rows(sql, params)]


def rest_of_group(
    db: Db,
    queue: QueueRef,
    consumer: int,
    *,
    group: int,
    after: int,
    claim: int | None,
    taken: Sequence[int],
    limit: int,
) -> list[Row]:
    """The next messages of a group that this session has locked."""
    side = _side(consumer)
    a, number = side.alias, side.number
    available, mine = f"{a}.state {_READY}", list[object]()
    if claim is not None:
        available = (
            f"({a}.state {_READY} OR ({a}.state = {State.CLAIMED} AND {a}.claim = ?)) AND NOT ({a}.{number} {{ids}})"
        )
        mine = [claim, db.ids(taken)]
    sql = f"""SELECT {GROUPED.of(a)} FROM {side.source}
               WHERE {a}.{side.owner} = ? AND {a}.group_id = ? AND {a}.{number} > ? AND {available}
               ORDER BY {_order(side)} LIMIT ? {"{lock_e}" if consumer else "{lock}"}"""
    return learnt(db, queue, db.rows(sql, (consumer or queue.id, group, after, *mine, limit)))


def load(db: Db, queue: QueueRef, consumer: int, numbers: Sequence[int]) -> list[Row]:
    """Messages by number, in order of dequeue."""
    if not numbers:
        return []
    side = _side(consumer)
    sql = f"""SELECT {GROUPED.of(side.alias)} FROM {side.source}
               WHERE {side.alias}.{side.owner} = ? AND {side.alias}.{side.number} {{ids}} ORDER BY {_order(side)}"""
    return learnt(db, queue, db.rows(sql, (consumer or queue.id, db.ids(numbers))))


# -- the groups of a transaction that enqueues -----------------------------------------------------------------------


def remember_head(db: Db, queue: QueueRef, head: Sequence[object]) -> list[object]:
    """The head of the transaction's group in a queue: the one remembered, else ``head``, remembered now (PostgreSQL).

    A setting that is local to the transaction: it goes with it, and a rollback to a savepoint undoes it.
    """
    name = f"mgw.group_{queue.hub_id.hex()}_{queue.id}"
    found = db.scalar(
        "SELECT set_config(?, COALESCE(NULLIF(current_setting(?, true), ''), ?), true)", (name, name, json.dumps(head))
    )
    remembered: list[object] = json.loads(found)
    return remembered


def group_exists(db: Db, group: int) -> bool:
    """Whether a message of the group is there."""
    return bool(db.rows("SELECT 1 FROM aq_message WHERE group_id = ? LIMIT 1", (group,)))


def next_commit_number(db: Db) -> float:
    """The place of the transaction among all (SQLite: it has the one write lock, so it is the next to commit)."""
    return float(db.next_value(COMMIT_COUNTER))


def place_at_commit(db: Db, queue: QueueRef, group: int) -> None:
    """Have the database give the group its place when the transaction commits (PostgreSQL)."""
    db.run("INSERT INTO aq_unplaced (queue_id, group_id) VALUES (?, ?)", (queue.id, group))
