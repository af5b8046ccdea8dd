"""Statements of the time manager: what time does to messages."""

from __future__ import annotations

from collections import Counter
from time import perf_counter
from typing import NamedTuple

from mgw.gateway.aq.queues import catalog_sql as catalog
from mgw.gateway.aq.queues.activity import Managed
from mgw.gateway.aq.queues.attempts_sql import MAX_RETRY_EXCEEDED, TIME_EXPIRATION, lock_unheld, move_to_exception
from mgw.gateway.aq.store.statements import Db
from mgw.gateway.aq.store.tables import PENDING, State
from mgw.gateway.aq.store.totals_sql import delete_messages

__all__ = [
    "WITH_MESSAGES",
    "Due",
    "Expired",
    "due",
    "expire_messages",
    "make_entries_ready",
    "make_messages_ready",
    "remove_retained",
    "sweep_log",
]


#: SQLite: which of the queues in a JSON array of ids have something to take: READY, an exception, a READY entry of a
#: consumer.
WITH_MESSAGES = f"""
    SELECT w.value FROM json_each(?) w
     WHERE EXISTS (SELECT 1 FROM aq_message WHERE queue_id = w.value AND state = {State.READY})
        OR EXISTS (SELECT 1 FROM aq_message WHERE queue_id = w.value AND state = {State.EXPIRED})
        OR EXISTS (SELECT 1 FROM aq_consumer c WHERE c.queue_id = w.value AND EXISTS
                   (SELECT 1 FROM aq_entry e
                     WHERE e.consumer_id = c.id AND e.state = {State.READY} AND e.queue_id = w.value))"""


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
        f"""SELECT EXISTS (SELECT 1 FROM aq_message WHERE state = {State.WAITING} AND ready_at <= ?),
                  EXISTS (SELECT 1 FROM aq_entry WHERE state = {State.WAITING} AND ready_at <= ?),
                  EXISTS (SELECT 1 FROM aq_message WHERE expires_at IS NOT NULL AND expires_at <= ?),
                  EXISTS (SELECT 1 FROM aq_dequeue_log),
                  EXISTS (SELECT 1 FROM aq_queue q WHERE q.retention_time >= 0 AND EXISTS
                          (SELECT 1 FROM aq_message m WHERE m.queue_id = q.id
                              AND m.state = {State.PROCESSED} AND m.deq_time <= ? - q.retention_time)),
                  EXISTS (SELECT 1 FROM aq_session), EXISTS (SELECT 1 FROM aq_process),
                  EXISTS (SELECT 1 FROM aq_reopened),
                  EXISTS (SELECT 1 FROM aq_consumer c
                            JOIN aq_entry e ON e.consumer_id = c.id AND e.state = {State.READY}
                           WHERE c.removed_upto IS NOT NULL AND c.is_subscriber = 0
                             AND e.message_id + 0 <= c.removed_upto)""",
        (now, now, now, now),
    )
    return Due(*map(bool, row or (False,) * 9))


def make_messages_ready(db: Db, now: float, limit: int) -> tuple[int, set[int]]:
    """Delays that are over, single-consumer queues: number of messages and their queues."""
    started = perf_counter()
    rows = db.rows(
        f"""SELECT id, queue_id FROM aq_message WHERE state = {State.WAITING} AND ready_at <= ?
             ORDER BY ready_at LIMIT ? {{lock}}""",
        (now, limit),
    )
    if rows:
        sql = f"UPDATE aq_message SET state = {State.READY} WHERE id {{ids}}"
        db.run(sql, (db.ids(number for number, _ in rows),))
    queues = Counter[int](queue_id for _, queue_id in rows)
    if rows:
        _note(db, Managed(perf_counter() - started, ready=queues))
    return len(rows), set(queues)


def make_entries_ready(db: Db, now: float, limit: int) -> tuple[int, set[int]]:
    """Delays that are over, multi-consumer queues: number of entries and their queues."""
    started = perf_counter()
    rows = db.rows(
        f"""SELECT message_id, consumer_id, queue_id FROM aq_entry WHERE state = {State.WAITING} AND ready_at <= ?
             ORDER BY ready_at LIMIT ? {{lock}}""",
        (now, limit),
    )
    if rows:
        pairs = [(message, consumer) for message, consumer, _ in rows]
        db.many(f"UPDATE aq_entry SET state = {State.READY} WHERE message_id = ? AND consumer_id = ?", pairs)
    queues = Counter[int](queue_id for _, _, queue_id in rows)
    if rows:
        _note(db, Managed(perf_counter() - started, ready=queues))
    return len(rows), set(queues)


class Expired(NamedTuple):
    """Messages of a queue that nobody took in time."""

    queue: str
    exception_queue: str  # where they are now
    messages: int


def expire_messages(
    db: Db, now: float, limit: int, after: tuple[float, int]
) -> tuple[list[Expired], set[int], tuple[float, int] | None]:
    """Messages whose time is over go to their exception queue; those that somebody holds are left for the next pass.

    Returns what was moved, the exception queues, and where to continue (None at the end).
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
    last = (0.0, 0)
    for number, queue_id, state, expires_at in rows:
        last = (expires_at, number)
        if state == State.SPLIT:
            split.setdefault(queue_id, []).append(number)
        elif state in (State.READY, State.WAITING):
            single.setdefault(queue_id, []).append(number)
    moved, consumers, targets = Counter[int](), Counter[int](), set[int]()
    expired: list[Expired] = []
    for queue_id, numbers in split.items():
        missed = lock_unheld(db, numbers)
        single[queue_id] = list(missed)
        for each in missed.values():
            consumers.update(each)
    for queue_id, ids in single.items():
        queue = catalog.find_queue_by_id(db, queue_id)
        if queue is not None and ids:
            taken = move_to_exception(db, queue, ids, TIME_EXPIRATION)
            expired += [_expired(db, queue.full_name, *each) for each in taken.items()]
            moved[queue_id] += sum(taken.values())
            targets |= set(taken)
    if moved:
        _note(db, Managed(perf_counter() - started, expired=moved, consumers=consumers))
    return expired, targets, last if len(rows) == limit else None


def _expired(db: Db, queue: str, exception_queue: int, messages: int) -> Expired:
    target = catalog.find_queue_by_id(db, exception_queue)
    return Expired(queue, target.full_name if target is not None else "", messages)


def sweep_log(db: Db, limit: int, after: int) -> tuple[int, set[int], int | None]:
    """Work off the dequeue log: multi-consumer messages that everybody consumed go, or become PROCESSED where retained.

    Returns messages finished, exception queues that got messages, and where to continue (None at the end). What nobody
    can take any more but somebody holds stays in the log for the next pass.
    """
    started = perf_counter()
    rows = db.rows("SELECT id, message_id FROM aq_dequeue_log WHERE id > ? ORDER BY id LIMIT ? {lock}", (after, limit))
    if not rows:
        return 0, set(), None
    times = Counter[int](message for _, message in rows)
    ids = list(times)
    found = db.rows(
        f"""SELECT m.id, m.queue_id, q.retention_time, MAX(e.deq_time),
                  SUM(CASE WHEN e.state IN {PENDING} THEN 1 ELSE 0 END),
                  SUM(CASE WHEN e.state = {State.UNDELIVERABLE} THEN 1 ELSE 0 END)
             FROM aq_message m JOIN aq_queue q ON q.id = m.queue_id LEFT JOIN aq_entry e ON e.message_id = m.id
            WHERE m.id {{ids}} AND m.state + 0 = {State.SPLIT} GROUP BY m.id, m.queue_id, q.retention_time""",
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
        delete_messages(db, "id {ids}", (db.ids(gone),))
    if kept:
        sql = f"UPDATE aq_message SET state = {State.PROCESSED}, deq_time = ?, expires_at = NULL WHERE id = ?"
        db.many(sql, kept)
    targets: set[int] = set()
    held: set[int] = set()
    for queue_id, numbers in blocked.items():
        queue = catalog.find_queue_by_id(db, queue_id)
        if queue is not None:
            unheld = lock_unheld(db, numbers)
            targets |= set(move_to_exception(db, queue, list(unheld), MAX_RETRY_EXCEEDED))
            held.update(number for number in numbers if number not in unheld)
            logged[queue_id] -= sum(times[number] for number in numbers if number not in unheld)
    done = [number for number, message in rows if message not in held]
    db.run("DELETE FROM aq_dequeue_log WHERE id {ids}", (db.ids(done),))
    _note(db, Managed(perf_counter() - started, logged=+logged, removed=removed))
    return len(gone) + len(kept), targets, max(number for number, _ in rows) if len(rows) == limit else None


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
        ids = db.column(
            f"""SELECT id FROM aq_message WHERE queue_id = ? AND state = {State.PROCESSED} AND deq_time <= ?
                 ORDER BY deq_time LIMIT ? {{lock}}""",
            (queue_id, now - retention, limit - number),
        )
        if not ids:
            continue
        if split:
            db.run("DELETE FROM aq_entry WHERE message_id {ids}", (db.ids(ids),))
        removed[queue_id] = delete_messages(db, "id {ids}", (db.ids(ids),))
        number += removed[queue_id]
    if removed:
        _note(db, Managed(perf_counter() - started, removed=removed))
    return number


def _note(db: Db, event: Managed) -> None:
    if db.tally is not None:
        db.tally.append(event)
