"""Statements on messages and entries: store, take, finish. Statements per batch, never per message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from gateway.aq.codec import COLUMNS, MESSAGE_COLUMNS, MESSAGE_TYPES
from gateway.aq.model import Counts, QueueRef
from gateway.aq.statements import Db, Row

__all__ = [
    "ENTRY_COLUMNS",
    "ENTRY_TYPES",
    "Search",
    "claim_ready",
    "counts",
    "finish",
    "load_claimed",
    "mark_claimed",
    "release",
    "search",
    "store",
]

ENTRY_COLUMNS, ENTRY_TYPES = zip(
    ("message_id", "int8"),
    ("consumer_id", "int8"),
    ("queue_id", "int8"),
    ("state", "int2"),
    ("k1", "float8"),
    ("k2", "float8"),
    ("k3", "float8"),
    ("ready_at", "float8"),
    ("expires_at", "float8"),
    ("attempts", "int4"),
    strict=True,
)

_M, _E = COLUMNS.replace("{a}", "m"), COLUMNS.replace("{a}", "e")
_JOIN = "aq_entry e JOIN aq_message m ON m.id = e.message_id"


def store(db: Db, messages: Sequence[Row], entries: Sequence[Row]) -> None:
    """Insert message rows and, for multi-consumer queues, their entries."""
    if messages:
        db.insert("aq_message", MESSAGE_COLUMNS, MESSAGE_TYPES, messages)
    if entries:
        db.insert("aq_entry", ENTRY_COLUMNS, ENTRY_TYPES, entries)


# -- claims of plans (no session) ------------------------------------------------------------------------------------

_ALIVE = "(expires_at IS NULL OR expires_at > ?)"
_CLAIM_PG = f"""
    WITH pick AS MATERIALIZED (
        SELECT id FROM aq_message WHERE queue_id = ? AND state = 0 AND {_ALIVE}
         ORDER BY k1, k2, k3 LIMIT ? FOR UPDATE SKIP LOCKED)
    UPDATE aq_message m SET state = 8, claim = ? FROM pick WHERE m.id = pick.id RETURNING {_M}"""
_CLAIM_ENTRY_PG = f"""
    WITH pick AS MATERIALIZED (
        SELECT message_id FROM aq_entry WHERE consumer_id = ? AND state = 0 AND {_ALIVE}
         ORDER BY k1, k2, k3 LIMIT ? FOR UPDATE SKIP LOCKED)
    UPDATE aq_entry e SET state = 8, claim = ? FROM pick, aq_message m
     WHERE e.message_id = pick.message_id AND e.consumer_id = ? AND m.id = pick.message_id RETURNING {_E}"""
_READY = f"SELECT {_M} FROM aq_message m WHERE queue_id = ? AND state = 0 AND {_ALIVE} ORDER BY k1, k2, k3 LIMIT ?"
_READY_ENTRY = f"""
    SELECT {_E} FROM {_JOIN} WHERE e.consumer_id = ? AND e.state = 0 AND (e.expires_at IS NULL OR e.expires_at > ?)
     ORDER BY e.k1, e.k2, e.k3 LIMIT ?"""


def _keys(row: Row) -> Row:
    return row[16:19]


def claim_ready(db: Db, queue: QueueRef, consumer: int, limit: int, now: float) -> list[Row]:
    """Take up to ``limit`` READY messages in order: READY -> CLAIMED. Never waits for another consumer's messages.

    What has expired is left to the time manager: in the hands of a plan it could not be moved.
    """
    if db.postgresql:
        if consumer:
            found = db.rows(_CLAIM_ENTRY_PG, (consumer, now, limit, None, consumer))
        else:
            found = db.rows(_CLAIM_PG, (queue.id, now, limit, None))
        found.sort(key=_keys)  # RETURNING has no order
        return found
    found = db.rows(_READY_ENTRY, (consumer, now, limit)) if consumer else db.rows(_READY, (queue.id, now, limit))
    if found:
        mark_claimed(db, consumer, [row[0] for row in found], None)
    return found


def mark_claimed(db: Db, consumer: int, ids: Sequence[int], claim: int | None) -> None:
    """Put chosen messages into the hands of a claimant."""
    if consumer:
        sql = "UPDATE aq_entry SET state = 8, claim = ? WHERE consumer_id = ? AND message_id {ids}"
        db.run(sql, (claim, consumer, db.ids(ids)))
    else:
        db.run("UPDATE aq_message SET state = 8, claim = ? WHERE id {ids}", (claim, db.ids(ids)))


def load_claimed(db: Db, queue: QueueRef, consumer: int, ids: Sequence[int]) -> list[Row]:
    """Claimed messages again, in the order of ``ids``; those no longer claimed are left out."""
    if consumer:
        sql = f"SELECT {_E} FROM {_JOIN} WHERE e.consumer_id = ? AND e.message_id {{ids}} AND e.state = 8"
        found = db.rows(sql, (consumer, db.ids(ids)))
    else:
        sql = f"SELECT {_M} FROM aq_message m WHERE m.queue_id = ? AND m.id {{ids}} AND m.state = 8"
        found = db.rows(sql, (queue.id, db.ids(ids)))
    by_id = {row[0]: row for row in found}
    return [by_id[number] for number in ids if number in by_id]


def release(db: Db, queue: QueueRef, consumer: int, ids: Sequence[int], claim: int | None = None) -> int:
    """CLAIMED -> READY, position unchanged. ``claim`` None: claims of plans."""
    held, params = _held(claim)
    if consumer:
        sql = f"UPDATE aq_entry SET state = 0, claim = NULL WHERE consumer_id = ? AND message_id {{ids}} AND {held}"
        return db.run(sql, (consumer, db.ids(ids), *params))
    sql = f"UPDATE aq_message SET state = 0, claim = NULL WHERE queue_id = ? AND id {{ids}} AND {held}"
    return db.run(sql, (queue.id, db.ids(ids), *params))


def _held(claim: int | None) -> tuple[str, tuple[Any, ...]]:
    return ("state = 8 AND claim IS NULL", ()) if claim is None else ("state = 8 AND claim = ?", (claim,))


class Finisher(NamedTuple):
    """Who consumes, for the history columns."""

    time: float
    user: str | None = None
    txn: str | None = None


def finish(
    db: Db,
    queue: QueueRef,
    consumer: int,
    ids: Sequence[int],
    by: Finisher,
    *,
    retention: float,
    held: str,
    params: Any = (),
) -> int:
    """Consume messages: gone, or PROCESSED where they are retained; an entry becomes PROCESSED and is logged.

    ``held`` is the condition on the row's state, with its ``params``; returns the number of rows that met it.
    """
    if consumer:
        sql = f"""UPDATE aq_entry SET state = 2, claim = NULL, deq_time = ?, deq_user = ?, deq_txn = ?
                   WHERE consumer_id = ? AND message_id {{ids}} AND {held}"""
        number = db.run(sql, (by.time, by.user, by.txn, consumer, db.ids(ids), *params))
        log_consumption(db, ids)
        return number
    if retention:
        sql = f"""UPDATE aq_message SET state = 2, claim = NULL, deq_time = ?, deq_user = ?, deq_txn = ?
                   WHERE queue_id = ? AND id {{ids}} AND {held}"""
        return db.run(sql, (by.time, by.user, by.txn, queue.id, db.ids(ids), *params))
    return db.run(
        f"DELETE FROM aq_message WHERE queue_id = ? AND id {{ids}} AND {held}", (queue.id, db.ids(ids), *params)
    )


def log_consumption(db: Db, ids: Sequence[int]) -> None:
    """Have the time manager look whether somebody still waits for these multi-consumer messages."""
    if db.postgresql:
        db.run("INSERT INTO aq_dequeue_log (message_id) SELECT unnest(?::bigint[])", (db.ids(ids),))
    else:
        db.run("INSERT INTO aq_dequeue_log (message_id) SELECT value FROM json_each(?)", (db.ids(ids),))


def finish_exceptions(db: Db, queue: QueueRef, ids: Sequence[int], held: str, params: Any = ()) -> int:
    """Take messages out of an exception queue, with the history of their entries."""
    number = db.run(
        f"DELETE FROM aq_message WHERE queue_id = ? AND id {{ids}} AND {held}", (queue.id, db.ids(ids), *params)
    )
    if queue.multiple_consumers:
        db.run("DELETE FROM aq_entry WHERE message_id {ids}", (db.ids(ids),))
    return number


# -- the search of a session -----------------------------------------------------------------------------------------


class Search(NamedTuple):
    """What a dequeue looks for. ``after`` and ``upto`` bound it to the rest of a snapshot."""

    queue: QueueRef
    consumer: int
    states: tuple[int, ...]
    number: int | None = None  # message id
    claim: int | None = None  # claims of this session count as available (by message id only)
    claimed: bool = False  # only what sessions have in hand
    correlation: str | None = None
    after: tuple[float, float, float] | None = None
    upto: int | None = None


def search(db: Db, what: Search, limit: int, *, lock: bool) -> list[Row]:
    """Messages that match, in order. ``lock``: skip those locked by other transactions, lock these."""
    a = "e" if what.consumer else "m"
    source = _JOIN if what.consumer else "aq_message m"
    where = ["e.consumer_id = ?" if what.consumer else "m.queue_id = ?"]
    params: list[Any] = [what.consumer or what.queue.id]
    states = ", ".join(map(str, what.states)) if len(what.states) > 1 else str(what.states[0])
    condition = f"{a}.state IN ({states})" if len(what.states) > 1 else f"{a}.state = {states}"
    if what.claim is not None:
        condition = f"({condition} OR ({a}.state = 8 AND {a}.claim = ?))"
        params.append(what.claim)
    if what.claimed:
        condition += f" AND {a}.claim IS NOT NULL"
    where.append(condition)
    if what.number is not None:
        where.append("e.message_id = ?" if what.consumer else "m.id = ?")
        params.append(what.number)
    if what.correlation is not None:
        if "%" in what.correlation or "_" in what.correlation:
            where.append("m.correlation {like}")
            params.append(db.pattern(what.correlation))
        else:
            where.append("m.correlation = ?")
            params.append(what.correlation)
    if what.after is not None:
        where.append(f"({a}.k1, {a}.k2, {a}.k3) > (?, ?, ?)")
        params.extend(what.after)
    if what.upto is not None:
        where.append("m.id <= ?")
        params.append(what.upto)
    locking = ("{lock_e}" if what.consumer else "{lock}") if lock else ""
    columns = _E if what.consumer else _M
    sql = (
        f"SELECT {columns} FROM {source} WHERE {' AND '.join(where)} ORDER BY {a}.k1, {a}.k2, {a}.k3 LIMIT ? {locking}"
    )
    return db.rows(sql, (*params, limit))


def counts(db: Db, queue: QueueRef, consumer: int) -> Counts:
    """Messages of a queue, or of a consumer, by state; reads indexes only, but all of their entries."""
    if consumer:
        row = db.row(
            f"""SELECT (SELECT COUNT(*) FROM aq_entry WHERE consumer_id = ? AND state = 0),
                       (SELECT COUNT(*) FROM aq_entry WHERE consumer_id = ? AND state = 1),
                       (SELECT COUNT(*) FROM aq_entry WHERE consumer_id = ? AND state = 8), 0,
                       (SELECT m.enq_time FROM {_JOIN} WHERE e.consumer_id = ? AND e.state = 0
                         ORDER BY e.k1, e.k2, e.k3 LIMIT 1)""",
            (consumer,) * 4,
        )
    else:
        ready = 9 if queue.multiple_consumers else 0
        row = db.row(
            f"""SELECT (SELECT COUNT(*) FROM aq_message WHERE queue_id = ? AND state = {ready}),
                       (SELECT COUNT(*) FROM aq_message WHERE queue_id = ? AND state = 1),
                       (SELECT COUNT(*) FROM aq_message WHERE queue_id = ? AND state = 8),
                       (SELECT COUNT(*) FROM aq_message WHERE queue_id = ? AND state = 3),
                       (SELECT enq_time FROM aq_message WHERE queue_id = ? AND state = {ready}
                         ORDER BY {"id" if ready else "k1, k2, k3"} LIMIT 1)""",
            (queue.id,) * 5,
        )
    return Counts(*(row or (0, 0, 0, 0, None)))


def restore(db: Db, ids: Sequence[int], claim: int | None, state: int) -> None:
    """Claimed messages get a state back."""
    sql = "UPDATE aq_message SET state = ?, claim = NULL WHERE id {ids} AND state = 8 AND claim = ?"
    db.run(sql, (state, db.ids(ids), claim))
