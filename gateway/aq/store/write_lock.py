"""Turns for SQLite's one writer: threads, and processes, that poll for it starve each other."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from weakref import WeakValueDictionary

__all__ = ["FairLock", "Gate", "writer_lock"]

_POLL = 0.001


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
        """Hand the lock to the thread that waits longest."""
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


class Gate:
    """Lets one process at a time wait for SQLite's write lock, so that a busy writer cannot slip in before it again.

    Held only while a transaction begins. It is a courtesy between gateway processes, in the file
    ``<database>-writer``; where that cannot be had, SQLite's own lock alone decides.
    """

    def __init__(self, database: str) -> None:
        self._path = f"{database}-writer"
        self._mutex = threading.Lock()
        self._file: int | None = None

    def enter(self, timeout: float) -> bool:
        """Pass the gate, and :meth:`leave` it soon; False: nobody is to leave it, for it was not had in time."""
        file = self._open() if self._file is None else self._file
        return file is not None and self._acquire(file, timeout)

    def leave(self) -> None:
        """Let the next process pass."""
        if self._file is not None:
            with suppress(OSError):
                fcntl.flock(self._file, fcntl.LOCK_UN)

    @contextmanager
    def passing(self, timeout: float) -> Iterator[None]:
        """Pass the gate; a thread that waited longer than ``timeout`` seconds for it goes without."""
        passed = self.enter(timeout)
        try:
            yield
        finally:
            if passed:
                self.leave()

    def _open(self) -> int | None:
        with self._mutex:
            if self._file is None:
                with suppress(OSError):
                    self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o660)
            return self._file

    def _acquire(self, file: int, timeout: float) -> bool:
        end: float | None = None
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                end = time.monotonic() + timeout if end is None else end
                if time.monotonic() >= end:
                    return False
                time.sleep(_POLL)
            except OSError:
                return False
            else:
                return True

    def close(self) -> None:
        """Close the file. Idempotent."""
        with self._mutex:
            file, self._file = self._file, None
        if file is not None:
            os.close(file)
