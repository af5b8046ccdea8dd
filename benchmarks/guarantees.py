"""What exactly once and the ledger cost: ``python -m benchmarks.guarantees [--rounds N] [--quick] [PART ...]``.

Parts: ``ledger`` (each way with and without the record of what became of every message), ``rabbitmq``, ``kafka``,
``mqtt`` (each way at least once and exactly once). All variants of a way are measured in turns in one run.
"""

from __future__ import annotations

import argparse
import itertools
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pika

from benchmarks import bare
from benchmarks.ends import MOSQUITTO
from benchmarks.gateways import BenchGateway
from benchmarks.measuring import body_of, machine, sync_seconds
from benchmarks.pairs import Measured, Watched, compared, told
from tests.support.brokers import Kafka, Mosquitto, RabbitMQ
from tests.support.waiting import eventually

BODY = 256
BATCHES = (30, 500)
SIZES = {30: 9_000, 500: 30_000}  # messages of a run
LOG_ARGUMENTS = {"x-queue-type": "classic", "x-max-length": 2}
_numbers = itertools.count(1)


class Stand:
    """What all runs share: a folder, the number of rounds, brokers that are started once."""

    def __init__(self, folder: Path, rounds: int, scale: float, stack: ExitStack) -> None:
        self.folder = folder
        self.rounds = rounds
        self._scale = scale
        self._stack = stack
        self._brokers: dict[str, Any] = {}

    def bodies(self, batch: int) -> list[bytes]:
        """The messages of a run."""
        return [body_of(BODY, number) for number in range(int(SIZES[batch] * self._scale))]

    def broker(self, name: str, start: Callable[[], Any]) -> Any:
        """A broker, started at the first call."""
        if name not in self._brokers:
            self._brokers[name] = self._stack.enter_context(start())
        return self._brokers[name]

    @contextmanager
    def gateway(self, *, ledger: bool) -> Iterator[BenchGateway]:
        """A new gateway with a hub queue."""
        gateway = BenchGateway(self.folder / f"gateway-{next(_numbers)}")
        try:
            if not ledger:
                gateway.admin.set_agent_option("DEFAULT_AGENT", "ledger_retention", "0")
            gateway.queue("HUB")
            yield gateway
        finally:
            gateway.close()

    def tell(self, title: str, variants: Mapping[str, Callable[[int], Measured]]) -> None:
        """Measure variants at every batch size."""
        for batch in BATCHES:
            bound = {name: partial(run, batch) for name, run in variants.items()}
            told(f"### {title}, MsgBatchSize {batch}", compared(bound, self.rounds))


def _moved(gateway: BenchGateway, job: str, total: int, before: Callable[[], object] = lambda: None) -> Measured:
    """Run the agent until the job has moved everything."""
    with gateway.running() as process:
        before()
        rate, cpu = Watched(lambda: gateway.moved(job), total, process).run()
        return Measured(rate, cpu, gateway.guarantee(job))


# ---------------------------------------------------------------------------------------------------------- RabbitMQ


class Rabbit:
    """A broker and a channel to look after its queues."""

    def __init__(self, stand: Stand) -> None:
        self.stand = stand
        self.broker: RabbitMQ = stand.broker("rabbitmq", RabbitMQ)

    @contextmanager
    def queues(self, *names: str) -> Iterator[None]:
        """New queues for a run, and the log queues of its jobs."""
        connection = pika.BlockingConnection(pika.URLParameters(self.broker.url))
        channel = connection.channel()
        logs = ["mgw.log.into", "mgw.log.out"]
        for name in names:
            channel.queue_declare(name, durable=True, arguments={"x-queue-type": "classic"})
        for name in logs:
            channel.queue_declare(name, durable=True, arguments=LOG_ARGUMENTS)
        connection.close()
        try:
            yield
        finally:
            connection = pika.BlockingConnection(pika.URLParameters(self.broker.url))
            for name in (*names, *logs):
                connection.channel().queue_delete(name)
            connection.close()

    def _link(self, gateway: BenchGateway, **logs: str) -> None:
        place = {"hostname": self.broker.host, "port": self.broker.port}
        login = {"username": self.broker.username, "password": self.broker.password}
        gateway.link("rabbit", "RABBITMQ", place, **login, **logs)

    def inbound(self, batch: int, *, unique: bool = False, logged: bool = False, ledger: bool = True) -> Measured:
        """A classic queue to the hub; every message has an id, whether it is used or not."""
        bodies = self.stand.bodies(batch)
        with self.queues("in"), self.stand.gateway(ledger=ledger) as gateway:
            bare.amqp_publish(self.broker.url, "in", bodies, window=4000, named=True)
            self._link(gateway, **({"inbound_log_queue": "mgw.log.{job}"} if logged else {}))
            options = {"AMQP_UniqueIds": "TRUE"} if unique else {}
            gateway.job("into", "INBOUND", gateway.foreign("IN", "rabbit", "in", options=options), "HUB", batch)
            return _moved(gateway, "into", len(bodies))

    def outbound(self, batch: int, *, logged: bool = False, ledger: bool = True) -> Measured:
        """The hub to a classic queue."""
        bodies = self.stand.bodies(batch)
        with self.queues("out"), self.stand.gateway(ledger=ledger) as gateway:
            self._link(gateway, **({"outbound_log_queue": "mgw.log.{job}"} if logged else {}))
            gateway.fill("HUB", bodies)
            gateway.job("out", "OUTBOUND", "HUB", gateway.foreign("OUT", "rabbit", "out"), batch)
            return _moved(gateway, "out", len(bodies))


def rabbitmq(stand: Stand) -> None:
    """RabbitMQ: with and without unique ids and log queues."""
    rabbit = Rabbit(stand)
    ways = {
        "at least once": rabbit.inbound,
        "unique message ids": partial(rabbit.inbound, unique=True),
        "log queue": partial(rabbit.inbound, logged=True),
    }
    stand.tell("RabbitMQ classic queue to hub", ways)
    ways = {"at least once": rabbit.outbound, "log queue": partial(rabbit.outbound, logged=True)}
    stand.tell("Hub to RabbitMQ classic queue", ways)


# ------------------------------------------------------------------------------------------------------------- Kafka


class Topics:
    """A broker and new topics."""

    def __init__(self, stand: Stand) -> None:
        self.stand = stand
        self.broker: Kafka = stand.broker("kafka", Kafka)

    def outbound(self, batch: int, *, logged: bool = False, ledger: bool = True) -> Measured:
        """The hub to a topic with one partition."""
        bodies = self.stand.bodies(batch)
        number = next(_numbers)
        self.broker.create_topic(f"out-{number}")
        more = {}
        if logged:
            self.broker.create_topic(f"log-{number}", 1, {"cleanup.policy": "compact"})
            more = {"outbound_log_queue": f"log-{number}"}
        with self.stand.gateway(ledger=ledger) as gateway:
            gateway.link("kafka", "KAFKA", {"bootstrap_servers": self.broker.bootstrap}, **more)
            gateway.fill("HUB", bodies)
            gateway.job("out", "OUTBOUND", "HUB", gateway.foreign("OUT", "kafka", f"out-{number}"), batch)
            return _moved(gateway, "out", len(bodies))


def kafka(stand: Stand) -> None:
    """Kafka outbound: with and without a log topic. Inbound is always exact."""
    topics = Topics(stand)
    stand.tell("Hub to Kafka", {"at least once": topics.outbound, "log topic": partial(topics.outbound, logged=True)})


# -------------------------------------------------------------------------------------------------------------- MQTT


class Topic:
    """Two brokers: one that says what it is, and one whose $SYS topics nobody may read."""

    def __init__(self, stand: Stand) -> None:
        self.stand = stand
        rules = stand.folder / "silent.acl"
        rules.write_text("topic readwrite #\n")  # the wildcard does not cover $SYS
        rules.chmod(0o644)
        self._open: Mosquitto = stand.broker("mosquitto", lambda: Mosquitto(config=MOSQUITTO))
        silent = (*MOSQUITTO, f"acl_file {rules}")
        self._silent: Mosquitto = stand.broker("silent", lambda: Mosquitto(config=silent))

    def inbound(self, batch: int, *, exact: bool = True, ledger: bool = True) -> Measured:
        """A topic to the hub; at least once where the broker does not say that its packet ids are cyclic."""
        bodies = self.stand.bodies(batch)
        broker = self._open if exact else self._silent
        topic = f"bench/{next(_numbers)}"
        with self.stand.gateway(ledger=ledger) as gateway:
            gateway.link("mqtt", "MQTT", {"hostname": broker.host, "port": broker.port})
            gateway.job("into", "INBOUND", gateway.foreign("IN", "mqtt", topic), "HUB", batch)
            with gateway.running():
                eventually(gateway.ready, deadline=60, what="a connected job")
            bare.mqtt_publish(broker.host, broker.port, topic, bodies)
            return _moved(gateway, "into", len(bodies))

    def outbound(self, batch: int, *, logged: bool = False, ledger: bool = True) -> Measured:
        """The hub to a topic that nobody reads but, with a log, the job itself."""
        bodies = self.stand.bodies(batch)
        number = next(_numbers)
        more = {"outbound_log_queue": f"log/{number}/{{job}}"} if logged else {}
        with self.stand.gateway(ledger=ledger) as gateway:
            gateway.link("mqtt", "MQTT", {"hostname": self._open.host, "port": self._open.port}, **more)
            gateway.fill("HUB", bodies)
            gateway.job("out", "OUTBOUND", "HUB", gateway.foreign("OUT", "mqtt", f"bench/out/{number}"), batch)
            return _moved(gateway, "out", len(bodies))


def mqtt(stand: Stand) -> None:
    """MQTT: with and without the receiving log by packet id, and with and without an echo of the output as log."""
    topic = Topic(stand)
    ways = {"at least once": partial(topic.inbound, exact=False), "receiving log by packet id": topic.inbound}
    stand.tell("MQTT to hub", ways)
    stand.tell("Hub to MQTT", {"at least once": topic.outbound, "echo log": partial(topic.outbound, logged=True)})


def ledger(stand: Stand) -> None:
    """The record of what became of every message: off and on."""
    rabbit, topics, topic = Rabbit(stand), Topics(stand), Topic(stand)
    ways: dict[str, Callable[..., Measured]] = {
        "RabbitMQ to hub": rabbit.inbound,
        "hub to RabbitMQ": rabbit.outbound,
        "hub to Kafka": topics.outbound,
        "hub to MQTT": topic.outbound,
    }
    for name, run in ways.items():
        stand.tell(f"Ledger, {name}", {"no ledger": partial(run, ledger=False), "ledger": run})


PARTS: dict[str, Callable[[Stand], None]] = {"ledger": ledger, "rabbitmq": rabbitmq, "kafka": kafka, "mqtt": mqtt}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the parts asked for and print their tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="default: all")
    parser.add_argument("--rounds", type=int, default=5, help="each variant runs so often (default 5)")
    parser.add_argument("--quick", action="store_true", help="a fifth of the messages: figures are rough")
    chosen: Any = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="mgw-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o755)
        print(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {machine()}, load {os.getloadavg()[0]:.1f}")
        print(f"one sync of the hub's disk: {sync_seconds(folder) * 1000:.2f} ms; {chosen.rounds} rounds")
        stand = Stand(folder, chosen.rounds, 0.2 if chosen.quick else 1.0, stack)
        for part in chosen.parts or PARTS:
            PARTS[part](stand)
        print(f"\nload at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
