"""The goals of the benchmarks, as data: ratios to something measured in the same run, and limits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["GOALS", "HUB_PARTS", "Goal"]

#: The part with the figures of the hub on each database.
HUB_PARTS = {"sqlite": "hub", "postgresql": "hub-postgresql"}
HUB, BATCH_500, THROUGH = "hub between, defaults", "hub between, batch 500", "THROUGH, defaults"
HUB_CONFLUENT, THROUGH_CONFLUENT = "hub between, client confluent", "THROUGH, client confluent"
SHOVEL, BRIDGE, BENTO, CAMEL = "Shovel", "Mosquitto bridge", "Bento", "Camel"
RABBITMQ = ("classic to classic", "quorum to quorum")
WITH_KAFKA = ("RabbitMQ to Kafka", "Kafka to RabbitMQ", "MQTT to Kafka", "Kafka to MQTT")
MQTT = ("MQTT to MQTT",)
ROUTES = (*RABBITMQ, *WITH_KAFKA, *MQTT)


@dataclass(frozen=True, slots=True)
class Goal:
    """``mover`` of ``part`` has at least (or at most) ``bound`` of what ``peer`` has; without a peer, of the unit."""

    part: str
    route: str
    mover: str
    measure: str
    bound: float
    peer: str = ""
    most: bool = False
    unit: str = ""

    @property
    def title(self) -> str:
        """What is compared."""
        return f"{self.route}: {self.mover}, {self.measure}"


def _goals() -> Iterator[Goal]:
    for route in ROUTES:
        yield Goal("peers", route, HUB, "rate", 1.0, BATCH_500)
        for peer in (BENTO, CAMEL):
            yield Goal("peers", route, HUB, "rate", 1.0, peer)
            yield Goal("peers", route, HUB, "cpu", 1.0, peer, most=True)
            yield Goal("peers", route, THROUGH, "rate", 1.3, peer)
    for route, bound in zip(RABBITMQ, (1.2, 1.0), strict=True):
        yield Goal("peers", route, HUB, "rate", bound, SHOVEL)
        yield Goal("peers", route, THROUGH, "rate", 1.3, SHOVEL)
    for route in MQTT:
        yield Goal("peers", route, HUB, "rate", 0.8, BRIDGE)
        yield Goal("peers", route, THROUGH, "rate", 1.0, BRIDGE)
    for route in WITH_KAFKA:
        yield Goal("peers", route, HUB_CONFLUENT, "cpu", 35.0, most=True, unit="us a message")
        yield Goal("peers", route, HUB_CONFLUENT, "rate", 1.0, BENTO)
    yield from _latencies()
    yield from _scales()


def _latencies() -> Iterator[Goal]:
    """Limits of a machine where Shovel has a median of 1.5 ms and a 99th percentile of 2.7, so also as ratios to it."""
    classic, mqtt, ours = "classic to classic", "mqtt to mqtt", "gateway"
    yield Goal("latency", classic, ours, "median", 2.5 / 1.5, SHOVEL, most=True)
    yield Goal("latency", classic, ours, "p99", 5.0 / 2.7, SHOVEL, most=True)
    yield Goal("latency", classic, ours, "median", 2.5, most=True, unit="ms")
    yield Goal("latency", classic, ours, "p99", 5.0, most=True, unit="ms")
    yield Goal("latency", mqtt, ours, "median", 1.5, most=True, unit="ms")
    for route in ("classic to kafka", "mqtt to kafka"):
        yield Goal("latency", route, ours, "median", 4.0, most=True, unit="ms")
    for route in (classic, "quorum to quorum", mqtt, "classic to kafka", "mqtt to kafka"):
        yield Goal("latency", route, ours, "p99 at half load", 25.0, most=True, unit="ms")


def _scales() -> Iterator[Goal]:
    for route in ("rabbitmq-in", "rabbitmq-out", "kafka-in", "kafka-out", "mqtt-in", "mqtt-out"):
        for batch in (30, 500):
            yield Goal("databases", f"{route}, batch {batch}", "postgresql", "rate", 0.8, "sqlite")
    for database, part in HUB_PARTS.items():
        for order in ("ENQ_TIME", "PRIORITY"):
            for batch in (30, 500):
                what = f"{database}, {order}, batch {batch}"
                yield Goal(part, what, "hub", "cost with many waiting", 1.2, most=True, unit="of that with few")
            waiting = f"{database}, {order}, 10,000,000 messages waiting"
            yield Goal(part, waiting, "views", "slowest", 100.0, most=True, unit="ms")
    for database in ("SQLite", "PostgreSQL"):
        for cores in (1, 2):
            stream = "Kafka's own source, stream"
            yield Goal("spark", f"{cores} cores", f"{database}: mgw, stream, which consumes them", "rows", 1.0, stream)
    jobs = "300 jobs on 200 links"
    yield Goal("scale", jobs, "gateway", "memory", 600.0, most=True, unit="MB")
    yield Goal("scale", jobs, "gateway", "idle", 2.0, most=True, unit="% of a core")
    yield Goal("scale", jobs, "gateway", "start", 10.0, most=True, unit="s")
    yield Goal("kills", "SIGKILL under full load", "gateway", "repeated", 1000.0, most=True, unit="messages")
    for what in ("memory", "handles", "threads", "file", "indexes", "wal", "logs"):
        yield Goal(
            "soak", "a soak at a high rate", "gateway", f"growth of {what}", 1.1, most=True, unit="of the third before"
        )


GOALS = tuple(_goals())
