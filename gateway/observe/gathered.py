"""Events that may come with every batch, so that they do not fill ``MGW_EVENTS``."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from mgw.transforms.clock import Clock

__all__ = ["Gathered"]

GATHER_SECONDS: Final = 60.0


class Gathered:
    """Events with a ``count`` of which the first is reported at once, and the others as one event a minute."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._held: dict[Any, tuple[float, int]] = {}  # event without its count -> when it was told, count since then

    def take(self, event: Any) -> bool:
        """Whether to report ``event`` now; else it is counted."""
        kind, now = replace(event, count=0), self._clock.monotonic()
        with self._lock:
            told, count = self._held.get(kind, (-math.inf, 0))
            if not count and now - told >= GATHER_SECONDS:
                self._held[kind] = now, 0
                return True
            self._held[kind] = told, count + event.count
            return False

    def sums(self, name: str, *, all_of_them: bool) -> Sequence[Any]:
        """What was counted for an object."""
        now, found = self._clock.monotonic(), list[Any]()
        with self._lock:
            for kind, (told, count) in list(self._held.items()):
                if kind.object == name and count and (all_of_them or now - told >= GATHER_SECONDS):
                    self._held[kind] = now, 0
                    found.append(replace(kind, count=count))
        return found
