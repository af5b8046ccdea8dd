"""What those who look cost: ``python -m benchmarks.scraping [--rounds N] [--messages N] [--idle SECONDS] [--pages N]``.

RabbitMQ, hub, RabbitMQ (classic queues), options by default: an agent that nobody asks, one whose ``/metrics`` is read
every second, and one whose map ten browsers have open besides, in turns in one run. The rate begins with the first
tenth at the destination; the CPU time is that of the agent's process, the answers included. Then the same agent without
messages: what a scrape, and an open page, add to its CPU time, which other work on the machine disturbs least.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import pika

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


class Looker(threading.Thread):
    """Looks at an agent again and again, on a thread of its own, while the block lasts.

    Attributes:
        answers: how many it got.
    """

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self.answers = 0
        self.host, _, port = address.partition(":")
        self.port = int(port)
        self.ended = threading.Event()

    def __enter__(self) -> Looker:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.join()

    def run(self) -> None:
        """See :class:`threading.Thread`."""
        while not self.ended.wait(SECONDS):
            with suppress(OSError, HTTPException):  # it has not begun to listen
                self.look()

    def look(self) -> None:
        """One look, or more."""
        raise NotImplementedError


class Scraper(Looker):
    """Reads the metrics once a second."""

    def look(self) -> None:
        """See :class:`Looker`."""
        with urllib.request.urlopen(f"http://{self.host}:{self.port}/metrics", timeout=10) as answer:
            answer.read()
        self.answers += 1


class Page(Looker):
    """The map as an open browser asks for it: it listens to the stream, and fetches what is shown when that speaks, no
    more than every other second."""

    def look(self) -> None:
        """See :class:`Looker`."""
        stream = HTTPConnection(self.host, self.port, timeout=5)
        with closing(stream), closing(HTTPConnection(self.host, self.port, timeout=10)) as asking:
            stream.request("GET", "/api/v1/events/stream", headers={"Accept": "text/event-stream"})
            lines = stream.getresponse()
            asked = 0.0
            while not self.ended.is_set() and (line := lines.readline()):
                if line.strip() or time.monotonic() < asked + 2.0:
                    continue  # one item ends with an empty line
                asked = time.monotonic()
                asking.request("GET", "/", headers={"X-Part": "main", "Accept": "text/html"})
                asking.getresponse().read()
                self.answers += 1


@contextmanager
def _route(folder: Path, amqp: Amqp, total: int) -> Iterator[BenchGateway]:
    """A gateway with the two jobs, and a source that is full."""
    for name in ("src", "dst"):
        amqp.declare(name, "classic")
    if total:
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


@contextmanager
def _watching(address: str, scrapers: int, pages: int) -> Iterator[Counter[str]]:
    """Those who look, and afterwards how many answers they had."""
    answers: Counter[str] = Counter()
    with ExitStack() as stack:
        asking = [stack.enter_context(Scraper(address)) for _ in range(scrapers)]
        looking = [stack.enter_context(Page(address)) for _ in range(pages)]
        yield answers
    answers["scrapes"] = sum(each.answers for each in asking)
    answers["pages"] = sum(each.answers for each in looking)


def measured(folder: Path, amqp: Amqp, total: int, *, scrapers: int = 0, pages: int = 0) -> Measured:
    """One run."""
    address = f"{LOOPBACK}:{free_port()}"
    with _route(folder, amqp, total) as gateway, gateway.running(http=address) as process:
        with _watching(address, scrapers, pages) as answers:
            rate, cpu = Watched(lambda: amqp.count("dst"), total, process).run()
        return Measured(rate, cpu, f"{answers['scrapes']} scrapes, {answers['pages']} of pages")


class Feed:
    """Publishes so many messages a second, on a thread of its own."""

    _EVERY = 0.1

    def __init__(self, broker: RabbitMQ, total: int, pace: int) -> None:
        self._broker, self._total, self._step = broker, total, max(1, int(pace * self._EVERY))
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Feed:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()

    def _run(self) -> None:
        begun = time.monotonic()
        with closing(pika.BlockingConnection(pika.URLParameters(self._broker.url))) as connection:
            channel = connection.channel()
            for sent in range(self._total):
                channel.basic_publish("", "src", body_of(BODY, sent), pika.BasicProperties(delivery_mode=2))
                if sent % self._step == 0:
                    connection.sleep(max(0.0, begun + sent / self._step * self._EVERY - time.monotonic()))


def crowded(folder: Path, amqp: Amqp, total: int, callers: int, *, pace: int, of: str = "agent") -> Measured:
    """One run with callers.

    Args:
        of: whom they ask: the process of the ``agent``, ``serve`` (another process that serves the same hub), or a
            ``stranger`` that has nothing to do with it, which says what callers cost by themselves.
        pace: messages that arrive in a second; 0: all are there at the beginning.
    """
    agent, other = (f"{LOOPBACK}:{free_port()}" for _ in range(2))
    with ExitStack() as stack:
        gateway = stack.enter_context(_route(folder, amqp, 0 if pace else total))
        process = stack.enter_context(gateway.running(http=agent))
        asked = agent if of == "agent" else other
        if of == "serve":
            stack.enter_context(_process("mgw.gateway", "serve", "--http", other, hub=gateway.url))
        elif of == "stranger":
            stack.enter_context(_process("benchmarks.answering", other, elsewhere=True))
        eventually(lambda: _answers(asked), deadline=60, what="an answer")
        if callers:
            load = ("tests.support.web_load", asked.rpartition(":")[2], "600", str(callers))
            stack.enter_context(_process(*load, elsewhere=True))
        if pace:
            stack.enter_context(Feed(amqp.broker, total, pace))
        rate, cpu = Watched(lambda: amqp.count("dst"), total, process).run()
        return Measured(rate, cpu, "")


def _answers(address: str) -> bool:
    with suppress(OSError), urllib.request.urlopen(f"http://{address}/livez", timeout=10):
        return True
    return False


@contextmanager
def _process(module: str, *words: str, hub: str = "", elsewhere: bool = False) -> Iterator[None]:
    """``elsewhere``: with the lowest priority, for what would be on another machine and take nothing from the jobs."""
    environment = os.environ | ({"MGW_HUB": hub} if hub else {})
    started = subprocess.Popen(
        [*(("nice", "-n", "19") if elsewhere else ()), sys.executable, "-m", module, *words],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        started.kill()
        started.wait()


def of_those_who_look(folder: Path, amqp: Amqp, seconds: float, pages: int) -> Iterator[str]:
    """What they cost an agent whose jobs have nothing to do, a line each."""
    address = f"{LOOPBACK}:{free_port()}"
    with _route(folder, amqp, 1000) as gateway, gateway.running(http=address) as process:
        eventually(lambda: amqp.count("dst") == 1000, deadline=60, what="all messages")
        for what, scrapers, opened in (("scrapes", 1, 0), ("pages", 0, pages)):
            spent: list[float] = []
            had = 0
            for looked in (True, False, True, False):
                tree = Trees([process.pid])
                begun = tree.cpu()
                with _watching(address, scrapers * looked, opened * looked) as answers:
                    time.sleep(seconds / 2)
                spent.append(tree.cpu() - begun)
                had += answers[what]
            cost = spent[0] - spent[1] + spent[2] - spent[3]
            count = f"{opened} open pages" if opened else "a scrape a second"
            yield (
                f"{count}, an idle agent: {100 * cost / seconds:.2f} % of a core, "
                f"{1000 * cost / had:.2f} ms an answer ({had} answers)"
            )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--messages", type=int, default=60_000)
    parser.add_argument("--idle", type=float, default=60.0)
    parser.add_argument("--pages", type=int, default=10)
    parser.add_argument("--callers", type=int, default=0, help="instead: so many callers, who ask all the time")
    parser.add_argument("--pace", type=int, default=0, help="with callers: messages a second (0: all at once)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mgw-bench-") as name, RabbitMQ() as broker:
        folder = Path(name)
        print(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {machine()}; one sync: {sync_seconds(folder) * 1000:.2f} ms")
        amqp = Amqp(broker)
        run = partial(measured, folder, amqp, arguments.messages)
        variants = {
            "nobody looks": run,
            "a scrape a second": partial(run, scrapers=1),
            f"a scrape a second, {arguments.pages} open pages": partial(run, scrapers=1, pages=arguments.pages),
        }
        if arguments.callers:
            crowd = partial(crowded, folder, amqp, arguments.messages, arguments.callers, pace=arguments.pace)
            variants = {
                "nobody asks": partial(crowded, folder, amqp, arguments.messages, 0, pace=arguments.pace),
                f"{arguments.callers} callers of a stranger": partial(crowd, of="stranger"),
                f"{arguments.callers} callers of the agent": partial(crowd, of="agent"),
                f"{arguments.callers} callers of `mgw serve`": partial(crowd, of="serve"),
            }
        if arguments.rounds:
            told(f"RabbitMQ, hub, RabbitMQ, {arguments.messages:,} messages", compared(variants, arguments.rounds))
        print()
        for line in () if arguments.callers else of_those_who_look(folder, amqp, arguments.idle, arguments.pages):
            print(line, flush=True)


if __name__ == "__main__":
    main()
