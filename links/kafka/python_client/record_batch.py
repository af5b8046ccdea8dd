"""Record batches (format v2), built from many records in one pass.

The client appends records one by one: it checks, measures and writes each with a dozen calls. Here a record is written
once, and all that a batch takes are joined to it at a time. Header, checksum, compression and producer state of the
batch are the client's own.

Source: Kafka protocol, record format v2: a record is its length, attributes, timestamp and offset as differences to the
batch's, key, value, headers. Numbers are zigzag varints; the length -1 stands for null.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from kafka.record.memory_records import MemoryRecordsBuilder

__all__ = ["NULL", "RecordBatch", "record_content", "varint"]

_FEW: Final = 2048  # numbers below are looked up


def varint(number: int) -> bytes:
    """A number of 64 bits as a zigzag varint."""
    rest = (number << 1) ^ (number >> 63)
    found = bytearray()
    while rest > 0x7F:
        found.append(0x80 | (rest & 0x7F))
        rest >>= 7
    found.append(rest)
    return bytes(found)


_SMALL: Final = tuple(varint(number) for number in range(_FEW))
#: The length of null.
NULL: Final = varint(-1)


@lru_cache(4096)
def _header_name(name: str) -> bytes:
    encoded = name.encode()
    return varint(len(encoded)) + encoded


def record_content(value: bytes | None, key: bytes | None, headers: Sequence[tuple[str, bytes | None]]) -> bytes:
    """The part of a record that is the same in every batch: key, value, headers."""
    small = _SMALL
    parts: list[bytes] = []
    for field in (key, value):
        if field is None:
            parts.append(NULL)
        else:
            length = len(field)
            parts += (small[length] if length < _FEW else varint(length), field)
    count = len(headers)
    parts.append(small[count] if count < _FEW else varint(count))
    for name, field in headers:
        if field is None:
            parts += (_header_name(name), NULL)
        else:
            length = len(field)
            parts += (_header_name(name), small[length] if length < _FEW else varint(length), field)
    return b"".join(parts)


class RecordBatch(MemoryRecordsBuilder):  # type: ignore[misc]
    """The client's builder of a batch, which takes many records at a time."""

    __slots__ = ()

    def extend(self, records: Sequence[tuple[int, bytes]], start: int) -> int:
        """Append records from ``start`` on, as many as fit, but always one to an empty batch.

        Args:
            records: for each the timestamp in milliseconds, and its :func:`record_content`.

        Returns:
            Where it stopped: the index of the first record that was not appended.
        """
        own: Any = self
        if own._closed:
            return start
        builder = own._builder
        buffer, limit, small = builder._buffer, own._batch_size, _SMALL
        size, offset = len(buffer), own._next_offset
        if offset == 0:
            builder._first_timestamp = builder._max_timestamp = records[start][0]
        first, latest = builder._first_timestamp, builder._max_timestamp
        parts: list[bytes] = []
        index = start
        for index in range(start, len(records)):
            timestamp, content = records[index]
            since = timestamp - first
            head = (
                b"\0"
                + (small[since] if 0 <= since < _FEW else varint(since))
                + (small[offset] if offset < _FEW else varint(offset))
            )
            length = len(head) + len(content)
            written = small[length] if length < _FEW else varint(length)
            size += len(written) + length
            if size > limit and offset:
                break
            parts += (written, head, content)
            latest = max(latest, timestamp)
            offset += 1
        else:
            index += 1
        buffer += b"".join(parts)
        builder._max_timestamp, builder._num_records = latest, offset
        builder._last_offset = max(0, offset - 1)
        own._next_offset = offset
        return index
