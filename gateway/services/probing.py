"""What a process can be asked about itself and its hub."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from mgw.gateway.observe.measures import BATCH_BOUNDS, SECONDS_BOUNDS, Histogram, Measured
from mgw.gateway.services.verdict import MAX_AGE, Health, Look

__all__ = [
    "BATCH_BOUNDS",
    "SECONDS_BOUNDS",
    "Held",
    "Histogram",
    "Inside",
    "Measured",
    "Probing",
    "Readiness",
]


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
        applied: how often configuration files were read again at SIGHUP and changed nothing: ``ok``, or were
            ``refused``.
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
        applied: generations of the definitions that became complete since the process started, by result.
    """

    queues: Mapping[tuple[str, str], int] = field(default_factory=dict)
    jobs: Mapping[str, tuple[int, float | None]] = field(default_factory=dict)
    applied: Mapping[str, int] = field(default_factory=dict)


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

    def held(self) -> Held:
        """What lies in the queues, a little old.

        Raises:
            HubError: it cannot be read, or does not answer in time.
        """
        ...

    def measured(self) -> Measured:
        """What the jobs of the process measured since its agent was started."""
        ...
