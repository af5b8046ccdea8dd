"""Statements on streams and their plans. Every function runs in the caller's transaction."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from mgw.gateway.aq import HELD_BY_PLAN as BY_PLAN
from mgw.gateway.aq import Db, QueueRef, State
from mgw.gateway.aq import queue_catalog as catalog
from mgw.pipelines.source.statements_read import Selection

__all__ = [
    "StreamRow",
    "append",
    "delete",
    "find",
    "forget",
    "insert",
    "planned",
    "queue_of",
    "raise_epoch",
    "ready",
    "removed",
    "selection",
    "still_claimed",
    "update",
    "view_rows",
]


class StreamRow(NamedTuple):
    """A stream as it is stored."""

    id: int
    name: str
    token: str
    queue_id: int
    consumer: str | None
    epoch: int
    allocated: int
    settled: int


_COLUMNS = "id, name, token, queue_id, consumer, epoch, allocated, settled"


def find(db: Db, name: str, *, hold: bool = False) -> StreamRow | None:
    """The stream of that name; ``hold``: nobody else changes it before the transaction ends."""
    lock = " FOR UPDATE" if hold and db.postgresql else ""
    row = db.row(f"SELECT {_COLUMNS} FROM pl_stream WHERE name_key = ?{lock}", (name.upper(),))
    return StreamRow(*row) if row else None


def insert(db: Db, name: str, queue: QueueRef, consumer: str | None, *, now: float) -> None:
    """Store a stream that begins, unless somebody else just did."""
    db.run(
        """INSERT INTO pl_stream (name_key, name, token, queue_id, consumer, epoch, allocated, settled, changed)
           VALUES (?, ?, ?, ?, ?, 0, 0, 0, ?) ON CONFLICT DO NOTHING""",
        (name.upper(), name, secrets.token_hex(8), queue.id, consumer, now),
    )


def queue_of(db: Db, stream: StreamRow) -> QueueRef | None:
    """The queue of the stream."""
    return catalog.find_queue_by_id(db, stream.queue_id)


def raise_epoch(db: Db, stream: StreamRow) -> int:
    """A reader begins: the epoch that it works in."""
    return int(db.scalar("UPDATE pl_stream SET epoch = epoch + 1 WHERE id = ? RETURNING epoch", (stream.id,)))


def update(db: Db, stream: StreamRow, *, now: float) -> None:
    """Store how far the stream is."""
    db.run(
        "UPDATE pl_stream SET allocated = ?, settled = ?, changed = ? WHERE id = ?",
        (stream.allocated, stream.settled, now, stream.id),
    )


def append(db: Db, stream: StreamRow, numbers: Sequence[int]) -> None:
    """Give messages the next places."""
    rows = [(stream.id, seq, number) for seq, number in enumerate(numbers, stream.allocated + 1)]
    db.insert("pl_plan", ("stream_id", "seq", "message_id"), ("int8", "int8", "int8"), rows)


def planned(db: Db, stream: StreamRow, after: int, upto: int) -> list[int]:
    """Messages at the places ``after < seq <= upto``, in order."""
    rows = db.rows(
        "SELECT message_id FROM pl_plan WHERE stream_id = ? AND seq > ? AND seq <= ? ORDER BY seq",
        (stream.id, after, upto),
    )
    return [number for (number,) in rows]


def still_claimed(db: Db, consumer: int, numbers: Sequence[int]) -> list[int]:
    """Those of the messages that are in somebody's plan still."""
    if consumer:
        sql = f"SELECT message_id FROM aq_entry WHERE consumer_id = ? AND message_id {{ids}} AND {BY_PLAN}"
        rows = db.rows(sql, (consumer, db.ids(numbers)))
    else:
        rows = db.rows(f"SELECT id FROM aq_message WHERE id {{ids}} AND {BY_PLAN}", (db.ids(numbers),))
    return [number for (number,) in rows]


def forget(db: Db, stream: StreamRow, upto: int) -> None:
    """Forget the places up to this one."""
    db.run("DELETE FROM pl_plan WHERE stream_id = ? AND seq <= ?", (stream.id, upto))


def delete(db: Db, stream: StreamRow) -> None:
    """Forget the stream and all of its places."""
    db.run("DELETE FROM pl_plan WHERE stream_id = ?", (stream.id,))
    db.run("DELETE FROM pl_stream WHERE id = ?", (stream.id,))


def removed(db: Db, queue: QueueRef, consumer: str) -> bool:
    """Whether the consumer was a subscriber and is none any more."""
    found = db.row(
        """SELECT 1 FROM aq_consumer WHERE queue_id = ? AND name_key = ? AND address = '' AND protocol = 0
              AND is_subscriber = 0 AND removed_upto IS NOT NULL""",
        (queue.id, consumer.upper()),
    )
    return found is not None


def ready(db: Db, queue: QueueRef, consumer: int) -> bool:
    """Whether something may be there to take."""
    if consumer:
        return (
            db.row(f"SELECT 1 FROM aq_entry WHERE consumer_id = ? AND state = {State.READY} LIMIT 1", (consumer,))
            is not None
        )
    return (
        db.row(f"SELECT 1 FROM aq_message WHERE queue_id = ? AND state = {State.READY} LIMIT 1", (queue.id,))
        is not None
    )


def view_rows(conn: sa.Connection) -> list[dict[str, Any]]:
    """The streams as the view for people shows them."""
    if not sa.inspect(conn).has_table("pl_stream"):
        return []
    rows = conn.exec_driver_sql("SELECT * FROM MGW_PIPELINE_STREAMS ORDER BY STREAM_NAME").mappings()
    return [{name.lower(): value for name, value in row.items()} for row in rows]


def selection(db: Db, stream: StreamRow, consumer: int) -> Selection:
    """The messages of a stream that are in its plan, by their places.

    What is added to columns keeps PostgreSQL from looking for each of them among all that are claimed.
    """
    where: tuple[str, ...] = (f"p.stream_id = {stream.id:d}",)
    join = "JOIN" if db.postgresql else "CROSS JOIN"  # in this order
    if consumer:
        source = (
            f"pl_plan p {join} aq_entry e ON e.message_id = p.message_id AND e.consumer_id = {consumer:d} "
            f"{join} aq_message m ON m.id = p.message_id"
        )
        where += (f"e.state + 0 = {State.CLAIMED}", "e.claim IS NULL")
    else:
        source = f"pl_plan p {join} aq_message m ON m.id = p.message_id"
        where += (f"m.state + 0 = {State.CLAIMED}", "m.claim IS NULL", f"m.queue_id + 0 = {stream.queue_id:d}")
    return Selection(db.postgresql, source, where, "p.seq", "e" if consumer else "m", (("seq", "p.seq"),), ordered=True)
