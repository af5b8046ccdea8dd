"""What a running agent's process says about itself: whether it is live, ready and healthy."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from mgw import __version__
from mgw.gateway.aq import DEFAULT_SCHEMA, Hub
from mgw.gateway.observe.measures import BATCH_BOUNDS, SECONDS_BOUNDS, Histogram, Measured
from mgw.gateway.runtime.supervisor import Supervisor
from mgw.gateway.services.health import look, unreachable
from mgw.gateway.services.verdict import MAX_AGE, Health, Look, Observation, judge
from mgw.gateway.state import status
from mgw.transforms.clock import SYSTEM_CLOCK, Clock
from mgw.transforms.errors import HubError, HubUnavailable

__all__ = [
    "ANSWER_SECONDS",
    "BATCH_BOUNDS",
    "HELD_SECONDS",
    "SECONDS_BOUNDS",
    "Held",
    "Histogram",
    "Inside",
    "Measured",
    "Probes",
    "Readiness",
]

ANSWER_SECONDS = 1.5  # for a look at the hub; then it counts as away
FRESH_SECONDS = 0.5  # a look serves everybody who asks within so long
HELD_SECONDS = 15.0  # the same for the numbers of messages in queues of the hub
KEPT_SECONDS = 60.0  # for which these serve where a look at them takes longer than ANSWER_SECONDS


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether the process can do its work, and what is missing, a line each."""

    reasons: tuple[str, ...] = ()

    @property
    def ready(self) -> bool:
        """Whether nothing is missing."""
        return not self.reasons


@dataclass(frozen=True, slots=True)
class Inside:
    """What the process knows without asking the hub.

    Attributes:
        generation: version of the definitions in force; None: none is loaded.
        lease_left: seconds until the lease ends; None: the agent is stopped.
        applied: how often configuration files were read again, by result.
        worker_restarts: how often each worker process was replaced since the agent started, by number.
    """

    version: str
    agent: str
    live: bool
    generation: int | None
    lease_left: float | None
    applied: Mapping[str, int]
    worker_restarts: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Held:
    """What lies in queues of the hub.

    Attributes:
        queues: messages by queue and state.
        jobs: by job that reads from such a queue, how many messages wait and for how many seconds the oldest (None:
            none waits).
    """

    queues: Mapping[tuple[str, str], int] = field(default_factory=dict)
    jobs: Mapping[str, tuple[int, float | None]] = field(default_factory=dict)


class Probes:
    """Answers about one process. Any thread may ask; the hub is looked at by one thread, however many ask."""

    def __init__(self, hub: Hub, supervisor: Supervisor, clock: Clock = SYSTEM_CLOCK) -> None:
        self._hub = hub
        self._supervisor = supervisor
        self._clock = clock
        self._looks = _Looks(hub, clock, look, FRESH_SECONDS)
        self._held = _Looks(hub, clock, self._look_at_queues, HELD_SECONDS, KEPT_SECONDS)

    @property
    def agent(self) -> str:
        """Name of the agent, in upper case."""
        return self._supervisor.agent_name

    def life(self) -> tuple[bool, str]:
        """Whether the process works, and a word about it; otherwise it must be started again.

        A main loop that waits for a hub which does not answer is not a reason: a new process would wait as well.
        """
        pulse = self._supervisor.pulse
        if pulse.regular:
            return True, "live"
        try:
            self.look()
        except HubError:
            return True, f"live: the main loop has waited for {pulse.silence:.0f} s, and the hub does not answer"
        if pulse.regular:
            return True, "live"
        return False, f"the main loop has not completed a pass for {pulse.silence:.0f} s, and the hub answers"

    def look(self) -> Look:
        """What the hub says.

        Raises:
            HubError: it cannot be read, or does not answer in time.
        """
        return self._looks.latest()

    def held(self) -> Held:
        """What lies in the queues, at most :data:`HELD_SECONDS` old, or :data:`KEPT_SECONDS` where the hub is slow.

        Raises:
            HubError: it cannot be read, or does not answer in time.
        """
        return self._held.latest()

    def _look_at_queues(self, hub: Hub) -> Held:
        with hub.read() as conn:
            numbers, jobs = status.queue_numbers(conn), status.held_for_jobs(conn, self.agent)
        schema = f"{DEFAULT_SCHEMA}."
        return Held({(queue.removeprefix(schema), state): number for (queue, state), number in numbers.items()}, jobs)

    def measured(self) -> Measured:
        """What the jobs measured since the agent was started."""
        running = self._supervisor.agent
        return Measured() if running is None else running.measured()

    def readiness(self) -> Readiness:
        """Whether the hub can be read, the lease is held and the definitions are loaded."""
        reasons = []
        try:
            self.look()
        except HubError as error:
            reasons.append(str(error))
        agent = self._supervisor.agent
        if agent is None:
            reasons.append(f"agent {self.agent} is stopped; cure: mgw agents startup {self.agent}")
        else:
            if not agent.lease_left:
                why, cure = _unrenewed(agent.unrenewed)
                reasons.append(f"the lease of agent {self.agent} has ended, it cannot be renewed{why}; cure: {cure}")
            if agent.version is None:
                reasons.append(f"agent {self.agent} is loading its definitions; cure: wait for it")
        if self._supervisor.refused:
            reasons.append(f"changed definitions are not in force: {self._supervisor.refused}")
        return Readiness(tuple(reasons))

    def health(self, *, agent: str | None = None, max_age: float = MAX_AGE) -> Health:
        """The health of the agent of this process, of another one, or of all (``*``).

        Raises:
            GatewayError: there is no such agent.
        """
        try:
            found = self.look()
        except HubError as error:
            return unreachable(self._hub.name, error, max_age=max_age)
        return self.judged(found, agent=agent, max_age=max_age)

    def judged(self, found: Look, *, agent: str | None = None, max_age: float = MAX_AGE) -> Health:
        """The same by what was read already."""
        running = self._supervisor.agent
        seen = {
            name: Observation("RETRY", since, error)
            for name, (since, error) in (running.troubles() if running is not None else {}).items()
        }
        chosen = self.agent if agent is None else None if agent == "*" else agent
        health = judge(found, agent=chosen, max_age=max_age, seen=seen)
        if chosen != self.agent or running is None or running.lease_left:
            return health
        return _without_lease(health, running.unrenewed)

    def inside(self) -> Inside:
        """What the process knows without asking the hub."""
        running = self._supervisor.agent
        return Inside(
            __version__,
            self.agent,
            self.life()[0],
            None if running is None else running.version,
            None if running is None else running.lease_left,
            dict(self._supervisor.applied),
            {} if running is None else running.worker_restarts,
        )


def _unrenewed(error: HubError | None) -> tuple[str, str]:
    """Why the lease of an agent was not renewed, and what to do about it."""
    if error is None:
        return "", "see to it that the hub can be written"
    cause = f"; cause: {error.cause}" if error.cause else ""
    return f": {error.what}{cause}", error.cure or "see to it that the hub can be written"


def _without_lease(health: Health, error: HubError | None) -> Health:
    """The process knows before the hub's clock says so that it cannot renew its lease, and why."""
    why, cure = _unrenewed(error)
    agents = [
        replace(
            entry,
            state="UNREACHABLE",
            healthy=False,
            reason=f"agent {entry.name} cannot renew its lease in the hub{why}",
            cure=cure,
        )
        for entry in health.agents
    ]
    return replace(health, agents=agents)


_Seen = TypeVar("_Seen")


class _Looks(Generic[_Seen]):
    """Looks at the hub, one at a time, none of which anybody waits for longer than :data:`ANSWER_SECONDS`.

    Args:
        fresh: seconds for which a look that found something serves everybody; an error serves for
            :data:`FRESH_SECONDS`.
        kept: seconds for which it serves where the next one takes too long.
    """

    def __init__(self, hub: Hub, clock: Clock, take: Callable[[Hub], _Seen], fresh: float, kept: float = 0.0) -> None:
        self._hub = hub
        self._clock = clock
        self._take = take
        self._fresh = fresh
        self._kept = kept
        self._changed = threading.Condition()
        self._looking = False
        self._taken = float("-inf")  # when the last look was begun, monotonic
        self._found: _Seen | HubError | None = None

    def latest(self) -> _Seen:
        """A look that is begun now, or was begun a moment ago.

        Raises:
            HubError: it failed, or takes too long.
        """
        begin = self._clock.monotonic()
        with self._changed:
            fresh = FRESH_SECONDS if isinstance(self._found, HubError) else self._fresh
            if not self._looking and begin - self._taken > fresh:
                self._looking = True
                threading.Thread(target=self._look, name="health", daemon=True).start()
            self._changed.wait_for(lambda: not self._looking, ANSWER_SECONDS)
            if self._looking and not isinstance(self._found, HubError | None) and begin - self._taken <= self._kept:
                return self._found
            if self._looking or self._found is None:
                raise HubUnavailable(
                    f"hub {self._hub.name} does not answer",
                    cause=f"it did not answer within {ANSWER_SECONDS:g} s",
                    cure="make sure that its database runs and is not overloaded",
                )
            if isinstance(self._found, HubError):
                raise self._found
            return self._found

    def _look(self) -> None:
        begun = self._clock.monotonic()
        found: _Seen | HubError
        try:
            found = self._take(self._hub)
        except HubError as error:
            found = error
        except Exception as error:
            found = HubError(f"hub {self._hub.name} could not be asked", cause=f"{type(error).__name__}: {error}")
        with self._changed:
            self._looking, self._taken, self._found = False, begun, found
            self._changed.notify_all()
