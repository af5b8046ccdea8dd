"""From link to link: ``python -m benchmarks.through [--rounds N] [--quick] [PAIR ...]``, a pair such as ``mqtt-kafka``.

One THROUGH job beside two jobs with a queue of the hub between them, and beside the bare clients, in turns in one run.
Bare is one thread that only consumes all messages and then publishes them: its rate follows from both. The agent is
connected and frozen while the source is filled (:mod:`benchmarks.one_run`).
"""

from __future__ import annotations

import argparse
import itertools
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pika

from benchmarks import bare
from benchmarks.gateways import BenchGateway
from benchmarks.guarantees import MOSQUITTO, Stand
from benchmarks.measuring import machine, sync_seconds
from benchmarks.one_run import Agent
from benchmarks.pairs import Measured
from tests.support.brokers import Kafka, Mosquitto, RabbitMQ
from tests.support.waiting import eventually

PAIRS = ("rabbitmq-rabbitmq", "mqtt-mqtt", "rabbitmq-kafka", "kafka-rabbitmq", "kafka-kafka", "mqtt-kafka")
_numbers = itertools.count(1)


class RabbitEnd:
    """Classic queues."""

    def __init__(self, stand: Stand) -> None:
        self.broker: RabbitMQ = stand.broker("rabbitmq", RabbitMQ)

    def make(self, name: str) -> None:
        """A durable queue."""
        connection = pika.BlockingConnection(pika.URLParameters(self.broker.url))
        connection.channel().queue_declare(name, durable=True)
        connection.close()

    def link(self, gateway: BenchGateway, name: str) -> None:
        """A link to the broker."""
        broker = self.broker
        place = {"hostname": broker.host, "port": broker.port}
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


class KafkaEnd:
    """Topics with one partition."""

    def __init__(self, stand: Stand) -> None:
        self.broker: Kafka = stand.broker("kafka", Kafka)

    def make(self, name: str) -> None:
        """A topic."""
        self.broker.create_topic(name)

    def link(self, gateway: BenchGateway, name: str) -> None:
        """A link to the broker."""
        gateway.link(name, "KAFKA", {"bootstrap_servers": self.broker.bootstrap})

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


class MqttEnd:
    """Topics at QoS 1, read in a stored session."""

    def __init__(self, stand: Stand) -> None:
        self.broker: Mosquitto = stand.broker("mosquitto", lambda: Mosquitto(config=MOSQUITTO))

    def make(self, name: str) -> None:
        """A topic need not be made."""

    def link(self, gateway: BenchGateway, name: str) -> None:
        """A link to the broker."""
        gateway.link(name, "MQTT", {"hostname": self.broker.host, "port": self.broker.port})

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


ENDS: dict[str, Callable[[Stand], Any]] = {"rabbitmq": RabbitEnd, "kafka": KafkaEnd, "mqtt": MqttEnd}


class Pair:
    """A source and a destination, with a new place at each for every run."""

    def __init__(self, stand: Stand, source: str, target: str) -> None:
        self.stand = stand
        self.source, self.target = ENDS[source](stand), ENDS[target](stand)

    def _places(self) -> tuple[str, str]:
        number = next(_numbers)
        names = f"from-{number}", f"to-{number}"
        self.source.make(names[0])
        self.target.make(names[1])
        return names

    def moved(self, batch: int, *, through: bool) -> Measured:
        """One job, or two with the hub between."""
        bodies = self.stand.bodies(batch)
        here, there = self._places()
        with self.stand.gateway(ledger=True) as gateway:
            self.source.link(gateway, "here")
            self.target.link(gateway, "there")
            source = gateway.foreign("SRC", "here", here, options=self.source.options())
            target = gateway.foreign("DST", "there", there)
            if through:
                gateway.job("out", "THROUGH", source, target, batch)
            else:
                gateway.job("into", "INBOUND", source, "HUB", batch)
                gateway.job("out", "OUTBOUND", "HUB", target, batch)
            with gateway.running() as process:
                eventually(gateway.ready, deadline=60, what="connected jobs")
                agent = Agent(process.pid)
                agent.rest()
                agent.freeze(gateway.file)
                try:
                    self.source.publish(here, bodies)
                    found = agent.measured(lambda: gateway.moved("out"), len(bodies))
                finally:
                    agent.thaw()
                return Measured(found["rate"], found["cpu"], gateway.guarantee("out"))

    def bare(self, batch: int) -> Measured:
        """The bare clients, one after the other."""
        bodies = self.stand.bodies(batch)
        here, there = self._places()
        self.source.subscribe(here)
        self.source.publish(here, bodies)
        begun = time.process_time()
        consumed = self.source.consume(here, len(bodies))
        published = self.target.publish(there, bodies, fast=False)
        cpu = (time.process_time() - begun) / len(bodies) * 1e6
        return Measured(1 / (1 / consumed + 1 / published), cpu, "")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the pairs asked for and print their tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pairs", nargs="*", choices=[*PAIRS, []], help="default: all")
    parser.add_argument("--rounds", type=int, default=3, help="each variant runs so often (default 3)")
    parser.add_argument("--quick", action="store_true", help="a fifth of the messages: figures are rough")
    parser.add_argument("--messages", type=float, default=1.0, help="so many times the messages")
    chosen: Any = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="mgw-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o755)
        print(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {machine()}, load {os.getloadavg()[0]:.1f}")
        print(f"one sync of the hub's disk: {sync_seconds(folder) * 1000:.2f} ms; {chosen.rounds} rounds")
        stand = Stand(folder, chosen.rounds, 0.2 if chosen.quick else chosen.messages, stack)
        for each in chosen.pairs or PAIRS:
            pair = Pair(stand, *each.split("-"))
            variants: dict[str, Callable[[int], Measured]] = {
                "two jobs, the hub between": partial(pair.moved, through=False),
                "THROUGH": partial(pair.moved, through=True),
                "bare clients": pair.bare,
            }
            stand.tell(each.replace("-", " to "), variants)
        print(f"\nload at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
