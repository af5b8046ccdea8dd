"""Sequence deviation: a message goes ahead of another one, or of all (AQ guide 12.2 §10.2).

The sort keys of a message are its position. BEFORE takes the keys of the reference with a smaller last one, between
it and the message in front of it; TOP takes keys below all others. Halving intervals uses up the digits of a number:
then the neighbours are spread evenly again. On PostgreSQL what other transactions hold stays where it is, and
so does everything while others enqueue before messages of the same queue; a message is then as close to its reference
as numbers allow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from mgw.gateway.aq.errors import (
    DelayBeyondReference,
    PriorityBelowReference,
    ReferenceConsumed,
    ReferenceMissing,
    RelativeMessageMissing,
)
from mgw.gateway.aq.model import EnqueueOptions, QueueRef, SequenceDeviation
from mgw.gateway.aq.queues import deviation_sql
from mgw.gateway.aq.queues.codec import message_number
from mgw.gateway.aq.queues.deviation_sql import Reference
from mgw.gateway.aq.queues.prepared import Deviation, Prepared
from mgw.gateway.aq.store.columns import NEW_ENTRY, NEW_MESSAGE
from mgw.gateway.aq.store.statements import Db, Row
from mgw.transforms.message import Message

__all__ = ["Undecided", "deviate", "place"]

TOP = -1e19  # below every first key: priorities have 64 bits
_SAME = 1e-6  # seconds; two delays that differ by less are one
_ROOM = 8.0  # places between two keys that must be left for each new message
_GOLDEN = (math.sqrt(5) - 1) / 2
_ID, _PRIORITY, _READY_AT, _ENQ_TIME = (NEW_MESSAGE.at(name) for name in ("id", "priority", "ready_at", "enq_time"))
_KEYS = NEW_MESSAGE.between("k1", "k2", "k3")
_BEFORE_KEYS, _BEHIND_KEYS = NEW_MESSAGE.around("k1", "k2", "k3")
_ENTRY_BEFORE, _ENTRY_BEHIND = NEW_ENTRY.around("k1", "k2", "k3")
_MESSAGE = NEW_ENTRY.at("message_id")


class Undecided(Protocol):
    """What a session did since its last commit."""

    def pending(self, queue: QueueRef) -> list[Row]:
        """Rows of messages that are not in the database before the commit."""
        ...

    def took(self, queue: QueueRef, number: int) -> bool:
        """Whether the session has removed this message of a single-consumer queue."""
        ...


def deviate(  # noqa: PLR0917
    db: Db,
    queue: QueueRef,
    options: EnqueueOptions,
    messages: Sequence[Message],
    rows: list[Row],
    work: Undecided | None,
) -> tuple[Deviation, list[Row]]:
    """Check a sequence deviation and give the rows of new messages the keys it wants.

    Several messages deviate one after the other: before a reference they keep their order, on top the last is first.

    Args:
        work: the session's transaction; None when the enqueue is none of its work.

    Raises:
        AqError: 25208 no relative_msgid, 25210 it is not in the queue, 25213 it was dequeued, 25211, 25212 delay or
            priority (``MessageRefused``).
    """
    pending = work.pending(queue) if work else []
    if options.sequence_deviation is SequenceDeviation.TOP:
        _check_top(db, queue, messages, pending)
        found = Deviation(None)
        return found, _top(rows)
    number = _reference_number(queue, options)
    reference = _reference(db, queue, number, pending)
    if (reference is not None and reference.consumed) or (work is not None and work.took(queue, number)):
        raise ReferenceConsumed(
            f"message {_hex(options)} of queue {queue.full_name} was dequeued",
            cause="relative_msgid must be a message that has not been dequeued yet",
            cure="give the id of a message that waits, or leave sequence_deviation out",
        )
    if reference is None:
        raise ReferenceMissing(
            f"message {_hex(options)} is not in queue {queue.full_name}",
            cause="it was dequeued, was moved to an exception queue, or never was in this queue",
            cure="give the id of a message that waits, or leave sequence_deviation out",
        )
    for index, message in enumerate(messages):
        if message.delay > reference.delay + _SAME:
            raise _late(index, message, f"message {_hex(options)}", reference.delay)
        if message.priority > reference.priority:
            raise _less_important(index, message, f"message {_hex(options)}")
    return Deviation(number), _before(db, queue, reference, rows)


def place(db: Db, prepared: Prepared) -> Prepared:
    """Messages that were prepared earlier, with the keys they need now: neighbours come, go and move meanwhile."""
    deviation, queue = prepared.deviation, prepared.queue
    if deviation is None or deviation.reference is None:
        return prepared
    reference = deviation_sql.find_reference(db, queue, deviation.reference)
    if reference is None:
        return prepared
    rows = _before(db, queue, reference, prepared.rows)
    keys = {row[_ID]: row[_KEYS] for row in rows}
    entries = [(*entry[_ENTRY_BEFORE], *keys[entry[_MESSAGE]], *entry[_ENTRY_BEHIND]) for entry in prepared.entries]
    return prepared._replace(rows=rows, entries=entries)


# -- the reference ---------------------------------------------------------------------------------------------------


def _hex(options: EnqueueOptions) -> str:
    given = options.relative_msgid
    return given.hex().upper() if isinstance(given, bytes) else repr(given)


def _reference_number(queue: QueueRef, options: EnqueueOptions) -> int:
    if options.relative_msgid is None:
        raise RelativeMessageMissing(
            f"no relative_msgid given for queue {queue.full_name}",
            cause="sequence_deviation BEFORE needs the id of the other message",
            cure="give relative_msgid, or use TOP",
        )
    number = message_number(queue.hub_id, options.relative_msgid)
    return -1 if number is None else number  # -1: of no message at all


def _reference(db: Db, queue: QueueRef, number: int, pending: Sequence[Row]) -> Reference | None:
    for row in pending:
        if row[_ID] == number:
            k1, k2, k3 = row[_KEYS]
            return Reference(k1, k2, k3, row[_PRIORITY], _delay(row), consumed=False)
    return deviation_sql.find_reference(db, queue, number)


def _delay(row: Row) -> float:
    delay: float = row[_READY_AT] - row[_ENQ_TIME]
    return delay


def _check_top(db: Db, queue: QueueRef, messages: Sequence[Message], pending: Sequence[Row]) -> None:
    least = max(range(len(messages)), key=lambda index: messages[index].priority)
    priority = messages[least].priority
    if any(row[_PRIORITY] < priority for row in pending) or deviation_sql.precedes_less_important(db, queue, priority):
        raise _less_important(least, messages[least], f"a message of queue {queue.full_name}")
    latest = max(range(len(messages)), key=lambda index: messages[index].delay)
    delay = messages[latest].delay
    if delay <= _SAME:
        return
    if any(_delay(row) < delay - _SAME for row in pending) or deviation_sql.precedes_shorter_delay(
        db, queue, delay - _SAME
    ):
        raise _late(latest, messages[latest], f"a message of queue {queue.full_name}", None)


def _late(index: int, message: Message, whom: str, delay: float | None) -> DelayBeyondReference:
    theirs = "" if delay is None else f" of {max(0.0, delay):g} s"
    return DelayBeyondReference(
        f"message {index} with a delay of {message.delay:g} s cannot go before {whom}",
        index=index,
        cause=f"that one has a shorter delay{theirs}",
        cure="give a delay that is the same or shorter",
    )


def _less_important(index: int, message: Message, whom: str) -> PriorityBelowReference:
    return PriorityBelowReference(
        f"message {index} with priority {message.priority} cannot go before {whom}",
        index=index,
        cause="that one is more important",
        cure="give a priority that is the same or a smaller number",
    )


# -- keys ------------------------------------------------------------------------------------------------------------


def _with_keys(row: Row, k1: float, k2: float, k3: float) -> Row:
    return (*row[_BEFORE_KEYS], k1, k2, k3, *row[_BEHIND_KEYS])


def _top(rows: list[Row]) -> list[Row]:
    return [_with_keys(row, TOP, 0.0, -float(row[_ID])) for row in rows]


def _before(db: Db, queue: QueueRef, reference: Reference, rows: list[Row]) -> list[Row]:
    """The rows between the reference and its predecessor."""
    if not rows:
        return rows
    k1, k2, high = float(reference.k1), float(reference.k2), float(reference.k3)
    base = math.ceil(high) - 1.0  # of usual messages none stands between two whole numbers
    deviation_sql.keep_places(db, queue)
    found = deviation_sql.last_deviated(db, queue, (k1, k2, base), high)
    low = base if found is None else found
    # Whoever goes before a usual message stays close to whoever did so earlier: room is left for many more.
    width = (high - low) / (16 if high == base + 1 else 2)
    keys = None
    if width < len(rows) * _ROOM * math.ulp(max(abs(base), abs(high))) and deviation_sql.alone_with_places(db, queue):
        keys = _spread(db, queue, (k1, k2, base), high, len(rows))
    if keys is None:
        step = width / len(rows)
        keys = [low + step * (index + 0.25 + 0.5 * (row[_ID] * _GOLDEN % 1)) for index, row in enumerate(rows)]
    return [_with_keys(row, k1, k2, key) for row, key in zip(rows, keys, strict=True)]


def _spread(db: Db, queue: QueueRef, where: tuple[float, float, float], high: float, new: int) -> list[float] | None:
    """Spread the neighbours evenly and return the keys of ``new`` messages among them; None if there is no room."""
    base = where[2]
    known: dict[float, list[int]] = {}  # messages of a transaction group stand in one place
    for number, key in deviation_sql.deviated(db, queue, where, base + 1):
        known.setdefault(key, []).append(number)
    free = deviation_sql.free_among(db, queue, [number for numbers in known.values() for number in numbers])
    keys = list(known)
    movable = [free.issuperset(known[key]) for key in keys]
    middle = sum(key < high for key in keys)
    first, last = middle, middle
    while first > 0 and movable[first - 1]:
        first -= 1
    while last < len(keys) and movable[last]:
        last += 1
    low = keys[first - 1] if first else base
    end = keys[last] if last < len(keys) else base + 1
    count = last - first + new
    step = (end - low) / (count + 1)
    if step < 2 * math.ulp(max(abs(base), abs(base + 1))):
        return None
    places = [low + step * (index + 1) for index in range(count)]
    before, after = places[: middle - first], places[middle - first + new :]
    moved = [*zip(before, keys[first:middle], strict=True), *zip(after, keys[middle:last], strict=True)]
    deviation_sql.set_places(db, queue, [(place, number) for place, key in moved for number in known[key]])
    return places[middle - first : middle - first + new]
