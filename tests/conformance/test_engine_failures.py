"""What an agent does when the hub, a broker or a message fails at a bad moment."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from gateway import journal
from gateway.agent import Agent
from gateway.model import DEFAULT_AGENT, AgentStatus
from links.contract import Encoded
from links.memory import MemoryDestination
from links.memory_broker import MemoryBroker
from tests.conformance.test_engine import bodies, inbound, outbound, put, texts
from tests.support.gateways import Gateway, gateway_on
from tests.support.waiting import eventually
from transforms.clock import SYSTEM_CLOCK
from transforms.errors import HubUnavailable, LinkUnavailable, PositionLost
from transforms.message import Message


@pytest.fixture
def broker() -> Iterator[MemoryBroker]:
    yield MemoryBroker.get("failures")
    MemoryBroker.drop("failures")


@pytest.fixture
def gateway(tmp_path: Path, broker: MemoryBroker) -> Iterator[Gateway]:
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        gateway.admin.create_msgsystem_link("mem", "MEMORY", {"broker": broker.name})
        yield gateway


def fail_once(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[str]:
    """Let the next call of ``owner.name`` meet a hub that is away; the list tells whether it came."""
    real, met = getattr(owner, name), list[str]()

    def failing(*arguments: Any, **named: Any) -> Any:
        if not met:
            met.append(name)
            raise HubUnavailable("the hub is away", cause="test")
        return real(*arguments, **named)

    monkeypatch.setattr(owner, name, failing)
    return met


def test_a_refused_message_is_told_from_known_ones_in_its_batch(gateway: Gateway, broker: MemoryBroker) -> None:
    gateway.queue("H", multiple_consumers=True)
    broker.queue("SRC")
    broker.queue("BAD")
    gateway.admin.register_foreign_queue("SRC", "mem", options={"MEMORY_UniqueIds": "TRUE"})
    gateway.admin.register_foreign_queue("BAD", "mem")
    outbound(gateway, broker, "all", "ALL")
    outbound(gateway, broker, "half", "HALF", rule="10 / tab.user_data.n > 4")
    gateway.admin.create_job("inj", "INBOUND", "SRC@mem", "H", exception_queue="BAD@mem")
    with gateway.run():
        broker.put("SRC", Message(body='{"n":1}', correlation="id-1"))
        eventually(lambda: bodies(broker.queue("ALL").messages) == ['{"n":1}'])
        broker.put(
            "SRC",
            Message(body='{"n":1}', correlation="id-1"),
            Message(body='{"n":2}', correlation="id-2"),
            Message(body='{"n":0}', correlation="id-3"),
        )
        eventually(lambda: broker.queue("SRC").messages == [], what="all settled")
        eventually(lambda: gateway.job("all")["PROPAGATED_MSGS"] + gateway.job("inj")["EXCEPTIONQ_MSGS"] >= 3)
    assert bodies(broker.queue("BAD").messages) == ['{"n":0}']
    assert bodies(broker.queue("ALL").messages) == ['{"n":1}', '{"n":2}']
    assert gateway.job("inj")["SUPPRESSED_MSGS"] == 1
