"""What an agent reports about itself when it starts: the documented numbers of the log's beginning."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import ClassVar

from mgw.gateway.observe.events import Event

__all__ = [
    "AgentIdentity",
    "FilesCounted",
    "FilesShort",
    "JobAdded",
    "NoEffect",
    "PollingInterval",
    "ScheduleAdded",
    "WorkerThreads",
]


@dataclass(frozen=True, slots=True)
class AgentIdentity(Event):
    """Who writes this log."""

    id: ClassVar[int | None] = 200
    stored: ClassVar[bool] = False
    version: str
    host: str
    process: int
    hub: str

    def text(self) -> str:
        """The words for it."""
        return f"mgw {self.version}, agent {self.object}, process {self.process} on {self.host}, hub {self.hub}"


@dataclass(frozen=True, slots=True)
class WorkerThreads(Event):
    """How many jobs of the agent may work at the same time."""

    id: ClassVar[int | None] = 23
    stored: ClassVar[bool] = False
    number: int

    def text(self) -> str:
        """The words for it."""
        return f"agent {self.object}: {self.number} worker threads"


@dataclass(frozen=True, slots=True)
class PollingInterval(Event):
    """The defaults of jobs that say nothing else."""

    id: ClassVar[int | None] = 22
    stored: ClassVar[bool] = False
    milliseconds: int
    batch_size: int

    def text(self) -> str:
        """The words for it."""
        return (
            f"agent {self.object}: default polling interval {self.milliseconds} ms, "
            f"default batch size {self.batch_size} messages"
        )


@dataclass(frozen=True, slots=True)
class NoEffect(Event):
    """Something of the agent is stored that means nothing."""

    level: ClassVar[int] = logging.WARNING
    stored: ClassVar[bool] = False
    names: str

    def text(self) -> str:
        """The words for it."""
        return f"agent {self.object}: {self.names} stored, has no effect"


@dataclass(frozen=True, slots=True)
class ScheduleAdded(Event):
    """The way of a job was loaded."""

    id: ClassVar[int | None] = 9
    stored: ClassVar[bool] = False
    source: str
    destination: str
    seconds: float

    def text(self) -> str:
        """The words for it."""
        return f"schedule {self.object} added: {self.source} --> {self.destination}, poll interval {self.seconds:g} s"


@dataclass(frozen=True, slots=True)
class JobAdded(Event):
    """A job was loaded."""

    id: ClassVar[int | None] = 14
    stored: ClassVar[bool] = False
    type: str
    link: str
    enabled: bool
    status: str

    def text(self) -> str:
        """The words for it."""
        state = self.status if self.enabled else f"{self.status}, disabled"
        return f"job {self.object} added: {self.type}, link {self.link}, {state}"


@dataclass(frozen=True, slots=True)
class FilesCounted(Event):
    """How many files the jobs of the agent need open, and how many it may have."""

    stored: ClassVar[bool] = False
    jobs: int
    needed: int
    limit: int

    def text(self) -> str:
        """The words for it."""
        return f"agent {self.object}: {self.jobs} jobs need about {self.needed} open files, {self.limit} are allowed"


@dataclass(frozen=True, slots=True)
class FilesShort(Event):
    """The limit of open files is too low for the jobs of the agent."""

    level: ClassVar[int] = logging.WARNING
    jobs: int
    needed: int
    limit: int

    def text(self) -> str:
        """The words for it."""
        return (
            f"agent {self.object}: its {self.jobs} jobs need about {self.needed} open files and connections, but this "
            f"process may have {self.limit}; some jobs may fail to connect; cure: raise the hard limit (LimitNOFILE= "
            "of systemd, --ulimit nofile= of a container, ulimit -Hn), or give some of the links to another agent"
        )
