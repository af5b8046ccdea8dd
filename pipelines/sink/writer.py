"""Writers of the data source ``mgw``: batch here, streams in :mod:`mgw.pipelines.sink.stream_writer`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from mgw.pipelines.hub import open_hub
from mgw.pipelines.sink.layout import Layout, layout_of
from mgw.pipelines.sink.options import WriteOptions
from mgw.pipelines.sink.staged_message import stage_partition, staged_of
from mgw.pipelines.sink.target import target_of
from mgw.transforms.errors import ConfigInvalid

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter
    from pyspark.sql.types import StructType

__all__ = ["BatchWriter", "batch_writer", "stream_writer"]


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
    from mgw.pipelines.sink.stream_writer import StreamWriter

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
        from mgw.pipelines.sink.publish import commit

        staged, origin = staged_of(messages)
        commit(self._options, self._options.batch or 0, staged, origin)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what was staged, unless it was sealed."""
        from mgw.pipelines.sink.publish import abort

        abort(self._options, staged_of(messages)[0])
