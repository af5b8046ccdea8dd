"""Whether the gateway does what it was asked: the state of agents and jobs, and what needs somebody's attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mgw.gateway.aq import Hub
from mgw.gateway.state import status
from mgw.gateway.state.status import EventRow, GatewayRow, JobRow, LinkRow

__all__ = [
    "EventRow",
    "GatewayRow",
    "GatewayState",
    "JobRow",
    "LinkRow",
    "failing",
    "link_of",
    "read",
    "read_agents",
    "read_events",
    "state_of",
    "troubles",
]


@dataclass(frozen=True, slots=True)
class GatewayState:
    """Agents, links and jobs at one moment.

    Attributes:
        troubles: what needs somebody's attention, a line each.
        failing: whether an agent with work is down, or a job is FAILED or STUCK; a job that tries again is not.
    """

    agents: Sequence[GatewayRow]
    links: Sequence[LinkRow]
    jobs: Sequence[JobRow]
    troubles: Sequence[str] = field(init=False)
    failing: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "troubles", troubles(self.agents, self.jobs))
        object.__setattr__(self, "failing", failing(self.agents, self.jobs))

    @property
    def link_types(self) -> dict[str, str]:
        """Type of each link, by its name as the views show it."""
        return {link.link_name: link.link_type for link in self.links}

    def jobs_of(self, link: LinkRow) -> int:
        """How many jobs a link has."""
        name = link.link_name
        return sum(name in {job.link_name, job.destination.rpartition("@")[2]} for job in self.jobs)


def read(hub: Hub) -> GatewayState:
    """The state of the gateway, in one transaction."""
    with hub.read() as conn:
        return GatewayState(status.gateway(conn), status.links(conn), status.jobs(conn))


def read_agents(hub: Hub) -> list[GatewayRow]:
    """The agents alone; what waits is not counted for it."""
    with hub.read() as conn:
        return status.gateway(conn)


def read_events(hub: Hub, *, after: int = 0, limit: int) -> list[EventRow]:
    """The last ``limit`` events with an id larger than ``after``, oldest first."""
    with hub.read() as conn:
        return status.events(conn, after=after, limit=limit)


def link_of(hub: Hub, job: JobRow) -> LinkRow | None:
    """The link of a job; None for one whose ends are both in the hub."""
    if job.link_name is None:
        return None
    with hub.read() as conn:
        return status.link(conn, job.link_name)


def troubles(agents: Sequence[GatewayRow], jobs: Sequence[JobRow]) -> list[str]:
    """What needs somebody's attention, a line each."""
    busy = {job.agent_name for job in jobs if job.enabled == "TRUE"}
    result = []
    for agent in agents:
        if agent.agent_status == "RUNNING" and agent.agent_ping == "REACHABLE":
            continue
        if agent.agent_name in busy or agent.agent_status == "BROKEN":
            state = "does not answer" if agent.agent_ping == "UNREACHABLE" else f"is {agent.agent_status}"
            reason = f": {agent.last_error_msg}" if agent.last_error_msg else ""
            result.append(f"agent {agent.agent_name} {state}{reason}")
    for job in jobs:
        if state_of(job) in ("FAILED", "STUCK", "RETRY") and job.enabled == "TRUE":
            reason = f": {job.last_error_msg}" if job.last_error_msg else ""
            result.append(f"job {job.job_name} is {state_of(job)}{reason}")
    return result


def failing(agents: Sequence[GatewayRow], jobs: Sequence[JobRow]) -> bool:
    """Whether an agent with work is down, or a job is FAILED or STUCK."""
    return any(not line.split(":", 1)[0].endswith(" is RETRY") for line in troubles(agents, jobs))


def state_of(job: JobRow) -> str:
    """One word for a job: its status where that is bad news, otherwise what it does."""
    if job.status in ("FAILED", "DELETE_PENDING"):
        return job.status
    if job.enabled != "TRUE":
        return "DISABLED"
    return "RETRY" if job.status == "RETRY" else job.activity
