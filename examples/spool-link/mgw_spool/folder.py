"""The folder of a spool as a connection: it can be absent, replaced, or hang, and says so.

Every call to the file system is made by one thread of the connection, so that a file system that hangs (a network
mount) costs a timeout and not the job. The thread owns the locks: one that hangs keeps them until its call has ended,
so that nobody writes while it still may.
"""

from __future__ import annotations

import fcntl
import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from pathlib import Path
from typing import TypeVar

from mgw.transforms.errors import LinkError, LinkRefused, LinkTimeout, LinkUnavailable, QueueMissing

__all__ = ["MARKER", "Connection", "flush"]

T = TypeVar("T")
Identity = tuple[int, int]  # device and inode

_CLOSING = 1.0  # seconds for the thread to end; one that hangs is left to itself
MARKER = ".spool"  # in the folder of a spool: without it, nothing is mounted there


class _Worker(threading.Thread):
    """Makes the calls of one connection, one after the other."""

    def __init__(self, link: str) -> None:
        super().__init__(daemon=True, name=f"spool {link}")
        self.calls: queue.SimpleQueue[tuple[Callable[[], object], Future[object]] | None] = queue.SimpleQueue()
        self.locks: list[int] = []

    def run(self) -> None:
        while (call := self.calls.get()) is not None:
            work, outcome = call
            try:
                outcome.set_result(work())
            except BaseException as error:  # it belongs to whoever asked
                outcome.set_exception(error)
        for lock in self.locks:
            os.close(lock)


class Connection:
    """One user of the spool.

    Args:
        link: name of the link, for errors.
        timeout: seconds for each call.
    """

    def __init__(self, link: str, directory: str, timeout: float) -> None:
        self.root = Path(directory)
        self._link = link
        self._timeout = timeout
        self._worker: _Worker | None = None
        self._marker: Identity | None = None

    def open(self) -> None:
        """Connect.

        Raises:
            LinkUnavailable: the spool is not there.
        """
        self.close()
        self._worker = _Worker(self._link)
        self._worker.start()
        self._marker = None
        self._marker = self.call("connect", self._identity)

    def close(self) -> None:
        """Disconnect."""
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.calls.put(None)
            worker.join(_CLOSING)

    def call(self, operation: str, work: Callable[[], T]) -> T:
        """The result of ``work``, which may touch files, or a :class:`LinkError`."""
        if self._worker is None:
            raise self._unavailable(operation, "not connected", "connect was not called")
        outcome: Future[object] = Future()
        self._worker.calls.put((lambda: self._checked(operation, work), outcome))
        try:
            return outcome.result(self._timeout)  # type: ignore[return-value]
        except FutureTimeout:
            self._worker.calls.put(None)
            self._worker = None
            raise LinkTimeout(
                f"link {self._link}: {self.root} did not answer within {self._timeout:g} s",
                link=self._link,
                operation=operation,
                cause="the file system hangs",
                cure="look at its mount",
            ) from None
        except PermissionError as error:
            raise LinkRefused(
                f"link {self._link}: {error.filename} cannot be used",
                link=self._link,
                operation=operation,
                cause=error.strerror or str(error),
                cure="give the gateway's user the right to read, write and list it",
            ) from error
        except OSError as error:
            raise self._unavailable(operation, "failed", f"{error.filename or ''} {error.strerror}".strip()) from error

    def _checked(self, operation: str, work: Callable[[], T]) -> T:
        found = self._identity()
        if self._marker is not None and found != self._marker:
            raise self._unavailable(operation, "is another one", f"its file {MARKER} was replaced")
        return work()

    def _identity(self) -> Identity:
        try:
            with (self.root / MARKER).open("rb") as marker:
                state = os.fstat(marker.fileno())
        except (FileNotFoundError, NotADirectoryError):
            raise self._unavailable(
                "connect", "is not there", f"there is no file {self.root / MARKER}", "mount it, or make the file"
            ) from None
        return state.st_dev, state.st_ino

    def _unavailable(self, operation: str, what: str, cause: str, cure: str = "") -> LinkUnavailable:
        return LinkUnavailable(
            f"link {self._link}: spool {self.root} {what}", link=self._link, operation=operation, cause=cause, cure=cure
        )

    def folder(self, name: str) -> Path:
        """The folder of a queue; for use in :meth:`call`.

        Raises:
            QueueMissing: it is not there.
        """
        found = self.root / name
        if not found.is_dir():
            raise QueueMissing(
                f"queue {name!r} does not exist in spool {self.root}",
                link=self._link,
                cause="nobody made its folder",
                cure=f"mkdir {found}, or correct the registration",
            )
        return found

    def lock(self, path: Path, what: str) -> None:
        """Hold a file's lock until :meth:`close`; for use in :meth:`call`.

        Raises:
            LinkError: another process holds it.
        """
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise LinkError(
                f"link {self._link}: {what}",
                link=self._link,
                operation="connect",
                cause=f"another process holds the lock {path}",
                cure="end the other one",
            ) from None
        if self._worker is not None:
            self._worker.locks.append(descriptor)


def flush(folder: Path) -> None:
    """Have the entries of a folder on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
