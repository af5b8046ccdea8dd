"""The clients of Kafka links: ``python -m benchmarks.clients [--rounds N] [--batch N] [--messages F] [ROUTE ...]``.

What a message costs on each route with a Kafka end through two jobs with the hub between, and from link to link in one
job (``ROUTE-through``), with kafka-python and with librdkafka in turns. The agent is connected and frozen while the
source is filled (:mod:`benchmarks.one_run`). ``alone`` measures the link without a hub: conversion, client, and nothing
else, in this process.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.gateways import BenchGateway
from benchmarks.guarantees import SIZES, Stand
from benchmarks.measuring import machine
from benchmarks.pairs import Measured, compared, told
from benchmarks.through import Pair
from mgw.links.contract import Endpoint, JobUse, LinkConfig
from mgw.links.registry import open_link
from mgw.transforms.message import Message
from tests.support.brokers import Kafka

CLIENTS = ("kafka-python", "confluent")
_PAIRS = ("rabbitmq-kafka", "mqtt-kafka", "kafka-rabbitmq", "kafka-mqtt", "kafka-kafka")
ROUTES = ("alone", *_PAIRS, *(f"{pair}-through" for pair in _PAIRS))
WINDOW = 4  # batches under way


class ClientPair(Pair):
    """A pair whose links to Kafka use one client."""

    def with_client(self, client: str, batch: int, *, through: bool) -> Measured:
        """One run."""
        for end in (self.source, self.target):
            if end.kind == "kafka":
                end.link = partial(_linked, end, client)
        return self.moved(batch, through=through)


def _linked(end: Any, client: str, gateway: BenchGateway, name: str) -> None:
    type(end).link(end, gateway, name, client=client)


class Alone:
    """A link without a gateway."""

    def __init__(self, stand: Stand, batch: int) -> None:
        self._broker: Kafka = stand.broker("kafka", Kafka)
        self._batch = batch
        self._messages = [Message(body=body) for body in stand.bodies(batch)]
        self._runs = 0

    def _measured(self, begun: float, spent: float) -> Measured:
        count = len(self._messages)
        return Measured(count / (time.monotonic() - begun), (time.process_time() - spent) / count * 1e6, "")

    def run(self, client: str, *, logged: bool) -> tuple[Measured, Measured]:
        """Send everything to a new topic, and read it again."""
        self._runs += 1
        name = f"alone-{self._runs}"
        self._broker.create_topic(name)
        log = f"{name}-log" if logged else None
        if log:
            self._broker.create_topic(log, 1, {"cleanup.policy": "compact"})
        place = {"bootstrap_servers": self._broker.bootstrap, "client": client}
        link = open_link(LinkConfig("kf", "KAFKA", place, outbound_log_queue=log))
        use = JobUse(Endpoint("T", "kf", name, options={"KAFKA_StartAt": "earliest"}), f"J{self._runs}")
        return self._sent(link.destination(use)), self._read(link.source(use))

    def _sent(self, destination: Any) -> Measured:
        destination.connect()
        begun, spent = time.monotonic(), time.process_time()
        starts = range(0, len(self._messages), self._batch)
        for number, start in enumerate(starts, 1):
            part = [destination.encode(message) for message in self._messages[start : start + self._batch]]
            destination.publish(number, part)
            while number - (destination.confirmed(0) or 0) > WINDOW:
                destination.confirmed(0.5)
        while (destination.confirmed(0.5) or 0) < len(starts):
            pass
        found = self._measured(begun, spent)
        destination.close()
        return found

    def _read(self, source: Any) -> Measured:
        source.connect({})
        begun, spent = time.monotonic(), time.process_time()
        read = 0
        while read < len(self._messages):
            read += len(source.read(self._batch, 1.0).deliveries)
        found = self._measured(begun, spent)
        source.close()
        return found


def _alone(stand: Stand, batch: int) -> None:
    link = Alone(stand, batch)
    for logged in (False, True):
        runs: dict[str, list[tuple[Measured, Measured]]] = {client: [] for client in CLIENTS}
        for number in range(stand.rounds):
            for client in CLIENTS if number % 2 == 0 else reversed(CLIENTS):
                runs[client].append(link.run(client, logged=logged))
        ways = ("sent in transactions",) if logged else ("sent", "read")
        for index, way in enumerate(ways):
            ready = {client: iter([run[index] for run in each]) for client, each in runs.items()}
            variants = {client: partial(next, each) for client, each in ready.items()}
            told(f"### the link alone, {way}, batches of {batch}", compared(variants, stand.rounds))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the routes asked for and print their tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("routes", nargs="*", choices=[*ROUTES, []], help="default: alone and what has no -through")
    parser.add_argument("--rounds", type=int, default=3, help="each client runs so often (default 3)")
    parser.add_argument("--batch", type=int, choices=list(SIZES), default=500, help="MsgBatchSize (default 500)")
    parser.add_argument("--messages", type=float, default=1.0, help="so many times the messages")
    chosen: Any = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="mgw-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o755)
        print(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {machine()}, load {os.getloadavg()[0]:.1f}")
        stand = Stand(folder, chosen.rounds, chosen.messages, stack)
        for route in chosen.routes or ("alone", *_PAIRS):
            if route == "alone":
                _alone(stand, chosen.batch)
                continue
            source, target, *through = route.split("-")
            pair = ClientPair(stand, source, target)
            variants = {
                client: partial(pair.with_client, client, chosen.batch, through=bool(through)) for client in CLIENTS
            }
            told(f"### {route.replace('-', ' to ', 1)}, MsgBatchSize {chosen.batch}", compared(variants, chosen.rounds))
        print(f"\nload at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
