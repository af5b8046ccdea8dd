"""Whatever a message holds, it leaves a second gateway as it entered the first; and no record is ever too odd."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from mgw.transforms.kafka import KeyFrom, Rules, from_record, origin_headers, to_record
from mgw.transforms.message import Header, HeaderValue, Message, ValueType

NOW = 1_700_000_000.0
ORIGIN = origin_headers("t", 0)


class Received(NamedTuple):
    value: bytes | None
    key: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    offset: int = 0
    timestamp: int = -1
    timestamp_type: int = 0


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
names = texts.filter(lambda name: not name.startswith("MGW_"))
values: dict[ValueType, st.SearchStrategy[HeaderValue]] = {
    ValueType.TEXT: texts,
    ValueType.RAW: st.binary(max_size=20),
    ValueType.BOOLEAN: st.booleans(),
    ValueType.BYTE: st.integers(-128, 127),
    ValueType.SHORT: st.integers(-(2**15), 2**15 - 1),
    ValueType.INTEGER: st.integers(-(2**31), 2**31 - 1),
    ValueType.LONG: st.integers(-(2**63), 2**63 - 1),
    ValueType.FLOAT: st.floats(allow_nan=False, width=32),
    ValueType.DOUBLE: st.floats(allow_nan=False),
    ValueType.DATE: st.floats(0, 4e9),
    ValueType.JSON: st.lists(st.none() | texts, max_size=3).map(json.dumps),
    ValueType.DECIMAL: st.decimals(allow_nan=False, allow_infinity=False).map(str),
    ValueType.UBYTE: st.integers(0, 2**8 - 1),
    ValueType.USHORT: st.integers(0, 2**16 - 1),
    ValueType.UINT: st.integers(0, 2**32 - 1),
}


@st.composite
def headers(draw: st.DrawFn) -> Header:
    kind = draw(st.sampled_from(ValueType))
    prefix = draw(st.sampled_from(["", "MGW_KAFKA_H_", "MGW_AMQP_H_"]))
    return Header(prefix + draw(names), kind, draw(values[kind]))


nulls = names.map(lambda name: Header("MGW_KAFKA_N_" + name, ValueType.TEXT, ""))
messages = st.builds(
    Message,
    body=st.none() | st.binary(max_size=50),
    headers=st.lists(headers() | nulls, max_size=8).map(tuple),
    correlation=st.none() | texts,
    priority=st.integers(-1000, 1000),
    exception_queue=st.none() | texts,
    sender_name=st.none() | texts,
    original_msgid=st.none() | st.binary(min_size=16, max_size=16),
)


@given(messages, st.sampled_from(KeyFrom))
def test_message_survives_kafka(message: Message, key: KeyFrom) -> None:
    rules = Rules(key, properties=True)
    record = to_record(message, rules, NOW)
    assert all(isinstance(name, str) and isinstance(value, bytes) for name, value in record.headers)
    found, failure = from_record(Received(record.value, record.key, tuple(record.headers)), ORIGIN, rules, NOW)
    assert failure is None
    kept = tuple(header for header in found.headers[3:] if header.name != "MGW_KAFKA_key")
    assert replace(found, headers=kept) == message


wire_names = texts | st.sampled_from(["MGW_types", "MGW_AQ_priority", "MGW_AQ_expires_at", "MGW_AQ_sender"])


@given(
    st.none() | st.binary(max_size=50),
    st.none() | st.binary(max_size=200),
    st.lists(st.tuples(wire_names, st.none() | st.binary(max_size=20)), max_size=6).map(tuple),
    st.builds(Rules, st.sampled_from(KeyFrom), st.booleans(), st.booleans(), st.booleans(), st.booleans()),
)
def test_every_record_becomes_a_message_with_its_value(
    value: bytes | None, key: bytes | None, wire: tuple[tuple[str, bytes | None], ...], rules: Rules
) -> None:
    message, failure = from_record(Received(value, key, wire), ORIGIN, rules, NOW)
    body = message.body.encode() if isinstance(message.body, str) else message.body
    if failure is not None:
        assert message.body == value
    elif not any(name == "MGW_types" for name, _ in wire):
        assert body == value
        forwarded = to_record(message, rules, NOW)
        assert forwarded.value == (b"" if value is None and forwarded.key is None else value)
