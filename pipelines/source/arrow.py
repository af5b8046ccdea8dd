"""Rows of the hub as Spark wants them: from the database's columns to those of the data source, a piece at a time.

Everything is done per column; the header array, JSON text in the database, is parsed once per piece.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mgw.gateway.aq import BodyType, State
from mgw.pipelines.source.columns import Column
from mgw.transforms.message import ValueType

__all__ = ["Converter", "reads"]

_MICROSECONDS = 1e6
_UTC = pa.timestamp("us", tz="UTC")
_STATES = pa.array([State(n).name if n in list(State) else None for n in range(max(State) + 1)])
_BODY_TYPES = pa.array([kind.name for kind in BodyType])
_VALUE_TYPES = pa.array([ValueType(n).name if n else None for n in range(max(ValueType) + 1)])
_READABLE = pa.array([int(BodyType.TEXT), int(BodyType.FIELDS), int(BodyType.VALUE)])
_FIRST, _LAST = -62_135_596_800, 253_402_300_799  # epoch seconds of the years 1 to 9999, which Spark and Python share
_TIMES = ("enq_time", "deq_time", "ready_at", "expires_at")

_KAFKA, _RABBITMQ, _MQTT = "KAFKA", "RABBITMQ", "MQTT"
_KAFKA_TOPIC, _MQTT_TOPIC, _AMQP_KEY = "MGW_KAFKA_topic", "MGW_MQTT_topic", "MGW_AMQP_routingKey"
_KAFKA_TIMESTAMP, _AMQP_TIMESTAMP = "MGW_KAFKA_timestamp", "MGW_AMQP_timestamp"  # milliseconds; seconds
_KAFKA_OFFSET, _STREAM_OFFSET = "MGW_KAFKA_offset", "MGW_AMQP_H_x-stream-offset"
_KAFKA_PARTITION, _MESSAGE_ID = "MGW_KAFKA_partition", "MGW_AQ_messageID"


def reads(columns: Sequence[Column]) -> tuple[str, ...]:
    """Names of what is read from the database for these columns; never nothing."""
    return tuple(dict.fromkeys(name for column in columns for name in column.reads)) or ("id",)


class Converter:
    """Makes record batches of one schema out of what the database's driver returns.

    Args:
        columns: the columns, in order.
        schema: their Arrow types, as Spark demands them.
        hub_id: first half of every message id.
        queues: names of queues by id.
        consumer: the subscriber that is read, or None.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        schema: pa.Schema,
        *,
        hub_id: bytes,
        queues: Mapping[int, str],
        consumer: str | None = None,
    ) -> None:
        self.schema = schema
        self._hub_id = hub_id
        self._consumer = consumer
        self._queue_ids = pa.array(queues.keys(), pa.int64())
        self._queue_names = pa.array(queues.values(), pa.string())
        makers: dict[str, Callable[[_Piece], pa.Array]] = {
            "queue": lambda piece: self._queue(piece["queue_id"]),
            "original_queue": lambda piece: self._queue(piece["original_queue_id"]),
            "msgid": lambda piece: self._msgid(piece["id"]),
            "seq": lambda piece: piece["seq"] if "seq" in piece.names else pa.nulls(piece.length, pa.int64()),
            "consumer": lambda piece: pa.repeat(pa.scalar(self._consumer, pa.string()), piece.length),
            "state": lambda piece: _STATES.take(piece["state"]),
            "body_type": lambda piece: _BODY_TYPES.take(piece["body_type"]),
            "text": _text,
            "headers": lambda piece: piece.headers.array(),
            "origin": lambda piece: piece.headers.origin(schema.field("origin").type),
            "transaction_group": lambda piece: piece["group_id"],
            **{name: lambda piece, name=name: _moments(piece[name]) for name in _TIMES},  # type: ignore[misc]
        }
        self._makers = [makers.get(column.name, lambda piece, name=column.name: piece[name]) for column in columns]

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """A piece, converted."""
        piece = _Piece(rows)
        arrays = []
        for maker, field in zip(self._makers, self.schema, strict=True):
            array = maker(piece)
            arrays.append(array if array.type.equals(field.type) else array.cast(field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _queue(self, ids: pa.Array) -> pa.Array:
        return self._queue_names.take(pc.index_in(ids.cast(pa.int64()), value_set=self._queue_ids))

    def _msgid(self, ids: pa.Array) -> pa.Array:
        whole = np.empty(len(ids), dtype=[("hub", "S8"), ("number", ">i8")])
        whole["number"] = ids.to_numpy(zero_copy_only=False)
        raw = whole.view(np.uint8).reshape(len(ids), 16)
        raw[:, :8] = np.frombuffer(self._hub_id, np.uint8)
        offsets = np.arange(0, 16 * (len(ids) + 1), 16, dtype=np.int32)
        return pa.Array.from_buffers(pa.binary(), len(ids), [None, pa.py_buffer(offsets), pa.py_buffer(raw.tobytes())])


class _Piece:
    """What was read, with the headers parsed when somebody asks for them."""

    def __init__(self, rows: pa.RecordBatch) -> None:
        self._rows = rows
        self.names = frozenset(rows.schema.names)
        self.length = rows.num_rows

    def __getitem__(self, name: str) -> pa.Array:
        return self._rows.column(name)

    @cached_property
    def headers(self) -> _Headers:
        return _Headers(self["headers"].to_pylist())


def _moments(seconds: pa.Array) -> pa.Array:
    """Epoch seconds as timestamps, to the nearest microsecond."""
    return pc.round(pc.multiply(seconds, _MICROSECONDS)).cast(pa.int64()).cast(_UTC)


def _text(piece: _Piece) -> pa.Array:
    readable = pc.is_in(piece["body_type"].cast(pa.int64()), value_set=_READABLE)
    body = piece["body"]
    return pc.if_else(readable, body, pa.scalar(None, body.type)).cast(pa.string())


@contextmanager
def _without_collections() -> Iterator[None]:
    """No garbage collection meanwhile: tens of thousands of lists are made, of which none is garbage."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _Headers:
    """The header arrays of a piece, flat: names, type codes and values one after another, and where each row begins."""

    def __init__(self, texts: list[str | None]) -> None:
        flat: list[Any] = []
        ends = [0]
        with _without_collections():
            for row in json.loads(f"[{','.join([text or 'null' for text in texts])}]"):
                if row:
                    flat += row
                ends.append(len(flat))
            names, codes, values = zip(*flat, strict=True) if flat else ((), (), ())
        self._rows = len(texts)
        self._offsets = np.array(ends, np.int32)
        self._names = pa.array(names, pa.string())
        self._codes = codes
        self._values = pa.array(
            [
                value if value.__class__ is str else _shown(value, code)
                for value, code in zip(values, codes, strict=True)
            ],
            pa.string(),
        )
        self._texts = texts

    def array(self) -> pa.Array:
        """ARRAY<STRUCT<name, type, value>>; NULL where a message has no headers."""
        fields = [self._names, _VALUE_TYPES.take(pa.array(self._codes, pa.int8())), self._values]
        structs = pa.StructArray.from_arrays(fields, ["name", "type", "value"])
        missing = pa.array([not text for text in self._texts])
        return pa.ListArray.from_arrays(pa.array(self._offsets), structs, mask=missing)

    def origin(self, kind: pa.StructType) -> pa.Array:
        """The source coordinates; NULL where no header says any."""
        topic, other = self._of(_KAFKA_TOPIC), self._of(_MQTT_TOPIC)
        key = self._of(_AMQP_KEY)
        system = pc.case_when(
            pc.make_struct(pc.is_valid(topic), pc.is_valid(other), pc.is_valid(key)), _KAFKA, _MQTT, _RABBITMQ
        )
        milliseconds = self._of(_KAFKA_TIMESTAMP)
        seconds = self._of(_AMQP_TIMESTAMP)
        moment = pc.coalesce(
            pc.multiply(_between(_numbers(milliseconds), _FIRST * 1000, _LAST * 1000), 1000).cast(_UTC),
            _moments(_between(_decimals(seconds), _FIRST, _LAST)),
        )
        identity = pa.array([_raw(value) for value in self._of(_MESSAGE_ID).to_pylist()], pa.binary())
        fields = [
            system,
            pc.coalesce(topic, other, key),
            _between(_numbers(self._of(_KAFKA_PARTITION)), 0, 2**31 - 1),
            pc.coalesce(_numbers(self._of(_KAFKA_OFFSET)), _numbers(self._of(_STREAM_OFFSET))),
            moment,
            identity,
        ]
        known = pc.or_(pc.is_valid(system), pc.is_valid(identity))
        cast = [
            (array if isinstance(array, pa.Array) else pa.array([array] * self._rows)).cast(field.type)
            for array, field in zip(fields, kind, strict=True)
        ]
        return pa.StructArray.from_arrays(cast, fields=list(kind), mask=pc.invert(known))

    def _of(self, name: str) -> pa.Array:
        """The value of the first header of that name in every row."""
        places = np.flatnonzero(pc.equal(self._names, name).to_numpy(zero_copy_only=False))[::-1]
        found = np.full(self._rows, -1, np.int64)
        found[np.searchsorted(self._offsets, places, side="right") - 1] = places
        return self._values.take(pa.array(found, mask=found < 0))


def _shown(value: Any, code: int) -> str | None:
    if value is True:
        return "true"
    if value is False:
        return "false"
    if value is None:
        return None
    return repr(float(value)) if ValueType.FLOAT <= code <= ValueType.DATE else str(value)


def _numbers(texts: pa.Array) -> pa.Array:
    """Whole numbers; NULL for what is none: anybody may write a header of any name."""
    digits = pc.match_substring_regex(texts, r"^-?[0-9]{1,18}$")
    return pc.if_else(digits, texts, pa.scalar(None, pa.string())).cast(pa.int64())


def _decimals(texts: pa.Array) -> pa.Array:
    """Numbers of seconds; NULL for what is none."""
    digits = pc.match_substring_regex(texts, r"^-?[0-9]{1,15}(\.[0-9]{1,18})?$")
    return pc.if_else(digits, texts, pa.scalar(None, pa.string())).cast(pa.float64())


def _between(numbers: pa.Array, lowest: int, highest: int) -> pa.Array:
    """NULL for what cannot be: publishers give times in other units than they should."""
    inside = pc.and_(pc.greater_equal(numbers, lowest), pc.less_equal(numbers, highest))
    return pc.if_else(inside, numbers, pa.scalar(None, numbers.type))


def _raw(value: str | None) -> bytes | None:
    import base64
    import binascii

    if value is None:
        return None
    try:
        identity = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return None
    return identity if len(identity) == 16 else None
