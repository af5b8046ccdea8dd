"""When the windows of schedules open and close (DBMS_HQADM): an agent runs their jobs in windows alone."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from mgw.gateway.aq import Hub
from mgw.gateway.definitions.objects import JobDef, JobStatus
from mgw.gateway.definitions.outbound import OutboundSchedule
from mgw.gateway.state import catalog, lease, run_state
from mgw.transforms.errors import GatewayError

__all__ = ["Windows"]

_LOGGER = logging.getLogger("mgw.engine")


class Windows:
    """Of one agent."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._edge = float("inf")  # epoch seconds
        self._moved = 0.0  # when move() looked last
        self._behind = False  # a schedule has more windows that ended than one look reckons

    def due(self, now: float) -> bool:
        """Whether a window has opened or closed since the last :meth:`keep`."""
        return now >= self._edge

    def keep(self, jobs: Iterable[JobDef]) -> None:
        """These jobs were taken over, as :meth:`move` left them: know when the next window opens or closes."""
        now = self._moved  # a window that has closed since is still to be moved
        edges = [job.outbound.edge(now) for job in jobs if job.outbound is not None]
        known = min((edge for edge in edges if edge is not None), default=float("inf"))
        self._edge = now if self._behind else known

    def move(self, jobs: Iterable[JobDef], agent_key: str, token: int, now: float) -> bool:
        """Store the next window of every schedule whose window has ended, each at once; whether there was one.

        Raises:
            LeaseLost: another process owns the agent.
            HubError: it could not be written.
        """
        moved = behind = False
        self._moved = now
        for job in jobs:
            if job.outbound is None or (found := _moved(job.name, job.outbound, now)) == job.outbound:
                continue
            with self._hub.write() as conn:
                lease.check_owner(conn, agent_key, token)
                catalog.set_window(conn, job.id, found)
            moved = True
            behind = behind or found.is_behind(now)
        self._behind = behind
        return moved

    def rest(self, job: JobDef, ended: bool, agent_key: str, token: int) -> None:
        """A job that does not run now has no failures while its window is closed: it does as it should.

        Args:
            ended: it ran until now.

        Raises:
            LeaseLost, HubError: as :meth:`move`.
        """
        if not job.is_due(self._moved) and (ended or job.status is JobStatus.RETRY):
            with self._hub.write() as conn:
                lease.check_owner(conn, agent_key, token)
                run_state.record_recovery(conn, job.id)


def _moved(name: str, schedule: OutboundSchedule, now: float) -> OutboundSchedule:
    try:
        return schedule.moved(now)
    except GatewayError as error:
        _LOGGER.error("schedule of job %s has no other window: %s", name, error)
        return schedule
