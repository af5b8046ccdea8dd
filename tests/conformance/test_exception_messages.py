"""A message in the exception queue of an inbound job is the original, read by another program; what is not is named."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt
import pika
import pytest
from kafka import TopicPartition
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.support.brokers import Kafka, Mosquitto, RabbitMQ
from tests.support.gateways import Gateway, gateway_on
from tests.support.kafka_clients import KafkaConsumer, KafkaProducer
from tests.support.waiting import eventually

HOUR = 3600


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        gateway.queue("H")
        yield gateway


def carry(gateway: Gateway, count: int = 1) -> None:
    """Run the job IN until so many messages are in its exception queue."""
    with gateway.run():
        eventually(lambda: gateway.job("in")["EXCEPTIONQ_TOTAL"] == count, deadline=60)


def split(properties: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The original's, and what the gateway says of the failure."""
    said = {name: value for name, value in properties.items() if name.startswith("MGW_")}
    return {name: value for name, value in properties.items() if name not in said}, said


# ------------------------------------------------------------------------------------------------------------- MQTT


class Program:
    """Another MQTT 5 client on the broker."""

    def __init__(self, broker: Mosquitto, *topics: str) -> None:
        self.received: list[mqtt.MQTTMessage] = []
        self._subscribed = 0
        self.client = mqtt.Client(CallbackAPIVersion.VERSION2, uuid.uuid4().hex, protocol=mqtt.MQTTv5)
        self.client.on_message = lambda _client, _data, message: self.received.append(message)
        self.client.on_subscribe = self._count
        self.client.connect(broker.host, broker.port)
        self.client.loop_start()
        for topic in topics:
            eventually(self.client.is_connected)
            self.client.subscribe(topic, 1)
        eventually(lambda: self._subscribed == len(topics))

    def _count(self, *_: object) -> None:
        self._subscribed += 1

    def publish(self, topic: str, payload: bytes, **properties: Any) -> None:
        made: Any = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
        for name, value in properties.items():
            setattr(made, name, value)
        self.client.publish(topic, payload, qos=1, properties=made).wait_for_publish(20)

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


USER = [("b", "2"), ("a", "1"), ("MGW_x", "y"), ("b", "3")]
FIELDS = {"ContentType": "text/csv", "ResponseTopic": "answers", "CorrelationData": b"\x00\xff"}


@pytest.mark.parametrize(
    ("user", "payload", "properties"),
    [
        ([*USER, ("MGW_types", "x"), ("c", "4")], b"p", FIELDS),
        ([*USER, ("MGW_types", '{"a":6}')], b"\xff", FIELDS | {"PayloadFormatIndicator": 1}),
        ([*USER, ("n" * 260, "v" * 5000)], b"p", FIELDS | {"CorrelationData": b"c" * 2100}),
    ],
    ids=["types-of-another", "no-text", "too-large"],
)
def test_mqtt_has_every_property_in_order(
    gateway: Gateway, mosquitto: Mosquitto, user: list[tuple[str, str]], payload: bytes, properties: Mapping[str, Any]
) -> None:
    source, bad = (f"{name}/{uuid.uuid4().hex}" for name in ("in", "bad"))
    gateway.admin.create_msgsystem_link("m", "MQTT", {"hostname": mosquitto.host, "port": mosquitto.port})
    gateway.admin.register_foreign_queue("SRC", "m", source)
    gateway.admin.register_foreign_queue("BAD", "m", bad)
    gateway.admin.create_job("in", "INBOUND", "SRC@m", "H", exception_queue="BAD@m")
    program = Program(mosquitto, bad)
    try:
        with gateway.run():
            eventually(lambda: gateway.job("in")["ACTIVITY"] in ("IDLE", "RUNNING"))
            program.publish(source, payload, UserProperty=user, MessageExpiryInterval=HOUR, **properties)
            (message,) = eventually(lambda: program.received, deadline=30)
    finally:
        program.close()
    assert message.payload == payload
    for name, value in properties.items():
        assert getattr(message.properties, name) == value
    found = getattr(message.properties, "UserProperty")  # noqa: B009
    own = dict(found[-10:])
    told = {"MGW_error", "MGW_error_job", "MGW_error_origin", "MGW_error_omitted", "MGW_error_time", "MGW_types"}
    told |= {"MGW_error_id", "MGW_error_expiration"}
    hop = {"MGW_MQTT_topic", "MGW_MQTT_qos", "MGW_MQTT_retain", "MGW_MQTT_dup"}
    originals = [each for each in found[:-1] if each[0] not in (told - {"MGW_types"}) | hop]
    assert originals == [each for each in user if each[0] != "MGW_types" or each[1] == "x"]
    assert told <= set(own)
    assert own["MGW_error_omitted"] == f"the expiration left out, it would expire the message here: {HOUR} s"
    assert dict(found)["MGW_MQTT_topic"] == source


# ---------------------------------------------------------------------------------------------------------- RabbitMQ


@pytest.fixture
def channel(rabbitmq: RabbitMQ) -> Iterator[Any]:
    connection = pika.BlockingConnection(pika.URLParameters(rabbitmq.url))
    yield connection.channel()
    connection.close()


def rabbit(gateway: Gateway, server: RabbitMQ, channel: Any, **job: Any) -> tuple[str, str]:
    place = {"hostname": server.host, "port": server.port}
    gateway.admin.create_msgsystem_link("r", "RABBITMQ", place, username=server.username, password=server.password)
    names = []
    for name in ("SRC", "BAD"):
        names.append(f"{name}.{uuid.uuid4().hex}")
        channel.queue_declare(names[-1], durable=True)
        gateway.admin.register_foreign_queue(name, "r", names[-1], domain="QUEUE")
    gateway.admin.create_job("in", "INBOUND", "SRC@r", "H", exception_queue="BAD@r", **job)
    return names[0], names[1]


def test_rabbitmq_has_every_property_and_header(gateway: Gateway, rabbitmq: RabbitMQ, channel: Any) -> None:
    gateway.admin.create_transformation("f", "BASIC", "BASIC", {"set": {"body.c": "tab.user_data.f - 32"}})
    source, bad = rabbit(gateway, rabbitmq, channel, transformation="f")
    headers = {"b": 1, "CC": [], "a": "x", "x-death": "before", "MGW_x": True}
    wanted = {
        "content_encoding": None,
        "priority": 5,
        "correlation_id": "c-1",
        "reply_to": "answers",
        "message_id": "m-1",
        "timestamp": 1_600_000_000,
        "type": "order",
        "app_id": "shop",
    }
    sent = pika.BasicProperties(headers=headers, user_id="guest", expiration=str(HOUR * 1000), **wanted)
    channel.basic_publish("", source, b"no json", sent)
    carry(gateway)
    _, properties, body = channel.basic_get(bad, auto_ack=True)
    assert (body, properties.content_type, properties.user_id) == (b"no json", None, "guest")
    assert {name: getattr(properties, name) for name in wanted} == wanted
    found, said = split(properties.headers)
    assert found == {"b": 1, "a": "x"}
    assert (said["MGW_x"], said["MGW_AMQP_H_x-death"], said["MGW_AMQP_routingKey"]) == (True, "before", source)
    assert "MGW_AMQP_H_CC" in said
    assert said["MGW_error_omitted"] == f"the expiration left out, it would expire the message here: {HOUR} s"


@pytest.mark.parametrize("options", [{}, {"AQ_MsgProperties": "TRUE"}], ids=["plain", "aq"])
def test_rabbitmq_has_what_a_header_array_cannot_hold(
    gateway: Gateway, rabbitmq: RabbitMQ, channel: Any, options: Mapping[str, str]
) -> None:
    source, bad = rabbit(gateway, rabbitmq, channel, options=options)
    headers = {"long": "v" * 5000, "n" * 255: "x", "MGW_AQ_priority": "high"}
    wanted = {"priority": 5, "correlation_id": "c-1", "message_id": "m-1"}
    channel.basic_publish("", source, b"\xff", pika.BasicProperties(headers=headers, **wanted))
    carry(gateway)
    _, properties, body = channel.basic_get(bad, auto_ack=True)
    assert (body, properties.content_type) == (b"\xff", None)
    assert {name: getattr(properties, name) for name in wanted} == wanted
    found, said = split(properties.headers)
    assert found | {"MGW_AQ_priority": said["MGW_AQ_priority"]} == headers
    assert [name for name in said if name.startswith("MGW_AQ_")] == ["MGW_AQ_priority"]
    assert "MGW_error_omitted" not in said


# ------------------------------------------------------------------------------------------------------------- Kafka


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("key", "value", "options"),
    [
        (b"k" * 2100, b"v", {}),
        (b"k", b"\xff", {}),
        (b"k", b"v", {"AQ_MsgProperties": "TRUE"}),
    ],
    ids=["long-key", "no-text", "aq"],
)
def test_kafka_has_every_header_in_order(
    gateway: Gateway, kafka: Kafka, key: bytes, value: bytes, options: Mapping[str, str]
) -> None:
    source, bad = (f"{name}.{uuid.uuid4().hex}" for name in ("in", "bad"))
    kafka.create_topic(source, 3)
    kafka.create_topic(bad)
    gateway.admin.create_msgsystem_link("k", "KAFKA", {"bootstrap_servers": kafka.bootstrap})
    reading = {"KAFKA_StartAt": "earliest", "KAFKA_ValueType": "TEXT"}
    gateway.admin.register_foreign_queue("SRC", "k", source, options=reading)
    gateway.admin.register_foreign_queue("BAD", "k", bad)
    gateway.admin.create_job("in", "INBOUND", "SRC@k", "H", exception_queue="BAD@k", options=options)
    headers = [("b", b"2"), ("MGW_AQ_expiration", b"60"), ("a", b"1"), ("b", b"3"), ("MGW_AQ_priority", b"high")]
    if not options:
        headers[-1] = ("n" * 300, b"x" * 2100)
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap)
    before = int(time.time() * 1000)
    producer.send(source, value, key, headers, partition=2, timestamp_ms=1_600_000_000_000).get(30)
    producer.close()
    carry(gateway)
    consumer = KafkaConsumer(bootstrap_servers=kafka.bootstrap, enable_auto_commit=False)
    try:
        place = TopicPartition(bad, 0)
        consumer.assign([place])
        consumer.seek_to_beginning(place)
        (found,) = eventually(lambda: consumer.poll(500).get(place), deadline=30)
    finally:
        consumer.close()
    assert (found.key, found.value) == (key, value)
    assert [each for each in found.headers if each in headers] == headers
    said = [each for each in found.headers if each not in headers]
    assert {name for name, _ in said if not name.startswith("MGW_error")} == {
        *("MGW_KAFKA_topic", "MGW_KAFKA_partition", "MGW_KAFKA_offset", "MGW_KAFKA_timestamp"),
        *("MGW_KAFKA_timestampType", "MGW_types"),
    }
    assert dict(said)["MGW_KAFKA_timestamp"] == b"1600000000000"
    assert found.timestamp >= before  # else the topic could drop it at once for its age
    assert "MGW_error_omitted" not in dict(said)
