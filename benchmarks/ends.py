"""The ends of routes: queues of RabbitMQ, topics of Kafka and MQTT; how they are filled and counted."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import pika
from kafka import KafkaConsumer, TopicPartition

from benchmarks import bare
from benchmarks.gateways import BenchGateway
from tests.support.brokers import Kafka, Mosquitto, RabbitMQ

__all__ = ["MOSQUITTO", "Arrivals", "End", "KafkaEnd", "MqttEnd", "RabbitEnd"]

#: The queue of a stored session is written as a whole at every change otherwise: that would measure the disk.
MOSQUITTO = (
    "autosave_interval 1800",
    "autosave_on_changes false",
    "max_inflight_messages 1000",
    "set_tcp_nodelay true",
    "max_queued_messages 0",
)


class Arrivals(Protocol):
    """What has arrived at a destination."""

    def count(self) -> int:
        """Messages, at little cost."""

    def bodies(self) -> list[bytes]:
        """All of them, once they have all come."""

    def close(self) -> None:
        """End the look."""


class End(Protocol):
    """A messaging system as source or destination."""

    kind: str  # rabbitmq, kafka, mqtt

    def make(self, name: str) -> None:
        """A queue or topic."""

    def drop(self, name: str) -> None:
        """Remove it."""

    def link(self, gateway: BenchGateway, name: str, **more: Any) -> None:
        """A link of a gateway to the broker."""

    def options(self) -> dict[str, str]:
        """Of a source."""

    def publish(self, name: str, bodies: Sequence[bytes], *, fast: bool = True) -> float:
        """With the bare client; returns messages per second."""

    def arrivals(self, name: str, folder: Path) -> Arrivals:
        """A look at what arrives from now on."""

    def pids(self) -> list[int]:
        """Of the broker."""


class RabbitEnd:
    """Durable queues."""

    kind = "rabbitmq"

    def __init__(self, broker: RabbitMQ, queues: str = "classic") -> None:
        self.broker = broker
        self._queues = queues

    def make(self, name: str) -> None:
        """A durable queue."""
        with pika.BlockingConnection(pika.URLParameters(self.broker.url)) as connection:
            connection.channel().queue_declare(name, durable=True, arguments={"x-queue-type": self._queues})

    def drop(self, name: str) -> None:
        """Remove it."""
        with pika.BlockingConnection(pika.URLParameters(self.broker.url)) as connection:
            connection.channel().queue_delete(name)

    def link(self, gateway: BenchGateway, name: str, **more: Any) -> None:
        """A link to the broker."""
        broker = self.broker
        place = {"hostname": broker.host, "port": broker.port} | more
        gateway.link(name, "RABBITMQ", place, username=broker.username, password=broker.password)

    def options(self) -> dict[str, str]:
        """Of a source."""
        return {}

    def publish(self, name: str, bodies: Sequence[bytes], *, fast: bool = True) -> float:
        """With the bare client; returns messages per second."""
        return bare.amqp_publish(self.broker.url, name, bodies, window=4000 if fast else bare.WINDOW)

    def subscribe(self, name: str) -> None:
        """A queue keeps messages without a reader."""

    def consume(self, name: str, count: int) -> float:
        """With the bare client; returns messages per second."""
        return bare.amqp_consume(self.broker.url, name, count)

    def arrivals(self, name: str, folder: Path) -> Arrivals:  # noqa: ARG002
        """The length of the queue."""
        return _Queue(self.broker.url, name)

    def pids(self) -> list[int]:
        """Of the broker."""
        return [self.broker.pid]


class _Queue:
    """A look at a queue that nobody reads."""

    def __init__(self, url: str, name: str) -> None:
        self._connection = pika.BlockingConnection(pika.URLParameters(url))
        self._channel = self._connection.channel()
        self._name = name

    def count(self) -> int:
        """Messages ready."""
        return int(self._channel.queue_declare(self._name, passive=True).method.message_count)

    def bodies(self) -> list[bytes]:
        """Take them all."""
        self._channel.basic_qos(prefetch_count=5000)
        found: list[bytes] = []
        for method, _, body in self._channel.consume(self._name, inactivity_timeout=2):
            if method is None:
                break
            found.append(body)
            if len(found) % 1000 == 0:
                self._channel.basic_ack(method.delivery_tag, multiple=True)
        self._channel.cancel()
        return found

    def close(self) -> None:
        """Disconnect."""
        self._connection.close()


class KafkaEnd:
    """Topics."""

    kind = "kafka"

    def __init__(self, broker: Kafka, partitions: int = 1) -> None:
        self.broker = broker
        self.partitions = partitions

    def make(self, name: str) -> None:
        """A topic."""
        self.broker.create_topic(name, self.partitions)

    def drop(self, name: str) -> None:
        """Topics stay until the broker goes."""

    def link(self, gateway: BenchGateway, name: str, **more: Any) -> None:
        """A link to the broker."""
        gateway.link(name, "KAFKA", {"bootstrap_servers": self.broker.bootstrap} | more)

    def options(self) -> dict[str, str]:
        """Of a source."""
        return {"KAFKA_StartAt": "earliest"}

    def publish(self, name: str, bodies: Sequence[bytes], *, fast: bool = True) -> float:  # noqa: ARG002
        """With the bare client; returns messages per second."""
        return bare.kafka_publish(self.broker.bootstrap, name, bodies)

    def subscribe(self, name: str) -> None:
        """A topic keeps messages without a reader."""

    def consume(self, name: str, count: int) -> float:
        """With the bare client; returns messages per second."""
        return bare.kafka_consume(self.broker.bootstrap, name, count)

    def arrivals(self, name: str, folder: Path) -> Arrivals:  # noqa: ARG002
        """The ends of the partitions."""
        return _Topic(self.broker.bootstrap, name, self.partitions)

    def pids(self) -> list[int]:
        """Of the broker."""
        return [self.broker.pid]


class _Topic:
    """A look at a topic."""

    def __init__(self, bootstrap: str, name: str, partitions: int) -> None:
        self._consumer = KafkaConsumer(
            bootstrap_servers=bootstrap, enable_auto_commit=False, isolation_level="read_committed", group_id=None
        )
        self._partitions = [TopicPartition(name, number) for number in range(partitions)]
        self._consumer.assign(self._partitions)

    def count(self) -> int:
        """Committed records; markers of transactions count, too."""
        return sum(self._consumer.end_offsets(self._partitions).values())

    def bodies(self) -> list[bytes]:
        """Read from the beginning."""
        ends = self._consumer.end_offsets(self._partitions)
        self._consumer.seek_to_beginning(*self._partitions)
        found: list[bytes] = []
        while any(self._consumer.position(each) < end for each, end in ends.items()):
            for records in self._consumer.poll(1000, max_records=5000).values():
                found += [record.value for record in records]
        return found

    def close(self) -> None:
        """Disconnect."""
        self._consumer.close()


class MqttEnd:
    """Topics at QoS 1, read in a stored session."""

    kind = "mqtt"

    def __init__(self, broker: Mosquitto) -> None:
        self.broker = broker

    def make(self, name: str) -> None:
        """A topic need not be made."""

    def drop(self, name: str) -> None:
        """Nor removed."""

    def link(self, gateway: BenchGateway, name: str, **more: Any) -> None:
        """A link to the broker."""
        gateway.link(name, "MQTT", {"hostname": self.broker.host, "port": self.broker.port} | more)

    def options(self) -> dict[str, str]:
        """Of a source."""
        return {}

    def publish(self, name: str, bodies: Sequence[bytes], *, fast: bool = True) -> float:  # noqa: ARG002
        """With the bare client; returns messages per second."""
        return bare.mqtt_publish(self.broker.host, self.broker.port, name, bodies)

    def subscribe(self, name: str) -> None:
        """The session of the bare client."""
        bare.mqtt_subscribe(self.broker.host, self.broker.port, name, f"bare-{name}")

    def consume(self, name: str, count: int) -> float:
        """With the bare client; returns messages per second."""
        return bare.mqtt_consume(self.broker.host, self.broker.port, f"bare-{name}", count)

    def arrivals(self, name: str, folder: Path) -> Arrivals:
        """mosquitto_sub."""
        return Subscribed(self.broker, name, folder / f"{name.replace('/', '-')}.out")

    def pids(self) -> list[int]:
        """Of the broker."""
        return [self.broker.pid]


class Subscribed:
    """mosquitto_sub as a cheap observer of a topic, whose bodies all have one length and no line break."""

    def __init__(self, broker: Mosquitto, topic: str, file: Path) -> None:
        where = ["-h", broker.host, "-p", str(broker.port), "-V", "5", "-q", "1", "-t", topic]
        self._file = file
        self._line = 0
        with file.open("wb") as sink:
            self._process = subprocess.Popen(["mosquitto_sub", *where, "-F", "%p"], stdout=sink)

    def count(self) -> int:
        """Messages seen so far."""
        if not self._line:
            with self._file.open("rb") as lines:
                first = lines.readline()
            self._line = len(first) if first.endswith(b"\n") else 0
        return self._file.stat().st_size // self._line if self._line else 0

    def bodies(self) -> list[bytes]:
        """All of them."""
        return self._file.read_bytes().split(b"\n")[:-1]

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
