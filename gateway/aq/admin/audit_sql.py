"""Statements on the audit: what administration changed."""

from __future__ import annotations

from typing import NamedTuple

from mgw.gateway.aq.store.statements import Db

__all__ = ["Kept", "begins", "insert", "is_first", "prune", "rewrite"]


class Kept(NamedTuple):
    """An entry as it is stored: the columns of ``aq_audit`` that their names say."""

    time: float
    actor: str
    through: str
    action: str
    object: str
    messages: int = 0
    oldest: float | None = None
    moved_to: str | None = None
    kind: str | None = None
    before_change: str | None = None
    after_change: str | None = None
    generation: int | None = None
    version: int | None = None
    result: str | None = None


_COLUMNS = ", ".join(Kept._fields)
_MARKS = ", ".join("?" for _ in Kept._fields)


def insert(db: Db, entry: Kept) -> int:
    """Store an entry; its number."""
    return int(db.scalar(f"INSERT INTO aq_audit ({_COLUMNS}) VALUES ({_MARKS}) RETURNING id", tuple(entry)))


def begins(db: Db, number: int) -> None:
    """An entry is the first one of an undertaking, whose number it gives."""
    db.run("UPDATE aq_audit SET generation = id WHERE id = ?", (number,))


def is_first(db: Db, number: int, time: float) -> bool:
    """Whether the first entry of an undertaking was committed, or is in this transaction."""
    sql = "SELECT 1 FROM aq_audit WHERE id = ? AND generation = ? AND time = ?"
    return db.scalar(sql, (number, number, time)) is not None


def rewrite(db: Db, number: int, before_change: str | None, messages: int) -> bool:
    """Let an entry hold more; whether it is there."""
    sql = "UPDATE aq_audit SET before_change = ?, messages = ? WHERE id = ?"
    return db.run(sql, (before_change, messages, number)) > 0


def prune(db: Db, *, before: float, limit: int) -> int:
    """Delete old entries; how many."""
    sql = "DELETE FROM aq_audit WHERE id IN (SELECT id FROM aq_audit WHERE time < ? ORDER BY id LIMIT ?)"
    return db.run(sql, (before, limit))
