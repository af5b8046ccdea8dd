"""What a process says about itself: whether it is live, ready and healthy, and what its jobs measured."""

from __future__ import annotations

from dataclasses import replace

from mgw import __version__
from mgw.gateway.aq import DEFAULT_SCHEMA, Hub
from mgw.gateway.observe.measures import Measured
from mgw.gateway.runtime.supervisor import Supervisor
from mgw.gateway.services.applies import Applies
from mgw.gateway.services.health import look, unreachable
from mgw.gateway.services.looks import FRESH_SECONDS, Looks
from mgw.gateway.services.probing import Held, Inside, Probing, Readiness
from mgw.gateway.services.verdict import MAX_AGE, Health, Look, Observation, judge
from mgw.gateway.state import status
from mgw.transforms.clock import SYSTEM_CLOCK, Clock
from mgw.transforms.errors import HubError

__all__ = ["HELD_SECONDS", "HubProbes", "Probes", "Probing"]

HELD_SECONDS = 15.0  # the numbers of messages in queues of the hub serve everybody who asks within so long
KEPT_SECONDS = 60.0  # for which they serve where a look at them takes too long


class HubProbes:
    """Answers of a process without an agent, about the hub that it serves."""

    def __init__(self, hub: Hub, clock: Clock = SYSTEM_CLOCK) -> None:
        self._hub = hub
        self._looks = Looks(hub, clock, look, FRESH_SECONDS)
        self._applies = Applies(hub)
        self._held = Looks(hub, clock, self._look_at_queues, HELD_SECONDS, KEPT_SECONDS)

    @property
    def agent(self) -> str:
        """See :class:`Probing`: it has none."""
        return ""

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

    def held(self) -> Held:
        """See :class:`Probing`."""
        return self._held.latest()

    def _look_at_queues(self, hub: Hub) -> Held:
        return Held(_queues(hub), applied=self._applies.counts())

    def measured(self) -> Measured:
        """See :class:`Probing`: there are no jobs here."""
        return Measured()


class Probes(HubProbes):
    """Answers of the process of an agent. Any thread may ask; the hub is looked at by one thread, however many ask."""

    def __init__(self, hub: Hub, supervisor: Supervisor, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(hub, clock)
        self._supervisor = supervisor

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

    def _look_at_queues(self, hub: Hub) -> Held:
        with hub.read() as conn:
            jobs = status.held_for_jobs(conn, self.agent)
        return Held(_queues(hub), jobs, self._applies.counts())

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
            stopped = f"agent {self.agent} is stopped; cure: mgw agents startup {self.agent}"
            reasons.append(self._supervisor.waits_for or stopped)
        else:
            if not agent.lease_left:
                why, cure = _unrenewed(agent.unrenewed)
                reasons.append(f"the lease of agent {self.agent} has ended, it cannot be renewed{why}; cure: {cure}")
            if agent.version is None:
                reasons.append(f"agent {self.agent} is loading its definitions; cure: wait for it")
        if self._supervisor.refused:
            reasons.append(f"changed definitions are not in force: {self._supervisor.refused}")
        return Readiness(tuple(reasons))

    def judged(self, found: Look, *, agent: str | None = None, max_age: float = MAX_AGE) -> Health:
        """The same by what was read already."""
        running = self._supervisor.agent
        seen = {
            name: Observation(word, since, error)
            for name, (since, error, word) in (running.troubles() if running is not None else {}).items()
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


def _queues(hub: Hub) -> dict[tuple[str, str], int]:
    """Messages by queue and state."""
    with hub.read() as conn:
        numbers = status.queue_numbers(conn)
    schema = f"{DEFAULT_SCHEMA}."
    return {(queue.removeprefix(schema), state): number for (queue, state), number in numbers.items()}


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
