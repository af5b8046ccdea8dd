"""Whether the main loop of the process runs."""

from __future__ import annotations

from mgw.gateway.runtime.service_manager import ServiceManager
from mgw.transforms.clock import Clock

__all__ = ["ROUND_SECONDS", "START_SECONDS", "Pulse"]

ROUND_SECONDS = 30.0  # a round takes milliseconds, and seconds where it waits for jobs that end or for the hub
START_SECONDS = 90.0  # until the first round, the lease of a dead process may have to be waited for


class Pulse:
    """Beats with each round of a loop. Any thread may ask.

    Args:
        manager: told of each beat.
    """

    def __init__(self, clock: Clock, manager: ServiceManager | None = None) -> None:
        self._clock = clock
        self._manager = manager
        self._last = clock.monotonic()
        self._allowed = START_SECONDS

    def beat(self, allowed: float = ROUND_SECONDS) -> None:
        """The loop came round; the next time is in ``allowed`` seconds at the latest."""
        self._allowed, self._last = allowed, self._clock.monotonic()
        if self._manager is not None:
            self._manager.alive(allowed)

    @property
    def silence(self) -> float:
        """Seconds since the last beat."""
        return self._clock.monotonic() - self._last

    @property
    def regular(self) -> bool:
        """Whether the next beat is not overdue."""
        return self.silence <= self._allowed
