"""PostgreSQL works on a core of its own: an inbound job reads on while it stores, whatever its batches grow to."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from mgw.gateway.definitions.objects import DEFAULT_BATCH_SIZE
from mgw.gateway.runtime.ends.link_destination import WINDOW_MESSAGES
from mgw.gateway.runtime.windowed import AHEAD_OF_LARGE, WindowedRoute
from mgw.links.memory.broker import MemoryBroker
from mgw.transforms.message import Message
from tests.support.brokers import PostgreSQL
from tests.support.gateways import Gateway, gateway_on
from tests.support.waiting import eventually

pytestmark = pytest.mark.postgresql
COUNT = 6000
BODIES = [f"message {number}" for number in range(COUNT)]


@pytest.fixture
def gateway(postgresql: PostgreSQL, broker: MemoryBroker) -> Iterator[Gateway]:
    name = f"reading_{uuid.uuid4().hex[:12]}"
    with gateway_on(postgresql.create_database(name)) as gateway:
        gateway.queue("H")
        broker.queue("SRC")
        gateway.admin.create_msgsystem_link("mem", "MEMORY", {"broker": broker.name})
        gateway.admin.register_foreign_queue("SRC", "mem")
        gateway.admin.create_job("inj", "INBOUND", "SRC@mem", "H")
        yield gateway
    postgresql.drop_database(name)


def test_an_inbound_job_at_defaults_reads_on_while_postgresql_stores(
    gateway: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored: list[int] = []
    real = WindowedRoute._store

    def store(self: WindowedRoute, batches: Any) -> Any:
        counts = real(self, batches)
        stored.append(sum(batch.size for batch in batches))
        return counts

    monkeypatch.setattr(WindowedRoute, "_store", store)
    # A batch that is stored, and those that are read meanwhile: each is twice as large as the one before it.
    read = sum(DEFAULT_BATCH_SIZE * 2**number for number in range(1 + AHEAD_OF_LARGE))
    with gateway.run():
        eventually(lambda: gateway.job("inj")["ACTIVITY"] == "IDLE")
        with gateway.hub.write() as conn:
            conn.execute(sa.text("SELECT 1 FROM gw_agent FOR UPDATE"))  # nobody can say who owns the agent
            broker.put("SRC", *(Message(body=body) for body in BODIES))
            eventually(lambda: broker.queue("SRC").ready == COUNT - read, what="batches that are read ahead")
            assert len(broker.queue("SRC").messages) == COUNT, "nothing is settled before it is stored"
        eventually(lambda: gateway.job("inj")["PROPAGATED_MSGS"] == COUNT, what="all messages in the hub")
        eventually(lambda: broker.queue("SRC").messages == [], what="all messages settled")
    assert [message.body for message in gateway.browse("H")] == BODIES
    assert max(stored) <= WINDOW_MESSAGES, "so many come again if they are stored and not settled"
