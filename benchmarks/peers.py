"""The peers: RabbitMQ's own Shovel, and a Mosquitto bridge."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
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
def bridged(topic: str, settings: Sequence[str]) -> Iterator[tuple[Mosquitto, Mosquitto]]:
    """Two brokers; the first sends ``topic`` to the second through a bridge at QoS 1 over a persistent session."""
    with Mosquitto(config=settings) as target:
        bridge = (
            "connection bench",
            f"address {target.host}:{target.port}",
            f"topic {topic} out 1",
            "cleansession false",
            "bridge_protocol_version mqttv50",
            "try_private false",
            "notifications false",
        )
        with Mosquitto(config=(*settings, *bridge)) as source:
            yield source, target
