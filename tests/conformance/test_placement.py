"""Where messages are at a destination that each of them chooses for itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mgw.links.contract import Domain, Endpoint
from mgw.transforms.message import Header, Message, ValueType
from tests.conformance.link_suite import Pair, Writer, numbered, unique, use_of, writing
from tests.conformance.test_mqtt_link import MqttTemplate
from tests.conformance.test_rabbitmq_link import RabbitTemplate
from tests.support.brokers import Mosquitto, RabbitMQ
from tests.support.rabbitmq_kills import LOG_ARGUMENTS


@pytest.fixture
def rabbit(rabbitmq: RabbitMQ) -> Iterator[RabbitTemplate]:
    template = RabbitTemplate(rabbitmq)
    yield template
    template.close()


def choosing(header: str, *values: str) -> list[Message]:
    return [Message(b"x", headers=(Header(header, ValueType.TEXT, value),)) for value in values]


def places(writer: Writer, sequence: int) -> list[str]:
    found = writer.destination.located(sequence)
    assert found is not None
    return found.coordinates()


@pytest.mark.rabbitmq
def test_an_exchange_names_the_routing_key_of_each_message(rabbit: RabbitTemplate) -> None:
    queue = rabbit.queue()
    for key in ("a.b", "c"):
        rabbit.channel.queue_bind(queue, "amq.direct", key)
    target = Pair(Endpoint("s", "rmq", queue), Endpoint("d", "rmq", "amq.direct", Domain.TOPIC))
    with writing(rabbit.link(), target, located=True) as writer:
        writer.deliver(*choosing("MGW_AMQP_routingKey", "a.b", "c", "a.b"))
        writer.deliver(*choosing("MGW_AMQP_routingKey", "c"))
        assert places(writer, 1) == ["amq.direct/a.b#1", "amq.direct/c#2", "amq.direct/a.b#3"]
        assert places(writer, 2) == ["amq.direct/c#4"]


@pytest.mark.rabbitmq
def test_messages_of_a_transaction_are_numbered_on_their_connection(rabbit: RabbitTemplate) -> None:
    link = rabbit.link(outbound_log_queue="mgw.sent.{job}")
    queue = rabbit.queue()
    use = use_of(Endpoint("d", "rmq", queue), located=True)
    rabbit.channel.queue_declare(f"mgw.sent.{use.job}", durable=True, arguments=LOG_ARGUMENTS)
    writer = Writer(link, use)
    try:
        writer.connect()
        writer.deliver(*numbered(3))
        writer.deliver(*numbered(2))
        assert places(writer, 1) + places(writer, 2) == [f"{queue}#{number}" for number in range(1, 6)]
    finally:
        writer.destination.close()


@pytest.fixture(scope="module")
def mosquitto() -> Iterator[Mosquitto]:
    with Mosquitto() as server:
        yield server


@pytest.mark.parametrize("chosen", [{"MQTT_TopicFrom": "HEADER"}, {}], ids=["header", "placeholder"])
def test_a_message_that_chooses_its_topic_is_found_there(mosquitto: Mosquitto, chosen: dict[str, str]) -> None:
    template = MqttTemplate(mosquitto)
    root = unique("root")
    topic = root if chosen else root + "/{room}"
    pair = Pair(Endpoint("s", "plant", f"{root}/#"), Endpoint("d", "plant", topic, options=chosen))
    header, start = ("MGW_MQTT_topic", f"{root}/") if chosen else ("room", "")
    with writing(template.link(), pair, located=True) as writer:
        writer.deliver(*choosing(header, f"{start}a", f"{start}b", f"{start}a"))
        assert places(writer, 1) == [f"{root}/a#1", f"{root}/b#2", f"{root}/a#3"]


def test_a_message_at_qos_0_has_a_topic_and_no_number(mosquitto: Mosquitto) -> None:
    topic = unique("topic")
    pair = Pair(Endpoint("s", "plant", topic), Endpoint("d", "plant", topic, options={"MQTT_Qos": "0"}))
    with writing(MqttTemplate(mosquitto).link(), pair, located=True) as writer:
        writer.deliver(*numbered(2))
        assert places(writer, 1) == [topic, topic]
