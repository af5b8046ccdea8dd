"""Bare client loops: the same clients as the links use, through their public interfaces, without gateway or hub."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence

import paho.mqtt.client as mqtt
import pika
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from pika.adapters.select_connection import SelectConnection
from pika.channel import Channel

__all__ = [
    "amqp_consume",
    "amqp_publish",
    "kafka_consume",
    "kafka_publish",
    "mqtt_consume",
    "mqtt_publish",
    "mqtt_subscribe",
]

WINDOW = 1000


class _Publisher:
    """pika's SelectConnection with a window of unconfirmed publishes."""

    def __init__(self, url: str, queue: str, bodies: Sequence[bytes], window: int, *, named: bool) -> None:
        self._queue, self._bodies, self._window = queue, bodies, window
        self._next = self._confirmed = 0
        self._unconfirmed: set[int] = set()
        self._properties = pika.BasicProperties(delivery_mode=2)
        self._named = named
        self.began = self.ended = 0.0
        self._connection = SelectConnection(
            pika.URLParameters(url), on_open_callback=lambda c: c.channel(on_open_callback=self._opened)
        )

    def run(self) -> float:
        self._connection.ioloop.start()
        return len(self._bodies) / (self.ended - self.began)

    def _opened(self, channel: Channel) -> None:
        self._channel = channel
        channel.confirm_delivery(self._on_confirm, callback=lambda _: self._start())

    def _start(self) -> None:
        self.began = time.perf_counter()
        self._fill()

    def _fill(self) -> None:
        while self._next < len(self._bodies) and len(self._unconfirmed) < self._window:
            if self._named:
                self._properties.message_id = f"id-{self._next}"
            self._channel.basic_publish("", self._queue, self._bodies[self._next], self._properties)
            self._next += 1
            self._unconfirmed.add(self._next)

    def _on_confirm(self, frame: pika.frame.Method) -> None:
        tag = frame.method.delivery_tag
        if frame.method.multiple:
            self._unconfirmed = {number for number in self._unconfirmed if number > tag}
        else:
            self._unconfirmed.discard(tag)
        if self._next < len(self._bodies):
            self._fill()
        elif not self._unconfirmed:
            self.ended = time.perf_counter()
            self._connection.close()
            self._connection.ioloop.stop()


def amqp_publish(url: str, queue: str, bodies: Sequence[bytes], window: int = WINDOW, *, named: bool = False) -> float:
    """Publish persistent messages (``named``: with message ids), confirms in a window; messages per second."""
    return _Publisher(url, queue, bodies, window, named=named).run()


def amqp_consume(url: str, queue: str, count: int) -> float:
    """Consume, acknowledging every 100 messages; messages per second."""
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    channel.basic_qos(prefetch_count=WINDOW)
    began = time.perf_counter()
    for seen, (method, _, _) in enumerate(channel.consume(queue), 1):
        if seen % 100 == 0 or seen == count:
            channel.basic_ack(method.delivery_tag, multiple=True)
        if seen == count:
            break
    rate = count / (time.perf_counter() - began)
    connection.close()
    return rate


def kafka_publish(bootstrap: str, topic: str, bodies: Sequence[bytes]) -> float:
    """Idempotent producer, acks=all, large batches; messages per second."""
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=5, batch_size=262144)
    producer.partitions_for(topic)
    began = time.perf_counter()
    open_sends: deque[object] = deque()
    for body in bodies:
        open_sends.append(producer.send(topic, body))
        if len(open_sends) > 4 * WINDOW:
            open_sends.popleft().get(60)  # type: ignore[attr-defined]
    for future in open_sends:
        future.get(60)  # type: ignore[attr-defined]
    rate = len(bodies) / (time.perf_counter() - began)
    producer.close()
    return rate


def kafka_consume(bootstrap: str, topic: str, count: int) -> float:
    """poll(500) from the beginning, read_committed; messages per second."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, enable_auto_commit=False, isolation_level="read_committed", group_id=None
    )
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek(partition, 0)
    began, seen = time.perf_counter(), 0
    while seen < count:
        for records in consumer.poll(1000, max_records=500).values():
            seen += len(records)
    rate = seen / (time.perf_counter() - began)
    consumer.close()
    return rate


def _client(name: str, *, clean: bool) -> tuple[mqtt.Client, Properties]:
    client = mqtt.Client(CallbackAPIVersion.VERSION2, name, protocol=mqtt.MQTTv5, manual_ack=True)
    properties = Properties(PacketTypes.CONNECT)
    properties.SessionExpiryInterval = 0 if clean else 3600
    return client, properties


def mqtt_publish(host: str, port: int, topic: str, bodies: Sequence[bytes], window: int = 100) -> float:
    """QoS 1 with a window of unacknowledged publishes; messages per second."""
    client, properties = _client("bare-publisher", clean=True)
    client.max_inflight_messages_set(window)
    state = {"acked": 0, "next": 0}

    def on_publish(*_: object) -> None:
        state["acked"] += 1

    client.on_publish = on_publish
    client.connect(host, port, clean_start=True, properties=properties)
    while not client.is_connected():
        client.loop(0.05)
    began = time.perf_counter()
    while state["acked"] < len(bodies):
        while state["next"] < len(bodies) and state["next"] - state["acked"] < window:
            client.publish(topic, bodies[state["next"]], qos=1)
            state["next"] += 1
        client.loop(0.05)
    rate = len(bodies) / (time.perf_counter() - began)
    client.disconnect()
    return rate


def mqtt_subscribe(host: str, port: int, topic: str, session: str) -> None:
    """Make a persistent session that collects while nobody is connected."""
    client, properties = _client(session, clean=False)
    done: list[int] = []
    client.on_subscribe = lambda *_: done.append(1)
    client.connect(host, port, clean_start=False, properties=properties)
    while not client.is_connected():
        client.loop(0.05)
    client.subscribe(topic, qos=1)
    while not done:
        client.loop(0.05)
    client.disconnect()


def mqtt_consume(host: str, port: int, session: str, count: int) -> float:
    """Read what a persistent session collected, acknowledging each message by hand; messages per second."""
    client, properties = _client(session, clean=False)
    waiting: list[int] = []
    client.on_message = lambda _client, _data, message: waiting.append(message.mid)
    began, seen = time.perf_counter(), 0
    client.connect(host, port, clean_start=False, properties=properties)
    while seen < count:
        client.loop(0.05)
        for mid in waiting:
            client.ack(mid, 1)
        seen += len(waiting)
        waiting.clear()
    rate = seen / (time.perf_counter() - began)
    client.disconnect()
    return rate
