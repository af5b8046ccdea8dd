"""Statements about the first message of a queue on PostgreSQL; see :mod:`mgw.gateway.aq.queues.search_bounds`."""

from __future__ import annotations

import math

from mgw.gateway.aq.model import QueueRef
from mgw.gateway.aq.store.statements import Db
from mgw.gateway.aq.store.tables import State

__all__ = ["first_ready", "forget_reopened", "last_id", "wait_for_nobody", "workers"]

_LAST = "SELECT last_value FROM aq_message_id"
_WORKERS = """
    SELECT virtualtransaction, pid IS NULL FROM pg_locks
     WHERE locktype = 'advisory' AND objsubid = 2 AND granted
       AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
       AND classid = 'aq_queue'::regclass AND objid = (?::bigint % 2147483647)::bigint::oid"""
_FIRST = f"""
    SELECT k3 FROM aq_message WHERE queue_id = ? AND state = {State.READY} AND (k1, k2, k3) >= (0, 0, ?)
     ORDER BY k1, k2, k3 LIMIT 1"""
_FORGET = f"""
    DELETE FROM aq_reopened WHERE ctid = ANY (ARRAY(
        SELECT r.ctid FROM aq_queue q CROSS JOIN LATERAL
               (SELECT ctid, message_id FROM aq_reopened WHERE queue_id = q.id ORDER BY k3 LIMIT ?) r
         WHERE NOT EXISTS (SELECT FROM aq_message m WHERE m.id = r.message_id AND m.state = {State.READY})))"""


def wait_for_nobody(db: Db) -> None:
    """Let what follows in this transaction fail rather than wait for a lock, or for long."""
    db.rows("SELECT set_config('lock_timeout', '50ms', true), set_config('statement_timeout', '2s', true)")


def last_id(db: Db) -> int:
    """The last message id that was handed out, or the first that will be."""
    return int(db.scalar(_LAST))


def workers(db: Db, queue: QueueRef) -> frozenset[str] | None:
    """The transactions that enqueue or dequeue in this queue; None where one of them is prepared: it has no name."""
    found: dict[str, bool] = dict(db.rows(_WORKERS, (queue.id,)))
    return None if any(found.values()) else frozenset(found)


def first_ready(db: Db, queue: QueueRef, low: float) -> float | None:
    """Last sort key of the first READY message, taken ones that are not committed included; none is below ``low``."""
    key: float | None = db.scalar(_FIRST, (queue.id, low if low > -math.inf else float("-inf")))
    return key


def forget_reopened(db: Db, limit: int) -> int:
    """Forget that messages became READY again where they are not READY any more; up to ``limit`` for each queue."""
    return db.run(_FORGET, (limit,)) if db.postgresql else 0
