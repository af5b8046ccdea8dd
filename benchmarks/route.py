"""Route benchmark: ``python -m benchmarks.route [--quick] [rabbitmq] [kafka] [mqtt]``.

In one run, on one machine: messages per second and latency of each link in each direction, beside the bare client loop
and beside the peers, as ratios. The hub is SQLite with synchronous=FULL, bodies have 256 bytes, all is persistent.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pika

from benchmarks import bare
from benchmarks.ends import MOSQUITTO, Subscribed
from benchmarks.gateways import BenchGateway
from benchmarks.measuring import Latency, body_of, latency_of, machine, rate_of, sync_seconds
from benchmarks.peers import bridged, shovelled
from tests.support.brokers import Kafka, Mosquitto, RabbitMQ
from tests.support.waiting import eventually

BODY = 256
BATCH = 500
QUEUE_TYPES = ("classic", "quorum")
SAMPLES = 200


@dataclass(frozen=True, slots=True)
class Line:
    """One measured thing: ``beside`` names what ``ratio`` compares it with."""

    what: str
    rate: float | None = None
    beside: str = ""
    ratio: float | None = None
    latency: Latency | None = None


class Bench:
    """Collects lines and prints them as they come."""

    def __init__(self, folder: Path, total: int) -> None:
        self.folder = folder
        self.total = total
        self.lines: list[Line] = []
        self._gateways = 0

    def tell(self, line: Line) -> None:
        """Keep and print one line."""
        self.lines.append(line)
        rate = f"{line.rate:>9,.0f}/s" if line.rate is not None else " " * 11
        ratio = f"{line.ratio:>6.2f} of {line.beside}" if line.ratio is not None else ""
        latency = f"median {line.latency.median:.1f} ms, p99 {line.latency.p99:.1f} ms" if line.latency else ""
        print(f"{line.what:<52}{rate}  {ratio}{latency}", flush=True)

    @contextmanager
    def gateway(self) -> Iterator[BenchGateway]:
        """A new gateway."""
        self._gateways += 1
        gateway = BenchGateway(self.folder / f"gateway-{self._gateways}")
        try:
            yield gateway
        finally:
            gateway.close()

    def bodies(self, count: int | None = None) -> list[bytes]:
        """Bodies of the usual size."""
        return [body_of(BODY, number) for number in range(count or self.total)]


# ---------------------------------------------------------------------------------------------------------- RabbitMQ


class Amqp:
    """A look at queues, from the outside."""

    def __init__(self, broker: RabbitMQ) -> None:
        self.broker = broker
        self._connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        self._channel = self._connection.channel()

    def declare(self, queue: str, kind: str) -> None:
        """Make a durable queue."""
        self._channel.queue_declare(queue, durable=True, arguments={"x-queue-type": kind})

    def count(self, queue: str) -> int:
        """Messages ready."""
        return int(self._channel.queue_declare(queue, passive=True).method.message_count)

    def counter(self, queue: str) -> Callable[[], int]:
        """``count`` of one queue."""
        return lambda: self.count(queue)

    def fill(self, queue: str, bodies: Sequence[bytes]) -> None:
        """Publish and wait until they are all there."""
        bare.amqp_publish(self.broker.url, queue, bodies, window=4000)
        eventually(lambda: self.count(queue) >= len(bodies), deadline=60, what=f"{queue} filled")

    def purge(self, queue: str) -> None:
        """Empty a queue."""
        self._channel.queue_purge(queue)

    def delete(self, *queues: str) -> None:
        """Drop queues."""
        for queue in queues:
            self._channel.queue_delete(queue)

    def round_trips(self, source: str, destination: str, samples: int) -> Latency:
        """Latency of single messages, one after the other."""
        taken: list[float] = []
        connection = pika.BlockingConnection(pika.URLParameters(self.broker.url))
        channel = connection.channel()
        channel.basic_qos(prefetch_count=10)
        arrivals = channel.consume(destination, inactivity_timeout=30)
        for number in range(samples + 20):
            begun = time.perf_counter()
            self._channel.basic_publish("", source, body_of(BODY, number), pika.BasicProperties(delivery_mode=2))
            method = next(arrivals)[0]
            if method is None:
                raise TimeoutError(f"message {number} did not arrive")
            taken.append(time.perf_counter() - begun)
            channel.basic_ack(method.delivery_tag)
            time.sleep(0.005)
        connection.close()
        return latency_of(taken[20:])

    def close(self) -> None:
        """Disconnect."""
        self._connection.close()


def _rabbit_link(gateway: BenchGateway, broker: RabbitMQ) -> None:
    gateway.link(
        "rabbit",
        "RABBITMQ",
        {"hostname": broker.host, "port": broker.port},
        username=broker.username,
        password=broker.password,
    )


def rabbitmq(bench: Bench) -> None:
    """RabbitMQ: whole bridges beside Shovel, each direction beside the bare client."""
    with RabbitMQ(plugins=("rabbitmq_shovel",)) as broker, ExitStack() as stack:
        amqp = Amqp(broker)
        stack.callback(amqp.close)
        for kind in QUEUE_TYPES:
            _rabbit_bridges(bench, amqp, kind)
        _rabbit_directions(bench, amqp, "quorum")


def _rabbit_bridges(bench: Bench, amqp: Amqp, kind: str) -> None:
    bodies = bench.bodies()
    amqp.declare("src", kind)
    amqp.declare("dst", kind)
    amqp.fill("src", bodies)
    with shovelled(amqp.broker, "src", "dst"):
        shovel = rate_of(amqp.counter("dst"), bench.total)
        bench.tell(Line(f"Shovel, {kind} -> {kind}", shovel))
        amqp.purge("dst")
        peer = amqp.round_trips("src", "dst", SAMPLES)
        bench.tell(Line(f"Shovel, {kind} -> {kind}, latency", latency=peer))
    amqp.delete("src", "dst")
    for batch in (BATCH, 30):
        amqp.declare("src", kind)
        amqp.declare("dst", kind)
        amqp.fill("src", bodies)
        with bench.gateway() as gateway:
            _rabbit_link(gateway, amqp.broker)
            gateway.queue("HUB")
            gateway.job("into", "INBOUND", gateway.foreign("SRC", "rabbit", "src"), "HUB", batch)
            gateway.job("out", "OUTBOUND", "HUB", gateway.foreign("DST", "rabbit", "dst"), batch)
            with gateway.running():
                rate = rate_of(amqp.counter("dst"), bench.total)
                bench.tell(Line(f"gateway, {kind} -> hub -> {kind}, batch {batch}", rate, "Shovel", rate / shovel))
                amqp.purge("dst")
                latency = amqp.round_trips("src", "dst", SAMPLES)
                bench.tell(Line(f"gateway, {kind} -> hub -> {kind}, batch {batch}, latency", latency=latency))
        amqp.delete("src", "dst")


def _rabbit_directions(bench: Bench, amqp: Amqp, kind: str) -> None:
    bodies = bench.bodies()
    amqp.declare("in", kind)
    amqp.fill("in", bodies)
    consumed = bare.amqp_consume(amqp.broker.url, "in", bench.total)
    bench.tell(Line(f"bare pika, consume ({kind})", consumed))
    amqp.fill("in", bodies)
    with bench.gateway() as gateway:
        _rabbit_link(gateway, amqp.broker)
        gateway.queue("HUB")
        gateway.job("into", "INBOUND", gateway.foreign("IN", "rabbit", "in"), "HUB", BATCH)
        with gateway.running():
            rate = rate_of(lambda: gateway.moved("into"), bench.total)
    bench.tell(Line(f"gateway, RabbitMQ {kind} -> hub", rate, "bare consume", rate / consumed))
    amqp.declare("out", kind)
    published = bare.amqp_publish(amqp.broker.url, "out", bodies)
    bench.tell(Line(f"bare pika, publish with confirms ({kind})", published))
    amqp.delete("out")
    amqp.declare("out", kind)
    with bench.gateway() as gateway:
        _rabbit_link(gateway, amqp.broker)
        gateway.queue("HUB")
        gateway.fill("HUB", bodies)
        gateway.job("out", "OUTBOUND", "HUB", gateway.foreign("OUT", "rabbit", "out"), BATCH)
        with gateway.running():
            rate = rate_of(amqp.counter("out"), bench.total)
    bench.tell(Line(f"gateway, hub -> RabbitMQ {kind}", rate, "bare publish", rate / published))
    amqp.delete("in", "out")


# ------------------------------------------------------------------------------------------------------------- Kafka


def kafka(bench: Bench) -> None:
    """Kafka: each direction beside the bare client."""
    with Kafka() as broker:
        bodies = bench.bodies()
        broker.create_topic("bench")
        published = bare.kafka_publish(broker.bootstrap, "bench", bodies)
        bench.tell(Line("bare kafka-python, produce acks=all", published))
        consumed = bare.kafka_consume(broker.bootstrap, "bench", bench.total)
        bench.tell(Line("bare kafka-python, poll(500)", consumed))
        with bench.gateway() as gateway:
            gateway.link("kafka", "KAFKA", {"bootstrap_servers": broker.bootstrap})
            gateway.queue("HUB")
            source = gateway.foreign("IN", "kafka", "bench", options={"KAFKA_StartAt": "earliest"})
            gateway.job("into", "INBOUND", source, "HUB", BATCH)
            with gateway.running():
                rate = rate_of(lambda: gateway.moved("into"), bench.total)
            bench.tell(Line("gateway, Kafka -> hub", rate, "bare poll", rate / consumed))
        broker.create_topic("out")
        with bench.gateway() as gateway:
            gateway.link("kafka", "KAFKA", {"bootstrap_servers": broker.bootstrap})
            gateway.queue("HUB")
            gateway.fill("HUB", bodies)
            gateway.job("out", "OUTBOUND", "HUB", gateway.foreign("OUT", "kafka", "out"), BATCH)
            with gateway.running():
                rate = rate_of(lambda: gateway.moved("out"), bench.total)
            bench.tell(Line("gateway, hub -> Kafka", rate, "bare produce", rate / published))


# -------------------------------------------------------------------------------------------------------------- MQTT


def mqtt(bench: Bench) -> None:
    """MQTT at QoS 1: each direction beside the bare client, the whole way beside a Mosquitto bridge."""
    total, bodies = bench.total, bench.bodies()
    with Mosquitto(config=MOSQUITTO) as broker, ExitStack() as stack:
        where = (broker.host, broker.port)
        bare.mqtt_subscribe(*where, "t/in", "bare")
        published = bare.mqtt_publish(*where, "t/in", bodies)
        bench.tell(Line("bare paho, publish QoS 1, window 100", published))
        consumed = bare.mqtt_consume(*where, "bare", total)
        bench.tell(Line("bare paho, subscribe QoS 1, manual acknowledgement", consumed))
        with bench.gateway() as gateway:
            gateway.link("mqtt", "MQTT", {"hostname": broker.host, "port": broker.port})
            gateway.queue("HUB")
            gateway.job("into", "INBOUND", gateway.foreign("IN", "mqtt", "t/gw"), "HUB", BATCH)
            with gateway.running():
                eventually(gateway.ready, deadline=30, what="a connected job")
            bare.mqtt_publish(*where, "t/gw", bodies)
            with gateway.running():
                rate = rate_of(lambda: gateway.moved("into"), total)
            bench.tell(Line("gateway, MQTT -> hub", rate, "bare subscribe", rate / consumed))
        with bench.gateway() as gateway:
            gateway.link("mqtt", "MQTT", {"hostname": broker.host, "port": broker.port})
            gateway.queue("HUB")
            gateway.fill("HUB", bodies)
            gateway.job("out", "OUTBOUND", "HUB", gateway.foreign("OUT", "mqtt", "t/out"), BATCH)
            with gateway.running():
                rate = rate_of(lambda: gateway.moved("out"), total)
            bench.tell(Line("gateway, hub -> MQTT", rate, "bare publish", rate / published))
        _mqtt_bridges(bench, broker, bodies, stack)


def _mqtt_bridges(bench: Bench, broker: Mosquitto, bodies: Sequence[bytes], stack: ExitStack) -> None:
    with bridged("b/#", MOSQUITTO) as (source, target):
        seen = Subscribed(target, "b/#", bench.folder / "bridge.out")
        stack.callback(seen.close)
        eventually(lambda: _publish_until_seen(source, "b/probe", seen), deadline=30, what="the bridge")
        base = seen.count()
        peer = _while_publishing(source, "b/x", bodies, lambda: seen.count() - base)
        bench.tell(Line("Mosquitto bridge, QoS 1, publisher beside it", peer))
    target = stack.enter_context(Mosquitto(config=MOSQUITTO))
    with bench.gateway() as gateway:
        gateway.link("here", "MQTT", {"hostname": broker.host, "port": broker.port})
        gateway.link("there", "MQTT", {"hostname": target.host, "port": target.port})
        gateway.queue("HUB")
        gateway.job("into", "INBOUND", gateway.foreign("IN", "here", "g/#"), "HUB", BATCH)
        gateway.job("out", "OUTBOUND", "HUB", gateway.foreign("OUT", "there", "g/x"), BATCH)
        seen = Subscribed(target, "g/#", bench.folder / "gateway.out")
        stack.callback(seen.close)
        with gateway.running():
            eventually(gateway.ready, deadline=30, what="connected jobs")
            rate = _while_publishing(broker, "g/x", bodies, seen.count)
    bench.tell(Line("gateway, MQTT -> hub -> MQTT, publisher beside it", rate, "bridge", rate / peer))


def _publish_until_seen(broker: Mosquitto, topic: str, seen: Subscribed) -> bool:
    bare.mqtt_publish(broker.host, broker.port, topic, [body_of(BODY, 0)])
    return seen.count() > 0


def _while_publishing(broker: Mosquitto, topic: str, bodies: Sequence[bytes], count: Callable[[], int]) -> float:
    publisher = threading.Thread(target=bare.mqtt_publish, args=(broker.host, broker.port, topic, bodies))
    publisher.start()
    try:
        return rate_of(count, len(bodies))
    finally:
        publisher.join()


PARTS: dict[str, Callable[[Bench], None]] = {"rabbitmq": rabbitmq, "kafka": kafka, "mqtt": mqtt}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the parts asked for and print every line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="default: all")
    parser.add_argument("--quick", action="store_true", help="a tenth of the messages: figures are rough")
    chosen: Any = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="mgw-bench-") as name:
        folder = Path(name)
        bench = Bench(folder, 5_000 if chosen.quick else 50_000)
        print(f"{datetime.now(UTC):%Y-%m-%d} {machine()}")
        sync = sync_seconds(folder) * 1000
        print(f"{bench.total:,} messages of {BODY} bytes, batch {BATCH}; one sync of the hub's disk: {sync:.2f} ms\n")
        for part in chosen.parts or PARTS:
            PARTS[part](bench)


if __name__ == "__main__":
    main()
