"""Brokers, three routes through the gateway between them, and what goes in and comes out, seen from outside."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pika
from kafka import TopicPartition

from tests.faults.ends.kafka import KafkaFeed, KafkaOutlet
from tests.faults.ends.mqtt import MqttFeed
from tests.faults.ends.rabbitmq import RabbitFeed, RabbitOutlet, declare
from tests.faults.oracle import Oracle
from tests.faults.verdict import LANES
from tests.support.brokers import Kafka, Mosquitto, RabbitMQ, free_port
from tests.support.kafka_clients import KafkaConsumer
from tests.support.proxy import TcpProxy

__all__ = ["LEVELS", "SECRET", "Addresses", "Plant", "Route"]

SECRET = "first password"
_USER = "gateway"

_CONFIGURATION = """\
version: 1
settings:
  http: {{listen: "127.0.0.1:{http}"}}
links:
  plant: {{type: mqtt, hostname: 127.0.0.1, port: {mqtt}, protocol_version: 5}}
  office:
    type: rabbitmq
    hostname: 127.0.0.1
    port: {rabbitmq}
    username: gateway
    password: ${{RABBIT_PASSWORD}}
    prepare: true
  lake: {{type: kafka, bootstrap_servers: "{kafka}", prepare: true}}
foreign_queues:
  telemetry@plant: {{provider_queue: telemetry/+, domain: topic}}
  readings@lake: {{provider_queue: readings}}
  orders@office: {{provider_queue: orders, domain: queue}}
  copies@office: {{provider_queue: copies, domain: queue}}
  parts@lake: {{provider_queue: parts, options: {{KAFKA_StartAt: earliest, KAFKA_HeaderType: TEXT}}}}
  stock@office: {{provider_queue: stock, domain: queue}}
queues:
  TELEMETRY: {{max_retries: 100}}
  ORDERS: {{max_retries: 100}}
  PARTS: {{max_retries: 100}}
jobs:
  telemetry_in: {{type: inbound, source: telemetry@plant, destination: TELEMETRY}}
  readings_out: {{type: outbound, source: TELEMETRY, destination: readings@lake}}
  orders_in: {{type: inbound, source: orders@office, destination: ORDERS}}
  copies_out: {{type: outbound, source: ORDERS, destination: copies@office}}
  parts_in: {{type: inbound, source: parts@lake, destination: PARTS}}
  stock_out: {{type: outbound, source: PARTS, destination: stock@office}}
"""

#: What the jobs of each route have to promise.
LEVELS: Mapping[str, str] = {
    "telemetry_in": "exact-unless-broker-crash",
    "readings_out": "exact",
    "orders_in": "exact-unless-broker-crash",
    "copies_out": "exact-unless-broker-crash",
    "parts_in": "exact",
    "stock_out": "exact-unless-broker-crash",
}


@dataclass(slots=True)
class Addresses:
    """Where the gateway finds the brokers now."""

    http: int
    mqtt: int
    rabbitmq: int
    kafka: str

    def configuration(self) -> str:
        """The file with which it runs."""
        return _CONFIGURATION.format(http=self.http, mqtt=self.mqtt, rabbitmq=self.rabbitmq, kafka=self.kafka)


@dataclass(slots=True)
class Route:
    """One way through the gateway. ``came_out``: how many messages are at its end, as the broker there says."""

    name: str
    oracle: Oracle
    came_out: Callable[[], int]
    feed: Any
    outlet: Any

    @property
    def put_in(self) -> int:
        """How many messages the first broker took."""
        return len(self.oracle.publisher.ledger.acknowledged)


class Plant:
    """The brokers with their queues and topics, each behind a proxy for the gateway alone. A context manager."""

    def __init__(self) -> None:
        self.rabbitmq = RabbitMQ()
        self.kafka = Kafka()
        self.mosquitto = Mosquitto(config=["autosave_interval 500"])
        self.proxies: dict[str, TcpProxy] = {}
        self._ends: list[Any] = []
        self._watcher: Any = None
        self._consumer: Any = None

    def __enter__(self) -> Plant:
        try:
            for server in (self.rabbitmq, self.kafka, self.mosquitto):
                server.start()
            self.rabbitmq.ctl("add_user", _USER, SECRET)
            self.rabbitmq.ctl("set_permissions", _USER, ".*", ".*", ".*")
            for queue in ("orders", "copies", "stock"):
                declare(self.rabbitmq, queue, {"x-queue-type": "classic"})
            self.rabbitmq.flush_declarations()
            self.kafka.create_topic("readings", 1)  # without keys, more partitions would keep no order
            self.kafka.create_topic("parts", LANES)
            self.proxies["rabbitmq"] = TcpProxy("127.0.0.1", self.rabbitmq.port).start()
            self.proxies["mqtt"] = TcpProxy("127.0.0.1", self.mosquitto.port).start()
            self.proxies["kafka"] = self.kafka.proxy().start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect and stop everything."""
        for end in self._ends:
            end.close()
        for proxy in self.proxies.values():
            proxy.close()
        if self._consumer is not None:
            self._consumer.close()
        for server in (self.rabbitmq, self.kafka, self.mosquitto):
            server.close()

    def addresses(self) -> Addresses:
        """At first."""
        ports = {system: self.proxies[system].port for system in ("mqtt", "rabbitmq")}
        return Addresses(free_port(), ports["mqtt"], ports["rabbitmq"], self.kafka.proxied_bootstrap)

    def routes(self, seed: int, rate: float) -> list[Route]:
        """The ways, each with ``rate`` messages a second."""
        return [
            self._route("telemetry", seed, rate, MqttFeed(self.mosquitto, "telemetry"), "readings"),
            self._route("orders", seed, rate, RabbitFeed(self.rabbitmq, "orders"), "copies"),
            self._route("parts", seed, rate, KafkaFeed(self.kafka, "parts"), "stock"),
        ]

    def _route(self, name: str, seed: int, rate: float, feed: Any, target: str) -> Route:
        outlet: KafkaOutlet | RabbitOutlet
        if target == "readings":
            outlet, came_out = KafkaOutlet(self.kafka, target), lambda: self._end_of(target)
        else:
            outlet, came_out = RabbitOutlet(self.rabbitmq, target), lambda: self._depth_of(target)
        self._ends += [feed, outlet]
        oracle = Oracle(f"soak-{name}", seed, feed, outlet, lambda: 0, rate=rate, batch=20, backlog=math.inf)
        return Route(name, oracle, came_out, feed, outlet)

    def _depth_of(self, queue: str) -> int:
        server = self.rabbitmq
        login = pika.PlainCredentials(server.username, server.password)
        connection = pika.BlockingConnection(
            pika.ConnectionParameters(server.host, server.port, server.vhost, login, socket_timeout=3)
        )
        try:
            return int(connection.channel().queue_declare(queue, passive=True).method.message_count)
        finally:
            connection.close()

    def _end_of(self, topic: str) -> int:
        if self._consumer is None:
            self._consumer = KafkaConsumer(bootstrap_servers=self.kafka.bootstrap, request_timeout_ms=5000)
        return sum(self._consumer.end_offsets([TopicPartition(topic, 0)]).values())


def now() -> float:
    """Seconds, of the clock by which everything of a soak is judged."""
    return time.monotonic()
