"""One agent with and without worker processes: ``python -m benchmarks.workers``.

RabbitMQ, hub, RabbitMQ (classic queues), ``--routes`` times side by side: messages per second at all destinations
together, CPU time of all processes of the agent for a message, and the latency of single messages. Sources are filled
before; the rate begins with the first tenth. ``--routes 4`` are eight jobs. ``--local``: jobs between two queues of the
hub, with a transformation; no broker shares the cores.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.gateways import BenchGateway
from benchmarks.measuring import body_of, machine, rate_of, sync_seconds
from benchmarks.processes import Trees
from benchmarks.route import Amqp, _rabbit_link
from tests.support.brokers import RabbitMQ
from tests.support.waiting import eventually

BODY = 256
TRANSFORMED = {"header.length": "LENGTH(HEADER('x'))", "correlation": "UPPER('a' || 'b')", "priority": "3"}


def measured(folder: Path, amqp: Amqp, *, routes: int, workers: int, total: int, batch: int | None) -> list[float]:
    """Messages per second, microseconds of CPU for a message, median and p99 of the latency in milliseconds."""
    bodies = [body_of(BODY, number) for number in range(total // routes)]
    pairs = [(f"src{number}", f"dst{number}") for number in range(routes)]
    for source, target in pairs:
        amqp.declare(source, "classic")
        amqp.declare(target, "classic")
        amqp.fill(source, bodies)
    gateway = BenchGateway(folder)
    try:
        _rabbit_link(gateway, amqp.broker)
        gateway.admin.set_agent_option("DEFAULT_AGENT", "workers", workers)
        options = {} if batch is None else {"MsgBatchSize": batch}
        for number, (source, target) in enumerate(pairs):
            hub = f"HUB{number}"
            gateway.queue(hub)
            place = gateway.foreign(f"SRC{number}", "rabbit", source)
            gateway.admin.create_job(f"into{number}", "INBOUND", place, hub, options=options)
            place = gateway.foreign(f"DST{number}", "rabbit", target)
            gateway.admin.create_job(f"out{number}", "OUTBOUND", hub, place, options=options)

        def arrived() -> int:
            return sum(amqp.count(target) for _, target in pairs)

        with gateway.running() as process:
            eventually(lambda: arrived() > 0, deadline=60, what="the first message")
            tree = Trees([process.pid])
            begun, seen = tree.cpu(), arrived()
            rate = rate_of(arrived, len(bodies) * routes)
            spent = (tree.cpu() - begun) / (len(bodies) * routes - seen) * 1e6
            amqp.purge("dst0")
            latency = amqp.round_trips("src0", "dst0", 200)
        return [rate, spent, latency.median, latency.p99]
    finally:
        gateway.close()
        for pair in pairs:
            amqp.delete(*pair)


def local(folder: Path, *, routes: int, workers: int, total: int, batch: int | None) -> list[float]:
    """The same for local jobs, without latency."""
    gateway = BenchGateway(folder)
    try:
        gateway.admin.set_agent_option("DEFAULT_AGENT", "workers", workers)
        gateway.admin.create_transformation("T", "BASIC", "BASIC", {"set": TRANSFORMED})
        options = {} if batch is None else {"MsgBatchSize": batch}
        for number in range(routes):
            gateway.queue(f"SRC{number}")
            gateway.queue(f"DST{number}")
            gateway.fill(f"SRC{number}", [body_of(BODY, each) for each in range(total // routes)])
            where = f"SRC{number}", f"DST{number}"
            gateway.admin.create_job(f"J{number}", "LOCAL", *where, transformation="T", options=options)

        def moved() -> int:
            return sum(gateway.moved(f"J{number}") for number in range(routes))

        with gateway.running() as process:
            eventually(lambda: moved() > 0, deadline=60, what="the first message")
            tree = Trees([process.pid])
            begun, seen = tree.cpu(), moved()
            rate = rate_of(moved, total // routes * routes)
            spent = (tree.cpu() - begun) / (total // routes * routes - seen) * 1e6
        return [rate, spent, 0.0, 0.0]
    finally:
        gateway.close()


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--routes", type=int, default=1)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--total", type=int, default=40_000)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--local", action="store_true")
    given = parser.parse_args()
    found: dict[int, list[list[float]]] = {workers: [] for workers in given.workers}
    with RabbitMQ() as broker, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sync = sync_seconds(folder)
        print(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC; {machine()}; one sync of the disk {sync * 1e3:.2f} ms")
        print(f"{given.routes} route(s), {given.total} messages, batch {given.batch or 'default'}")
        amqp = Amqp(broker)
        for number in range(given.rounds):
            for workers in given.workers if number % 2 == 0 else reversed(given.workers):
                place = folder / f"{number}-{workers}"
                order = {"routes": given.routes, "workers": workers, "total": given.total, "batch": given.batch}
                figures = local(place, **order) if given.local else measured(place, amqp, **order)
                found[workers].append(figures)
                told = "{:>8,.0f}/s  {:>6.1f} us  {:.1f} / {:.1f} ms".format(*figures)
                print(f"round {number + 1}, workers {workers}: {told}", flush=True)
        amqp.close()
    for workers, rounds in found.items():
        shown = [
            f"{statistics.median(column):,.1f} ({min(column):,.1f}-{max(column):,.1f})"
            for column in zip(*rounds, strict=True)
        ]
        print(f"workers {workers}: {shown[0]}/s, {shown[1]} us, latency {shown[2]} / {shown[3]} ms")


if __name__ == "__main__":
    main()
