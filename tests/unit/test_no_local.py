"""JMS_NoLocal and JMS_DeliveryMode in the maps: whose message it is, and in which mode it is sent."""

from __future__ import annotations

import pytest

from mgw.transforms import amqp, kafka, mqtt
from mgw.transforms.message import Header, Message, ValueType
from mgw.transforms.mqtt.topic import TopicTemplate
from mgw.transforms.no_local import NoLocal

NOW = 1_700_000_000.0
HUB, OTHER = bytes(range(8)), bytes(range(8, 16))
LOCAL = NoLocal(HUB)


def over_amqp(message: Message, rules: amqp.Rules = amqp.Rules()) -> Message:  # noqa: B008  frozen
    content = amqp.encode(message, NOW, rules)
    return amqp.decode(content.properties, content.body, b"", b"q", False, NOW, rules)[0]


def over_kafka(message: Message) -> Message:
    record = kafka.to_record(message, kafka.Rules(), NOW)

    class Received:
        value, key, headers = record.value, record.key, record.headers
        offset, timestamp, timestamp_type = 0, -1, 0

    return kafka.from_record(Received(), kafka.origin_headers("t", 0), kafka.Rules(), NOW)[0]


def over_mqtt(message: Message) -> Message:
    return mqtt.inbound(mqtt.outbound(message, mqtt.Outbound(TopicTemplate("t")), NOW), mqtt.Inbound())[0]


def sent_by(hub: bytes, *headers: Header) -> Message:
    return Message(b"x", headers, msgid=hub + (5).to_bytes(8))


@pytest.mark.parametrize("over", [over_amqp, over_kafka, over_mqtt])
def test_the_last_hub_that_published_counts(over: object) -> None:
    assert callable(over)
    assert LOCAL(over(sent_by(HUB)))
    assert not LOCAL(over(sent_by(OTHER)))
    assert not LOCAL(over(Message(b"x")))
    once_mine = over(sent_by(HUB))
    by_other = Message(b"x", once_mine.headers, msgid=OTHER + bytes(8))
    assert not LOCAL(over(by_other)) or over is over_amqp  # there the id that came stays the message-id
    once_theirs = over(sent_by(OTHER))
    assert LOCAL(over(Message(b"x", once_theirs.headers, msgid=HUB + bytes(8)))) or over is over_amqp


def test_an_id_of_the_application_is_told_by_the_preserved_id_or_the_trail() -> None:
    own = Header("MGW_AMQP_messageId", ValueType.TEXT, "order-7")
    assert not LOCAL(over_amqp(sent_by(HUB, own)))
    assert LOCAL(over_amqp(sent_by(HUB, own), amqp.Rules(preserve_id=True)))
    mine, theirs = f"in@{HUB.hex()[:8]}*1", f"out@{OTHER.hex()[:8]}*2"
    for trail, local in ((f"{theirs}, {mine}", True), (f"{mine}, {theirs}", False), ("nonsense", False)):
        assert LOCAL(Message(b"x", (own, Header("MGW_trail", ValueType.TEXT, trail)))) is local


def test_a_forged_or_broken_id_is_not_ours() -> None:
    for value in ("AQMSGID:", "AQMSGID:zz", HUB.hex(), ""):
        assert not LOCAL(Message(b"x", (Header("MGW_AQ_messageID", ValueType.TEXT, value),)))


@pytest.mark.parametrize(
    ("chosen", "headers", "mode"),
    [
        (2, (Header("JMSDeliveryMode", ValueType.INTEGER, 1),), 2),
        (1, (), 1),
        (0, (), 2),
        (0, (Header("MGW_AMQP_deliveryMode", ValueType.INTEGER, 1),), 1),
        (0, (Header("MGW_AMQP_deliveryMode", ValueType.INTEGER, 7),), 2),
        (
            0,
            (
                Header("MGW_AMQP_deliveryMode", ValueType.INTEGER, 1),
                Header("JMSDeliveryMode", ValueType.INTEGER, 2),
            ),
            2,
        ),
    ],
)
def test_the_delivery_mode_is_the_chosen_one_or_that_of_the_message(
    chosen: int, headers: tuple[Header, ...], mode: int
) -> None:
    rules = amqp.Rules(delivery_mode=chosen)
    assert over_amqp(Message(b"x", headers), rules).header("MGW_AMQP_deliveryMode") == mode
    for _ in range(3):  # the form that is learnt has it, too
        message = Message(b"x", headers, msgid=bytes(16), enqueue_time=NOW)
        content = amqp.encode_known(message, rules) or amqp.encode(message, NOW, rules)
        found = amqp.decode(content.properties, content.body, b"", b"q", False, NOW, rules)[0]
        assert found.header("MGW_AMQP_deliveryMode") == mode
