"""The peers: RabbitMQ's own Shovel, and a Mosquitto bridge."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.brokers import Mosquitto, RabbitMQ

__all__ = ["bridged", "shovelled"]


@contextmanager
def shovelled(broker: RabbitMQ, source: str, destination: str) -> Iterator[None]:
    """A dynamic shovel between two queues, ack-mode on-confirm, prefetch 1000 (its default)."""
    uri = broker.url.rstrip("/")  # with a trailing slash it would name the empty virtual host
    definition = {
        "src-protocol": "amqp091",
        "src-uri": uri,
        "src-queue": source,
        "src-prefetch-count": 1000,
        "dest-protocol": "amqp091",
        "dest-uri": uri,
        "dest-queue": destination,
        "ack-mode": "on-confirm",
    }
    broker.ctl("set_parameter", "shovel", "bench", json.dumps(definition))
    try:
        yield
    finally:
        broker.ctl("clear_parameter", "shovel", "bench")


@contextmanager
def bridged(source: Mosquitto, topic: str) -> Iterator[Mosquitto]:
    """A second Mosquitto that fetches ``topic`` from ``source`` at QoS 1 over a persistent session."""
    target = Mosquitto(
        config=(
            "connection bench",
            f"address {source.host}:{source.port}",
            f"topic {topic} in 1",
            "cleansession false",
            "bridge_protocol_version mqttv50",
            "try_private false",
            "notifications false",
            "max_inflight_messages 1000",
        )
    )
    try:
        target.start()
        yield target
    finally:
        target.close()
