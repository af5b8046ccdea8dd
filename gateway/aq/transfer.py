"""What a route needs of the hub beside sessions: put, claim, complete, release, move.

Every verb runs in the transaction of the connection it is given and costs statements per batch, never per message.
After the commit the caller tells ``hub.notifier`` which queues got messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from time import perf_counter
from typing import NamedTuple

import sqlalchemy as sa

from gateway.aq import payloads
from gateway.aq import statements_catalog as catalog
from gateway.aq import statements_messages as messages_sql
from gateway.aq.codec import ENQ_TIME, MESSAGE_COLUMNS, decode, encode, msgid
from gateway.aq.deviation import Deviation
from gateway.aq.errors import (
    AgentAddressInvalid,
    DuplicateRecipient,
    ExceptionQueueEnqueue,
    MessageRefused,
    NoRecipients,
    NotEnabledForDequeue,
    NotEnabledForEnqueue,
    RecipientInvalid,
    TooManyRecipients,
)
from gateway.aq.group_search import claim_groups
from gateway.aq.grouping import in_group, place
from gateway.aq.hub import hub_clock
from gateway.aq.model import Agent, Claimed, Counts, PutResult, QueueRef, QueueType
from gateway.aq.names import DEFAULT_SCHEMA, agent_name
from gateway.aq.statements import Db, Row
from gateway.aq.statements_messages import Finisher
from gateway.aq.tables import State
from gateway.aq.tally import HandedOut, enqueued
from transforms.errors import GatewayError
from transforms.message import Message

__all__ = [
    "Claimed",
    "Enrol",
    "Prepared",
    "PutResult",
    "QueueRef",
    "address",
    "backlog",
    "claim",
    "complete",
    "load",
    "move",
    "prepare",
    "put",
    "release",
    "resolve",
    "store",
]

Enrol = Callable[[str], int]  # name of a consumer -> its id
_Arriving = tuple[Message, Row]
MAX_RECIPIENTS = 1024
_ORIGINAL = MESSAGE_COLUMNS.index("original_msgid")
_SET_ASIDE = "SELECT id FROM aq_message WHERE queue_id = ? AND state = 8 AND claim IS NULL"
_SET_ASIDE_FOR = "SELECT message_id FROM aq_entry WHERE consumer_id = ? AND state = 8 AND claim IS NULL"
_PRESENT = "SELECT id FROM aq_message WHERE id {ids}"
MISSING = 415  # number of the error: messages of a batch are missing (AQ guide 12.2 §21.4)


def resolve(conn: sa.Connection, name: str, schema: str = DEFAULT_SCHEMA) -> QueueRef:
    """The queue called ``[schema.]name``; keep it, it changes only when the queue is dropped or its table altered.

    Raises:
        AqError: 25205 no such queue.
    """
    return catalog.require_queue(Db(conn), name, schema)


# -- in --------------------------------------------------------------------------------------------------------------


class Prepared(NamedTuple):
    """Messages checked, numbered and addressed, ready to be stored."""

    queue: QueueRef
    rows: list[Row]
    entries: list[Row]
    msgids: list[bytes | None]
    discarded: list[int]
    ready: bool  # some can be taken at once: waiters are to be woken
    seconds: float = 0  # what it took to prepare them
    rule_seconds: float = 0  # of that: the subscribers' rules
    deviation: Deviation | None = None  # they go ahead of others


def put(
    conn: sa.Connection,
    queue: QueueRef,
    messages: Sequence[Message],
    *,
    discard_unrouted: bool = False,
    now: float | None = None,
) -> PutResult:
    """Store a batch, in order.

    On a multi-consumer queue every message goes to the subscribers whose rule is true for it (AQ guide 12.2 §1.3.4).

    Args:
        discard_unrouted: leave out messages without a recipient and list them in the result, instead of refusing.
        now: the enqueue time; default: the hub's clock.

    Raises:
        AqError: 25207 the queue is not enabled for enqueue, 25206 it is an exception queue, 25205 it is gone.
        MessageRefused: one message is the reason (its ``index``): 25215 payload type or size, 24033 no recipient, a
            subscriber's rule that failed on it.
    """
    if not messages:
        return PutResult([], [])
    db = Db(conn)
    prepared = prepare(
        db, queue, messages, hub_clock(conn).now() if now is None else now, discard_unrouted=discard_unrouted
    )
    store(db, prepared)
    return PutResult(prepared.msgids, prepared.discarded)


def prepare(
    db: Db,
    queue: QueueRef,
    messages: Sequence[Message],
    now: float,
    *,
    discard_unrouted: bool = False,
) -> Prepared:
    """Everything of :func:`put` but the storing of messages; takes fresh message ids."""
    started = perf_counter()
    check_enqueue(db, queue)
    messages, rows = numbered(db, queue, messages, now)
    prepared = address(db, queue, messages, rows, now, discard_unrouted=discard_unrouted)
    return prepared._replace(seconds=perf_counter() - started)


def numbered(
    db: Db,
    queue: QueueRef,
    messages: Sequence[Message],
    now: float,
    *,
    user: str | None = None,
    txn: str | None = None,
    system: bool = True,
) -> tuple[Sequence[Message], list[Row]]:
    """Messages as they are stored, and their rows with fresh ids; see :func:`gateway.aq.codec.encode`."""
    values = payloads.encoded(db, queue, messages) if queue.payload_type in payloads.TYPED else ()
    told = queue.id if any(not message.delay for message in messages) else None
    rows = encode(queue, messages, db.message_ids(len(messages), told), now, user, txn, values, system=system)
    return (payloads.as_stored(messages, values) if values else messages), rows


def address(
    db: Db,
    queue: QueueRef,
    messages: Sequence[Message],
    rows: list[Row],
    now: float,
    *,
    recipients: Sequence[Sequence[Agent]] = (),
    discard_unrouted: bool = False,
    enrol: Enrol | None = None,
) -> Prepared:
    """Give the rows of messages to those who get them.

    Args:
        recipients: for each message the agents named for it, or nobody; empty when none is named for any.
        enrol: stores a consumer who was never named before; default: in the transaction of the call.
    """
    rule_seconds = 0.0
    ids = [row[0] for row in rows]
    entries: list[Row] = []
    discarded: list[int] = []
    if queue.multiple_consumers:

        def in_the_call(name: str) -> int:
            return catalog.ensure_consumer(db, queue, name, address="", protocol=0, now=now)

        began = perf_counter()
        chosen = _chosen(db, queue, list(zip(messages, rows, strict=True)), recipients, enrol or in_the_call)
        rule_seconds = perf_counter() - began
        kept = []
        for index, (row, consumers) in enumerate(zip(rows, chosen, strict=True)):
            if not consumers:
                if not discard_unrouted:
                    raise _no_recipient(queue, index)
                discarded.append(index)
                continue
            kept.append(row)
            number, queue_id, _, k1, k2, k3, _, ready_at, expires_at = row[:9]
            state = int(State.WAITING) if messages[index].delay > 0 else int(State.READY)
            entries += [(number, c, queue_id, state, k1, k2, k3, ready_at, expires_at, 0) for c in consumers]
        rows = kept
    elif recipients and any(recipients):
        raise RecipientInvalid(
            f"recipients given for queue {queue.full_name}",
            cause="the queue is a single-consumer queue",
            cure="leave the recipient list out",
        )
    hub_id = queue.hub_id
    identities: list[bytes | None] = [hub_id + number.to_bytes(8, "big") for number in ids]
    for index in discarded:
        identities[index] = None
    ready = bool(rows) and (not messages[0].delay or any(not message.delay for message in messages))
    return Prepared(queue, rows, entries, identities, discarded, ready, rule_seconds=rule_seconds)


def store(db: Db, prepared: Prepared) -> None:
    """Store what :func:`prepare` made, and tell other processes at commit."""
    started = perf_counter()
    if prepared.queue.grouped:
        prepared = in_group(db, prepared)
    messages_sql.store(db, prepared.rows, prepared.entries, grouped=prepared.queue.grouped)
    if prepared.queue.grouped:
        place(db, prepared)
    if db.tally is not None and prepared.rows:
        seconds = prepared.seconds + perf_counter() - started
        queue_id, rows, entries = prepared.queue.id, prepared.rows, prepared.entries
        db.tally.append(enqueued(queue_id, rows, entries, seconds, prepared.rule_seconds))
    if prepared.ready:
        db.notify((prepared.queue.id,))


def check_enqueue(db: Db, queue: QueueRef, *, committing: bool = False) -> None:
    """Refuse an enqueue to a queue that does not take any (25206, 25207, 25205).

    ``committing``: the messages were accepted before; a queue that is being stopped still takes them.
    """
    if queue.queue_type is QueueType.EXCEPTION:
        raise ExceptionQueueEnqueue(
            f"enqueue to exception queue {queue.full_name}",
            cause="only the hub moves messages into an exception queue",
            cure="enqueue to a normal queue",
        )
    settings = catalog.queue_settings(db, queue, hold="enqueue")
    if not (settings.enqueue_enabled or (committing and settings.enqueue_closing)):
        raise NotEnabledForEnqueue(
            f"queue {queue.full_name} is not enabled for enqueue",
            cause="it was not started, or stopped",
            cure="start it: start_queue",
        )


def _no_recipient(queue: QueueRef, index: int) -> MessageRefused:
    return NoRecipients(
        f"message {index} for queue {queue.full_name} has no recipient",
        index=index,
        cause="the queue has no subscriber whose rule is true for it",
        cure="add a subscriber, or name recipients",
    )


def _chosen(
    db: Db,
    queue: QueueRef,
    arriving: Sequence[_Arriving],
    recipients: Sequence[Sequence[Agent]],
    enrol: Enrol,
) -> list[list[int]]:
    """The consumers of each message: those named for it, or the subscribers."""
    if not any(recipients):
        return _route(db, queue, arriving)
    named: dict[int, list[int]] = {}  # lists that are one object are resolved once
    for agents in recipients:
        if agents and id(agents) not in named:
            named[id(agents)] = _recipients(db, queue, agents, enrol)
    others = [index for index, agents in enumerate(recipients) if not agents]
    try:
        found = _route(db, queue, [arriving[index] for index in others]) if others else []
    except MessageRefused as error:
        error.index = others[error.index]
        raise
    routed = dict(zip(others, found, strict=True))
    return [routed[index] if index in routed else named[id(agents)] for index, agents in enumerate(recipients)]


def _recipients(db: Db, queue: QueueRef, recipients: Sequence[Agent], enrol: Enrol) -> list[int]:
    """Consumers of an explicit recipient list; it replaces the subscribers (AQ guide 12.2 §1.3.2)."""
    if len(recipients) > MAX_RECIPIENTS:
        raise TooManyRecipients(f"{len(recipients)} recipients given", cause=f"at most {MAX_RECIPIENTS} are allowed")
    found: dict[int, None] = {}
    for agent in recipients:
        name = agent_name(agent.name, what="recipient")
        if agent.address or agent.protocol:
            where = repr(agent.address) if agent.address else f"an address of protocol {agent.protocol}"
            raise AgentAddressInvalid(
                f"recipient at {where} of queue {queue.full_name} cannot be served",
                cause="propagation to other queues is not part of this release",
                cure="name local consumers only, or use a gateway job",
            )
        if name is None:
            raise RecipientInvalid("a recipient has neither name nor address", cure="name the recipient")
        known = catalog.consumer_id(db, queue, name)
        consumer = enrol(name) if known is None else known
        if consumer in found:
            raise DuplicateRecipient(f"recipient {name!r} is listed twice", cure="list every recipient once")
        found[consumer] = None
    return list(found)


def _route(db: Db, queue: QueueRef, arriving: Sequence[_Arriving]) -> list[list[int]]:
    """The subscribers of each message (AQ guide 12.2 §1.3.4, §8.6.1); rules see it as it is stored."""
    subscribers = catalog.subscribers_for(db, queue)
    everything = [consumer for consumer, _, rule in subscribers if rule is None]
    if len(everything) == len(subscribers):
        return [everything] * len(arriving)
    from gateway.aq.matching import matching
    from gateway.aq.rules import compile_rule
    from transforms.expression import Row as Parsed

    # bodies are parsed at most once for all rules
    parsed = [Parsed(_as_new(message, row[_ORIGINAL])) for message, row in arriving]
    rules: dict[str, list[tuple[int, str, str]]] = {}  # equal rules are evaluated once
    for consumer, name, text in subscribers:
        if text is not None:
            rules.setdefault(compile_rule(text).canonical, []).append((consumer, name, text))
    chosen = [list(everything) for _ in arriving]
    for same in rules.values():
        _, name, text = same[0]
        consumers = [consumer for consumer, _, _ in same]
        for index in matching(text, parsed, f"subscriber {name} of queue {queue.full_name}"):
            chosen[index] += consumers
    return chosen


def _as_new(message: Message, original: bytes | None) -> Message:
    """A message before its enqueue: what it was in the queue it may have come from is over."""
    fresh = message.msgid is None and message.enqueue_time is None and not message.attempts
    if fresh and message.original_msgid == original:
        return message
    return replace(message, msgid=None, enqueue_time=None, expires_at=None, attempts=0, original_msgid=original)


# -- out -------------------------------------------------------------------------------------------------------------


def check_dequeue(db: Db, queue: QueueRef, *, browse: bool = False) -> catalog.QueueSettings:
    """The settings of a queue that is enabled for dequeue (25226, 25205). ``browse``: nothing is going to be taken."""
    settings = catalog.queue_settings(db, queue, hold=None if browse else "dequeue")
    if not settings.dequeue_enabled:
        raise NotEnabledForDequeue(
            f"queue {queue.full_name} is not enabled for dequeue",
            cause="it was not started, or stopped",
            cure="start it: start_queue",
        )
    return settings


def claim(conn: sa.Connection, queue: QueueRef, consumer: str | None, limit: int) -> list[Claimed]:
    """Take up to ``limit`` READY messages for a durable plan, in dequeue order; never waits for another consumer.

    ``consumer`` is None on a single-consumer queue. The messages stay CLAIMED until complete or release. Transaction
    groups are taken whole, so the last one may bring more than ``limit``. What has expired is left to the time manager.

    Raises:
        AqError: 25226 not enabled for dequeue, 25231 and 25256 consumer missing or not allowed, 24035 unknown.
    """
    started = perf_counter()
    db = Db(conn)
    settings = check_dequeue(db, queue)
    target = catalog.require_consumer(db, queue, consumer)
    now = hub_clock(conn).now()
    if queue.grouped and queue.queue_type is QueueType.NORMAL:
        rows = claim_groups(db, queue, target, limit, now)
    else:
        rows = messages_sql.claim_ready(db, queue, target, limit, now, settings.reopened)
    if rows and db.tally is not None:
        seconds, latency = perf_counter() - started, max(now - rows[-1][ENQ_TIME], 0.0)
        db.tally.append(HandedOut(queue.id, target, now, len(rows), False, seconds, latency))
    return _claimed(rows, queue)


def _claimed(rows: list[Row], queue: QueueRef) -> list[Claimed]:
    messages = decode(rows, queue.hub_id)
    return [Claimed(row[0], message) for row, message in zip(rows, messages, strict=True)]


def load(conn: sa.Connection, queue: QueueRef, consumer: str | None, ids: Sequence[int]) -> list[Claimed]:
    """Messages claimed earlier, again, in the order of ``ids``; those no longer claimed are left out."""
    db = Db(conn)
    return _claimed(messages_sql.load_claimed(db, queue, catalog.require_consumer(db, queue, consumer), ids), queue)


def complete(
    conn: sa.Connection, queue: QueueRef, consumer: str | None, ids: Sequence[int], *, now: float | None = None
) -> int:
    """Claimed messages are consumed: gone, or PROCESSED where the queue retains them. Returns how many.

    Raises:
        GatewayError: [415] some are not claimed any more; roll the transaction back, and nothing happened.
    """
    if not ids:
        return 0
    db = Db(conn)
    settings = catalog.queue_settings(db, queue)
    by = Finisher(hub_clock(conn).now() if now is None else now)
    held = "state = 8 AND claim IS NULL"
    target = catalog.require_consumer(db, queue, consumer)
    number = messages_sql.finish(db, queue, target, ids, by, retention=settings.retention_time, held=held)
    if number != len(ids):
        raise GatewayError(
            f"{len(ids) - number} of {len(ids)} messages planned from queue {queue.full_name} are missing",
            cause="somebody purged the queue, or took or released them while they were on their way",
            cure="find out who did, then mgw agents cleanup RESET_SUB_MISSING_MESSAGE with the job's name",
            number=MISSING,
        )
    return number


def release(conn: sa.Connection, queue: QueueRef, consumer: str | None, ids: Sequence[int]) -> int:
    """Claimed messages become READY again where they were; returns how many were claimed."""
    if not ids:
        return 0
    db = Db(conn)
    number = messages_sql.release(db, queue, catalog.require_consumer(db, queue, consumer), ids)
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


def backlog(conn: sa.Connection, queue: QueueRef, consumer: str | None = None) -> Counts:
    """Messages of the queue (of one consumer, on a multi-consumer queue) by state, and the oldest READY one."""
    db = Db(conn)
    target = catalog.require_consumer(db, queue, consumer) if consumer is not None else 0
    return messages_sql.counts(db, queue, target)


def set_aside(conn: sa.Connection, queue: QueueRef, consumer: str | None) -> set[int]:
    """Internal numbers of the messages that :func:`claim` set aside and nobody has completed or released."""
    db = Db(conn)
    if consumer is None:
        rows = db.rows(_SET_ASIDE, (queue.id,))
    else:
        rows = db.rows(_SET_ASIDE_FOR, (catalog.require_consumer(db, queue, consumer),))
    return {number for (number,) in rows}


def present(conn: sa.Connection, ids: Sequence[int]) -> set[int]:
    """Those of the internal numbers whose messages are in the hub, in whatever state."""
    db = Db(conn)
    return {number for (number,) in db.rows(_PRESENT, (db.ids(ids),))}
