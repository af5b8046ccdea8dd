"""How many threads of a process use connections of one hub at the same time.

A new connection costs memory (SQLite reads its whole schema, PostgreSQL starts a process), and a pool never gives back
to the system what three hundred threads needed in the first second.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["PATIENCE", "ConnectionTurns"]

PATIENCE = 15.0  # seconds


class ConnectionTurns:
    """Lets ``limit`` threads at a time use a connection; a thread that waited :data:`PATIENCE` goes all the same.

    So a thread that waits for another one, for a lock of the database for example, can never be what that one waits
    for. A thread that has its turn needs no second one.
    """

    def __init__(self, limit: int) -> None:
        self._free = threading.Semaphore(limit)
        self._mine = threading.local()

    @contextmanager
    def take(self) -> Iterator[None]:
        """One turn."""
        mine = self._mine
        if getattr(mine, "taken", False):
            yield
            return
        free = self._free
        taken = free.acquire(blocking=False) or free.acquire(timeout=PATIENCE)
        mine.taken = True
        try:
            yield
        finally:
            mine.taken = False
            if taken:
                free.release()
