"""The ledger of a job as a data frame: a row for what happened to each message in each batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from mgw.gateway.ledger.history import hex_id
from mgw.gateway.ledger.record import Record
from mgw.gateway.state import catalog
from mgw.pipelines.hub import open_hub
from mgw.pipelines.jobs.statements_ledger import extent, records
from mgw.transforms.errors import ConfigInvalid

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["LEDGER", "read_ledger"]

#: Columns of the ledger: the message id as hex digits, where it was read (inbound) or written (outbound), the name of a
#: ``mgw.gateway.ledger.record.Outcome``, and the row of the ledger with its times.
LEDGER = (
    "msgid STRING, place STRING, part STRING, position BIGINT, outcome STRING, record BIGINT, "
    "started TIMESTAMP, finished TIMESTAMP"
)
_PIECE = 200  # rows of the ledger
_ROWS = 20_000  # rows handed to Spark at once

Row = tuple[str | None, str | None, str | None, int | None, str, int, float | None, float]


def read_ledger(spark: SparkSession, url: str, job: str) -> DataFrame:
    """What the ledger of a job says, one row per message and batch (:data:`LEDGER`).

    Raises:
        ConfigInvalid: there is no such job.
    """
    hub = open_hub(url)
    try:
        with hub.read() as conn:
            known = {each.name.upper(): each for each in catalog.list_subscribers(conn)}
            found = known.get(job.upper())
            if found is None:
                raise ConfigInvalid(
                    f"job {job!r} does not exist",
                    cause=f"the hub has {', '.join(sorted(known)) or 'none'}",
                    cure="name one of them as ledger",
                )
            numbers = extent(conn, found.id)
    finally:
        hub.close()
    first, last = numbers or (0, -1)
    tasks = max(1, min(-(-(last + 1 - first) // _PIECE), 4 * spark.sparkContext.defaultParallelism))
    pieces = spark.range(first, last + 1, _PIECE, numPartitions=tasks)
    return pieces.mapInArrow(_reader(url, found.id, last), LEDGER)


def _reader(url: str, job_id: int, last: int) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What an executor does: read the pieces whose first numbers it is given."""

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        hub = open_hub(url)
        try:
            with hub.read() as conn:
                rows: list[Row] = []
                for batch in batches:
                    for first in batch.column(0).to_pylist():
                        for record in records(conn, job_id, first, min(first + _PIECE - 1, last)):
                            rows += rows_of(record, hub.hub_id)
                            if len(rows) >= _ROWS:
                                yield _arrow(rows)
                                rows = []
                if rows:
                    yield _arrow(rows)
        finally:
            hub.close()

    return read


def rows_of(record: Record, hub_id: bytes) -> Iterator[Row]:
    """A row for each message, and for each of its ids where it became several."""
    for entry in record.entries:
        places: Sequence[str | None] = entry.places or (entry.origin or None,)
        ids: list[str | None] = [hex_id(hub_id, number) for number in entry.ids] or [None]
        for at in range(max(len(ids), len(places))):
            place = places[min(at, len(places) - 1)]
            part, position = _coordinates(place)
            identity = ids[min(at, len(ids) - 1)]
            yield identity, place, part, position, entry.outcome.name, record.number, record.started, record.finished


def _coordinates(place: str | None) -> tuple[str | None, int | None]:
    """``topic/0@4711`` as part and position; what does not name a message forever has no position."""
    part, _, number = (place or "").rpartition("@")
    return (part, int(number)) if part and number.isdecimal() else (place, None)


def _arrow(rows: list[Row]) -> pa.RecordBatch:
    import pyarrow as pa

    moment = pa.timestamp("us", "UTC")
    kinds = (pa.string(), pa.string(), pa.string(), pa.int64(), pa.string(), pa.int64(), moment, moment)
    columns: list[list[Any]] = [list(values) for values in zip(*rows, strict=True)]
    for at in (6, 7):
        columns[at] = [None if value is None else round(value * 1_000_000) for value in columns[at]]
    names = [part.split()[0] for part in LEDGER.split(", ")]
    return pa.record_batch([pa.array(values, kind) for values, kind in zip(columns, kinds, strict=True)], names)
