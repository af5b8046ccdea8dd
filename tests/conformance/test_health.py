"""What the hub keeps about jobs that do not work, and what is said of it: `mgw status --check` (services/health.py)."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from mgw.gateway.definitions.objects import DEFAULT_AGENT, AgentStatus
from mgw.gateway.runtime.agent import Agent
from mgw.gateway.services.daemon import PROCEDURES
from mgw.gateway.services.health import Entry, assess
from mgw.links.contract import Batch
from mgw.links.memory.broker import MemoryBroker
from mgw.links.memory.source import MemorySource
from mgw.transforms.clock import SYSTEM_CLOCK
from mgw.transforms.errors import PositionLost
from mgw.transforms.message import Message
from tests.cli.conftest import SECRETS, Mgw, applied, template
from tests.conformance.link_suite import unique
from tests.conformance.test_bad_input import amqp, declare, depth, plant_link, rabbit_link, running, send, small_disk
from tests.conformance.test_engine import bodies, inbound, outbound, put
from tests.support.brokers import Mosquitto, PostgreSQL, RabbitMQ
from tests.support.gateways import Gateway, gateway_on
from tests.support.proxy import TcpProxy
from tests.support.waiting import eventually

__all__ = ["amqp", "applied", "small_disk", "template"]  # fixtures

PATIENCE = 90  # seconds for what takes a moment, on a busy machine


@pytest.fixture
def broker() -> Iterator[MemoryBroker]:
    yield MemoryBroker.get("health")
    MemoryBroker.drop("health")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=[pytest.mark.postgresql, pytest.mark.matrix])])
def gateway(request: pytest.FixtureRequest, tmp_path: Path, broker: MemoryBroker) -> Iterator[Gateway]:
    url = f"sqlite:///{tmp_path}/hub.db"
    if request.param == "postgresql":
        server: PostgreSQL = request.getfixturevalue("postgresql")
        url = server.create_database(unique("health"))
    with gateway_on(url) as gateway:
        gateway.admin.create_msgsystem_link("mem", "MEMORY", {"broker": broker.name})
        yield gateway


def job(gateway: Gateway, name: str) -> Entry:
    return next(entry for entry in assess(gateway.hub).jobs if entry.name == name.upper())


def waits(gateway: Gateway, name: str, state: str) -> Entry:
    eventually(lambda: job(gateway, name).state == state, deadline=PATIENCE, what=f"job {name} {state}")
    return job(gateway, name)


def test_since_is_the_first_failure_and_outlives_restarts_until_the_job_works(
    gateway: Gateway, broker: MemoryBroker
) -> None:
    inbound(gateway, broker)
    broker.refuse_connections = True
    began = SYSTEM_CLOCK.now()
    with gateway.run():
        first = waits(gateway, "inj", "RETRY")
        assert first.since is not None
        assert began <= first.since <= SYSTEM_CLOCK.now()
        eventually(lambda: gateway.job("inj")["FAILURES"] >= 2, deadline=PATIENCE)
        assert job(gateway, "inj").since == first.since
        assert assess(gateway.hub, max_age=PATIENCE).healthy
        assert not assess(gateway.hub, max_age=0).healthy
        assert [link.state for link in assess(gateway.hub).links] == ["DOWN"]
    with gateway.run():
        assert waits(gateway, "inj", "RETRY").since == first.since
        broker.refuse_connections = False
        put(broker, "SRC", "one")
        eventually(lambda: bodies(gateway.browse("H")) == ["one"], deadline=PATIENCE)
        eventually(lambda: gateway.job("inj")["STATUS"] == "READY", deadline=PATIENCE)
        assert waits(gateway, "inj", "IDLE").since is None
        assert gateway.job("inj")["NOT_WORKING_SINCE"] is None
        assert assess(gateway.hub, max_age=0).healthy
        assert [link.state for link in assess(gateway.hub).links] == ["UP"]


def test_a_job_that_was_switched_off_meanwhile_counts_from_its_next_start(
    gateway: Gateway, broker: MemoryBroker
) -> None:
    inbound(gateway, broker)
    broker.refuse_connections = True
    with gateway.run():
        first = waits(gateway, "inj", "RETRY").since
        gateway.admin.disable_job("inj")
        assert (waits(gateway, "inj", "DISABLED").since, assess(gateway.hub, max_age=0).healthy) == (None, True)
        gateway.admin.enable_job("inj")
        eventually(lambda: (job(gateway, "inj").since or 0) > (first or 0), deadline=PATIENCE)


def test_a_failed_job_is_unhealthy_until_it_is_reset_and_works(gateway: Gateway, broker: MemoryBroker) -> None:
    inbound(gateway, broker)
    broker.fail_next("connect", PositionLost("gone", operation="connect", number=415, cure="reset it"))
    with gateway.run():
        entry = waits(gateway, "inj", "FAILED")
        assert entry.cure == "reset it"
        assert not assess(gateway.hub, max_age=0).healthy
        gateway.admin.reset_job("inj")
        assert waits(gateway, "inj", "IDLE").since is None


def test_a_stuck_job_is_unhealthy_from_its_last_round(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbound(gateway, broker)
    blocked, go_on = threading.Event(), threading.Event()
    read = MemorySource.read

    def slow(self: MemorySource, max_messages: int, wait: float) -> Batch:
        if blocked.is_set():
            go_on.wait(PATIENCE)
        return read(self, max_messages, wait)

    monkeypatch.setattr(MemorySource, "read", slow)
    monkeypatch.setattr("mgw.gateway.runtime.job_runner.SAMPLE_SECONDS", 0.1)
    with gateway.run():
        waits(gateway, "inj", "IDLE")
        monkeypatch.setattr("mgw.gateway.runtime.stuck.STUCK_SECONDS", 0.5)
        blocked.set()
        try:
            entry = waits(gateway, "inj", "STUCK")
            assert entry.since is not None
            assert SYSTEM_CLOCK.now() - entry.since >= 0.5
            health = assess(gateway.hub, max_age=0.4)
            assert not health.healthy
            assert "its thread is blocked" in health.reasons[0]
        finally:
            monkeypatch.setattr("mgw.gateway.runtime.stuck.STUCK_SECONDS", 180.0)
            go_on.set()
        assert waits(gateway, "inj", "IDLE").since is None


@pytest.mark.parametrize("limit", ["queue", "job"])
def test_messages_that_wait_too_long_are_a_reason(gateway: Gateway, broker: MemoryBroker, limit: str) -> None:
    gateway.queue("H", options={"age_warning": "1" if limit == "queue" else "3600"})
    outbound(gateway, broker, options={"max_message_age": "1"} if limit == "job" else {})
    with gateway.run():
        waits(gateway, "outj", "IDLE")
    agent = Agent(gateway.hub, gateway.secrets, DEFAULT_AGENT, SYSTEM_CLOCK, PROCEDURES)
    agent.acquire()
    agent._lease.show(AgentStatus.RUNNING)  # it runs, and has no threads that would take the message
    assert assess(gateway.hub).healthy
    gateway.enqueue("H", [Message(body="late")])
    eventually(lambda: not assess(gateway.hub).healthy, deadline=PATIENCE, what="the message too old")
    (reason,) = assess(gateway.hub).reasons
    assert reason.startswith("the oldest message of job OUTJ has waited for ")
    assert "(limit 1 s); cure: " in reason


def test_a_stopped_agent_is_named_with_since_when(gateway: Gateway, broker: MemoryBroker) -> None:
    inbound(gateway, broker)
    before = SYSTEM_CLOCK.now()
    assert assess(gateway.hub).agents[0].since is None
    with gateway.run():
        waits(gateway, "inj", "IDLE")
        assert (assess(gateway.hub).agents[0].since or 0) >= before
    health = assess(gateway.hub)
    assert not health.healthy
    assert (health.agents[0].since or 0) > before
    assert len(health.reasons) == 1
    assert health.reasons[0].startswith("agent DEFAULT_AGENT is NOT_STARTED for ")


# ----------------------------------------------------------------------------------------- the command, with brokers


def checked(mgw: Mgw, *words: str) -> tuple[int, dict[str, Any]]:
    done = mgw("status", "--check", "--json", *words)
    return done.code, json.loads(done.out)["health"]


def fine(mgw: Mgw) -> bool:
    return checked(mgw, "--max-age", "0")[0] == 0


def until(what: Callable[[], bool], said: str) -> None:
    eventually(what, deadline=PATIENCE, what=said)


@pytest.fixture
def mgw(tmp_path: Path) -> Mgw:
    return Mgw(tmp_path, SECRETS | {"PYTHONWARNINGS": "default"})


BROKERS = """
links:
  {rabbit}
  {plant}
  {locked}
foreign_queues:
  OUT@rabbit: {{provider_queue: {target}, domain: queue}}
  IN@plant: {{provider_queue: "{source}/#", domain: topic}}
  OUT@locked: {{provider_queue: {target}, domain: queue}}
queues:
  H: {{}}
  N: {{}}
  P: {{}}
jobs:
  telemetry: {{type: inbound, source: IN@plant, destination: H}}
  news: {{type: outbound, source: N, destination: OUT@rabbit}}
  secret: {{type: outbound, source: P, destination: OUT@locked, enabled: {enabled}}}
"""


def test_check_says_why_while_brokers_are_down_or_refuse_the_login(
    mgw: Mgw, rabbitmq: RabbitMQ, mosquitto: Mosquitto, amqp: BlockingChannel
) -> None:
    with TcpProxy(rabbitmq.host, rabbitmq.port) as rabbit, TcpProxy(mosquitto.host, mosquitto.port) as plant:
        names = {
            "rabbit": rabbit_link(rabbitmq, hostname=rabbit.host, port=rabbit.port),
            "plant": plant_link(mosquitto, hostname=plant.host, port=plant.port),
            "locked": rabbit_link(rabbitmq, password="wrong").replace("rabbit:", "locked:"),
            "target": declare(amqp, "health"),
            "source": unique("health"),
        }
        with running(mgw, mgw.file(BROKERS.format(enabled="false", **names))):
            until(lambda: fine(mgw), "all jobs at work")
            code, health = checked(mgw)
            assert (code, [link["state"] for link in health["links"]]) == (0, ["UNUSED", "UP", "UP"])
            for proxy in (rabbit, plant):
                proxy.refuse()
                proxy.cut()
            until(lambda: len(checked(mgw, "--max-age", "0")[1]["reasons"]) == 2, "both jobs in RETRY")
            assert checked(mgw, "--max-age", "3600")[0] == 0
            until(lambda: len(checked(mgw, "--max-age", "3")[1]["reasons"]) == 2, "RETRY for more than three seconds")
            code, health = checked(mgw, "--max-age", "3")
            shown = mgw("status", "--check", "--max-age", "3")
            assert (code, shown.code, shown.out.count("unhealthy: ")) == (1, 1, 2)
            for entry in health["jobs"][:1] + health["jobs"][2:]:
                assert (entry["state"], entry["healthy"]) == ("RETRY", False)
                assert entry["since"]
                assert entry["cure"]
                assert f"unhealthy: job {entry['name']} is RETRY for " in shown.out
            for proxy in (rabbit, plant):
                proxy.accept()
            until(lambda: fine(mgw), "all jobs at work again")
            mgw.ok("apply", mgw.file(BROKERS.format(enabled="true", **names)))
            until(lambda: not fine(mgw), "the login refused")
            (reason,) = checked(mgw, "--max-age", "0")[1]["reasons"]
            assert reason.startswith("job SECRET is RETRY for ")
            assert "password" in reason


def test_check_fails_while_the_disk_of_the_hub_is_full(
    mgw: Mgw, small_disk: list[str], rabbitmq: RabbitMQ, amqp: BlockingChannel
) -> None:
    class MgwThere(Mgw):
        def command(self, *words: str) -> list[str]:
            return [*small_disk, *super().command(*words)]

    disk = mgw.folder / "disk"
    there = MgwThere(mgw.folder, mgw.environ | {"MGW_HUB": f"sqlite:///{disk}/hub.db"})
    source = declare(amqp, "health")
    file = there.file(
        f"links:\n  {rabbit_link(rabbitmq)}\n"
        f"foreign_queues:\n  in@rabbit: {{provider_queue: {source}, domain: queue}}\n"
        "queues:\n  H: {}\n"
        "jobs:\n  in: {type: inbound, source: in@rabbit, destination: H, batch_size: 1}\n"
    )
    with running(there, file) as agent:
        until(lambda: fine(there), "all jobs at work")
        fill = f"dd if=/dev/zero of={disk}/filler bs=4k 2>/dev/null; df --output=avail {disk}"
        subprocess.run([*small_disk, "sh", "-c", fill], capture_output=True, check=True)
        send(amqp, source, *(bytes(200_000) for _ in range(10)))
        agent.until(lambda: "is full" in agent.said, "the report of the full disk")
        until(lambda: checked(there, "--max-age", "1")[0] == 1, "what a full disk makes of health")
        assert checked(there, "--max-age", "1")[1]["reasons"]
        subprocess.run([*small_disk, "rm", f"{disk}/filler"], check=True)
        until(lambda: fine(there), "health with room again")
        until(lambda: depth(amqp, source) == 0, "all messages in the hub")


def test_check_of_one_agent_does_not_look_at_others(applied: Mgw) -> None:
    with running(applied):
        until(lambda: applied("status", "--check", "--agent", "default_agent", "--max-age", "3600").code == 0, "health")
        assert applied("status", "--check").code == 1
        other = applied("status", "--check", "-a", "second")
        assert (other.code, other.out.count("unhealthy: ")) == (1, 1)
        assert "DEFAULT_AGENT" not in other.out
        assert "cure: mgw run --agent SECOND" in other.out
    assert "agent 'thrid' does not exist" in applied("status", "--check", "--agent", "thrid").err


def test_check_fails_when_there_is_no_hub(mgw: Mgw) -> None:
    done = mgw("status", "--check", "--json")
    found = json.loads(done.out)["health"]
    assert (done.code, found["healthy"], found["hub"]["state"]) == (1, False, "UNREACHABLE")
    assert "cure: " in found["reasons"][0]
    done = mgw("status", "--check")
    assert (done.code, "cure: " in done.err) == (1, True)
