"""The eight reserved names: each is sent and read by the map of each broker as the one table says, and no other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from mgw.transforms import amqp, kafka, mqtt
from mgw.transforms.aq_properties import AQ_PROPERTIES, BY_NAME, AqProperty, property_value
from mgw.transforms.errors import ConversionFailure
from mgw.transforms.message import MAX_SECONDS, Header, Message, ValueType
from mgw.transforms.mqtt.topic import TopicTemplate

NOW = 1_700_000_000.0
FULL: dict[str, Any] = {
    "priority": -7,
    "expiration": 90.2,
    "delay": 0,
    "correlation": "c" * 128,
    "exception_queue": "S.EXC",
    "enqueue_time": NOW - 5,
    "original_msgid": b"o" * 16,
    "msgid": b"i" * 16,
}
#: Values that each property may have at most, and the nearest that it may not.
EDGES: dict[str, tuple[tuple[Any, ...], tuple[Any, ...]]] = {
    "priority": ((-(2**63), 2**63 - 1, 0), (2**63, -(2**63) - 1)),
    "expiration": ((0, -1, MAX_SECONDS), ()),
    "delay": ((0, MAX_SECONDS - 1), (-1, MAX_SECONDS)),
    "correlation": (("", "é" * 128), ("c" * 129,)),
    "exception_queue": (("", "q" * 4000), ("q" * 4001,)),
}


class Received(NamedTuple):
    value: bytes | None
    key: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    offset: int = 0
    timestamp: int = -1
    timestamp_type: int = 0


Both = tuple[Message, ConversionFailure | None]


def over_amqp(message: Message, *, send: bool = True, read: bool = True) -> Both:
    content = amqp.encode(message, NOW, amqp.Rules(aq_properties=send, preserve_id=send, max_priority=0))
    return amqp.decode(
        content.properties, content.body, b"", b"q", False, NOW, amqp.Rules(aq_properties=read, max_priority=0)
    )


def over_kafka(message: Message, *, send: bool = True, read: bool = True) -> Both:
    record = kafka.to_record(message, kafka.Rules(kafka.KeyFrom.NONE, properties=send), NOW)
    received = Received(record.value, record.key, tuple(record.headers))
    rules = kafka.Rules(kafka.KeyFrom.NONE, properties=read)
    return kafka.from_record(received, kafka.origin_headers("t", 0), rules, NOW)


def over_mqtt(message: Message, *, send: bool = True, read: bool = True) -> Both:
    publish = mqtt.outbound(message, mqtt.Outbound(TopicTemplate("t"), aq_properties=send), NOW)
    fields = mqtt.Properties(user=publish.properties.user)  # what MQTT has fields for is not told by them
    return mqtt.inbound(publish._replace(properties=fields), mqtt.Inbound(aq_properties=read))


BROKERS = {"rabbitmq": over_amqp, "kafka": over_kafka, "mqtt": over_mqtt}


@pytest.fixture(params=BROKERS)
def over(request: pytest.FixtureRequest) -> Callable[..., Both]:
    return BROKERS[request.param]


def test_they_are_the_eight_of_the_manual() -> None:
    names = "priority expiration delay correlation exception_queue enqueue_time original_msgid messageID"
    assert [each.name for each in AQ_PROPERTIES] == [f"MGW_AQ_{name}" for name in names.split()]
    assert [each.field for each in AQ_PROPERTIES if not each.read] == ["enqueue_time", "original_msgid", "msgid"]


@pytest.mark.parametrize("known", AQ_PROPERTIES, ids=lambda each: each.field)
def test_each_travels(known: AqProperty, over: Callable[..., Both]) -> None:
    sent = Message(b"x", **FULL)
    found, failure = over(sent)
    assert failure is None
    if known.read:
        wanted = FULL[known.field]
        assert getattr(found, known.field) == (pytest.approx(wanted, abs=1) if known.field == "expiration" else wanted)
    plain, failure = over(sent, read=False)
    assert failure is None
    header = {each.name: each for each in plain.headers}.get(known.name)
    if over is over_kafka and known.field == "delay":
        assert header is None  # 0 is the default
        return
    assert header is not None
    if known.field == "msgid" and over is over_mqtt:  # MQTT always has it, as text
        assert header == Header(known.name, ValueType.TEXT, "AQMSGID:" + (b"i" * 16).hex())
    elif known.field in {"expiration", "delay"}:
        assert header.value == {"expiration": 91, "delay": 0}[known.field]
    else:
        assert header.value == FULL[known.field]


@pytest.mark.parametrize("known", [each for each in AQ_PROPERTIES if each.read], ids=lambda each: each.field)
def test_none_is_set_unless_the_reader_asks(known: AqProperty, over: Callable[..., Both]) -> None:
    found, _ = over(Message(b"x", **FULL), read=False)
    default = getattr(Message(), known.field)
    brokers_own = known.field in {"priority", "expiration", "correlation"} and over is over_amqp
    assert getattr(found, known.field) == default or brokers_own


@pytest.mark.parametrize("field", EDGES)
def test_the_whole_range_is_read_and_nothing_beyond(field: str) -> None:
    known = next(each for each in AQ_PROPERTIES if each.field == field)
    kind = ValueType.LONG if known.kind is ValueType.INTEGER else known.kind
    good, bad = EDGES[field]
    for value in good:
        never = field == "expiration" and not 0 <= value < MAX_SECONDS
        assert property_value(known.name, kind, value) == (None if never else value)
    for value in bad:
        with pytest.raises(ConversionFailure, match=known.name):
            property_value(known.name, kind, value)


@pytest.mark.parametrize("name", BY_NAME)
def test_the_wrong_type_fails_the_message_and_no_other(name: str, over: Callable[..., Both]) -> None:
    number = BY_NAME[name].kind is ValueType.INTEGER
    wrong = Header(name, ValueType.TEXT, "much") if number else Header(name, ValueType.RAW, b"\xff\xfe")
    message, failure = over(Message(b"x", (wrong,)), send=False)
    assert failure is not None
    assert name in str(failure)
    assert message.body == b"x"
    assert over(Message(b"x", (wrong,)), send=False, read=False)[1] is None


@pytest.mark.parametrize(("name", "value"), [("MGW_AQ_delay", -1), ("MGW_AQ_correlation", "c" * 129)])
def test_what_is_out_of_range_fails_the_message(name: str, value: Any, over: Callable[..., Both]) -> None:
    kind = ValueType.TEXT if isinstance(value, str) else ValueType.INTEGER
    _, failure = over(Message(b"x", (Header(name, kind, value),)), send=False)
    assert failure is not None
    assert name in str(failure)


@pytest.mark.parametrize("value", [-1, MAX_SECONDS])
def test_never_and_beyond_never_is_never(value: int, over: Callable[..., Both]) -> None:
    header = Header("MGW_AQ_expiration", ValueType.LONG, value)
    found, failure = over(Message(b"x", (header,)), send=False)
    assert failure is None
    assert found.expiration is None


def test_a_plain_client_of_mqtt_writes_numbers_as_text() -> None:
    user = (("MGW_AQ_priority", "3"), ("MGW_AQ_delay", "2.5"), ("MGW_AQ_priority", "9"))
    publish = mqtt.Publish("t", b"x", properties=mqtt.Properties(user=user))
    found, failure = mqtt.inbound(publish, mqtt.Inbound(aq_properties=True))
    assert failure is None
    assert (found.priority, found.delay) == (3, 2.5)
