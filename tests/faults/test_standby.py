"""Two hosts, one agent: a process on standby takes over whatever happens to the other one, which becomes the standby.

Both processes run ``mgw run --standby`` on one PostgreSQL hub, each through a proxy of its own, under load.
"""

from __future__ import annotations

import signal
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import sqlalchemy as sa

from mgw.gateway.definitions.objects import DEFAULT_AGENT
from mgw.transforms.errors import HubError
from tests.faults.agents import AgentProcess
from tests.faults.conftest import Trial
from tests.faults.injuries import Injuries
from tests.faults.stage import Stage
from tests.support.brokers import PostgreSQL
from tests.support.proxy import TcpProxy
from tests.support.waiting import eventually

LEASE = 3.0  # seconds


class Host:
    """A machine with a process on standby, and its way to the database."""

    def __init__(self, stage: Stage, server: PostgreSQL, name: str) -> None:
        self.name = name
        self.proxy = TcpProxy(server.host, server.port).start()
        url = stage.gateway.url.replace(f":{server.port}/", f":{self.proxy.port}/")
        assert str(self.proxy.port) in url
        self.agent = AgentProcess(
            url, stage.folder, name=name, faults={"host": name, "lease": LEASE}, words=["--standby", "--http", "off"]
        )

    def close(self) -> None:
        self.agent.kill()
        self.proxy.close()


class Pair:
    """The two hosts of a stage."""

    def __init__(self, stage: Stage, server: PostgreSQL) -> None:
        self.stage = stage
        self.hosts = [Host(stage, server, "west"), Host(stage, server, "east")]
        self.took: list[float] = []  # seconds until the other one carried messages

    def running(self) -> Host:
        """The host whose process runs the agent."""
        found: list[Host] = []

        def runs() -> bool:
            found[:] = [host for host in self.hosts if (host.name, "RUNNING") == self.owner()]
            return bool(found)

        eventually(runs, deadline=90, what="an agent that runs", tolerate=(HubError,))
        return found[0]

    def owner(self) -> tuple[str, str]:
        with self.stage.gateway.hub.read() as conn:
            row = conn.execute(sa.text("SELECT host, status FROM gw_agent WHERE name_key = 'DEFAULT_AGENT'")).one()
        return row[0], row[1]

    def other(self, host: Host) -> Host:
        return next(each for each in self.hosts if each is not host)

    def awaits_turn(self, host: Host, since: int) -> None:
        """Wait until the process on that host says that it is on standby, behind ``since`` bytes of its log."""
        eventually(
            lambda: "on standby: process" in host.agent.text()[since:],
            deadline=90,
            what=f"{host.name} on standby;\n{host.agent.tail()}",
        )

    def await_take_over(self, begun: float, by: Host) -> None:
        eventually(
            lambda: self.owner() == (by.name, "RUNNING"), deadline=90, what=f"{by.name} running;\n{by.agent.tail()}"
        )
        self.took.append(time.monotonic() - begun)
        self.stage.await_progress(100)


@contextmanager
def paired(stage: Stage, server: PostgreSQL) -> Iterator[Pair]:
    pair = Pair(stage, server)
    try:
        for host in pair.hosts:
            host.agent.start()
        yield pair
    finally:
        for host in pair.hosts:
            host.close()


def killed(pair: Pair) -> None:
    host = pair.running()
    since, begun = len(host.agent.text()), time.monotonic()
    host.agent.kill()
    pair.await_take_over(begun, pair.other(host))
    host.agent.start()
    pair.awaits_turn(host, since)


def paused(pair: Pair) -> None:
    host = pair.running()
    since, begun = len(host.agent.text()), time.monotonic()
    host.agent.signal(signal.SIGSTOP)
    pair.await_take_over(begun, pair.other(host))
    pid = host.agent.pid
    host.agent.signal(signal.SIGCONT)
    pair.awaits_turn(host, since)
    said = host.agent.text()[since:]
    assert "begins again, on standby" in said
    assert host.agent.pid == pid, "it is the same process for its service manager"


def cut_off(pair: Pair) -> None:
    host = pair.running()
    since, begun = len(host.agent.text()), time.monotonic()
    host.proxy.stall()
    pair.await_take_over(begun, pair.other(host))
    host.proxy.cut()
    host.proxy.resume()
    pair.awaits_turn(host, since)


def terminated(pair: Pair) -> None:
    """As in a rolling restart: the other one need not wait for a lease."""
    host = pair.running()
    since, begun = len(host.agent.text()), time.monotonic()
    assert host.agent.terminate(60) == 0
    pair.await_take_over(begun, pair.other(host))
    host.agent.start()
    pair.awaits_turn(host, since)


FAULTS = (killed, paused, cut_off, terminated)


@pytest.mark.parametrize(
    ("source", "target", "rounds", "workers"),
    [
        pytest.param("logged", "kafkalog", 1, 1, id="standby-logged-to-kafkalog"),
        pytest.param("kafka", "logged", 3, 1, id="standby-kafka-to-logged", marks=pytest.mark.matrix),
        pytest.param("stream", "kafkalog", 3, 1, id="standby-stream-to-kafkalog", marks=pytest.mark.matrix),
        pytest.param("logged", "logged", 1, 2, id="standby-workers-logged-to-logged", marks=pytest.mark.matrix),
    ],
)
@pytest.mark.timeout(600)
def test_the_standby_takes_over_and_nothing_is_lost_or_doubled(  # noqa: PLR0917  of a table
    trial: Trial, postgresql_of_our_own: PostgreSQL, source: str, target: str, rounds: int, workers: int
) -> None:
    server = postgresql_of_our_own

    def fail_over(injuries: Injuries) -> None:
        stage = injuries.stage
        stage.agent.terminate(60)
        stage.gateway.admin.set_agent_option(DEFAULT_AGENT, "workers", workers)
        with paired(stage, server) as pair:
            for _ in range(rounds):
                for fault in FAULTS:
                    fault(pair)
                    injuries.counts[fault.__name__] += 1
            print(f"take-over took {[round(each, 1) for each in pair.took]} s with a lease of {LEASE:g} s")
            for host in pair.hosts:
                if host.agent.pid is not None:
                    host.agent.terminate(60)
                assert "Traceback" not in host.agent.text(), host.agent.tail()
        stage.agent.start()
        stage.await_running()

    trial(
        source,
        target,
        fail_over,
        messages=3000,
        rate=800,
        url=lambda: server.create_database(f"standby_{uuid.uuid4().hex[:12]}"),
    )
