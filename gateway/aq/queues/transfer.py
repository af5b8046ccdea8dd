"""What a route needs of the hub in addition to sessions: put, claim, complete, release, move.

Every verb runs in the transaction of the connection it is given and costs statements per batch, never per message.
After the commit the caller tells ``hub.notifier`` which queues got messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from time import perf_counter

import sqlalchemy as sa

from mgw.gateway.aq.errors import NotEnabledForDequeue
from mgw.gateway.aq.model import Agent, Claimed, Counts, PutResult, QueueRef, QueueType
from mgw.gateway.aq.names import DEFAULT_SCHEMA
from mgw.gateway.aq.payloads import forms as payloads
from mgw.gateway.aq.queues import catalog_sql as catalog
from mgw.gateway.aq.queues import consumers_sql, listen_sql, messages_sql
from mgw.gateway.aq.queues.activity import HandedOut
from mgw.gateway.aq.queues.codec import decode, encode, msgid
from mgw.gateway.aq.queues.consuming import consume
from mgw.gateway.aq.queues.group_search import claim_groups
from mgw.gateway.aq.queues.intake import address, prepare, store
from mgw.gateway.aq.queues.messages_sql import Finisher
from mgw.gateway.aq.store.columns import ENQ_TIME, ID
from mgw.gateway.aq.store.connection_state import hub_clock
from mgw.gateway.aq.store.schema_part import plans_view
from mgw.gateway.aq.store.statements import Db, Row
from mgw.gateway.aq.store.tables import PENDING, State
from mgw.transforms.errors import GatewayError
from mgw.transforms.message import Message

__all__ = [
    "Claimed",
    "PutResult",
    "QueueRef",
    "at_rest",
    "backlog",
    "check",
    "claim",
    "claim_numbers",
    "complete",
    "load",
    "move",
    "put",
    "release",
    "resolve",
    "take_exceptions",
    "unfinished",
]

_BARE_ENQ_TIME = messages_sql.BARE.at("enq_time")
_SET_ASIDE = f"SELECT id FROM aq_message WHERE queue_id = ? AND state = {State.CLAIMED} AND claim IS NULL"
_SET_ASIDE_FOR = f"SELECT message_id FROM aq_entry WHERE consumer_id = ? AND state = {State.CLAIMED} AND claim IS NULL"
_EXPIRED = f"SELECT id FROM aq_message WHERE queue_id = ? AND id {{ids}} AND state + 0 = {State.EXPIRED}"
_PARTS = "SELECT name FROM aq_part"
_PLANNED = "SELECT message_id FROM {} WHERE queue_id = ?"
_PRESENT = "SELECT id FROM aq_message WHERE id {ids}"
_UNFINISHED = f"state IN {PENDING}"
MISSING = 415  # number of the error: messages of a batch are missing (AQ guide 12.2 §21.4)


def resolve(conn: sa.Connection, name: str, schema: str = DEFAULT_SCHEMA) -> QueueRef:
    """The queue called ``[schema.]name``; keep it, it changes only when the queue is dropped or its table altered.

    Raises:
        AqError: 25205 no such queue.
    """
    return catalog.require_queue(Db(conn), name, schema)


# -- in --------------------------------------------------------------------------------------------------------------


def put(
    conn: sa.Connection,
    queue: QueueRef,
    messages: Sequence[Message],
    *,
    discard_unrouted: bool = False,
    now: float | None = None,
    user: str | None = None,
    recipients: Sequence[Agent] = (),
) -> PutResult:
    """Store a batch, in order.

    On a multi-consumer queue every message goes to the subscribers whose rule is true for it (AQ guide 12.2 §1.3.4).

    Args:
        discard_unrouted: leave out messages for which no subscriber's rule is true and list them in the result,
            instead of refusing them. A queue without any subscriber refuses all the same.
        now: the enqueue time; default: the hub's clock.
        user: who enqueues, to be recorded; what that user may do is for the caller to check.
        recipients: consumers of every message, in place of the subscribers (multi-consumer queues only).

    Raises:
        AqError: 25207 the queue is not enabled for enqueue, 25206 it is an exception queue, 25205 it is gone.
        MessageRefused: one message is the reason (its ``index``): 25215 payload type or size, 24033 no recipient, a
            subscriber's rule that failed on it.
    """
    if not messages:
        return PutResult([], [])
    db = Db(conn)
    prepared = prepare(
        db,
        queue,
        messages,
        hub_clock(conn).now() if now is None else now,
        discard_unrouted=discard_unrouted,
        user=user,
        recipients=recipients,
    )
    store(db, prepared)
    return PutResult(prepared.msgids, prepared.discarded)


def check(conn: sa.Connection, queue: QueueRef, messages: Sequence[Message]) -> list[Row]:
    """Refuse what :func:`put` would refuse of the messages now; nothing is stored, and no message id is used up.

    Returns their rows as they would be stored, with numbers that mean nothing; columns: see
    :data:`mgw.gateway.aq.store.columns.NEW_MESSAGE` and ``NEW_TYPED_MESSAGE``.

    Raises:
        MessageRefused: as :func:`put`.
    """
    db = Db(conn)
    now = hub_clock(conn).now()
    values = payloads.encoded(db, queue, messages) if queue.payload_type in payloads.TYPED else ()
    rows = encode(queue, messages, range(1, len(messages) + 1), now, None, None, values)
    if queue.multiple_consumers:
        address(db, queue, payloads.as_stored(messages, values) if values else messages, rows, now)
    return rows


# -- out -------------------------------------------------------------------------------------------------------------


def check_dequeue(db: Db, queue: QueueRef, *, browse: bool = False) -> catalog.QueueSettings:
    """The settings of a queue that is enabled for dequeue (25226, 25205). ``browse``: nothing is going to be taken."""
    settings = catalog.queue_settings(db, queue, hold=None if browse else "dequeue")
    if not settings.dequeue_enabled:
        raise NotEnabledForDequeue(
            f"queue {queue.full_name} is not enabled for dequeue",
            cause="it was not started, or stopped",
            cure=f"start it: mgw aq start {queue.full_name} (in Python start_queue)",
        )
    return settings


def at_rest(conn: sa.Connection) -> frozenset[int]:
    """Ids of the queues in which :func:`claim` finds nothing and meets no error; one cheap statement for all."""
    return listen_sql.queues_at_rest(Db(conn))


def claim(conn: sa.Connection, queue: QueueRef, consumer: str | None, limit: int) -> list[Claimed]:
    """Take up to ``limit`` READY messages for a durable plan, in dequeue order; never waits for another consumer.

    ``consumer`` is None on a single-consumer queue. The messages stay CLAIMED until complete or release. Transaction
    groups are taken whole, so the last one may bring more than ``limit``. What has expired is left to the time manager.

    Raises:
        AqError: 25226 not enabled for dequeue, 25231 and 25256 consumer missing or not allowed, 24035 unknown.
    """
    return _claimed(_claim(conn, queue, consumer, limit), queue)


def claim_numbers(conn: sa.Connection, queue: QueueRef, consumer: str | None, limit: int) -> list[int]:
    """As :func:`claim`, for a plan that only has to know which messages are in it: their internal numbers, in order."""
    return [row[ID] for row in _claim(conn, queue, consumer, limit, bare=True)]


def _claim(conn: sa.Connection, queue: QueueRef, consumer: str | None, limit: int, *, bare: bool = False) -> list[Row]:
    started = perf_counter()
    db = Db(conn)
    settings = check_dequeue(db, queue)
    target = consumers_sql.require_consumer(db, queue, consumer)
    now = hub_clock(conn).now()
    enq_time = ENQ_TIME
    if queue.grouped and queue.queue_type is QueueType.NORMAL:
        rows = claim_groups(db, queue, target, limit, now)
    else:
        rows = messages_sql.claim_ready(db, queue, target, limit, now, settings.reopened, bare=bare)
        enq_time = _BARE_ENQ_TIME if bare else ENQ_TIME
    if rows and db.tally is not None:
        seconds, latency = perf_counter() - started, max(now - rows[-1][enq_time], 0.0)
        db.tally.append(HandedOut(queue.id, target, now, len(rows), False, seconds, latency))
    return rows


def _claimed(rows: list[Row], queue: QueueRef) -> list[Claimed]:
    messages = decode(rows, queue.hub_id)
    return [Claimed(row[ID], message) for row, message in zip(rows, messages, strict=True)]


def load(conn: sa.Connection, queue: QueueRef, consumer: str | None, ids: Sequence[int]) -> list[Claimed]:
    """Messages claimed earlier, again, in the order of ``ids``; those no longer claimed are left out."""
    db = Db(conn)
    return _claimed(
        messages_sql.load_claimed(db, queue, consumers_sql.require_consumer(db, queue, consumer), ids), queue
    )


def complete(
    conn: sa.Connection, queue: QueueRef, consumer: str | None, ids: Sequence[int], *, now: float | None = None
) -> int:
    """Claimed messages are consumed: gone, or PROCESSED where the queue retains them.

    Returns:
        How many ``ids`` there are: it is all of them or none.

    Raises:
        GatewayError: [415] some are not claimed any more; roll the transaction back, and nothing happened. On
            PostgreSQL the next statement raises it, at the latest the commit.
    """
    if not ids:
        return 0
    db = Db(conn)
    settings = catalog.queue_settings(db, queue)
    by = Finisher(hub_clock(conn).now() if now is None else now)
    target = consumers_sql.require_consumer(db, queue, consumer)

    def check(number: int) -> None:
        if number != len(ids):
            raise GatewayError(
                f"{len(ids) - number} of {len(ids)} messages planned from queue {queue.full_name} are missing",
                cause="somebody purged the queue, or dequeued or released them while they were in flight",
                cure="find out who did, then run mgw agents cleanup RESET_SUB_MISSING_MESSAGE with the job's name",
                number=MISSING,
            )

    messages_sql.finish_all(
        db, queue, target, ids, by, retention=settings.retention_time, held=messages_sql.BY_PLAN, check=check
    )
    return len(ids)


def release(conn: sa.Connection, queue: QueueRef, consumer: str | None, ids: Sequence[int]) -> int:
    """Claimed messages become READY again where they were; returns how many were claimed."""
    if not ids:
        return 0
    db = Db(conn)
    number = messages_sql.release(db, queue, consumers_sql.require_consumer(db, queue, consumer), ids)
    if number:
        db.notify((queue.id,))
    return number


def move(
    conn: sa.Connection,
    queue: QueueRef,
    consumer: str | None,
    moved: Iterable[Claimed],
    exception_queue: QueueRef,
    *,
    now: float | None = None,
) -> PutResult:
    """Claimed messages go to a normal queue that serves a job as exception queue, and are complete here.

    ``moved`` carries the messages as they are to be stored (with the reason among their headers); they never expire
    there, and ``original_msgid`` says what they were.

    Raises:
        GatewayError: as :func:`complete`.
        AqError, MessageRefused: as :func:`put`.
    """
    taken = list(moved)
    if not taken:
        return PutResult([], [])
    stored = [
        replace(
            message,
            expiration=None,
            delay=0,
            original_msgid=message.original_msgid or msgid(queue.hub_id, number),
        )
        for number, message in taken
    ]
    complete(conn, queue, consumer, [number for number, _ in taken], now=now)
    return put(conn, exception_queue, stored, now=now)


def take_exceptions(conn: sa.Connection, queue: QueueRef, ids: Sequence[int]) -> set[int]:
    """Remove messages from an exception queue for good; returns the numbers of those that were there.

    Raises:
        AqError: 25226 the queue is not enabled for dequeue; 25205 it is gone.
    """
    if not ids:
        return set()
    db = Db(conn)
    check_dequeue(db, queue)
    wait = " ORDER BY id FOR UPDATE" if db.postgresql else ""  # whoever has one may still give it back
    there = {number for (number,) in db.rows(_EXPIRED + wait, (queue.id, db.ids(ids)))}
    consume(db, queue, 0, sorted(there), Finisher(hub_clock(conn).now()), f"state = {State.EXPIRED}")
    return there


def backlog(conn: sa.Connection, queue: QueueRef, consumer: str | None = None) -> Counts:
    """Messages of the queue (of one consumer, on a multi-consumer queue) by state, and the oldest READY one."""
    db = Db(conn)
    target = consumers_sql.require_consumer(db, queue, consumer) if consumer is not None else 0
    return messages_sql.counts(db, queue, target)


def set_aside(conn: sa.Connection, queue: QueueRef, consumer: str | None) -> set[int]:
    """Internal numbers of the messages that :func:`claim` set aside and nobody has completed or released."""
    db = Db(conn)
    if consumer is None:
        rows = db.rows(_SET_ASIDE, (queue.id,))
    else:
        rows = db.rows(_SET_ASIDE_FOR, (consumers_sql.require_consumer(db, queue, consumer),))
    return {number for (number,) in rows}


def set_aside_by_parts(conn: sa.Connection, queue: QueueRef) -> set[int]:
    """Internal numbers of the queue's messages that are in plans of other parts of the hub, such as the pipelines.

    See :func:`mgw.gateway.aq.store.schema_part.plans_view`.
    """
    db = Db(conn)
    known = sa.inspect(conn)
    views = [view for view in map(plans_view, db.column(_PARTS)) if known.has_table(view)]
    return {number for view in views for number in db.column(_PLANNED.format(view), (queue.id,))}


def unfinished(conn: sa.Connection, queue: QueueRef, consumer: str | None, ids: Sequence[int]) -> set[int]:
    """Those of the internal numbers whose messages wait to be consumed, or are claimed."""
    db = Db(conn)
    if consumer is None:
        sql = f"SELECT id FROM aq_message WHERE queue_id = ? AND id {{ids}} AND {_UNFINISHED}"
        return set(db.column(sql, (queue.id, db.ids(ids))))
    sql = f"SELECT message_id FROM aq_entry WHERE consumer_id = ? AND message_id {{ids}} AND {_UNFINISHED}"
    return set(db.column(sql, (consumers_sql.require_consumer(db, queue, consumer), db.ids(ids))))


def present(conn: sa.Connection, ids: Sequence[int]) -> set[int]:
    """Those of the internal numbers whose messages are in the hub, in whatever state."""
    db = Db(conn)
    return {number for (number,) in db.rows(_PRESENT, (db.ids(ids),))}
