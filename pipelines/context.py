"""Waits for streaming queries: tells their progress, stops them when asked to, settles what they have read."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from pipelines.errors import explained
from pipelines.registry import Context, Followed

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["follow"]

_LOOK: Final = 0.5  # seconds between two looks at the queries
_PATIENCE: Final = 30.0  # seconds that batches may take to end when the pipeline is asked to stop


def follow(
    context: Context, queries: Sequence[Followed], again: Callable[[], None] | None = None, every: float = 0.0
) -> None:
    """See :meth:`pipelines.registry.Context.follow`."""
    told: dict[str, int] = {}
    due = time.monotonic() + every
    try:
        while sum(_is_running(context, each, told) for each in queries) or again is not None:
            if context.stopping.wait(_LOOK):
                context.log(f"{_now()} {context.name}: stopping")
                break
            if again is not None and time.monotonic() >= due:
                again()
                due = time.monotonic() + every
    finally:
        _stop(queries)
    for each in queries:
        _tell(context, each.query, told)
        _settle(context, each)
    for each in queries:
        _is_running(context, each, told)  # one that failed while it was stopped has failed


def _stop(queries: Sequence[Followed]) -> None:
    """Stop each after the batch it is writing, unless that takes too long: a batch that is cut off is written again."""
    end = time.monotonic() + _PATIENCE
    for each in queries:
        query = each.query
        last = query.lastProgress
        while query.isActive and query.status["isTriggerActive"] and query.lastProgress == last:
            if time.monotonic() > end:
                break
            time.sleep(0.1)
        query.stop()


def _is_running(context: Context, followed: Followed, told: dict[str, int]) -> bool:
    """Whether it runs.

    Raises:
        GatewayError: it failed.
    """
    query = followed.query
    _tell(context, query, told)
    if query.isActive:
        return True
    failure = query.exception()
    if failure is not None:
        raise explained(failure, f"{context.name}, query {query.name or query.id},")
    return False


def _tell(context: Context, query: StreamingQuery, told: dict[str, int]) -> None:
    """A line for each batch with rows that was done since the last look."""
    for progress in query.recentProgress:
        batch = progress["batchId"]
        if batch > told.get(query.id, -1) and progress["numInputRows"]:
            context.log(f"{_now()} {context.name}{_named(query)}: {_line(progress)}")
        told[query.id] = max(batch, told.get(query.id, -1))


def _line(progress: Any) -> str:
    rows, milliseconds = progress["numInputRows"], progress["durationMs"].get("triggerExecution", 0)
    text = f"batch {progress['batchId']}, {rows:,} rows in {milliseconds / 1000:.1f} s"
    if milliseconds:
        text += f" ({rows * 1000 / milliseconds:,.0f}/s)"
    watermark = (progress["eventTime"] or {}).get("watermark", "")
    if watermark and not watermark.startswith("1970-"):
        text += f", complete up to {watermark[:19].replace('T', ' ')} UTC"
    return text


def _named(query: StreamingQuery) -> str:
    return f" {query.name}" if query.name else ""


def _now() -> str:
    return time.strftime("%H:%M:%S", time.gmtime())


def _settle(context: Context, followed: Followed) -> None:
    if followed.streams:
        from pipelines.source.streams import settle_checkpoint
    for stream in followed.streams:
        settled = settle_checkpoint(context.hub, stream, followed.checkpoint)
        context.log(f"{_now()} {context.name}: {settled:,} messages of stream {stream} are consumed")
