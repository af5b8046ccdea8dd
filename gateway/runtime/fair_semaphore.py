"""Turns: at most N jobs work at the same time, and nobody is overtaken twice."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Turns"]


class Turns:
    """A first-come-first-served semaphore.

    A job takes a turn for one batch and then goes to the back of the line, so that a busy job cannot starve another
    (AQ guide 12.2 §17.4). Waiting for a broker happens outside a turn. ``limit`` is the agent's ``max_threads``.
    """

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._line: deque[threading.Event] = deque()
        self._lock = threading.Lock()

    @contextmanager
    def take(self) -> Iterator[None]:
        """One turn; waits for it in line."""
        mine: threading.Event | None = None
        with self._lock:
            if self._free > 0 and not self._line:
                self._free -= 1
            else:
                mine = threading.Event()
                self._line.append(mine)
        if mine is not None:
            mine.wait()
        try:
            yield
        finally:
            with self._lock:
                if self._line:
                    self._line.popleft().set()  # the turn passes on, _free stays
                else:
                    self._free += 1
