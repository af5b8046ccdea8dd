"""What an agent does in foreign systems for jobs that do not run; what fails is tried again.

It subscribes for one that is disabled, each on a thread of its own, and cleans up for those that are removed, on a few
threads. A link has one of these at a time, so a messaging system that does not answer holds up nothing else.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from contextlib import suppress

from mgw.gateway.aq import Hub
from mgw.gateway.definitions.foreign_end import ForeignEnd
from mgw.gateway.definitions.objects import JobDef, Snapshot, key
from mgw.gateway.observe.events import JobRemoved, Journalist
from mgw.gateway.runtime.job_setup import setup_of
from mgw.gateway.runtime.moves import positions_at
from mgw.gateway.runtime.procedures import Procedures
from mgw.gateway.state import run_state
from mgw.gateway.state.secrets import Secrets
from mgw.links import registry
from mgw.links.place import place_of
from mgw.links.pool import LinkPool
from mgw.transforms.clock import Clock
from mgw.transforms.errors import GatewayError, HubError

__all__ = ["IdleJobs"]

_LOGGER = logging.getLogger("mgw.engine")

CHORE_SECONDS = 60.0  # a removal or subscription that failed is tried again after so long, and sooner at first
END_SECONDS = 5.0  # how long a removal may still take when the agent stops, at most
REMOVERS = 4  # threads that clean up, at most


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
        self._lock = threading.Lock()  # for all below
        self._subscribed: set[int] = set()
        self._removing: dict[int, JobDef] = {}  # that wait for a thread or have one
        self._waiting: deque[JobDef] = deque()  # those of them without one, in order
        self._busy: set[str] = set()  # links at which a thread cleans up
        self._removers: list[threading.Thread] = []
        self._kept_back: dict[str, int] = {}  # jobs by name that wait until another of that name is removed
        self._released = False  # one of them may go on
        self._closed = False
        self._failed: float | None = None  # when something did, monotonic
        self._rounds = 0  # that failed, one after another

    @property
    def due(self) -> bool:
        """Whether something failed long enough ago to be tried again, or a job that was kept back need not wait."""
        with self._lock:
            wait = min(2.0**self._rounds, CHORE_SECONDS)
            failed = self._failed is not None and self._clock.monotonic() - self._failed > wait
            return failed or self._released

    def begin(self) -> None:
        """Everything is tried from now on: what fails counts from here."""
        with self._lock:
            self._rounds = 0 if self._failed is None else min(self._rounds + 1, 10)
            self._failed, self._released = None, False

    def close(self, seconds: float) -> None:
        """The agent stops: what is being removed is waited for, at most for ``seconds`` and never for long. What waits
        for a thread stays marked for removal."""
        end = self._clock.monotonic() + min(seconds, END_SECONDS)
        with self._lock:
            self._closed = True
            self._waiting.clear()
            removers = list(self._removers)
        for thread in removers:
            thread.join(max(0.0, end - self._clock.monotonic()))
        with self._lock:
            kept_back = list(self._kept_back.values())
        for job_id in kept_back:
            self._tell(job_id)

    def keeps_back(self, job: JobDef) -> bool:
        """Whether another job of that name is being removed. Both have the same names in the messaging system: what
        this one made there would be removed with it. The hub says why the job does not run."""
        name = key(job.name)
        with self._lock:
            self._drop_waiting(name, job.id)
            others = [each for each in self._removing.values() if key(each.name) == name and each.id != job.id]
            news = bool(others) and self._kept_back.get(name) != job.id
            if news:
                self._kept_back[name] = job.id
        if news:
            links = " and ".join(sorted(_links_of(others[0])))
            reason = f"it waits until what a removed job of its name left at link {links} is cleaned up"
            _LOGGER.warning("job %s does not run yet: %s", job.name, reason)
            self._tell(job.id, reason)
        return bool(others)

    def _tell(self, job_id: int, reason: str = "") -> None:
        """The hub says why a job does not run, or that nothing is in its way any more; not while it is away."""
        with suppress(HubError), self._hub.write() as conn:
            run_state.set_stop_reason(conn, job_id, reason)

    def _drop_waiting(self, name: str, job_id: int) -> None:
        """Job ``job_id`` has the name now: others that still wait for a thread are gone, removed with force."""
        for other in [each for each in self._waiting if key(each.name) == name and each.id != job_id]:
            self._waiting.remove(other)
            del self._removing[other.id]

    def subscribe(self, snapshot: Snapshot, job: JobDef) -> None:
        """A disabled topic job collects all the same: its subscription must exist (AQ guide 12.2 §17.4)."""
        if job.id in self._subscribed or not job.propagation_type.from_link or self.keeps_back(job):
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
        except Exception as error:
            with self._lock:
                self._subscribed.discard(job.id)
                self._failed = self._clock.monotonic()
            _warn("subscription of disabled job %s not created, will be tried again: %s", job, error)

    def remove(self, job: JobDef) -> None:
        """Its thread is gone; now what it left in foreign systems, then the definition."""
        with self._lock:
            if self._closed or job.id in self._removing:
                return
            self._removing[job.id] = job
            self._waiting.append(job)
            self._start_removers()

    def _start_removers(self) -> None:
        """Begin with all that wait and whose links are free, as far as there may be threads. Called with the lock."""
        while len(self._removers) < REMOVERS and (job := self._next()) is not None:
            name = f"remove-{len(self._removers)}"
            thread = threading.Thread(target=self._remove_all, args=(job,), name=name, daemon=True)
            self._removers.append(thread)
            thread.start()

    def _remove_all(self, first: JobDef) -> None:
        """Remove one after another, until those that wait need a link at which another thread cleans up: it goes on
        with them."""
        job: JobDef | None = first
        while job is not None:
            failure: Exception | None = None
            try:
                self._procedures.finish_remove_job(self._hub, self._secrets, job.name)
                self._journalist.tell(JobRemoved(job.name))
            except Exception as error:
                failure = error
                _warn("job %s is still marked for removal, will be tried again: %s", job, error)
            with self._lock:
                del self._removing[job.id]
                self._busy -= _links_of(job)
                if failure is not None:
                    self._failed = self._clock.monotonic()
                kept_back = self._kept_back.pop(key(job.name), None)
            if kept_back is not None:
                self._tell(kept_back)
            with self._lock:
                self._released = self._released or kept_back is not None
                job = self._next()
                if job is None:
                    self._removers.remove(threading.current_thread())
                self._start_removers()

    def _next(self) -> JobDef | None:
        """One that waits and whose links are free, which has them from now on. Called with the lock."""
        for job in self._waiting:
            if (links := _links_of(job)).isdisjoint(self._busy):
                self._waiting.remove(job)
                self._busy |= links
                return job
        return None


def _links_of(job: JobDef) -> set[str]:
    return {key(name) for name in (job.source_link, job.target_link) if name}


def _warn(text: str, job: JobDef, error: Exception) -> None:
    """Log what failed; where the gateway did not expect it, with the place."""
    _LOGGER.warning(text, job.name, error, exc_info=None if isinstance(error, GatewayError) else error)
