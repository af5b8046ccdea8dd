"""Writes each message as a file, each batch exactly once.

The files of a batch are written into a folder of the job first. One rename of the job's log, which names the batch and
its files, decides: before it the batch is not there, after it the batch is. Then the files are renamed to where readers
look. What a process that died had decided and not yet renamed is renamed at the next connect.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mgw.links.contract import Encoded, JobUse, Recovered
from mgw.links.options import parse
from mgw.links.placement import Placement
from mgw.transforms.message import Message
from mgw_spool import envelope
from mgw_spool.folder import Connection, flush
from mgw_spool.spec import SPEC

__all__ = ["SpoolDestination", "files_of_job", "numbered"]

_NAME = re.compile(r"([0-9]{20})-(.+)\.(?:mgw|msg)")


class JobFiles(NamedTuple):
    """What a job keeps in the folder of its queue."""

    staging: Path
    log: Path
    lock: Path


def files_of_job(folder: Path, use: JobUse) -> JobFiles:
    """The files of a job."""
    owner = _owner(use)
    return JobFiles(folder / f".staging-{owner}", folder / f".log-{owner}", folder / f".writer-{owner}")


def _owner(use: JobUse) -> str:
    """The job among those of several hubs that write to one folder."""
    return f"{use.hub_id}-{use.job}"


def numbered(name: str) -> tuple[str, int] | None:
    """Writer and number of a file that a job of a gateway wrote, else None."""
    found = _NAME.fullmatch(name)
    return None if found is None else (found[2], int(found[1]))


class SpoolDestination:
    """See :class:`mgw.links.contract.Destination`."""

    def __init__(self, connection: Connection, use: JobUse, *, durable: bool) -> None:
        self._connection = connection
        self._use = use
        self._durable = durable
        options = parse(SPEC.queue_options, use.endpoint.options, f"foreign queue {use.endpoint.full_name}")
        self._plain = options["spool_format"] == "plain"
        self._interrupted = threading.Event()
        self._recovered: Recovered | None = None
        self._confirmed: int | None = None
        self._told: int | None = None  # what confirmed() last returned
        self._number = 0
        self._located: dict[int, Placement] = {}
        self._folder = Path()

    def connect(self) -> None:
        """See :meth:`mgw.links.contract.Destination.connect`."""
        self._connection.open()
        self._confirmed, self._told, self._located = None, None, {}
        self._interrupted.clear()
        log = self._connection.call("connect", self._enter)
        self._number = log.get("number", 0)
        self._recovered = Recovered(log.get("sequence"))

    def _enter(self) -> dict[str, Any]:
        self._folder = self._connection.folder(self._use.endpoint.provider_queue)
        self._files = files_of_job(self._folder, self._use)
        self._connection.lock(self._files.lock, f"job {self._use.job} has another writer")
        self._files.staging.mkdir(exist_ok=True)
        try:
            log: dict[str, Any] = json.loads(self._files.log.read_bytes())
        except FileNotFoundError:
            log = {}
        self._publish(log.get("files", []))
        for left in self._files.staging.iterdir():  # of a batch that was never decided
            left.unlink()
        return log

    def recovered(self) -> Recovered | None:
        """See :meth:`mgw.links.contract.Destination.recovered`."""
        return self._recovered

    def encode(self, message: Message) -> Encoded:
        """See :meth:`mgw.links.contract.Destination.encode`."""
        return envelope.plain(message) if self._plain else envelope.encode(message, self._use.clock.now())

    def publish(self, sequence: int, messages: Sequence[Encoded]) -> None:
        """See :meth:`mgw.links.contract.Destination.publish`."""
        self._connection.call("publish", lambda: self._write(sequence, messages))
        self._confirmed = sequence

    def _write(self, sequence: int, messages: Sequence[bytes]) -> None:
        first = max(self._number + 1, time.time_ns())  # names grow, also where several jobs write
        suffix = "msg" if self._plain else "mgw"
        names = [f"{number:020d}-{_owner(self._use)}.{suffix}" for number in range(first, first + len(messages))]
        self._number = first + len(messages) - 1
        for name, content in zip(names, messages, strict=True):
            self._store(self._files.staging / name, content)
        self._flush(self._files.staging)
        log = {"sequence": sequence, "number": self._number, "files": names}
        draft = self._files.log.with_name(self._files.log.name + ".new")
        self._store(draft, json.dumps(log).encode())
        draft.rename(self._files.log)
        self._flush(self._folder)
        self._publish(names)
        if self._use.located:
            place = f"{self._use.endpoint.provider_queue}/{_owner(self._use)}@"
            self._located[sequence] = Placement([place], [[first, len(messages)]])

    def _publish(self, names: Sequence[str]) -> None:
        """Rename decided files to where readers look; those that were renamed already are left out."""
        for name in names:
            try:
                (self._files.staging / name).rename(self._folder / name)
            except FileNotFoundError:
                continue
        self._flush(self._folder)

    def _store(self, path: Path, content: bytes) -> None:
        with path.open("wb") as file:
            file.write(content)
            file.flush()
            if self._durable:
                os.fsync(file.fileno())

    def _flush(self, folder: Path) -> None:
        if self._durable:
            flush(folder)

    def confirmed(self, wait: float) -> int | None:
        """See :meth:`mgw.links.contract.Destination.confirmed`; ``publish`` returns when the batch is stored."""
        self._connection.call("confirm", lambda: None)
        if wait > 0 and self._confirmed == self._told and self._interrupted.wait(wait):
            self._interrupted.clear()
        self._told = self._confirmed
        return self._confirmed

    def stored(self, sequence: int, count: int) -> Collection[int]:
        """See :meth:`mgw.links.contract.Destination.stored`: the log says it after the next connect."""
        del sequence, count
        return ()

    def located(self, sequence: int) -> Placement | None:
        """See :meth:`mgw.links.contract.Destination.located`."""
        return self._located.pop(sequence, None)

    def interrupt(self) -> None:
        """See :meth:`mgw.links.contract.Destination.interrupt`."""
        self._interrupted.set()

    def close(self) -> None:
        """See :meth:`mgw.links.contract.Destination.close`."""
        self._connection.close()
