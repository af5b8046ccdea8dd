"""Stream reads: a queue, or a subscriber's share of one, as a stream that can be replayed exactly.

A stream is a durable plan in the hub, as an outbound job's. Its messages get places 1, 2, 3... when they are claimed,
and an offset is a place. Spark asks for the next batch, ``latestOffset(start)``, only when the batch that ended at
``start`` is in its commit log: until then the batch is run again, with the offsets of its offset log, also after a
restart. So whatever is at ``start`` or before is consumed in the same transaction that claims what comes next. Spark's
``commit(end)`` comes a batch late and never for the last one; nothing happens there. What the last batch of a query
left is settled when the query begins again, or by :func:`settle_checkpoint`.

Asynchronous progress tracking breaks that order (it asks for the next batch before the commit log is written): a stream
must not be read with ``asyncProgressTrackingEnabled``.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from mgw.gateway.aq import Db, Hub, QueueRef, transfer
from mgw.gateway.aq import queue_consumers as consumers_sql
from mgw.pipelines.hub import open_hub
from mgw.pipelines.source import statements_stream as sql
from mgw.pipelines.source.batch import Reading, columns_of, queue_to_read
from mgw.pipelines.source.errors import OffsetLost, StreamGone, StreamTaken
from mgw.pipelines.source.options import SourceOptions
from mgw.pipelines.source.pieces import address_of
from mgw.pipelines.source.statements_read import queue_names
from mgw.pipelines.source.statements_stream import StreamRow
from mgw.pipelines.source.streams import consume, list_streams, release, settle_checkpoint
from mgw.transforms.errors import ConfigInvalid

if TYPE_CHECKING:
    import pyarrow as pa
    import sqlalchemy as sa
    from pyspark.sql.types import StructType

__all__ = ["StreamReader", "list_streams", "release", "settle_checkpoint"]

_CHUNK = 50_000  # messages claimed or consumed in a transaction at most
_SMALLEST = 256  # rows that are worth a task of their own
_LOOKS, _REST = 4, 0.05  # how often an idle stream looks before it answers, and seconds between
_log = logging.getLogger(__name__)


class _State(NamedTuple):
    """The stream and its queue, in a transaction."""

    conn: sa.Connection
    db: Db
    queue: QueueRef
    row: StreamRow


class Places(InputPartition):
    """A range of places: ``lower < seq <= upper``."""

    def __init__(self, reading: Reading, lower: int, upper: int) -> None:
        super().__init__((lower, upper))
        self.reading, self.lower, self.upper = reading, lower, upper


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the stream that option ``stream`` names; the first read of that name begins it."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._columns = columns_of(schema)
        self._hub: Hub | None = None
        self._epoch: int | None = None
        self._target: int | None = None  # place at which a query that takes what is available now ends

    # -- what Spark calls on the driver ----------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  (Spark's names, here and below)
        """Where a query without checkpoint begins: behind everything that is settled. Begins the stream if need be."""
        options, hub = self._options, self._opened()
        with hub.write() as conn:
            db = Db(conn)
            if sql.find(db, options.stream) is None:
                queue, _ = queue_to_read(hub, db, options)
                consumers_sql.require_consumer(db, queue, options.consumer)
                sql.insert(db, options.stream, queue, options.consumer, now=hub.clock.now())
        with self._holding() as state:
            return _offset(state.row, state.row.settled)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Option ``maxRowsPerTrigger``."""
        return ReadMaxRows(self._options.max_rows)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Remember how many messages there are; as many are read, in the order of the queue."""
        with self._opened().read() as conn:
            db = Db(conn)
            row = sql.find(db, self._options.stream)
            queue, _ = queue_to_read(self._opened(), db, self._options)
            self._target = (row.allocated if row else 0) + transfer.backlog(conn, queue, self._options.consumer).ready

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Settle everything up to ``start``, and claim what comes next.

        Raises:
            StreamTaken, StreamGone, OffsetLost, AqError: the stream cannot continue.
        """
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        if self._target is None and self._idle(start):
            return start
        while True:
            with self._holding() as state:
                begin = self._checked(state, start)
                upto = min(begin, state.row.settled + _CHUNK)
                row = consume(state.conn, state.db, state.queue, state.row, upto, lenient=self._lenient)
                wanted = None if most is None else begin + most
                if self._target is not None:
                    wanted = self._target if wanted is None else min(wanted, self._target)
                missing = _CHUNK if wanted is None else min(_CHUNK, wanted - row.allocated)
                numbers: list[int] = []
                lost = self._lost_subscriber(state)
                if missing > 0 and row.settled == begin and not lost:
                    numbers = transfer.claim_numbers(state.conn, state.queue, row.consumer, missing)
                    sql.append(state.db, row, numbers)
                row = row._replace(allocated=row.allocated + len(numbers))
                if row != state.row:
                    sql.update(state.db, row, now=self._opened().clock.now())
            enough = len(numbers) < missing or (wanted is not None and row.allocated >= wanted)
            if row.settled == begin and (missing <= 0 or enough):
                break
        end = row.allocated if wanted is None else min(row.allocated, max(wanted, begin))
        if end == begin and lost:
            raise StreamGone(
                f"stream {row.name} has ended",
                cause=f"subscriber {row.consumer} of queue {state.queue.full_name} was removed",
                cure=f"end the query and release the stream: mgw pipeline release {row.name}",
            )
        return start if end == start["seq"] else _offset(row, end)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The last place that was given to a message."""
        with self._opened().read() as conn:
            row = sql.find(Db(conn), self._options.stream)
        return _offset(row, row.allocated) if row else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Ranges of places with as many messages each.

        Raises:
            StreamTaken, StreamGone, OffsetLost: the stream cannot continue.
        """
        if start == end:
            return []
        with self._holding() as state:
            lower, upper = self._checked(state, start), self._checked(state, end)
            consumer = consumers_sql.require_consumer(state.db, state.queue, state.row.consumer)
            reading = Reading(
                address_of(self._opened().engine.url, self._opened().schema),
                sql.selection(state.db, state.row, consumer),
                state.queue.hub_id,
                queue_names(state.db),
                state.row.consumer,
            )
        count = min(self._options.partitions, -(-(upper - lower) // _SMALLEST))
        cuts = [lower + (upper - lower) * number // count for number in range(count + 1)] if count > 0 else []
        return [Places(reading, *cuts[number : number + 2]) for number in range(count)]

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: the next ``latestOffset`` settles."""

    def stop(self) -> None:
        """Close the hub."""
        if self._hub is not None:
            self._hub.close()
            self._hub = None

    # -- what Spark calls on the executors -------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of a range.

        Raises:
            OffsetLost: some are gone.
        """
        if not isinstance(partition, Places):
            return
        found, wanted = 0, partition.upper - partition.lower
        for batch in partition.reading.batches(
            self._columns, self._schema, partition.lower, partition.upper, rows=self._options.fetch_size
        ):
            found += batch.num_rows
            yield batch
        if found != wanted and not self._lenient:
            raise OffsetLost(
                f"{wanted - found} of {wanted} messages of stream {self._options.stream} are missing",
                cause=f"somebody purged queue {self._options.queue}, or took them from it",
                cure="find out who did; option failOnDataLoss=false continues with what is left",
            )

    # -- the transaction around everything -------------------------------------------------------------------------

    @property
    def _lenient(self) -> bool:
        return not self._options.fail_on_data_loss

    def _opened(self) -> Hub:
        if self._hub is None:
            self._hub = open_hub(self._options.url)
        return self._hub

    @contextmanager
    def _holding(self) -> Iterator[_State]:
        """A transaction that has the stream for itself; the first one of this reader ends the reader before it."""
        hub = self._opened()
        with hub.write() as conn:
            state = self._found(conn, hold=True)
            if self._epoch is None:
                begun = sql.raise_epoch(state.db, state.row)
                state = state._replace(row=state.row._replace(epoch=begun))
            else:
                begun = self._epoch
            yield state
        self._epoch = begun

    def _found(self, conn: sa.Connection, *, hold: bool = False) -> _State:
        options, db = self._options, Db(conn)
        row = sql.find(db, options.stream, hold=hold)
        if row is None:
            raise StreamGone(
                f"stream {options.stream} does not exist",
                cause="it was released, or its queue was dropped, or the checkpoint belongs to another hub",
                cure="start over with another checkpoint folder",
            )
        if self._epoch is not None and row.epoch != self._epoch:
            raise StreamTaken(
                f"stream {row.name} was taken over",
                cause="another query started to read it",
                cure="give every query a stream of its own: option 'stream'",
            )
        queue, _ = queue_to_read(self._opened(), db, options)
        if (queue.id, (options.consumer or "").upper()) != (row.queue_id, (row.consumer or "").upper()):
            raise ConfigInvalid(
                f"stream {row.name} reads another queue or consumer",
                cause="a stream keeps the queue and consumer that it started with",
                cure="give this query a stream of its own, or release that one: mgw pipeline release",
            )
        return _State(conn, db, queue, row)

    def _checked(self, state: _State, offset: dict[str, Any]) -> int:
        """The place of an offset that belongs to this stream.

        Raises:
            OffsetLost: it does not, or its messages are gone.
        """
        row, place = state.row, offset.get("seq")
        if offset.get("stream") != row.token or not isinstance(place, int):
            raise OffsetLost(
                f"the checkpoint is not one of stream {row.name}",
                cause="it belongs to another stream, or to a released one of that name",
                cure="give the query the checkpoint folder it had, or start with a new one",
            )
        if place > row.allocated:
            raise OffsetLost(
                f"the checkpoint is ahead of stream {row.name}",
                cause=f"it is at {place}, the hub only at {row.allocated}: the hub was restored from a backup",
                cure="compare what was written with the hub, then start with a new checkpoint folder",
            )
        if place < row.settled:
            if self._lenient:
                _log.warning("stream %s: places %s to %s are lost", row.name, place + 1, row.settled)
                return row.settled
            raise OffsetLost(
                f"the checkpoint is behind stream {row.name}",
                cause=f"it is at {place}, but the messages up to {row.settled} are consumed: it is an old copy, or "
                "another query read the stream",
                cure="find the checkpoint folder that was used last; option failOnDataLoss=false continues without "
                "them",
            )
        return place

    def _lost_subscriber(self, state: _State) -> bool:
        return state.row.consumer is not None and sql.removed(state.db, state.queue, state.row.consumer)

    def _idle(self, start: dict[str, Any]) -> bool:
        """Whether there is nothing to do, even after a moment; looked at without a turn as a writer."""
        for look in range(_LOOKS):
            if look:
                threading.Event().wait(_REST)
            with self._opened().read() as conn:
                state = self._found(conn)
                at = self._checked(state, start)
                if self._epoch is None or at != state.row.settled or at != state.row.allocated:
                    return False
                consumer = consumers_sql.require_consumer(state.db, state.queue, state.row.consumer)
                if self._lost_subscriber(state) or sql.ready(state.db, state.queue, consumer):
                    return False
        return True


def _offset(row: StreamRow, place: int) -> dict[str, Any]:
    return {"stream": row.token, "seq": place}
