"""The fencing token of a worker process of an agent, on both databases."""

from __future__ import annotations

import time
import uuid
from pathlib import Path

import pytest

from mgw.gateway.state import lease
from mgw.gateway.state.lease import Owner
from mgw.transforms.errors import LeaseLost
from tests.support.gateways import gateway_on

AGENT = "DEFAULT_AGENT"


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_a_worker_that_was_replaced_cannot_write_any_more(
    database: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:///{tmp_path}/hub.db"
    if database == "postgresql":
        url = request.getfixturevalue("postgresql").create_database(f"w{uuid.uuid4().hex[:8]}")
    with gateway_on(url) as gateway:
        hub, me = gateway.hub, Owner.this_process()

        def fenced(token: int) -> int:
            with hub.write() as conn:
                return lease.fence_worker(conn, AGENT, token, 1, me)

        def check(token: int) -> None:
            with hub.write() as conn:
                lease.check_owner(conn, lease.worker_key(AGENT, 1), token)

        with hub.write() as conn:
            token, _ = lease.acquire_lease(conn, AGENT, me, ttl=15, now=time.time())
        first = fenced(token)
        check(first)
        second = fenced(token)
        check(second)
        fenced_for = (
            r"worker 1 of agent DEFAULT_AGENT was fenced .*cause: it was taken for dead.*\(token 1 is not valid"
        )
        with pytest.raises(LeaseLost, match=fenced_for):
            check(first)
        with hub.write() as conn:  # whoever takes the agent over fences its workers, too
            assert lease.acquire_lease(conn, AGENT, me, ttl=15, now=time.time())[0] > token
        with pytest.raises(LeaseLost):
            check(second)
        with pytest.raises(
            LeaseLost, match="agent DEFAULT_AGENT now belongs to another process"
        ):  # who lost the agent has no workers any more
            fenced(token)
