"""Jobs that are drained while nobody waits for it."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field

from mgw.gateway.aq import Hub
from mgw.gateway.services import lookup
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.services.authors import same_author
from mgw.gateway.services.job_verbs import drain
from mgw.transforms.errors import GatewayError

__all__ = ["Drains"]

_LOGGER = logging.getLogger("mgw.admin")


@dataclass(slots=True)
class _Drain:
    given_up: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)
    error: GatewayError | None = None


class Drains:
    """The drains of one process; those that are under way end with it, and leave their jobs enabled."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._mutex = threading.Lock()
        self._under_way: dict[str, _Drain] = {}

    def begin(self, name: str, timeout: float, *, wait: float) -> str:
        """Drain a job as :func:`mgw.gateway.services.job_verbs.drain` does, unless that is under way; the job's name.

        Args:
            timeout: seconds after which it is paused in any case.
            wait: seconds for which to wait here; after that it goes on by itself.

        Raises:
            NotFound: there is not a job of that name.
            AdminError: the job is marked for removal.
        """
        job = lookup.job(GatewayAdmin(self._hub), name).name
        with self._mutex:
            found = self._under_way.get(job.upper())
            if found is None:
                found = self._under_way[job.upper()] = _Drain()
                same_author(self._run, job, timeout, found, name="drain").start()
        if found.over.wait(wait) and found.error is not None:
            raise found.error
        return job

    def give_up(self, name: str) -> None:
        """End the drain of a job, and leave the job as it is."""
        with self._mutex:
            found = self._under_way.get(name.upper())
        if found is not None:
            found.given_up.set()
            found.over.wait(1.0)

    def _run(self, job: str, timeout: float, this: _Drain) -> None:
        try:
            drain(GatewayAdmin(self._hub), job, timeout, this.given_up)
        except GatewayError as error:
            this.error = error
            _LOGGER.warning("job %s was not drained: %s", job, error)
        finally:
            with self._mutex:
                del self._under_way[job.upper()]
            this.over.set()
