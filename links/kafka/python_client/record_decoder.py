"""Records of a batch (format v2), read in one pass.

The client reads a record with a dozen calls and hands it out as three objects, one after the other. Here all records of
a batch are read in one loop, if they are as they should be; else the client's reader has to say what is wrong.

Source: Kafka protocol, record format v2; see :mod:`mgw.links.kafka.python_client.record_batch`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from mgw.transforms.kafka import MESSAGE_ID

__all__ = ["Fetched", "read_records"]


class Fetched(NamedTuple):
    """A record as :mod:`mgw.transforms.kafka` takes it."""

    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


#: The header with the message id of a hub, as it is written, up to its 16 bytes.
_MESSAGE_ID: Final = bytes((2 * len(MESSAGE_ID),)) + MESSAGE_ID.encode() + bytes((2 * 16,))
_MESSAGE_ID_LENGTH: Final = len(_MESSAGE_ID)
_NO_HEADERS: Sequence[tuple[str, bytes | None]] = ()


def _longer(data: bytes, position: int) -> tuple[int, int]:
    """A varint of any length at a place, as it is written, and the place behind it."""
    found = shift = 0
    while True:
        byte = data[position]
        position += 1
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return found, position
        shift += 7
        if shift >= 64:
            raise ValueError("a number of more than 64 bits")


def read_records(  # noqa: C901, PLR0912, PLR0915, PLR0917 - the inner loop, kept flat for speed
    data: bytes, position: int, count: int, base: int, first: int, appended: int | None
) -> list[Fetched]:
    """The records of a batch.

    Args:
        data: the batch, or what was compressed in it.
        position: where the first record begins.
        base: offset of the batch.
        first: timestamp of the batch, in milliseconds.
        appended: timestamp of all records, where the server wrote it.

    Raises:
        ValueError, IndexError: something is not as it should be.
    """
    found: list[Fetched] = []
    new, longer = tuple.__new__, _longer
    kind = 0 if appended is None else 1
    # A number is in ``low`` as it is written: odd for a negative one, and twice the number for another one.
    for _ in range(count):
        low = data[position]
        position += 1
        if low >= 0x80:
            high = data[position]
            if high < 0x80:
                low = low & 0x7F | high << 7
                position += 1
            else:
                low, position = longer(data, position - 1)
        end = position + (low >> 1)
        if low & 1 or data[position] >= 0x80:  # or attributes, of which there are none yet
            raise ValueError("a record begins unlike one")
        low = data[position + 1]
        position += 2
        if low >= 0x80:
            low, position = longer(data, position - 1)
        timestamp = first + (low >> 1 ^ -(low & 1)) if appended is None else appended
        low = data[position]
        position += 1
        if low >= 0x80:
            low, position = longer(data, position - 1)
        offset = base + (low >> 1 ^ -(low & 1))
        low = data[position]
        position += 1
        if low >= 0x80:
            low, position = longer(data, position - 1)
        key = value = None
        if not low & 1:
            begin, position = position, position + (low >> 1)
            key = data[begin:position]
        low = data[position]
        position += 1
        if low >= 0x80:
            high = data[position]
            if high < 0x80:
                low = low & 0x7F | high << 7
                position += 1
            else:
                low, position = longer(data, position - 1)
        if not low & 1:
            begin, position = position, position + (low >> 1)
            value = data[begin:position]
        low = data[position]
        position += 1
        headers = _NO_HEADERS
        if low == 2 and data.startswith(_MESSAGE_ID, position):  # all that a gateway sends in most cases
            begin = position + _MESSAGE_ID_LENGTH
            position = begin + 16
            headers = [(MESSAGE_ID, data[begin:position])]
        elif low:
            if low >= 0x80:
                low, position = longer(data, position - 1)
            headers, position = _headers(data, position, low)
        if position != end:
            raise ValueError("a record is longer or shorter than it says")
        found.append(new(Fetched, (offset, timestamp, kind, key, value, headers)))
    if position != len(data):
        raise ValueError("there is more than the records")
    return found


def _headers(data: bytes, position: int, written: int) -> tuple[list[tuple[str, bytes | None]], int]:
    """The headers of a record, and the place behind them; ``written``: their number as it is written."""
    if written & 1:
        raise ValueError("a negative number of headers")
    found: list[tuple[str, bytes | None]] = []
    for _ in range(written >> 1):
        low = data[position]
        position += 1
        if low >= 0x80:
            low, position = _longer(data, position - 1)
        if low & 1:
            raise ValueError("a header without a name")
        begin, position = position, position + (low >> 1)
        name = data[begin:position].decode()
        low = data[position]
        position += 1
        if low >= 0x80:
            low, position = _longer(data, position - 1)
        if low & 1:
            found.append((name, None))
        else:
            begin, position = position, position + (low >> 1)
            found.append((name, data[begin:position]))
    return found, position
