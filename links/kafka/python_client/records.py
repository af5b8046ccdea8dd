"""Reading the records of a fetched partition: whole batches at a time, and on over one that the client cannot decode.

The client decodes header names as UTF-8. One record with another name in it makes it refuse the batch from there on,
at whatever offset one seeks to in that batch, so the records behind it would be out of reach. Here such a name is
handed out as :class:`BadName`; the record is delivered like its neighbours and can be refused for itself.

The client's parts do the rest: checksums, compression, which batches belong to an aborted transaction. They also read a
batch that is not as :mod:`mgw.links.kafka.python_client.record_decoder` expects it: an old format, a bad name, a
damaged record.

This replaces one inner class of the client's fetcher, which has no public seam; the client is pinned to the minor
release.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from itertools import dropwhile
from typing import Any

from kafka import KafkaConsumer, errors
from kafka.consumer.fetcher import Fetcher
from kafka.protocol.consumer import IsolationLevel
from kafka.record.default_records import DefaultRecordBatch

from mgw.links.kafka.bad_names import BadName
from mgw.links.kafka.python_client.record_decoder import Fetched, read_records

__all__ = ["install"]

_FORMAT = 2  # since Kafka 0.11


class _Bytes(bytearray):
    """A record batch whose slices decode leniently; only header names are ever decoded from it."""

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        return _Slice(found) if isinstance(key, slice) else found


class _Slice(bytes):
    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        try:
            return super().decode(encoding, errors)
        except UnicodeDecodeError:
            return BadName(bytes(self))


class _Batch(DefaultRecordBatch):  # type: ignore[misc]
    """A batch that reads a record again, leniently, when it has a header name that is not UTF-8."""

    __slots__ = ()

    def _read_msg(self, *args: Any, **kwargs: Any) -> Any:
        batch: Any = self
        position = batch._pos
        try:
            return super()._read_msg(*args, **kwargs)
        except UnicodeDecodeError:
            buffer = batch._buffer
            batch._buffer, batch._pos = _Bytes(buffer), position
            try:
                return super()._read_msg(*args, **kwargs)
            finally:
                batch._buffer = buffer


class _Batches:
    """The client's iterator over the batches of a response, handing out ours."""

    def __init__(self, records: Any) -> None:
        self._records = records

    def next_batch(self) -> Any:
        batch = self._records.next_batch()
        if type(batch) is DefaultRecordBatch:
            batch.__class__ = _Batch
        return batch


class _PartitionRecords(Fetcher.PartitionRecords):  # type: ignore[misc]
    """What was fetched from a partition and is not handed out yet; hands out :class:`Fetched`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._batches: Any = None
        self._last: Any = None  # batch
        self._ready: Sequence[Fetched] = ()
        self._given = 0  # of those
        self._begun = False
        self._failure: Exception | None = None  # met behind those
        super().__init__(*args, **kwargs)

    def _unpack_records(self, tp: Any, records: Any, *args: Any) -> Any:  # noqa: ARG002
        self._batches = _Batches(records)
        return iter(())

    def take(self, n: int | None = None) -> list[Fetched]:
        """The next ``n`` records, or fewer where there are no more or the next one is damaged."""
        found: list[Fetched] = []
        while n is None or len(found) < n:
            if self._given == len(self._ready):
                try:
                    if not self._load():
                        break
                except Exception as error:
                    self._failure = error
                    if not found:
                        raise
                    break
                continue
            end = len(self._ready) if n is None else self._given + n - len(found)
            found += self._ready[self._given : end]
            self._given = min(end, len(self._ready))
            self.next_fetch_offset = found[-1].offset + 1
        self.records_read += len(found)
        return found

    def _load(self) -> bool:
        """Read the next batch; False if there is none.

        Raises:
            Exception: it is damaged.
        """
        if self._failure is not None:
            raise self._failure
        self._ready, self._given = (), 0
        batch = self._batches.next_batch()
        if batch is None:
            if self._last is not None and self._last.magic == _FORMAT:
                # Also where the last records of the batch are gone, so that it is not fetched again.
                self.next_fetch_offset = self._last.next_offset
            self.drain()
            return False
        self._last = batch
        if self.check_crcs and not batch.validate_crc():
            raise errors.CorruptRecordError(
                f"Record batch for partition {self.topic_partition} at offset {batch.base_offset} failed crc check"
            )
        self.bytes_read += batch.size_in_bytes if batch.magic == _FORMAT else 0
        if batch.magic == _FORMAT and not self._is_for_readers(batch):
            self.next_fetch_offset = batch.next_offset
            return True
        found = self._read(batch)
        if not self._begun:  # a batch is fetched as a whole, and begins before the offset asked for
            found = list(dropwhile(self._maybe_skip_record, found))
            self._begun = bool(found)
        self._ready = found
        return True

    def _is_for_readers(self, batch: Any) -> bool:
        """Whether a batch has messages, not what ends a transaction, and was not taken back."""
        self.leader_epoch = batch.leader_epoch
        if self.isolation_level == IsolationLevel.READ_COMMITTED and batch.has_producer_id():
            self._consume_aborted_transactions_up_to(batch.last_offset)
            if batch.is_control_batch and not batch.records_count:  # a cleaner has left the batch, not the marker
                return False
            if self._contains_abort_marker(batch):
                self.aborted_producer_ids.discard(batch.producer_id)
            elif self._is_batch_aborted(batch):
                return False
        return not batch.is_control_batch

    def _read(self, batch: Any) -> list[Fetched]:
        if batch.magic == _FORMAT:
            batch._maybe_uncompress()
            appended = batch.max_timestamp if batch.timestamp_type == batch.LOG_APPEND_TIME else None
            with contextlib.suppress(ValueError, IndexError):
                return read_records(
                    bytes(batch._buffer),
                    batch._pos,
                    batch.records_count,
                    batch.base_offset,
                    batch.first_timestamp,
                    appended,
                )
        return self._read_singly(batch)

    def _read_singly(self, batch: Any) -> list[Fetched]:
        found: list[Fetched] = []
        try:
            for record in batch:
                if self.check_crcs and not record.validate_crc():
                    raise errors.CorruptRecordError(
                        f"Record for partition {self.topic_partition} at offset {record.offset} failed crc check"
                    )
                found.append(
                    Fetched(
                        record.offset,
                        -1 if record.timestamp is None else record.timestamp,  # format v0 has none
                        -1 if record.timestamp_type is None else record.timestamp_type,
                        record.key,
                        record.value,
                        record.headers,
                    )
                )
        except Exception as error:
            if not found:
                raise
            self._failure = error
        return found


class _Fetcher(Fetcher):  # type: ignore[misc]
    PartitionRecords = _PartitionRecords
    answered: float  # when a server answered last (monotonic), or reading began
    due: dict[Any, float]  # by server that is asked for records: when its answer must have come (monotonic)

    def _handle_fetch_response(self, node_id: Any, *args: Any) -> None:
        self.answered = time.monotonic()
        self.due.pop(node_id, None)
        super()._handle_fetch_response(node_id, *args)

    def _create_fetch_requests(self) -> Any:
        """As in the client. A server whose last request failed unanswered gets no more time by being asked again."""
        requests = super()._create_fetch_requests()
        due = time.monotonic() + self.config["fetch_max_wait_ms"] / 1000
        for node_id in requests:
            self.due.setdefault(node_id, due)
        if len(self.due) > len(requests):
            asked = {self._select_read_replica(place) for place in self._subscriptions.assigned_partitions()}
            for node_id in self.due.keys() - asked:  # it has none of our partitions any more
                del self.due[node_id]
        return requests

    def send_fetches(self) -> Any:
        """As in the client, but not while records wait.

        A server has one request of ours at a time. One for the other partitions alone would keep those that have
        records from being asked for until something comes in the others, up to ``fetch_max_wait_ms``.
        """
        return [] if self._next_partition_records or self._completed_fetches else super().send_fetches()


def install(consumer: KafkaConsumer) -> None:
    """Let a consumer read so; its records are :class:`Fetched` then."""
    consumer._fetcher.__class__ = _Fetcher
    consumer._fetcher.answered = time.monotonic()
    consumer._fetcher.due = {}
