"""What a task of Spark tells the driver of the partition that it staged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import WriterCommitMessage

from mgw.pipelines.sink.layout import Layout
from mgw.pipelines.sink.options import WriteOptions
from mgw.pipelines.sink.statements import Staged

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["StagedMessage", "stage_partition", "staged_of"]

_QUERY_ID = "sql.streaming.queryId"  # local properties of Spark's streaming threads, which tasks inherit
_BATCH_ID = "streaming.sql.batchId"


@dataclass
class StagedMessage(WriterCommitMessage):
    """What a task tells the driver: what it staged, and for which streaming query Spark ran it."""

    staged: Staged
    origin: str | None


def stage_partition(
    options: WriteOptions, layout: Layout, batches: Iterator[pa.RecordBatch], *, streaming: bool
) -> StagedMessage:
    """What a task does."""
    from pyspark import TaskContext

    from mgw.pipelines.sink.staging import stage

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
