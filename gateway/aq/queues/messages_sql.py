"""Statements on messages and entries: store, take, finish. Statements per batch, never per message."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf
from typing import Any, NamedTuple

from gateway.aq import payloads
from gateway.aq.codec import COLUMNS, MESSAGE_COLUMNS, MESSAGE_TYPES, TYPED_COLUMNS, TYPED_TYPES
from gateway.aq.heads import heads_of
from gateway.aq.model import Counts, QueueRef
from gateway.aq.statements import Db, Row
from gateway.aq.tally import Dequeued

__all__ = [
    "BY_PLAN",
    "BY_SESSION",
    "ENTRY_COLUMNS",
    "ENTRY_TYPES",
    "UNPLACED",
    "Search",
    "block_again",
    "claim_again",
    "claim_ready",
    "counts",
    "finish",
    "keys_of",
    "learnt",
    "load_claimed",
    "mark_claimed",
    "mark_held",
    "release",
    "search",
    "store",
    "store_one",
    "unlock",
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

#: Conditions on messages named by their ids: a plan has them in hand, or the session of that claim. ``+ 0`` keeps
#: PostgreSQL from the index of all that is in hand, which it would read and compare with every id.
BY_PLAN, BY_SESSION = "state + 0 = 8 AND claim IS NULL", "state + 0 = 8 AND claim = ?"

UNPLACED = 1e300  # a second key above it: the message has no place before its transaction commits

_M, _E = COLUMNS.replace("{a}", "m"), COLUMNS.replace("{a}", "e")
# The same for those who only want to know which messages they took.
_BARE_M, _BARE_E = (each.replace("m.body,", "NULL,").replace("m.headers", "NULL") for each in (_M, _E))
_JOIN = "aq_entry e JOIN aq_message m ON m.id = e.message_id"


def store(db: Db, messages: Sequence[Row], entries: Sequence[Row], *, grouped: bool = False) -> None:
    """Insert message rows and, for multi-consumer queues, their entries; ``grouped``: the last column is the group."""
    more, types = (("group_id",), ("int8",)) if grouped else ((), ())
    if messages:
        typed = len(messages[0]) > len(MESSAGE_COLUMNS) + len(more)
        columns, kinds = (TYPED_COLUMNS, TYPED_TYPES) if typed else (MESSAGE_COLUMNS, MESSAGE_TYPES)
        db.insert("aq_message", (*columns, *more), (*kinds, *types), messages)
    if entries:
        db.insert("aq_entry", (*ENTRY_COLUMNS, *more), (*ENTRY_TYPES, *types), entries)


def store_one(db: Db, row: Row, told: int | None) -> int:
    """Insert one message of a single-consumer queue on PostgreSQL under the next id, which is returned.

    ``told``: the queue whose listeners are to be told at commit, as by :meth:`Db.notify`.
    """
    typed = len(row) > len(MESSAGE_COLUMNS)
    params = [value for place, value in enumerate(row) if place not in _NUMBERS]
    sql = _STORE_ONE[typed, told is not None]
    found = db.row(sql, params if told is None else (*params, str(told)))
    assert found is not None  # noqa: S101 - an INSERT of one row returns it
    return int(found[0])


def _one(columns: Sequence[str], *, tell: bool) -> str:
    values = ["nextval('aq_message_id')", *["?"] * (len(columns) - 1)]
    values[_NUMBERS[1]] = "currval('aq_message_id')"
    told = ", pg_notify('mgw_hub', ?)" if tell else ""
    return f"INSERT INTO aq_message ({', '.join(columns)}) VALUES ({', '.join(values)}) RETURNING id{told}"


_NUMBERS = (MESSAGE_COLUMNS.index("id"), MESSAGE_COLUMNS.index("k3"))  # the message id and the last sort key are one
_STORE_ONE = {
    (typed, tell): _one(TYPED_COLUMNS if typed else MESSAGE_COLUMNS, tell=tell)
    for typed in (False, True)
    for tell in (False, True)
}


# -- claims of plans (no session) ------------------------------------------------------------------------------------

_ALIVE = "(expires_at IS NULL OR expires_at > ?)"
# An array of ids is always looked up; with a join the planner may come to read the whole table.
_CLAIM_PG = f"""
    UPDATE aq_message m SET state = 8, claim = ? WHERE m.id = ANY(ARRAY(
        SELECT id FROM aq_message WHERE queue_id = ? AND state = 0 AND {_ALIVE} AND (k1, k2, k3) > (?, ?, ?)
         ORDER BY k1, k2, k3 LIMIT ? FOR UPDATE SKIP LOCKED)) RETURNING {_M}"""
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
_REGISTERED = "EXISTS (SELECT 1 FROM aq_session WHERE id = ?)"


_BARE = {
    each: each.replace(_M, _BARE_M).replace(_E, _BARE_E) for each in (_CLAIM_PG, _CLAIM_ENTRY_PG, _READY, _READY_ENTRY)
}


_FROM_THE_START = (-inf, -inf, -inf)


def _keys(row: Row) -> Row:
    return row[16:19]


def claim_ready(  # noqa: PLR0917  (as of claim_groups, and what the settings tell)
    db: Db,
    queue: QueueRef,
    consumer: int,
    limit: int,
    now: float,
    reopened: float | None = -inf,
    *,
    bare: bool = False,
) -> list[Row]:
    """Take up to ``limit`` READY messages in order: READY -> CLAIMED. Never waits for another consumer's messages.

    What has expired is left to the time manager: in the hands of a plan it could not be moved.
    ``reopened``: see :meth:`gateway.aq.heads.Heads.after`. ``bare``: the rows come without headers and body.
    """

    def sql(template: str) -> str:
        return _BARE[template] if bare else template

    if db.postgresql:
        if consumer:
            found = db.found(sql(_CLAIM_ENTRY_PG), (consumer, now, limit, None, consumer))
        else:
            heads = heads_of(db, queue)
            after = (heads and heads.after(queue, reopened)) or _FROM_THE_START
            found = db.found(sql(_CLAIM_PG), (None, queue.id, now, *after, limit))
        found.sort(key=_keys)  # RETURNING has no order
        if not consumer and heads is not None:
            heads.found(db.connection.engine, queue, _keys(found[0])[-1] if found else None)
        return learnt(db, queue, found)
    template, target = (_READY_ENTRY, consumer) if consumer else (_READY, queue.id)
    found = db.rows(sql(template), (target, now, limit))
    if found:
        mark_claimed(db, consumer, [row[0] for row in found], None)
    return learnt(db, queue, found)


def learnt(db: Db, queue: QueueRef, rows: list[Row]) -> list[Row]:
    """The rows; the types that they refer to are known from now on."""
    if rows and queue.payload_type in payloads.TYPED:
        payloads.learn(db, rows)
    return rows


def mark_claimed(db: Db, consumer: int, ids: Sequence[int], claim: int | None) -> None:
    """Put chosen messages into the hands of a claimant."""
    if consumer:
        sql = "UPDATE aq_entry SET state = 8, claim = ? WHERE consumer_id = ? AND message_id {ids}"
        db.run(sql, (claim, consumer, db.ids(ids)))
    else:
        db.run("UPDATE aq_message SET state = 8, claim = ? WHERE id {ids}", (claim, db.ids(ids)))


def mark_held(db: Db, consumer: int, ids: Sequence[int], claim: int) -> bool:
    """Put chosen messages into the hands of a session, unless its registration is gone; whether they are."""
    if consumer:
        sql = f"UPDATE aq_entry SET state = 8, claim = ? WHERE consumer_id = ? AND message_id {{ids}} AND {_REGISTERED}"
        return db.run(sql, (claim, consumer, db.ids(ids), claim)) > 0
    sql = f"UPDATE aq_message SET state = 8, claim = ? WHERE id {{ids}} AND {_REGISTERED}"
    return db.run(sql, (claim, db.ids(ids), claim)) > 0


def load_claimed(db: Db, queue: QueueRef, consumer: int, ids: Sequence[int]) -> list[Row]:
    """Claimed messages again, in the order of ``ids``; those no longer claimed are left out."""
    if consumer:
        sql = f"SELECT {_E} FROM {_JOIN} WHERE e.consumer_id = ? AND e.message_id {{ids}} AND e.state + 0 = 8"
        found = db.rows(sql, (consumer, db.ids(ids)))
    else:
        sql = f"SELECT {_M} FROM aq_message m WHERE m.queue_id = ? AND m.id {{ids}} AND m.state + 0 = 8"
        found = db.rows(sql, (queue.id, db.ids(ids)))
    by_id = {row[0]: row for row in learnt(db, queue, found)}
    return [by_id[number] for number in ids if number in by_id]


def release(db: Db, queue: QueueRef, consumer: int, ids: Sequence[int], claim: int | None = None) -> int:
    """CLAIMED -> READY, position unchanged. ``claim`` None: claims of plans."""
    held, params = _held(claim)
    if consumer:
        sql = f"UPDATE aq_entry SET state = 0, claim = NULL WHERE consumer_id = ? AND message_id {{ids}} AND {held}"
        return db.run(sql, (consumer, db.ids(ids), *params))
    sql = f"UPDATE aq_message SET state = 0, claim = NULL WHERE queue_id = ? AND id {{ids}} AND {held}"
    return db.run(sql, (queue.id, db.ids(ids), *params))


def unlock(db: Db, queue: QueueRef, consumer: int, ids: Sequence[int], *, claim: int, now: float) -> int:
    """What a session held is as it was: READY, or WAITING where its delay is not over."""
    table, key, where = ("aq_entry", "message_id", "consumer_id") if consumer else ("aq_message", "id", "queue_id")
    return db.run(
        f"""UPDATE {table} SET state = CASE WHEN ready_at > ? THEN 1 ELSE 0 END, claim = NULL
             WHERE {where} = ? AND {key} {{ids}} AND {BY_SESSION}""",
        (now, consumer or queue.id, db.ids(ids), claim),
    )


def block_again(db: Db, consumer: int, ids: Sequence[int], claim: int) -> None:
    """Entries that a session held are UNDELIVERABLE, as they were; others may have taken the messages meanwhile."""
    if ids:
        log_consumption(db, ids)
        sql = f"""UPDATE aq_entry SET state = 4, claim = NULL
                   WHERE consumer_id = ? AND message_id {{ids}} AND {BY_SESSION}"""
        db.run(sql, (consumer, db.ids(ids), claim))


def claim_again(db: Db, consumer: int, ids: Sequence[int], claim: int, state: int) -> list[int]:
    """Messages in this state come back into the hands of a registered session; returns those that were in it."""
    if consumer:
        sql = f"""UPDATE aq_entry SET state = 8, claim = ?
                   WHERE consumer_id = ? AND message_id {{ids}} AND state = ? AND {_REGISTERED} RETURNING message_id"""
        return [row[0] for row in db.rows(sql, (claim, consumer, db.ids(ids), state, claim))]
    sql = f"UPDATE aq_message SET state = 8, claim = ? WHERE id {{ids}} AND state = ? AND {_REGISTERED} RETURNING id"
    return [row[0] for row in db.rows(sql, (claim, db.ids(ids), state, claim))]


def _held(claim: int | None) -> tuple[str, tuple[Any, ...]]:
    return (BY_PLAN, ()) if claim is None else (BY_SESSION, (claim,))


class Finisher(NamedTuple):
    """Who consumes, for the history columns, and the retention time of the queue if the call has just read it."""

    time: float
    user: str | None = None
    txn: str | None = None
    retention: float | None = None
    at_once: bool = False  # the search has removed them already


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
    if by.at_once:
        number = len(ids)
    elif consumer:
        sql = f"""UPDATE aq_entry SET state = 2, claim = NULL, deq_time = ?, deq_user = ?, deq_txn = ?
                   WHERE consumer_id = ? AND message_id {{ids}} AND {held}"""
        number = db.run(sql, (by.time, by.user, by.txn, consumer, db.ids(ids), *params))
        log_consumption(db, ids)
    elif retention:
        sql = f"""UPDATE aq_message
                     SET state = 2, claim = NULL, expires_at = NULL, deq_time = ?, deq_user = ?, deq_txn = ?
                   WHERE queue_id = ? AND id {{ids}} AND {held}"""
        number = db.run(sql, (by.time, by.user, by.txn, queue.id, db.ids(ids), *params))
    else:
        sql = f"DELETE FROM aq_message WHERE queue_id = ? AND id {{ids}} AND {held}"
        number = db.run(sql, (queue.id, db.ids(ids), *params))
    if db.tally is not None:
        gone = 0 if consumer or retention else number
        db.tally.append(Dequeued(queue.id, consumer, by.time, number, gone))
    return number


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
    held_by: int | None = None  # only what this session has in hand
    correlation: str | None = None
    after: tuple[float, ...] | None = None  # four keys where messages are grouped: the last one is the id
    upto: int | None = None
    numbers: tuple[int, ...] = ()  # only these message ids
    without: Sequence[int] = ()  # not these, of those in hand: the session has removed them
    where: str = ""  # of a deq_condition: SQL over m and e, and its parameters
    where_params: tuple[Any, ...] = ()
    group: int | None = None  # only this transaction group
    remove: bool = False  # what is found leaves the table in the same statement (PostgreSQL, single-consumer queues)


def keys_of(row: Row, queue: QueueRef) -> tuple[float, ...]:
    """The sort keys of a row; those of a transaction group are equal, and the message id decides."""
    keys: tuple[float, ...] = row[16:19]
    return (*keys, row[0]) if queue.grouped else keys


def search(db: Db, what: Search, limit: int, *, lock: bool) -> list[Row]:
    """Messages that match, in order. ``lock``: skip those locked by other transactions, lock these."""
    a = "e" if what.consumer else "m"
    source = _JOIN if what.consumer else "aq_message m"
    where = ["e.consumer_id = ?" if what.consumer else "m.queue_id = ?"]
    params: list[Any] = [what.consumer or what.queue.id]
    condition, state_params = _in_state(what, a)
    params.extend(state_params)
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
    columns = _E if what.consumer else _M
    order = f"{a}.k1, {a}.k2, {a}.k3"
    if what.queue.grouped:
        order += ", e.message_id" if what.consumer else ", m.id"
        columns += f", {a}.group_id"
        where.append(f"{a}.k2 < {UNPLACED}")
    for condition, values in _bounds(db, what, a, order):
        where.append(condition)
        params.extend(values)
    locking = ("{lock_e}" if what.consumer else "{lock}") if lock else ""
    chosen = f"FROM {source} WHERE {' AND '.join(where)} ORDER BY {order} LIMIT ? {locking}"
    if what.remove:
        sql = f"DELETE FROM aq_message m WHERE m.id = ANY(ARRAY(SELECT m.id {chosen})) RETURNING {columns}"
    else:
        sql = f"SELECT {columns} {chosen}"
    found = db.found(sql, (*params, limit))
    if what.remove:
        found.sort(key=_keys)  # RETURNING has no order
    return learnt(db, what.queue, found)


def _in_state(what: Search, a: str) -> tuple[str, list[Any]]:
    """The condition on the state of what is looked for, and its parameters."""
    params: list[Any] = []
    states = ", ".join(map(str, what.states)) if len(what.states) > 1 else str(what.states[0])
    condition = f"{a}.state IN ({states})" if len(what.states) > 1 else f"{a}.state = {states}"
    if what.claim is not None:
        condition = f"({condition} OR ({a}.state = 8 AND {a}.claim = ?))"
        params.append(what.claim)
    if what.claimed:
        condition += f" AND {a}.claim IS NOT NULL"
    if what.held_by is not None:
        condition += f" AND {a}.claim = ?"
        params.append(what.held_by)
    return condition, params


def _bounds(db: Db, what: Search, a: str, order: str) -> Iterator[tuple[str, Sequence[Any]]]:
    """Conditions of a search, each with its parameters."""
    if what.group is not None:
        yield f"{a}.group_id = ?", (what.group,)
    if what.after is not None:
        yield f"({order}) > ({', '.join('?' * len(what.after))})", what.after
    if what.upto is not None:
        yield f"{a}.k2 <= ?" if what.queue.by_commit else "m.id <= ?", (what.upto,)
    if what.numbers:
        yield "e.message_id {ids}" if what.consumer else "m.id {ids}", (db.ids(what.numbers),)
    if what.without and what.claimed:
        yield "NOT (e.message_id {ids})" if what.consumer else "NOT (m.id {ids})", (db.ids(what.without),)
    if what.where:
        yield what.where, what.where_params


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
    sql = f"UPDATE aq_message SET state = ?, claim = NULL WHERE id {{ids}} AND {BY_SESSION}"
    db.run(sql, (state, db.ids(ids), claim))
