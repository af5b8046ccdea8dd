"""JMS messages of the hub over the maps of all brokers: kind, body, properties with their types, JMS headers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mgw.transforms import amqp, kafka, mqtt
from mgw.transforms.errors import ConversionFailure
from mgw.transforms.message import Body, Header, Message, PayloadKind, ValueType, find_header
from mgw.transforms.mqtt.topic import TopicTemplate
from mgw.transforms.objects import AnyData
from mgw.transforms.payloads.convert import fit_into, fit_out_of, from_payload, sendable
from mgw.transforms.payloads.jms import JMS_ANY, JMS_KINDS, KIND_HEADER, aq_priority, jms_priority

NOW = 1_700_000_000.0
ENTRIES = (
    Header("flag", ValueType.BOOLEAN, True),
    Header("b", ValueType.BYTE, -128),
    Header("s", ValueType.SHORT, 32767),
    Header("i", ValueType.INTEGER, 5),
    Header("l", ValueType.LONG, 5),
    Header("f", ValueType.FLOAT, 0.5),
    Header("d", ValueType.DOUBLE, float("inf")),
    Header("t", ValueType.TEXT, "é" * 5000),
    Header("r", ValueType.RAW, b"\x00\xff"),
)
BODIES: dict[str, Any] = {
    "TEXT": "süß",
    "BYTES": b"\x00\xfe",
    "MAP": ENTRIES,
    "STREAM": tuple(each._replace(name="") for each in ENTRIES),
    "OBJECT": b"\xac\xed\x00\x05sr",
    "MESSAGE": None,
}
PROPERTIES = (
    *(each for each in ENTRIES if each.name not in {"t", "r", "d"}),
    Header("t", ValueType.TEXT, "5"),
    Header("JMSType", ValueType.TEXT, "order"),
    Header("JMSReplyTo", ValueType.TEXT, "answers"),
    Header("JMSXGroupID", ValueType.TEXT, "g"),
)


def over_amqp(message: Message) -> Message:
    content = amqp.encode(message, NOW, amqp.Rules())
    return amqp.decode(content.properties, content.body, b"", b"q", False, NOW, amqp.Rules())[0]


def over_kafka(message: Message) -> Message:
    record = kafka.to_record(message, kafka.Rules(), NOW)

    class Received:
        value, key, headers = record.value, record.key, record.headers
        offset, timestamp, timestamp_type = 0, -1, 0

    return kafka.from_record(Received(), kafka.origin_headers("t", 0), kafka.Rules(), NOW)[0]


def over_mqtt(message: Message) -> Message:
    return mqtt.inbound(mqtt.outbound(message, mqtt.Outbound(TopicTemplate("t")), NOW), mqtt.Inbound())[0]


Over = Callable[[Message], Message]
BROKERS = {"rabbitmq": over_amqp, "kafka": over_kafka, "mqtt": over_mqtt}


@pytest.fixture(params=BROKERS)
def over(request: pytest.FixtureRequest) -> Over:
    return BROKERS[request.param]


def stored(kind: str, **given: Any) -> Message:
    body = AnyData(JMS_KINDS[kind], BODIES[kind]) if kind in JMS_KINDS else None
    return Message(body, PROPERTIES, PayloadKind.ANYDATA, msgid=bytes(range(16)), **given)


@pytest.mark.parametrize("kind", BODIES)
@pytest.mark.parametrize("generic", [True, False])
def test_each_kind_comes_back_with_its_body_properties_and_headers(kind: str, generic: bool, over: Over) -> None:
    payload_type = JMS_ANY if generic or kind == "MESSAGE" else JMS_KINDS[kind]
    sent = stored(kind, priority=2, correlation="c")
    found = fit_into(payload_type)(over(fit_out_of(payload_type)(sent)))
    assert found.body == sent.body
    if isinstance(found.body, AnyData) and kind in {"MAP", "STREAM"}:
        assert [each.type for each in found.body.value] == [each.type for each in BODIES[kind]]
    assert found.kind is PayloadKind.ANYDATA
    assert (found.priority, found.correlation) == (2, "c")
    for header in (*PROPERTIES, Header("JMSDeliveryMode", ValueType.INTEGER, 2)):
        assert [each for each in found.headers if each.name == header.name] == [header]
    assert find_header(found.headers, KIND_HEADER) is None
    assert find_header(found.headers, "JMSPriority") is None


def test_a_queue_of_one_kind_keeps_a_message_without_body(over: Over) -> None:
    sent = Message(None, (), PayloadKind.ANYDATA)
    assert fit_into(JMS_KINDS["TEXT"])(over(from_payload(sent, JMS_KINDS["TEXT"]))).body is None


def test_programs_see_readable_bodies_and_headers_and_the_fields_of_the_broker() -> None:
    sent = from_payload(stored("MAP", priority=0), JMS_ANY)
    assert str(sent.body).startswith('{"flag":true,"b":-128,')
    assert (sent.header(KIND_HEADER), sent.header("JMSPriority")) == ("MAP", 9)
    seen = over_amqp(sent)
    assert (seen.header("MGW_AMQP_type"), seen.header("MGW_AMQP_replyTo")) == ("order", "answers")
    assert over_mqtt(sent).header("MGW_MQTT_responseTopic") == "answers"
    assert over_kafka(sent).header("reply-to") == "answers"
    assert str(from_payload(stored("STREAM"), JMS_ANY).body).startswith('[["","BOOLEAN",true],["","BYTE",-128],')


def test_jms_messages_of_an_anydata_queue_travel_alike() -> None:
    assert sendable(stored("STREAM")) == from_payload(stored("STREAM"), "ANYDATA")
    assert sendable(stored("STREAM")).header(KIND_HEADER) == "STREAM"


@pytest.mark.parametrize(
    ("payload_type", "body", "expected"),
    [
        (JMS_ANY, "x", AnyData(JMS_KINDS["TEXT"], "x")),
        (JMS_ANY, b"x", AnyData(JMS_KINDS["BYTES"], b"x")),
        (JMS_ANY, None, None),
        (JMS_KINDS["TEXT"], b"x", AnyData(JMS_KINDS["TEXT"], "x")),
        (JMS_KINDS["OBJECT"], b"x", AnyData(JMS_KINDS["OBJECT"], b"x")),
        (JMS_KINDS["MAP"], b'{"a":1}', AnyData(JMS_KINDS["MAP"], (Header("a", ValueType.INTEGER, 1),))),
        (JMS_KINDS["STREAM"], '[["","BYTE",1]]', AnyData(JMS_KINDS["STREAM"], (Header("", ValueType.BYTE, 1),))),
    ],
)
def test_messages_of_programs_without_jms_become_what_the_queue_holds(
    payload_type: str, body: Body, expected: Body
) -> None:
    assert fit_into(payload_type)(Message(body)).body == expected


def test_fields_of_brokers_become_jms_headers() -> None:
    headers = (
        Header("MGW_AMQP_type", ValueType.TEXT, "order"),
        Header("MGW_AMQP_replyTo", ValueType.TEXT, "q"),
        Header("MGW_AMQP_deliveryMode", ValueType.INTEGER, 1),
        Header("MGW_AMQP_messageId", ValueType.TEXT, "m-7"),
    )
    found = fit_into(JMS_ANY, preserve=True)(Message("x", headers))
    assert [found.header(name) for name in ("JMSType", "JMSReplyTo", "JMSDeliveryMode")] == ["order", "q", 1]
    assert found.header("OracleMGW_OriginalMessageID") == "ID:m-7"
    assert fit_into(JMS_ANY)(Message("x", headers)).header("OracleMGW_OriginalMessageID") is None


def test_the_id_is_preserved_both_ways(over: Over) -> None:
    sent = over(from_payload(stored("TEXT"), JMS_ANY, preserve=True))
    assert sent.header("OracleMGW_OriginalMessageID") == f"ID:{bytes(range(16)).hex().upper()}"
    assert fit_into(JMS_ANY, preserve=True)(sent).header("OracleMGW_OriginalMessageID") == sent.header(
        "OracleMGW_OriginalMessageID"
    )
    plain = fit_into(JMS_ANY, preserve=True)(over(Message(b"x", msgid=bytes(range(16)))))
    assert str(plain.header("OracleMGW_OriginalMessageID")).upper() == f"ID:{bytes(range(16)).hex().upper()}"


@pytest.mark.parametrize(
    ("payload_type", "message", "cause"),
    [
        (JMS_KINDS["BYTES"], Message("x"), "not bytes"),
        (JMS_KINDS["BYTES"], Message(b"x", (Header(KIND_HEADER, ValueType.TEXT, "TEXT"),)), "kind TEXT"),
        (JMS_KINDS["TEXT"], Message(b"\xff"), "not UTF-8"),
        (JMS_KINDS["MAP"], Message("[1]"), "not an object"),
        (JMS_KINDS["TEXT"], Message(AnyData(JMS_KINDS["BYTES"], b"x")), "BYTES"),
        (JMS_ANY, Message(AnyData("SYS.VARCHAR2", "x")), "VARCHAR2"),
        (JMS_ANY, Message(b"x", (Header(KIND_HEADER, ValueType.TEXT, "MESSAGE"),)), "no body"),
        (JMS_ANY, Message(b"x", (Header(KIND_HEADER, ValueType.TEXT, "PICKLE"),)), "kinds of JMS messages"),
        (JMS_ANY, Message(b"x", (Header("JMSPriority", ValueType.INTEGER, 10),)), "from 0 to 9"),
        (JMS_ANY, Message(b"x", (Header("JMSPriority", ValueType.TEXT, "high"),)), "from 0 to 9"),
    ],
)
def test_what_does_not_fit_fails_alone(payload_type: str, message: Message, cause: str) -> None:
    with pytest.raises(ConversionFailure) as failure:
        fit_into(payload_type)(message)
    assert failure.value.number == 724
    assert cause in failure.value.cause


def test_priorities_run_in_opposite_directions() -> None:
    assert [jms_priority(each) for each in (-5, 0, 1, 9, 42)] == [9, 9, 8, 0, 0]
    assert [aq_priority(jms_priority(each)) for each in range(10)] == list(range(10))


def test_no_object_is_ever_opened(over: Over) -> None:
    bomb = b"cos\nsystem\n(S'exit 1'\ntR."
    sent = Message(AnyData(JMS_KINDS["OBJECT"], bomb), (), PayloadKind.ANYDATA)
    assert fit_into(JMS_ANY)(over(from_payload(sent, JMS_ANY))).body == sent.body
