"""Whether the process of an agent answers (AQ guide 12.2 §21.2: AGENT_PING).

The hub is the way to it, so that a ping needs no port and reaches a process on any host: a process that lives renews
its lease every few seconds. A view cannot wait; AGENT_PING of MGW_GATEWAY therefore says whether the lease is in force.
"""

from __future__ import annotations

import time

from mgw.gateway.aq import Hub
from mgw.gateway.definitions.objects import AgentStatus
from mgw.gateway.state import lease

__all__ = ["PING_SECONDS", "REACHABLE", "UNREACHABLE", "ping"]

PING_SECONDS = 5.0  # a process that has not answered by then does not answer
REACHABLE, UNREACHABLE = "REACHABLE", "UNREACHABLE"

_LOOK_SECONDS = 0.1
_WITHOUT_PROCESS = (AgentStatus.NOT_STARTED, AgentStatus.START_SCHEDULED)


def ping(hub: Hub, name: str, seconds: float = PING_SECONDS) -> str | None:
    """Wait until the process of an agent renews its lease, at most so many seconds.

    A process of this host that is dead, and a BROKEN agent without a process, are UNREACHABLE at once.

    Returns:
        REACHABLE, UNREACHABLE, or None where no process is expected: NOT_STARTED, START_SCHEDULED, or no such agent.
    """
    first: tuple[int, float | None] | None = None
    deadline = time.monotonic() + seconds
    while True:
        with hub.read() as conn:
            row = lease.agent_row(conn, name)
        if row is None or row.status in _WITHOUT_PROCESS:
            return None
        if row.owner is None or row.owner.is_alive_here() is False:
            return UNREACHABLE
        sign = (row.token, row.heartbeat)
        if first is not None and sign != first:
            return REACHABLE
        first = sign
        left = deadline - time.monotonic()
        if left <= 0:
            return UNREACHABLE
        time.sleep(min(_LOOK_SECONDS, left))
