"""A process that waits until it may run an agent which another host's process runs now.

The lease of a process on another host is over when the hub has shown no renewal for as long as a lease lasts, by the
clock of this process. The clocks of the two hosts are not compared: one that is ahead would take the agent from a
process that lives. Time in which the hub could not be read does not count, since nobody could renew in it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import Enum

from mgw.gateway.aq import Hub
from mgw.gateway.definitions.objects import AgentStatus
from mgw.gateway.observe.repeated_warning import Complaint
from mgw.gateway.runtime import agent_lease
from mgw.gateway.state import catalog, lease
from mgw.gateway.state.lease import AgentRow, Owner
from mgw.transforms.clock import Clock
from mgw.transforms.errors import GatewayError, HubError, HubMoved

__all__ = ["Standby", "Turn"]

_LOGGER = logging.getLogger("mgw.engine")


class Turn(Enum):
    """What a look at the agent says."""

    WAIT = "wait"
    START = "start"  # nobody runs it, and it is to run
    TAKE_OVER = "take over"  # who ran it is gone


@dataclass(frozen=True, slots=True)
class _Sign:
    """A sign of life of the process that runs the agent."""

    token: int
    heartbeat: float | None


class Standby:
    """Looks at the agent until this process may run it.

    Attributes:
        waits_for: why it waits, for people; empty: it does not.
        silent: the heartbeat after which the process that runs the agent said nothing for a whole lease; None: it is
            not silent, or is known to be dead.
    """

    def __init__(self, hub: Hub, name: str, clock: Clock) -> None:
        self.waits_for = ""
        self.silent: float | None = None
        self._hub = hub
        self._name = name
        self._clock = clock
        self._me = Owner.this_process()
        self._sign: _Sign | None = None
        self._since = 0.0  # monotonic; when the sign was seen first
        self._away = Complaint(clock, _LOGGER)

    def look(self, *, first: bool) -> Turn:
        """Whether to go on waiting.

        Args:
            first: the process was just started: an agent that is not started is started, as without a standby.

        Raises:
            GatewayError: there is no such agent.
            HubMoved: the hub's file is another one.
        """
        try:
            with self._hub.read() as conn:
                row = lease.agent_row(conn, self._name)
            self._away.over()
            turn = self._turn(row, first)
        except HubMoved:
            raise
        except HubError as error:
            self._away.say(str(error))
            self._sign = None
            return Turn.WAIT
        if turn is not Turn.WAIT:
            self.waits_for = ""
        return turn

    def _turn(self, row: AgentRow | None, first: bool) -> Turn:
        if row is None:
            raise GatewayError(
                f"agent {self._name} does not exist",
                cause="nobody created it, or it was removed",
                cure="create it under agents: and mgw apply",
            )
        if row.status is AgentStatus.BROKEN:
            return self._wait(f"agent {row.name} is BROKEN; cure: mgw agents clean {row.name}")
        if row.owner is None or row.owner == self._me:
            if row.status is AgentStatus.NOT_STARTED and not first:
                return self._wait(f"agent {row.name} is stopped; cure: mgw agents startup {row.name}")
            return Turn.START
        if not self._is_gone(row, row.owner):
            return self._wait(f"process {row.owner.pid} on {row.owner.host} runs agent {row.name}")
        if row.status is AgentStatus.SHUTTING_DOWN:
            return self._finish_shutdown(row)
        return Turn.TAKE_OVER

    def _is_gone(self, row: AgentRow, owner: Owner) -> bool:
        alive = owner.is_alive_here()
        self.silent = None
        if alive is not None:
            return not alive
        sign, now = _Sign(row.token, row.heartbeat), self._clock.monotonic()
        if sign != self._sign:
            self._sign, self._since = sign, now
        if now - self._since < agent_lease.LEASE_SECONDS:
            return False
        self.silent = row.heartbeat
        return True

    def _finish_shutdown(self, row: AgentRow) -> Turn:
        """It was to end anyway."""
        with self._hub.write() as conn:
            now = lease.agent_row(conn, self._name)
            if now is not None and (now.token, now.heartbeat) == (row.token, row.heartbeat):
                catalog.clear_agent_run(conn, self._name)
        return Turn.WAIT

    def _wait(self, reason: str) -> Turn:
        if reason != self.waits_for:
            self.waits_for = reason
            _LOGGER.info("agent %s: on standby: %s", self._name, reason)
        return Turn.WAIT
