"""Each numeric field of each map against the range of the other side: it is carried, kept, or fails alone."""

from __future__ import annotations

import json
import struct
from typing import NamedTuple

import pytest

from mgw.transforms import amqp, kafka, mqtt
from mgw.transforms.errors import ConversionFailure
from mgw.transforms.kafka import Window
from mgw.transforms.kafka.common import ANY_TIME
from mgw.transforms.message import MAX_SECONDS, Header, HeaderValue, Message, ValueType
from mgw.transforms.mqtt.topic import TopicTemplate

NOW = 1_700_000_000.0
MS = int(NOW) * 1000
HOUR = 3_600_000
ORIGINAL = "MGW_KAFKA_originalTimestamp"
AQ_AMQP, AQ_KAFKA = amqp.Rules(aq_properties=True), kafka.Rules(properties=True)
LIMITED = Window(MS - 24 * HOUR, MS + HOUR)


class Received(NamedTuple):
    """A Kafka record as read."""

    value: bytes | None = b"v"
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    offset: int = 7
    timestamp: int = -1
    timestamp_type: int = 0


def over_amqp(message: Message, rules: amqp.Rules = amqp.Rules(), later: float = 0) -> Message:  # noqa: B008  frozen
    content = amqp.encode(message, NOW, rules)
    found, failure = amqp.decode(content.properties, content.body, b"", b"q", False, NOW + later, rules)
    assert failure is None, failure
    return found


def over_kafka(
    message: Message, window: Window | None = ANY_TIME, rules: kafka.Rules = AQ_KAFKA
) -> tuple[kafka.Record, Message]:
    record = kafka.to_record(message, rules, NOW, window)
    stamp = MS if record.timestamp is None else record.timestamp
    received = Received(record.value, record.key, tuple(record.headers), timestamp=stamp)
    found, failure = kafka.from_record(received, kafka.origin_headers("t", 0), rules, NOW)
    assert failure is None, failure
    return record, found


def over_mqtt(message: Message, *, envelope: bool = False) -> tuple[mqtt.Publish, Message]:
    rules = mqtt.Outbound(TopicTemplate("t"), aq_properties=True, envelope=envelope)
    publish = mqtt.outbound(message, rules, NOW)
    found, failure = mqtt.inbound(publish, mqtt.Inbound(aq_properties=True, envelope=envelope))
    assert failure is None, failure
    return publish, found


def expiration_of(properties: bytes) -> int | None:
    """The AMQP property ``expiration`` of a message that has no other text property before it but the types."""
    flags = struct.unpack_from(">H", properties)[0]
    if not flags & 0x0100:
        return None
    at = 2
    for flag in (0x8000, 0x4000):
        at += 1 + properties[at] if flags & flag else 0
    if flags & 0x2000:
        at += 4 + struct.unpack_from(">I", properties, at)[0]
    at += 2  # delivery mode, priority
    return int(properties[at + 1 : at + 1 + properties[at]])


class TestExpiration:
    """AQ: 0 to 2^40 s. RabbitMQ: 0 to 2^32 - 1 ms in each release. MQTT 5: 1 to 2^32 - 1 s. Kafka: headers, any."""

    @pytest.mark.parametrize("seconds", [0.0005, 1, 60, 2**32 / 1000 - 1, 4_294_967.295])
    def test_rabbitmq_counts_up_to_49_days(self, seconds: float) -> None:
        sent = amqp.encode(Message(b"x", expiration=seconds), NOW, amqp.Rules())
        assert 0 < (expiration_of(sent.properties) or 0) <= 2**32 - 1

    @pytest.mark.parametrize("seconds", [4_294_967.296, 4_294_968, 315_360_001, 2**32 - 1, MAX_SECONDS - 1])
    @pytest.mark.parametrize("rules", [amqp.Rules(), AQ_AMQP], ids=["plain", "AQ_MsgProperties"])
    def test_a_longer_life_travels_over_rabbitmq_in_a_header(self, seconds: float, rules: amqp.Rules) -> None:
        message = Message(b"x", expires_at=NOW + seconds, expiration=seconds)
        assert expiration_of(amqp.encode(message, NOW, rules).properties) is None
        found = over_amqp(message, amqp.Rules(), later=100)
        assert found.expiration == pytest.approx(seconds - 100, abs=1)
        assert found.header("MGW_AQ_expires_at") is None
        assert over_amqp(message, rules).expiration == pytest.approx(seconds, abs=1)

    def test_what_outlived_it_in_rabbitmq_expires_at_once(self) -> None:
        assert over_amqp(Message(b"x", expiration=5e6), later=6e6).expiration == 1

    @pytest.mark.parametrize("envelope", [False, True])
    @pytest.mark.parametrize(
        ("seconds", "interval"), [(-5, 1), (0, 1), (0.2, 1), (60, 60), (2**32 - 2, 2**32 - 2), (2**32, None)]
    )
    def test_mqtt_counts_from_1_to_136_years(self, seconds: float, interval: int | None, envelope: bool) -> None:
        publish, _ = over_mqtt(Message(b"x", expires_at=NOW + seconds), envelope=envelope)
        assert publish.properties.expiry == interval

    @pytest.mark.parametrize("interval", [0, 1, 2**32 - 2, 2**32 - 1])
    def test_each_mqtt_interval_goes_on_to_each_broker(self, interval: int) -> None:
        came, failure = mqtt.inbound(
            mqtt.Publish("t", b"x", properties=mqtt.Properties(expiry=interval)), mqtt.Inbound()
        )
        assert failure is None
        wanted = max(1, interval)
        assert came.expiration == wanted
        for rules in (amqp.Rules(), AQ_AMQP):
            assert over_amqp(came, rules).expiration == pytest.approx(wanted, abs=1)
        assert over_kafka(came)[1].expiration == pytest.approx(wanted, abs=1)
        again = over_mqtt(came)[1].expiration
        assert again == wanted if interval < 2**32 - 1 else again is None or again == pytest.approx(wanted)

    @pytest.mark.parametrize("seconds", ["1e300", "inf", str(MAX_SECONDS), str(2**63 - 1)])
    def test_one_beyond_the_hub_is_for_ever(self, seconds: str) -> None:
        user = (("MGW_AQ_expiration", seconds), ("MGW_types", '{"MGW_AQ_expiration":9}'))
        publish = mqtt.Publish("t", b"x", properties=mqtt.Properties(user=user))
        assert mqtt.inbound(publish, mqtt.Inbound(aq_properties=True))[0].expiration is None
        digits = str(int(min(float(seconds), 1e18))).encode()
        content = b"\x01\x00" + bytes((len(digits) + 3,)) + digits + b"000"
        assert amqp.decode(content, b"", b"", b"q", False, NOW, amqp.Rules())[0].expiration is None
        for name in ("MGW_AQ_expiration", "MGW_AQ_expires_at"):
            value = seconds.encode() if name.endswith("on") and seconds != "inf" else b"%d" % (2**63 - 1)
            found, _ = kafka.from_record(
                Received(headers=((name, value),)), kafka.origin_headers("t", 0), AQ_KAFKA, NOW
            )
            assert found.expiration is None
        document = {"mgw": 1, "headers": [], "body_type": "none", "expiration": float(seconds)}
        opened = mqtt.inbound(mqtt.Publish("t", json.dumps(document).encode()), mqtt.Inbound(envelope=True))
        assert opened[1] is None
        assert opened[0].expiration is None


class TestTimestamps:
    """Kafka: signed 64 bits of milliseconds, 0 and above where readers are to see it, in the window of the topic.
    AMQP: unsigned 64 bits of seconds."""

    @pytest.mark.parametrize(
        ("wanted", "sent"),
        [
            (-(2**70), LIMITED.earliest),
            (-1, LIMITED.earliest),
            (0, LIMITED.earliest),
            (LIMITED.earliest, LIMITED.earliest),
            (MS, MS),
            (LIMITED.latest, LIMITED.latest),
            (LIMITED.latest + 1, LIMITED.latest),
            (2**63 - 1, LIMITED.latest),
            (2**80, LIMITED.latest),
        ],
    )
    def test_one_outside_the_window_of_a_topic_is_moved_and_kept(self, wanted: int, sent: int) -> None:
        message = Message(b"x", (Header("MGW_KAFKA_timestamp", ValueType.LONG, wanted),))
        record, found = over_kafka(message, LIMITED)
        assert record.timestamp == sent
        assert found.header("MGW_KAFKA_timestamp") == sent
        kept = None if wanted == sent else Header(ORIGINAL, ValueType.LONG, wanted)
        assert next((header for header in found.headers if header.name == ORIGINAL), None) == kept
        again, back = over_kafka(found)
        assert again.timestamp == min(max(wanted, 0), 2**63 - 1), "where a topic takes it, it is the timestamp again"
        assert back.header(ORIGINAL) == (wanted if wanted != again.timestamp else None)

    def test_a_clock_that_was_ahead_is_kept(self) -> None:
        record, found = over_kafka(Message(b"x", enqueue_time=NOW + 7200), LIMITED)
        assert record.timestamp == LIMITED.latest
        assert found.header(ORIGINAL) == MS + 2 * HOUR

    def test_a_topic_that_writes_its_own_timestamps_keeps_the_original(self) -> None:
        headers = (
            Header("MGW_KAFKA_timestamp", ValueType.LONG, MS),
            Header(ORIGINAL, ValueType.LONG, MS + 9 * HOUR),
        )
        record, found = over_kafka(Message(b"x", headers), None)
        assert record.timestamp == MS + 9 * HOUR
        assert found.header(ORIGINAL) == MS + 9 * HOUR
        assert over_kafka(Message(b"x", headers[:1]), None)[1].header(ORIGINAL) is None

    def test_an_original_that_is_no_number_is_a_header_like_any_other(self) -> None:
        found = over_kafka(Message(b"x", (Header(ORIGINAL, ValueType.TEXT, "soon"),)))[1]
        assert found.header(ORIGINAL) == "soon"

    @pytest.mark.parametrize("seconds", [0, 1, 2**31, 2**32, int(NOW) * 1000, 2**53, 2**63, 2**64 - 1])
    def test_each_amqp_timestamp_is_sent_on(self, seconds: int) -> None:
        message, failure = amqp.decode(
            b"\x00\x40" + struct.pack(">Q", seconds), b"x", b"", b"q", False, NOW, amqp.Rules()
        )
        assert failure is None
        for found in (over_amqp(message), over_amqp(over_kafka(message)[1]), over_mqtt(message)[1]):
            assert found.header("MGW_AMQP_timestamp") == float(seconds)


@pytest.mark.parametrize("value", [-(2**63), -300, -1, 0, 1, 9, 255, 256, 2**31, 2**32, 2**63 - 1])
def test_each_priority_of_the_hub_travels_to_each_broker(value: int) -> None:
    message = Message(b"x", priority=value)
    assert over_amqp(message, AQ_AMQP).priority == value
    assert 0 <= over_amqp(message).priority <= 9
    assert over_kafka(message)[1].priority == value
    assert over_mqtt(message)[1].priority == value


LIMITS = {ValueType.BYTE: 2**7, ValueType.SHORT: 2**15, ValueType.INTEGER: 2**31, ValueType.LONG: 2**63}


class TestHeaders:
    """AMQP: 8, 16, 32 and 64 bits, signed; times from 1970; floats of 32 and 64 bits. Kafka and MQTT: text, any."""

    @pytest.mark.parametrize("kind", LIMITS)
    @pytest.mark.parametrize("factor", [-1.0, 1.0])
    def test_a_whole_number_keeps_its_value(self, kind: ValueType, factor: float) -> None:
        top = LIMITS[kind]
        for value in (int(factor) * top, int(factor) * top + int(factor), int(factor) * (top - 1)):
            message = Message(b"x", (Header("MGW_h", kind, value),))
            fits = -top <= value < top
            found = over_amqp(message).header("MGW_h")
            assert str(found) == str(value)
            assert (type(found) is int) is (-(2**63) <= value < 2**63)
            assert not fits or over_amqp(message).headers[-1] == Header("MGW_h", kind, value)
            for other in (over_kafka(message)[1], over_mqtt(message)[1]):
                assert Header("MGW_h", kind, value) in other.headers

    @pytest.mark.parametrize(
        ("kind", "value"),
        [
            (ValueType.FLOAT, 1e300),
            (ValueType.FLOAT, -3.5e38),
            (ValueType.DATE, -86_400.0),
            (ValueType.DATE, 1e20),
            (ValueType.DOUBLE, 1.7e308),
        ],
    )
    def test_a_number_or_time_keeps_its_value(self, kind: ValueType, value: HeaderValue) -> None:
        message = Message(b"x", (Header("MGW_h", kind, value),))
        assert over_amqp(message).header("MGW_h") == value
        for other in (over_kafka(message)[1], over_mqtt(message)[1]):
            assert Header("MGW_h", kind, value) in other.headers

    @pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
    def test_what_is_no_number_fails_alone_over_amqp(self, value: float) -> None:
        message = Message(b"x", (Header("MGW_h", ValueType.DOUBLE, value),))
        with pytest.raises(ConversionFailure):
            over_amqp(message)
        for other in (over_kafka(message)[1], over_mqtt(message)[1]):
            assert repr(other.header("MGW_h")) == repr(value)


class TestBrokenNumbers:
    """What no gateway writes fails alone; nothing else is ever raised."""

    @pytest.mark.parametrize("name", ["MGW_AQ_priority", "MGW_AQ_delay", "MGW_AQ_expiration", "MGW_AQ_expires_at"])
    @pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e999", "9" * 400, "-1", "-" + "9" * 400, "", "x"])
    def test_reserved_numbers(self, name: str, value: str) -> None:
        headers = ((name, value.encode()),)
        kafka.from_record(Received(headers=headers), kafka.origin_headers("t", 0), AQ_KAFKA, NOW)
        for code in (1, 6, 7, 9):
            user = ((name, value), ("MGW_types", json.dumps({name: code})))
            publish = mqtt.Publish("t", b"x", properties=mqtt.Properties(user=user))
            message, _ = mqtt.inbound(publish, mqtt.Inbound(aq_properties=True))
            assert message.body == b"x"

    @pytest.mark.parametrize("value", ["1" + "0" * 400, "1e999", "-1", '"x"', "NaN"])
    def test_numbers_of_an_envelope(self, value: str) -> None:
        for document in (
            f'{{"mgw":1,"headers":[],"body_type":"none","expiration":{value}}}',
            f'{{"mgw":1,"headers":[["h",9,{value}]],"body_type":"none"}}',
        ):
            mqtt.inbound(mqtt.Publish("t", document.encode()), mqtt.Inbound(envelope=True))

    @pytest.mark.parametrize("value", [-1, 2**31, 2**70])
    def test_a_partition_that_no_topic_has(self, value: int) -> None:
        """Below 0 the map refuses it, above the destination, which knows the partitions."""
        message = Message(b"x", (Header("MGW_KAFKA_partition", ValueType.LONG, value),))
        if value < 0:
            with pytest.raises(ConversionFailure):
                over_kafka(message)
        else:
            assert over_kafka(message)[0].partition == value
