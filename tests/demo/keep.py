"""``make demo KEEP=1``: the plant goes on working after the verdict, with a page to look at, until Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from itertools import cycle

from tests.demo import feed
from tests.demo.data import DataSet
from tests.demo.plant import GatewayProcess, Plant
from tests.support.waiting import eventually

__all__ = ["HINT", "keep", "wanted"]

HINT = "see it work in a browser: make demo KEEP=1"
_PAUSE = 1.0  # seconds between two rounds of messages
_ROUND = 25  # messages of each kind in a round


def wanted() -> bool:
    """Whether ``KEEP`` says so."""
    return os.environ.get("KEEP", "").strip().lower() not in ("", "0", "no", "false")


def keep(place: Plant, data: DataSet, say: Callable[[str], None]) -> None:
    """Run the gateway again and feed it, until SIGINT or SIGTERM."""
    ended = threading.Event()
    with _on_signals(ended):
        gateway = GatewayProcess(place, "--http", os.environ.get("MGW_HTTP") or "auto")
        try:
            url = eventually(lambda: _address(gateway), deadline=60, what="the address of the page")
            say(f"the gateway works on; open [bold]{url}[/] in a browser (for programs: /openapi.json, /metrics)")
            say(f"more tools: export MGW_HUB=sqlite:///{place.hub}; mgw top; mgw exceptions list")
            say("Ctrl-C ends it and removes everything")
            rounds = cycle(range(len(next(iter(data.telemetry.values()))) // _ROUND))
            while not ended.wait(_PAUSE):
                gateway.check()
                try:
                    _feed(place, data, next(rounds) * _ROUND)
                except RuntimeError:  # Ctrl-C in a terminal is for the clients, too
                    if not ended.is_set():
                        raise
        finally:
            code = gateway.stop()
        say(f"gateway stopped with exit code {code}")


def _feed(place: Plant, data: DataSet, at: int) -> None:
    for machine, rows in data.telemetry.items():
        feed.mosquitto_publish(place.mosquitto, f"plant/{machine}/telemetry", rows[at : at + _ROUND])
    feed.publish_lines(place.rabbitmq, "readings", data.readings[at : at + _ROUND])


@contextlib.contextmanager
def _on_signals(ended: threading.Event) -> Iterator[None]:
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda *_: ended.set()) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _address(gateway: GatewayProcess) -> str:
    gateway.check()
    found = re.findall(r"health and metrics on (https?://\S+)", gateway.log.read_text(errors="replace"))
    return found[-1] if found else ""
