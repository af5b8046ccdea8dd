"""What a job is given when it runs, and how it waits for its streaming queries.

Their progress is reported, they are stopped on request, and what they have read is settled.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Any, Final

from mgw.pipelines.errors import explained

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["Context", "Followed"]

_LOOK: Final = 0.5  # seconds between two looks at the queries
_PATIENCE: Final = 30.0  # seconds that batches may take to end when the pipeline is asked to stop


@dataclass(frozen=True, slots=True)
class Followed:
    """A running query that :meth:`Context.follow` waits for.

    Attributes:
        query: the query, started.
        checkpoint: its checkpoint folder.
        streams: names of the hub streams that it reads (option ``stream`` of the source ``mgw``): what the checkpoint
            proves to be done is settled in the hub when the query has ended.
    """

    query: StreamingQuery
    checkpoint: str
    streams: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Context:
    """What a job is given.

    Attributes:
        name: name of the pipeline.
        hub: SQLAlchemy URL of the hub.
        folder: everything that the pipeline remembers between two runs is below it; local path or URI.
        say: one line of result, to standard output.
        log: one line of progress, to standard error.
        stopping: set when the pipeline was asked to stop (SIGTERM, SIGINT); long loops of a job's own look at it.
    """

    name: str
    hub: str
    folder: str
    say: Callable[[str], None] = field(default=lambda text: _write(sys.stdout, text))
    log: Callable[[str], None] = field(default=lambda text: _write(sys.stderr, text))
    stopping: Event = field(default_factory=Event)

    def checkpoint(self, query: str) -> str:
        """Checkpoint folder of one of the pipeline's queries."""
        return f"{self.folder.rstrip('/')}/{query}"

    def follow(self, *queries: Followed, again: Callable[[], None] | None = None, every: float = 0.0) -> None:
        """Wait until all queries have ended, or stop them when the pipeline is asked to; their progress is logged.

        Args:
            again: what else the job does, every so many seconds (``every``) until it is asked to stop.

        Raises:
            PipelineFailed: a query failed; all others are stopped then.
        """
        _follow(self, queries, again, every)


def _write(stream: Any, text: str) -> None:
    stream.write(text + "\n")
    stream.flush()


def _follow(
    context: Context, queries: Sequence[Followed], again: Callable[[], None] | None = None, every: float = 0.0
) -> None:
    """See :meth:`Context.follow`."""
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
        from mgw.pipelines.source.streams import settle_checkpoint
    for stream in followed.streams:
        settled = settle_checkpoint(context.hub, stream, followed.checkpoint)
        context.log(f"{_now()} {context.name}: {settled:,} messages of stream {stream} are consumed")
