"""Bodies of other programs over real brokers: Avro at Kafka, CloudEvents in MQTT 5, gzip at RabbitMQ."""

from __future__ import annotations

import gzip
import json
import struct
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import fastavro
import pika
import pytest

from mgw.links.memory.broker import MemoryBroker
from mgw.transforms.message import Message
from tests.support.brokers import Kafka, Mosquitto, RabbitMQ
from tests.support.gateways import Gateway, gateway_on
from tests.support.kafka_clients import KafkaProducer
from tests.support.schema_registry import SchemaRegistry, schema_registry
from tests.support.waiting import eventually

READING = {
    "type": "record",
    "name": "Reading",
    "fields": [{"name": "machine", "type": "string"}, {"name": "celsius", "type": "double"}],
}


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        gateway.queue("H")
        yield gateway


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with schema_registry() as found:
        yield found


def transformation(gateway: Gateway, name: str, **options: Any) -> None:
    gateway.admin.create_transformation(
        name, "BASIC", "BASIC", {"function": f"mgw.transforms.builtin:{name}", "options": options}
    )


def test_while_the_registry_is_away_messages_wait_and_go_on_when_it_is_back(
    gateway: Gateway, broker: MemoryBroker, registry: SchemaRegistry
) -> None:
    number = registry.register("s", '"string"')
    gateway.admin.create_msgsystem_link("mem", "MEMORY", {"broker": broker.name})
    for name in ("SRC", "BAD"):
        broker.queue(name)
        gateway.admin.register_foreign_queue(name, "mem", name)
    transformation(gateway, "avro_decode", registry=registry.url)
    registry.broken = True
    gateway.admin.create_job(
        "in",
        "INBOUND",
        "SRC@mem",
        "H",
        transformation="avro_decode",
        exception_queue="BAD@mem",
        options={"retry_max_delay": 2},
    )
    head = struct.pack(">bI", 0, number)
    broker.put("SRC", Message(head + b"\x02a"), Message(head + b"\x02b"), Message(b"no avro"))
    with gateway.run():
        eventually(lambda: "503" in str(gateway.job("in")["LAST_ERROR_MSG"]), what="the registry's answer")
        assert gateway.browse("H") == []
        assert not broker.queue("BAD").messages
        registry.broken = False
        eventually(lambda: len(gateway.browse("H")) == 2, what="messages that waited")
        eventually(lambda: len(broker.queue("BAD").messages) == 1, what="the message that is no Avro")
    assert [message.body for message in gateway.browse("H")] == ['"a"', '"b"']


def test_out_of_the_hub_messages_wait_in_their_order_too_while_the_registry_is_away(
    gateway: Gateway, broker: MemoryBroker, registry: SchemaRegistry
) -> None:
    number = registry.register("s", '"string"')
    gateway.admin.create_msgsystem_link("mem", "MEMORY", {"broker": broker.name})
    broker.queue("DST")
    gateway.admin.register_foreign_queue("DST", "mem", "DST")
    gateway.queue("BAD")
    transformation(gateway, "avro_encode", registry=registry.url, subject="s")
    gateway.enqueue("H", [Message('"a"'), Message("no json"), Message('"b"')])
    registry.broken = True
    gateway.admin.create_job(
        "out",
        "OUTBOUND",
        "H",
        "DST@mem",
        transformation="avro_encode",
        exception_queue="BAD",
        options={"retry_max_delay": 2},
    )
    with gateway.run():
        eventually(lambda: "503" in str(gateway.job("out")["LAST_ERROR_MSG"]), what="the registry's answer")
        assert (gateway.browse("BAD"), broker.queue("DST").messages) == ([], [])
        registry.broken = False
        eventually(lambda: len(broker.queue("DST").messages) == 2, what="messages that waited")
    head = struct.pack(">bI", 0, number)
    assert [message.body for message in broker.queue("DST").messages] == [head + b"\x02a", head + b"\x02b"]
    assert [message.body for message in gateway.browse("BAD")] == ["no json"]


@pytest.mark.matrix
@pytest.mark.kafka
def test_avro_of_another_program_is_json_in_the_hub_and_avro_again(
    gateway: Gateway, kafka: Kafka, registry: SchemaRegistry
) -> None:
    number = registry.register("codecs-value", json.dumps(READING))
    for topic in ("codecs.in", "codecs.out"):
        kafka.create_topic(topic)
    gateway.admin.create_msgsystem_link("kafka", "KAFKA", {"bootstrap_servers": kafka.bootstrap})
    gateway.admin.register_foreign_queue("SRC", "kafka", "codecs.in", options={"KAFKA_StartAt": "earliest"})
    gateway.admin.register_foreign_queue("DST", "kafka", "codecs.out")
    transformation(gateway, "avro_decode", registry=registry.url)
    transformation(gateway, "avro_encode", registry=registry.url, subject="codecs-value")
    gateway.admin.create_job("in", "INBOUND", "SRC@kafka", "H", transformation="avro_decode")
    value = {"machine": "m7", "celsius": 91.5}
    with closing(KafkaProducer(bootstrap_servers=kafka.bootstrap)) as producer:
        producer.send("codecs.in", value=struct.pack(">bI", 0, number) + avro(value)).get(20)
    with gateway.run():
        eventually(lambda: len(gateway.browse("H")) == 1, what="the message in the hub")
        assert json.loads(str(gateway.browse("H")[0].body)) == value
        gateway.admin.create_job("out", "OUTBOUND", "H", "DST@kafka", transformation="avro_encode")
        said = subprocess.run(
            kafka.console_consumer(
                "codecs.out", "--from-beginning", "--max-messages", "1", "--property", "print.headers=true"
            ),
            capture_output=True,
            timeout=60,
            check=True,
        ).stdout
    assert struct.pack(">bI", 0, number) + avro(value) in said
    assert b"content-type:application/avro" in said


def avro(value: Any) -> bytes:
    from io import BytesIO

    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(READING), value)
    return stream.getvalue()


@pytest.mark.mosquitto
@pytest.mark.rabbitmq
def test_an_event_of_mosquitto_pub_is_one_of_amqp_and_compressed(
    gateway: Gateway, mosquitto: Mosquitto, rabbitmq: RabbitMQ
) -> None:
    address = {"hostname": mosquitto.host, "port": mosquitto.port, "protocol_version": 5}
    gateway.admin.create_msgsystem_link("plant", "MQTT", address)
    gateway.admin.create_msgsystem_link(
        "rabbit", "RABBITMQ", {"hostname": rabbitmq.host, "port": rabbitmq.port}, username="guest", password="guest"
    )
    gateway.admin.register_foreign_queue("SRC", "plant", "codecs/events")
    gateway.admin.register_foreign_queue("DST", "rabbit", "codecs.events", "QUEUE")
    transformation(gateway, "cloudevent", form="amqp")
    transformation(gateway, "compress", encoding="gzip")
    gateway.admin.create_transformation("both", "BASIC", "BASIC", {"steps": ["cloudevent", "compress"]})
    gateway.admin.create_job("in", "INBOUND", "SRC@plant", "H")
    gateway.admin.create_job("out", "OUTBOUND", "H", "DST@rabbit", transformation="both")
    attributes = {"specversion": "1.0", "id": "A-1", "source": "/plant/1", "type": "hot"}
    with pika.BlockingConnection(pika.URLParameters(rabbitmq.url)) as connection, gateway.run():
        channel = connection.channel()
        channel.queue_declare("codecs.events", durable=True)
        eventually(lambda: gateway.job("in")["ACTIVITY"] == "IDLE", what="the subscription")
        words = ["-h", mosquitto.host, "-p", str(mosquitto.port), "-V", "5", "-q", "1", "-t", "codecs/events"]
        words += ["-D", "publish", "content-type", "application/json", "-D", "publish", "payload-format-indicator", "1"]
        for name, value in attributes.items():
            words += ["-D", "publish", "user-property", name, value]
        subprocess.run(["mosquitto_pub", *words, "-m", '{"t":91.5}'], check=True, timeout=20)
        got: list[Any] = []

        def received() -> bool:
            got[:] = channel.basic_get("codecs.events", auto_ack=True)
            return got[0] is not None

        eventually(received, what="the event at RabbitMQ")
    _, properties, body = got
    assert gzip.decompress(body) == b'{"t":91.5}'
    assert (properties.content_type, properties.content_encoding) == ("application/json", "gzip")
    assert {f"cloudEvents:{name}": value for name, value in attributes.items()}.items() <= properties.headers.items()
