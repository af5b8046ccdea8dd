"""A job that runs in a worker, as the agent sees it: like one of its own threads."""

from __future__ import annotations

import threading
from typing import Protocol

from mgw.gateway.runtime.job_setup import JobSetup

__all__ = ["RemoteJob", "Worker"]


class Worker(Protocol):
    """What a job needs of the workers' pool."""

    def begin(self, job: RemoteJob) -> None:
        """Have the job run in its worker, also in those that take its place."""
        ...

    def stop(self, job: RemoteJob) -> None:
        """Have the job finish its batch and end."""
        ...

    def reset(self, job: RemoteJob) -> None:
        """RESET_JOB was called for a job that is not connected."""
        ...


class RemoteJob:
    """See :class:`mgw.gateway.runtime.job_runner.JobRunner`, whose part it plays.

    Attributes:
        number: of its worker.
        version: of the definitions that ``setup`` is part of.
        stopping: it was asked to end.
        connected, trouble: as its worker reported last.
    """

    def __init__(self, pool: Worker, number: int, setup: JobSetup, version: int, resets: int) -> None:
        self.number = number
        self.setup = setup
        self.version = version
        self.resets = resets
        self.stopping = False
        self.connected = False
        self.trouble: tuple[float, str, str] | None = None
        self._pool = pool
        self._over = threading.Event()

    @property
    def name(self) -> str:
        """Name of the job."""
        return self.setup.job.name

    @property
    def alive(self) -> bool:
        """Whether it runs, or will when its worker has been replaced."""
        return not self._over.is_set()

    def start(self) -> None:
        """Have it run."""
        self._pool.begin(self)

    def request_stop(self) -> None:
        """Ask it to finish its batch and end."""
        self.stopping = True
        self._pool.stop(self)

    def join(self, timeout: float) -> bool:
        """Wait for the end; False when it did not come in time."""
        return self._over.wait(timeout)

    def reset(self, resets: int) -> None:
        """Failures are forgotten, the next attempt is now."""
        self.resets = resets
        self._pool.reset(self)

    def ended(self) -> None:
        """Its worker has let it go, or can do no more harm."""
        self._over.set()
