"""One agent in this process: its lease, its definitions, its job threads.

AQ guide 12.2 §19.2: an agent is one process; at most one per name. The lease on the name carries a token that only
grows; every hub transaction of a job checks it, so a process that was stalled beyond its lease can do no harm.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from mgw import __version__
from mgw.gateway.aq import Hub
from mgw.gateway.definitions.agent_options import AgentSettings, option_refusal, without_effect
from mgw.gateway.definitions.foreign_end import ForeignEnd
from mgw.gateway.definitions.objects import AgentStatus, JobDef, JobStatus, Snapshot, key
from mgw.gateway.observe.events import (
    AgentRunning,
    AgentStarting,
    AgentStopped,
    AgentStopping,
    ConfigurationChanged,
    JobFailed,
    JobRemoved,
    JobStuck,
    Journalist,
    LinkAdded,
    QueueRegistered,
)
from mgw.gateway.observe.log_file import set_level
from mgw.gateway.observe.start_events import (
    AgentIdentity,
    FilesCounted,
    FilesShort,
    JobAdded,
    NoEffect,
    PollingInterval,
    ScheduleAdded,
    WorkerThreads,
)
from mgw.gateway.runtime.connection_quota import files_needed
from mgw.gateway.runtime.engine import Engine
from mgw.gateway.runtime.fair_semaphore import Turns
from mgw.gateway.runtime.guarantee_watch import VERIFY_SECONDS
from mgw.gateway.runtime.job_runner import JobRunner
from mgw.gateway.runtime.job_setup import JobSetup, setup_of
from mgw.gateway.runtime.log_cleaning import clean_logs
from mgw.gateway.runtime.moves import positions_at
from mgw.gateway.runtime.procedures import Procedures
from mgw.gateway.runtime.pulse import ROUND_SECONDS, START_SECONDS, Pulse
from mgw.gateway.runtime.reach import Reaches
from mgw.gateway.runtime.state_dump import agent_lines
from mgw.gateway.runtime.timekeeping import events_of
from mgw.gateway.state import catalog, lease, run_state
from mgw.gateway.state.lease import Owner
from mgw.gateway.state.secrets import Secrets
from mgw.links import registry
from mgw.links.place import place_of
from mgw.links.pool import LinkPool
from mgw.transforms import open_files
from mgw.transforms.clock import Clock
from mgw.transforms.errors import GatewayError, HubError

__all__ = ["LEASE_SECONDS", "Agent"]

_LOGGER = logging.getLogger("mgw.engine")

LEASE_SECONDS = 15.0  # a dead process on another host is replaced after so long
CHORE_SECONDS = 60.0  # a removal or subscription that failed is tried again after so long
END_SECONDS = 30.0  # how long the threads of changed jobs are waited for before the rest is taken over
STUCK_SECONDS = 180.0  # a job thread that has not come round its loop for so long is reported


class Agent:
    """Runs the jobs of one agent name. Made, started and stopped by the supervisor; one use only."""

    def __init__(
        self, hub: Hub, secrets: Secrets, name: str, clock: Clock, procedures: Procedures, *, pulse: Pulse | None = None
    ) -> None:
        self.name = name
        self.error: str | None = None
        self.unrenewed: HubError | None = None  # why the lease could not be renewed last
        self.settings = AgentSettings()  # of the options, as they were when it started
        self.verify_seconds = VERIFY_SECONDS  # how often a running job's guarantee is verified
        self._hub = hub
        self._secrets = secrets
        self._clock = clock
        self._procedures = procedures
        self._pulse = pulse or Pulse(clock)
        self._renewed = float("-inf")  # monotonic
        self._runners: dict[int, JobRunner] = {}
        self._snapshot: Snapshot | None = None
        self._token = 0
        self._engine: Engine | None = None
        self._links = LinkPool()
        self._reaches = Reaches(clock, self._links)
        self._journalist = Journalist(events_of(hub, name, clock))
        self._lock = threading.Lock()
        self._files_told = 0  # the most files that were said to be needed
        self._subscribed: set[int] = set()
        self._stuck: set[int] = set()
        self._chore_failed: float | None = None
        self._leaving: set[int] = set()  # jobs whose thread did not end in time; no second one begins next to it

    # ----------------------------------------------------------------------------------------------------- life cycle

    def acquire(self, *, patience: float = 2 * LEASE_SECONDS) -> None:
        """Take the lease; waits for one of a process that may be dead on another host.

        Raises:
            GatewayError: the agent is running elsewhere, is BROKEN or does not exist.
        """
        deadline = self._clock.monotonic() + patience
        me = Owner.this_process()
        while True:
            self._pulse.beat(START_SECONDS)
            asked = self._clock.monotonic()
            with self._hub.write() as conn:
                token, wait = lease.acquire_lease(conn, self.name, me, ttl=LEASE_SECONDS, now=self._clock.now())
            if token:
                self._token, self._renewed = token, asked
                return
            if self._clock.monotonic() + min(wait, 1.0) > deadline:
                raise lease.AgentAlreadyRunning(
                    f"agent {self.name} is already running",
                    cause="a process on another host keeps renewing its lease",
                    cure="stop that process first, or run another agent with --agent",
                    number=-105,
                )
            _LOGGER.info("agent %s: waiting %.0f s for the lease of another host's process", self.name, wait)
            time.sleep(min(wait, 1.0) + 0.05)

    def start(self) -> None:
        """Load the definitions and start the jobs; the lease must be held."""
        me = Owner.this_process()
        self._journalist.tell(AgentIdentity(self.name, __version__, me.host, me.pid, self._hub.name))
        self._journalist.tell(AgentStarting(self.name, __version__))
        self._status(AgentStatus.INITIALIZING)
        snapshot = self._load()
        with self._hub.write() as conn:
            run_state.reset_counters(conn, list(snapshot.jobs))
        snapshot = self._load()
        self.settings = settings = AgentSettings.read(snapshot.agent_options)
        self._journalist.tell(WorkerThreads(self.name, snapshot.agent.max_threads))
        self._journalist.tell(PollingInterval(self.name, round(settings.poll_seconds * 1000), settings.batch_size))
        self._engine = Engine(
            self._hub,
            key(self.name),
            self._token,
            self._clock,
            Turns(snapshot.agent.max_threads),
            self._journalist,
            self._reaches,
            self._links,
            ledger=self.settings.ledger_retention > 0,
            verify_seconds=self.verify_seconds,
        )
        set_level(snapshot.log_level)
        threading.Thread(target=self._clean_logs, name="clean-logs", daemon=True).start()
        self._adopt(snapshot)
        self._status(AgentStatus.RUNNING)
        self._journalist.tell(AgentRunning(self.name, len(self._runners)))

    def _clean_logs(self) -> None:
        """Records of jobs that do not exist any more; a job that needs their place tries again meanwhile."""
        try:
            problems = clean_logs(self._hub, self._secrets, self.name, self._clock, self._links, unreadable=False)
        except GatewayError as error:
            problems = [error]
        for problem in problems:
            _LOGGER.warning("log queues not cleaned: %s", problem)

    def renew(self) -> None:
        """Renew the lease and look after the threads; called every few seconds by the supervisor.

        Raises:
            LeaseLost: another process owns the agent.
        """
        asked = self._clock.monotonic()
        try:
            with self._using_hub("writing"), self._hub.write() as conn:
                lease.renew_lease(conn, self.name, self._token, ttl=LEASE_SECONDS, now=self._clock.now())
        except HubError as error:
            self.unrenewed = error
            raise
        self._renewed, self.unrenewed = asked, None
        for job_id, runner in list(self._runners.items()):
            if runner.lost is not None:
                raise runner.lost
            if runner.alive and runner.silence > STUCK_SECONDS:
                self._report_stuck(job_id, runner)
            else:
                self._stuck.discard(job_id)

    @contextmanager
    def _using_hub(self, operation: str) -> Iterator[None]:
        """Tell the jobs that wait for the hub whether the operation is possible."""
        hub = self._reaches.hub
        try:
            yield
        except HubError as error:
            hub.told(operation, not error.retriable)
            raise
        hub.told(operation, True)

    def status(self) -> AgentStatus | None:
        """What is asked of the agent, as stored; None: there is no such agent."""
        with self._using_hub("reading"), self._hub.read() as conn:
            row = lease.agent_row(conn, self.name)
        return row.status if row is not None else None

    def _report_stuck(self, job_id: int, runner: JobRunner) -> None:
        if job_id in self._stuck:
            return
        self._stuck.add(job_id)
        runner.show_stuck()
        self._journalist.tell(JobStuck(runner.name, runner.silence, "its thread is blocked in the client library"))
        runner.interrupt()

    def refresh(self) -> None:
        """Take over changed definitions; called twice a second by the supervisor."""
        with self._using_hub("reading"), self._hub.read() as conn:
            version = catalog.change_version(conn)
        retry_chores = self._chore_failed is not None and self._clock.monotonic() - self._chore_failed > CHORE_SECONDS
        changed = self._snapshot is None or version != self._snapshot.version
        if not changed and not retry_chores and all(self._runners[job_id].alive for job_id in self._leaving):
            return
        self._chore_failed = None
        snapshot = self._load()
        if changed:
            self._journalist.tell(ConfigurationChanged(self.name, snapshot.version))
        set_level(snapshot.log_level)
        self._adopt(snapshot)

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
        self._journalist.tell(AgentStopped(self.name, error or ""))
        try:
            with self._hub.write() as conn:
                lease.release_lease(conn, self.name, self._token, status=status, error=error, now=self._clock.now())
        except HubError as failure:
            _LOGGER.warning("lease of agent %s not released, it expires by itself: %s", self.name, failure)

    # ----------------------------------------------------------------------------------------------------- definitions

    def _load(self) -> Snapshot:
        with self._hub.read() as conn:
            return catalog.load_snapshot(conn, self.name, self._secrets)

    def _adopt(self, snapshot: Snapshot) -> None:
        self._tell_new(snapshot)
        with self._lock:
            wanted = self._wanted(snapshot)
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
                self._run(snapshot.jobs[job_id], setup)
        for job in snapshot.jobs.values():
            if job.status is JobStatus.DELETE_PENDING and job.id not in self._leaving:
                self._finish_removal(job)
            elif not job.enabled:
                self._subscribe_only(snapshot, job)
        self._links.keep(link.config() for link in snapshot.links.values())
        self._snapshot = snapshot  # last: what a failing hub interrupted is taken over in the next round

    @staticmethod
    def _is_restarted(snapshot: Snapshot, runner: JobRunner) -> bool:
        """Whether a job that is connected was reset: it drains and reconnects. One that is not tries at once."""
        job = snapshot.jobs.get(runner.setup.job.id)
        return job is not None and job.resets != runner.resets and runner.connected

    def _count_files(self, wanted: Mapping[int, JobSetup]) -> None:
        needed, allowed = files_needed(sum(setup.connections for setup in wanted.values())), open_files.limit()
        if needed <= self._files_told:
            return
        self._files_told = needed
        kind = FilesShort if needed > allowed else FilesCounted
        self._journalist.tell(kind(self.name, len(wanted), needed, allowed))

    def _end(self, job_id: int, runner: JobRunner) -> None:
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
            if not job.enabled or job.status not in {JobStatus.READY, JobStatus.RETRY}:
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

    def _run(self, job: JobDef, setup: JobSetup) -> None:
        runner = self._runners.get(job.id)
        if runner is not None and runner.alive:
            if job.id not in self._leaving and job.resets != runner.resets:
                runner.reset(job.resets)
            return
        assert self._engine is not None  # noqa: S101  # start() made it
        self._runners[job.id] = JobRunner(self._engine, setup, job.resets)
        self._runners[job.id].start()

    def _subscribe_only(self, snapshot: Snapshot, job: JobDef) -> None:
        """A disabled topic job collects all the same: its subscription must exist (AQ guide 12.2 §17.4)."""
        if job.id in self._subscribed or not job.propagation_type.from_link:
            return
        registered = snapshot.foreign_queue(job.source)
        link = snapshot.links[key(job.link)]
        if registered is None or not ForeignEnd(registered, link, registry.spec(link.type)).is_topic:
            return  # a queue keeps its messages by itself
        self._subscribed.add(job.id)

        def subscribe() -> None:
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
                self._chore_failed = self._clock.monotonic()
                _LOGGER.warning("subscription of disabled job %s not created, will be tried again: %s", job.name, error)

        threading.Thread(target=subscribe, name=f"subscribe-{job.name}", daemon=True).start()

    def _finish_removal(self, job: JobDef) -> None:
        """Its thread is gone; now the subscription in the foreign system, then the definition."""
        try:
            self._procedures.finish_remove_job(self._hub, self._secrets, job.name)
        except GatewayError as error:
            self._chore_failed = self._clock.monotonic()
            _LOGGER.warning("job %s is still marked for removal, will be tried again in a minute: %s", job.name, error)
        else:
            self._journalist.tell(JobRemoved(job.name))

    def _tell_new(self, snapshot: Snapshot) -> None:
        old, tell = self._snapshot, self._journalist.tell
        if old is None or (old.agent, old.agent_options) != (snapshot.agent, snapshot.agent_options):
            options = [f"option {name}" for name in snapshot.agent_options if option_refusal(name)]
            if idle := [*without_effect(snapshot.agent), *options]:
                tell(NoEffect(self.name, ", ".join(idle)))
        for name, link in snapshot.links.items():
            if old is None or name not in old.links:
                tell(LinkAdded(link.name, link.type))
        for names, queue in snapshot.queues.items():
            if old is None or names not in old.queues:
                tell(QueueRegistered(f"{queue.name}@{queue.link}", queue.provider_queue))
        for job in snapshot.jobs.values():
            if old is None or job.id not in old.jobs:
                seconds = self.settings.applied(job).poll_seconds
                tell(ScheduleAdded(job.name, job.source, job.destination, seconds))
                tell(JobAdded(job.name, job.propagation_type, job.link, job.enabled, job.status))

    # ----------------------------------------------------------------------------------------------------------- rest

    def _status(self, status: AgentStatus) -> None:
        with self._hub.write() as conn:
            lease.set_agent_status(conn, self.name, self._token, status)

    @property
    def lease_left(self) -> float:
        """Seconds until the lease ends unless it is renewed; 0 when it has ended."""
        return max(0.0, self._renewed + LEASE_SECONDS - self._clock.monotonic())

    @property
    def version(self) -> int | None:
        """Version of the definitions that it runs by; None until they are loaded."""
        return None if self._snapshot is None else self._snapshot.version

    def troubles(self) -> dict[str, tuple[float, str]]:
        """(since when, last error) of each job that fails, by its name in upper case."""
        found = [(runner.name, runner.trouble) for runner in list(self._runners.values())]
        return {key(name): trouble for name, trouble in found if trouble is not None}

    def state(self) -> list[str]:
        """What it does, in lines for the log; the hub is not asked."""
        head = f"lease for {self.lease_left:.0f} s, definitions of version {self.version}"
        return [head, *agent_lines(self._snapshot, self._engine, list(self._runners.values()))]
