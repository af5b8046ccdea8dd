"""A first-come, first-served lock: SQLite has one writer, and threads that poll for it starve each other."""

from __future__ import annotations

import threading
from collections import deque
from weakref import WeakValueDictionary

__all__ = ["FairLock", "writer_lock"]


class FairLock:
    """Mutual exclusion in the order of arrival. Not reentrant; :meth:`held_here` tells a thread that it has it."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._waiting: deque[threading.Lock] = deque()
        self._owner: int | None = None
        self._taken = False

    def held_here(self) -> bool:
        """Whether the calling thread holds the lock."""
        return self._owner == threading.get_ident()

    def acquire(self, timeout: float) -> bool:
        """Take the lock, waiting at most ``timeout`` seconds; False when that was not enough."""
        with self._mutex:
            if not self._taken:
                self._taken = True
                self._owner = threading.get_ident()
                return True
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append(turn)
        if turn.acquire(timeout=timeout):
            self._owner = threading.get_ident()
            return True
        with self._mutex:
            if turn in self._waiting:
                self._waiting.remove(turn)
                return False
        self._owner = threading.get_ident()  # it was handed over between the time-out and the look
        return True

    def release(self) -> None:
        """Hand the lock to whoever waits longest."""
        with self._mutex:
            self._owner = None
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._taken = False


_locks: WeakValueDictionary[str, FairLock] = WeakValueDictionary()
_locks_mutex = threading.Lock()


def writer_lock(database: str) -> FairLock:
    """The one lock of this process for a database file, shared by every hub object opened on it."""
    with _locks_mutex:
        lock = _locks.get(database)
        if lock is None:
            lock = _locks[database] = FairLock()
        return lock
