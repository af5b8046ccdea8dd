"""Writers of the data source ``mgw``: batch here, streams in :mod:`pipelines.sink.stream_writer`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from pipelines.hub import open_hub
from pipelines.sink.layout import Layout, layout_of
from pipelines.sink.options import WriteOptions
from pipelines.sink.statements import Staged
from pipelines.sink.target import target_of
from transforms.errors import ConfigInvalid

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter
    from pyspark.sql.types import StructType

__all__ = ["BatchWriter", "StagedMessage", "batch_writer", "stage_partition", "staged_of", "stream_writer"]

_QUERY_ID = "sql.streaming.queryId"  # local properties of Spark's streaming threads, which tasks inherit
_BATCH_ID = "streaming.sql.batchId"


@dataclass
class StagedMessage(WriterCommitMessage):
    """What a task tells the driver: what it staged, and for which streaming query Spark ran it."""

    staged: Staged
    origin: str | None


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceWriter:
    """The writer of one data frame.

    Raises:
        ConfigInvalid: an option or a column that cannot be used, or mode ``overwrite``.
        AqError: the queue does not exist, or the user may not enqueue there.
    """
    made = WriteOptions.of(options)
    if overwrite:
        raise ConfigInvalid(
            f"queue {made.queue} cannot be overwritten", cause="messages are only added", cure="use mode('append')"
        )
    layout = layout_of(schema, removing=bool(made.remove_from))
    check_target(made)
    return BatchWriter(made, layout)


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
    """The writer of a stream; errors as :func:`batch_writer`."""
    from pipelines.sink.stream_writer import StreamWriter

    made = WriteOptions.of(options, streaming=True)
    if overwrite:
        raise ConfigInvalid(
            f"queue {made.queue} cannot take output mode 'complete'",
            cause="it would publish the whole result again with every batch",
            cure="use outputMode('append') or outputMode('update')",
        )
    layout = layout_of(schema, removing=bool(made.remove_from))
    return StreamWriter(made, layout)


def check_target(options: WriteOptions) -> None:
    """Refuse a queue that cannot be written to before any task runs."""
    with open_hub(options.url) as hub, hub.read() as conn:
        target_of(hub, conn, options)


def stage_partition(
    options: WriteOptions, layout: Layout, batches: Iterator[pa.RecordBatch], *, streaming: bool
) -> StagedMessage:
    """What a task does."""
    from pyspark import TaskContext

    from pipelines.sink.staging import stage

    context = TaskContext.get()
    origin = context.getLocalProperty(_QUERY_ID) if context else None
    wanted = options.batch
    if streaming and context and (text := context.getLocalProperty(_BATCH_ID)):
        wanted = int(text)
    return StagedMessage(stage(options, layout, wanted, batches), origin or None)


def staged_of(messages: Sequence[WriterCommitMessage | None]) -> tuple[list[Staged], str | None]:
    """What the tasks staged, in the order of partitions, and the streaming query they ran for."""
    found = [each for each in messages if isinstance(each, StagedMessage)]
    return [each.staged for each in found], next((each.origin for each in found if each.origin), None)


class BatchWriter(DataSourceArrowWriter):
    """Writes one batch."""

    def __init__(self, options: WriteOptions, layout: Layout) -> None:
        self._options = options
        self._layout = layout

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage a partition."""
        return stage_partition(self._options, self._layout, iterator, streaming=False)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Seal and publish."""
        from pipelines.sink.publish import commit

        staged, origin = staged_of(messages)
        commit(self._options, self._options.batch or 0, staged, origin)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what was staged, unless it was sealed."""
        from pipelines.sink.publish import abort

        abort(self._options, staged_of(messages)[0])
