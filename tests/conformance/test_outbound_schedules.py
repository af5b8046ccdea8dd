"""What an agent makes of schedules of the older gateway (DBMS_HQADM): windows and latency. On SQLite."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mgw.gateway.definitions.outbound import MQSERIES_OUTBOUND
from mgw.links.memory.broker import MemoryBroker
from mgw.transforms.message import Message
from tests.conformance.admin_suite import job_row, view
from tests.support.gateways import Gateway, gateway_on
from tests.support.waiting import eventually

WINDOW = 1.0  # seconds


@contextmanager
def scheduled(where: Path, name: str, **schedule: Any) -> Iterator[tuple[Gateway, MemoryBroker]]:
    """An agent with a schedule from ``files``, which has one message, to ``OUT``."""
    broker = MemoryBroker.get(name)
    try:
        with gateway_on(f"sqlite:///{where}/hub.db") as gateway:
            gateway.admin.create_msgsystem_link("mem", "MEMORY", {"broker": broker.name})
            gateway.queue("files", queue_payload_type="RAW", multiple_consumers=True)
            broker.queue("OUT")
            gateway.admin.register_foreign_queue("OUT", "mem")
            with gateway.run():
                gateway.admin.hq_schedule_propagation("files", MQSERIES_OUTBOUND, "OUT@mem", **schedule)
                gateway.enqueue("files", [Message(b"1")])
                yield gateway, broker
    finally:
        MemoryBroker.drop(broker.name)


def sent(broker: MemoryBroker) -> list[Any]:
    return [message.body for message in broker.queue("OUT").messages]


def test_messages_are_propagated_in_windows_alone(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    opens = time.time() + 1.0
    window = {"start_time": opens, "duration": WINDOW, "next_time": "SYSDATE + 1", "latency": 0}
    with scheduled(tmp_path, request.node.nodeid, **window) as (gateway, broker):
        assert job_row(gateway.hub, "hq$_1")["ENABLED"] == "TRUE"
        eventually(lambda: sent(broker) == [b"1"], what="the window to open")
        assert time.time() >= opens
        eventually(lambda: "job HQ$_1 stopped" in gateway.events(), what="the window to close")
        gateway.enqueue("files", [Message(b"2")])

        def row() -> dict[str, Any]:
            return view(gateway.hub, "DBA_OUTBOUND_SCHEDULES")[0]

        tomorrow = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(opens + WINDOW + 86400))
        eventually(lambda: row()["WINDOW_BEGIN"] == tomorrow, what="the next window")
        assert (row()["WINDOW_OPEN"], row()["DISABLED"], row()["TRANSMIT_MSGS"]) == ("N", "N", 1)
        assert sent(broker) == [b"1"]


def test_nothing_is_sent_for_the_latency_after_an_empty_look(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    with scheduled(tmp_path, request.node.nodeid, latency=1.2) as (gateway, broker):
        eventually(lambda: sent(broker) == [b"1"], what="the first message")
        eventually(lambda: not gateway.plans("hq$_1"), what="its completion, with which the queue is found empty")
        begun = time.monotonic()
        gateway.enqueue("files", [Message(b"2")])
        eventually(lambda: len(sent(broker)) == 2, what="the second message")
        assert 0.6 < time.monotonic() - begun < 3.0
