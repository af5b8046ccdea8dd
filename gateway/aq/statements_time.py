"""Statements of the time manager and of failed attempts: what time and failures do to messages."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from time import perf_counter
from typing import NamedTuple

from gateway.aq import statements_catalog as catalog
from gateway.aq import statements_messages as messages_sql
from gateway.aq.model import QueueRef
from gateway.aq.statements import Db
from gateway.aq.tables import State
from gateway.aq.tally import Managed

__all__ = [
    "HAS_MESSAGES",
    "Due",
    "due",
    "expire_messages",
    "fail",
    "in_other_hands",
    "make_entries_ready",
    "make_messages_ready",
    "remove_retained",
    "sweep_log",
]

_log = logging.getLogger(__name__)

#: Whether a queue has something to take: READY, an exception, a READY entry of one of its consumers.
HAS_MESSAGES = """
    SELECT EXISTS (SELECT 1 FROM aq_message WHERE queue_id = ? AND state = 0)
        OR EXISTS (SELECT 1 FROM aq_message WHERE queue_id = ? AND state = 3)
        OR EXISTS (SELECT 1 FROM aq_consumer c WHERE c.queue_id = ? AND EXISTS
                   (SELECT 1 FROM aq_entry e WHERE e.consumer_id = c.id AND e.state = 0 AND e.queue_id = ?))"""

TIME_EXPIRATION = "TIME_EXPIRATION"
MAX_RETRY_EXCEEDED = "MAX_RETRY_EXCEEDED"
_OPEN = "(0, 1, 4)"  # states of an entry that is neither consumed nor in somebody's hands


# -- failed attempts -------------------------------------------------------------------------------------------------


def fail(db: Db, queue: QueueRef, consumer: int, ids: Sequence[int], now: float, *, claim: int | None) -> list[int]:
    """Count a failed attempt of each message (AQ guide 12.2 §1.7, §9.10) and put it back, or move it away.

    ``claim``: the session that holds them; None: their transaction was rolled back, so they are READY or WAITING, and
    those in other hands are left alone (:func:`in_other_hands`). Returns the queues that have something to take now.
    """
    settings = catalog.queue_settings(db, queue)
    table, key, where = "aq_message", "id", "queue_id = ?"
    if consumer:
        table, key, where = "aq_entry", "message_id", "consumer_id = ?"
    owner = consumer or queue.id
    if consumer:
        catalog.drop_removed(db, consumer, claim=claim, claimed=ids)
    if claim is None:
        rows = db.rows(
            f"SELECT {key}, attempts FROM {table} WHERE {where} AND {key} {{ids}} AND state IN {_OPEN} {{lock}}",
            (owner, db.ids(ids)),
        )
    else:
        rows = db.rows(
            f"SELECT {key}, attempts FROM {table} WHERE {where} AND {key} {{ids}} AND state = 8 AND claim = ? {{lock}}",
            (owner, db.ids(ids), claim),
        )
    over = [row[0] for row in rows if row[1] + 1 > settings.max_retries]
    again = [row[0] for row in rows if row[1] + 1 <= settings.max_retries]
    touched = []
    if again:
        state = State.WAITING if settings.retry_delay > 0 else State.READY
        db.run(
            f"""UPDATE {table} SET attempts = attempts + 1, claim = NULL, state = ?, ready_at = ?
                 WHERE {where} AND {key} {{ids}}""",
            (int(state), now + settings.retry_delay, owner, db.ids(again)),
        )
        touched.append(queue.id)
    if over:
        state = State.UNDELIVERABLE if consumer else State.READY
        db.run(
            f"UPDATE {table} SET attempts = attempts + 1, claim = NULL, state = ? WHERE {where} AND {key} {{ids}}",
            (int(state), owner, db.ids(over)),
        )
        gone = over
        if consumer:  # another recipient may fail or consume at this moment; the time manager looks again
            messages_sql.log_consumption(db, over)
            gone = list(_lock_unheld(db, _blocked_for_all(db, over)))
        touched += move_to_exception(db, queue, gone, MAX_RETRY_EXCEEDED)
    return touched


def in_other_hands(db: Db, queue: QueueRef, consumer: int, ids: Sequence[int]) -> list[int]:
    """Those messages that somebody else has taken and not yet consumed: their attempts cannot be counted now."""
    table, key, where = "aq_message", "id", "queue_id = ?"
    if consumer:
        table, key, where = "aq_entry", "message_id", "consumer_id = ?"
    params = (consumer or queue.id, db.ids(ids))
    chosen = f"SELECT {key} FROM {table} WHERE {where} AND {key} {{ids}}"
    free = {row[0] for row in db.rows(f"{chosen} AND state IN {_OPEN} {{lock}}", params)}
    return [row[0] for row in db.rows(f"{chosen} AND state IN (0, 1, 4, 8)", params) if row[0] not in free]


def _blocked_for_all(db: Db, ids: Sequence[int]) -> list[int]:
    """Those messages that every recipient who has not consumed them is blocked from (AQ guide 12.2 §1.7)."""
    rows = db.rows(
        """SELECT message_id FROM aq_entry WHERE message_id {ids} GROUP BY message_id
           HAVING SUM(CASE WHEN state IN (0, 1, 8) THEN 1 ELSE 0 END) = 0
              AND SUM(CASE WHEN state = 4 THEN 1 ELSE 0 END) > 0""",
        (db.ids(ids),),
    )
    return [row[0] for row in rows]


def move_to_exception(db: Db, queue: QueueRef, ids: Sequence[int], reason: str) -> list[int]:
    """Messages become EXPIRED in their exception queue (AQ guide 12.2 §1.7, §1.8, §10.2); returns those queues.

    Their rows are locked, entries and all: nobody is waited for. The queue a message names is looked up now; if it is
    missing or cannot hold the message, the default one takes it and a warning is logged. Entries of consumers that took
    the message keep their history.
    """
    if not ids:
        return []
    named: dict[str | None, list[int]] = {}
    for number, name in db.rows("SELECT id, exception_queue FROM aq_message WHERE id {ids}", (db.ids(ids),)):
        named.setdefault(name, []).append(number)
    targets = []
    for name, numbers in named.items():
        target = None
        if name is not None:
            target = catalog.names_exception_queue(db, name, queue)
            if target is None:
                _log.warning(
                    "exception queue %s named by %d message(s) of queue %s does not exist or is of another kind; "
                    "the default exception queue of %s takes them",
                    name,
                    len(numbers),
                    queue.full_name,
                    queue.queue_table,
                )
        kept_name = name if target else None
        target = target or catalog.default_exception_queue(db, queue)
        if target is None:  # only a damaged hub has none; leave the messages where they are, visible
            _log.error("queue table %s has no exception queue", queue.queue_table)
            continue
        db.run(
            f"""UPDATE aq_message SET queue_id = ?, state = {int(State.EXPIRED)}, original_queue_id = ?,
                       expiration_reason = ?, exception_queue = ?, claim = NULL, expires_at = NULL WHERE id {{ids}}""",
            (target.id, queue.id, reason, kept_name, db.ids(numbers)),
        )
        if queue.multiple_consumers:
            db.run(
                f"UPDATE aq_entry SET state = {int(State.EXPIRED)}, claim = NULL"
                f" WHERE message_id {{ids}} AND state IN {_OPEN}",
                (db.ids(numbers),),
            )
        targets.append(target.id)
    return targets


# -- what time does --------------------------------------------------------------------------------------------------


class Due(NamedTuple):
    """What the time manager has to do."""

    messages: bool  # delays that are over, single-consumer queues
    entries: bool  # delays that are over, multi-consumer queues
    expired: bool
    log: bool  # consumed multi-consumer messages
    retained: bool
    sessions: bool  # sessions hold claims; some may be dead
    processes: bool  # processes have counted what they did; some may have ended
    reopened: bool  # notes about messages that became READY again; some may be out of date
    left_over: bool  # entries of consumers that ceased to be subscribers before these were committed or given back


def due(db: Db, now: float) -> Due:
    """What there is to do; cheap, and without a write lock."""
    row = db.row(
        """SELECT EXISTS (SELECT 1 FROM aq_message WHERE state = 1 AND ready_at <= ?),
                  EXISTS (SELECT 1 FROM aq_entry WHERE state = 1 AND ready_at <= ?),
                  EXISTS (SELECT 1 FROM aq_message WHERE expires_at IS NOT NULL AND expires_at <= ?),
                  EXISTS (SELECT 1 FROM aq_dequeue_log),
                  EXISTS (SELECT 1 FROM aq_queue q WHERE q.retention_time >= 0 AND EXISTS
                          (SELECT 1 FROM aq_message m
                            WHERE m.queue_id = q.id AND m.state = 2 AND m.deq_time <= ? - q.retention_time)),
                  EXISTS (SELECT 1 FROM aq_session), EXISTS (SELECT 1 FROM aq_process),
                  EXISTS (SELECT 1 FROM aq_reopened),
                  EXISTS (SELECT 1 FROM aq_consumer c JOIN aq_entry e ON e.consumer_id = c.id AND e.state = 0
                           WHERE c.removed_upto IS NOT NULL AND c.is_subscriber = 0
                             AND e.message_id + 0 <= c.removed_upto)""",
        (now, now, now, now),
    )
    return Due(*map(bool, row or (False,) * 9))


def make_messages_ready(db: Db, now: float, limit: int) -> tuple[int, set[int]]:
    """Delays that are over, single-consumer queues: number of messages and their queues."""
    started = perf_counter()
    rows = db.rows(
        "SELECT id, queue_id FROM aq_message WHERE state = 1 AND ready_at <= ? ORDER BY ready_at LIMIT ? {lock}",
        (now, limit),
    )
    if rows:
        db.run("UPDATE aq_message SET state = 0 WHERE id {ids}", (db.ids(row[0] for row in rows),))
        _note(db, Managed(perf_counter() - started, ready=Counter(row[1] for row in rows)))
    return len(rows), {row[1] for row in rows}


def make_entries_ready(db: Db, now: float, limit: int) -> tuple[int, set[int]]:
    """Delays that are over, multi-consumer queues: number of entries and their queues."""
    started = perf_counter()
    rows = db.rows(
        """SELECT message_id, consumer_id, queue_id FROM aq_entry WHERE state = 1 AND ready_at <= ?
            ORDER BY ready_at LIMIT ? {lock}""",
        (now, limit),
    )
    if rows:
        pairs = [(row[0], row[1]) for row in rows]
        db.many("UPDATE aq_entry SET state = 0 WHERE message_id = ? AND consumer_id = ?", pairs)
        _note(db, Managed(perf_counter() - started, ready=Counter(row[2] for row in rows)))
    return len(rows), {row[2] for row in rows}


def expire_messages(
    db: Db, now: float, limit: int, after: tuple[float, int]
) -> tuple[int, set[int], tuple[float, int] | None]:
    """Messages whose time is over go to their exception queue; those in somebody's hands are left for the next pass.

    Returns the number moved, the exception queues, and where to go on (None at the end).
    """
    started = perf_counter()
    rows = db.rows(
        """SELECT id, queue_id, state, expires_at FROM aq_message
            WHERE expires_at IS NOT NULL AND expires_at <= ? AND (expires_at, id) > (?, ?)
            ORDER BY expires_at, id LIMIT ? {lock}""",
        (now, *after, limit),
    )
    single: dict[int, list[int]] = {}
    split: dict[int, list[int]] = {}
    for number, queue_id, state, _ in rows:
        if state == State.SPLIT:
            split.setdefault(queue_id, []).append(number)
        elif state in (State.READY, State.WAITING):
            single.setdefault(queue_id, []).append(number)
    moved, targets = Counter[int](), set()
    consumers = Counter[int]()
    for queue_id, numbers in split.items():
        missed = _lock_unheld(db, numbers)
        single[queue_id] = list(missed)
        for each in missed.values():
            consumers.update(each)
    for queue_id, ids in single.items():
        queue = catalog.find_queue_by_id(db, queue_id)
        if queue is not None and ids:
            targets |= set(move_to_exception(db, queue, ids, TIME_EXPIRATION))
            moved[queue_id] += len(ids)
    if moved:
        _note(db, Managed(perf_counter() - started, expired=moved, consumers=consumers))
    last = (rows[-1][3], rows[-1][0]) if len(rows) == limit else None
    return moved.total(), targets, last


def _lock_unheld(db: Db, ids: Sequence[int]) -> dict[int, list[int]]:
    """Messages that nobody holds, with the recipients that have not taken them (AQ guide 12.2 §1.7); locked.

    Others are left out and not waited for: whoever holds one may do so for as long as he likes.
    """
    if not ids:
        return {}
    if db.postgresql:
        ids = [row[0] for row in db.rows("SELECT id FROM aq_message WHERE id {ids} {lock}", (db.ids(ids),))]
    total: dict[int, int] = dict(
        db.rows(
            f"""SELECT message_id, COUNT(*) FROM aq_entry WHERE message_id {{ids}} AND state IN {_OPEN[:-1]}, 8)
                 GROUP BY message_id""",
            (db.ids(ids),),
        )
    )
    free: dict[int, list[int]] = {}
    for number, consumer in db.rows(
        f"SELECT message_id, consumer_id FROM aq_entry WHERE message_id {{ids}} AND state IN {_OPEN} {{lock}}",
        (db.ids(ids),),
    ):
        free.setdefault(number, []).append(consumer)
    return {number: free[number] for number in ids if number in free and len(free[number]) == total.get(number)}


def sweep_log(db: Db, limit: int, after: int) -> tuple[int, set[int], int | None]:
    """Work off the dequeue log: multi-consumer messages that everybody consumed go, or become PROCESSED where retained.

    Returns messages finished, exception queues that got messages, and where to go on (None at the end). What nobody can
    take any more but somebody holds stays in the log for the next pass.
    """
    started = perf_counter()
    rows = db.rows("SELECT id, message_id FROM aq_dequeue_log WHERE id > ? ORDER BY id LIMIT ? {lock}", (after, limit))
    if not rows:
        return 0, set(), None
    times = Counter[int](row[1] for row in rows)
    ids = list(times)
    found = db.rows(
        """SELECT m.id, m.queue_id, q.retention_time, MAX(e.deq_time),
                  SUM(CASE WHEN e.state IN (0, 1, 8) THEN 1 ELSE 0 END),
                  SUM(CASE WHEN e.state = 4 THEN 1 ELSE 0 END)
             FROM aq_message m JOIN aq_queue q ON q.id = m.queue_id LEFT JOIN aq_entry e ON e.message_id = m.id
            WHERE m.id {ids} AND m.state = 9 GROUP BY m.id, m.queue_id, q.retention_time""",
        (db.ids(ids),),
    )
    gone: list[int] = []
    kept: list[tuple[float, int]] = []
    blocked: dict[int, list[int]] = {}
    removed, logged = Counter[int](), Counter[int]()
    for number, queue_id, retention, last, pending, stuck in found:
        logged[queue_id] += times[number]
        if pending:
            continue
        if stuck:
            blocked.setdefault(queue_id, []).append(number)
        elif retention and last is not None:
            kept.append((last, number))
        else:
            gone.append(number)
            removed[queue_id] += 1
    if gone:
        db.run("DELETE FROM aq_entry WHERE message_id {ids}", (db.ids(gone),))
        db.run("DELETE FROM aq_message WHERE id {ids}", (db.ids(gone),))
    if kept:
        db.many("UPDATE aq_message SET state = 2, deq_time = ?, expires_at = NULL WHERE id = ?", kept)
    targets: set[int] = set()
    held: set[int] = set()
    for queue_id, numbers in blocked.items():
        queue = catalog.find_queue_by_id(db, queue_id)
        if queue is not None:
            unheld = _lock_unheld(db, numbers)
            targets |= set(move_to_exception(db, queue, list(unheld), MAX_RETRY_EXCEEDED))
            held.update(number for number in numbers if number not in unheld)
            logged[queue_id] -= sum(times[number] for number in numbers if number not in unheld)
    db.run("DELETE FROM aq_dequeue_log WHERE id {ids}", (db.ids(row[0] for row in rows if row[1] not in held),))
    _note(db, Managed(perf_counter() - started, logged=+logged, removed=removed))
    return len(gone) + len(kept), targets, rows[-1][0] if len(rows) == limit else None


def remove_retained(db: Db, now: float, limit: int) -> int:
    """PROCESSED messages whose retention is over go for good; returns how many."""
    started = perf_counter()
    number, removed = 0, Counter[int]()
    for queue_id, retention, split in db.rows(
        """SELECT q.id, q.retention_time, t.multiple_consumers FROM aq_queue q
             JOIN aq_queue_table t ON t.id = q.queue_table_id WHERE q.retention_time >= 0"""
    ):
        if number >= limit:
            break
        rows = db.rows(
            """SELECT id FROM aq_message WHERE queue_id = ? AND state = 2 AND deq_time <= ?
                ORDER BY deq_time LIMIT ? {lock}""",
            (queue_id, now - retention, limit - number),
        )
        ids = [row[0] for row in rows]
        if not ids:
            continue
        if split:
            db.run("DELETE FROM aq_entry WHERE message_id {ids}", (db.ids(ids),))
        removed[queue_id] = db.run("DELETE FROM aq_message WHERE id {ids}", (db.ids(ids),))
        number += removed[queue_id]
    if removed:
        _note(db, Managed(perf_counter() - started, removed=removed))
    return number


def _note(db: Db, event: Managed) -> None:
    if db.tally is not None:
        db.tally.append(event)
