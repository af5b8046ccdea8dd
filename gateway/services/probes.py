"""What a running agent's process says about itself: whether it is live, ready and healthy."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from mgw import __version__
from mgw.gateway.aq import Hub
from mgw.gateway.runtime.supervisor import Supervisor
from mgw.gateway.services.health import look, unreachable
from mgw.gateway.services.verdict import MAX_AGE, Health, Look, Observation, judge
from mgw.transforms.clock import SYSTEM_CLOCK, Clock
from mgw.transforms.errors import HubError, HubUnavailable

__all__ = ["ANSWER_SECONDS", "HubProbes", "Inside", "Probes", "Probing", "Readiness"]

ANSWER_SECONDS = 1.5  # for a look at the hub; then it counts as away
FRESH_SECONDS = 0.5  # a look serves everybody who asks within so long


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


class Probing(Protocol):
    """What a process says about itself and its hub. Any thread may ask."""

    @property
    def agent(self) -> str:
        """Name of the agent of the process, in upper case; empty where it has none."""
        ...

    def life(self) -> tuple[bool, str]:
        """Whether the process works, and a word about it; otherwise it must be started again."""
        ...

    def look(self) -> Look:
        """What the hub says.

        Raises:
            HubError: it cannot be read, or does not answer in time.
        """
        ...

    def readiness(self) -> Readiness:
        """Whether the process can do its work."""
        ...

    def health(self, *, agent: str | None = None, max_age: float = MAX_AGE) -> Health:
        """The health of the agent of this process, of another one, or of all (``*``).

        Raises:
            GatewayError: there is no such agent.
        """
        ...

    def judged(self, found: Look, *, agent: str | None = None, max_age: float = MAX_AGE) -> Health:
        """The same by what was read already."""
        ...

    def inside(self) -> Inside:
        """What the process knows without asking the hub."""
        ...


class HubProbes:
    """Answers of a process without an agent, about the hub that it serves."""

    agent = ""

    def __init__(self, hub: Hub, clock: Clock = SYSTEM_CLOCK) -> None:
        self._hub = hub
        self._looks = _Looks(hub, clock)

    def life(self) -> tuple[bool, str]:
        """See :class:`Probing`: it answers."""
        return True, "live"

    def look(self) -> Look:
        """See :class:`Probing`."""
        return self._looks.latest()

    def readiness(self) -> Readiness:
        """See :class:`Probing`: whether the hub can be read."""
        try:
            self.look()
        except HubError as error:
            return Readiness((str(error),))
        return Readiness()

    def health(self, *, agent: str | None = None, max_age: float = MAX_AGE) -> Health:
        """See :class:`Probing`; of all agents, unless one is named."""
        try:
            found = self.look()
        except HubError as error:
            return unreachable(self._hub.name, error, max_age=max_age)
        return self.judged(found, agent=agent, max_age=max_age)

    def judged(self, found: Look, *, agent: str | None = None, max_age: float = MAX_AGE) -> Health:
        """See :class:`Probing`."""
        return judge(found, agent=None if agent in (None, "*") else agent, max_age=max_age, seen={})

    def inside(self) -> Inside:
        """See :class:`Probing`."""
        return Inside(__version__, self.agent, True, None, None, {}, {})


class Probes:
    """Answers of the process of an agent. Any thread may ask; the hub is looked at by one thread, however many ask."""

    def __init__(self, hub: Hub, supervisor: Supervisor, clock: Clock = SYSTEM_CLOCK) -> None:
        self._hub = hub
        self._supervisor = supervisor
        self._clock = clock
        self._looks = _Looks(hub, clock)

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


class _Looks:
    """Looks at the hub, one at a time, none of which anybody waits for longer than :data:`ANSWER_SECONDS`."""

    def __init__(self, hub: Hub, clock: Clock) -> None:
        self._hub = hub
        self._clock = clock
        self._changed = threading.Condition()
        self._looking = False
        self._taken = float("-inf")  # when the last look was begun, monotonic
        self._begun = float("-inf")  # the same of the last one, which may be under way
        self._found: Look | HubError | None = None

    def latest(self) -> Look:
        """A look that is begun now, or was begun a moment ago.

        Raises:
            HubError: it failed, or takes too long.
        """
        begin = self._clock.monotonic()
        with self._changed:
            if not self._looking and begin - self._taken > FRESH_SECONDS:
                self._looking, self._begun = True, begin
                threading.Thread(target=self._look, name="health", daemon=True).start()
            left = self._begun + ANSWER_SECONDS - begin  # of the look that is under way, whoever began it
            self._changed.wait_for(lambda: not self._looking, max(0.0, left))
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
        found: Look | HubError
        try:
            found = look(self._hub)
        except HubError as error:
            found = error
        except Exception as error:
            found = HubError(f"hub {self._hub.name} could not be asked", cause=f"{type(error).__name__}: {error}")
        with self._changed:
            self._looking, self._taken, self._found = False, begun, found
            self._changed.notify_all()
