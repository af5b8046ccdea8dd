"""Statements on parked keys: messages of a job that wait behind one of the same key that cannot be delivered.

A key is PARKED while its first message waits for the next attempt, TRYING while that message is READY or on its way
again, PASSED when it is done with; then all others of the key become READY again, in their places. Their numbers are
in a plan of the job with a negative sequence: the first one is among them while the key is PARKED.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from struct import pack, unpack
from typing import Any

import sqlalchemy as sa

from mgw.gateway.aq import Db
from mgw.gateway.state import tables as t

__all__ = [
    "PARKED",
    "PASSED",
    "TRYING",
    "ParkedKey",
    "append",
    "begin_attempt",
    "counts",
    "end_attempt",
    "hasten",
    "insert",
    "load",
    "mark_passed",
    "messages",
    "precede",
    "remove",
    "renumber",
]

PARKED, TRYING, PASSED = "PARKED", "TRYING", "PASSED"

_COLUMNS = "number, message_key, state, head, sequence, attempts, give_up, reason, error_number, since, next_attempt"
_ALL = f"SELECT {_COLUMNS} FROM gw_parked WHERE job_id = ? ORDER BY number"
_LAST = "SELECT coalesce(max(number), 0) FROM gw_parked WHERE job_id = ?"
_INSERT = f"INSERT INTO gw_parked (job_id, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_STATE = "UPDATE gw_parked SET state = ? WHERE job_id = ? AND number = ?"
_HEAD = "UPDATE gw_parked SET head = ?, sequence = ? WHERE job_id = ? AND number = ?"
_SEQUENCE = "UPDATE gw_parked SET sequence = ? WHERE job_id = ? AND number = ?"
_FAILED = """UPDATE gw_parked SET state = ?, attempts = ?, reason = ?, error_number = ?, next_attempt = ?
              WHERE job_id = ? AND number = ?"""
_COUNTS = "SELECT sequence, length(message_ids) / 8 FROM gw_plan WHERE job_id = ? AND sequence < 0"
_PASSED = f"UPDATE gw_parked SET state = '{PASSED}' WHERE job_id = ? AND number {{ids}}"
_REMOVE = "DELETE FROM gw_parked WHERE job_id = ? AND number = ?"
_REMOVE_PLAN = "DELETE FROM gw_plan WHERE job_id = ? AND sequence = ?"
_IDS = "SELECT message_ids FROM gw_plan WHERE job_id = ? AND sequence = ?"
_SET_IDS = "UPDATE gw_plan SET message_ids = ? WHERE job_id = ? AND sequence = ?"
_ADD_IDS = "INSERT INTO gw_plan (job_id, sequence, token, message_ids, created, detail) VALUES (?, ?, ?, ?, ?, NULL)"


@dataclass(slots=True)
class ParkedKey:
    """A key of a job.

    Attributes:
        number: counts the keys of the job; its messages are in the plan with that sequence, negative.
        head: number of the message that cannot be delivered.
        sequence: of the plan that it was in; messages of the key in that plan, and in earlier ones, go before it.
        attempts: how often that was tried.
        give_up: the next attempt moves it to the exception queue.
        reason: why the last attempt failed; with ``error_number``, if it has one.
        since: epoch seconds at which the key was parked.
        next_attempt: epoch seconds.
    """

    number: int
    key: str
    state: str
    head: int
    sequence: int
    attempts: int
    give_up: bool
    reason: str
    error_number: int | None
    since: float
    next_attempt: float


def load(conn: sa.Connection, job_id: int) -> list[ParkedKey]:
    """The parked keys of a job, the oldest first."""
    rows = Db(conn).rows(_ALL, (job_id,))
    return [_key(*row) for row in rows]


def _key(*row: Any) -> ParkedKey:
    found = ParkedKey(*row)
    found.give_up = bool(found.give_up)
    return found


def messages(conn: sa.Connection, job_id: int, number: int) -> list[int]:
    """Numbers of the messages of a key that are parked, in order."""
    return _messages(Db(conn), job_id, number)


def counts(conn: sa.Connection, job_id: int) -> dict[int, int]:
    """How many messages of each key are parked, by its number."""
    return {-sequence: messages for sequence, messages in Db(conn).rows(_COUNTS, (job_id,))}


def _messages(db: Db, job_id: int, number: int) -> list[int]:
    for (ids,) in db.rows(_IDS, (job_id, -number)):
        return list(unpack(f">{len(ids) // 8}q", ids))
    return []


def insert(conn: sa.Connection, job_id: int, entry: ParkedKey, ids: Sequence[int], *, token: int) -> None:
    """Park a key with its first messages; gives ``entry`` its number."""
    db = Db(conn)
    ((last,),) = db.rows(_LAST, (job_id,))
    entry.number = last + 1
    first = (entry.state, entry.head, entry.sequence, entry.attempts, int(entry.give_up))
    why = (entry.reason, entry.error_number)
    db.run(_INSERT, (job_id, entry.number, entry.key, *first, *why, entry.since, entry.next_attempt))
    db.run(_ADD_IDS, (job_id, -entry.number, token, pack(f">{len(ids)}q", *ids), entry.since))


def append(conn: sa.Connection, job_id: int, number: int, ids: Sequence[int]) -> None:
    """Messages join a key behind those that wait."""
    _set_messages(Db(conn), job_id, number, lambda waiting: [*waiting, *ids])


def precede(conn: sa.Connection, job_id: int, entry: ParkedKey) -> None:
    """A message fails that goes before the first one of a key: it is the first one now, with what ``entry`` says."""
    db = Db(conn)
    db.run(_HEAD, (entry.head, entry.sequence, job_id, entry.number))
    end_attempt(conn, job_id, entry)


def renumber(conn: sa.Connection, job_id: int, entry: ParkedKey) -> None:
    """The plans of what goes before the first message of a key got new numbers, the last one that of ``entry``."""
    Db(conn).run(_SEQUENCE, (entry.sequence, job_id, entry.number))


def begin_attempt(conn: sa.Connection, job_id: int, entry: ParkedKey) -> None:
    """The first message of a key leaves it, to be tried."""
    db = Db(conn)
    db.run(_STATE, (TRYING, job_id, entry.number))
    _set_messages(db, job_id, entry.number, lambda waiting: [number for number in waiting if number != entry.head])


def end_attempt(conn: sa.Connection, job_id: int, entry: ParkedKey) -> None:
    """The first message of a key failed again: it is back, with what ``entry`` says of it."""
    db = Db(conn)
    values = (entry.attempts, entry.reason, entry.error_number, entry.next_attempt)
    db.run(_FAILED, (PARKED, *values, job_id, entry.number))
    _set_messages(db, job_id, entry.number, lambda waiting: [entry.head, *waiting])


def _set_messages(db: Db, job_id: int, number: int, change: Callable[[list[int]], list[int]]) -> None:
    ids = change(_messages(db, job_id, number))
    db.run(_SET_IDS, (pack(f">{len(ids)}q", *ids), job_id, -number))


def mark_passed(conn: sa.Connection, job_id: int, numbers: Sequence[int]) -> None:
    """The first messages of these keys are done with."""
    db = Db(conn)
    db.later(_PASSED, (job_id, db.ids(numbers)))


def remove(conn: sa.Connection, job_id: int, number: int) -> list[int]:
    """Forget a key; returns the messages that were parked, in order."""
    db = Db(conn)
    ids = _messages(db, job_id, number)
    db.run(_REMOVE_PLAN, (job_id, -number))
    db.run(_REMOVE, (job_id, number))
    return ids


def hasten(conn: sa.Connection, job_id: int, numbers: Sequence[int], *, now: float, give_up: bool = False) -> None:
    """The first messages of these keys are tried now; ``give_up``: they go to the exception queue instead."""
    chosen = (t.parked.c.job_id == job_id, t.parked.c.number.in_(numbers), t.parked.c.state == PARKED)
    values = {"next_attempt": now} | ({"give_up": 1} if give_up else {})
    conn.execute(sa.update(t.parked).where(*chosen).values(**values))
