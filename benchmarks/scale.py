"""What many jobs cost that have nothing to do: ``python -m benchmarks.scale [rabbitmq] [kafka] [mqtt]``.

An agent with jobs on links of every messaging system, half of them inbound and half outbound: memory (shared pages
counted once), open files and threads, the time until every job is connected, the processor time of an idle minute,
and the latency of single messages through two of the jobs.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pika

from benchmarks.gateways import BenchGateway
from benchmarks.measuring import Latency, latency_of, machine
from benchmarks.recorded import Recorder
from benchmarks.route import MOSQUITTO
from tests.support.brokers import Kafka, Mosquitto, RabbitMQ
from tests.support.waiting import eventually

__all__ = ["Footprint", "main"]

SYSTEMS = ("rabbitmq", "kafka", "mqtt")
IDLE_SECONDS = 60.0
START_SECONDS = 300.0
SAMPLES = 200


@dataclass(frozen=True, slots=True)
class Footprint:
    """What an agent uses. ``memory`` in bytes; ``processor`` is the share of one core."""

    start: float
    memory: int
    files: int
    threads: int
    processor: float


def memory_of(pid: int) -> int:
    """Bytes of memory; a page that several processes share counts in part."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"process {pid} has no Pss line")


def processor_of(pid: int) -> float:
    """Seconds of processor time, all threads."""
    return time.clock_gettime((~pid << 3) | 2)


def shares(number: int, parts: int) -> list[int]:
    """``number`` divided into ``parts`` that differ by one at most."""
    return [number // parts + (index < number % parts) for index in range(parts)]


class Place:
    """The brokers, and how links to them are defined."""

    def __init__(self, stack: ExitStack, systems: Sequence[str]) -> None:
        self.rabbit = stack.enter_context(RabbitMQ()) if "rabbitmq" in systems else None
        self.kafka = stack.enter_context(Kafka()) if "kafka" in systems else None
        self.mosquitto = stack.enter_context(Mosquitto(config=MOSQUITTO)) if "mqtt" in systems else None

    def link(self, gateway: BenchGateway, system: str, name: str) -> None:
        """Define one link."""
        if system == "rabbitmq" and self.rabbit is not None:
            place = {"hostname": "127.0.0.1", "port": self.rabbit.port}
            gateway.link(name, "RABBITMQ", place, username=self.rabbit.username, password=self.rabbit.password)
        elif system == "kafka" and self.kafka is not None:
            gateway.link(name, "KAFKA", {"bootstrap_servers": self.kafka.bootstrap})
        elif self.mosquitto is not None:
            gateway.link(name, "MQTT", {"hostname": "127.0.0.1", "port": self.mosquitto.port})

    def prepare(self, system: str, names: Sequence[str]) -> None:
        """Make the queues or topics."""
        if system == "rabbitmq" and self.rabbit is not None:
            with pika.BlockingConnection(pika.URLParameters(self.rabbit.url)) as connection:
                channel = connection.channel()
                for name in names:
                    channel.queue_declare(name, durable=True)
        elif system == "kafka" and self.kafka is not None:
            for name in names:
                self.kafka.create_topic(name)


def define(gateway: BenchGateway, place: Place, systems: Sequence[str], jobs: int, links: int) -> None:
    """Links and jobs: those of a system take turns on its links; even numbers are inbound."""
    for system, own_jobs, own_links in zip(
        systems, shares(jobs, len(systems)), shares(links, len(systems)), strict=True
    ):
        place.prepare(system, [f"{system}-{number}" for number in range(own_jobs)])
        for number in range(own_links):
            place.link(gateway, system, f"{system}_{number}")
        for number in range(own_jobs):
            end = gateway.foreign(f"{system}_q{number}", f"{system}_{number % own_links}", f"{system}-{number}")
            queue = f"{system}_h{number // 2}"
            if number % 2 == 0:
                gateway.queue(queue)
                gateway.job(f"{system}_{number}", "INBOUND", end, queue, 30)
            else:
                gateway.job(f"{system}_{number}", "OUTBOUND", queue, end, 30)


def latency(rabbit: RabbitMQ, samples: int = SAMPLES) -> Latency:
    """Of single messages from the first to the second queue of RabbitMQ, through the hub."""
    arrived = threading.Event()
    ready = threading.Event()
    stop = threading.Event()

    def consume() -> None:
        with pika.BlockingConnection(pika.URLParameters(rabbit.url)) as connection:
            channel = connection.channel()
            channel.basic_consume("rabbitmq-1", lambda *_: arrived.set(), auto_ack=True)
            ready.set()
            while not stop.is_set():
                connection.process_data_events(0.2)

    thread = threading.Thread(target=consume)
    thread.start()
    found = []
    try:
        ready.wait(30)
        with pika.BlockingConnection(pika.URLParameters(rabbit.url)) as connection:
            channel = connection.channel()
            properties = pika.BasicProperties(delivery_mode=2)
            for number in range(samples + 20):
                arrived.clear()
                begun = time.perf_counter()
                channel.basic_publish("", "rabbitmq-0", b"x" * 256, properties)
                if not arrived.wait(30):
                    raise TimeoutError("a message did not arrive within 30 s")
                if number >= 20:
                    found.append(time.perf_counter() - begun)
                time.sleep(0.01)
    finally:
        stop.set()
        thread.join()
    return latency_of(found)


def footprint(pid: int, begun: float, ready: Callable[[], bool], idle: float) -> Footprint:
    """Wait until every job is connected and the start is over, then look."""
    eventually(ready, deadline=START_SECONDS, what="all jobs are connected")
    start = time.monotonic() - begun
    time.sleep(8.0)
    before, at = processor_of(pid), time.monotonic()
    time.sleep(idle)
    processor = (processor_of(pid) - before) / (time.monotonic() - at)
    threads = len(os.listdir(f"/proc/{pid}/task"))
    return Footprint(start, memory_of(pid), len(os.listdir(f"/proc/{pid}/fd")), threads, processor)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("systems", nargs="*", choices=[*SYSTEMS, []], help="default: all")
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--links", type=int, default=200)
    parser.add_argument("--idle", type=float, default=IDLE_SECONDS, help="seconds")
    arguments = parser.parse_args()
    systems = arguments.systems or SYSTEMS
    print(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC; {machine()}; load {os.getloadavg()[0]:.1f}", flush=True)
    what = f"{arguments.jobs} jobs on {arguments.links} links"
    recorder = Recorder("scale", systems=len(systems))
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        place = Place(stack, systems)
        gateway = BenchGateway(Path(folder) / "gateway")
        stack.callback(gateway.close)
        define(gateway, place, systems, arguments.jobs, arguments.links)
        begun = time.monotonic()
        with gateway.running() as process:
            found = footprint(process.pid, begun, gateway.ready, arguments.idle)
            print(
                f"{what} ({', '.join(systems)}): connected after "
                f"{found.start:.1f} s, {found.memory / 1e6:,.0f} MB, {found.files} files, {found.threads} threads, "
                f"{found.processor:.1%} of a core idle",
                flush=True,
            )
            recorder.add(what, "gateway", "start", found.start)
            recorder.add(what, "gateway", "memory", found.memory / 1e6)
            recorder.add(what, "gateway", "idle", found.processor * 100)
            recorder.part().write()
            if place.rabbit is not None and arguments.jobs >= 2 * len(systems):
                each = latency(place.rabbit)
                print(f"RabbitMQ to hub to RabbitMQ: median {each.median:.1f} ms, p99 {each.p99:.1f} ms", flush=True)


if __name__ == "__main__":
    main()
