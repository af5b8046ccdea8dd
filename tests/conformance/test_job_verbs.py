"""Verbs for jobs that are there: reset, restart, pause, resume, drain, and a link that connects again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mgw.gateway.services import job_verbs
from mgw.links.memory.broker import MemoryBroker
from mgw.transforms.message import Message
from tests.support.gateways import Gateway, gateway_on
from tests.support.waiting import eventually


@pytest.fixture
def gateway(tmp_path: Path, broker: MemoryBroker) -> Iterator[Gateway]:
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        gateway.admin.create_msgsystem_link("mem", "MEMORY", {"broker": broker.name})
        gateway.queue("H")
        for name in ("SRC", "DST"):
            broker.queue(name)
            gateway.admin.register_foreign_queue(name, "mem")
        gateway.admin.create_job("inj", "INBOUND", "SRC@mem", "H")
        gateway.admin.create_job("outj", "OUTBOUND", "H", "DST@mem")
        yield gateway


def _activated(gateway: Gateway, job: str) -> int:
    return sum(f"job {job} activated" in event for event in gateway.events())


def _idle(gateway: Gateway, *jobs: str) -> bool:
    return all(gateway.job(job)["ACTIVITY"] == "IDLE" for job in jobs)


def test_a_job_that_is_connected_drains_and_connects_anew_when_it_is_restarted(gateway: Gateway) -> None:
    with gateway.run():
        eventually(lambda: _idle(gateway, "inj", "outj"), what="both jobs")
        assert job_verbs.restart(gateway.admin, "OUTJ") == "outj"
        eventually(lambda: _activated(gateway, "outj") == 2, what="the second connect")
        eventually(lambda: _idle(gateway, "outj"), what="the job, again")
        assert _activated(gateway, "inj") == 1
        gateway.enqueue("H", [Message(body="after")])
        eventually(lambda: gateway.job("outj")["PROPAGATED_MSGS"] == 1, what="the message")


def test_a_link_connects_again_with_all_of_its_enabled_jobs(gateway: Gateway) -> None:
    gateway.admin.disable_job("inj")
    with gateway.run():
        eventually(lambda: _idle(gateway, "outj"), what="the job")
        assert job_verbs.reconnect(gateway.admin, "MEM") == ("mem", ["outj"])
        eventually(lambda: _activated(gateway, "outj") == 2, what="the second connect")


def test_reset_all_takes_those_that_fail_and_leaves_the_others_connected(
    gateway: Gateway, broker: MemoryBroker
) -> None:
    gateway.admin.register_foreign_queue("GONE", "mem")
    gateway.queue("H2")
    gateway.admin.create_job("lost", "OUTBOUND", "H2", "GONE@mem")
    with gateway.run():
        eventually(lambda: gateway.job("lost")["STATUS"] == "RETRY", what="the job without a queue")
        eventually(lambda: _idle(gateway, "inj", "outj"), what="the others")
        broker.queue("GONE")
        assert job_verbs.reset_all(gateway.admin) in (["LOST"], [])  # it may have tried again by itself
        eventually(lambda: _idle(gateway, "lost"), what="the job that failed")
        assert _activated(gateway, "outj") == 1
        assert job_verbs.reset_all(gateway.admin) == []


def test_a_paused_job_keeps_what_comes_and_goes_on_when_it_is_resumed(gateway: Gateway, broker: MemoryBroker) -> None:
    with gateway.run():
        assert job_verbs.pause(gateway.admin, "outj") == "outj"
        eventually(lambda: gateway.job("outj")["ACTIVITY"] == "STOPPED", what="the pause")
        gateway.enqueue("H", [Message(body="later")])
        assert broker.queue("DST").messages == []
        assert job_verbs.resume(gateway.admin, "outj") == "outj"
        eventually(lambda: gateway.job("outj")["PROPAGATED_MSGS"] == 1, what="the message")


def test_a_job_is_drained_before_it_is_paused(gateway: Gateway, broker: MemoryBroker) -> None:
    gateway.enqueue("H", [Message(body=str(number)) for number in range(500)])
    with gateway.run():
        done = job_verbs.drain(gateway.admin, "outj", timeout=60)
        assert (done.empty, gateway.job("outj")["ENABLED"]) == (True, "FALSE")
    assert len(broker.queue("DST").messages) == 500


def test_what_is_left_when_time_is_up_is_told_and_the_job_is_paused(gateway: Gateway, broker: MemoryBroker) -> None:
    broker.hold_confirms = True
    gateway.enqueue("H", [Message(body="stays")])
    with gateway.run():
        eventually(lambda: broker.queue("DST").messages, what="the message at the broker")
        done = job_verbs.drain(gateway.admin, "outj", timeout=0.5)
        assert (done.empty, done.left, gateway.job("outj")["ENABLED"]) == (False, 1, "FALSE")
        broker.hold_confirms = False


def test_jobs_that_are_reset_at_the_same_time_as_they_connect_connect_once_more_at_most(gateway: Gateway) -> None:
    with gateway.run():
        threads = [threading.Thread(target=job_verbs.restart, args=(gateway.admin, "outj")) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        eventually(lambda: _idle(gateway, "outj"), what="the job")
        gateway.enqueue("H", [Message(body="one")])
        eventually(lambda: gateway.job("outj")["PROPAGATED_MSGS"] == 1, what="the message")
        assert 1 <= _activated(gateway, "outj") <= 5
