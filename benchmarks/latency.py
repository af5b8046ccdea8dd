"""Latency benchmark: ``python -m benchmarks.latency [ROUTE ...] [--samples N] [--half SECONDS] [--hub-only]``.

Single messages, one after the other, through an idle mover: what a message waits from the call that publishes it at the
source to its arrival at the destination. Then a steady flow at half of the rate that the route carries: what the
slowest hundredth waits. The peers (Shovel, a Mosquitto bridge) run in the same run on the same brokers. The hub is
SQLite with synchronous=FULL, jobs have default settings, bodies have 256 bytes, all is persistent.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.ends import MOSQUITTO
from benchmarks.gateways import BenchGateway
from benchmarks.latency_ends import Address, KafkaAddress, MqttAddress, RabbitAddress, Receiver
from benchmarks.measuring import Latency, body_of, latency_of, machine, sync_seconds
from benchmarks.peers import bridged, shovelled
from benchmarks.recorded import Recorder
from tests.support.brokers import Kafka, Mosquitto, RabbitMQ
from tests.support.waiting import eventually

BODY = 256
WARM_UP = 30
PAUSE = 0.005  # seconds between two single messages
TICK = 0.002  # seconds between two looks of the paced publisher at its clock
FLOOD = 20_000  # messages of which the highest rate is taken
_numbers = count()


def stamped(number: int) -> bytes:
    """A body that tells when it was made; the clock is the same in all processes."""
    return f"{time.monotonic_ns():020d}".encode() + body_of(BODY - 20, number)


def age(body: bytes) -> float:
    """Seconds since the body was made."""
    return (time.monotonic_ns() - int(body[:20])) / 1e9


# ---------------------------------------------------------------------------------------------------------- measuring


def single(source: Address, receiver: Receiver, samples: int) -> Latency:
    """One message after the other."""
    sender = source.sender()
    taken: list[float] = []
    try:
        for number in range(samples + WARM_UP):
            sender.send(stamped(number))
            bodies = receiver.receive(30.0)
            taken.append(age(bodies[-1]))
            sender.rest(PAUSE)
    finally:
        sender.close()
    return latency_of(taken[WARM_UP:])


def _publish(source: Address, total: int, rate: float | None) -> None:
    """In a process of its own: so many messages, as fast as the source takes them or at a steady rate."""
    sender = source.sender()
    begun = time.monotonic()
    number = 0
    while number < total:
        due = total if rate is None else min(total, int((time.monotonic() - begun) * rate) + 1)
        for _ in range(min(due - number, 100)):
            sender.send(stamped(number))
            number += 1
        sender.rest(0.0 if number < due else TICK)
    sender.finish()
    sender.close()


@contextmanager
def publishing(source: Address, total: int, rate: float | None) -> Iterator[None]:
    """A publisher in a process of its own."""
    process = multiprocessing.get_context("spawn").Process(target=_publish, args=(source, total, rate))
    process.start()
    try:
        yield
        process.join(60)
    finally:
        if process.is_alive():
            process.kill()
        process.join()


def collected(receiver: Receiver, total: int) -> tuple[float, list[float]]:
    """The rate at which so many messages arrive, without the first tenth, and how old they are."""
    ages: list[float] = []
    head = begun = 0.0
    while len(ages) < total:
        ages += [age(body) for body in receiver.receive(60.0)]
        if not begun and len(ages) >= total // 10:
            begun, head = time.monotonic(), len(ages)
    return (len(ages) - head) / max(time.monotonic() - begun, 1e-9), ages


def half_load(source: Address, receiver: Receiver, seconds: float) -> tuple[float, Latency]:
    """The highest rate of the route, and the latency at half of it; the publisher runs, too."""
    with publishing(source, FLOOD, None):
        highest, _ = collected(receiver, FLOOD)
    rate = highest / 2
    total = int(rate * seconds)
    with publishing(source, total, rate):
        _, ages = collected(receiver, total)
    return rate, latency_of(ages[len(ages) // 5 :])


# ------------------------------------------------------------------------------------------------------------- movers


@dataclass(frozen=True, slots=True)
class Brokers:
    """What runs, started when a route needs it first."""

    stack: ExitStack
    started: dict[str, Any]
    folder: Path

    def rabbitmq(self) -> RabbitMQ:
        """With the Shovel plug-in."""
        return self._one("rabbitmq", lambda: RabbitMQ(plugins=("rabbitmq_shovel",)))  # type: ignore[no-any-return]

    def kafka(self) -> Kafka:
        """One server."""
        return self._one("kafka", Kafka)  # type: ignore[no-any-return]

    def mosquitto(self, name: str = "mosquitto") -> Mosquitto:
        """Without limits of its queues, with TCP_NODELAY."""
        return self._one(name, lambda: Mosquitto(config=MOSQUITTO))  # type: ignore[no-any-return]

    def bridge(self) -> tuple[Mosquitto, Mosquitto]:
        """Two brokers with a bridge between them."""
        return self._one("bridge", lambda: bridged("bridged/#", MOSQUITTO))  # type: ignore[no-any-return]

    def _one(self, name: str, make: Callable[[], AbstractContextManager[Any]]) -> Any:
        if name not in self.started:
            self.started[name] = self.stack.enter_context(make())
        return self.started[name]


Made = tuple[str, dict[str, Any], dict[str, Any], str, dict[str, Any], Address]


def _rabbitmq(brokers: Brokers, kind: str, name: str) -> Made:
    broker = brokers.rabbitmq()
    address = RabbitAddress(broker.url, name)
    address.declare(kind)
    login = {"username": broker.username, "password": broker.password}
    return "RABBITMQ", {"hostname": broker.host, "port": broker.port}, login, name, {}, address


def _kafka(brokers: Brokers, _: str, name: str) -> Made:
    broker = brokers.kafka()
    broker.create_topic(name)
    place = {"bootstrap_servers": broker.bootstrap}
    return "KAFKA", place, {}, name, {"KAFKA_StartAt": "latest"}, KafkaAddress(broker.bootstrap, name)


def _mqtt(brokers: Brokers, _: str, name: str) -> Made:
    broker = brokers.mosquitto()
    return (
        "MQTT",
        {"hostname": broker.host, "port": broker.port},
        {},
        name,
        {},
        MqttAddress(broker.host, broker.port, name),
    )


ENDS: dict[str, Callable[[Brokers, str, str], Made]] = {
    "classic": _rabbitmq,
    "quorum": _rabbitmq,
    "kafka": _kafka,
    "mqtt": _mqtt,
}
ROUTES = (
    "classic-classic",
    "quorum-quorum",
    "mqtt-mqtt",
    "classic-kafka",
    "mqtt-kafka",
    "kafka-classic",
    "kafka-mqtt",
)
Ends = tuple[Address, Address]


@contextmanager
def gateway(brokers: Brokers, route: str) -> Iterator[Ends]:
    """The gateway with a queue of the hub between two jobs at default settings."""
    number = next(_numbers)
    ends = [
        ENDS[kind](brokers, kind, f"{side}{number}")
        for kind, side in zip(route.split("-"), ("src", "dst"), strict=True)
    ]
    mover = BenchGateway(brokers.folder / f"gateway-{number}")
    try:
        mover.queue("HUB")
        names = []
        for side, (kind, place, more, name, options, _) in zip(("here", "there"), ends, strict=True):
            mover.link(side, kind, place, **more)
            chosen = options if side == "here" else {}
            names.append(mover.foreign(f"END_{side}", side, name, options=chosen))
        mover.admin.create_job("into", "INBOUND", names[0], "HUB")
        mover.admin.create_job("out", "OUTBOUND", "HUB", names[1])
        with mover.running():
            eventually(mover.ready, deadline=60, what="connected jobs")
            time.sleep(4.0)  # its start is over: it tidies its memory after 3 s
            yield ends[0][-1], ends[1][-1]
    finally:
        mover.close()


@contextmanager
def shovel(brokers: Brokers, route: str) -> Iterator[Ends]:
    """RabbitMQ's own, with a confirm for every message."""
    number = next(_numbers)
    broker, kind = brokers.rabbitmq(), route.partition("-")[0]
    source, target = RabbitAddress(broker.url, f"src{number}"), RabbitAddress(broker.url, f"dst{number}")
    source.declare(kind)
    target.declare(kind)
    with shovelled(broker, source.queue, target.queue):
        yield source, target


@contextmanager
def bridge(brokers: Brokers, _: str) -> Iterator[Ends]:
    """Mosquitto's own, QoS 1."""
    here, there = brokers.bridge()
    topic = f"bridged/{next(_numbers)}"
    yield MqttAddress(here.host, here.port, topic), MqttAddress(there.host, there.port, topic)


PEERS = {"classic-classic": ("Shovel", shovel), "quorum-quorum": ("Shovel", shovel), "mqtt-mqtt": ("bridge", bridge)}


def measure(mover: AbstractContextManager[Ends], samples: int, seconds: float) -> dict[str, float]:
    """The figures of one mover, in milliseconds; the rate at half load in messages per second."""
    with mover as (source, target):
        receiver = target.receiver()
        try:
            source.settle(receiver)
            alone = single(source, receiver, samples)
            found = {"median": alone.median, "p99": alone.p99}
            if seconds:
                rate, loaded = half_load(source, receiver, seconds)
                found |= {"half load": rate, "median at half load": loaded.median, "p99 at half load": loaded.p99}
        finally:
            receiver.close()
    return found


def told(route: str, mover: str, found: Mapping[str, float]) -> str:
    """The figures in one line."""
    text = f"{route:<18}{mover:<8}median {found['median']:6.2f} ms, p99 {found['p99']:6.2f} ms"
    if "half load" in found:
        median, p99 = found["median at half load"], found["p99 at half load"]
        text += f"   at {found['half load']:7,.0f}/s: median {median:6.1f} ms, p99 {p99:6.1f} ms"
    return text


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the routes asked for and print a line for each mover."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("routes", nargs="*", choices=[*ROUTES, []], help="default: all")
    parser.add_argument("--samples", type=int, default=300, help="single messages for each mover")
    parser.add_argument("--half", type=float, default=5.0, help="seconds at half of the highest rate; 0: leave it out")
    parser.add_argument("--hub-only", action="store_true", help="leave the peers out")
    chosen: Any = parser.parse_args(arguments)
    recorder = Recorder("latency", samples=chosen.samples, body=BODY)
    with tempfile.TemporaryDirectory(prefix="mgw-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        print(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {machine()}, load {os.getloadavg()[0]:.1f}")
        print(f"one sync of the hub's disk: {sync_seconds(folder) * 1000:.2f} ms")
        brokers = Brokers(stack, {}, folder)
        for route in chosen.routes or ROUTES:
            peers = [] if chosen.hub_only or route not in PEERS else [PEERS[route]]
            for mover, moving in [*peers, ("gateway", gateway)]:
                found = measure(moving(brokers, route), chosen.samples, chosen.half)
                print(told(route, mover, found), flush=True)
                for measured, value in found.items():
                    recorder.add(route.replace("-", " to "), mover, measured, value)
                recorder.part().write()
        print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
