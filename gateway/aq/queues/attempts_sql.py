"""Statements on failed attempts, and on the way to the exception queue."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from mgw.gateway.aq.model import QueueRef
from mgw.gateway.aq.queues import catalog_sql as catalog
from mgw.gateway.aq.queues import consumers_sql, messages_sql
from mgw.gateway.aq.store.statements import Db
from mgw.gateway.aq.store.tables import LEFT, OPEN, PENDING, State

__all__ = ["MAX_RETRY_EXCEEDED", "TIME_EXPIRATION", "fail", "in_other_hands", "lock_unheld", "move_to_exception"]

_log = logging.getLogger(__name__)
TIME_EXPIRATION = "TIME_EXPIRATION"
MAX_RETRY_EXCEEDED = "MAX_RETRY_EXCEEDED"


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
        consumers_sql.drop_removed(db, consumer, claim=claim, claimed=ids)
    if claim is None:
        rows = db.rows(
            f"SELECT {key}, attempts FROM {table} WHERE {where} AND {key} {{ids}} AND state IN {OPEN} {{lock}}",
            (owner, db.ids(ids)),
        )
    else:
        rows = db.rows(
            f"SELECT {key}, attempts FROM {table}"
            f" WHERE {where} AND {key} {{ids}} AND {messages_sql.BY_SESSION} {{lock}}",
            (owner, db.ids(ids), claim),
        )
    over = [number for number, attempts in rows if attempts + 1 > settings.max_retries]
    again = [number for number, attempts in rows if attempts + 1 <= settings.max_retries]
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
            gone = list(lock_unheld(db, _blocked_for_all(db, over)))
        touched += move_to_exception(db, queue, gone, MAX_RETRY_EXCEEDED)
    return touched


def in_other_hands(db: Db, queue: QueueRef, consumer: int, ids: Sequence[int]) -> list[int]:
    """Those messages that somebody else has taken and not yet consumed: their attempts cannot be counted now."""
    table, key, where = "aq_message", "id", "queue_id = ?"
    if consumer:
        table, key, where = "aq_entry", "message_id", "consumer_id = ?"
    params = (consumer or queue.id, db.ids(ids))
    chosen = f"SELECT {key} FROM {table} WHERE {where} AND {key} {{ids}}"
    free = set(db.column(f"{chosen} AND state IN {OPEN} {{lock}}", params))
    return [number for number in db.column(f"{chosen} AND state IN {LEFT}", params) if number not in free]


def _blocked_for_all(db: Db, ids: Sequence[int]) -> list[int]:
    """Those messages that every recipient who has not consumed them is blocked from (AQ guide 12.2 §1.7)."""
    return db.column(
        f"""SELECT message_id FROM aq_entry WHERE message_id {{ids}} GROUP BY message_id
            HAVING SUM(CASE WHEN state IN {PENDING} THEN 1 ELSE 0 END) = 0
               AND SUM(CASE WHEN state = {State.UNDELIVERABLE} THEN 1 ELSE 0 END) > 0""",
        (db.ids(ids),),
    )


def move_to_exception(db: Db, queue: QueueRef, ids: Sequence[int], reason: str) -> dict[int, int]:
    """Messages become EXPIRED in their exception queue (AQ guide 12.2 §1.7, §1.8, §10.2).

    Returns the ids of those queues and how many messages each took.

    Their rows are locked, entries and all: nobody is waited for. The queue a message names is looked up now; if it is
    missing or cannot hold the message, the default one takes it and a warning is logged. Entries of consumers that took
    the message keep their history.
    """
    if not ids:
        return {}
    named: dict[str | None, list[int]] = {}
    for number, name in db.rows("SELECT id, exception_queue FROM aq_message WHERE id {ids}", (db.ids(ids),)):
        named.setdefault(name, []).append(number)
    targets: dict[int, int] = {}
    for name, numbers in named.items():
        target = None
        if name is not None:
            target = catalog.names_exception_queue(db, name, queue)
            if target is None:
                _log.warning(
                    "exception queue %s named by %d message(s) of queue %s does not exist or is of another kind; they "
                    "go to the default exception queue of %s",
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
                f" WHERE message_id {{ids}} AND state IN {OPEN}",
                (db.ids(numbers),),
            )
        targets[target.id] = targets.get(target.id, 0) + len(numbers)
    return targets


def lock_unheld(db: Db, ids: Sequence[int]) -> dict[int, list[int]]:
    """Messages that nobody holds, with the recipients that have not taken them (AQ guide 12.2 §1.7); locked.

    Others are left out and not waited for: a transaction may hold one for any length of time.
    """
    if not ids:
        return {}
    if db.postgresql:
        ids = db.column("SELECT id FROM aq_message WHERE id {ids} {lock}", (db.ids(ids),))
    total: dict[int, int] = dict(
        db.rows(
            f"""SELECT message_id, COUNT(*) FROM aq_entry WHERE message_id {{ids}} AND state IN {LEFT}
                 GROUP BY message_id""",
            (db.ids(ids),),
        )
    )
    free: dict[int, list[int]] = {}
    for number, consumer in db.rows(
        f"SELECT message_id, consumer_id FROM aq_entry WHERE message_id {{ids}} AND state IN {OPEN} {{lock}}",
        (db.ids(ids),),
    ):
        free.setdefault(number, []).append(consumer)
    return {number: free[number] for number in ids if number in free and len(free[number]) == total.get(number)}
