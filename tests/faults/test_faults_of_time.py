"""A process that is stopped for longer than its lease, and a wall clock that jumps."""

from __future__ import annotations

import signal
import socket
import time
import uuid
from pathlib import Path

import pytest
import sqlalchemy as sa

from mgw.gateway.aq.hub import Hub
from mgw.gateway.definitions.objects import DEFAULT_AGENT, key
from mgw.gateway.state import lease
from mgw.gateway.state.lease import Owner
from mgw.transforms.errors import HubUnavailable, LeaseLost
from mgw.transforms.message import Message
from tests.faults.conftest import Trial
from tests.faults.injuries import Injuries
from tests.faults.launched import Shift
from tests.faults.stage import Stage
from tests.support.brokers import PostgreSQL
from tests.support.gateways import gateway_on
from tests.support.waiting import eventually

LEASE = 3.0  # seconds
HOUR = 3600.0


@pytest.mark.parametrize(
    ("source", "target"),
    [
        pytest.param("logged", "logged", id="stalled-logged-to-logged"),
        pytest.param("kafka", "kafkalog", id="stalled-kafka-to-kafkalog"),
        pytest.param("stream", "kafkalog", id="stalled-stream-to-kafkalog", marks=pytest.mark.matrix),
        pytest.param("mqtt", "hub", id="stalled-mqtt-to-hub"),
    ],
)
def test_a_stalled_agent_that_wakes_up_behind_its_successor_does_no_harm(
    trial: Trial, postgresql_of_our_own: PostgreSQL, source: str, target: str
) -> None:
    """On another machine nobody can know that the process still lives: its successor waits for the lease."""
    server = postgresql_of_our_own

    def stall(injuries: Injuries) -> None:
        stage = injuries.stage
        stalled = stage.replace_agent(host="west", lease=LEASE)
        stalled.signal(signal.SIGSTOP)
        stage.agent.start()
        stage.await_running()
        stage.await_progress(100)
        stalled.signal(signal.SIGCONT)
        eventually(
            lambda: stalled.exit_code is not None, deadline=60, what="the end of the process that lost its lease"
        )
        assert stalled.exit_code == 1, stalled.tail()
        assert "now belongs to another process" in stalled.text()
        stage.await_running()
        stage.await_progress(100)

    trial(
        source,
        target,
        stall,
        messages=3000,
        url=lambda: server.create_database(f"stalled_{uuid.uuid4().hex[:12]}"),
        launched=lambda _: {"host": "east", "lease": LEASE},
    )


@pytest.mark.parametrize(
    ("source", "target"),
    [
        pytest.param("logged", "kafkalog", id="clock-logged-to-kafkalog"),
        pytest.param("mqtt", "logged", id="clock-mqtt-to-logged"),
    ],
)
def test_a_clock_that_jumps_by_an_hour_loses_and_doubles_nothing(trial: Trial, source: str, target: str) -> None:
    """Jobs and chores go on in both directions; what is due in two hours neither becomes ready nor expires."""
    shifts: list[Shift] = []

    def launched(folder: Path) -> dict[str, object]:
        shifts.append(Shift(folder / "clock"))
        return {"clock": str(shifts[-1].path), "lease": LEASE}

    def jump(injuries: Injuries) -> None:
        stage, shift = injuries.stage, shifts[-1]
        timed = "TIMED"
        stage.gateway.queue(timed)
        patient = [Message(b"expires in two hours", expiration=2 * HOUR), Message(b"in two hours", delay=2 * HOUR)]
        stage.gateway.enqueue(timed, patient)
        expected = {b"expires in two hours"}
        for seconds in (HOUR, 0.0, -HOUR, 0.0):
            shift.seconds = seconds
            stage.await_progress(100)
            await_renewals(stage)
            if seconds >= 0:  # else it is due by the clock of whoever wrote it, not by the agent's
                soon = b"soon, number %d" % len(expected)
                expected.add(soon)
                stage.gateway.enqueue(timed, [Message(soon, delay=0.5)])
                eventually(
                    lambda soon=soon: soon in {message.body for message in stage.gateway.browse(timed)},
                    deadline=30,
                    what=f"a delayed message becoming ready after the clock jumped to {seconds:+g} s",
                )
        assert {message.body for message in stage.gateway.browse(timed)} == expected

    try:
        trial(source, target, jump, messages=3000, launched=launched)
    finally:
        for shift in shifts:
            shift.close()


def await_renewals(stage: Stage) -> None:
    """The agent renews its lease, twice from now on."""
    for _ in range(2):
        before = heartbeat(stage)
        eventually(lambda before=before: heartbeat(stage) != before, deadline=30, what="the lease being renewed")


def heartbeat(stage: Stage) -> float:
    with stage.gateway.hub.read() as conn:
        return float(conn.execute(sa.text("SELECT heartbeat FROM gw_agent")).scalar_one())


def test_a_transaction_that_stalls_on_postgresql_holds_nobody_up_for_ever(
    postgresql_of_our_own: PostgreSQL, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process stands still, or the machine vanished: a successor waits neither for PostgreSQL to notice, nor where
    it cannot notice, in the middle of rows that are being sent."""
    url = postgresql_of_our_own.create_database(f"stalled_{uuid.uuid4().hex[:12]}")
    name, now = key(DEFAULT_AGENT), time.time()

    def stall(west: Hub, east: Hub, token: int) -> None:
        with west.write() as conn:
            lease.check_owner(conn, name, token)
            driver = conn.connection.driver_connection
            copying = "COPY aq_hub FROM STDIN"  # PostgreSQL waits for rows from now on, and is busy
            with driver.cursor() as cursor, cursor.copy(copying), east.write() as other:
                owner = Owner.this_process()
                nobody, wait = lease.acquire_lease(other, DEFAULT_AGENT, owner, ttl=LEASE, now=now + LEASE - 1)
                assert (nobody, wait) == (0, pytest.approx(1)), "who comes before the lease is over is told, at once"
                successor, _ = lease.acquire_lease(other, DEFAULT_AGENT, owner, ttl=LEASE, now=now + HOUR)
                assert successor == token + 1

    monkeypatch.setattr(socket, "gethostname", lambda: "west")
    with gateway_on(url) as west:
        with west.hub.write() as conn:
            token, _ = lease.acquire_lease(conn, DEFAULT_AGENT, Owner.this_process(), ttl=LEASE, now=now)
        monkeypatch.setattr(socket, "gethostname", lambda: "east")
        with gateway_on(url) as east:
            with pytest.raises(HubUnavailable, match="cannot be reached"):
                stall(west.hub, east.hub, token)
            with east.hub.read() as conn:
                row = lease.agent_row(conn, DEFAULT_AGENT)
        assert row is not None
        assert row.token == token + 1
        with pytest.raises(LeaseLost), west.hub.write() as conn:
            lease.check_owner(conn, name, token)
