"""What an agent does in foreign systems for jobs that do not run; what fails is tried again.

It subscribes for one that is disabled, and cleans up for one that is removed. Each has a thread of its own: a messaging
system that does not answer holds up nothing else.
"""

from __future__ import annotations

import logging
import threading

from mgw.gateway.aq import Hub
from mgw.gateway.definitions.foreign_end import ForeignEnd
from mgw.gateway.definitions.objects import JobDef, Snapshot, key
from mgw.gateway.observe.events import JobRemoved, Journalist
from mgw.gateway.runtime.job_setup import setup_of
from mgw.gateway.runtime.moves import positions_at
from mgw.gateway.runtime.procedures import Procedures
from mgw.gateway.state.secrets import Secrets
from mgw.links import registry
from mgw.links.place import place_of
from mgw.links.pool import LinkPool
from mgw.transforms.clock import Clock
from mgw.transforms.errors import GatewayError

__all__ = ["IdleJobs"]

_LOGGER = logging.getLogger("mgw.engine")

CHORE_SECONDS = 60.0  # a removal or subscription that failed is tried again after so long, and sooner at first
END_SECONDS = 5.0  # how long a removal may still take when the agent stops


class IdleJobs:
    """Of one agent."""

    def __init__(  # noqa: PLR0917
        self,
        hub: Hub,
        secrets: Secrets,
        clock: Clock,
        procedures: Procedures,
        links: LinkPool,
        journalist: Journalist,
    ) -> None:
        self._hub = hub
        self._secrets = secrets
        self._clock = clock
        self._procedures = procedures
        self._links = links
        self._journalist = journalist
        self._subscribed: set[int] = set()
        self._removing: dict[int, threading.Thread] = {}
        self._failed: float | None = None  # when something did, monotonic
        self._rounds = 0  # that failed, one after another

    @property
    def due(self) -> bool:
        """Whether something failed long enough ago to be tried again."""
        wait = min(2.0**self._rounds, CHORE_SECONDS)
        return self._failed is not None and self._clock.monotonic() - self._failed > wait

    def begin(self) -> None:
        """Everything is tried from now on: what fails counts from here."""
        self._rounds = 0 if self._failed is None else min(self._rounds + 1, 10)
        self._failed = None

    def close(self) -> None:
        """The agent stops: what is being removed is waited for, but not for long."""
        end = self._clock.monotonic() + END_SECONDS
        for thread in list(self._removing.values()):
            thread.join(max(0.0, end - self._clock.monotonic()))

    def subscribe(self, snapshot: Snapshot, job: JobDef) -> None:
        """A disabled topic job collects all the same: its subscription must exist (AQ guide 12.2 §17.4)."""
        if job.id in self._subscribed or not job.propagation_type.from_link:
            return
        registered = snapshot.foreign_queue(job.source)
        link = snapshot.links[key(job.link)]
        if registered is None or not ForeignEnd(registered, link, registry.spec(link.type)).is_topic:
            return  # a queue keeps its messages by itself
        self._subscribed.add(job.id)
        thread = threading.Thread(
            target=self._subscribe, args=(snapshot, job), name=f"subscribe-{job.name}", daemon=True
        )
        thread.start()

    def _subscribe(self, snapshot: Snapshot, job: JobDef) -> None:
        try:
            setup = setup_of(snapshot, job, self._hub.hub_id, self._clock)
            end = setup.source
            assert end is not None  # noqa: S101  it reads from a link
            link = self._links.link(end.link)
            place, source = place_of(link, end.use, end.direction), link.source(end.use)
            try:
                with self._hub.read() as conn:
                    positions = positions_at(conn, job.id, place)
                source.connect(positions)
            finally:
                source.close()
        except GatewayError as error:
            self._subscribed.discard(job.id)
            self._failed = self._clock.monotonic()
            _LOGGER.warning("subscription of disabled job %s not created, will be tried again: %s", job.name, error)

    def remove(self, job: JobDef) -> None:
        """Its thread is gone; now what it left in foreign systems, then the definition."""
        if job.id not in self._removing:
            self._removing[job.id] = thread = threading.Thread(
                target=self._remove, args=(job,), name=f"remove-{job.name}", daemon=True
            )
            thread.start()

    def _remove(self, job: JobDef) -> None:
        try:
            self._procedures.finish_remove_job(self._hub, self._secrets, job.name)
        except GatewayError as error:
            self._failed = self._clock.monotonic()
            _LOGGER.warning("job %s is still marked for removal, will be tried again: %s", job.name, error)
        else:
            self._journalist.tell(JobRemoved(job.name))
        finally:
            del self._removing[job.id]
