"""Publishers and subscribers of the latency benchmark: each message is written at once, and none waits in a thread."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

import paho.mqtt.client as mqtt
import pika
from paho.mqtt.enums import CallbackAPIVersion

__all__ = ["Address", "KafkaAddress", "MqttAddress", "RabbitAddress", "Receiver", "Sender"]

_WINDOW = 500  # messages a publisher has on their way


class Sender(Protocol):
    """Publishes to a source."""

    def send(self, body: bytes) -> None:
        """Write one message, and wait for the broker only where too many are on their way."""
        ...

    def rest(self, seconds: float) -> None:
        """Do what the connection needs for so long."""
        ...

    def finish(self) -> None:
        """Wait until the broker has everything."""
        ...

    def close(self) -> None:
        """Disconnect."""
        ...


class Receiver(Protocol):
    """Takes what arrives at a destination."""

    def receive(self, wait: float) -> list[bytes]:
        """What has come, at least one message. Raises TimeoutError."""
        ...

    def close(self) -> None:
        """Disconnect."""
        ...


class Address(Protocol):
    """Where a route begins or ends."""

    def sender(self) -> Sender:
        """A publisher there."""
        ...

    def receiver(self) -> Receiver:
        """A subscriber there."""
        ...

    def settle(self, receiver: Receiver) -> None:
        """Publish until something arrives: the mover between has subscribed then."""
        ...


class _Address:
    def sender(self) -> Sender:
        raise NotImplementedError

    def settle(self, receiver: Receiver) -> None:
        """See :class:`Address`."""
        sender, end = self.sender(), time.monotonic() + 60
        try:
            while True:
                sender.send(b"0" * 256)
                sender.rest(0.2)
                try:
                    while receiver.receive(0.5):
                        end = min(end, time.monotonic() + 5)
                except TimeoutError:
                    if end < time.monotonic() + 55:
                        return
                if time.monotonic() > end:
                    raise TimeoutError("nothing arrives")
        finally:
            sender.close()


# ---------------------------------------------------------------------------------------------------------- RabbitMQ


def _await(bodies: list[bytes], wait: float, drive: Callable[[float], object]) -> None:
    """Drive a connection until something has arrived; TimeoutError after ``wait`` seconds."""
    end = time.monotonic() + wait
    while not bodies:
        left = end - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"nothing arrived within {wait:g} s")
        drive(left)


@dataclass(frozen=True, slots=True)
class RabbitAddress(_Address):
    """A queue."""

    url: str
    queue: str

    def declare(self, kind: str) -> None:
        """Make it, durable."""
        connection = pika.BlockingConnection(pika.URLParameters(self.url))
        connection.channel().queue_declare(self.queue, durable=True, arguments={"x-queue-type": kind})
        connection.close()

    def sender(self) -> Sender:
        """Persistent messages."""
        return _RabbitSender(self.url, self.queue)

    def receiver(self) -> Receiver:
        """Without acknowledgements, which would be the load of another than the mover."""
        return _RabbitReceiver(self.url, self.queue)


class _RabbitSender:
    def __init__(self, url: str, queue: str) -> None:
        self._connection = pika.BlockingConnection(pika.URLParameters(url))
        self._channel = self._connection.channel()
        self._queue = queue
        self._properties = pika.BasicProperties(delivery_mode=2)

    def send(self, body: bytes) -> None:
        self._channel.basic_publish("", self._queue, body, self._properties)

    def rest(self, seconds: float) -> None:
        if seconds:
            time.sleep(seconds)

    def finish(self) -> None:
        self._connection.process_data_events(0)

    def close(self) -> None:
        self._connection.close()


class _RabbitReceiver:
    def __init__(self, url: str, queue: str) -> None:
        self._connection = pika.BlockingConnection(pika.URLParameters(url))
        self._channel = self._connection.channel()
        self._bodies: list[bytes] = []
        self._channel.basic_consume(queue, lambda *got: self._bodies.append(got[3]), auto_ack=True)

    def receive(self, wait: float) -> list[bytes]:
        _await(self._bodies, wait, self._connection.process_data_events)
        bodies, self._bodies = self._bodies, []
        return bodies

    def close(self) -> None:
        self._connection.close()


# -------------------------------------------------------------------------------------------------------------- MQTT


@dataclass(frozen=True, slots=True)
class MqttAddress(_Address):
    """A topic at QoS 1."""

    host: str
    port: int
    topic: str

    def sender(self) -> Sender:
        """Driven by the thread that publishes."""
        return _Mqtt(self.host, self.port, self.topic, subscribe=False)

    def receiver(self) -> Receiver:
        """Driven by the thread that receives."""
        return _Mqtt(self.host, self.port, self.topic, subscribe=True)


def _at_once(_client: mqtt.Client, _data: Any, sock: Any) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class _Mqtt:
    def __init__(self, host: str, port: int, topic: str, *, subscribe: bool) -> None:
        self._topic = topic
        self._bodies: list[bytes] = []
        self._open = 0
        done: list[int] = []
        self._client = client = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
        client.max_inflight_messages_set(_WINDOW)
        client.on_message = lambda _client, _data, message: self._bodies.append(bytes(message.payload))
        client.on_publish = lambda *_: self._published()
        client.on_subscribe = lambda *_: done.append(1)
        client.on_socket_open = _at_once
        client.connect(host, port)
        self._until(client.is_connected)
        if subscribe:
            client.subscribe(topic, qos=1)
            self._until(lambda: bool(done))

    def _until(self, ready: Callable[[], bool]) -> None:
        end = time.monotonic() + 30
        while not ready():
            if time.monotonic() > end:
                raise TimeoutError("the broker does not answer")
            self._client.loop(0.05)

    def _published(self) -> None:
        self._open -= 1

    def send(self, body: bytes) -> None:
        self._until(lambda: self._open < _WINDOW // 5)
        self._open += 1
        self._client.publish(self._topic, body, qos=1)

    def rest(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while True:
            self._client.loop(max(0.0, end - time.monotonic()))
            if time.monotonic() >= end:
                return

    def finish(self) -> None:
        self._until(lambda: not self._open)

    def receive(self, wait: float) -> list[bytes]:
        _await(self._bodies, wait, self._client.loop)
        bodies, self._bodies = self._bodies, []
        return bodies

    def close(self) -> None:
        self._client.disconnect()


# ------------------------------------------------------------------------------------------------------------- Kafka


@dataclass(frozen=True, slots=True)
class KafkaAddress(_Address):
    """A topic with one partition; through librdkafka, whose own part of the latency is small and the same for all."""

    bootstrap: str
    topic: str

    def sender(self) -> Sender:
        """acks=all, no linger."""
        return _KafkaSender(self.bootstrap, self.topic)

    def receiver(self) -> Receiver:
        """From the end."""
        return _KafkaReceiver(self.bootstrap, self.topic)


def _librdkafka() -> Any:
    try:
        return import_module("confluent_kafka")
    except ImportError:
        raise SystemExit("routes with Kafka are measured through librdkafka: pip install confluent-kafka") from None


class _KafkaSender:
    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        options = {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0, "socket.nagle.disable": True}
        self._producer = _librdkafka().Producer(options)
        self._producer.list_topics(topic, 30)

    def send(self, body: bytes) -> None:
        while len(self._producer) > 4 * _WINDOW:
            self._producer.poll(0.01)
        self._producer.produce(self._topic, body)

    def rest(self, seconds: float) -> None:
        self._producer.poll(0)
        if seconds:
            time.sleep(seconds)

    def finish(self) -> None:
        self._producer.flush(60)

    def close(self) -> None:
        self.finish()


class _KafkaReceiver:
    def __init__(self, bootstrap: str, topic: str) -> None:
        options = {
            "bootstrap.servers": bootstrap,
            "group.id": f"latency-{topic}",
            "enable.auto.commit": False,
            "socket.nagle.disable": True,
        }
        self._consumer = _librdkafka().Consumer(options)
        partition = _librdkafka().TopicPartition(topic, 0)
        partition.offset = self._consumer.get_watermark_offsets(partition, 30)[1]
        self._consumer.assign([partition])

    def receive(self, wait: float) -> list[bytes]:
        found = self._consumer.poll(wait)
        if found is None:
            raise TimeoutError(f"nothing arrived within {wait:g} s")
        return [found.value() or b""]

    def close(self) -> None:
        self._consumer.close()
