"""From each broker to each broker and back: what the tables say is kept is kept bit for bit, what is lost is listed."""

from __future__ import annotations

import math
import struct
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.links.mqtt.codec import encode_publish, parse_publish
from mgw.transforms import mqtt
from mgw.transforms.header_table import PLAIN
from mgw.transforms.kafka.types import ORIGINAL_TIMESTAMP
from mgw.transforms.message import Header, HeaderValue, Message, ValueType
from mgw.transforms.mqtt.common import FORMAT
from tests.property.round_trips import (
    BROKERS,
    OWN,
    PROPERTIES,
    VIA,
    Content,
    kept_headers,
    kept_properties,
    round_trip,
)
from tests.property.test_amqp_codec import FIELDS, SCALARS
from tests.support.examples import looks_at

PAIRS = list(product(BROKERS, BROKERS, VIA))

plain_texts = st.text("abc/ü€-", min_size=1, max_size=12)
texts = plain_texts | st.sampled_from(["", "\0\n", "\ufeffx", "null", "true", "7", "{}", "😀" * 40])
VALUES: dict[ValueType, st.SearchStrategy[HeaderValue]] = {
    ValueType.TEXT: texts,
    ValueType.RAW: st.binary(max_size=20),
    ValueType.BOOLEAN: st.booleans(),
    ValueType.BYTE: st.integers(-(2**7), 2**7 - 1),
    ValueType.SHORT: st.integers(-(2**15), 2**15 - 1),
    ValueType.INTEGER: st.integers(-(2**31), 2**31 - 1),
    ValueType.LONG: st.integers(-(2**63), 2**63 - 1),
    ValueType.FLOAT: st.floats(width=32, allow_nan=False, allow_infinity=False),
    ValueType.DOUBLE: st.floats(allow_nan=False, allow_infinity=False),
    ValueType.DATE: st.integers(0, 2**33).map(float),
    ValueType.JSON: st.sampled_from(["null", "[]", '[1,{"$byte":2},null]', '{"a":{"b":[true]}}', '["\\u0000ü"]']),
    ValueType.DECIMAL: st.integers(-(10**9), 10**9).map(lambda digits: f"{digits // 100}.{abs(digits) % 100:02}"),
    ValueType.UBYTE: st.integers(0, 2**8 - 1),
    ValueType.USHORT: st.integers(0, 2**16 - 1),
    ValueType.UINT: st.integers(0, 2**32 - 1),
}
#: Where not every value of the type is one of the field.
NARROWER: dict[str, st.SearchStrategy[HeaderValue]] = {
    FORMAT: st.just(0),
    "MGW_KAFKA_partition": st.integers(0, 100),
    "MGW_KAFKA_timestamp": st.integers(0, 2**42),
    "MGW_KAFKA_offset": st.integers(0, 2**62),
    "MGW_AQ_messageID": st.binary(min_size=16, max_size=16),
    "MGW_AMQP_deliveryMode": st.integers(1, 2),
    "MGW_MQTT_qos": st.integers(0, 1),
    **dict.fromkeys(
        ("MGW_AMQP_contentType", "MGW_MQTT_contentType", "content-type"),
        st.sampled_from(["text/plain", "application/json; charset=utf-8", "application/octet-stream", "x"]),
    ),
    **dict.fromkeys(("MGW_AMQP_contentEncoding", "content-encoding"), st.sampled_from(["utf-8", "gzip", "", "x"])),
}
#: A record has it only where its topic refused the timestamp; tests/unit/test_header_names.py looks at that.
ELSEWHERE = {ORIGINAL_TIMESTAMP}
names = st.sampled_from(["h", "traceparent", "ünï", "a b", "MGW_trail", "x" * 200]) | st.text(
    "hk", min_size=1, max_size=4
)
bodies = st.binary(max_size=30) | st.sampled_from([b"", b"\xff\xfe", "ü€".encode(), b'{"a": 1.0}'])


@st.composite
def own_headers(draw: st.DrawFn, broker: str) -> list[Header]:
    """A header for each row of a table that tells a type and a field of its own."""
    found = []
    for row in BROKERS[broker].rows:
        if row.of_message or row.kind is None or row.name in ELSEWHERE or draw(st.integers(0, 2)) == 0:
            continue
        usual = plain_texts if row.kind is ValueType.TEXT else VALUES[row.kind]
        values = NARROWER.get(row.name, usual)
        found.append(Header(row.name, row.kind, draw(values)))
    return found


@st.composite
def other_headers(draw: st.DrawFn) -> list[Header]:
    found = []
    for name in draw(st.lists(names, max_size=5)):
        kind = ValueType.TEXT if name.startswith("MGW_") else draw(st.sampled_from(ValueType))
        found.append(Header(name, kind, draw(plain_texts if name.startswith("MGW_") else VALUES[kind])))
    return found


def messages(broker: str) -> st.SearchStrategy[Message]:
    return st.builds(
        Message,
        body=bodies,
        headers=st.builds(lambda own, others: (*own, *others), own_headers(broker), other_headers()),
        priority=st.integers(0, 9),
        correlation=st.none() | plain_texts | st.just("c" * 128),
        expiration=st.none() | st.integers(1, 10**6).map(float),
        exception_queue=st.none() | plain_texts,
    )


def exactly(value: Any) -> tuple[Any, ...]:
    """A value that equals another one only where both have the same type and the same bits."""
    if isinstance(value, Header):
        return (value.name, int(value.type), *exactly(value.value))
    sign = math.copysign(1, value) if isinstance(value, float) else 0
    return type(value), value, sign


def to_bytes(body: Any) -> Any:
    return body.encode() if isinstance(body, str) else body or b""


def listed(message: Message, name: str) -> list[Any]:
    return [exactly(header) for header in message.headers if header.name == name]


@pytest.mark.parametrize(("source", "target", "via"), PAIRS)
@looks_at(24)
@given(data=st.data(), aq_properties=st.booleans())
def test_what_the_tables_say_is_kept_is_kept_and_nothing_else(
    source: str, target: str, via: str, data: st.DataObject, aq_properties: bool
) -> None:
    first, second = BROKERS[source], BROKERS[target]
    content = first.write(data.draw(messages(source)), aq_properties)
    sent, found, _ = round_trip(content, first, second, VIA[via], aq_properties=aq_properties)
    _, bare, _ = round_trip(
        first.write(Message(sent.body), aq_properties), first, second, VIA[via], aq_properties=aq_properties
    )
    for name, kept in kept_headers(first, second, [header.name for header in sent.headers]).items():
        row = first.row(name)
        if row is not None and not (row.sent and row.read):
            continue  # told anew by every hop
        here, there = listed(sent, name), listed(found, name)
        if kept:
            assert there[-len(here) :] == here, (name, sent, found)  # a hop adds its own MGW_AQ_messageID before it
        elif not any(name in each.also for each in second.rows):  # it may not have filled the field
            assert there == listed(bare, name), (name, sent, found)
    for name, kept in kept_properties(first, second, aq_properties=aq_properties).items():
        value = getattr(sent, PROPERTIES[name])
        if not kept:
            assert getattr(found, PROPERTIES[name]) == getattr(bare, PROPERTIES[name]), (name, sent, found)
        elif value is not None or name != "correlation":  # which a header may fill
            assert getattr(found, PROPERTIES[name]) == value, (name, sent, found)
    assert to_bytes(found.body) == to_bytes(sent.body)
    if second.carries("any"):
        assert type(found.body) is type(sent.body)
    before = {header.name for header in sent.headers} | PLAIN
    assert all(header.name in before or header.name.startswith(OWN) for header in found.headers), "nothing is invented"
    if second.carries("any"):
        assert own(found) == own(sent), "order is kept"


def own(message: Message) -> list[Any]:
    """The application's headers."""
    return [exactly(each) for each in message.headers if each.name[:4] != "MGW_" and each.name not in PLAIN]


#: What the hub says of itself, and rows that are about names; the other tests look at those.
BESIDE = {
    *("id in the hub", "enqueue time", "delivery mode", "sender's name", "original id", "sender", "body"),
    *("any other header x", "x, one of these names"),
}


@pytest.mark.parametrize("name", BROKERS)
def test_no_row_of_a_table_is_overlooked(name: str) -> None:
    told = {part for row in BROKERS[name].rows if row.of_message for part in row.name.split(", ")}
    told |= {row.name for row in BROKERS[name].rows if row.of_message}
    known = BESIDE | PROPERTIES.keys() | {"one of these names", "x"}
    assert {part for part in told if part not in known and "," not in part} == set()


# -- bit for bit, as clients of each broker write it -------------------------------------------------------------------

OTHERS = [name for name in BROKERS if BROKERS[name].carries("any")]
table_names = st.text("aäb", min_size=1, max_size=5).map(str.encode)
#: At the top text that is not UTF-8 is RAW in the hub, as the table says.
tables = st.lists(
    st.tuples(table_names, SCALARS | FIELDS.filter(lambda field: field[:1] in b"AF")), min_size=1, max_size=5
).map(lambda fields: b"".join(bytes((len(name),)) + name + value for name, value in fields))


@pytest.mark.parametrize("target", OTHERS)
@looks_at(60)
@given(table=tables, body=bodies)
def test_headers_table_of_an_amqp_client_comes_back_bit_for_bit(target: str, table: bytes, body: bytes) -> None:
    content = Content((b"\x20\x00" + struct.pack(">I", len(table)) + table, body))
    _, _, back = round_trip(content, BROKERS["rabbitmq"], BROKERS[target], VIA["hub"], aq_properties=False)
    properties, content_body = back.wire
    assert table in properties
    assert content_body == body


wire_names = st.text("aäb ", min_size=1, max_size=5)


@pytest.mark.parametrize("target", OTHERS)
@looks_at(60)
@given(
    headers=st.lists(st.tuples(wire_names, st.none() | st.binary(max_size=8) | texts.map(str.encode)), max_size=6),
    key=st.none() | st.binary(max_size=20) | texts.map(str.encode),
    value=st.none() | bodies,
)
def test_record_of_a_kafka_client_comes_back_bit_for_bit(
    target: str, headers: list[tuple[str, bytes | None]], key: bytes | None, value: bytes | None
) -> None:
    """A client of Python cannot write a null value; ``MGW_types`` then tells it."""
    if value is None and key is None:
        return  # no client can write a tombstone without a key to a compacted topic
    content = Content((key, value, tuple(headers)), (3, 1_600_000_000_123))
    sent, found, back = round_trip(content, BROKERS["kafka"], BROKERS[target], VIA["hub"], aq_properties=False)
    found_key, found_value, found_headers = back.wire
    assert (found_key, back.beside) == (key, content.beside)
    assert (found_value or b"") == (value or b"")
    assert found.body == sent.body or not (found.body or sent.body)
    assert [each for each in found_headers if not each[0].startswith("MGW_") and each[0] not in PLAIN] == [
        (name, each or b"") for name, each in headers
    ]
    assert [each for each in found.headers if each.name[0] in "aäb "] == [
        each for each in sent.headers if each.name[0] in "aäb "
    ]


@pytest.mark.parametrize("target", OTHERS)
@looks_at(60)
@given(
    properties=st.builds(
        mqtt.Properties,
        st.sampled_from([0, 1]),
        st.none() | st.integers(1, 2**20),
        st.none() | plain_texts,
        st.none() | plain_texts,
        st.none() | st.binary(max_size=20) | plain_texts.map(str.encode),
        st.lists(st.tuples(wire_names, plain_texts), max_size=6).map(tuple),
    ),
    payload=st.text("aü", max_size=9).map(str.encode),
    retain=st.booleans(),
)
def test_publish_of_an_mqtt_client_comes_back_bit_for_bit(
    target: str, properties: mqtt.Properties, payload: bytes, retain: bool
) -> None:
    first, second = BROKERS["mqtt5"], BROKERS[target]
    head, tail = encode_publish(mqtt.Publish("t", payload, 1, retain, False, properties), 5)
    sent, found, back = round_trip(Content(head + b"\0\7" + tail), first, second, VIA["hub"], aq_properties=False)
    start = next(at for at in range(1, 5) if back.wire[at] < 0x80) + 1
    _, publish = parse_publish(back.wire[0], back.wire[start:], 5)
    own_pairs = [each for each in publish.properties.user if each[0][:4] != "MGW_" and each[0] not in PLAIN]
    assert own_pairs == list(properties.user)
    kept = publish.properties._replace(user=())
    if not second.has("expiration", aq_properties=False):
        kept = kept._replace(expiry=properties.expiry)
    if properties.content_type is None:  # which RabbitMQ has of every message
        kept = kept._replace(content_type=None)
    assert kept == properties._replace(user=())
    assert (publish.payload, publish.retain) == (payload, retain)
    assert type(found.body) is type(sent.body)
