"""What programs of others do at the brokers of :mod:`tests.support.secured`: they publish and read, with headers."""

from __future__ import annotations

import queue
import threading
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

import pika
from kafka import TopicPartition
from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.support.kafka_clients import KafkaConsumer, KafkaProducer
from tests.support.secured import TESTER, Secured

__all__ = ["Arrived", "Reader", "publish"]

_SECONDS = 60.0


class Arrived(NamedTuple):
    """A message at its destination; headers as text."""

    body: bytes
    headers: list[tuple[str, str]]


def publish(brokers: Secured, system: str, vhost: str, bodies: Sequence[bytes], headers: Mapping[str, str]) -> None:
    """Send these to what the examples read, queue or topic ``orders`` or ``orders/7``, and wait until taken."""
    if system == "rabbitmq":
        connection = _rabbitmq(brokers, vhost)
        channel = connection.channel()
        channel.confirm_delivery()
        for body in bodies:
            properties = pika.BasicProperties(delivery_mode=2, headers=dict(headers))
            channel.basic_publish("", "orders", body, properties, mandatory=True)
        connection.close()
    elif system == "kafka":
        producer = KafkaProducer(bootstrap_servers=brokers.kafka.bootstrap, acks="all", max_block_ms=_SECONDS * 1000)
        for body in bodies:
            named = [(name, value.encode()) for name, value in headers.items()]
            producer.send("orders", body, headers=named).get(_SECONDS)
        producer.close()
    else:
        client = _mqtt(brokers)
        properties_of_all = Properties(PacketTypes.PUBLISH)
        properties_of_all.UserProperty = list(headers.items())
        for body in bodies:
            client.publish("orders/7", body, qos=1, properties=properties_of_all).wait_for_publish(_SECONDS)
        _end(client)


class Reader:
    """Reads what the examples write: queue or topic ``orders.copy``, topic ``copy/orders``."""

    def __init__(self, brokers: Secured, system: str, vhost: str) -> None:
        self._brokers = brokers
        self._system = system
        self._vhost = vhost
        self._came: queue.SimpleQueue[Arrived] = queue.SimpleQueue()
        self._open: Any = None
        self.seen: list[Arrived] = []

    def __enter__(self) -> Self:
        if self._system == "rabbitmq":
            self._open = _rabbitmq(self._brokers, self._vhost)
        elif self._system == "kafka":
            self._open = KafkaConsumer(
                bootstrap_servers=self._brokers.kafka.bootstrap,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                isolation_level="read_committed",
            )
            self._open.assign([TopicPartition("orders.copy", 0)])
        else:
            subscribed = threading.Event()
            self._open = _mqtt(self._brokers)
            self._open.on_subscribe = lambda *_: subscribed.set()
            self._open.on_message = self._on_message
            self._open.subscribe("copy/orders", qos=1)
            assert subscribed.wait(_SECONDS)
        return self

    def read(self) -> None:
        """Take what is there into ``seen``."""
        if self._system == "rabbitmq":
            channel = self._open.channel()
            while (taken := channel.basic_get("orders.copy", auto_ack=True))[0] is not None:
                _, properties, body = taken
                self.seen.append(Arrived(body, [(k, str(v)) for k, v in (properties.headers or {}).items()]))
            channel.close()
        elif self._system == "kafka":
            for records in self._open.poll(timeout_ms=200).values():
                for each in records:
                    headers = [(name, value.decode(errors="replace")) for name, value in each.headers]
                    self.seen.append(Arrived(each.value, headers))
        else:
            while not self._came.empty():
                self.seen.append(self._came.get())

    def _on_message(self, _client: paho.Client, _data: object, message: paho.MQTTMessage) -> None:
        self._came.put(Arrived(message.payload, list(getattr(message.properties, "UserProperty", []))))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(self._open, paho.Client):
            _end(self._open)
        else:
            self._open.close()


def _rabbitmq(brokers: Secured, vhost: str) -> Any:
    server = brokers.rabbitmq
    login = pika.PlainCredentials(TESTER, TESTER)
    return pika.BlockingConnection(pika.ConnectionParameters(server.host, server.port, vhost, login, heartbeat=0))


def _mqtt(brokers: Secured) -> paho.Client:
    client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
    connected = threading.Event()
    client.on_connect = lambda *_: connected.set()
    client.username_pw_set(TESTER, TESTER)
    client.connect(brokers.mosquitto.host, brokers.mosquitto.port)
    client.loop_start()
    assert connected.wait(_SECONDS)
    return client


def _end(client: paho.Client) -> None:
    client.disconnect()
    client.loop_stop()
