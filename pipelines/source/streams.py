"""What is done with streams from outside of a query: settle what a checkpoint proves, give back, forget."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

from mgw.gateway.aq import Db, Hub, QueueRef, transfer
from mgw.gateway.aq import queue_consumers as consumers_sql
from mgw.pipelines.hub import open_hub
from mgw.pipelines.source import statements_stream as sql
from mgw.pipelines.source.errors import OffsetLost, StreamGone
from mgw.pipelines.source.statements_stream import StreamRow
from mgw.transforms.errors import GatewayError

if TYPE_CHECKING:
    import sqlalchemy as sa

__all__ = ["consume", "list_streams", "release", "settle_checkpoint"]

_CHUNK = 50_000  # messages in a transaction


def consume(
    conn: sa.Connection, db: Db, queue: QueueRef, row: StreamRow, upto: int, *, lenient: bool = False
) -> StreamRow:
    """The messages up to a place are consumed and forgotten by the stream; the caller stores the row that is returned.

    Raises:
        OffsetLost: some are not there any more; ``lenient``: never.
    """
    if upto <= row.settled:
        return row
    numbers = sql.planned(db, row, row.settled, upto)
    if lenient:
        there = set(sql.still_claimed(db, consumers_sql.require_consumer(db, queue, row.consumer), numbers))
        numbers = [number for number in numbers if number in there]
    try:
        transfer.complete(conn, queue, row.consumer, numbers)
        sql.forget(db, row, upto)  # on PostgreSQL this statement tells what became of the one before
    except GatewayError as error:
        if error.number != transfer.MISSING:
            raise
        raise OffsetLost(
            f"messages of stream {row.name} are missing",
            cause=f"somebody purged queue {queue.full_name}, or took them from it, after Spark had read them",
            cure="find out who did; option failOnDataLoss=false continues with what is left",
        ) from None
    return row._replace(settled=upto)


def list_streams(url: str) -> list[dict[str, Any]]:
    """The rows of the view MGW_PIPELINE_STREAMS, by name; none in a hub that no pipeline has read yet."""
    with Hub.open(url) as hub, hub.read() as conn:
        return sql.view_rows(conn)


def settle_checkpoint(url: str, stream: str, checkpoint: str) -> int:
    """Consume the messages that the commit log in a checkpoint folder proves to be processed; how many.

    For after the end of a query, whose last batch nobody settles otherwise before it begins again. A folder that this
    process cannot read as files, one without a commit, and one of another stream prove nothing.

    Args:
        checkpoint: path or ``file:`` URL of the folder.

    Raises:
        OffsetLost: messages are not there any more.
    """
    settled = 0
    with open_hub(url) as hub:
        with hub.read() as conn:
            row = sql.find(Db(conn), stream)
        proven = _proven(checkpoint, row.token) if row else None
        while row is not None and proven is not None and row.settled < proven:
            with hub.write() as conn:
                db = Db(conn)
                held = sql.find(db, stream, hold=True)
                if held is None or held.token != row.token or held.settled >= proven or proven > held.allocated:
                    break
                queue = _queue_of(db, held)
                row = consume(conn, db, queue, held, min(proven, held.settled + _CHUNK))
                sql.update(db, row, now=hub.clock.now())
                settled += row.settled - held.settled
    return settled


def release(url: str, stream: str) -> int:
    """Give the messages of a stream that are not settled back to the queue, and forget the stream; how many.

    A query that reads it fails at its next batch.

    Raises:
        StreamGone: there is no such stream.
    """
    with open_hub(url) as hub:
        with hub.write() as conn:
            db = Db(conn)
            row = sql.find(db, stream, hold=True)
            if row is None:
                raise StreamGone(
                    f"stream {stream} does not exist",
                    cause="it was released, or its queue was dropped, or never read",
                    cure="mgw pipeline streams lists those that exist (view MGW_PIPELINE_STREAMS)",
                )
            numbers = sql.planned(db, row, row.settled, row.allocated)
            queue = _queue_of(db, row)
            given = transfer.release(conn, queue, row.consumer, numbers)
            sql.delete(db, row)
        if given:
            hub.notifier.committed([queue.id])
    return given


def _queue_of(db: Db, row: StreamRow) -> QueueRef:
    queue = sql.queue_of(db, row)
    if queue is None:
        raise StreamGone(f"stream {row.name} has no queue", cause="it was dropped", cure="start another stream")
    return queue


def _proven(checkpoint: str, token: str) -> int | None:
    """The place up to which the commit log of a checkpoint folder proves a stream to be processed."""
    parsed = urlparse(checkpoint)
    if parsed.scheme not in ("", "file"):
        return None
    folder = Path(unquote(parsed.path) if parsed.scheme else checkpoint)
    try:
        batches = [int(each.name) for each in (folder / "commits").iterdir() if re.fullmatch(r"\d+", each.name)]
        log = (folder / "offsets" / str(max(batches))).read_text()
    except (OSError, ValueError):
        return None
    places = [offset["seq"] for line in log.splitlines() for offset in _offsets(line, token)]
    return max(places, default=None)


def _offsets(text: str, token: str) -> Iterator[dict[str, Any]]:
    """Offsets of a stream in a line of an offset log, which holds JSON, and maybe JSON in JSON."""
    try:
        found = [json.loads(text)]
    except ValueError:
        return
    while found:
        value = found.pop()
        if isinstance(value, dict):
            if value.get("stream") == token and isinstance(value.get("seq"), int):
                yield value
            found += value.values()
        elif isinstance(value, list):
            found += value
        elif isinstance(value, str) and token in value:
            yield from _offsets(value, token)
