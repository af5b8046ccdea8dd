"""A destination that refuses a message of a job that parks: it holds back those of its key, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mgw.gateway.services.exceptions import parked_keys, release
from mgw.links.memory.broker import MemoryBroker
from mgw.transforms.errors import Blame
from mgw.transforms.message import Message
from tests.conformance.test_isolation import any_bad, arrived, refusing
from tests.support.gateways import Gateway, gateway_on
from tests.support.waiting import eventually

COUNT = 40


@pytest.fixture(params=["plain", "logged"])
def log(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {"outbound_log_queue": "SENT"} if request.param == "logged" else {}


@pytest.fixture
def gateway(tmp_path: Path, broker: MemoryBroker, log: dict[str, Any]) -> Iterator[Gateway]:
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        gateway.queue("H")
        broker.queue("DST")
        if log:
            broker.log("SENT")
        gateway.admin.create_msgsystem_link("mem", "MEMORY", {"broker": broker.name}, **log)
        gateway.admin.register_foreign_queue("DST", "mem")
        options = {"MsgBatchSize": "10", "max_batch_size": "10", "park_key": "correlation"}
        gateway.admin.create_job("out", "OUTBOUND", "H", "DST@mem", options=options)
        yield gateway


@pytest.mark.parametrize("blame", [Blame.MESSAGE, Blame.UNKNOWN])
def test_those_of_its_key_wait_and_follow_when_it_is_taken(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch, blame: Blame
) -> None:
    offered = refusing(monkeypatch, any_bad(blame))
    names = [f"bad {n}" if n in {7, 8, 21} else str(n) for n in range(COUNT)]
    gateway.enqueue("H", [Message(name, correlation=str(n % 4)) for n, name in enumerate(names)])
    # 7 is of key 3, 8 of key 0, 21 of key 1: what stands before them passes, and all of key 2.
    free = [n for n in range(COUNT) if n % 4 == 2 or (n % 4 == 3 and n < 7) or (n % 4 == 0 and n < 8)]
    free = sorted([*free, *(n for n in range(COUNT) if n % 4 == 1 and n < 21)])
    with gateway.run():
        eventually(lambda: arrived(broker) == [str(n) for n in free], what="the messages of the others")
        eventually(lambda: {each.entry.key for each in parked_keys(gateway.admin)} == {"0", "1", "3"})
        reasons = [each.entry.reason for each in parked_keys(gateway.admin)]
        assert all("nobody thought of" in reason for reason in reasons)
        monkeypatch.undo()
        release(gateway.admin, "out", by="me")
        eventually(lambda: len(arrived(broker)) == COUNT, what="all others")
        eventually(lambda: parked_keys(gateway.admin) == [])
    assert offered
    for key in range(4):
        assert [name for name in arrived(broker) if int(name.split()[-1]) % 4 == key] == names[key::4]
