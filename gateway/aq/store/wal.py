"""The write-ahead log of an SQLite hub: it starts again when all of it is in the database and nobody reads it.

While any program keeps a transaction open in which it has read, SQLite must keep what was written since: the file
``<database>-wal`` grows until that transaction ends, and the hub can do nothing but say so. When it has ended, the hub
gives the space back.

SQLite copies the log into the database at a commit, when the log has become long: that commit, and whoever waits for
its turn, waits for the disk meanwhile. A hub that commits often has a thread that copies a little at a time, next to
the commits; only the last of it is copied between two of them, so that the log can start again. What SQLite does at a
commit is left for those who write seldom, and where the thread does not keep up.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from contextlib import closing, suppress
from time import monotonic
from typing import Protocol

from mgw.gateway.aq.store.files import existing
from mgw.gateway.aq.store.write_lock import FairLock, writer_lock

__all__ = ["KEPT_BYTES", "LOG_PAGES", "Checkpoints", "LoggedHub", "shorten"]

_log = logging.getLogger(__name__)

KEPT_BYTES = 64 << 20  # of a log that starts again; what is beyond is given back to the file system
_LONG = 256 << 20  # bytes that the log does not have unless somebody reads for long
_PATIENCE = 1.0  # seconds; writers wait meanwhile

LOG_PAGES = 4000  # that the log has at most, unless somebody reads for long: then a commit copies it, or waits for that
_START_PAGES = 1000  # of a log that is to start again
_REST_PAGES = 200  # that may be copied while writers wait
_COMMITS = 8  # after which something is copied
_SEVERAL = 64  # commits after which there is a thread: a command that ends soon needs none
_PAUSE = 0.1  # seconds between two passes: a page that is written again meanwhile is copied once


class LoggedHub(Protocol):
    """What is asked of a hub here."""

    name: str
    path: str | None
    log_warned: int


class Checkpoints:
    """The thread that copies the log into the database.

    Args:
        path: of the database.
        lock: of those who write.
    """

    def __init__(self, path: str, lock: FairLock) -> None:
        self._path = path
        self._lock = lock
        self._commits = -_SEVERAL
        self._wanted = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def committed(self) -> None:
        """Something was written, by the thread whose turn it is."""
        self._commits += 1
        if self._commits >= _COMMITS and not self._wanted.is_set():
            self._commits = 0
            if self._thread is None and not self._stop.is_set():
                thread = threading.Thread(target=self._run, name="mgw-hub-checkpoints", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # no more threads here: what was committed stays committed; commits copy the log
                    return
                self._thread = thread  # now that it may be waited for
            self._wanted.set()

    def stop(self) -> None:
        """Have the thread end, soon."""
        self._stop.set()
        self._wanted.set()

    def close(self) -> None:
        """End the thread. Idempotent."""
        self.stop()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout=5)

    def _run(self) -> None:
        while not self._stop.is_set():
            with suppress(sqlite3.Error):  # a full disk, for example: who commits next is told
                self._copy_while_open()
            self._stop.wait(_PAUSE)

    def _copy_while_open(self) -> None:
        self._wanted.wait()  # SQLite opens the log with the first statement: the file must not be another one by then
        if self._stop.is_set():
            return
        with closing(sqlite3.connect(existing(self._path), uri=True, timeout=0, isolation_level=None)) as connection:
            while True:
                self._wanted.wait()
                if self._stop.is_set():
                    return
                self._wanted.clear()
                started = monotonic()
                self._copy(connection)
                self._stop.wait(max(_PAUSE, monotonic() - started))

    def _copy(self, connection: sqlite3.Connection) -> None:
        """One pass."""
        _, pages, copied = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        if pages < _START_PAGES or (pages - copied > _REST_PAGES and pages < LOG_PAGES):
            return
        if self._lock.acquire(_PATIENCE):
            try:
                connection.execute("PRAGMA wal_checkpoint(FULL)").fetchone()
            finally:
                self._lock.release()


def shorten(hub: LoggedHub, long: int = _LONG) -> bool:
    """Begin the log again if it is long; whether that was done. Where somebody still reads it, the log says so.

    The warning comes again when the file has doubled.
    """
    if hub.path is None:
        return False
    size = _size(hub.path)
    if size < long:
        hub.log_warned = 0
        return False
    lock = writer_lock(os.path.realpath(hub.path))
    if lock.held_here() or not lock.acquire(_PATIENCE):
        return False
    try:
        connection = sqlite3.connect(existing(hub.path), uri=True, timeout=0, isolation_level=None)
        try:
            busy, pages, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if busy and pages < 0:  # another thread or process is copying the log just now
                return False
        finally:
            connection.close()
    except sqlite3.Error:
        busy = True
    finally:
        lock.release()
    if busy and size >= 2 * hub.log_warned:
        hub.log_warned = size
        _log.warning(
            "the write-ahead log of hub %s has %d MB and grows: another program keeps a read transaction open on this "
            "database; end it",
            hub.name,
            size >> 20,
        )
    return not busy


def _size(path: str) -> int:
    try:
        return os.path.getsize(f"{path}-wal")
    except OSError:
        return 0
