"""Statements on streams and their plans. Every function runs in the caller's transaction."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from itertools import pairwise
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


_RUN = 8  # messages whose ids follow each other have one row of the plan from so many on
_COVERING = "SELECT coalesce(max(seq), 0) FROM pl_plan WHERE stream_id = ? AND seq <= ?"  # row that says what is there
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
    rows = [(stream.id, seq, number) for seq, number in _packed(numbers, stream.allocated + 1)]
    db.insert("pl_plan", ("stream_id", "seq", "message_id"), ("int8", "int8", "int8"), rows)


def _packed(numbers: Sequence[int], seq: int) -> Iterator[tuple[int, int]]:
    """The rows of a plan, as (place, message): one for a run of message ids that follow each other."""
    start, count = 0, len(numbers)
    while start < count:
        end = start + 1
        while end < count and numbers[end] == numbers[end - 1] + 1:
            end += 1
        if end - start >= _RUN:
            yield seq + start, numbers[start]
        else:
            yield from ((seq + place, numbers[place]) for place in range(start, end))
        start = end


def planned(db: Db, stream: StreamRow, after: int, upto: int) -> list[int]:
    """Messages at the places ``after < seq <= upto``, in order."""
    rows = db.rows(
        f"SELECT seq, message_id FROM pl_plan WHERE stream_id = ? AND seq >= ({_COVERING}) AND seq <= ? ORDER BY seq",
        (stream.id, stream.id, after + 1, upto),
    )
    found: list[int] = []
    for (seq, number), (following, _) in pairwise([*rows, (upto + 1, 0)]):
        skipped = max(after + 1 - seq, 0)
        found += range(number + skipped, number + following - seq)
    return found


def still_claimed(db: Db, consumer: int, numbers: Sequence[int]) -> list[int]:
    """Those of the messages that are in somebody's plan still."""
    if consumer:
        sql = f"SELECT message_id FROM aq_entry WHERE consumer_id = ? AND message_id {{ids}} AND {BY_PLAN}"
        rows = db.rows(sql, (consumer, db.ids(numbers)))
    else:
        rows = db.rows(f"SELECT id FROM aq_message WHERE id {{ids}} AND {BY_PLAN}", (db.ids(numbers),))
    return [number for (number,) in rows]


def forget(db: Db, stream: StreamRow, upto: int) -> None:
    """Forget the places up to this one; a run that goes on behind it begins there from now on."""
    if upto < stream.allocated:
        db.run(
            f"""INSERT INTO pl_plan (stream_id, seq, message_id)
                SELECT stream_id, CAST(? AS BIGINT), message_id + CAST(? AS BIGINT) - seq FROM pl_plan
                 WHERE stream_id = ? AND seq = ({_COVERING}) AND seq < ?""",
            (upto + 1, upto + 1, stream.id, stream.id, upto + 1, upto + 1),
        )
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
    """The messages of a stream that are in its plan, by their places: run by run, each in the order of its ids.

    What is added to columns keeps PostgreSQL from looking for each of them among all that are claimed, and LATERAL
    from looking at all messages.
    """
    runs = _RUNS.format(stream=stream.id, greatest="greatest" if db.postgresql else "max")
    key, a = ("message_id", "e") if consumer else ("id", "m")
    within = f"{a}.{key} >= p.first AND {a}.{key} < p.message_id + p.number"
    where: tuple[str, ...]
    if consumer:
        where = (f"{a}.consumer_id = {consumer:d}", f"{a}.state + 0 = {State.CLAIMED}", f"{a}.claim IS NULL")
        table = "aq_entry"
    else:
        where = (f"{a}.state + 0 = {State.CLAIMED}", f"{a}.claim IS NULL", f"{a}.queue_id + 0 = {stream.queue_id:d}")
        table = "aq_message"
    if db.postgresql:
        chosen = f"SELECT * FROM {table} {a} WHERE {' AND '.join((within, *where))} ORDER BY {a}.{key} OFFSET 0"
        source, where = f"{runs} p CROSS JOIN LATERAL ({chosen}) {a}", ()
    else:
        source, where = f"{runs} p CROSS JOIN {table} {a}", (within, *where)
    if consumer:
        source += f" {'JOIN' if db.postgresql else 'CROSS JOIN'} aq_message m ON m.id = e.message_id"
    place = f"p.seq + ({a}.{key} - p.message_id)"
    return Selection(db.postgresql, source, where, place, a, (("seq", place),), planned=True)


#: The runs of a plan at the places ``lower < seq <= upper``, by place; ``first``: the first message of it there.
_RUNS = """
    (SELECT seq, message_id, lead(seq, 1, {{upper}} + 1) OVER (ORDER BY seq) - seq AS number,
            message_id + {greatest}({{lower}} + 1 - seq, 0) AS first
       FROM pl_plan WHERE stream_id = {stream} AND seq <= {{upper}} AND seq >= (
            SELECT coalesce(max(seq), 0) FROM pl_plan WHERE stream_id = {stream} AND seq <= {{lower}} + 1)
      ORDER BY seq)"""
