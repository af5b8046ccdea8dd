"""The parsers that see bytes of other programs, for :mod:`tests.support.fuzz`."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from kafka import TopicPartition
from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder

from mgw.links.kafka.python_client.record_decoder import read_records
from mgw.links.kafka.python_client.records import _PartitionRecords
from mgw.links.mqtt.codec import Malformed, encode_publish, parse_publish
from mgw.links.mqtt.plain_publish import PlainPublishes
from mgw.links.mqtt.wire import Wire
from mgw.links.rabbitmq.frames import FrameScanner
from mgw.transforms import amqp, kafka, mqtt
from mgw.transforms.errors import ConversionFailure
from mgw.transforms.message import Header, Message, ValueType
from mgw.transforms.mqtt.topic import TopicTemplate
from tests.property.test_kafka_fetched import resealed
from tests.support.fuzz import Target
from tests.support.fuzz_bodies import JSON_TOKENS, NOW, body_targets, shape_of, sound
from tests.support.fuzz_http import http_targets
from tests.unit.test_header_names import FIELDS, table

__all__ = ["targets"]

_NOT_WELL_FORMED = (ValueError, IndexError, struct.error)


# -- RabbitMQ ---------------------------------------------------------------------------------------------------------

_AMQP_RULES = amqp.Rules(), amqp.Rules(aq_properties=True), amqp.Rules(original=True), amqp.Rules(documented=True)


def _amqp(data: bytes) -> object:
    shape: object = None
    for rules in _AMQP_RULES:
        message = sound(amqp.decode(data, b"\xffbody", b"x", b"k", False, NOW, rules))
        if message is None:
            continue
        shape = shape or shape_of(message)
        try:
            content = amqp.encode(message, NOW, rules)
        except ConversionFailure:
            continue
        sound(amqp.decode(content.properties, content.body, b"", b"k", False, NOW, rules))
    return shape


def _amqp_inputs() -> Iterator[bytes]:
    entries = [b"\x06tenant" + code.encode() + value for code, value in FIELDS.items()]
    yield table(*entries)
    yield from map(table, entries)
    message = Message(
        "text",
        (
            Header("MGW_AMQP_contentType", ValueType.TEXT, "text/plain; charset=utf-8"),
            Header("MGW_AMQP_replyTo", ValueType.TEXT, "r"),
            Header("MGW_AMQP_timestamp", ValueType.DATE, 1e9),
            Header("MGW_AMQP_userId", ValueType.TEXT, "u"),
            Header("own", ValueType.JSON, '{"a":[1,{"$table":[["a",null],["a",2.5]]}]}'),
        ),
        correlation="c",
        expiration=60,
        exception_queue="E",
        msgid=bytes(16),
    )
    yield amqp.encode(message, NOW, amqp.Rules(aq_properties=True, preserve_id=True)).properties


def _frames(data: bytes) -> object:
    found: list[object] = []
    scanner = FrameScanner(
        1, found.append, lambda *what: found.append(what), found.append, lambda: found.append("commit")
    )
    step = 1 + len(data) % 40
    for at in range(0, len(data), step):
        scanner.feed(data[at : at + step])
    return len(found), len(scanner.deliveries), scanner.in_frame


def _frame_inputs() -> Iterator[bytes]:
    from pika import frame, spec

    properties = spec.BasicProperties(content_type="a", headers={"a": 1})
    pieces = [
        frame.Method(1, spec.Basic.Deliver("tag", 7, False, "x", "key")).marshal(),
        frame.Header(1, 4, properties).marshal(),
        frame.Body(1, b"bo").marshal(),
        frame.Body(1, b"dy").marshal(),
        frame.Method(1, spec.Basic.Return(312, "NO_ROUTE", "x", "key")).marshal(),
        frame.Header(1, 0, properties).marshal(),
        frame.Method(1, spec.Basic.Ack(3, True)).marshal(),
        frame.Method(1, spec.Basic.Nack(3, True)).marshal(),
        frame.Method(1, spec.Tx.CommitOk()).marshal(),
        frame.Heartbeat().marshal(),
    ]
    yield b"".join(pieces)
    yield from pieces


# -- Kafka ------------------------------------------------------------------------------------------------------------

_KAFKA_RULES = (
    kafka.Rules(),
    kafka.Rules(properties=True),
    kafka.Rules(text_value=True, text_headers=True, original=True),
    kafka.Rules(documented=True),
)
_RECORDS: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]] = [
    (b"k", b"value", [("a", b"1"), ("a", None), ("MGW_types", b'{"a":"Ln"}'), ("b", b"\xff")]),
    (None, None, [("MGW_AQ_messageID", bytes(16))]),
    (
        b"\xff",
        b"{}",
        [
            ("MGW_AQ_priority", b"3"),
            ("MGW_AQ_expires_at", b"1700000001000"),
            ("MGW_AQ_expiration", b"60"),
            ("MGW_AQ_delay", b"1.5"),
            ("MGW_AQ_sender", b'{"name":"n"}'),
            ("MGW_AQ_original_msgid", bytes(16)),
            ("MGW_types", b'{"x":"A","MGW_AQ_delay":"D"}'),
            ("x", b"1e9"),
        ],
    ),
]


def _batch(codec: int) -> bytes:
    batch = MemoryRecordsBuilder(2, codec, 1 << 16)
    for number, (key, value, headers) in enumerate(_RECORDS):
        batch.append(1_700_000_000_000 + number, key, value, headers)
    batch.close()
    return bytes(batch.buffer())


def _messages(records: list[Any]) -> object:
    shape: object = None
    for record in records:
        for rules in _KAFKA_RULES:
            message = sound(kafka.from_record(record, kafka.origin_headers("t", 0), rules, NOW))
            shape = shape or shape_of(message)
            if message is not None:
                try:
                    kafka.to_record(message, rules, NOW)
                except ConversionFailure:
                    continue
    return shape


def _records(data: bytes) -> object:
    return _messages(list(read_records(data, 0, len(_RECORDS), 0, 0, None)))


class _DamagedError(Exception):
    """A batch cannot be read to its end."""


def _batches(data: bytes) -> object:
    """As a server sends it: with a checksum that fits, so that the damage is found behind it."""
    whole = resealed(data) if len(data) > 61 else data
    part: Any = _PartitionRecords(0, TopicPartition("t", 0), MemoryRecords(whole))
    found: list[Any] = []
    damage: Exception | None = None
    try:
        while part:
            found += part.take(2)
    except Exception as error:  # of a codec, too: the source tells any of them as that of its partition
        damage = error
    shape = _messages(found)
    if damage is not None:
        raise _DamagedError(type(damage).__name__)
    return len(found), shape


# -- MQTT -------------------------------------------------------------------------------------------------------------

_MQTT_RULES = (
    mqtt.Inbound(),
    mqtt.Inbound(text=True, aq_properties=True),
    mqtt.Inbound(envelope=True, aq_properties=True),
    mqtt.Inbound(documented=True),
)


def _publish(data: bytes) -> object:
    """The first byte of the fixed header, and what follows its length."""
    shape: object = None
    for version in (5, 4):
        _, publish = parse_publish(data[0] if data else 0x32, data[1:], version)
        for rules in _MQTT_RULES:
            message = sound(mqtt.inbound(publish, rules))
            PlainPublishes(rules, version, digests=True).read(data[0] if data else 0x32, data[1:])
            shape = shape or shape_of(message)
            if message is None:
                continue
            try:
                encode_publish(mqtt.outbound(message, mqtt.Outbound(TopicTemplate("t"), version), NOW), version)
            except ConversionFailure:
                continue
    return shape


def _publish_inputs() -> Iterator[bytes]:
    user = (("a", "1"), ("b", "AP8="), ("MGW_types", '{"a":7,"b":[2,100]}'), ("MGW_AQ_priority", "3"), ("b", "YQ=="))
    full = mqtt.Properties(1, 60, "text/plain", "answers", b"c", user)
    fields = mqtt.Properties(content_type=mqtt.FIELDS_CONTENT_TYPE)
    for publish in (
        mqtt.Publish("a/b", b"text", properties=full),
        mqtt.Publish("a", b'[["n",7,1],["r",2,"AP8="]]', properties=fields),
        mqtt.Publish("a", b"x"),
        *(mqtt.Publish("e", each) for each in _ENVELOPES),
    ):
        head, tail = encode_publish(publish, 5)
        start = next(at for at in range(1, 5) if head[at] < 0x80) + 1
        yield head[:1] + head[start:] + b"\0\7" + tail


_ENVELOPES = (
    b'{"mgw":1,"headers":[["a",1,"x"],["b",2,"AP8="],["c",9,"nan"]],"body_type":"text","body":"t","expiration":6}',
    b'{"mgw":1,"headers":[],"correlation":"c","body_type":"fields","body":[["n",7,1]]}',
    b'{"mgw":1,"headers":[["MGW_AQ_delay",9,1.5]],"body_type":"raw","body":"AP8="}',
)


def _envelope(data: bytes) -> object:
    return shape_of(sound(mqtt.inbound(mqtt.Publish("t", data), mqtt.Inbound(envelope=True, aq_properties=True))))


def _mqtt_stream(data: bytes) -> object:
    wire: Any = Wire.__new__(Wire)  # without its socket
    wire._in, wire._need, wire._link, wire._client_id = bytearray(), 2, "l", "c"
    wire._ended, wire._ping_at, wire._broken = None, None, False
    found = 0
    step = 1 + len(data) % 40
    for at in range(0, len(data), step):
        wire._in += data[at : at + step]
        for _ in wire._frames():
            found += 1
    return found


@cache
def targets() -> tuple[Target, ...]:
    """All of them."""
    records = bytes(_batch(0))[61:]
    made: list[tuple[str, Callable[[bytes], object], Any, tuple[type[Exception], ...], Any]] = [
        ("amqp-headers", _amqp, _amqp_inputs(), (), [bytes((ord(code),)) for code in FIELDS]),
        ("amqp-frames", _frames, _frame_inputs(), _NOT_WELL_FORMED, (b"\xce", b"\0\x3c\0\x3c")),
        (
            "kafka-records",
            _records,
            [records],
            (ValueError, IndexError),
            (b"MGW_types", b"MGW_AQ_delay", b"nan", b"1e999"),
        ),
        ("kafka-batches", _batches, [_batch(codec) for codec in (0, 1)], (_DamagedError,), ()),
        (
            "mqtt-publish",
            _publish,
            _publish_inputs(),
            (Malformed,),
            (b"\x26", b"MGW_types", b"MGW_AQ_delay", b"nan", *JSON_TOKENS),
        ),
        (
            "mqtt-stream",
            _mqtt_stream,
            [b"\x32\x05\0\1t\0\7\xd0\0\x40\2\0\7\xe0\0"],
            (Malformed,),
            (b"\xff\xff\xff\x7f",),
        ),
        ("mqtt-envelope", _envelope, _ENVELOPES, (), (*JSON_TOKENS, b'"headers"', b'"body_type"', b"fields", b"raw")),
    ]
    of_brokers = tuple(
        Target(name, parse, tuple(inputs), allowed, tokens) for name, parse, inputs, allowed, tokens in made
    )
    return of_brokers + body_targets() + http_targets()
