"""What publishers may send and nobody expects: each map gives a message or the reason, and raises nothing else."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import NamedTuple

import pytest

from mgw.transforms import amqp, kafka, mqtt
from mgw.transforms.errors import ConversionFailure
from mgw.transforms.message import Header, Message, ValueType
from mgw.transforms.mqtt.common import FIELDS_CONTENT_TYPE

DEEP = "[" * 100_000


class TestHeaderArrays:
    """As fields in a payload and as parts of an envelope; both are written by anybody."""

    @pytest.mark.parametrize(
        "text",
        [
            "no JSON",
            "{}",
            "7",
            "null",
            DEEP,
            "[1]",
            '[["a", 1]]',
            '[["a", 1, "x", 2]]',
            '[[1, 1, "x"]]',
            '[["a", 99, "x"]]',
            '[["a", true, "x"]]',
            '[["a", 1.0, "x"]]',
            '[["a", [], "x"]]',
            '[["a", 1, 7]]',
            '[["a", 1, null]]',
            '[["a", 2, "no base64"]]',
            '[["a", 2, 7]]',
            '[["a", 3, 1]]',
            '[["a", 6, "7"]]',
            '[["a", 6, 7.5]]',
            '[["a", 6, true]]',
            '[["a", 9, true]]',
            '[["a", 9, "x"]]',
            f'[["a", 9, {"9" * 400}]]',
            '[["a", 11, {}]]',
        ],
        ids=lambda text: text[:24],
    )
    def test_what_is_none_fails_with_the_reason(self, text: str) -> None:
        properties = mqtt.Properties(content_type=FIELDS_CONTENT_TYPE)
        message, failure = mqtt.inbound(mqtt.Publish("t", text.encode(), properties=properties), mqtt.Inbound())
        assert failure is not None
        assert message.body == text.encode()
        try:
            array = json.loads(text)
        except (ValueError, RecursionError):
            return
        for parts in ({"headers": array, "body_type": "none"}, {"headers": [], "body_type": "fields", "body": array}):
            document = json.dumps({"mgw": 1} | parts).encode()
            message, failure = mqtt.inbound(mqtt.Publish("t", document), mqtt.Inbound(envelope=True))
            assert failure is not None
            assert message.body == document

    def test_each_type_is_read(self) -> None:
        fields = (
            Header("a", ValueType.TEXT, "x"),
            Header("b", ValueType.RAW, b"\xff"),
            Header("c", ValueType.BOOLEAN, True),
            *(Header(kind.name, kind, 7) for kind in (ValueType.BYTE, ValueType.LONG, ValueType.UINT)),
            Header("d", ValueType.DOUBLE, 1.5),
            Header("e", ValueType.FLOAT, float("inf")),
            Header("f", ValueType.DATE, 7.0),
            Header("g", ValueType.JSON, "[null]"),
            Header("h", ValueType.DECIMAL, "1.50"),
        )
        text = (
            '[["a",1,"x"],["b",2,"/w=="],["c",3,true],["BYTE",4,7],["LONG",7,7],["UINT",15,7],["d",9,1.5],["e",8,"inf"],'
            '["f",10,7],["g",11,"[null]"],["h",12,"1.50"]]'
        )
        properties = mqtt.Properties(content_type=FIELDS_CONTENT_TYPE)
        message, failure = mqtt.inbound(mqtt.Publish("t", text.encode(), properties=properties), mqtt.Inbound())
        assert failure is None
        assert message.body == fields


class Received(NamedTuple):
    """A Kafka record as read."""

    headers: Sequence[tuple[str, bytes | None]]
    value: bytes | None = b"v"
    key: bytes | None = None
    offset: int = 7
    timestamp: int = -1
    timestamp_type: int = 0


class TestTypesOfHeaders:
    """``MGW_types``, which a gateway writes and anybody can."""

    @pytest.mark.parametrize("text", ['{"a":1e999}', '{"a":[1e999]}', '{"a":-1e999}', '{"a":NaN}', DEEP[:60_000]])
    def test_over_mqtt_what_is_none_fails_with_the_reason(self, text: str) -> None:
        properties = mqtt.Properties(user=(("a", "1"), ("MGW_types", text)))
        message, failure = mqtt.inbound(mqtt.Publish("t", b"x", properties=properties), mqtt.Inbound())
        assert failure is not None
        assert message.header("MGW_MQTT_U_MGW_types") == text

    def test_over_kafka_what_is_none_is_a_header_like_any_other(self) -> None:
        record = Received([("a", b"1"), ("MGW_types", DEEP.encode()[:1000] * 2)])
        message, failure = kafka.from_record(record, kafka.origin_headers("t", 0), kafka.Rules(), 0)
        assert failure is None
        assert [header.name for header in message.headers][-2:] == ["a", "MGW_KAFKA_H_MGW_types"]

    def test_over_kafka_a_sender_may_have_any_name(self) -> None:
        record = Received([("MGW_AQ_sender", DEEP.encode()[:2000])])
        message, failure = kafka.from_record(record, kafka.origin_headers("t", 0), kafka.Rules(properties=True), 0)
        assert failure is None
        assert message.sender_name == DEEP[:2000]


class TestCharsets:
    """Names that Python takes for character sets."""

    @pytest.mark.parametrize("name", ["undefined", "idna", "punycode", "unicode_escape", "Raw-Unicode-Escape", "hex"])
    def test_what_is_none_leaves_the_body_as_it_is(self, name: str) -> None:
        """Some would take minutes for a body of a megabyte."""
        kind = f"text/plain; charset={name}".encode()
        properties = struct.pack(">HB", 0x8000, len(kind)) + kind
        for body in (b"abc-" * 1_000_000, b"xn--abc"):
            message, failure = amqp.decode(properties, body, b"", b"q", False, 0, amqp.Rules())
            assert failure is None
            assert message.body == body
            assert amqp.encode(message, 0, amqp.Rules()).body == body
        with pytest.raises(ConversionFailure, match="character set"):
            amqp.encode(Message("x", (Header("MGW_AMQP_contentEncoding", ValueType.TEXT, name),)), 0, amqp.Rules())
        with pytest.raises(ConversionFailure, match="character set"):
            amqp.encode(Message("x", message.headers), 0, amqp.Rules())
