"""Threads take turns at the connections of a hub, and none of them waits forever."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa

from mgw.gateway.aq.store import turns
from mgw.gateway.aq.store.connection_state import POOL
from mgw.gateway.aq.store.turns import ConnectionTurns
from mgw.gateway.definitions.objects import JobDef, JobStatus
from mgw.gateway.runtime.job_state import KEPT_SECONDS, JobState
from mgw.gateway.state.gateway_hub import open_hub
from mgw.links.contract import Backlog

THREADS = 60


def test_at_most_so_many_at_a_time() -> None:
    line, inside, most = ConnectionTurns(3), 0, 0
    guard = threading.Lock()

    def work(_: int) -> None:
        nonlocal inside, most
        with line.take():
            with guard:
                inside += 1
                most = max(most, inside)
            time.sleep(0.005)
            with guard:
                inside -= 1

    with ThreadPoolExecutor(12) as threads:
        list(threads.map(work, range(60)))
    assert most == 3


def test_a_thread_that_has_a_turn_needs_no_second_one() -> None:
    line = ConnectionTurns(1)
    begun = time.monotonic()
    with line.take(), line.take():
        pass
    with line.take():
        pass
    assert time.monotonic() - begun < turns.PATIENCE / 2


def test_who_waits_too_long_goes_all_the_same_and_gives_no_turn_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "PATIENCE", 0.2)
    line = ConnectionTurns(1)
    gone, hold = threading.Event(), threading.Event()

    def impatient() -> None:
        with line.take():
            gone.set()
            hold.wait(20)

    thread = threading.Thread(target=impatient)
    with line.take():
        thread.start()
        assert gone.wait(20)
        hold.set()
        thread.join()
        free: bool = line._free.acquire(blocking=False)
        assert not free, "it gave back a turn that it had not got"
    assert line._free.acquire(blocking=False)


def test_many_threads_open_few_connections(tmp_path: Path) -> None:
    hub = open_hub(f"sqlite:///{tmp_path}/hub.db", create=True)
    used, most, start = 0, 0, threading.Barrier(THREADS)

    @sa.event.listens_for(hub.engine, "checkout")
    def _taken(*_: object) -> None:
        nonlocal used, most
        used += 1
        most = max(most, used)

    @sa.event.listens_for(hub.engine, "checkin")
    def _returned(*_: object) -> None:
        nonlocal used
        used -= 1

    def work(number: int) -> None:
        start.wait(20)
        for _ in range(3):
            with hub.read() as conn:
                conn.execute(sa.text("SELECT count(*) FROM MGW_JOBS")).scalar_one()
                time.sleep(0.01)
            if number % 3 == 0:
                with hub.write() as conn:
                    conn.execute(sa.text("SELECT 1"))

    try:
        with ThreadPoolExecutor(THREADS) as threads:
            list(threads.map(work, range(THREADS)))
    finally:
        hub.close()
    assert 1 < most <= 2 * POOL + 1, "readers, and the writer"


def test_a_reader_inside_a_write_does_not_wait_for_readers_that_wait_to_write(tmp_path: Path) -> None:
    hub = open_hub(f"sqlite:///{tmp_path}/hub.db", create=True)
    writing, reading = threading.Event(), threading.Barrier(2 * POOL + 1)

    def reader() -> None:
        with hub.read() as conn:
            conn.execute(sa.text("SELECT 1"))
            reading.wait(20)
            with hub.write() as inner:
                inner.execute(sa.text("SELECT 1"))

    threads = [threading.Thread(target=reader) for _ in range(2 * POOL)]
    try:
        begun = time.monotonic()
        with hub.write() as conn:
            conn.execute(sa.text("SELECT 1"))
            writing.set()
            for thread in threads:
                thread.start()
            reading.wait(20)
            with hub.read() as inner:
                inner.execute(sa.text("SELECT 1"))
        for thread in threads:
            thread.join(20)
        assert time.monotonic() - begun < turns.PATIENCE
    finally:
        hub.close()


def test_a_sample_that_says_the_same_is_not_written_again() -> None:
    state = JobState(JobDef.__new__(JobDef))
    assert state.is_news(Backlog(0), 100.0)
    assert not state.is_news(Backlog(0), 105.0)
    assert state.is_news(Backlog(3, 101.0), 110.0)
    assert state.is_news(Backlog(0), 115.0)
    assert state.is_news(Backlog(0), 115.0 + KEPT_SECONDS)
    assert state.is_news(Backlog(0), 100.0), "the clock was set back"
    state.failed(JobStatus.RETRY, "the hub was away, perhaps while it was written", 120.0, "")
    assert state.is_news(Backlog(0), 121.0)
