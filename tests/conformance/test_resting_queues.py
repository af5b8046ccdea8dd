"""Jobs that wait ask once for all whether their queues have messages; where that hangs, others look by themselves."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mgw.gateway.aq import transfer
from mgw.gateway.runtime.resting_queues import RestingQueues
from mgw.transforms.clock import SYSTEM_CLOCK
from mgw.transforms.message import Message
from tests.support.gateways import Gateway, gateway_on


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        gateway.queue("EMPTY")
        gateway.queue("FULL")
        gateway.enqueue("FULL", [Message("x")])
        yield gateway


def _queue(gateway: Gateway, name: str) -> int:
    with gateway.hub.read() as conn:
        return int(conn.exec_driver_sql("SELECT id FROM aq_queue WHERE name = ?", (name,)).scalar_one())


def test_a_queue_with_messages_does_not_rest(gateway: Gateway) -> None:
    resting = RestingQueues(gateway.hub, SYSTEM_CLOCK)
    assert resting.has(_queue(gateway, "EMPTY"), 60)
    assert not resting.has(_queue(gateway, "FULL"), 60)


def test_who_waits_for_a_look_that_hangs_looks_by_itself(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = _queue(gateway, "EMPTY")
    resting = RestingQueues(gateway.hub, SYSTEM_CLOCK)
    hangs, goes_on = threading.Event(), threading.Event()
    real = transfer.at_rest

    def hang(conn: Any) -> Any:
        hangs.set()
        assert goes_on.wait(30)
        return real(conn)

    monkeypatch.setattr(transfer, "at_rest", hang)
    found: list[bool] = []
    first = threading.Thread(target=lambda: found.append(resting.has(empty, 60)))
    first.start()
    assert hangs.wait(30)
    begun = time.monotonic()
    assert not resting.has(empty, 60)
    assert time.monotonic() - begun < 10
    goes_on.set()
    first.join(30)
    assert found == [True]
    assert resting.has(empty, 60)
