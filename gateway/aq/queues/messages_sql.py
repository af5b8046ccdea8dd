"""Statements on messages and entries: store, take, finish. Statements per batch, never per message."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf
from typing import Any, NamedTuple

from mgw.gateway.aq.model import Counts, QueueRef
from mgw.gateway.aq.payloads import forms as payloads
from mgw.gateway.aq.queues.activity import Dequeued
from mgw.gateway.aq.queues.search_bounds import heads_of
from mgw.gateway.aq.store import totals_sql
from mgw.gateway.aq.store.columns import GROUPED, ID, NEW_ENTRY, NEW_MESSAGE, NEW_TYPED_MESSAGE, STORED, Columns
from mgw.gateway.aq.store.pg_pipeline import Check
from mgw.gateway.aq.store.statements import Db, Row
from mgw.gateway.aq.store.tables import LOCKABLE, State

__all__ = [
    "BARE",
    "BY_LOCK",
    "BY_PLAN",
    "BY_SESSION",
    "UNPLACED",
    "Search",
    "block_again",
    "claim_again",
    "claim_ready",
    "counts",
    "finish",
    "finish_all",
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

#: Conditions on messages named by their ids: a plan has them in hand, or the session of that claim. ``+ 0`` keeps
#: PostgreSQL from the index of all that is in hand, which it would read and compare with every id.
_CLAIMED = f"state + 0 = {State.CLAIMED}"
_CLAIMS = BY_PLAN, BY_SESSION = f"{_CLAIMED} AND claim IS NULL", f"{_CLAIMED} AND claim = ?"

#: The same for messages that the transaction has locked.
BY_LOCK = f"state IN {LOCKABLE}"

UNPLACED = 1e300  # a second key above it: the message has no place before its transaction commits

_M, _E = STORED.of("m"), STORED.of("e")
#: The columns of those who only want to know which messages they took; the id is the first one, as in ``STORED``.
BARE = Columns(**{name: STORED.texts[STORED.at(name)] for name in ("id", "enq_time", "k1", "k2", "k3")})
_JOIN = "aq_entry e JOIN aq_message m ON m.id = e.message_id"


def store(db: Db, messages: Sequence[Row], entries: Sequence[Row], *, grouped: bool = False) -> None:
    """Insert message rows and, for multi-consumer queues, their entries; ``grouped``: the last column is the group."""
    plain, typed, entry = _NEW[grouped]
    if messages:
        columns = typed if len(messages[0]) > len(plain) else plain
        db.insert("aq_message", columns.names, columns.texts, messages)
    if entries:
        db.insert("aq_entry", entry.names, entry.texts, entries)
    totals_sql.came(db, messages, entries)


def store_one(db: Db, row: Row, told: int | None) -> int:
    """Insert one message of a single-consumer queue on PostgreSQL under the next id, which is returned.

    ``told``: the queue whose listeners are to be told at commit, as by :meth:`Db.notify`.
    """
    typed = len(row) > len(NEW_MESSAGE)
    params = [value for place, value in enumerate(row) if place not in _NUMBERS]
    sql = _STORE_ONE[typed, told is not None]
    found = db.row(sql, params if told is None else (*params, str(told)))
    assert found is not None  # noqa: S101 - an INSERT of one row returns it
    number, *_told = found
    return int(number)


def _one(columns: Columns, *, tell: bool) -> str:
    values = ["?"] * len(columns)
    values[columns.at("id")], values[columns.at("k3")] = "nextval('aq_message_id')", "currval('aq_message_id')"
    told = ", pg_notify({channel}, ?)" if tell else ""
    return f"INSERT INTO aq_message ({', '.join(columns.names)}) VALUES ({', '.join(values)}) RETURNING id{told}"


# Messages, those of objects and ANYDATA, and entries; in queues with transaction groups they end with the group.
_NEW = {
    False: (NEW_MESSAGE, NEW_TYPED_MESSAGE, NEW_ENTRY),
    True: tuple(each.extended(group_id="int8") for each in (NEW_MESSAGE, NEW_TYPED_MESSAGE, NEW_ENTRY)),
}
_NUMBERS = (NEW_MESSAGE.at("id"), NEW_MESSAGE.at("k3"))  # the message id and the last sort key are one
_STORE_ONE = {
    (typed, tell): _one(NEW_TYPED_MESSAGE if typed else NEW_MESSAGE, tell=tell)
    for typed in (False, True)
    for tell in (False, True)
}


# -- claims of plans (no session) ------------------------------------------------------------------------------------

_ALIVE = "(expires_at IS NULL OR expires_at > ?)"
# An array of ids is always looked up; with a join the planner may come to read the whole table.
_CLAIM_PG = f"""
    UPDATE aq_message m SET state = {State.CLAIMED}, claim = ? WHERE m.id = ANY(ARRAY(
        SELECT id FROM aq_message WHERE queue_id = ? AND state = {State.READY} AND {_ALIVE} AND (k1, k2, k3) > (?, ?, ?)
         ORDER BY k1, k2, k3 LIMIT ? FOR UPDATE SKIP LOCKED)) RETURNING {_M}"""
_CLAIM_ENTRY_PG = f"""
    WITH pick AS MATERIALIZED (
        SELECT message_id FROM aq_entry WHERE consumer_id = ? AND state = {State.READY} AND {_ALIVE}
         ORDER BY k1, k2, k3 LIMIT ? FOR UPDATE SKIP LOCKED)
    UPDATE aq_entry e SET state = {State.CLAIMED}, claim = ? FROM pick, aq_message m
     WHERE e.message_id = pick.message_id AND e.consumer_id = ? AND m.id = pick.message_id RETURNING {_E}"""
_READY = f"""
    SELECT {_M} FROM aq_message m WHERE queue_id = ? AND state = {State.READY} AND {_ALIVE}
     ORDER BY k1, k2, k3 LIMIT ?"""
_READY_ENTRY = f"""
    SELECT {_E} FROM {_JOIN}
     WHERE e.consumer_id = ? AND e.state = {State.READY} AND (e.expires_at IS NULL OR e.expires_at > ?)
     ORDER BY e.k1, e.k2, e.k3 LIMIT ?"""
_CLAIM, _FREE = f"state = {State.CLAIMED}, claim = ?", f"state = {State.READY}, claim = NULL"
_REGISTERED = "EXISTS (SELECT 1 FROM aq_session WHERE id = ?)"


_NUMBERS_ONLY = {
    each: each.replace(_M, BARE.of("m")).replace(_E, BARE.of("e"))
    for each in (_CLAIM_PG, _CLAIM_ENTRY_PG, _READY, _READY_ENTRY)
}


_FROM_THE_START = (-inf, -inf, -inf)


_KEYS, _BARE_KEYS = STORED.between("k1", "k2", "k3"), BARE.between("k1", "k2", "k3")
_LAST_KEY, _BARE_LAST_KEY = STORED.at("k3"), BARE.at("k3")


def _keys(row: Row) -> Row:
    return row[_KEYS]


def _bare_keys(row: Row) -> Row:
    return row[_BARE_KEYS]


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

    What has expired is left to the time manager: held by a plan it could not be moved.
    ``reopened``: see :meth:`search_bounds.Heads.after`. ``bare``: the rows have the columns :data:`BARE`.
    """

    def sql(template: str) -> str:
        return _NUMBERS_ONLY[template] if bare else template

    if db.postgresql:
        if consumer:
            found = db.found(sql(_CLAIM_ENTRY_PG), (consumer, now, limit, None, consumer))
        else:
            heads = heads_of(db, queue)
            after = (heads and heads.after(queue, reopened)) or _FROM_THE_START
            found = db.found(sql(_CLAIM_PG), (None, queue.id, now, *after, limit))
        found.sort(key=_bare_keys if bare else _keys)  # RETURNING has no order
        if not consumer and heads is not None:
            last = _BARE_LAST_KEY if bare else _LAST_KEY
            heads.found(db.connection.engine, queue, found[0][last] if found else None)
        return found if bare else learnt(db, queue, found)
    template, target = (_READY_ENTRY, consumer) if consumer else (_READY, queue.id)
    found = db.rows(sql(template), (target, now, limit))
    if found:
        mark_claimed(db, consumer, [row[ID] for row in found], None)
    return found if bare else learnt(db, queue, found)


def learnt(db: Db, queue: QueueRef, rows: list[Row]) -> list[Row]:
    """The rows; the types that they refer to are known from now on."""
    if rows and queue.payload_type in payloads.TYPED:
        payloads.learn(db, rows)
    return rows


def mark_claimed(db: Db, consumer: int, ids: Sequence[int], claim: int | None) -> None:
    """Claim chosen messages."""
    if consumer:
        sql = f"UPDATE aq_entry SET {_CLAIM} WHERE consumer_id = ? AND message_id {{ids}}"
        db.run(sql, (claim, consumer, db.ids(ids)))
    else:
        db.run(f"UPDATE aq_message SET {_CLAIM} WHERE id {{ids}}", (claim, db.ids(ids)))


def mark_held(db: Db, consumer: int, ids: Sequence[int], claim: int) -> bool:
    """Claim chosen messages for a session, unless its registration is gone; whether they are."""
    if consumer:
        sql = f"UPDATE aq_entry SET {_CLAIM} WHERE consumer_id = ? AND message_id {{ids}} AND {_REGISTERED}"
        return db.run(sql, (claim, consumer, db.ids(ids), claim)) > 0
    sql = f"UPDATE aq_message SET {_CLAIM} WHERE id {{ids}} AND {_REGISTERED}"
    return db.run(sql, (claim, db.ids(ids), claim)) > 0


def load_claimed(db: Db, queue: QueueRef, consumer: int, ids: Sequence[int]) -> list[Row]:
    """Claimed messages again, in the order of ``ids``; those no longer claimed are left out."""
    if consumer:
        sql = f"SELECT {_E} FROM {_JOIN} WHERE e.consumer_id = ? AND e.message_id {{ids}} AND e.{_CLAIMED}"
        found = db.rows(sql, (consumer, db.ids(ids)))
    else:
        sql = f"SELECT {_M} FROM aq_message m WHERE m.queue_id = ? AND m.id {{ids}} AND m.{_CLAIMED}"
        found = db.rows(sql, (queue.id, db.ids(ids)))
    by_id = {row[ID]: row for row in learnt(db, queue, found)}
    return [by_id[number] for number in ids if number in by_id]


def release(db: Db, queue: QueueRef, consumer: int, ids: Sequence[int], claim: int | None = None) -> int:
    """CLAIMED -> READY, position unchanged. ``claim`` None: claims of plans."""
    held, params = _held(claim)
    if consumer:
        sql = f"UPDATE aq_entry SET {_FREE} WHERE consumer_id = ? AND message_id {{ids}} AND {held}"
        return db.run(sql, (consumer, db.ids(ids), *params))
    sql = f"UPDATE aq_message SET {_FREE} WHERE queue_id = ? AND id {{ids}} AND {held}"
    return db.run(sql, (queue.id, db.ids(ids), *params))


def unlock(db: Db, queue: QueueRef, consumer: int, ids: Sequence[int], *, claim: int, now: float) -> int:
    """What a session held is as it was: READY, or WAITING where its delay is not over."""
    table, key, where = ("aq_entry", "message_id", "consumer_id") if consumer else ("aq_message", "id", "queue_id")
    return db.run(
        f"""UPDATE {table} SET state = CASE WHEN ready_at > ? THEN {State.WAITING} ELSE {State.READY} END, claim = NULL
             WHERE {where} = ? AND {key} {{ids}} AND {BY_SESSION}""",
        (now, consumer or queue.id, db.ids(ids), claim),
    )


def block_again(db: Db, consumer: int, ids: Sequence[int], claim: int) -> None:
    """Entries that a session held are UNDELIVERABLE, as they were; others may have taken the messages meanwhile."""
    if ids:
        log_consumption(db, ids)
        sql = f"""UPDATE aq_entry SET state = {State.UNDELIVERABLE}, claim = NULL
                   WHERE consumer_id = ? AND message_id {{ids}} AND {BY_SESSION}"""
        db.run(sql, (consumer, db.ids(ids), claim))


def claim_again(db: Db, consumer: int, ids: Sequence[int], claim: int, state: int) -> list[int]:
    """Messages in this state are claimed again by a registered session; returns those that were in it."""
    if consumer:
        sql = f"""UPDATE aq_entry SET {_CLAIM}
                   WHERE consumer_id = ? AND message_id {{ids}} AND state = ? AND {_REGISTERED} RETURNING message_id"""
        return db.column(sql, (claim, consumer, db.ids(ids), state, claim))
    sql = f"UPDATE aq_message SET {_CLAIM} WHERE id {{ids}} AND state = ? AND {_REGISTERED} RETURNING id"
    return db.column(sql, (claim, db.ids(ids), state, claim))


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
    else:
        sql, first = _finishing(queue, consumer, by, retention=retention, held=held)
        parameters = (*first, db.ids(ids), *params)
        if not (consumer or retention):
            totals_sql.leave(db, _taken(held), parameters, claimed=held in _CLAIMS)
        number = db.run(sql, parameters)
        if consumer:
            log_consumption(db, ids)
    if db.tally is not None:
        gone = 0 if consumer or retention else number
        db.tally.append(Dequeued(queue.id, consumer, by.time, number, gone))
    return number


def finish_all(
    db: Db,
    queue: QueueRef,
    consumer: int,
    ids: Sequence[int],
    by: Finisher,
    *,
    retention: float,
    held: str,
    check: Check,
) -> None:
    """:meth:`finish`; ``check`` is given the number of rows and raises if those are not all (:meth:`Db.later`)."""
    sql, first = _finishing(queue, consumer, by, retention=retention, held=held)
    parameters = (*first, db.ids(ids))
    if not (consumer or retention):
        totals_sql.leave(db, _taken(held), parameters, claimed=held in _CLAIMS)
    db.later(sql, parameters, check)
    if consumer:
        log_consumption(db, ids)
    if db.tally is not None:
        db.tally.append(Dequeued(queue.id, consumer, by.time, len(ids), 0 if consumer or retention else len(ids)))


def _finishing(queue: QueueRef, consumer: int, by: Finisher, *, retention: float, held: str) -> tuple[str, Row]:
    """The statement that consumes, and its parameters before the ids."""
    if consumer:
        sql = f"""UPDATE aq_entry SET state = {State.PROCESSED}, claim = NULL, deq_time = ?, deq_user = ?, deq_txn = ?
                   WHERE consumer_id = ? AND message_id {{ids}} AND {held}"""
        return sql, (by.time, by.user, by.txn, consumer)
    if retention:
        sql = f"""UPDATE aq_message
                     SET state = {State.PROCESSED}, claim = NULL, expires_at = NULL,
                         deq_time = ?, deq_user = ?, deq_txn = ?
                   WHERE queue_id = ? AND id {{ids}} AND {held}"""
        return sql, (by.time, by.user, by.txn, queue.id)
    return f"DELETE FROM aq_message WHERE {_taken(held)}", (queue.id,)


def _taken(held: str) -> str:
    return f"queue_id = ? AND id {{ids}} AND {held}"


def log_consumption(db: Db, ids: Sequence[int]) -> None:
    """Have the time manager look whether somebody still waits for these multi-consumer messages."""
    if db.postgresql:
        db.later("INSERT INTO aq_dequeue_log (message_id) SELECT unnest(?::bigint[])", (db.ids(ids),))
    else:
        db.run("INSERT INTO aq_dequeue_log (message_id) SELECT value FROM json_each(?)", (db.ids(ids),))


def finish_exceptions(db: Db, queue: QueueRef, ids: Sequence[int], held: str, params: Any = ()) -> int:
    """Take messages out of an exception queue, with the history of their entries."""
    number = totals_sql.delete_messages(db, _taken(held), (queue.id, db.ids(ids), *params), claimed=held in _CLAIMS)
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
    keys: tuple[float, ...] = row[_KEYS]
    return (*keys, row[ID]) if queue.grouped else keys


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
    columns = (GROUPED if what.queue.grouped else STORED).of(a)
    order = f"{a}.k1, {a}.k2, {a}.k3"
    if what.queue.grouped:
        order += ", e.message_id" if what.consumer else ", m.id"
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
    wanted = ", ".join(map(str, what.states))
    condition = f"{a}.state IN ({wanted})" if len(what.states) > 1 else f"{a}.state = {wanted}"
    if what.claim is not None:
        condition = f"({condition} OR ({a}.state = {State.CLAIMED} AND {a}.claim = ?))"
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


_KEPT_NUMBER = """(SELECT CAST(coalesce(sum(messages), 0) AS bigint) FROM aq_total
                         WHERE queue_id = ? AND consumer_id = ? AND state = {:d})"""


def counts(db: Db, queue: QueueRef, consumer: int) -> Counts:
    """Messages of a queue, or of a consumer, by state: from what is kept; what somebody has in hand is counted."""
    if consumer:
        row = db.row(
            f"""SELECT {_KEPT_NUMBER.format(State.READY)},
                       (SELECT COUNT(*) FROM aq_entry WHERE consumer_id = ? AND state = {State.WAITING}),
                       (SELECT COUNT(*) FROM aq_entry WHERE consumer_id = ? AND state = {State.CLAIMED}), 0,
                       (SELECT m.enq_time FROM {_JOIN} WHERE e.consumer_id = ? AND e.state = {State.READY}
                         ORDER BY e.k1, e.k2, e.k3 LIMIT 1)""",
            (queue.id, consumer, consumer, consumer, consumer),
        )
    else:
        ready = State.SPLIT if queue.multiple_consumers else State.READY
        row = db.row(
            f"""SELECT {_KEPT_NUMBER.format(ready)}, {_KEPT_NUMBER.format(State.WAITING)},
                       (SELECT COUNT(*) FROM aq_message WHERE queue_id = ? AND state = {State.CLAIMED}),
                       {_KEPT_NUMBER.format(State.EXPIRED)},
                       (SELECT enq_time FROM aq_message WHERE queue_id = ? AND state = {ready}
                         ORDER BY {"id" if queue.multiple_consumers else "k1, k2, k3"} LIMIT 1)""",
            (queue.id, 0, queue.id, 0, queue.id, queue.id, 0, queue.id),
        )
    ready_or_held, waiting, held, expired, oldest = row or (0, 0, 0, 0, None)
    free = ready_or_held if queue.multiple_consumers and not consumer else ready_or_held - held
    return Counts(free, waiting, held, expired, oldest)


def restore(db: Db, ids: Sequence[int], claim: int | None, state: int) -> None:
    """Claimed messages get a state back."""
    sql = f"UPDATE aq_message SET state = ?, claim = NULL WHERE id {{ids}} AND {BY_SESSION}"
    db.run(sql, (state, db.ids(ids), claim))
