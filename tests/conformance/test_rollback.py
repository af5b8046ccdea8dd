"""The way back to an earlier generation: what it restores, what it refuses, and what somebody else does meanwhile."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mgw.gateway.aq import QueueAdmin
from mgw.gateway.config.lint import check_source
from mgw.gateway.config.load import load_text
from mgw.gateway.config.models import Document
from mgw.gateway.config.running import read_queue
from mgw.gateway.config.unchanged import Seen
from mgw.gateway.services.admin import Overtaken
from mgw.gateway.services.definition_changes import Changes
from mgw.gateway.services.generations import generations
from mgw.gateway.services.removal_preview import users_of
from tests.support.gateways import Gateway, gateway_on
from tests.support.ready_hubs import ready_file

BASE = """
agents: {DEFAULT_AGENT: {comment: first}, second: {max_threads: 3, options: {workers: 2}}}
links:
  mem: {type: memory, timeout: 7}
  rabbit: {type: rabbitmq, hostname: localhost, username: gw, password: tops3cret, agent: second}
foreign_queues: {in@mem: {domain: queue}, old@mem: {domain: queue, comment: old}}
queues: {Q: {}, NEWS: {multiple_consumers: true}}
transformations:
  step: {from_type: BASIC, to_type: BASIC, function: mgw.transforms.builtin:uppercase}
  chain: {from_type: BASIC, to_type: BASIC, steps: [step]}
jobs:
  carry: {type: inbound, source: in@mem, destination: Q, batch_size: 20, transformation: chain}
  spread: {type: outbound, source: NEWS, destination: old@mem, enabled: false}
"""


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Path:
    @contextmanager
    def made(url: str) -> Iterator[None]:
        with gateway_on(url) as gateway:
            Changes(gateway.hub).apply(BASE)
            yield

    return ready_file(tmp_path_factory.mktemp("ready") / "hub.db", made)


@pytest.fixture
def gateway(ready: Path, tmp_path: Path) -> Iterator[Gateway]:
    """A hub with BASE, which is its first generation."""
    shutil.copy(ready, tmp_path / "hub.db")
    shutil.copy(f"{ready}.key", tmp_path / "hub.db.key")
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        yield gateway


def first(gateway: Gateway) -> int:
    return generations(gateway.hub, 100)[-1].number


def document(text: str) -> Document:
    checked = check_source(load_text(text, "test"))
    assert checked.ok, checked.findings
    return checked.document


# -------------------------------------------------------------------------------------------------------- somebody else


def test_an_exception_queue_that_was_stopped_for_its_removal_is_as_it_was_seen(gateway: Gateway) -> None:
    queues = QueueAdmin(gateway.hub)
    queues.create_queue("FAILED", "Q_TAB", queue_type="EXCEPTION_QUEUE")
    queues.start_queue("FAILED", enqueue=False)
    seen = Seen("queues", "FAILED", read_queue(queues, "FAILED"))
    queues.stop_queue("FAILED")
    with gateway.hub.write() as conn:
        seen.require(gateway.hub, conn, enqueue=False, dequeue=False)
        with pytest.raises(Overtaken):
            seen.require(gateway.hub, conn)


# -------------------------------------------------------------------------------------------------- what is said before


def test_a_removal_tells_subscribers_and_schedules_that_are_no_jobs(gateway: Gateway) -> None:
    gateway.admin.add_subscriber("sub", "INBOUND", "old@mem", "Q")
    gateway.admin.schedule_propagation("sched", "OUTBOUND", "NEWS", "in@mem")
    assert [(each.section, each.name) for each in users_of(gateway.hub, "foreign_queues", "old@mem")] == [
        ("jobs", "spread"),
        ("old_subscribers", "sub"),
    ]
    users = users_of(gateway.hub, "links", "mem")
    assert {each.name for each in users} == {"carry", "spread", "sub", "sched", "in@mem", "old@mem"}
    assert [each.name for each in users_of(gateway.hub, "foreign_queues", "in@mem")] == ["carry", "sched"]
