"""How the supervisor keeps its workers, which the test plays here; the hub is real."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mgw.gateway.observe.events import Journalist
from mgw.gateway.runtime.timekeeping import events_of
from mgw.gateway.runtime.workers import pool as pools
from mgw.gateway.runtime.workers.channel import Channel
from mgw.gateway.runtime.workers.pool import Order, Pool
from mgw.gateway.runtime.workers.remote import RemoteJob
from mgw.gateway.state import lease
from mgw.gateway.state.lease import Owner
from mgw.transforms.clock import SYSTEM_CLOCK
from tests.support.gateways import Gateway, gateway_on
from tests.support.waiting import eventually

AGENT = "DEFAULT_AGENT"


class Played:
    """A worker process that does nothing by itself."""

    def __init__(self, number: int) -> None:
        ours, self.far = socket.socketpair()
        self.number = number
        self.pid = 4_000_000 + number
        self.channel = Channel(ours, 5)
        self.far.settimeout(30)
        self._heard = b""

    def say(self, what: str) -> None:
        """Say it to the supervisor."""
        self.far.sendall(json.dumps({"what": what}).encode() + b"\n")

    def heard(self) -> str:
        """Wait for what the supervisor says next."""
        while b"\n" not in self._heard:
            self._heard += self.far.recv(65536)
        line, _, self._heard = self._heard.partition(b"\n")
        return str(json.loads(line)["what"])

    def hears(self, what: str) -> None:
        """Wait until the supervisor says that."""
        while self.heard() != what:
            pass

    def forget(self) -> None:
        """Leave out what was said until now."""
        self.far.setblocking(False)
        while True:
            try:
                self.far.recv(65536)
            except BlockingIOError:
                break
        self.far.settimeout(30)
        self._heard = b""

    def end(self, _: float) -> None:
        self.far.close()

    kill = end

    def reap(self) -> str:
        self.channel.close()
        return "ended"


@contextmanager
def keeping(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Pool, list[Played]]]:
    """A pool of two workers, each with a job; the processes that it has started."""
    started: list[Played] = []

    def start(number: int, _: Any) -> Played:
        started.append(Played(number))
        return started[-1]

    monkeypatch.setattr(pools, "Process", start)
    with gateway.hub.write() as conn:
        token, _ = lease.acquire_lease(conn, AGENT, Owner.this_process(), ttl=3600, now=time.time())
    order = Order(AGENT, token, 2, gateway.url, "full", 60.0)
    pool = Pool(gateway.hub, order, Journalist(events_of(gateway.hub, AGENT, SYSTEM_CLOCK)), SYSTEM_CLOCK)
    pool.start()
    try:
        for number in (1, 2):
            setup: Any = SimpleNamespace(job=SimpleNamespace(id=number, name=f"j{number}"))
            pool.begin(RemoteJob(pool, number, setup, 1, 0))
        eventually(lambda: len(started) == 2, what="two workers")
        for each in started:
            each.hears("run")
        yield pool, started
    finally:
        pool.close()


def test_a_worker_is_answered_while_another_one_waits_to_be_fenced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that hears nothing for 15 s ends; to fence another one takes as long as the hub does."""
    fenced = threading.Event()
    fence = Pool._fence

    def noted(self: Pool, slot: Any) -> bool:
        fenced.set()
        return fence(self, slot)

    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway, keeping(gateway, monkeypatch) as (pool, started):
        monkeypatch.setattr(Pool, "_fence", noted)
        dying, healthy = sorted(started, key=lambda each: each.number)
        with gateway.hub.write():  # nobody can be fenced meanwhile
            dying.far.close()
            assert fenced.wait(30)
            healthy.forget()
            for _ in range(3):
                healthy.say("alive")
                assert healthy.heard() == "ping"
            assert len(started) == 2
        eventually(lambda: len(started) == 3, what="the worker that takes its place")
        assert started[2].number == 1
        started[2].hears("run")
        assert pool.restarts == {1: 1, 2: 0}
