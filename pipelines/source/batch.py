"""Batch reads of a queue: planned once, in ranges of message ids, and read in parallel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from mgw.gateway.aq import DEFAULT_SCHEMA, Db, Hub, QueueRef, QueueType, Rights, rights_of
from mgw.gateway.aq import queue_catalog as catalog
from mgw.pipelines.source import statements_read as sql
from mgw.pipelines.source.columns import Column, chosen
from mgw.pipelines.source.filters import Target, push
from mgw.pipelines.source.options import SourceOptions, What
from mgw.pipelines.source.pieces import address_of, is_postgresql, pieces
from mgw.pipelines.source.statements_read import Selection
from mgw.transforms.errors import ConfigInvalid

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

__all__ = ["QueueReader", "Reading", "arrow_schema", "columns_of", "queue_to_read"]


def columns_of(schema: StructType) -> tuple[Column, ...]:
    """The columns of a schema, the user's own or that of the options, checked.

    Raises:
        ConfigInvalid: a column that does not exist, or has another type.
    """
    columns = chosen(schema.names)
    for column, given in zip(columns, schema.fields, strict=True):
        kind = given.dataType.simpleString()
        if kind != column.type.replace(": ", ":").replace(", ", ",").lower():
            raise ConfigInvalid(
                f"column {column.name!r} cannot be read as {kind}",
                cause=f"the data source mgw has it as {column.type}",
                cure="read it with that type, and cast it in the query",
            )
    return columns


def arrow_schema(schema: StructType) -> pa.Schema:
    """What Spark demands of the record batches it is given."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")


def queue_to_read(hub: Hub, db: Db, options: SourceOptions) -> tuple[QueueRef, Rights | None]:
    """The queue, and the rights of the user who reads it as somebody browses it; None for the hub's owner.

    Without a consumer a user has to administer a multi-consumer queue: its messages are other people's too.

    Raises:
        AqError: 25205 no such queue for the user, 1031 privilege missing, 24093 the consumer is not the user's.
    """
    rights = rights_of(hub.user_for(options.user))
    if rights is None:
        return catalog.require_queue(db, options.queue, DEFAULT_SCHEMA), None
    queue = rights.dequeue_target(db, options.queue, options.consumer)
    if options.consumer is None and queue.multiple_consumers and queue.queue_type is QueueType.NORMAL:
        rights.manage_target(db, options.queue)
    return queue, rights


@dataclass(frozen=True, slots=True)
class Reading:
    """What a task has to know to read: where, what, and how to show it."""

    address: str = field(repr=False)  # may hold a password
    chosen: Selection
    hub_id: bytes
    queues: dict[int, str]
    consumer: str | None

    def batches(
        self, columns: Sequence[Column], schema: StructType, lower: int, upper: int, *, rows: int
    ) -> Iterator[pa.RecordBatch]:
        """The rows with ``lower < key <= upper`` as record batches of the schema."""
        from mgw.pipelines.source.arrow import Converter, reads

        names = reads(columns)
        if any(name == "seq" for name, _ in self.chosen.extra) and any(column.name == "seq" for column in columns):
            names = (*names, "seq")
        convert = Converter(
            columns, arrow_schema(schema), hub_id=self.hub_id, queues=self.queues, consumer=self.consumer
        )
        for rows_read in pieces(self.address, self.chosen, names, lower, upper, rows=rows):
            yield convert(rows_read)


class Stretch(InputPartition):
    """A range of message ids: ``lower < id <= upper``."""

    def __init__(self, reading: Reading, lower: int, upper: int) -> None:
        super().__init__((lower, upper))
        self.reading, self.lower, self.upper = reading, lower, upper


class QueueReader(DataSourceReader):
    """Reads a queue as it is. Every range is read as it is at one moment on PostgreSQL, in many small ones on SQLite.

    A message is never read twice, and one that is there all the while is read once: ids do not change, and the ranges
    cover every id handed out when the read was planned.
    """

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._columns = columns_of(schema)
        self._filters: list[Filter] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  (Spark's name)
        """Take what SQL can judge; what comes back, Spark judges (again)."""
        self._filters = list(filters)
        target = Target(is_postgresql(self._options.url), "m", b"")  # whose messages these are changes no answer
        for condition in filters:
            pushed = push(condition, target)
            if pushed is None or not pushed.exact:
                yield condition

    def partitions(self) -> Sequence[InputPartition]:
        """Ranges with about as many messages each."""
        options = self._options
        with Hub.open(options.url) as hub, hub.read() as conn:
            db = Db(conn)
            queue, rights = queue_to_read(hub, db, options)
            names = sql.queue_names(db)
            exceptions = sql.exception_queue_ids(db) if options.what is What.EXCEPTIONS else []
            if rights is not None and exceptions:
                refs = [ref for number in exceptions if (ref := catalog.find_queue_by_id(db, number)) is not None]
                readable = rights.readable(db, refs)
                exceptions = [ref.id for ref in refs if ref.full_name in readable]
            found = sql.selection(db, queue, options.consumer, options.what, exceptions)
            first, last = sql.bounds(db)
            cuts = [0, last]
            if options.partitions > 1 and last > first:
                cuts = _cuts(sql.histogram(db, found, first, last), last, options.partitions)
            target = Target(db.postgresql, found.a, hub.hub_id)
            address = address_of(hub.engine.url, hub.schema)
        pushed = [push(condition, target) for condition in self._filters]
        reading = Reading(
            address,
            found.having(f"({each.sql})" for each in pushed if each is not None),
            hub.hub_id,
            names,
            options.consumer,
        )
        return [Stretch(reading, lower, upper) for lower, upper in pairwise(cuts)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of a range."""
        if isinstance(partition, Stretch):
            yield from partition.reading.batches(
                self._columns, self._schema, partition.lower, partition.upper, rows=self._options.fetch_size
            )


def _cuts(found: Sequence[tuple[int, int]], last: int, parts: int) -> list[int]:
    """Bounds of at most ``parts`` ranges, from 0 to ``last``, with about as many messages each."""
    total = sum(count for _, count in found)
    cuts, seen = [0], 0
    for start, count in found:
        if seen * parts >= total * len(cuts) and start - 1 > cuts[-1]:
            cuts.append(start - 1)
        seen += count
    return [*cuts[:parts], last]
