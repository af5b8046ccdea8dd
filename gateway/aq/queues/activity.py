"""What a transaction does with the queues, noted on its way, to be counted when it has committed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from mgw.gateway.aq.store.columns import NEW_ENTRY, NEW_MESSAGE
from mgw.gateway.aq.store.statements import Row

__all__ = ["Dequeued", "Enqueued", "Event", "HandedOut", "LeftOut", "Managed", "Publisher", "Tally", "enqueued"]

Publisher = tuple[str, str, int]  # name and address, empty where the message tells none, and protocol

_NO_PUBLISHERS: Mapping[Publisher, int] = MappingProxyType({})
_NOTHING: Mapping[int, int] = MappingProxyType({})
_READY_AT, _EXPIRES_AT, _ENQ_TIME, _ENQ_USER, _SENDER, _ADDRESS, _PROTOCOL = (
    NEW_MESSAGE.at(name)
    for name in ("ready_at", "expires_at", "enq_time", "enq_user", "sender_name", "sender_address", "sender_protocol")
)
_CONSUMER = NEW_ENTRY.at("consumer_id")


class Enqueued(NamedTuple):
    """A call that stored messages."""

    queue_id: int
    time: float
    number: int
    delayed: int
    expiring: int
    seconds: float
    rule_seconds: float
    publisher: Publisher | None  # None: several, in ``publishers``
    publishers: Mapping[Publisher, int]
    consumers: Mapping[int, int]


def enqueued(
    queue_id: int, rows: Sequence[Row], entries: Sequence[Row], seconds: float, rule_seconds: float
) -> Enqueued:
    """What the rows of messages and entries tell, as they are stored; there is at least one."""
    first = rows[0]
    now = first[_ENQ_TIME]
    publisher: Publisher | None = (
        first[_SENDER] or first[_ENQ_USER] or "",
        first[_ADDRESS] or "",
        first[_PROTOCOL] or 0,
    )
    publishers: Mapping[Publisher, int] = _NO_PUBLISHERS
    number = len(rows)
    if number == 1:
        delayed, expiring = int(first[_READY_AT] > now), int(first[_EXPIRES_AT] is not None)
    else:
        delayed = len([1 for row in rows if row[_READY_AT] > now])
        expiring = len([1 for row in rows if row[_EXPIRES_AT] is not None])
        if any(len({row[column] for row in rows}) > 1 for column in (_SENDER, _ADDRESS, _PROTOCOL)):
            user = first[_ENQ_USER] or ""
            publisher = None
            publishers = Counter([(row[_SENDER] or user, row[_ADDRESS] or "", row[_PROTOCOL] or 0) for row in rows])
    consumers: Mapping[int, int] = Counter([entry[_CONSUMER] for entry in entries]) if entries else _NOTHING
    return Enqueued(queue_id, now, number, delayed, expiring, seconds, rule_seconds, publisher, publishers, consumers)


class Dequeued(NamedTuple):
    """Messages that were consumed. ``gone``: so many of them are out of the queue; the others are retained, or wait for
    other consumers."""

    queue_id: int
    consumer: int  # 0: of a single-consumer queue
    time: float
    number: int
    gone: int


class LeftOut(NamedTuple):
    """A call that offered messages to subscribers whose rules refused so many of them, by consumer."""

    queue_id: int
    consumers: Mapping[int, int]


class HandedOut(NamedTuple):
    """A dequeue call that found messages, or none; counts whatever happens to its transaction.

    ``seconds``: what the call took, waiting excluded. ``latency``: seconds since the last of the messages was enqueued.
    """

    queue_id: int
    consumer: int
    time: float
    number: int
    browse: bool
    seconds: float
    latency: float


class Managed(NamedTuple):
    """A step of the time manager, in messages (entries, on multi-consumer queues) per queue.

    Attributes:
        seconds: what the step took; shared out to the queues by their messages.
        ready: delays that ended.
        expired: messages nobody took in time; ``consumers``: their entries per consumer.
        removed: messages consumed by everybody and not retained any more; they count as dequeued now.
        logged: rows of the dequeue log worked off.
    """

    seconds: float
    ready: Mapping[int, int] = _NOTHING
    expired: Mapping[int, int] = _NOTHING
    removed: Mapping[int, int] = _NOTHING
    logged: Mapping[int, int] = _NOTHING
    consumers: Mapping[int, int] = _NOTHING


Event = Enqueued | Dequeued | LeftOut | HandedOut | Managed
Tally = list[Event]
