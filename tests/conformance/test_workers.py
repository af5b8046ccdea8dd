"""An agent with worker processes: it carries, obeys and is seen as one agent; real brokers, both databases."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import threading
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from mgw.gateway.aq import Hub, transfer
from mgw.gateway.aq.admin import QueueAdmin
from mgw.gateway.aq.errors.enqueue import UnknownQueue
from mgw.gateway.aq.store import notify
from mgw.gateway.runtime.workers.process import Process
from mgw.gateway.runtime.workers.wake import Mailboxes, Relay
from mgw.gateway.services import health
from mgw.gateway.state.gateway_hub import open_hub
from mgw.transforms.message import Message
from tests.faults.agents import AgentProcess
from tests.support.brokers import Mosquitto, PostgreSQL
from tests.support.gateways import gateway_on
from tests.support.ports import LOOPBACK, free_port
from tests.support.processes import children_of, sockets_of
from tests.support.prometheus import Family, parse
from tests.support.waiting import eventually

PATIENCE = 90
NOBODY = 1  # a port where nobody listens
AGENT = "DEFAULT_AGENT"


class Spread:
    """A gateway whose agent runs with two workers: per route, a queue of the hub to MQTT and back into another one."""

    def __init__(self, url: str, folder: Path, broker: Mosquitto, routes: int, words: Sequence[str] = ()) -> None:
        self.gateway = gateway_on(url)
        self.inside = self.gateway.__enter__()
        self.agent = AgentProcess(url, folder, words=words)
        self.routes = [f"r{uuid.uuid4().hex[:6]}" for _ in range(routes)]
        admin = self.inside.admin
        admin.create_msgsystem_link("plant", "MQTT", {"hostname": broker.host, "port": broker.port})
        admin.set_agent_option(AGENT, "workers", 2)
        for name in self.routes:
            self.add(name)

    def add(self, name: str) -> None:
        """A route."""
        admin = self.inside.admin
        for queue in (f"{name}_S", f"{name}_T"):
            self.inside.queue(queue)
        admin.register_foreign_queue(name, "plant", f"{name}/x", domain="TOPIC")
        admin.create_job(f"{name}_out", "OUTBOUND", f"{name}_S", f"{name}@plant")
        admin.create_job(f"{name}_in", "INBOUND", f"{name}@plant", f"{name}_T")

    def runs(self) -> None:
        """Wait until every job was connected."""
        query = "SELECT count(*) FROM MGW_JOBS WHERE ENABLED = 'TRUE' AND ACTIVITY NOT IN ('RUNNING', 'IDLE')"
        eventually(lambda: not self.asked(query)[0][0], deadline=PATIENCE, what=self.agent.tail())

    def asked(self, query: str) -> list[Any]:
        """Rows."""
        with self.inside.hub.read() as conn:
            return [tuple(row) for row in conn.execute(sa.text(query))]

    def put(self, count: int, *names: str) -> None:
        """Messages for the routes of that name, all by default."""
        for name in names or self.routes:
            self.inside.enqueue(f"{name}_S", [Message(body=f"m{number}") for number in range(count)])

    def arrived(self, name: str) -> list[Any]:
        """What came out at the end of a route."""
        return [message.body for message in self.inside.browse(f"{name}_T")]

    def arrives(self, count: int, *names: str) -> None:
        """Wait until so many messages have come out of each route, once each, in order."""
        for name in names or self.routes:
            eventually(lambda name=name: len(self.arrived(name)) >= count, deadline=PATIENCE, what=self.agent.tail())

    @property
    def workers(self) -> list[int]:
        """Their process ids."""
        return children_of(self.agent.pid or 0)

    def close(self) -> None:
        """End it."""
        self.agent.kill()
        self.gateway.__exit__(None, None, None)


@pytest.fixture
def spread(tmp_path: Path, mosquitto: Mosquitto) -> Iterator[Callable[..., Spread]]:
    made: list[Spread] = []

    def make(url: str = "", routes: int = 1, words: Sequence[str] = ()) -> Spread:
        made.append(Spread(url or f"sqlite:///{tmp_path}/hub.db", tmp_path, mosquitto, routes, words))
        made[-1].agent.start()
        made[-1].runs()
        return made[-1]

    yield make
    for each in made:
        each.close()


def numbered(count: int) -> list[str]:
    return [f"m{number}" for number in range(count)]


def test_jobs_in_two_processes_carry_messages_and_look_like_one_agent(spread: Callable[..., Spread]) -> None:
    running = spread(routes=2)
    running.put(50)
    running.arrives(50)
    assert [running.arrived(name) for name in running.routes] == [numbered(50)] * 2
    assert len(running.workers) == 2
    ((pid, ping),) = running.asked("SELECT AGENT_PID, AGENT_PING FROM MGW_GATEWAY")
    assert (pid, ping) == (running.agent.pid, "REACHABLE")
    assert health.assess(running.inside.hub).healthy
    text = running.agent.text()
    for name in running.routes:  # one job of each route in each worker
        told = set(re.findall(rf"\[worker (\d)\] job {name}_(?:in|out) activated", text))
        assert told == {"1", "2"}, text
    assert running.agent.terminate() == 0
    assert running.asked("SELECT AGENT_STATUS FROM MGW_GATEWAY") == [("NOT_STARTED",)]


def test_workers_on_postgresql(spread: Callable[..., Spread], postgresql: PostgreSQL) -> None:
    running = spread(postgresql.create_database(f"w{uuid.uuid4().hex[:8]}"))
    running.put(20)
    running.arrives(20)
    os.kill(running.workers[0], signal.SIGKILL)
    running.put(20)
    running.arrives(40)
    assert running.agent.terminate() == 0


def test_what_workers_measure_is_added_up_and_does_not_go_back_when_one_is_replaced(
    spread: Callable[..., Spread],
) -> None:
    address = f"{LOOPBACK}:{free_port()}"
    running = spread(routes=2, words=["--http", address])
    jobs = [f"{name}_{way}".upper() for name in running.routes for way in ("out", "in")]

    def scraped() -> Mapping[str, Family]:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as answer:
            return parse(answer.read().decode())

    def until(count: int) -> Mapping[str, Family]:
        """The metrics when every job has measured so many messages."""
        found: dict[str, Family] = {}

        def complete() -> bool:
            found.update(scraped())
            sums = found["mgw_batch_messages"].sums
            return [sums[("job", job),] for job in jobs] == [count] * len(jobs)

        eventually(complete, deadline=PATIENCE, what=f"{count} messages", tolerate=(AssertionError, KeyError, OSError))
        return found

    running.put(40)
    running.arrives(40)
    before = until(40)
    assert before["mgw_link_connects_total"].value(link="PLANT") == 4
    assert {dict(key)["stage"] for key in before["mgw_stage_seconds"].samples} == {
        "read_to_stored",
        "stored_to_confirmed",
        "origin_to_confirmed",
    }
    os.kill(running.workers[0], signal.SIGKILL)
    eventually(lambda: sum(scraped()["mgw_worker_restarts_total"].samples.values()) == 1, deadline=PATIENCE)
    for name in ("mgw_bytes_total", "mgw_hub_transaction_seconds", "mgw_link_connects_total"):
        now = scraped()[name].samples
        assert all(now[key] >= value for key, value in before[name].samples.items()), name
    running.runs()
    running.put(10)
    running.arrives(50)
    after = until(50)
    assert after["mgw_link_connects_total"].value(link="PLANT") >= 6
    assert sum(after["mgw_bytes_total"].samples.values()) == 4 * 130


def test_workers_end_when_their_supervisor_is_killed_and_another_one_goes_on(spread: Callable[..., Spread]) -> None:
    running = spread()
    workers = running.workers
    running.agent.kill()
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers), what="the end of the workers")
    running.put(10)
    running.agent.start()
    running.arrives(10)
    assert running.arrived(running.routes[0]) == numbered(10)


@pytest.mark.matrix  # half a minute; the faults have workers that are killed
def test_a_worker_that_stands_still_is_killed_and_replaced(spread: Callable[..., Spread]) -> None:
    running = spread()
    before = set(running.workers)
    for pid in before:
        os.kill(pid, signal.SIGSTOP)
    running.put(10)
    eventually(lambda: len(set(running.workers) - before) == 2, deadline=PATIENCE, what="new workers")
    running.arrives(10)
    assert running.arrived(running.routes[0]) == numbered(10)
    assert any("was ended by SIGKILL; another process takes its place" in text for text in running.inside.events())


@pytest.mark.matrix  # as long as a worker may say nothing
def test_a_worker_that_stands_still_with_the_hub_locked_is_killed_though_another_one_cannot_start(
    spread: Callable[..., Spread], tmp_path: Path
) -> None:
    running = spread()
    first, second = running.workers
    hub = sqlite3.connect(tmp_path / "hub.db", isolation_level=None)
    with closing(hub):
        hub.execute("BEGIN IMMEDIATE")  # as the one would have it
        os.kill(second, signal.SIGSTOP)
        os.kill(first, signal.SIGKILL)
        eventually(lambda: second not in running.workers, deadline=PATIENCE, what="the end of the second worker")
        hub.execute("ROLLBACK")
    eventually(lambda: len(running.workers) == 2, deadline=PATIENCE, what="new workers")
    running.put(10)
    running.arrives(10)


def test_a_commit_in_one_process_wakes_at_once_who_waits_in_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hub objects on one file, each with what its process would have; no look at the file comes in time."""
    monkeypatch.setattr(notify, "_SQLITE_POLL", 3600.0)
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway, open_hub(gateway.url) as other:
        gateway.queue("H")
        with gateway.hub.read() as conn:
            queue = transfer.resolve(conn, "H").id
        boxes = Mailboxes([1, 2])
        here, there = Relay(gateway.hub, boxes.writing), Relay(other, boxes.writing)
        there.listen(boxes.reading(2))
        woken, not_meant = threading.Event(), threading.Event()
        unsubscribe = other.notifier.subscribe([queue], woken.set)
        other.notifier.subscribe([queue + 1], not_meant.set)
        woken.wait(1)  # it looks once when the first subscription begins
        woken.clear()
        not_meant.clear()
        here.watchers = {queue: [2]}
        gateway.enqueue("H", [Message(body="x")])
        assert woken.wait(30)
        assert not not_meant.is_set()
        unsubscribe()
        here.close()
        boxes.close()


def test_commands_reach_the_jobs_wherever_they_run(spread: Callable[..., Spread]) -> None:
    running = spread(routes=2)
    first, second = running.routes
    admin = running.inside.admin
    admin.disable_job(f"{first}_in")
    admin.disable_job(f"{first}_out")
    eventually(
        lambda: running.asked("SELECT count(*) FROM MGW_JOBS WHERE ACTIVITY = 'STOPPED'") == [(2,)], deadline=PATIENCE
    )
    running.put(5)
    running.arrives(5, second)
    assert not running.arrived(first)
    admin.enable_job(f"{first}_in")
    admin.enable_job(f"{first}_out")
    running.arrives(5, first)
    connected = running.agent.text().count(f"job {second}_in activated")
    admin.reset_job(f"{second}_in")
    eventually(lambda: running.agent.text().count(f"job {second}_in activated") > connected, deadline=PATIENCE)
    admin.set_log_level(3)
    eventually(lambda: re.search(r"DEBUG +Engine: \[worker \d\]", running.agent.text()), deadline=PATIENCE)
    running.agent.signal(signal.SIGUSR2)
    eventually(lambda: f"  job {second}_out: READY" in running.agent.text(), deadline=PATIENCE)
    text = running.agent.text()
    assert re.search(r"worker 1, process \d+: definitions of version \d+, 2 jobs", text)
    assert "thread job-" in text


@pytest.mark.matrix  # the assignment has tests of its own
def test_a_new_job_begins_and_the_others_go_on_undisturbed(spread: Callable[..., Spread]) -> None:
    running = spread()
    (first,) = running.routes
    before = len(re.findall(rf"job {first}_\w+ activated", running.agent.text()))
    second = f"{first}_more"
    running.add(second)
    running.runs()
    running.put(7, first, second)
    running.arrives(7, first, second)
    assert len(re.findall(rf"job {first}_\w+ activated", running.agent.text())) == before + len(
        re.findall(rf"job {second}_\w+ activated", running.agent.text())
    )


def test_connections_of_a_link_are_counted_over_all_workers(spread: Callable[..., Spread]) -> None:
    running = spread()
    running.inside.admin.alter_msgsystem_link("plant", {"max_connections": 1})
    eventually(lambda: "[421]" in running.agent.text(), deadline=PATIENCE, what=running.agent.tail())
    held = "SELECT count(*) FROM MGW_JOBS WHERE ACTIVITY IN ('RUNNING', 'IDLE')"
    eventually(lambda: running.asked(held) == [(1,)], deadline=PATIENCE, what=running.agent.tail())
    running.inside.admin.alter_msgsystem_link("plant", {"max_connections": 2})
    running.runs()


def test_a_worker_is_given_the_mailboxes_of_the_others_to_write_to_and_not_its_own() -> None:
    boxes = Mailboxes([1, 2, 3])
    process = Process(2, boxes)
    try:
        held = sockets_of(process.pid)
        writing = {number: os.fstat(end.fileno()).st_ino for number, end in boxes.writing.items()}
        assert {number for number, inode in writing.items() if inode in held} == {1, 3}
        assert os.fstat(boxes.reading(2).fileno()).st_ino in held
    finally:
        process.kill()
        process.reap()
        boxes.close()


def shown_of(running: Spread, workers: int) -> tuple[dict[str, tuple[Any, ...]], set[str]]:
    """Rows of MGW_JOBS and lines of the log for two jobs that cannot start: the definitions of one do not hold
    together, the broker of the other one does not answer."""
    inside, admin = running.inside, running.inside.admin
    admin.set_agent_option(AGENT, "workers", workers)
    running.add("good")
    inside.queues.create_transformation("mark", "BASIC", "BASIC", "source.user_data")
    admin.create_msgsystem_link("gone", "MQTT", {"hostname": "127.0.0.1", "port": NOBODY})
    admin.register_foreign_queue("far", "gone", "x", domain="TOPIC")
    admin.register_foreign_queue("near", "plant", "y", domain="TOPIC")
    inside.queue("more")
    admin.create_job("lacks", "OUTBOUND", "more", "near@plant", transformation="MGW.Mark")
    admin.create_job("waits", "OUTBOUND", "good_T", "far@gone")
    with Hub.open(inside.url) as plain:
        QueueAdmin(plain).drop_transformation("mark")  # it knows of no jobs
    running.agent.start()
    query = "SELECT JOB_NAME, STATUS, ACTIVITY, LAST_ERROR_MSG FROM MGW_JOBS WHERE JOB_NAME IN ('LACKS', 'WAITS')"

    def rows() -> dict[str, tuple[Any, ...]]:
        return {name: tuple(rest) for name, *rest in running.asked(query)}

    def known() -> bool:
        found = rows()
        return found["LACKS"][0] == "FAILED" and found["WAITS"][:2] == ("RETRY", "BACKOFF")

    eventually(known, deadline=PATIENCE, what=running.agent.tail())
    eventually(lambda: "job good_out activated" in running.agent.text(), deadline=PATIENCE)  # the others work
    assert len(running.workers) == (workers if workers > 1 else 0)
    lines = re.findall(r"(?:\[worker \d\] )?(job (?:lacks is FAILED|waits: failure 1\b).*)", running.agent.text())
    return rows(), {re.sub(r"next attempt in [\d.]+ s", "next attempt soon", line) for line in lines}


def test_a_job_that_cannot_start_is_shown_as_without_workers(tmp_path: Path, mosquitto: Mosquitto) -> None:
    shown = []
    for workers in (1, 2):
        folder = tmp_path / f"with{workers}"
        folder.mkdir()
        running = Spread(f"sqlite:///{folder}/hub.db", folder, mosquitto, 0)
        try:
            shown.append(shown_of(running, workers))
        finally:
            running.close()
    assert shown[0] == shown[1]
    rows, lines = shown[0]
    assert "transformation MGW.Mark does not exist" in rows["LACKS"][2]
    assert [line for line in lines if "Connection refused" in line or "127.0.0.1:1" in line], lines


def test_sighup_gives_the_workers_what_the_file_says_now(
    spread: Callable[..., Spread], tmp_path: Path, mosquitto: Mosquitto
) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("version: 1\n")
    logs = tmp_path / "logs"
    running = spread(words=["--log-dir", str(logs), str(file)])
    (name,) = running.routes
    running.put(5)
    running.arrives(5)
    before = running.workers
    (log,) = logs.glob("oramgw-*.log")
    moved = log.with_suffix(".old")
    log.rename(moved)
    file.write_text(
        f"version: 1\njobs:\n  {name}_more: {{type: local, source: {name}_T, destination: {name}_S2}}\n"
        f"queues:\n  {name}_S2: {{payload_type: basic}}\n"
    )
    for pid in before:  # a terminal or a service manager sends it to all of them
        os.kill(pid, signal.SIGHUP)
        os.kill(pid, signal.SIGUSR1)
    running.agent.signal(signal.SIGUSR1)
    running.agent.signal(signal.SIGHUP)

    def copied(count: int) -> None:
        eventually(
            lambda: len(running.inside.browse(f"{name}_S2")) == count,
            deadline=PATIENCE,
            what=running.agent.tail(),
            tolerate=(UnknownQueue,),  # not applied yet
        )

    copied(5)
    assert running.workers == before
    told = rf"worker-\d/job-{name}_more\njob {name}_more activated"
    assert re.search(told, log.read_text()), "the log file was opened again"
    assert f"{name}_more activated" not in moved.read_text()
    file.write_text("version: 1\njobz: {}\n")
    running.agent.signal(signal.SIGHUP)
    eventually(lambda: "configuration not applied" in running.agent.text(), deadline=PATIENCE)
    running.put(5)
    copied(10)
    assert running.workers == before
