"""Statements on what processes did with the queues: ``aq_process`` and ``aq_activity``."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from mgw.gateway.aq.store import tables
from mgw.gateway.aq.store.statements import Db, Row

__all__ = [
    "VALUES",
    "Key",
    "Kind",
    "delete_process",
    "insert_process",
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


def delete_process(db: Db, number: int) -> None:
    """Forget a process and what it did."""
    db.run("DELETE FROM aq_activity WHERE process_id = ?", (number,))
    db.run("DELETE FROM aq_process WHERE id = ?", (number,))
