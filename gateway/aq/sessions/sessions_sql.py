"""Statements of the sessions on SQLite: their registration, and what a dead one held."""

from __future__ import annotations

from collections.abc import Sequence

from mgw.gateway.aq.model import DEFAULT_MAX_RETRIES
from mgw.gateway.aq.queues import consumers_sql
from mgw.gateway.aq.store.statements import Db
from mgw.gateway.aq.store.tables import State

__all__ = ["delete_session", "insert_session", "renew_sessions", "return_claims", "sessions"]


def insert_session(db: Db, number: int, *, host: str, pid: int, lease_until: float, now: float) -> None:
    """Register a session before its first claim."""
    db.run(
        "INSERT INTO aq_session (id, host, pid, lease_until, created) VALUES (?, ?, ?, ?, ?)",
        (number, host, pid, lease_until, now),
    )


def renew_sessions(db: Db, numbers: Sequence[int], lease_until: float) -> None:
    """Prolong the lease of living sessions."""
    db.run("UPDATE aq_session SET lease_until = ? WHERE id {ids}", (lease_until, db.ids(numbers)))


def delete_session(db: Db, number: int) -> None:
    """Forget a session that holds nothing."""
    db.run("DELETE FROM aq_session WHERE id = ?", (number,))


def sessions(db: Db) -> list[tuple[int, str, int, float]]:
    """(id, host, pid, lease_until) of every registered session."""
    rows = db.rows("SELECT id, host, pid, lease_until FROM aq_session")
    return [(number, host, pid, lease_until) for number, host, pid, lease_until in rows]


def return_claims(db: Db, number: int, now: float) -> tuple[int, set[int]]:
    """What a dead session held is as it was before, its attempts unchanged (AQ guide 12.2 §1.7).

    Recipients over their retry limit are blocked still. The time manager looks at their messages: others may have taken
    them meanwhile.
    """
    held = f"WHERE state = {State.CLAIMED} AND claim = ?"
    queues = set(db.column(f"SELECT DISTINCT queue_id FROM aq_message {held}", (number,)))
    queues |= set(db.column(f"SELECT DISTINCT queue_id FROM aq_entry {held}", (number,)))
    returned = 0
    over = f"""attempts > (SELECT coalesce(q.max_retries, {DEFAULT_MAX_RETRIES}) FROM aq_queue q
                            WHERE q.id = aq_entry.queue_id)"""
    db.run(f"INSERT INTO aq_dequeue_log (message_id) SELECT message_id FROM aq_entry {held} AND {over}", (number,))
    for table, state in (
        ("aq_message", f"WHEN expiration_reason IS NOT NULL THEN {State.EXPIRED}"),  # in an exception queue
        ("aq_entry", f"WHEN {over} THEN {State.UNDELIVERABLE}"),
    ):
        sql = f"""UPDATE {table} SET claim = NULL, state = CASE
                      {state} WHEN ready_at > ? THEN {State.WAITING} ELSE {State.READY} END {held}"""
        returned += db.run(sql, (now, number))
    consumers_sql.drop_removed(db)
    delete_session(db, number)
    return returned, queues
