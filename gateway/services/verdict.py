"""Decides whether agents, links and jobs are healthy, by what the hub says of them. Pure: rows in, verdicts out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from mgw.gateway.config.findings import nearest
from mgw.gateway.definitions.job_words import BY_WORD, JOB_STATES, JOB_WORDS, LEAVING, JobWord, Mood, word_of
from mgw.gateway.definitions.job_words import TROUBLES as IN_TROUBLE
from mgw.gateway.definitions.objects import AgentStatus, key
from mgw.gateway.state.status import AgentSigns, CertificateSigns, JobSigns, LinkSigns, Signs
from mgw.links.certificates import WARNING_SECONDS
from mgw.links.contract import Guarantee
from mgw.transforms.errors import GatewayError

__all__ = [
    "BY_WORD",
    "GUARANTEES",
    "IN_TROUBLE",
    "JOB_STATES",
    "JOB_WORDS",
    "LEAVING",
    "MAX_AGE",
    "STATES",
    "Entry",
    "Health",
    "JobSigns",
    "JobWord",
    "Look",
    "Mood",
    "Observation",
    "ageless",
    "is_unknown",
    "judge",
    "moment",
    "word_of",
]

#: The words for how the objects of a section are.
STATES: Mapping[str, tuple[str, ...]] = {
    "agents": (*AgentStatus, "UNREACHABLE"),
    "links": ("UP", "DOWN", "UNUSED", "UNKNOWN"),
    "jobs": JOB_STATES,
}
MAX_AGE = 60.0  # seconds for which a job may be RETRY, FAILED or STUCK before that counts


@dataclass(frozen=True, slots=True)
class Entry:
    """The health of one agent, link or job, or of the hub.

    Attributes:
        since: epoch seconds since when it is in this state; None where nobody knows.
        reason: what is wrong, without an end; empty where nothing is.
        cure: what to do about it.
        note: what somebody should look at although it works, of a link; empty where nothing is.
    """

    kind: str
    name: str
    agent: str
    state: str
    since: float | None = None
    healthy: bool = True
    reason: str = ""
    cure: str = ""
    note: str = ""

    @property
    def text(self) -> str:
        """Reason and cure in one line."""
        return f"{self.reason}; cure: {self.cure}" if self.cure else self.reason

    def as_json(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "name": self.name,
            **({"agent": self.agent} if self.kind in ("link", "job") else {}),
            "state": self.state,
            "since": moment(self.since),
            "healthy": self.healthy,
            "reason": self.reason or None,
            "cure": self.cure or None,
            **({"note": self.note or None} if self.kind == "link" else {}),
        }


@dataclass(frozen=True, slots=True)
class Health:
    """What :func:`assess` found.

    Attributes:
        max_age: seconds for which a job may have been RETRY, FAILED or STUCK.
    """

    max_age: float
    hub: Entry
    agents: Sequence[Entry] = ()
    links: Sequence[Entry] = ()
    jobs: Sequence[Entry] = ()

    @property
    def healthy(self) -> bool:
        """Whether nothing is wrong."""
        return all(entry.healthy for entry in (self.hub, *self.agents, *self.jobs))

    @property
    def reasons(self) -> list[str]:
        """What is wrong and what to do about it, a line each. What follows from an agent that is down is left out."""
        down = {entry.name for entry in self.agents if not entry.healthy}
        jobs = [entry for entry in self.jobs if entry.agent not in down]
        return [entry.text for entry in (self.hub, *self.agents, *jobs) if not entry.healthy]

    def as_json(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "healthy": self.healthy,
            "max_age": self.max_age,
            "reasons": self.reasons,
            "hub": self.hub.as_json(),
            "agents": [entry.as_json() for entry in self.agents],
            "links": [entry.as_json() for entry in self.links],
            "jobs": [entry.as_json() for entry in self.jobs],
        }


@dataclass(frozen=True, slots=True)
class Look:
    """What was read from a hub at one moment.

    Attributes:
        hub: its name.
        now: epoch seconds.
        ages: by job, seconds for which its oldest message waits, where there is a limit.
        limits: by job, seconds for which a message may wait.
    """

    hub: str
    now: float
    signs: Signs
    ages: Mapping[str, float] = field(default_factory=dict)
    limits: Mapping[str, float] = field(default_factory=dict)

    def late(self, job: str) -> tuple[float, float] | None:
        """Seconds for which the oldest message of a job waits, and the limit that this is above; None: it is not."""
        age, limit = self.ages.get(job, 0.0), self.limits.get(job)
        return (age, limit) if limit is not None and age > limit else None


@dataclass(frozen=True, slots=True)
class Observation:
    """A job as its own process sees it, which may not be able to write that into the hub."""

    state: str
    since: float | None
    reason: str


def moment(seconds: float | None) -> str | None:
    """Epoch seconds as ``2026-11-20T10:57:34Z``."""
    return None if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


def judge(
    look: Look,
    *,
    agent: str | None = None,
    max_age: float = MAX_AGE,
    seen: Mapping[str, Observation] | None = None,
) -> Health:
    """Decide by what was read.

    Args:
        agent: the only one that counts; None: all.
        seen: by job, what its process sees, where that is not what the hub says.

    Raises:
        GatewayError: there is no such agent.
    """
    signs, now = look.signs, look.now
    chosen = None if agent is None else _known(signs, agent)
    busy = {job.agent_key for job in signs.jobs if job.enabled}
    agents = {row.name_key: _agent(row, row.name_key in busy, now) for row in signs.agents}
    jobs: dict[str, Entry] = {}
    for row in signs.jobs:
        found = _job(row, agents[row.agent_key], now, max_age, look.late(row.name_key))
        if seen and found.state in _WELL and (other := seen.get(row.name_key)):
            found = _observed(found, other, now, max_age)
        jobs[row.name_key] = found
    links = []
    for link in signs.links:
        used = [jobs[row.name_key] for row in signs.jobs if row.enabled and link.name_key in row.links]
        found = _link(link.name_key, agents[link.agent_key], used, now, max_age)
        links.append(replace(found, note="; ".join(_notes(link, signs.certificates, now))))
    return Health(
        max_age,
        Entry("hub", look.hub, "", "REACHABLE"),
        [entry for entry in agents.values() if chosen in (None, entry.name)],
        [entry for entry in links if chosen in (None, entry.agent)],
        [entry for entry in jobs.values() if chosen in (None, entry.agent)],
    )


def _known(signs: Signs, agent: str) -> str:
    names = [row.name_key for row in signs.agents]
    if key(agent) in names:
        return key(agent)
    guess = nearest(key(agent), names)
    raise GatewayError(
        f"agent {agent!r} does not exist", cure=f"did you mean {guess!r}?" if guess else f"known: {', '.join(names)}"
    )


def is_unknown(propagation_type: str, word: str) -> bool:
    """Whether nobody knows what waits for a job: it does not reach the broker, and the last count says nothing."""
    return propagation_type in ("INBOUND", "THROUGH") and BY_WORD[word].trouble


_NO_PROCESS = ("NOT_STARTED", "START_SCHEDULED")
_STARTED = ("STARTING", "INITIALIZING", "RUNNING")


def _agent(row: AgentSigns, busy: bool, now: float) -> Entry:
    name = row.name_key
    if row.status not in _NO_PROCESS and (row.lease_expires or 0.0) <= now and row.status != "BROKEN":
        return Entry(
            "agent",
            name,
            name,
            "UNREACHABLE",
            row.heartbeat,
            not busy,
            f"agent {name} does not answer{_for(row.heartbeat, now)}: its process has ended or cannot write to the hub",
            f"read the log of the agent; if its process has ended, start it with mgw run --agent {name}",
        )
    since = row.stopped if row.status in _NO_PROCESS else row.start_time if row.status in _STARTED else None
    if row.status == "RUNNING":
        return Entry("agent", name, name, "RUNNING", since)
    healthy = not busy and row.status != "BROKEN"
    error = f": {row.last_error_msg}" if row.last_error_msg else ""
    cure = f"mgw run --agent {name}, or mgw agents startup {name} where its process waits for that"
    if row.status == "BROKEN":
        cure = f"end the leftover process, then run: mgw agents clean {name}"
    elif row.status not in _NO_PROCESS:
        cure = "wait for it"
    return Entry(
        "agent", name, name, row.status, since, healthy, f"agent {name} is {row.status}{_for(since, now)}{error}", cure
    )


GUARANTEES: tuple[str, ...] = tuple(map(str, Guarantee))

#: Those that :func:`_observed` may correct: the hub says that the job does well.
_WELL = frozenset((*(each.word for each in JOB_WORDS if each.works), "CONNECTING"))
_FINE = frozenset(each.word for each in JOB_WORDS if each.mood in ("fine", "paused"))


def _job(row: JobSigns, agent: Entry, now: float, max_age: float, late: tuple[float, float] | None) -> Entry:
    ended = row.activity == "DRAINING" and agent.state not in ("RUNNING", "SHUTTING_DOWN")
    word = word_of(row.status, "STOPPED" if ended else row.activity, row.enabled)
    entry = Entry("job", row.name_key, row.agent_key, word, row.not_working_since)
    if not row.enabled or word in LEAVING:
        return replace(entry, since=None)
    if agent.state != "RUNNING":
        return replace(
            entry,
            state=word if word in ("FAILED", "DRAINING") else "STOPPED",
            since=agent.since,
            healthy=agent.healthy,
            reason=f"job {row.name_key} does not run: its agent {agent.name} is {agent.state}",
            cure=agent.cure,
        )
    if word not in _FINE:
        since = row.last_error_time if row.not_working_since is None else row.not_working_since
        return _overdue(replace(entry, since=since), _reason(row, word), now, max_age)
    if late is not None:
        return replace(
            entry,
            healthy=False,
            since=now - late[0],
            reason=f"the oldest message of job {row.name_key} has waited for {late[0]:.0f} s (limit {late[1]:g} s)",
            cure=f"look at what the job does: mgw jobs show {row.name_key}",
        )
    if word == "STOPPED" and row.activity_reason:
        reason = f"job {row.name_key} is STOPPED: {row.activity_reason}"
        return replace(entry, reason=reason, cure="it starts by itself then, and sooner if that link can be reached")
    return entry


def _reason(row: JobSigns, word: str) -> str:
    if word == "CONNECTING":
        return "it has not connected yet"
    if word in ("STUCK", "BLOCKED") and row.activity_reason:
        failed = row.status == "RETRY" and row.last_error_msg
        return failed or f"{row.activity_reason}; cure: {BY_WORD[word].cure}"
    return row.last_error_msg or "no reason is known"


def _overdue(entry: Entry, error: str, now: float, max_age: float) -> Entry:
    """The job with its reason; healthy while it has not been in this state for too long."""
    what, _, cure = error.partition("; cure: ")
    return replace(
        entry,
        healthy=entry.since is not None and now - entry.since <= max_age,
        reason=f"job {entry.name} is {entry.state}{_for(entry.since, now)}: {what}",
        cure=cure or f"mgw jobs show {entry.name}",
    )


def _observed(entry: Entry, seen: Observation, now: float, max_age: float) -> Entry:
    return _overdue(replace(entry, state=seen.state, since=seen.since), seen.reason, now, max_age)


def _link(name: str, agent: Entry, jobs: Sequence[Entry], now: float, max_age: float) -> Entry:
    """UP while one of its enabled jobs works; it was up until the last of them stopped working."""
    entry = Entry("link", name, agent.name, "UP")
    if not jobs:
        return replace(entry, state="UNUSED")
    if agent.state != "RUNNING":
        return replace(entry, state="UNKNOWN", since=agent.since)
    if any(BY_WORD[job.state].works for job in jobs):
        return entry
    broken = [job for job in jobs if job.state not in _FINE]
    if not broken:
        return replace(entry, state="UNKNOWN")
    last = max(broken, key=lambda job: job.since or 0.0)
    return replace(
        entry,
        state="DOWN",
        since=last.since,
        healthy=last.since is not None and now - last.since <= max_age,
        reason=last.reason,
        cure=last.cure,
    )


def _notes(link: LinkSigns, certificates: Sequence[CertificateSigns], now: float) -> Iterator[str]:
    """What is not as it should be of the TLS of a link."""
    attributes = json.loads(link.attributes)
    if attributes.get("tls_verify") is False and (
        attributes.get("tls") or str(attributes.get("security_protocol")).endswith("SSL")
    ):
        yield "the broker's certificate is not verified (tls_verify is FALSE)"
    for each in certificates:
        if each.link_key == link.name_key and each.expires - now < WARNING_SECONDS:
            word = "ended" if each.expires <= now else "ends"
            yield f"the certificate of {each.place} ({each.subject}) {word} {moment(each.expires)}"


#: How long something has been so, as :func:`_for` and others say it.
_AGE = re.compile(r" for \d+ s\b")


def ageless(reason: str) -> str:
    """A reason without the ages in it, which are others a second later."""
    return _AGE.sub("", reason)


def _for(since: float | None, now: float) -> str:
    return "" if since is None else f" for {max(0.0, now - since):.0f} s (since {moment(since)})"
