"""How many generations of the definitions became complete since a process started, whoever made them."""

from __future__ import annotations

from collections import Counter

from mgw.gateway.aq import Hub
from mgw.gateway.config.generation_progress import is_failure
from mgw.gateway.state import happened

__all__ = ["Applies"]

_LATE_SECONDS = 60.0  # an entry may be committed so long after one with a larger number


class Applies:
    """Counts them; by one thread at a time."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._started = hub.clock.now()
        self._floor: int | None = None
        self._seen: dict[int, float] = {}
        self._counts = Counter[str](ok=0, failed=0)

    def counts(self) -> dict[str, int]:
        """So many by now: ``ok``, and ``failed``: a step was refused after others were done.

        Raises:
            HubError: the hub cannot be read.
        """
        now = self._hub.clock.now()
        with self._hub.read() as conn:
            if self._floor is None:
                self._floor = happened.audited_before(conn, self._started)
            found = happened.completed_after(conn, self._floor)
        for number, result in found:
            if number not in self._seen:
                self._seen[number] = now
                self._counts["failed" if is_failure(result) else "ok"] += 1
        old = [number for number, seen in self._seen.items() if now - seen > _LATE_SECONDS]
        self._floor = max(old, default=self._floor)
        self._seen = {number: seen for number, seen in self._seen.items() if number > self._floor}
        return dict(self._counts)
