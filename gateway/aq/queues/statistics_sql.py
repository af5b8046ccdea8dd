"""Statements on what processes did with the queues: ``aq_process`` and ``aq_activity``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from mgw.gateway.aq.store import tables
from mgw.gateway.aq.store.statements import Db, Row

__all__ = [
    "VALUES",
    "Key",
    "Kind",
    "begin_left_out",
    "end_process",
    "insert_process",
    "is_known",
    "others_exist",
    "processes",
    "renew_process",
    "store",
]


class Kind(StrEnum):
    """Whose activity a row of ``aq_activity`` counts."""

    QUEUE = "QUEUE"
    CONSUMER = "CONSUMER"
    PUBLISHER = "PUBLISHER"


class Key(NamedTuple):
    """Identifies a row of one process; name, address and protocol are those of a publisher."""

    kind: Kind
    object_id: int
    name: str = ""
    address: str = ""
    protocol: int = 0


_KEY = ("process_id", *Key._fields)
#: The columns of ``aq_activity`` that count, in order.
VALUES: tuple[str, ...] = tuple(column.name for column in tables.activity.columns if column.name not in _KEY)
_COLUMNS = (*_KEY, *VALUES)
_STORE = f"""
    INSERT INTO aq_activity ({", ".join(_COLUMNS)}) VALUES ({", ".join("?" * len(_COLUMNS))})
        ON CONFLICT ({", ".join(_KEY)}) DO UPDATE SET {", ".join(f"{name} = excluded.{name}" for name in VALUES)}"""


_REQUIRED = [
    column.name for column in tables.activity.columns if not column.nullable and column.name not in (*_KEY, "left_out")
]
_ADD_LEFT_OUT = f"""
    INSERT INTO aq_activity ({", ".join((*_KEY, *_REQUIRED, "left_out"))})
        VALUES ({", ".join("?" * (len(_KEY) + len(_REQUIRED) + 1))})
        ON CONFLICT ({", ".join(_KEY)}) DO UPDATE SET left_out = aq_activity.left_out + excluded.left_out"""


def insert_process(db: Db, number: int, values: Sequence[Any]) -> None:
    """Register a process: host, pid, start, end of its lease, passes of its time manager and their seconds."""
    db.run(
        """INSERT INTO aq_process (id, host, pid, started, lease_until, passes, pass_seconds)
           VALUES (?, ?, ?, ?, ?, ?, ?)""",
        (number, *values),
    )


def renew_process(db: Db, number: int, lease_until: float, passes: int, pass_seconds: float) -> bool:
    """Prolong a process's lease; False: it is not known (any more)."""
    sql = "UPDATE aq_process SET lease_until = ?, passes = ?, pass_seconds = ? WHERE id = ?"
    return db.run(sql, (lease_until, passes, pass_seconds, number)) == 1


def is_known(db: Db, number: int) -> bool:
    """Whether a process is registered."""
    return bool(db.rows("SELECT 1 FROM aq_process WHERE id = ?", (number,)))


def store(db: Db, number: int, rows: Sequence[Row]) -> None:
    """Store rows of key and values of a process, over those that are there."""
    db.many(_STORE, [(number, *row) for row in rows])


def others_exist(db: Db, number: int) -> bool:
    """Whether other processes are registered."""
    return bool(db.rows("SELECT 1 FROM aq_process WHERE id <> ? LIMIT 1", (number,)))


def processes(db: Db) -> list[tuple[int, str, int, float]]:
    """(id, host, pid, lease_until) of every registered process."""
    rows = db.rows("SELECT id, host, pid, lease_until FROM aq_process")
    return [(number, host, pid, lease_until) for number, host, pid, lease_until in rows]


def end_process(db: Db, number: int, left_out: Mapping[int, int] | None, now: float) -> None:
    """Forget a process and what it did; what the rules of subscribers refused is added to that of others that ended.

    ``left_out``: by consumer; None: what is stored of it.
    """
    if left_out is None:
        rows = db.rows("SELECT object_id, left_out FROM aq_activity WHERE process_id = ? AND left_out <> 0", (number,))
        left_out = dict(rows)
    add_left_out(db, left_out, now)
    db.run("DELETE FROM aq_activity WHERE process_id = ?", (number,))
    db.run("DELETE FROM aq_process WHERE id = ?", (number,))


def add_left_out(db: Db, left_out: Mapping[int, int], now: float) -> None:
    """Add to what the rules of subscribers refused in processes that ended; consumers that are gone are forgotten."""
    if not left_out:
        return
    db.many(_ADD_LEFT_OUT, [(*_ended(consumer, now), number) for consumer, number in sorted(left_out.items())])
    db.run(
        "DELETE FROM aq_activity WHERE process_id = 0 AND NOT EXISTS "
        "(SELECT 1 FROM aq_consumer c WHERE c.id = aq_activity.object_id)"
    )


def begin_left_out(db: Db, consumer: int, now: float) -> None:
    """A consumer becomes a subscriber again: what its rule refuses is counted from zero, whoever counts."""
    sql = "SELECT sum(left_out) FROM aq_activity WHERE kind = 'CONSUMER' AND object_id = ?"
    before = int(db.scalar(sql, (consumer,)) or 0)
    add_left_out(db, {consumer: -before} if before else {}, now)


def _ended(consumer: int, now: float) -> Row:
    values = [now if name == "first_time" else 0 for name in _REQUIRED]
    return (0, *Key(Kind.CONSUMER, consumer), *values)
