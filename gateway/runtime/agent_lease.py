"""The lease on the name of an agent, as its process holds it (AQ guide 12.2 §19.2: at most one process per name)."""

from __future__ import annotations

import logging
import time

from mgw.gateway.aq import Hub
from mgw.gateway.definitions.objects import AgentStatus
from mgw.gateway.runtime.pulse import START_SECONDS, Pulse
from mgw.gateway.state import lease
from mgw.gateway.state.lease import Owner
from mgw.transforms.clock import Clock
from mgw.transforms.errors import HubError

__all__ = ["LEASE_SECONDS", "AgentLease"]

_LOGGER = logging.getLogger("mgw.engine")

LEASE_SECONDS = 15.0  # a dead process on another host is replaced after so long


class AgentLease:
    """Taken, renewed and given up once.

    Attributes:
        token: grows with every process that takes the agent; 0: not taken yet.
        unrenewed: why it could not be renewed last.
    """

    def __init__(self, hub: Hub, name: str, clock: Clock, pulse: Pulse) -> None:
        self.token = 0
        self.unrenewed: HubError | None = None
        self._hub = hub
        self._name = name
        self._clock = clock
        self._pulse = pulse
        self._renewed = float("-inf")  # monotonic

    @property
    def left(self) -> float:
        """Seconds until it ends unless it is renewed; 0 when it has ended."""
        return max(0.0, self._renewed + LEASE_SECONDS - self._clock.monotonic())

    def acquire(self, patience: float, *, silent: float | None = None, log_level: int = 0) -> None:
        """Take it; waits for one of a process that may be dead on another host.

        Args:
            silent, log_level: see :func:`mgw.gateway.state.lease.acquire_lease`.

        Raises:
            GatewayError: the agent is running elsewhere, is BROKEN or does not exist.
        """
        deadline = self._clock.monotonic() + patience
        me = Owner.this_process()
        while True:
            self._pulse.beat(START_SECONDS)
            asked = self._clock.monotonic()
            with self._hub.write() as conn:
                token, wait = lease.acquire_lease(
                    conn,
                    self._name,
                    me,
                    ttl=LEASE_SECONDS,
                    now=self._clock.now(),
                    silent=silent,
                    log_level=log_level,
                )
            if token:
                self.token, self._renewed = token, asked
                return
            if self._clock.monotonic() + min(wait, 1.0) > deadline:
                raise lease.AgentAlreadyRunning(
                    f"agent {self._name} is already running",
                    cause="a process on another host keeps renewing its lease",
                    cure="stop that process first, or run another agent with --agent",
                    number=-105,
                )
            _LOGGER.info("agent %s: waiting %.0f s for the lease of another host's process", self._name, wait)
            time.sleep(min(wait, 1.0) + 0.05)

    def renew(self) -> None:
        """Renew it.

        Raises:
            LeaseLost: another process owns the agent.
            HubError: the hub cannot be written.
        """
        asked = self._clock.monotonic()
        try:
            with self._hub.write(urgent=True) as conn:
                lease.renew_lease(conn, self._name, self.token, ttl=LEASE_SECONDS, now=self._clock.now())
        except HubError as error:
            self.unrenewed = error
            raise
        self._renewed, self.unrenewed = asked, None

    def show(self, status: AgentStatus) -> None:
        """Store the status of the agent."""
        with self._hub.write() as conn:
            lease.set_agent_status(conn, self._name, self.token, status)

    def release(self, status: AgentStatus, error: str | None) -> None:
        """Give it up with this status; where the hub is away it expires by itself."""
        now = self._clock.now()
        try:
            with self._hub.write() as conn:
                lease.release_lease(conn, self._name, self.token, status=status, error=error, now=now)
        except HubError as failure:
            _LOGGER.warning("lease of agent %s not released, it expires by itself: %s", self._name, failure)
