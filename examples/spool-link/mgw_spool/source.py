"""Reads the files of a folder in the order of their names, each exactly once.

A file goes when the hub has its message. Between the two a process may die, so the hub stores, together with the
messages, which files they were (marks of the receiving log: name, and what tells this file from a later one of the
same name). What is marked and still there is removed at the next connect, and not read again. The mark goes with the
first batch after the removal.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from mgw.links.contract import EMPTY_BATCH, RESUME, Backlog, Batch, Delivery, JobUse, Mark
from mgw.transforms.errors import ConversionFailure
from mgw.transforms.message import Message, check_headers
from mgw_spool.destination import numbered
from mgw_spool.envelope import decode
from mgw_spool.folder import Connection, flush

__all__ = ["SpoolSource"]

_LOOK = 0.05  # seconds between two looks at an empty folder
_LOCK = ".reader"


class SpoolSource:
    """See :class:`mgw.links.contract.Source`."""

    def __init__(self, connection: Connection, use: JobUse, *, durable: bool) -> None:
        self._connection = connection
        self._use = use
        self._durable = durable
        self._interrupted = threading.Event()
        self._folder = Path()
        self._names: list[str] = []  # seen and not yet read, in order
        self._held: dict[str, str] = {}  # read and not yet settled: name and identity
        self._removed: list[str] = []  # names whose marks the hub still has

    def connect(self, positions: Mapping[str, str]) -> None:
        """See :meth:`mgw.links.contract.Source.connect`."""
        self._connection.open()
        self._names, self._held, self._removed = [], {}, []
        self._folder = self._connection.call("connect", lambda: self._enter(positions))
        self._interrupted.clear()

    def _enter(self, positions: Mapping[str, str]) -> Path:
        folder = self._connection.folder(self._use.endpoint.provider_queue)
        self._connection.lock(folder / _LOCK, f"queue {self._use.endpoint.provider_queue} has a reader")
        for name, identity in positions.items():
            if name == RESUME:
                continue
            if _identity(folder / name) == identity:
                (folder / name).unlink()
            self._removed.append(name)
        self._flush(folder)
        return folder

    def read(self, max_messages: int, wait: float) -> Batch:
        """See :meth:`mgw.links.contract.Source.read`."""
        until = time.monotonic() + wait
        while True:
            batch = self._connection.call("read", lambda: self._take(max_messages))
            left = until - time.monotonic()
            if batch is not EMPTY_BATCH or left <= 0:
                return batch
            if self._interrupted.wait(min(_LOOK, left)):
                self._interrupted.clear()
                return EMPTY_BATCH

    def _take(self, limit: int) -> Batch:
        if not self._names:
            self._names = self._waiting()
        deliveries: list[Delivery] = []
        marks: list[Mark] = []
        while self._names and len(deliveries) < limit:
            name = self._names.pop(0)
            path = self._folder / name
            try:
                content, identity = path.read_bytes(), _identity(path)
            except FileNotFoundError:
                continue  # somebody took it back before it was read
            if identity is None:
                continue
            self._held[name] = identity
            marks.append(Mark(name, identity))
            deliveries.append(self._deliver(name, content))
        if not deliveries:
            return EMPTY_BATCH
        gone = [Mark(name, None) for name in self._removed if name not in self._held]
        self._removed = []
        return Batch(deliveries, token=[mark.partition for mark in marks], marks=[*gone, *marks])

    def _waiting(self) -> list[str]:
        with os.scandir(self._folder) as entries:
            names = [each.name for each in entries if not each.name.startswith(".") and each.is_file()]
        return sorted(name for name in names if name not in self._held)

    def _deliver(self, name: str, content: bytes) -> Delivery:
        queue = self._use.endpoint.provider_queue
        known = numbered(name)
        origin = f"{queue}/{name}" if known is None else f"{queue}/{known[0]}@{known[1]}"
        message = Message(content)  # what goes to the exception queue where the content is not what it should be
        try:
            message = decode(name, content, self._use.clock.now())
            check_headers(message.headers)
        except ConversionFailure as error:
            return Delivery(message, error, origin=origin)
        return Delivery(message, origin=origin)

    def settle(self, batch: Batch) -> None:
        """See :meth:`mgw.links.contract.Source.settle`."""
        self._connection.call("settle", lambda: self._remove(batch.token or []))

    def _remove(self, names: list[str]) -> None:
        for name in names:
            (self._folder / name).unlink(missing_ok=True)
            self._held.pop(name, None)
        self._flush(self._folder)  # before the marks go: a file that comes back after a power failure is still known
        self._removed += names

    def _flush(self, folder: Path) -> None:
        if self._durable:
            flush(folder)

    def backlog(self) -> Backlog | None:
        """See :meth:`mgw.links.contract.Source.backlog`."""
        return Backlog(len(self._connection.call("backlog", self._waiting)))

    def interrupt(self) -> None:
        """See :meth:`mgw.links.contract.Source.interrupt`."""
        self._interrupted.set()

    def close(self) -> None:
        """See :meth:`mgw.links.contract.Source.close`."""
        self._connection.close()


def _identity(path: Path) -> str | None:
    """What tells a file from another of the same name; None where there is none."""
    try:
        state = path.stat()
    except FileNotFoundError:
        return None
    return f"{state.st_dev}:{state.st_ino}:{state.st_mtime_ns}:{state.st_size}"
