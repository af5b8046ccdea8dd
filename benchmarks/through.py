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

from benchmarks.ends import MOSQUITTO, KafkaEnd, MqttEnd, RabbitEnd
from benchmarks.guarantees import Stand
from benchmarks.measuring import machine, sync_seconds
from benchmarks.one_run import Agent, log_emptied
from benchmarks.pairs import Measured
from tests.support.brokers import Kafka, Mosquitto, RabbitMQ
from tests.support.waiting import eventually

PAIRS = ("rabbitmq-rabbitmq", "mqtt-mqtt", "rabbitmq-kafka", "kafka-rabbitmq", "kafka-kafka", "mqtt-kafka")
_numbers = itertools.count(1)


def _rabbitmq(stand: Stand) -> RabbitEnd:
    return RabbitEnd(stand.broker("rabbitmq", RabbitMQ))


def _kafka(stand: Stand) -> KafkaEnd:
    return KafkaEnd(stand.broker("kafka", Kafka))


def _mqtt(stand: Stand) -> MqttEnd:
    return MqttEnd(stand.broker("mosquitto", lambda: Mosquitto(config=MOSQUITTO)))


ENDS: dict[str, Callable[[Stand], Any]] = {"rabbitmq": _rabbitmq, "kafka": _kafka, "mqtt": _mqtt}


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
                agent.freeze(partial(log_emptied, gateway.file))
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
