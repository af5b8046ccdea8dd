"""Looking at the messages of a queue in whatever state, page by page; nothing is taken, locked or counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import sqlalchemy as sa

from mgw.gateway.aq.errors import ConsumerMissing
from mgw.gateway.aq.model import QueueRef, QueueType, State
from mgw.gateway.aq.queues import catalog_sql as catalog
from mgw.gateway.aq.queues import consumers_sql, look_sql, messages_sql
from mgw.gateway.aq.queues.codec import decode, message_number
from mgw.gateway.aq.queues.condition_search import find_matching
from mgw.gateway.aq.queues.messages_sql import Search, keys_of
from mgw.gateway.aq.store.columns import STATE
from mgw.gateway.aq.store.statements import Db, Row
from mgw.gateway.aq.store.tables import MESSAGE_STATES
from mgw.transforms.errors import ArgumentInvalid
from mgw.transforms.message import Message

__all__ = ["Looked", "Reader", "home", "one", "page"]


class Looked(NamedTuple):
    """A message as it lies in a queue; ``place``: what :func:`page` goes on after."""

    msgid: bytes
    message: Message
    state: State
    place: tuple[float, ...]


class Reader(NamedTuple):
    """A consumer that a message is for. ``address`` is empty for a consumer of the queue itself."""

    name: str
    address: str
    state: State
    attempts: int


def page(
    conn: sa.Connection,
    queue: QueueRef,
    *,
    consumer: str | None = None,
    state: State | None = None,
    correlation: str | None = None,
    condition: str | None = None,
    after: Sequence[float] = (),
    limit: int,
) -> list[Looked]:
    """The next messages of a queue that are in a state, in the order in which they would be dequeued.

    Args:
        consumer: of a multi-consumer queue: those that are for this one, by its state. Without it those that anybody
            of its consumers waits for (SPLIT).
        state: None: what can be dequeued: READY, SPLIT, in an exception queue EXPIRED.
        correlation: exact, or a pattern with ``%`` and ``_``.
        condition: as ``deq_condition`` of a dequeue.
        after: the place of the last message of the page before.

    Raises:
        ArgumentInvalid: ``after`` is no place of that queue.
        AqError: 24035, 25256 the consumer is unknown, or not allowed; 25231 it is missing for that state; 25448, 25449
            the condition.
    """
    db = Db(conn)
    who = consumers_sql.require_consumer(db, queue, consumer) if consumer is not None else 0
    wanted = state if state is not None else _usual(queue, who)
    if not who and wanted not in MESSAGE_STATES:
        wanted_name = State(wanted).name
        raise ConsumerMissing(
            f"no consumer given to look for messages of queue {queue.full_name} that are {wanted_name}",
            cause="each consumer of a message has a state of its own",
            cure="name one of its subscribers as consumer",
        )
    if after and len(after) != (4 if queue.grouped else 3):
        raise ArgumentInvalid(
            f"messages of queue {queue.full_name} cannot be listed from there",
            cause="the place is one of another queue",
            cure="begin at the head",
        )
    what = Search(queue, who, (int(wanted),), correlation=correlation, after=tuple(after) or None)
    if condition is None:
        rows = messages_sql.search(db, what, limit, lock=False)
    else:
        rows = find_matching(db, what, condition, limit, browse=_look)
    return _looked(queue, rows)


def one(conn: sa.Connection, queue: QueueRef, msgid: bytes) -> tuple[Looked, Sequence[Reader]] | None:
    """A message of a queue in whatever state, with the consumers it is for; None: it is not there."""
    number = message_number(queue.hub_id, msgid)
    if number is None:
        return None
    db = Db(conn)
    what = Search(queue, 0, tuple(map(int, MESSAGE_STATES)), number=number)
    rows = messages_sql.search(db, what, 1, lock=False)
    if not rows:
        return None
    readers = [
        Reader(name, address, State(state), attempts) for name, address, state, attempts in look_sql.readers(db, number)
    ]
    return _looked(queue, rows)[0], readers


def home(conn: sa.Connection, hub_id: bytes, msgid: bytes) -> str | None:
    """The full name of the queue that has a message; None: it has left the hub, or was never in it."""
    number = message_number(hub_id, msgid)
    found = None if number is None else look_sql.home(Db(conn), number)
    queue = None if found is None else catalog.find_queue_by_id(Db(conn), found)
    return None if queue is None else queue.full_name


def _usual(queue: QueueRef, consumer: int) -> State:
    if queue.queue_type is QueueType.EXCEPTION:
        return State.EXPIRED
    return State.SPLIT if queue.multiple_consumers and not consumer else State.READY


def _look(db: Db, what: Search, limit: int) -> list[Row]:
    return messages_sql.search(db, what, limit, lock=False)


def _looked(queue: QueueRef, rows: Sequence[Row]) -> list[Looked]:
    messages = decode(rows, queue.hub_id)
    return [
        Looked(message.msgid or b"", message, State(row[STATE]), tuple(keys_of(row, queue)))
        for row, message in zip(rows, messages, strict=True)
    ]
