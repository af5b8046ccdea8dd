"""What grows while messages flow: ``python -m benchmarks.soak [--minutes 20] [--rate 2000]``.

Three routes through one hub, from each messaging system to the next one, with default settings. Every minute: memory,
open files and threads of the agent, its logs, and the hub's file by what is in it. The ledger keeps what it must keep
for as long as its retention says, so it has a column of its own; everything else must not grow.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.ends import MOSQUITTO, End, KafkaEnd, MqttEnd, RabbitEnd
from benchmarks.gateways import BenchGateway
from benchmarks.measuring import body_of, machine
from benchmarks.recorded import Recorder
from benchmarks.scale import memory_of, processor_of
from tests.support.brokers import Kafka, Mosquitto, RabbitMQ
from tests.support.waiting import eventually

__all__ = ["Sample", "grown", "main"]

ROUTE = "a soak at a high rate"
PIECE = 2000  # messages that are published together
BEHIND = 20_000  # messages of a route that may wait; above, its publisher waits
EVERY = 60.0  # seconds
LEDGER = ("gw_ledger",)
_KAFKA = {"retention.bytes": str(64 << 20), "segment.bytes": str(16 << 20), "file.delete.delay.ms": "1000"}


@dataclass(frozen=True, slots=True)
class Sample:
    """At one moment; sizes in bytes. ``tables`` and ``indexes`` are without the ledger."""

    minute: float
    messages: int
    memory: int
    handles: int
    threads: int
    tables: int
    indexes: int
    ledger: int
    free: int  # pages to be used again
    wal: int
    logs: int
    waiting: int
    processor: float

    @property
    def file(self) -> int:
        """Of the hub, without what the ledger keeps."""
        return self.tables + self.indexes + self.free

    def row(self) -> str:
        """For the table."""
        sizes = (self.tables, self.indexes, self.free, self.ledger, self.wal)
        return (
            f"| {self.minute:.0f} | {self.messages:,} | {self.waiting:,} | {self.memory / 1e6:.0f} | {self.handles} "
            f"| {self.threads} | {' | '.join(f'{size / 1e6:.2f}' for size in sizes)} | {self.logs / 1e3:.0f} "
            f"| {self.processor:.0f} |"
        )


HEAD = (
    "| Minute | Messages | waiting | Memory, MB | Files | Threads | Tables, MB | Indexes, MB | Free pages, MB "
    "| Ledger, MB | WAL, MB | Logs, kB | CPU, s |\n" + "|---" * 13 + "|"
)


def grown(samples: Sequence[Sample]) -> dict[str, float]:
    """The last third of the run as a share of the second one, by what could grow; the first third is the warm-up."""
    third = max(1, len(samples) // 3)
    before, after = samples[third : 2 * third], samples[-third:]
    names = ("memory", "handles", "threads", "file", "indexes", "wal", "logs")
    middle: Callable[[str, Sequence[Sample]], float] = lambda name, part: statistics.median(  # noqa: E731
        getattr(sample, name) for sample in part
    )
    return {name: middle(name, after) / max(1.0, middle(name, before)) for name in names}


class Route:
    """Messages from one end through the hub to another."""

    def __init__(self, gateway: BenchGateway, name: str, ends: tuple[End, End], rate: float) -> None:
        (self._source, self._target), self._rate = ends, rate
        self.name, self.published, self.done = name, 0, False
        self._gateway = gateway
        for end, role in zip(ends, ("in", "out"), strict=True):
            end.link(gateway, f"{name}_{role}")
            if isinstance(end, KafkaEnd):
                end.broker.create_topic(f"{name}-{role}", config=_KAFKA)
            else:
                end.make(f"{name}-{role}")
            gateway.foreign(f"{name}_{role}q", f"{name}_{role}", f"{name}-{role}", options=_options(end, role))
        gateway.queue(f"{name}_h")
        gateway.job(f"{name}_in", "INBOUND", f"{name}_inq@{name}_in", f"{name}_h", None)
        gateway.job(f"{name}_out", "OUTBOUND", f"{name}_h", f"{name}_outq@{name}_out", None)

    @property
    def moved(self) -> int:
        """Messages that have left the hub."""
        return self._gateway.moved(f"{self.name}_out")

    def publish(self, until: float) -> None:
        """At the rate, unless the gateway is behind."""
        due, queue = time.monotonic(), f"{self.name}-in"
        while (now := time.monotonic()) < until:
            if now < due or self.published - self.moved > BEHIND:
                time.sleep(0.2)
                continue
            due = max(due, now - 5) + PIECE / self._rate
            bodies = [body_of(256, self.published + number) for number in range(PIECE)]
            self._source.publish(queue, bodies)
            self.published += PIECE
        self.done = True

    def empty(self) -> None:
        """Read what arrives where the broker would keep it."""
        if isinstance(self._target, RabbitEnd):
            taken = 0
            while not (self.done and taken >= self.published):
                if self.moved - taken < PIECE:
                    time.sleep(0.2)
                    continue
                self._target.consume(f"{self.name}-out", PIECE)
                taken += PIECE


def _options(end: End, role: str) -> dict[str, str]:
    return end.options() if role == "in" else {}


def _look(gateway: BenchGateway, pid: int, minute: float, routes: Sequence[Route]) -> Sample:
    folder = gateway.file.parent
    with closing(sqlite3.connect(f"file:{gateway.file}?mode=ro", uri=True, timeout=30)) as connection:
        kinds = dict(connection.execute("SELECT name, type FROM sqlite_master"))
        owners = dict(connection.execute("SELECT name, tbl_name FROM sqlite_master"))
        pages = dict(connection.execute("SELECT name, pgsize FROM dbstat WHERE aggregate = TRUE"))
        (free,) = connection.execute("PRAGMA freelist_count").fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    parts = {"table": 0, "index": 0, "ledger": 0}
    for name, taken in pages.items():
        parts["ledger" if owners.get(name) in LEDGER else kinds.get(name, "table")] += taken
    moved = sum(route.moved for route in routes)
    return Sample(
        minute=minute,
        messages=moved,
        memory=memory_of(pid),
        handles=len(os.listdir(f"/proc/{pid}/fd")),
        threads=len(os.listdir(f"/proc/{pid}/task")),
        tables=parts["table"],
        indexes=parts["index"],
        ledger=parts["ledger"],
        free=free * size,
        wal=gateway.file.with_name("hub.db-wal").stat().st_size,
        logs=sum(file.stat().st_size for file in (*folder.glob("*.log"), *(folder / "log").glob("*"))),
        waiting=sum(route.published for route in routes) - moved,
        processor=processor_of(pid),
    )


def _samples(gateway: BenchGateway, pid: int, minutes: float, routes: Sequence[Route]) -> Iterator[Sample]:
    begun = time.monotonic()
    number = 0
    while number * EVERY <= minutes * 60:
        time.sleep(max(0.0, begun + number * EVERY - time.monotonic()))
        yield _look(gateway, pid, (time.monotonic() - begun) / 60, routes)
        number += 1


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--rate", type=float, default=2000, help="messages a second on all routes together")
    arguments = parser.parse_args()
    print(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC; {machine()}; load {os.getloadavg()[0]:.1f}", flush=True)
    recorder = Recorder("soak", minutes=arguments.minutes, rate=arguments.rate)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        rabbit = RabbitEnd(stack.enter_context(RabbitMQ()))
        kafka = KafkaEnd(stack.enter_context(Kafka()))
        mqtt = MqttEnd(stack.enter_context(Mosquitto(config=MOSQUITTO)))
        gateway = BenchGateway(Path(folder) / "gateway")
        stack.callback(gateway.close)
        each = arguments.rate / 3
        pairs: dict[str, tuple[End, End]] = {
            "rabbitmq_kafka": (rabbit, kafka),
            "kafka_mqtt": (kafka, mqtt),
            "mqtt_rabbitmq": (mqtt, rabbit),
        }
        routes = [Route(gateway, name, ends, each) for name, ends in pairs.items()]
        with gateway.running() as process:
            eventually(gateway.ready, deadline=120, what="all jobs are connected")
            until = time.monotonic() + arguments.minutes * 60
            threads = [threading.Thread(target=route.publish, args=(until,), daemon=True) for route in routes]
            threads += [threading.Thread(target=route.empty, daemon=True) for route in routes]
            for thread in threads:
                thread.start()
            samples = []
            print(HEAD, flush=True)
            for sample in _samples(gateway, process.pid, arguments.minutes, routes):
                samples.append(sample)
                print(f"{sample.row()} load {os.getloadavg()[0]:.1f}", flush=True)
            for thread in threads:
                thread.join(300)
            for route in routes:
                eventually(lambda r=route: r.moved >= r.published, deadline=300, what=f"the end of {route.name}")
                print(f"{route.name}: {route.published:,} published, {route.moved:,} delivered", flush=True)
    changes = grown(samples)
    seconds = (samples[-1].minute - samples[0].minute) * 60
    moved = samples[-1].messages - samples[0].messages
    recorder.add(ROUTE, "gateway", "rate", moved / max(seconds, 1))
    for name, change in changes.items():
        recorder.add(ROUTE, "gateway", f"growth of {name}", change)
    print(f"{moved / max(seconds, 1):,.0f} messages/s; the last third of the second one: ", end="")
    print(", ".join(f"{name} {change:.3f}" for name, change in changes.items()))
    recorder.add(ROUTE, "gateway", "ledger", (samples[-1].ledger - samples[0].ledger) / max(1, moved))
    recorder.part().write()


if __name__ == "__main__":
    main()
