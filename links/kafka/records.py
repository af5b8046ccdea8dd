"""Reading on over a record that the client cannot decode.

The client decodes header names as UTF-8. One record with another name in it makes it refuse the batch from there on,
at whatever offset one seeks to in that batch, so the records behind it would be out of reach. Here such a name is
handed out as :class:`BadName`; the record is delivered like its neighbours and can be refused for itself.

This replaces one inner class of the client's fetcher, which has no public seam; the client is pinned to the minor
release.
"""

from __future__ import annotations

from typing import Any

from kafka import KafkaConsumer
from kafka.consumer.fetcher import Fetcher
from kafka.record.default_records import DefaultRecordBatch

__all__ = ["BadName", "install"]


class BadName(str):
    """A header name that is not UTF-8: readable as far as it goes, the bytes are in ``raw``."""

    raw: bytes

    def __new__(cls, raw: bytes) -> BadName:
        """The name with U+FFFD in the places that are not UTF-8."""
        name = super().__new__(cls, raw.decode(errors="replace"))
        name.raw = raw
        return name


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
    def _unpack_records(self, tp: Any, records: Any, *args: Any) -> Any:
        return super()._unpack_records(tp, _Batches(records), *args)


def install(consumer: KafkaConsumer) -> None:
    """Let a consumer read over such records."""
    consumer._fetcher.PartitionRecords = _PartitionRecords
