"""Statements of removals: what would be lost, and what is moved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mgw.gateway.aq.payloads import forms as payloads
from mgw.gateway.aq.queues.codec import decode
from mgw.gateway.aq.store.columns import ID, STORED
from mgw.gateway.aq.store.statements import Db
from mgw.gateway.aq.store.tables import LEFT, State, states
from mgw.transforms.message import Message

__all__ = ["Held", "held_by_consumer", "held_by_queues", "in_hands_of", "messages_left", "messages_of"]

_ENTRY = f"SELECT 1 FROM aq_entry e WHERE e.message_id = m.id AND e.state IN {LEFT}"
_HELD = f"""m.queue_id {{ids}} AND (m.state IN {states(State.READY, State.WAITING, State.EXPIRED, State.CLAIMED)}
            OR (m.state = {State.SPLIT} AND EXISTS ({_ENTRY})))"""
_DUE = f"e.consumer_id = ? AND e.state IN {LEFT}"


class Held(NamedTuple):
    """Messages that nobody has consumed; ``oldest``: when the oldest was enqueued, epoch seconds."""

    messages: int
    oldest: float | None = None

    def told(self, now: float) -> str:
        """``7 messages, the oldest is 62 s old``."""
        count = f"{self.messages} message{'' if self.messages == 1 else 's'}"
        return count if self.oldest is None else f"{count}, the oldest is {max(0.0, now - self.oldest):.0f} s old"

    def __add__(self, other: object) -> Held:
        """Both."""
        assert isinstance(other, Held)  # noqa: S101
        return Held(
            self.messages + other.messages, min((each.oldest for each in (self, other) if each.oldest), default=None)
        )


def held_by_queues(db: Db, queue_ids: Sequence[int]) -> Held:
    """What these queues hold; a message counts once, however many consumers it waits for."""
    row = db.row(f"SELECT COUNT(*), MIN(m.enq_time) FROM aq_message m WHERE {_HELD}", (db.ids(queue_ids),))
    return Held(*(row or (0, None)))


def held_by_consumer(db: Db, consumer: int) -> Held:
    """Messages that wait for a consumer, or that it holds."""
    row = db.row(
        f"""SELECT COUNT(*), MIN(m.enq_time) FROM aq_entry e JOIN aq_message m ON m.id = e.message_id
             WHERE {_DUE}""",
        (consumer,),
    )
    return Held(*(row or (0, None)))


def in_hands_of(db: Db, consumer: int) -> int:
    """How many messages sessions and plans have taken for a consumer."""
    sql = f"SELECT COUNT(*) FROM aq_entry WHERE consumer_id = ? AND state = {State.CLAIMED}"
    return int(db.scalar(sql, (consumer,)) or 0)


def messages_left(db: Db, queue_id: int, consumer: int) -> list[tuple[int, float]]:
    """The messages that wait in a queue, or for one of its consumers (0: for anybody), in dequeue order: their numbers,
    and when their delay is over."""
    if consumer:
        sql = f"SELECT e.message_id, e.ready_at FROM aq_entry e WHERE {_DUE} ORDER BY e.k1, e.k2, e.k3"
        return [(number, ready) for number, ready in db.rows(sql, (consumer,))]
    sql = f"SELECT m.id, m.ready_at FROM aq_message m WHERE {_HELD} ORDER BY m.k1, m.k2, m.k3"
    return [(number, ready) for number, ready in db.rows(sql, (db.ids([queue_id]),))]


def messages_of(db: Db, hub_id: bytes, numbers: Sequence[int]) -> list[Message]:
    """Messages by their numbers, in that order."""
    rows = db.rows(f"SELECT {STORED.of('m')} FROM aq_message m WHERE m.id {{ids}}", (db.ids(numbers),))
    payloads.learn(db, rows)
    found = {row[ID]: message for row, message in zip(rows, decode(rows, hub_id), strict=True)}
    return [found[number] for number in numbers]
