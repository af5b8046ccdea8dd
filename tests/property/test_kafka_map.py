"""Whatever a message holds, it leaves a second gateway as it entered the first; and no record is ever too odd."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from mgw.transforms.header_table import KEPT
from mgw.transforms.kafka import KeyFrom, Rules, from_record, origin_headers, to_record
from mgw.transforms.kafka import inbound as kafka_inbound
from mgw.transforms.kafka import outbound as kafka_outbound
from mgw.transforms.kafka.common import Window
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
    rules = Rules(key, properties=True, documented=True)
    record = to_record(message, rules, NOW)
    assert all(isinstance(name, str) and isinstance(value, bytes) for name, value in record.headers)
    found, failure = from_record(Received(record.value, record.key, tuple(record.headers)), ORIGIN, rules, NOW)
    assert failure is None
    kept = tuple(header for header in found.headers[3:] if header.name != "MGW_KAFKA_key")
    assert replace(found, headers=kept) == message


own_names = names.filter(lambda name: bool(name) and name not in KEPT)


@given(messages, st.sampled_from(KeyFrom), st.data())
def test_headers_survive_kafka_with_their_own_names(message: Message, key: KeyFrom, data: st.DataObject) -> None:
    rules = Rules(key, properties=True)
    plain = tuple(header._replace(name=data.draw(own_names)) for header in message.headers)
    record = to_record(replace(message, headers=plain), rules, NOW)
    assert [name for name, _ in record.headers if not name.startswith("MGW_")] == [name for name, _, _ in plain]
    found, failure = from_record(Received(record.value, record.key, tuple(record.headers)), ORIGIN, rules, NOW)
    assert failure is None
    assert tuple(header for header in found.headers[3:] if header.name != "MGW_KAFKA_key") == plain


hops = st.sampled_from(
    [
        Header("MGW_KAFKA_key", ValueType.RAW, b"k"),
        Header("MGW_KAFKA_key", ValueType.TEXT, "k"),
        Header("MGW_KAFKA_topic", ValueType.TEXT, "t"),
        Header("MGW_KAFKA_partition", ValueType.INTEGER, 2),
        Header("MGW_KAFKA_offset", ValueType.LONG, 7),
        Header("MGW_KAFKA_timestamp", ValueType.LONG, 1_700_000_000_000),
        Header("MGW_KAFKA_timestamp", ValueType.TEXT, "wrong"),
        Header("MGW_KAFKA_timestampType", ValueType.TEXT, "CreateTime"),
        Header("MGW_KAFKA_originalTimestamp", ValueType.LONG, 5),
        Header("MGW_AQ_messageID", ValueType.RAW, b"earlier"),
        Header("MGW_AQ_priority", ValueType.INTEGER, 2),
        Header("MGW_types", ValueType.TEXT, "{}"),
        Header("MGW_MQTT_topic", ValueType.TEXT, "t"),
        Header("MGW_MQTT_retain", ValueType.BOOLEAN, value=True),
        Header("MGW_MQTT_contentType", ValueType.TEXT, "text/css"),
        Header("MGW_AMQP_timestamp", ValueType.DATE, 1_700_000_000.0),
    ]
)
plain_messages = st.builds(
    Message,
    body=st.binary(max_size=50) | st.none() | texts,
    headers=st.just(()) | st.lists(headers() | nulls | hops, max_size=5).map(tuple),
    correlation=st.none() | texts,
    msgid=st.none() | st.binary(min_size=16, max_size=16),
    enqueue_time=st.none() | st.floats(0, 4e9),
    priority=st.integers(-1, 3),
    expires_at=st.none() | st.just(NOW + 5),
)
windows = (
    st.none() | st.builds(Window, st.integers(0, 2 * 10**12), st.integers(2 * 10**12, 4 * 10**12)) | st.just(Window())
)


@given(
    plain_messages,
    st.builds(
        Rules,
        st.sampled_from(KeyFrom),
        properties=st.booleans(),
        take_partition=st.booleans(),
        original=st.booleans(),
        documented=st.booleans(),
    ),
    windows,
)
def test_the_short_way_for_plain_messages_leads_to_the_same_record(
    message: Message, rules: Rules, window: Window | None
) -> None:
    for _ in range(2):  # the second time the headers are known
        plain = kafka_outbound._plain_record(message, rules, window)
        if plain is not None:
            assert plain == kafka_outbound._to_record(message, rules, NOW, window)


def test_most_messages_of_a_hub_take_the_short_way() -> None:
    message = Message(b"body", msgid=b"0" * 16, enqueue_time=NOW)
    hop = (
        Header("MGW_MQTT_topic", ValueType.TEXT, "t"),
        Header("MGW_MQTT_qos", ValueType.INTEGER, 1),
        Header("MGW_MQTT_retain", ValueType.BOOLEAN, value=False),
        Header("MGW_MQTT_dup", ValueType.BOOLEAN, value=False),
    )
    for each in (message, replace(message, correlation="k"), replace(message, headers=hop), replace(message, body="é")):
        assert kafka_outbound._plain_record(each, Rules(), Window()) is not None


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


@given(st.lists(st.tuples(wire_names, st.binary(max_size=20)), max_size=6).map(tuple))
def test_headers_of_which_nothing_is_told_are_read_as_each_by_itself(wire: tuple[tuple[str, bytes], ...]) -> None:
    plain = tuple(each for each in wire if each[0] != "MGW_types")
    message, failure = from_record(Received(b"v", None, plain), ORIGIN, Rules(), NOW)
    assert failure is None
    alone = [kafka_inbound._read_header(name, value, "", Rules()) for name, value in plain]
    assert list(message.headers[3:]) == alone
