"""The writer of streams: every micro-batch is a batch of the query, sealed and published once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from mgw.pipelines.sink.layout import Layout
from mgw.pipelines.sink.options import WriteOptions
from mgw.pipelines.sink.staged_message import stage_partition, staged_of

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["StreamWriter"]


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the micro-batches of one query. Spark makes one to run tasks, and another one to commit."""

    def __init__(self, options: WriteOptions, layout: Layout) -> None:
        self._options = options
        self._layout = layout

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage a partition of a micro-batch."""
        return stage_partition(self._options, self._layout, iterator, streaming=True)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  (Spark's name)
        """Seal and publish; a batch that is done already is left as it is."""
        from mgw.pipelines.sink.publish import commit

        staged, origin = staged_of(messages)
        commit(self._options, batchId, staged, origin, consecutive=True)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """Remove what was staged, unless it was sealed."""
        from mgw.pipelines.sink.publish import abort

        abort(self._options, staged_of(messages)[0])
