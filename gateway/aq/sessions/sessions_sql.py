"""Statements of the sessions on SQLite: their registration, and what a dead one held."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.aq import statements_consumers as consumers_sql
from gateway.aq.model import DEFAULT_MAX_RETRIES
from gateway.aq.statements import Db

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
    return [(row[0], row[1], row[2], row[3]) for row in db.rows("SELECT id, host, pid, lease_until FROM aq_session")]


def return_claims(db: Db, number: int, now: float) -> tuple[int, set[int]]:
    """What a dead session held is as it was before, its attempts unchanged (AQ guide 12.2 §1.7).

    Recipients over their retry limit are blocked still. The time manager looks at their messages: others may have taken
    them meanwhile.
    """
    queues = {
        row[0] for row in db.rows("SELECT DISTINCT queue_id FROM aq_message WHERE state = 8 AND claim = ?", (number,))
    }
    queues |= {
        row[0] for row in db.rows("SELECT DISTINCT queue_id FROM aq_entry WHERE state = 8 AND claim = ?", (number,))
    }
    returned = 0
    over = f"""attempts > (SELECT coalesce(q.max_retries, {DEFAULT_MAX_RETRIES}) FROM aq_queue q
                            WHERE q.id = aq_entry.queue_id)"""
    held = "WHERE state = 8 AND claim = ?"
    db.run(f"INSERT INTO aq_dequeue_log (message_id) SELECT message_id FROM aq_entry {held} AND {over}", (number,))
    for table, state in (
        ("aq_message", "WHEN expiration_reason IS NOT NULL THEN 3 WHEN ready_at > ? THEN 1"),  # 3: an exception queue
        ("aq_entry", f"WHEN {over} THEN 4 WHEN ready_at > ? THEN 1"),
    ):
        sql = f"UPDATE {table} SET state = CASE {state} ELSE 0 END, claim = NULL {held}"
        returned += db.run(sql, (now, number))
    consumers_sql.drop_removed(db)
    delete_session(db, number)
    return returned, queues
