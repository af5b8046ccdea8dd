"""A chunk of staged messages as bytes: Arrow, with the columns of a message as the hub stores them."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any, Final, NamedTuple

import pyarrow as pa

from mgw.gateway.aq import NEW_TYPED_MESSAGE, STORED, Db, Row
from mgw.gateway.aq import decode_messages as decode
from mgw.gateway.aq import payload_forms as payloads
from mgw.pipelines.sink.rows import Made
from mgw.transforms.message import Message

__all__ = ["Chunk", "digest", "pack", "unpack"]

_KEPT: Final = {
    "body": pa.binary(),
    "body_type": pa.int8(),
    "headers": pa.string(),
    "kind": pa.string(),
    "priority": pa.int64(),
    "correlation": pa.string(),
    "expiration": pa.float64(),
    "exception_queue": pa.string(),
    "sender_name": pa.string(),
    "sender_address": pa.string(),
    "sender_protocol": pa.int32(),
    "original_msgid": pa.binary(),
    "user_property": pa.string(),
    "type_id": pa.int64(),
}
_DELAY, _SOURCE, _EXCEPTIONS = "delay", "source", "exceptions"
_PLACES: Final = {name: NEW_TYPED_MESSAGE.at(name) for name in _KEPT}
_BODY = _PLACES["body"]
_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="lz4")
_HUB = bytes(8)  # an identity that nobody looks at: a message gets its own when it is stored


class Chunk(NamedTuple):
    """A chunk, unpacked: messages, and the ids of the exception queues that their sources are to be removed from."""

    made: list[Made]
    exceptions: tuple[int, ...]


def pack(rows: Sequence[Row], made: Sequence[Made], exceptions: Sequence[int] = ()) -> bytes:
    """Messages as a chunk; ``rows`` are theirs as :func:`mgw.gateway.aq.queues.transfer.check` gives them."""
    columns = list(zip(*rows, strict=True))
    found: dict[str, pa.Array] = {}
    for name, place in _PLACES.items():
        values = columns[place] if place < len(columns) else ()
        if any(value is not None for value in values):
            found[name] = pa.array(values, _KEPT[name])
    if any(each.message.delay for each in made):
        found[_DELAY] = pa.array([float(each.message.delay) for each in made], pa.float64())
    if exceptions:
        found[_SOURCE] = pa.array([each.source for each in made], pa.binary())
    schema = pa.schema(
        [(name, array.type) for name, array in found.items()], {_EXCEPTIONS: ",".join(map(str, exceptions))}
    )
    table = pa.record_batch(list(found.values()), schema=schema)
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema, options=_OPTIONS) as writer:
        writer.write_batch(table)
    return out.getvalue().to_pybytes()  # type: ignore[no-any-return]


def unpack(db: Db, chunk: bytes) -> Chunk:
    """The messages of a chunk."""
    with pa.ipc.open_stream(pa.py_buffer(chunk)) as reader:
        table = reader.read_next_batch()

    def column(name: str, default: Any = None) -> Any:
        at = table.schema.get_field_index(name)
        return repeat(default, table.num_rows) if at < 0 else table.column(at).to_pylist()

    new = {"id": 0, "attempts": 0}  # a message that nobody has tried to dequeue; it gets its id later
    rows: list[Row] = list(zip(*(column(name, new.get(name)) for name in STORED.names), strict=True))
    payloads.learn(db, rows)
    messages: list[Message] = decode(rows, _HUB)
    if table.schema.get_field_index(_DELAY) >= 0:
        messages = [
            replace(message, delay=delay) if delay else message
            for message, delay in zip(messages, column(_DELAY), strict=True)
        ]
    exceptions = (table.schema.metadata or {}).get(_EXCEPTIONS.encode(), b"").decode()
    made = [Made(message, source) for message, source in zip(messages, column(_SOURCE), strict=True)]
    return Chunk(made, tuple(int(number) for number in exceptions.split(",") if number))


def digest(rows: Sequence[Row]) -> int:
    """A sum over rows that does not depend on their order: what tells one content of a batch from another."""
    places = [place for place in _PLACES.values() if place != _BODY]
    total = 0
    for row in rows:
        rest = [row[place] for place in places if place < len(row)]
        total += zlib.crc32(row[_BODY] or b"", zlib.crc32(repr(rest).encode()))
    return total
