"""What an agent makes of schedules of the older gateway (DBMS_HQADM): windows and latency. On SQLite."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mgw.gateway.definitions.objects import DEFAULT_AGENT, AgentStatus
from mgw.gateway.definitions.outbound import MOST_WINDOWS, MQSERIES_OUTBOUND
from mgw.gateway.runtime.agent import Agent
from mgw.gateway.runtime.windows import Windows
from mgw.gateway.services.daemon import PROCEDURES
from mgw.gateway.state import catalog
from mgw.links.memory.broker import MemoryBroker
from mgw.transforms.clock import SYSTEM_CLOCK
from mgw.transforms.errors import HubError
from mgw.transforms.message import Message
from tests.conformance.admin_suite import job_row, start_agent, view
from tests.support.gateways import Gateway, gateway_on
from tests.support.waiting import eventually

WINDOW = 1.0  # seconds


@contextmanager
def ready(where: Path, name: str) -> Iterator[tuple[Gateway, MemoryBroker]]:
    """A hub with queue ``files`` and foreign queue ``OUT``."""
    broker = MemoryBroker.get(name)
    try:
        with gateway_on(f"sqlite:///{where}/hub.db") as gateway:
            gateway.admin.create_msgsystem_link("mem", "MEMORY", {"broker": broker.name})
            gateway.queue("files", queue_payload_type="RAW", multiple_consumers=True)
            broker.queue("OUT")
            gateway.admin.register_foreign_queue("OUT", "mem")
            yield gateway, broker
    finally:
        MemoryBroker.drop(broker.name)


def schedule_one(gateway: Gateway, **schedule: Any) -> None:
    """A schedule from ``files``, which gets one message, to ``OUT``."""
    gateway.admin.hq_schedule_propagation("files", MQSERIES_OUTBOUND, "OUT@mem", **schedule)
    gateway.enqueue("files", [Message(b"1")])


@contextmanager
def scheduled(where: Path, name: str, **schedule: Any) -> Iterator[tuple[Gateway, MemoryBroker]]:
    """An agent with such a schedule."""
    with ready(where, name) as (gateway, broker), gateway.run():
        schedule_one(gateway, **schedule)
        yield gateway, broker


def sent(broker: MemoryBroker) -> list[Any]:
    return [message.body for message in broker.queue("OUT").messages]


def test_messages_are_propagated_in_windows_alone(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    with ready(tmp_path, request.node.nodeid) as (gateway, broker), gateway.run():
        opens = time.time() + 1.0
        schedule_one(gateway, start_time=opens, duration=WINDOW, next_time="SYSDATE + 1", latency=0)
        assert job_row(gateway.hub, "hq$_1")["ENABLED"] == "TRUE"
        eventually(lambda: sent(broker) == [b"1"], what="the window to open")
        assert time.time() >= opens
        with gateway.hub.write() as conn:
            conn.exec_driver_sql("UPDATE gw_job_state SET status = 'RETRY', failures = 3, not_working_since = 1")
        eventually(lambda: "job HQ$_1 stopped" in gateway.events(), what="the window to close")
        gateway.enqueue("files", [Message(b"2")])

        def row() -> dict[str, Any]:
            return view(gateway.hub, "DBA_OUTBOUND_SCHEDULES")[0]

        tomorrow = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(opens + WINDOW + 86400))
        eventually(lambda: row()["WINDOW_BEGIN"] == tomorrow, what="the next window")
        assert (row()["WINDOW_OPEN"], row()["DISABLED"], row()["TRANSMIT_MSGS"]) == ("N", "N", 1)
        eventually(lambda: (row()["STATUS"], row()["FAILURES"]) == ("READY", 0), what="failures to end with the window")
        assert sent(broker) == [b"1"]


def test_nothing_is_sent_for_the_latency_after_an_empty_look(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    with scheduled(tmp_path, request.node.nodeid, latency=1.2) as (gateway, broker):
        eventually(lambda: sent(broker) == [b"1"], what="the first message")
        eventually(lambda: not gateway.plans("hq$_1"), what="its completion, with which the queue is found empty")
        begun = time.monotonic()
        gateway.enqueue("files", [Message(b"2")])
        eventually(lambda: len(sent(broker)) == 2, what="the second message")
        assert 0.6 < time.monotonic() - begun < 3.0


def test_a_window_opens_although_the_hub_failed_at_that_moment(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ready(tmp_path, request.node.nodeid) as (gateway, broker):
        agent = Agent(gateway.hub, gateway.secrets, DEFAULT_AGENT, SYSTEM_CLOCK, PROCEDURES)
        agent.acquire()
        agent.start()
        try:
            opens = time.time() + 0.3
            schedule_one(gateway, start_time=opens, latency=0)
            agent.refresh()
            eventually(lambda: time.time() >= opens, what="the window to open")
            with monkeypatch.context() as failing:
                failing.setattr(agent._announcements, "tell_new", refuse)
                with pytest.raises(HubError):
                    agent.refresh()
            agent.refresh()
            eventually(lambda: sent(broker) == [b"1"], what="the message")
        finally:
            agent.stop(seconds=5, status=AgentStatus.NOT_STARTED)


def refuse(*_: object) -> None:
    raise HubError("the hub cannot be read")


def test_windows_that_have_ended_are_stored_some_at_a_time(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    with ready(tmp_path, request.node.nodeid) as (gateway, _):
        schedule_one(gateway, duration=1, next_time="TRUNC(SYSDATE, 'MI') + 1/1440")
        token = start_agent(gateway.hub)
        now = float(time.time() // 60 * 60) + 30
        (job,) = gateway.admin.list_outbound_schedules()
        assert job.outbound is not None
        long_ago = replace(job.outbound, window=now - 30 - (MOST_WINDOWS + 5) * 60)
        with gateway.hub.write() as conn:
            catalog.set_window(conn, job.id, long_ago)
        windows = Windows(gateway.hub)
        seen = []
        for _look in range(2):
            windows.move(gateway.admin.list_jobs(), DEFAULT_AGENT, token, now)
            (job,) = gateway.admin.list_jobs()
            windows.keep([job])
            assert job.outbound is not None
            seen.append((job.outbound.window, windows.due(now)))
        assert seen == [(long_ago.window + MOST_WINDOWS * 60, True), (now + 30, False)]
