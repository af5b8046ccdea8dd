"""A flooded job next to a quiet one in one agent: ``python -m benchmarks.fairness``.

Two routes RabbitMQ, hub, RabbitMQ (classic queues). The quiet one gets a message each 100 ms; its latency is measured
while the other has nothing to do, and while the other has more than it can carry. ``--threads 1``: only one job of the
agent may work at a time (``max_threads``). The flood lasts longer than the measurement, or the run fails.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import pika

from benchmarks.gateways import BenchGateway
from benchmarks.measuring import Latency, body_of, latency_of, machine, sync_seconds
from benchmarks.route import Amqp, _rabbit_link
from tests.support.brokers import RabbitMQ
from tests.support.waiting import eventually

BODY = 256
PERIOD = 0.1  # seconds between two messages of the quiet job
WARM = 10  # messages that do not count


def quiet_latency(amqp: Amqp, samples: int) -> Latency:
    """Latency of single messages, one each PERIOD; one that takes longer holds the next up."""
    taken: list[float] = []
    connection = pika.BlockingConnection(pika.URLParameters(amqp.broker.url))
    channel = connection.channel()
    arrivals = channel.consume("quiet-dst", inactivity_timeout=60)
    for number in range(samples + WARM):
        begun = time.perf_counter()
        channel.basic_publish("", "quiet-src", body_of(BODY, number), pika.BasicProperties(delivery_mode=2))
        method = next(arrivals)[0]
        if method is None:
            raise TimeoutError(f"message {number} of the quiet job did not arrive")
        taken.append(time.perf_counter() - begun)
        channel.basic_ack(method.delivery_tag)
        time.sleep(max(0.0, PERIOD - (time.perf_counter() - begun)))
    connection.close()
    return latency_of(taken[WARM:])


def measured(folder: Path, amqp: Amqp, *, flood: int, samples: int, threads: int | None) -> tuple[Latency, float]:
    """Latency of the quiet job, and messages per second of the flooded one meanwhile."""
    places = [f"{route}-{end}" for route in ("quiet", "flood") for end in ("src", "dst")]
    for place in places:
        amqp.declare(place, "classic")
    if flood:
        amqp.fill("flood-src", [body_of(BODY, number) for number in range(flood)])
    gateway = BenchGateway(folder)
    try:
        _rabbit_link(gateway, amqp.broker)
        if threads is not None:
            gateway.admin.alter_agent("DEFAULT_AGENT", max_threads=threads)
        for route in ("quiet", "flood"):
            gateway.queue(route)
            for end, kind in (("src", "INBOUND"), ("dst", "OUTBOUND")):
                place = gateway.foreign(f"{route}_{end}", "rabbit", f"{route}-{end}")
                ends = (place, route) if kind == "INBOUND" else (route, place)
                gateway.admin.create_job(f"{route}_{end}_job", kind, *ends)
        with gateway.running():
            eventually(gateway.ready, deadline=60, what="all jobs connected")
            if flood:
                eventually(lambda: amqp.count("flood-dst") > flood / 50, deadline=60, what="the flood")
            before, begun = amqp.count("flood-dst"), time.monotonic()
            latency = quiet_latency(amqp, samples)
            moved, seconds = amqp.count("flood-dst"), time.monotonic() - begun
        if flood and moved >= flood:
            raise RuntimeError(f"the flood was over after {moved} messages: give more with --flood")
        return latency, (moved - before) / seconds
    finally:
        gateway.close()
        amqp.delete(*places)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--flood", type=int, default=200_000, help="messages")
    parser.add_argument("--threads", type=int, help="max_threads of the agent")
    given = parser.parse_args()
    found: dict[bool, list[Latency]] = {False: [], True: []}
    with RabbitMQ() as broker, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sync = sync_seconds(folder)
        print(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC; {machine()}; one sync of the disk {sync * 1e3:.2f} ms")
        amqp = Amqp(broker)
        for number in range(given.rounds):
            for flooded in (False, True) if number % 2 == 0 else (True, False):
                latency, rate = measured(
                    folder / f"{number}-{flooded}",
                    amqp,
                    flood=given.flood if flooded else 0,
                    samples=given.samples,
                    threads=given.threads,
                )
                found[flooded].append(latency)
                told = f"{latency.median:.1f} / {latency.p99:.1f} ms"
                print(f"round {number + 1}, {'flood of' if flooded else 'alone,'} {rate:,.0f}/s: {told}", flush=True)
        amqp.close()
    middle = {
        flooded: (statistics.median(each.median for each in all_), statistics.median(each.p99 for each in all_))
        for flooded, all_ in found.items()
    }
    alone, flooded = middle[False], middle[True]
    print(
        f"quiet job alone {alone[0]:.1f} / {alone[1]:.1f} ms, next to the flood {flooded[0]:.1f} / {flooded[1]:.1f} ms "
        f"(median / p99): times {flooded[0] / alone[0]:.1f} / {flooded[1] / alone[1]:.1f}"
    )


if __name__ == "__main__":
    main()
