"""One agent in this process: its lease, its definitions, its job threads.

AQ guide 12.2 §19.2: an agent is one process; at most one per name. The lease on the name carries a token that only
grows; every hub transaction of a job checks it, so a process that was stalled beyond its lease can do no harm.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager

from mgw import __version__
from mgw.gateway.aq import Hub
from mgw.gateway.definitions.agent_options import AgentSettings
from mgw.gateway.definitions.objects import AgentDef, AgentStatus, JobDef, JobStatus, LinkDef, Snapshot, key
from mgw.gateway.observe.events import (
    AgentRunning,
    AgentStarting,
    AgentStopped,
    AgentStopping,
    ConfigurationChanged,
    JobFailed,
    Journalist,
)
from mgw.gateway.observe.log_file import set_level
from mgw.gateway.observe.measures import Measured, Measures, merged
from mgw.gateway.observe.start_events import (
    AgentIdentity,
    PollingInterval,
    WorkerThreads,
)
from mgw.gateway.runtime.agent_lease import LEASE_SECONDS, AgentLease
from mgw.gateway.runtime.announcements import Announcements
from mgw.gateway.runtime.engine import Engine
from mgw.gateway.runtime.fair_semaphore import Turns
from mgw.gateway.runtime.guarantee_watch import VERIFY_SECONDS
from mgw.gateway.runtime.idle_jobs import IdleJobs
from mgw.gateway.runtime.job_runner import JobRunner
from mgw.gateway.runtime.job_setup import JobSetup, setup_of
from mgw.gateway.runtime.log_cleaning import clean_logs
from mgw.gateway.runtime.procedures import Procedures
from mgw.gateway.runtime.pulse import ROUND_SECONDS, Pulse
from mgw.gateway.runtime.reach import Reaches
from mgw.gateway.runtime.state_dump import agent_lines
from mgw.gateway.runtime.stuck import StuckWatch
from mgw.gateway.runtime.taps import Taps
from mgw.gateway.runtime.timekeeping import events_of
from mgw.gateway.runtime.windows import Windows
from mgw.gateway.runtime.workers.pool import Order, Pool
from mgw.gateway.runtime.workers.remote import RemoteJob
from mgw.gateway.state import catalog, lease, run_state
from mgw.gateway.state.lease import Owner
from mgw.gateway.state.secrets import Secrets
from mgw.links.pool import LinkPool
from mgw.transforms.clock import Clock
from mgw.transforms.errors import ConfigInvalid, GatewayError, HubError

__all__ = ["Agent"]

_LOGGER = logging.getLogger("mgw.engine")

END_SECONDS = 30.0  # how long the threads of changed jobs are waited for before the rest is taken over


class Agent:
    """Runs the jobs of one agent name. Made, started and stopped by the supervisor; one use only.

    Args:
        hub_url: where worker processes find the hub; empty: there are none, whatever the agent's option says.
        nudge: called when :meth:`refresh` has something to do.
        defaults: options of its initialization file, for those that it does not have in the hub.
    """

    def __init__(
        self,
        hub: Hub,
        secrets: Secrets,
        name: str,
        clock: Clock,
        procedures: Procedures,
        *,
        pulse: Pulse | None = None,
        hub_url: str = "",
        nudge: Callable[[], object] = lambda: None,
        defaults: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.error: str | None = None
        self.settings = AgentSettings()  # of the options, as they were when it started
        self.verify_seconds = VERIFY_SECONDS  # how often a running job's guarantee is verified
        self._hub = hub
        self._secrets = secrets
        self._clock = clock
        self._pulse = pulse or Pulse(clock)
        self._lease = AgentLease(hub, name, clock, self._pulse)
        self._hub_url = hub_url
        self._nudge = nudge
        self._defaults = {name.lower(): value for name, value in (defaults or {}).items()}
        self._pool: Pool | None = None  # of workers; None: the jobs run in this process
        self._refusals = 0  # of jobs by workers, that were seen to
        self._runners: dict[int, JobRunner | RemoteJob] = {}
        self._snapshot: Snapshot | None = None
        self._interrupted = False  # the last take-over failed half-way: the next round repeats it
        self._told_keys: tuple[str, ...] | None = None
        self._engine: Engine | None = None
        self._links = LinkPool()
        self._reaches = Reaches(clock, self._links)
        self._journalist = Journalist(events_of(hub, name, clock))
        self._lock = threading.Lock()
        self._announcements = Announcements(name, self._journalist)
        self._idle_jobs = IdleJobs(hub, secrets, clock, procedures, self._links, self._journalist)
        self._stuck = StuckWatch(self._journalist)
        self._taps = Taps(hub, secrets, clock)
        self._measures = Measures()
        self._windows = Windows(hub)
        self._leaving: set[int] = set()  # jobs whose thread did not end in time; no second one begins next to it

    # ----------------------------------------------------------------------------------------------------- life cycle

    def acquire(self, *, patience: float = 2 * LEASE_SECONDS, silent: float | None = None, log_level: int = 0) -> None:
        """Take the lease; waits for one of a process that may be dead on another host.

        Args:
            silent, log_level: see :func:`mgw.gateway.state.lease.acquire_lease`.

        Raises:
            GatewayError: the agent is running elsewhere, is BROKEN or does not exist.
        """
        self._lease.acquire(patience, silent=silent, log_level=log_level)

    def start(self) -> None:
        """Load the definitions and start the jobs; the lease must be held."""
        me = Owner.this_process()
        self._journalist.tell(AgentIdentity(self.name, __version__, me.host, me.pid, self._hub.name))
        self._journalist.tell(AgentStarting(self.name, __version__))
        self._lease.show(AgentStatus.INITIALIZING)
        snapshot = self._load()
        with self._hub.write() as conn:
            run_state.reset_counters(conn, list(snapshot.jobs))
        snapshot = self._load()
        self.settings = settings = AgentSettings.read(snapshot.agent_options, self._defaults)
        self._journalist.tell(WorkerThreads(self.name, snapshot.agent.max_threads))
        self._journalist.tell(PollingInterval(self.name, round(settings.poll_seconds * 1000), settings.batch_size))
        if self._hub_url and settings.processes > 1:
            self._pool = self._new_pool(settings.processes)
        self._engine = Engine(
            self._hub,
            key(self.name),
            self._lease.token,
            self._clock,
            Turns(snapshot.agent.max_threads),
            self._journalist,
            self._reaches,
            self._links,
            ledger=self.settings.ledger_retention > 0,
            verify_seconds=self.verify_seconds,
            measures=self._measures,
        )
        set_level(snapshot.log_level)
        threading.Thread(target=self._clean_logs, name="clean-logs", daemon=True).start()
        self._adopt(snapshot)
        self._lease.show(AgentStatus.RUNNING)
        self._journalist.tell(AgentRunning(self.name, len(self._runners)))

    def _new_pool(self, count: int) -> Pool:
        order = Order(
            self.name,
            self._lease.token,
            count,
            self._hub_url,
            self._hub.durability,
            self.verify_seconds,
            self._defaults,
        )
        pool = Pool(self._hub, order, self._journalist, self._clock, self._nudge)
        pool.start()
        return pool

    def _clean_logs(self) -> None:
        """Records of jobs that do not exist any more; a job that needs their place tries again meanwhile."""
        try:
            problems = clean_logs(self._hub, self._secrets, self.name, self._clock, self._links, unreadable=False)
        except GatewayError as error:
            problems = [error]
        for problem in problems:
            _LOGGER.warning("log queues not cleaned: %s", problem)

    def tell_keys(self) -> None:
        """Say which keys it can read secrets with: whoever changes the key waits until every agent knows the new one.

        Reads a file, which may take as long as it does: the thread that renews the lease must not call this.

        Raises:
            HubError: the database refused.
        """
        try:
            keys = self._secrets.key_ids()
        except ConfigInvalid:  # whoever needs a secret says so
            keys = ()
        if keys != self._told_keys:
            with self._hub.write() as conn:
                lease.tell_keys(conn, self.name, self._lease.token, keys)
            self._told_keys = keys

    def renew(self) -> None:
        """Renew the lease and look after the threads; called every few seconds by the supervisor.

        Raises:
            LeaseLost: another process owns the agent.
        """
        begun = self._clock.monotonic()
        with self._using_hub("writing"):
            self._lease.renew()
        self._measures.transaction("lease", self._clock.monotonic() - begun)
        if self._pool is not None and self._pool.lost is not None:
            raise self._pool.lost
        if self._engine is not None:
            self._stuck.look(self._threads, self._engine)

    @property
    def _threads(self) -> dict[int, JobRunner]:
        """The jobs that run in this process."""
        return {job_id: runner for job_id, runner in list(self._runners.items()) if isinstance(runner, JobRunner)}

    @contextmanager
    def _using_hub(self, operation: str) -> Iterator[None]:
        """Tell the jobs that wait for the hub whether the operation is possible."""
        try:
            yield
        except HubError as error:
            self._tell_hub(operation, not error.retriable)
            raise
        self._tell_hub(operation, True)

    def _tell_hub(self, operation: str, works: bool) -> None:
        self._reaches.hub.told(operation, works)
        if self._pool is not None:
            self._pool.tell_hub(operation, works)

    def status(self) -> AgentStatus | None:
        """What is asked of the agent, as stored; None: there is no such agent."""
        with self._using_hub("reading"), self._hub.read() as conn:
            row = lease.agent_row(conn, self.name)
        return row.status if row is not None else None

    @property
    def links(self) -> Mapping[str, LinkDef]:
        """Its links as they are in force, by their names in capitals."""
        snapshot = self._snapshot
        return {} if snapshot is None else snapshot.links

    def refresh(self) -> None:
        """Take over changed definitions; called twice a second by the supervisor."""
        with self._using_hub("reading"), self._hub.read() as conn:
            version = catalog.change_version(conn)
        retry_chores = self._interrupted or self._idle_jobs.due or self._windows.due(self._clock.now())
        changed = self._snapshot is None or version != self._snapshot.version
        refused = self._pool is not None and self._pool.refusals != self._refusals
        if not (changed or retry_chores or refused) and all(self._runners[job_id].alive for job_id in self._leaving):
            return
        self._interrupted = True  # unless nothing fails below: what was due is forgotten from here
        self._idle_jobs.begin()
        snapshot = self._load()
        if changed:
            self._journalist.tell(ConfigurationChanged(self.name, snapshot.version))
        set_level(snapshot.log_level)
        self._adopt(snapshot)
        self._interrupted = False

    def stop(self, *, seconds: float, status: AgentStatus, error: str | None = None) -> None:
        """Drain the jobs within ``seconds`` and give the lease up with ``status``."""
        self._journalist.tell(AgentStopping(self.name))
        with self._lock:
            runners = list(self._runners.values())
            for runner in runners:
                runner.request_stop()
            deadline = self._clock.monotonic() + seconds
            for runner in runners:
                if not runner.join(max(0.1, deadline - self._clock.monotonic())):
                    _LOGGER.warning("job %s did not stop in time; its unfinished batch will be repeated", runner.name)
            self._runners.clear()
            self._leaving.clear()
        self._idle_jobs.close(deadline - self._clock.monotonic())
        self._taps.close()
        if self._pool is not None:
            self._pool.close()
        self._journalist.tell(AgentStopped(self.name, error or ""))
        self._lease.release(status, error)

    # ----------------------------------------------------------------------------------------------------- definitions

    def _load(self) -> Snapshot:
        snapshot = self._read()
        now = self._clock.now()
        if self._windows.move(snapshot.jobs.values(), key(self.name), self._lease.token, now):
            snapshot = self._read()
        return snapshot

    def _read(self) -> Snapshot:
        with self._hub.read() as conn:
            return catalog.load_snapshot(conn, self.name, self._secrets)

    def _adopt(self, snapshot: Snapshot) -> None:
        self._announcements.tell_new(self._snapshot, snapshot, self.settings)
        refusals = 0 if self._pool is None else self._pool.refusals
        with self._lock:
            wanted = self._wanted(snapshot)
            if self._pool is not None:
                self._pool.place(wanted)
            self._count_files(wanted)
            ending = {
                job_id: runner
                for job_id, runner in self._runners.items()
                if job_id in self._leaving or wanted.get(job_id) != runner.setup or self._is_restarted(snapshot, runner)
            }
            for runner in ending.values():
                runner.request_stop()
            for job_id, runner in ending.items():
                self._end(job_id, runner)
            for job_id, setup in wanted.items():
                self._run(snapshot, snapshot.jobs[job_id], setup)
            if self._pool is not None:
                jobs = {job_id: job for job_id, job in self._runners.items() if isinstance(job, RemoteJob)}
                self._pool.know(snapshot.version, jobs, snapshot.log_level)
            self._taps.look(self._threads)
        self._see_to_idle(snapshot, ending)
        self._links.keep(link.config() for link in snapshot.links.values())
        self._measures.keep(snapshot.jobs)
        if self._pool is not None:
            self._pool.keep(snapshot.jobs)
        self._refusals = refusals
        # Last: what a failing hub interrupted is taken over in the next round.
        self._snapshot = snapshot
        self._windows.keep(snapshot.jobs.values())

    def _see_to_idle(self, snapshot: Snapshot, ended: Container[int]) -> None:
        """Jobs that do not run: those that are being removed, disabled, or outside of their windows."""
        for job in snapshot.jobs.values():
            if job.status.leaving and job.id not in self._leaving:
                self._idle_jobs.remove(job)
            elif not job.enabled:
                self._idle_jobs.subscribe(snapshot, job)
            elif job.outbound is not None and job.id not in self._runners:
                self._windows.rest(job, job.id in ended, key(self.name), self._lease.token)

    @staticmethod
    def _is_restarted(snapshot: Snapshot, runner: JobRunner | RemoteJob) -> bool:
        """Whether a job that is connected was reset: it drains and reconnects. One that is not tries at once."""
        job = snapshot.jobs.get(runner.setup.job.id)
        return job is not None and job.resets != runner.resets and runner.connected

    def _count_files(self, wanted: Mapping[int, JobSetup]) -> None:
        held = sum(setup.connections for setup in wanted.values()) if self._pool is None else self._pool.most(wanted)
        self._announcements.count_files(wanted, held)

    def _end(self, job_id: int, runner: JobRunner | RemoteJob) -> None:
        self._pulse.beat(END_SECONDS + ROUND_SECONDS)
        if runner.join(0.0 if job_id in self._leaving else END_SECONDS):
            self._leaving.discard(job_id)
            del self._runners[job_id]
        elif job_id not in self._leaving:
            self._leaving.add(job_id)
            _LOGGER.warning("job %s does not stop; its change takes effect when its thread has ended", runner.name)

    def _wanted(self, snapshot: Snapshot) -> Mapping[int, JobSetup]:
        wanted = {}
        for job in snapshot.jobs.values():
            if not job.is_due(self._clock.now()) or job.status not in {JobStatus.READY, JobStatus.RETRY}:
                continue
            if self._idle_jobs.keeps_back(job):
                continue
            try:
                wanted[job.id] = setup_of(snapshot, self.settings.applied(job), self._hub.hub_id, self._clock)
            except GatewayError as error:
                self._refuse(job, error)
        return wanted

    def _refuse(self, job: JobDef, error: GatewayError) -> None:
        """A job whose definitions do not hold together cannot run until somebody corrects them."""
        with self._hub.write() as conn:
            run_state.record_failure(
                conn,
                job.id,
                status=JobStatus.FAILED,
                failures=1,
                error=str(error),
                now=self._clock.now(),
                retry_at=None,
            )
        self._journalist.tell(JobFailed(job.name, 1, str(error)))

    def _run(self, snapshot: Snapshot, job: JobDef, setup: JobSetup) -> None:
        runner = self._runners.get(job.id)
        if runner is not None and runner.alive:
            if job.id not in self._leaving and job.resets != runner.resets:
                runner.reset(job.resets)
            return
        if self._pool is not None:
            runner = self._pool.runner(setup, snapshot.version, job.resets)
        else:
            assert self._engine is not None  # noqa: S101  # start() made it
            runner = JobRunner(self._engine, setup, job.resets)
            self._taps.begin(runner)
        self._runners[job.id] = runner
        runner.start()

    # ----------------------------------------------------------------------------------------------------------- rest

    @property
    def definition(self) -> AgentDef | None:
        """How it is defined; None until that is loaded."""
        return None if self._snapshot is None else self._snapshot.agent

    @property
    def lease_left(self) -> float:
        """Seconds until the lease ends unless it is renewed; 0 when it has ended."""
        return self._lease.left

    @property
    def unrenewed(self) -> HubError | None:
        """Why the lease could not be renewed last."""
        return self._lease.unrenewed

    @property
    def version(self) -> int | None:
        """Version of the definitions that it runs by; None until they are loaded."""
        return None if self._snapshot is None else self._snapshot.version

    @property
    def worker_restarts(self) -> Mapping[int, int]:
        """How often each worker process had to be replaced, by number; empty where there are none."""
        return {} if self._pool is None else self._pool.restarts

    def measured(self) -> Measured:
        """What its jobs measured since it was started, in this process and in its workers."""
        snapshot = self._snapshot
        if snapshot is None:
            return Measured()
        told = self._measures.told()
        if self._pool is not None:
            told = merged([told, self._pool.told()])
        jobs = {job.id: (key(job.name), job.propagation_type.lower()) for job in snapshot.jobs.values()}
        return Measured.of(told, jobs, [key(link.name) for link in snapshot.links.values()])

    def troubles(self) -> dict[str, tuple[float, str, str]]:
        """(since when, last error, word for its state) of each job that fails, by its name in upper case."""
        found = [(runner.name, runner.trouble) for runner in list(self._runners.values())]
        return {key(name): trouble for name, trouble in found if trouble is not None}

    def state(self) -> list[str]:
        """What it does, in lines for the log; the hub is not asked."""
        head = f"lease for {self.lease_left:.0f} s, definitions of version {self.version}"
        if self._pool is not None:
            return [head, *self._pool.state()]
        return [head, *agent_lines(self._snapshot, self._engine, list(self._threads.values()))]
