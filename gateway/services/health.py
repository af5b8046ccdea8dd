"""Whether the gateway does what it was asked: the state of agents and jobs, and what needs somebody's attention.

:func:`assess` decides whether agents are healthy. ``mgw status --check`` and ``/healthz`` say what it says.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from mgw.gateway.aq import Hub, QueueAdmin, shown_key
from mgw.gateway.config.view_columns import COLUMN_TEXTS
from mgw.gateway.definitions.job_options import max_message_age
from mgw.gateway.definitions.objects import key
from mgw.gateway.runtime.timekeeping import watched
from mgw.gateway.services.event_levels import at_least
from mgw.gateway.services.verdict import (
    BY_WORD,
    IN_TROUBLE,
    JOB_WORDS,
    LEAVING,
    MAX_AGE,
    Entry,
    Health,
    Look,
    Observation,
    is_unknown,
    judge,
    word_of,
)
from mgw.gateway.state import status
from mgw.gateway.state.status import EventRow, GatewayRow, JobRow, JobSigns, LinkRow, Signs
from mgw.transforms.errors import HubError

__all__ = [
    "BY_WORD",
    "COLUMN_TEXTS",
    "IN_TROUBLE",
    "JOB_WORDS",
    "LEAVING",
    "MAX_AGE",
    "Entry",
    "EventRow",
    "GatewayRow",
    "GatewayState",
    "Health",
    "JobRow",
    "LinkRow",
    "Look",
    "Observation",
    "assess",
    "judge",
    "knows_backlog",
    "link_of",
    "look",
    "read",
    "read_agents",
    "read_events",
    "state_of",
    "troubles",
    "unreachable",
]


_WITHOUT_AGENT = ("FAILED", "DISABLED", *LEAVING)
_HELD_BACK = ("STUCK", "BLOCKED")


@dataclass(frozen=True, slots=True)
class GatewayState:
    """Agents, links and jobs at one moment.

    Attributes:
        troubles: what needs somebody's attention, a line each.
    """

    agents: Sequence[GatewayRow]
    links: Sequence[LinkRow]
    jobs: Sequence[JobRow]
    troubles: Sequence[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "jobs", [self._known(job) for job in self.jobs])
        object.__setattr__(self, "troubles", troubles(self.agents, self.jobs))

    @property
    def link_types(self) -> dict[str, str]:
        """Type of each link, by its name as the views show it."""
        return {link.link_name: link.link_type for link in self.links}

    @property
    def dead(self) -> frozenset[str]:
        """Agents that should run, and whose process does not answer: what their jobs said last is over."""
        return frozenset(row.agent_name for row in self.agents if row.agent_ping == "UNREACHABLE")

    def state_of(self, job: JobRow) -> str:
        """One word for a job; STOPPED where its agent is dead."""
        word = state_of(job)
        return "STOPPED" if job.agent_name in self.dead and word not in _WITHOUT_AGENT else word

    def knows_backlog(self, job: JobRow) -> bool:
        """Whether what was counted at its source is still true, as far as anybody can tell."""
        dead = job.agent_name in self.dead and job.enabled == "TRUE" and job.propagation_type in ("INBOUND", "THROUGH")
        return not dead and knows_backlog(job)

    def _known(self, job: JobRow) -> JobRow:
        """A job without what was counted before it lost its source."""
        return job if self.knows_backlog(job) else replace(job, backlog=None, oldest_message_age=None)

    def causes(self, jobs: Sequence[JobRow]) -> list[str]:
        """What needs somebody's attention, of agents and of these jobs; jobs with the same reason are one line."""
        groups: dict[tuple[str, str | None], list[str]] = {}
        for job in jobs:
            word = self.state_of(job)
            waits = is_kept_back(job) and job.agent_name not in self.dead
            if waits or (word in IN_TROUBLE and job.enabled == "TRUE"):
                groups.setdefault((word, reason_of(job)), []).append(job.job_name)
        lines = _agent_troubles(self.agents, self.jobs)
        for (word, error), names in groups.items():
            reason = f": {error}" if error else ""
            who = f"job {names[0]} is" if len(names) == 1 else f"{len(names)} jobs are"
            which = "" if len(names) == 1 else f" ({names[0]}, ...)"
            lines.append(f"{who} {word}{which}{reason}")
        return lines

    def jobs_of(self, link: LinkRow) -> int:
        """How many jobs a link has."""
        name = link.link_name
        return sum(name in {job.link_name, job.destination.rpartition("@")[2]} for job in self.jobs)


def read(hub: Hub, agent: str | None = None) -> GatewayState:
    """The state of the gateway, in one transaction; of one agent with its links and jobs, or of all."""
    with hub.read() as conn:
        agents, links, jobs = status.gateway(conn), status.links(conn), status.jobs(conn)
    return GatewayState(
        [row for row in agents if agent is None or row.agent_name == key(agent)],
        [row for row in links if agent is None or row.agent_name == key(agent)],
        [row for row in jobs if agent is None or row.agent_name == key(agent)],
    )


def _known_signs(job: JobSigns) -> JobSigns:
    unknown = is_unknown(job.propagation_type, word_of(job.status, job.activity, job.enabled))
    return replace(job, backlog=None, oldest=None) if unknown else job


def read_agents(hub: Hub) -> list[GatewayRow]:
    """The agents alone; what waits is not counted for it."""
    with hub.read() as conn:
        return status.gateway(conn)


def read_events(
    hub: Hub,
    *,
    after: int = 0,
    limit: int,
    name: str | None = None,
    since: float | None = None,
    level: str | None = None,
) -> list[EventRow]:
    """The last ``limit`` events with an id larger than ``after``, oldest first.

    Args:
        name: of that object alone.
        since: epoch seconds.
        level: of that importance at least (:data:`mgw.gateway.services.event_levels.LEVELS`).
    """
    with hub.read() as conn:
        return status.events(conn, after=after, limit=limit, name=name, since=since, levels=at_least(level))


def link_of(hub: Hub, job: JobRow) -> LinkRow | None:
    """The link of a job; None for one whose ends are both in the hub."""
    if job.link_name is None:
        return None
    with hub.read() as conn:
        return status.link(conn, job.link_name)


def troubles(agents: Sequence[GatewayRow], jobs: Sequence[JobRow]) -> list[str]:
    """What needs somebody's attention, a line each."""
    result = _agent_troubles(agents, jobs)
    for job in jobs:
        if is_kept_back(job) or (state_of(job) in IN_TROUBLE and job.enabled == "TRUE"):
            reason = f": {why}" if (why := reason_of(job)) else ""
            again = f"; next attempt {job.next_attempt} UTC" if job.next_attempt else ""
            since = f" since {job.not_working_since} UTC" if state_of(job) in _HELD_BACK else ""
            result.append(f"job {job.job_name} is {state_of(job)}{since}{reason}{again}")
    return result


def _agent_troubles(agents: Sequence[GatewayRow], jobs: Sequence[JobRow]) -> list[str]:
    busy = {job.agent_name for job in jobs if job.enabled == "TRUE"}
    result = []
    for agent in agents:
        if agent.agent_status == "RUNNING" and agent.agent_ping == "REACHABLE":
            continue
        if agent.agent_name in busy or agent.agent_status == "BROKEN":
            state = "does not answer" if agent.agent_ping == "UNREACHABLE" else f"is {agent.agent_status}"
            reason = f": {agent.last_error_msg}" if agent.last_error_msg else ""
            result.append(f"agent {agent.agent_name} {state}{reason}")
    return result


def state_of(job: JobRow) -> str:
    """One word for a job: its status where that is bad news, otherwise what it does."""
    return word_of(job.status, job.activity, job.enabled == "TRUE")


def reason_of(job: JobRow) -> str | None:
    """Why a job is in its state: what keeps its messages or itself back, else its last error."""
    held = is_kept_back(job) or (state_of(job) in _HELD_BACK and job.status != "RETRY")
    return (job.activity_reason if held else None) or job.last_error_msg


def is_kept_back(job: JobRow) -> bool:
    """Whether its agent has said why it does not run an enabled job."""
    return state_of(job) == "STOPPED" and job.activity_reason is not None


def knows_backlog(job: JobRow) -> bool:
    """Whether what waits for a job is known; a job that does not reach the broker it reads from cannot tell."""
    return not is_unknown(job.propagation_type, state_of(job))


def assess(hub: Hub, *, agent: str | None = None, max_age: float = MAX_AGE) -> Health:
    """Whether an agent, or every agent, does what it was asked, with its links and jobs.

    An agent with work must run, and no enabled job may be RETRY, FAILED or STUCK, or fail to connect, for longer than
    ``max_age`` seconds. No message may wait for longer than the ``max_message_age`` of its job, or else the
    ``age_warning`` of the queue or subscriber that the job reads.

    Raises:
        HubError: the hub cannot be read.
        GatewayError: there is no such agent.
    """
    return judge(look(hub), agent=agent, max_age=max_age)


def look(hub: Hub) -> Look:
    """What there is to judge by, in one transaction that counts no message.

    Raises:
        HubError: the hub cannot be read.
    """
    with hub.read() as conn:
        signs = status.signs(conn)
        limits = _limits(QueueAdmin(hub, conn), signs)
        ages = status.oldest_ages(conn, list(limits))
    signs = replace(signs, jobs=[_known_signs(job) for job in signs.jobs])
    return Look(hub.name, hub.clock.now(), signs, ages, limits)


def unreachable(name: str, error: HubError, *, max_age: float = MAX_AGE, since: float | None = None) -> Health:
    """The verdict when the hub cannot be read."""
    what = f"{error.what}; cause: {error.cause}" if error.cause else error.what
    return Health(max_age, Entry("hub", name, "", "UNREACHABLE", since, False, what, error.cure))


def _limits(admin: QueueAdmin, signs: Signs) -> dict[str, float]:
    """Seconds for which messages may wait, by job: what the job says, or else the queue or subscriber that it reads."""
    found = {(shown_key(queue), consumer and key(consumer)): limit for queue, consumer, limit in watched(admin)}
    limits: dict[str, float] = {}
    for job in signs.jobs:
        own = max_message_age(json.loads(job.options))
        places = ((job.source_key, consumer) for consumer in (None, f"MGW_{job.name_key}"))
        limit = own if own is not None else next((found[place] for place in places if place in found), None)
        if limit is not None and job.enabled:
            limits[job.name_key] = limit
    return limits
