"""What a link finds out for one attempt of a job."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["Attempt"]

_Kept = TypeVar("_Kept")


class Attempt:
    """One attempt of a job, from the first question to a link until everything is closed.

    A link serves many jobs for as long as its definition lives. What it may remember of one job, and must ask again at
    the next attempt, it keeps here. The threads of the job share an attempt.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[tuple[object, Callable[[], Any]], Any] = {}

    def of(self, link: object, kind: Callable[[], _Kept]) -> _Kept:
        """The one object of this class that ``link`` keeps for the attempt; made when it is first asked for."""
        with self._lock:
            if (link, kind) not in self._kept:
                self._kept[link, kind] = kind()
            kept: _Kept = self._kept[link, kind]
            return kept
