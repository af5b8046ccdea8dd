"""The gateway's ledger as a stream, in the order of time: a row for messages that arrived together, with their latency.

An offset is the number of the last row of each job. Rows of the ledger never change, and their numbers follow each
other in the order of commit, so what is between two offsets is always the same.

Latency counts from when the gateway read the messages at their source to when they were stored in the hub (inbound), or
confirmed by the destination (outbound). What an application enqueued itself was read nowhere: it counts from when its
outbound job planned it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from itertools import accumulate, islice
from struct import unpack
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from mgw.gateway.ledger.record import Kind, unpacked
from mgw.gateway.state import catalog
from mgw.pipelines.errors import PipelineFailed
from mgw.pipelines.hub import open_hub
from mgw.pipelines.jobs.statements_flow import Batch, Source, batches, extents, sources, upcoming

__all__ = ["ARRIVALS", "LedgerSource", "arrivals"]

ARRIVALS = (
    "job STRING, link STRING, direction STRING, time TIMESTAMP, latency DOUBLE, messages BIGINT, set_aside BIGINT"
)
_PIECE = 500  # rows of the ledger that one task reads at most

Row = tuple[str, str | None, str, datetime, float, int, int]


class LedgerSource(DataSource):
    """``format("mgw_ledger")`` with the options ``url`` and ``maxRowsPerTrigger`` (rows of the ledger, batches)."""

    @classmethod
    def name(cls) -> str:
        """What ``format`` takes."""
        return "mgw_ledger"

    def schema(self) -> str:
        """See :data:`ARRIVALS`."""
        return ARRIVALS

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802  (Spark's name)
        """The stream."""
        return _Reader(self.options)


class _Piece(InputPartition):
    def __init__(self, job_id: int, after: int, upto: int) -> None:
        super().__init__((job_id, after, upto))
        self.job_id, self.after, self.upto = job_id, after, upto


class _Reader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: MutableMapping[str, str]) -> None:
        self._url = options["url"]
        self._most = int(options.get("maxrowspertrigger") or options.get("maxRowsPerTrigger") or 5000)
        self._target: dict[int, int] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        with closing(open_hub(self._url)) as hub:
            return {"hub": hub.hub_id.hex()}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        with closing(open_hub(self._url)) as hub, hub.read() as conn:
            self._target = {job: last for job, (_, last) in extents(conn).items()}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The next rows of all jobs together, oldest first: no job runs ahead and makes what others did look late."""
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        with closing(open_hub(self._url)) as hub, hub.read() as conn:
            known = extents(conn)
            _check(start, known, hub.hub_id.hex())
            end = dict(start)
            waiting = []
            for job, (_, last) in known.items():
                upto = last if self._target is None else self._target.get(job, 0)
                rows = upcoming(conn, job, start.get(f"job {job}", 0), upto, most or last)
                moments = accumulate((finished for _, finished in rows), max)
                waiting.append([(moment, job, number) for moment, (number, _) in zip(moments, rows, strict=True)])
        for _, job, number in islice(heapq.merge(*waiting), most):
            end[f"job {job}"] = number
        return end

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        pieces: list[InputPartition] = []
        for name, last in end.items():
            if name == "hub":
                continue
            job = int(name.removeprefix("job "))
            begins = range(start.get(name, 0), last, _PIECE)
            pieces += [_Piece(job, after, min(after + _PIECE, last)) for after in begins]
        return pieces

    def read(self, partition: InputPartition) -> Iterator[Row]:
        if not isinstance(partition, _Piece):
            return
        with closing(open_hub(self._url)) as hub, hub.read() as conn:
            jobs = {each.id: (each.name.upper(), each.link.upper()) for each in catalog.list_subscribers(conn)}
            name, link = jobs.get(partition.job_id, (f"(REMOVED JOB {partition.job_id})", None))
            found = batches(conn, partition.job_id, partition.after, partition.upto)
            ids = [number for each in found for number in _ids(each)]
            origins = _origins(sources(conn, min(ids), max(ids))) if ids else {}
        for each in found:
            direction = _DIRECTIONS.get(each.kind, "OUTBOUND")
            for moment, latency, messages, aside in arrivals(each, origins):
                yield name, link, direction, datetime.fromtimestamp(moment, UTC), latency, messages, aside


_DIRECTIONS = {Kind.RECEIVED.value: "INBOUND", Kind.CARRIED.value: "THROUGH"}


def _check(start: dict[str, Any], known: dict[int, tuple[int, int]], hub: str) -> None:
    """Refuse to continue where something is missing in between."""
    cure = "start over: remove the checkpoint, and the windows are computed again from the ledger"
    if start.get("hub") != hub:
        raise PipelineFailed(
            "the checkpoint belongs to another hub", cause=f"it read hub {start.get('hub')}", cure=cure
        )
    for job, (first, last) in known.items():
        read = start.get(f"job {job}")
        if read is not None and not first - 1 <= read <= last:
            raise PipelineFailed(
                f"the ledger of job number {job} does not continue what was read",
                cause=f"it was read up to {read}, and the ledger has {first} to {last}: "
                + ("older rows were pruned" if read < first else "the hub was restored"),
                cure=cure,
            )


def _ids(batch: Batch) -> Sequence[int]:
    data = bytes(batch.message_ids or b"")
    return unpack(f">{len(data) // 8}q", data)


def _origins(found: Iterable[Source]) -> dict[int, float]:
    """Message number -> when it was read at its source."""
    origins: dict[int, float] = {}
    for each in found:
        if each.messages == each.last_id - each.first_id + 1:
            numbers: Iterable[int] = range(each.first_id, each.last_id + 1)
        else:
            stored = unpacked(bytes(each.detail)).get("i") or {}
            numbers = stored if isinstance(stored, list) else [n for listed in stored.values() for n in listed]
        origins |= dict.fromkeys(numbers, each.started)
    return origins


def arrivals(batch: Batch, origins: dict[int, float]) -> Iterator[tuple[float, float, int, int]]:
    """When messages of a batch arrived, after how many seconds, how many, and how many were set aside instead.

    ``origins``: message number -> epoch seconds at which it was read at its source.
    """
    if batch.kind in _DIRECTIONS:
        aside = batch.messages - batch.propagated - batch.suppressed
        began = batch.started if batch.started is not None else batch.finished
        yield batch.finished, max(0.0, batch.finished - began), batch.propagated, aside
        return
    detail = unpacked(bytes(batch.detail)) if batch.detail else {}
    moment = detail.get("t", (None, None))[1] or batch.finished
    gone = {*detail.get("f", ()), *map(int, detail.get("x", {}))}
    planned = batch.started if batch.started is not None else moment
    counts: dict[float, int] = {}
    for number in _ids(batch):
        if number not in gone:
            began = origins.get(number, planned)
            counts[began] = counts.get(began, 0) + 1
    aside = len(gone)
    for began, count in (counts or {planned: 0}).items():
        yield moment, max(0.0, moment - began), count, aside
        aside = 0
