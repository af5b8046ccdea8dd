"""Headers keep their names and types from broker to broker, and standard fields go to the target's own."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import NamedTuple

import pytest

from mgw.transforms import amqp, kafka, mqtt
from mgw.transforms.amqp.table import ROWS as AMQP_ROWS
from mgw.transforms.header_table import TRACE, Row
from mgw.transforms.kafka.table import ROWS as KAFKA_ROWS
from mgw.transforms.message import Header, Message, ValueType
from mgw.transforms.mqtt.table import ENVELOPE_ROWS, HOP, ROWS_3
from mgw.transforms.mqtt.table import ROWS as MQTT_ROWS
from mgw.transforms.mqtt.topic import TopicTemplate

NOW = 1_700_000_000.0
TEXT = ValueType.TEXT


class Received(NamedTuple):
    value: bytes | None
    key: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    offset: int = 0
    timestamp: int = -1
    timestamp_type: int = 0


def from_rabbitmq(properties: bytes, body: bytes = b"x") -> Message:
    message, failure = amqp.decode(properties, body, b"", b"q", False, NOW, amqp.Rules())
    assert failure is None
    return message


def over_kafka(message: Message) -> Message:
    record = kafka.to_record(message, kafka.Rules(), NOW)
    received = Received(record.value, record.key, tuple(record.headers), timestamp=record.timestamp or -1)
    found, failure = kafka.from_record(received, kafka.origin_headers("t", 0), kafka.Rules(), NOW)
    assert failure is None
    return found


def over_mqtt(message: Message) -> Message:
    publish = mqtt.outbound(message, mqtt.Outbound(TopicTemplate("t")), NOW)
    found, failure = mqtt.inbound(publish, mqtt.Inbound())
    assert failure is None
    return found


def table(*entries: bytes) -> bytes:
    data = b"".join(entries)
    return b"\x20\x00" + struct.pack(">I", len(data)) + data


FIELDS = {
    "S": struct.pack(">I", 1) + b"v",
    "x": struct.pack(">I", 1) + b"v",
    "t": b"\x01",
    "b": b"\xff",
    "B": b"\xff",
    "s": b"\xff\xff",
    "u": b"\xff\xff",
    "I": b"\xff" * 4,
    "i": b"\xff" * 4,
    "l": b"\xff" * 8,
    "f": struct.pack(">f", 0.5),
    "d": struct.pack(">d", 0.1),
    "D": struct.pack(">Bi", 2, 314),
    "T": struct.pack(">Q", 1_700_000_000),
    "V": b"",
    "A": struct.pack(">I", 2) + b"t\x01",
    "F": struct.pack(">I", 4) + b"\x01at\x01",
}


@pytest.mark.parametrize("over", [over_kafka, over_mqtt])
@pytest.mark.parametrize("code", FIELDS)
def test_header_of_each_amqp_type_comes_back_as_it_was(over: object, code: str) -> None:
    entry = b"\x06tenant" + code.encode() + FIELDS[code]
    message = over(from_rabbitmq(table(entry)))  # type: ignore[operator]
    assert "tenant" in {header.name for header in message.headers}
    assert entry in amqp.encode(message, NOW, amqp.Rules()).properties


@pytest.mark.parametrize("name", ["content-type", "reply-to", "CC", "x-death"])
@pytest.mark.parametrize("over", [over_kafka, over_mqtt])
def test_amqp_header_called_like_a_field_is_no_field_after_the_way(over: object, name: str) -> None:
    message = from_rabbitmq(table(bytes((len(name),)) + name.encode() + b"S\x00\x00\x00\x01v"))
    header = Header("MGW_AMQP_H_" + name, TEXT, "v")
    assert header in message.headers
    assert header in over(message).headers  # type: ignore[operator]


@pytest.mark.parametrize("name", TRACE)
def test_trace_context_keeps_its_name_everywhere(name: str) -> None:
    header = Header(name, TEXT, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    message = Message(b"x", (header,))
    assert (name, str(header.value).encode()) in kafka.to_record(message, kafka.Rules(), NOW).headers
    publish = mqtt.outbound(message, mqtt.Outbound(TopicTemplate("t")), NOW)
    assert list(publish.properties.user) == [(name, header.value)]
    content = amqp.encode(message, NOW, amqp.Rules())
    assert from_rabbitmq(content.properties).header(name) == header.value


def test_standard_fields_of_rabbitmq_go_to_those_of_mqtt_and_back() -> None:
    sent = Message(
        b"{}",
        (
            Header("MGW_AMQP_contentType", TEXT, "application/cbor"),
            Header("MGW_AMQP_contentEncoding", TEXT, "gzip"),
            Header("MGW_AMQP_replyTo", TEXT, "answers"),
            Header("MGW_AMQP_messageId", TEXT, "m1"),
        ),
    )
    properties = mqtt.outbound(sent, mqtt.Outbound(TopicTemplate("t")), NOW).properties
    assert (properties.content_type, properties.response_topic) == ("application/cbor", "answers")
    assert list(properties.user) == [("content-encoding", "gzip"), ("message-id", "m1")]
    for over in (over_mqtt, over_kafka):
        back = from_rabbitmq(amqp.encode(over(sent), NOW, amqp.Rules()).properties)
        assert set(sent.headers) <= set(back.headers)


def test_standard_fields_are_headers_of_their_names_in_kafka() -> None:
    headers = (Header("MGW_MQTT_contentType", TEXT, "text/css"), Header("MGW_MQTT_responseTopic", TEXT, "a/b"))
    assert kafka.to_record(Message(b"x", headers), kafka.Rules(), NOW).headers == [
        ("content-type", b"text/css"),
        ("reply-to", b"a/b"),
    ]


def test_timestamp_of_rabbitmq_is_that_of_the_record() -> None:
    message = Message(b"x", (Header("MGW_AMQP_timestamp", ValueType.DATE, 1_600_000_000.0),), enqueue_time=NOW)
    record = kafka.to_record(message, kafka.Rules(), NOW)
    assert (record.timestamp, record.headers) == (1_600_000_000_000, [])
    again = from_rabbitmq(amqp.encode(over_kafka(message), NOW, amqp.Rules()).properties)
    assert again.header("MGW_AMQP_timestamp") == 1_600_000_000.0


def test_timestamp_of_rabbitmq_comes_back_from_a_topic_that_writes_its_own() -> None:
    time = Header("MGW_AMQP_timestamp", ValueType.DATE, 1_600_000_000.0)
    for message in (Message(b"x", (time,), msgid=bytes(16), enqueue_time=NOW), Message(None, (time,))):
        record = kafka.to_record(message, kafka.Rules(), NOW, window=None)
        received = Received(
            record.value, record.key, tuple(record.headers), timestamp=int(NOW) * 1000, timestamp_type=1
        )
        found, _ = kafka.from_record(received, kafka.origin_headers("t", 0), kafka.Rules(), NOW)
        back = from_rabbitmq(amqp.encode(found, NOW, amqp.Rules()).properties)
        assert back.header("MGW_AMQP_timestamp") == time.value


def test_message_of_an_exception_topic_has_the_time_of_its_failure() -> None:
    """The topic may delete older records at once."""
    message = Message(b"x", (Header("MGW_AMQP_timestamp", ValueType.DATE, 1.0),), enqueue_time=NOW)
    record = kafka.to_record(message, kafka.Rules(original=True), NOW)
    assert record.timestamp == int(NOW) * 1000
    assert ("MGW_AMQP_timestamp", b"1.0") in record.headers


@pytest.mark.parametrize("original", [False, True])
@pytest.mark.parametrize("name", ["CC", "x-death", "message-id"])
def test_name_that_means_something_to_rabbitmq_only_is_hidden_from_it(name: str, original: bool) -> None:
    received = Received(b"v", None, ((name, b"\xff"),))
    message, _ = kafka.from_record(received, kafka.origin_headers("t", 0), kafka.Rules(), NOW)
    assert message.headers[-1] == Header(name, ValueType.RAW, b"\xff")
    content = amqp.encode(Message(b"v", (message.headers[-1],) * 2), NOW, amqp.Rules(original=original))
    assert b"MGW_H_" + name.encode() + b"x" in content.properties
    assert from_rabbitmq(content.properties).header(name) == b"\xff"


def test_name_that_only_begins_like_a_hidden_one_is_kept() -> None:
    assert from_rabbitmq(table(b"\x07MGW_H_xt\x01")).headers[-1] == Header("MGW_H_x", ValueType.BOOLEAN, value=True)


@pytest.mark.parametrize(
    "header",
    [
        Header("MGW_AQ_sender", ValueType.JSON, "null"),
        Header("MGW_AMQP_x", ValueType.JSON, "null"),
        Header("MGW_KAFKA_H_MGW_x", ValueType.JSON, "null"),
        Header("MGW_KAFKA_H_MGW_x", TEXT, mqtt.FIELDS_CONTENT_TYPE),
        Header("MGW_MQTT_contentType", TEXT, mqtt.FIELDS_CONTENT_TYPE),
        Header("x", TEXT, mqtt.FIELDS_CONTENT_TYPE),
    ],
)
def test_header_of_a_rare_kind_comes_back_from_kafka(header: Header) -> None:
    assert over_kafka(Message(b"x", (header,))).headers[-1] == header


@pytest.mark.parametrize("row", [row for row in MQTT_ROWS if row.kind is not None and not row.of_message])
def test_mqtt_3_carries_what_its_table_says_and_the_envelope_all_of_it(row: Row) -> None:
    values = {TEXT: "v", ValueType.RAW: b"v", ValueType.BOOLEAN: True, ValueType.INTEGER: 1}
    header = Header(row.name, row.kind or TEXT, values[row.kind or TEXT])
    (plain,) = (each for each in ROWS_3 if each.name == row.name)
    for envelope in (False, True):
        publish = mqtt.outbound(Message(b"x", (header,)), mqtt.Outbound(TopicTemplate("v"), 4, envelope=envelope), NOW)
        assert publish.properties is mqtt.NO_PROPERTIES
        found, failure = mqtt.inbound(publish, mqtt.Inbound(envelope=envelope))
        assert failure is None
        names = [each.name for each in found.headers]
        assert (row.name in names) == (envelope or plain.read)
        if envelope and row.name not in HOP:
            assert header in found.headers


def test_tables_of_mqtt_3_have_a_row_for_each_of_mqtt_5() -> None:
    assert [row.name for row in ROWS_3] == [row.name for row in MQTT_ROWS]
    assert {row.name for row in ENVELOPE_ROWS} >= HOP
    assert all(row.loss for row in ROWS_3 if not (row.sent or row.read))


def test_reply_to_that_is_no_topic_travels_as_a_header() -> None:
    header = Header("MGW_AMQP_replyTo", TEXT, "answers.#")
    assert header in over_mqtt(Message(b"x", (header,))).headers


def test_null_of_kafka_is_void_in_amqp_and_null_again() -> None:
    received = Received(b"v", None, (("n", None),))
    message, _ = kafka.from_record(received, kafka.origin_headers("t", 0), kafka.Rules(), NOW)
    content = amqp.encode(message, NOW, amqp.Rules())
    assert b"\x01nV" in content.properties
    assert from_rabbitmq(content.properties).headers[-1] == Header("n", ValueType.JSON, "null")


def test_documented_names_are_those_of_the_manual() -> None:
    properties = table(b"\x01hS\x00\x00\x00\x01v")
    message, _ = amqp.decode(properties, b"", b"", b"q", False, NOW, amqp.Rules(documented=True))
    assert message.headers[-1] == Header("MGW_AMQP_H_h", TEXT, "v")
    publish = mqtt.Publish("t", b"", properties=mqtt.Properties(user=(("h", "v"),)))
    message, _ = mqtt.inbound(publish, mqtt.Inbound(documented=True))
    assert message.headers[-1] == Header("MGW_MQTT_U_h", TEXT, "v")


@pytest.mark.parametrize("row", [row for rows in (AMQP_ROWS, KAFKA_ROWS, MQTT_ROWS) for row in rows if row.also])
def test_a_field_is_filled_from_headers_that_exist(row: Row) -> None:
    known = {each.name for rows in (AMQP_ROWS, KAFKA_ROWS, MQTT_ROWS) for each in rows}
    assert set(row.also) <= known


@pytest.mark.parametrize("over", ["kafka", "mqtt"])
def test_properties_of_the_hub_come_over_every_pair_of_brokers(over: str) -> None:
    """Each broker tells seconds as a number of its own type; none of them takes that of another for a mistake."""
    sent = Message(b"x", priority=3, exception_queue="E", enqueue_time=NOW, msgid=bytes(16))
    for expiration in (None, 60.0):
        properties = amqp.encode(replace(sent, expiration=expiration), NOW, amqp.Rules(aq_properties=True)).properties
        message, failure = amqp.decode(properties, b"x", b"", b"q", False, NOW, amqp.Rules(aq_properties=True))
        assert failure is None
        if over == "kafka":
            record = kafka.to_record(message, kafka.Rules(properties=True), NOW)
            received = Received(record.value, record.key, tuple(record.headers), timestamp=record.timestamp or -1)
            found, failure = kafka.from_record(
                received, kafka.origin_headers("t", 0), kafka.Rules(properties=True), NOW
            )
        else:
            publish = mqtt.outbound(message, mqtt.Outbound(TopicTemplate("t"), aq_properties=True), NOW)
            found, failure = mqtt.inbound(publish, mqtt.Inbound(aq_properties=True))
        assert failure is None
        properties = amqp.encode(found, NOW, amqp.Rules(aq_properties=True)).properties
        back, failure = amqp.decode(properties, b"x", b"", b"q", False, NOW, amqp.Rules(aq_properties=True))
        assert failure is None
        for each in (found, back):
            assert (each.priority, each.exception_queue, each.expiration) == (3, "E", expiration)


def test_message_of_mqtt_that_never_expires_never_expires_over_kafka() -> None:
    publish = mqtt.outbound(Message(b"x"), mqtt.Outbound(TopicTemplate("t"), aq_properties=True), NOW)
    message, _ = mqtt.inbound(publish, mqtt.Inbound(aq_properties=True))
    record = kafka.to_record(message, kafka.Rules(properties=True), NOW)
    received = Received(record.value, record.key, tuple(record.headers))
    found, failure = kafka.from_record(received, kafka.origin_headers("t", 0), kafka.Rules(properties=True), NOW)
    assert (failure, found.expiration, found.delay) == (None, None, 0.0)
    content = amqp.encode(message, NOW, amqp.Rules(aq_properties=True))
    found, failure = amqp.decode(content.properties, b"x", b"", b"q", False, NOW, amqp.Rules(aq_properties=True))
    assert (failure, found.expiration) == (None, None)
