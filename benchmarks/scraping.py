"""What a scrape a second costs: ``python -m benchmarks.scraping [--rounds N] [--messages N] [--idle SECONDS]``.

RabbitMQ, hub, RabbitMQ (classic queues), options by default: an agent that nobody asks, and one whose ``/metrics`` is
read every second, in turns in one run. The rate begins with the first tenth at the destination; the CPU time is that of
the agent's process, the answers included. Then the same agent without messages: what a scrape adds to its CPU time,
which other work on the machine disturbs least.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from benchmarks.gateways import BenchGateway
from benchmarks.measuring import body_of, machine, sync_seconds
from benchmarks.pairs import Measured, Watched, compared, told
from benchmarks.processes import Trees
from benchmarks.route import Amqp, _rabbit_link
from tests.support.brokers import RabbitMQ
from tests.support.ports import LOOPBACK, free_port
from tests.support.waiting import eventually

BODY = 256
SECONDS = 1.0


class Scraper:
    """Reads the metrics once a second, on a thread of its own."""

    def __init__(self, address: str) -> None:
        self.answers = 0
        self._address = address
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Scraper:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(SECONDS):
            with suppress(OSError):  # it has not begun to listen
                with urllib.request.urlopen(f"http://{self._address}/metrics", timeout=10) as answer:
                    answer.read()
                self.answers += 1


@contextmanager
def _route(folder: Path, amqp: Amqp, total: int) -> Iterator[BenchGateway]:
    """A gateway with the two jobs, and a source that is full."""
    for name in ("src", "dst"):
        amqp.declare(name, "classic")
    amqp.fill("src", [body_of(BODY, number) for number in range(total)])
    gateway = BenchGateway(Path(tempfile.mkdtemp(dir=folder)) / "gateway")
    try:
        _rabbit_link(gateway, amqp.broker)
        gateway.queue("HUB")
        gateway.job("into", "INBOUND", gateway.foreign("SRC", "rabbit", "src"), "HUB", None)
        gateway.job("out", "OUTBOUND", "HUB", gateway.foreign("DST", "rabbit", "dst"), None)
        yield gateway
    finally:
        gateway.close()
        amqp.delete("src", "dst")


def measured(folder: Path, amqp: Amqp, total: int, *, scraped: bool) -> Measured:
    """One run."""
    address = f"{LOOPBACK}:{free_port()}"
    with _route(folder, amqp, total) as gateway, gateway.running(http=address) as process:
        scraper = Scraper(address)
        if scraped:
            with scraper:
                rate, cpu = Watched(lambda: amqp.count("dst"), total, process).run()
        else:
            rate, cpu = Watched(lambda: amqp.count("dst"), total, process).run()
        return Measured(rate, cpu, f"{scraper.answers} answers")


def of_a_scrape(folder: Path, amqp: Amqp, seconds: float) -> float:
    """Milliseconds of CPU that one costs an agent whose jobs have nothing to do."""
    address = f"{LOOPBACK}:{free_port()}"
    with _route(folder, amqp, 1000) as gateway, gateway.running(http=address) as process:
        eventually(lambda: amqp.count("dst") == 1000, deadline=60, what="all messages")
        spent: list[float] = []
        answers = 0
        for scraped in (True, False, True, False):
            tree, scraper = Trees([process.pid]), Scraper(address)
            begun = tree.cpu()
            with scraper if scraped else nullcontext():
                time.sleep(seconds / 2)
            spent.append(tree.cpu() - begun)
            answers += scraper.answers
        return (spent[0] - spent[1] + spent[2] - spent[3]) / answers * 1000


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--messages", type=int, default=60_000)
    parser.add_argument("--idle", type=float, default=60.0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mgw-bench-") as name, RabbitMQ() as broker:
        folder = Path(name)
        print(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {machine()}; one sync: {sync_seconds(folder) * 1000:.2f} ms")
        amqp = Amqp(broker)
        run = partial(measured, folder, amqp, arguments.messages)
        variants = {"not scraped": partial(run, scraped=False), "a scrape a second": partial(run, scraped=True)}
        if arguments.rounds:
            told(f"RabbitMQ, hub, RabbitMQ, {arguments.messages:,} messages", compared(variants, arguments.rounds))
        print(f"\na scrape of an idle agent: {of_a_scrape(folder, amqp, arguments.idle):.1f} ms of CPU")


if __name__ == "__main__":
    main()
