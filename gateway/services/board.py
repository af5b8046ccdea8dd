"""What a person sees of the gateway at one moment: every job in a line, trouble first, with rates.

However many look, the hub is read once a second at most, and no message is looked at.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mgw.gateway.aq import Hub
from mgw.gateway.services import health
from mgw.gateway.services.health import GatewayState, LinkRow
from mgw.gateway.services.looks import ANSWER_SECONDS
from mgw.gateway.services.probing import Probing
from mgw.gateway.services.verdict import BY_WORD, IN_TROUBLE, Entry, Health, JobSigns, Look, Mood
from mgw.gateway.state import records
from mgw.gateway.state.records import QueueLoad
from mgw.gateway.state.status import JobRow
from mgw.transforms.clock import SYSTEM_CLOCK, Clock
from mgw.transforms.errors import HubUnavailable

__all__ = ["Board", "Count", "JobLine", "LinkLine", "Mood", "Picture", "QueueLoad"]

FRESH_SECONDS = 1.0  # a look serves everybody who asks within so long
_RATE_SECONDS = 10.0  # over which a rate is an average
_GAP_SECONDS = 30.0  # looks further apart say nothing about now

_ORDER: tuple[Mood, ...] = ("need", "trying", "paused", "fine")


@dataclass(frozen=True, slots=True)
class JobLine:
    """A job.

    Attributes:
        state: the word that all faces have for it.
        since: epoch seconds since when it is in trouble; None: it is not, or nobody knows.
        reason, cure: what is wrong and what to do about it; empty where nothing is.
        rate: messages a second; None: not known yet.
        oldest: seconds for which its oldest message waits.
        progress: epoch seconds at which it last moved messages.
    """

    row: JobRow
    state: str
    mood: Mood
    since: float | None
    reason: str
    cure: str
    rate: float | None
    progress: float | None

    @property
    def name(self) -> str:
        """Its name."""
        return self.row.job_name

    @property
    def source_link(self) -> str:
        """Name of the link it reads from; empty where it reads from the hub."""
        return self.row.source.rpartition("@")[2] if self.row.propagation_type in ("INBOUND", "THROUGH") else ""

    @property
    def target_link(self) -> str:
        """Name of the link it writes to; empty where it writes into the hub."""
        return self.row.destination.rpartition("@")[2] if self.row.propagation_type in ("OUTBOUND", "THROUGH") else ""

    @property
    def moves(self) -> bool:
        """Whether messages move now."""
        return bool(self.rate) if self.rate is not None else self.state == "RUNNING"

    def says(self, text: str) -> bool:
        """Whether its name, state, type or an end has this in it, in whatever letter case."""
        row = self.row
        places = (row.job_name, self.state, row.propagation_type, row.source, row.destination, row.agent_name)
        return any(text.casefold() in each.casefold() for each in places)


@dataclass(frozen=True, slots=True)
class LinkLine:
    """A link with the number of its jobs."""

    row: LinkRow
    entry: Entry
    jobs: int

    @property
    def mood(self) -> Mood:
        """What its state means to a person."""
        if not self.entry.healthy:
            return "need"
        return "trying" if self.entry.state == "DOWN" else "fine" if self.entry.state == "UP" else "paused"


@dataclass(frozen=True, slots=True)
class Count:
    """How many jobs there are of each mood."""

    jobs: int
    by_mood: Mapping[Mood, int]


@dataclass(frozen=True, slots=True)
class Picture:
    """The gateway at one moment.

    Attributes:
        now: epoch seconds.
        jobs: those that need somebody first, then by name.
        troubles: agents, jobs and the hub that need somebody; a job whose agent is down is not named again.
        loads: what lies in the queues of the hub, by ``SCHEMA.NAME`` in upper case.
    """

    hub: str
    now: float
    state: GatewayState
    health: Health
    jobs: Sequence[JobLine]
    links: Sequence[LinkLine]
    troubles: Sequence[Entry]
    loads: Mapping[str, QueueLoad] = field(default_factory=dict)

    @property
    def retries(self) -> list[JobLine]:
        """Jobs that are in trouble, and try again by themselves still."""
        return [job for job in self.jobs if job.mood == "trying" and job.reason]

    @property
    def count(self) -> Count:
        """How many jobs there are of each mood."""
        return Count(len(self.jobs), {mood: sum(job.mood == mood for job in self.jobs) for mood in _ORDER})

    def job(self, name: str) -> JobLine | None:
        """The line of a job, in whatever letter case; None: there is none."""
        return next((each for each in self.jobs if each.name == name.upper()), None)

    def link(self, name: str) -> LinkLine | None:
        """The line of a link; None: there is none."""
        return next((each for each in self.links if each.row.link_name == name.upper()), None)


class Board:
    """Looks at the hub for everybody who has a page open. Any thread may ask."""

    def __init__(self, hub: Hub, probes: Probing, clock: Clock = SYSTEM_CLOCK) -> None:
        self._hub, self._probes, self._clock = hub, probes, clock
        self._mutex = threading.Lock()
        self._picture: Picture | None = None
        self._taken = float("-inf")
        self._totals: deque[tuple[float, Mapping[str, int]]] = deque()

    def latest(self) -> Picture:
        """The gateway now, or as it was a moment ago.

        Raises:
            HubError: the hub does not answer.
        """
        if not self._mutex.acquire(timeout=2 * ANSWER_SECONDS):
            raise HubUnavailable(
                f"hub {self._hub.name} does not answer",
                cause="another look at it has not ended",
                cure="make sure that its database runs and is not overloaded",
            )
        try:
            if self._picture is None or self._clock.monotonic() - self._taken >= FRESH_SECONDS:
                self._picture = self._look()
            return self._picture
        finally:
            self._mutex.release()

    def _look(self) -> Picture:
        found = self._probes.look()
        verdict = self._probes.judged(found, agent="*")
        state = health.read(self._hub)
        with self._hub.read() as conn:
            loads = records.queue_loads(conn)
        self._taken = self._clock.monotonic()
        rates = self._rates({job.job_name: job.propagated_total for job in state.jobs})
        entries = {entry.name: entry for entry in verdict.jobs}
        signs = {row.name_key: row for row in found.signs.jobs}
        jobs = [_line(row, entries.get(row.job_name), signs.get(row.job_name), rates, state) for row in state.jobs]
        jobs.sort(key=lambda job: (_ORDER.index(job.mood), _rank(job.state), job.name))
        links = {entry.name: entry for entry in verdict.links}
        return Picture(
            self._hub.name,
            found.now,
            state,
            verdict,
            jobs,
            [LinkLine(row, links[row.link_name], state.jobs_of(row)) for row in state.links if row.link_name in links],
            _troubles(verdict, jobs, found),
            {load.name_key: load for load in loads},
        )

    def _rates(self, totals: Mapping[str, int]) -> Mapping[str, float]:
        """Messages a second by job, as far as earlier looks tell."""
        while self._totals and self._taken - self._totals[0][0] > _RATE_SECONDS and len(self._totals) > 1:
            self._totals.popleft()
        if self._totals and self._taken - self._totals[-1][0] > _GAP_SECONDS:
            self._totals.clear()
        self._totals.append((self._taken, totals))
        then, before = self._totals[0]
        if then >= self._taken:
            return {}
        return {
            name: max(0, total - before[name]) / (self._taken - then)
            for name, total in totals.items()
            if name in before
        }


def _rank(state: str) -> int:
    return IN_TROUBLE.index(state) if state in IN_TROUBLE else len(IN_TROUBLE)


def _line(
    row: JobRow, entry: Entry | None, signs: JobSigns | None, rates: Mapping[str, float], state: GatewayState
) -> JobLine:
    word = entry.state if entry is not None else state.state_of(row)
    mood = BY_WORD[word].mood
    if row.enabled != "TRUE":
        mood = "paused"
    elif mood != "paused" and entry is not None and not entry.healthy:
        mood = "need"
    return JobLine(
        row,
        word,
        mood,
        entry.since if entry is not None else None,
        entry.reason if entry is not None else row.last_error_msg or "",
        entry.cure if entry is not None else "",
        rates.get(row.job_name),
        signs.last_progress if signs is not None else None,
    )


def _troubles(verdict: Health, jobs: Sequence[JobLine], found: Look) -> list[Entry]:
    """What needs somebody; jobs that stand still because of their agent are left to its line."""
    wrong = [entry for entry in (verdict.hub, *verdict.agents) if not entry.healthy]
    down = {entry.name for entry in wrong}
    entries = {entry.name: entry for entry in verdict.jobs}
    agents = {row.name_key: row.agent_key for row in found.signs.jobs}
    chosen = [job.name for job in jobs if job.mood == "need" and agents.get(job.name) not in down]
    return [*wrong, *(entries[name] for name in chosen if name in entries)]
