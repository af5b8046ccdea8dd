"""RabbitMQ's own Shovel: it runs inside the broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.ends import End, RabbitEnd
from benchmarks.peers.contract import Motion, Mover, Way
from tests.support.brokers import RabbitMQ

__all__ = ["PLUGINS", "Shovel", "shovelled"]

PLUGINS = ("rabbitmq_shovel",)
_PREFETCH = 1000  # its default
_PREFETCH_TUNED = 5000


def _definition(broker: RabbitMQ, source: str, destination: str, prefetch: int) -> str:
    uri = broker.url.rstrip("/")  # with a trailing slash it would name the empty virtual host
    definition: dict[str, Any] = {
        "src-protocol": "amqp091",
        "src-uri": uri,
        "src-queue": source,
        "src-prefetch-count": prefetch,
        "dest-protocol": "amqp091",
        "dest-uri": uri,
        "dest-queue": destination,
        "ack-mode": "on-confirm",
    }
    return json.dumps(definition)


@contextmanager
def shovelled(broker: RabbitMQ, source: str, destination: str, prefetch: int = _PREFETCH) -> Iterator[None]:
    """A dynamic shovel between two queues, ack-mode on-confirm."""
    broker.ctl("set_parameter", "shovel", "bench", _definition(broker, source, destination, prefetch))
    try:
        yield
    finally:
        broker.ctl("clear_parameter", "shovel", "bench")


class _Shovelling(Motion):
    """A shovel that is defined, and not while it is frozen: its process is the broker's."""

    def __init__(self, broker: RabbitMQ, source: str, destination: str) -> None:
        self._broker = broker
        self._defined = _definition(broker, source, destination, _PREFETCH_TUNED)

    def freeze(self) -> None:
        """Remove it."""
        self._broker.ctl("clear_parameter", "shovel", "bench")

    def thaw(self) -> None:
        """Define it."""
        self._broker.ctl("set_parameter", "shovel", "bench", self._defined)

    def log(self) -> str:
        """The broker's."""
        return self._broker.log.read_text(errors="replace")[-3000:]


class Shovel(Mover):
    """ack-mode on-confirm, prefetch 5000."""

    name = "Shovel"

    def version(self) -> str:
        """It comes with the broker."""
        return ""

    def can(self, source: End, target: End) -> bool:
        """Between queues of one broker."""
        return isinstance(source, RabbitEnd) and isinstance(target, RabbitEnd)

    @contextmanager
    def moving(self, way: Way) -> Iterator[Motion]:
        """A dynamic shovel."""
        if not isinstance(way.source, RabbitEnd):
            raise TypeError("a shovel reads a queue of RabbitMQ")
        motion = _Shovelling(way.source.broker, way.here, way.there)
        motion.thaw()
        try:
            yield motion
        finally:
            motion.freeze()
