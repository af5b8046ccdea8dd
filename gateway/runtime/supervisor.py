"""The daemon: starts and stops the agent as its status asks, runs the chores, obeys signals.

Its periodic chores are called by :mod:`mgw.gateway.runtime.chores`; what they delete and merge is in
:mod:`mgw.gateway.runtime.pruning`.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple

from mgw import __version__
from mgw.gateway.aq import Hub
from mgw.gateway.definitions.init_file import InitFile
from mgw.gateway.definitions.objects import AgentStatus, LinkDef, key
from mgw.gateway.observe.events import ConfigurationRefused, Journalist
from mgw.gateway.observe.levels import TRACE_LITE
from mgw.gateway.observe.repeated_warning import Complaint
from mgw.gateway.runtime.agent import Agent
from mgw.gateway.runtime.agent_lease import LEASE_SECONDS
from mgw.gateway.runtime.beginning import RunOptions
from mgw.gateway.runtime.certificates import CertificateWatch
from mgw.gateway.runtime.chores import Chores
from mgw.gateway.runtime.endings import Ending, ending_of
from mgw.gateway.runtime.job_history import LOOK_SECONDS, JobHistory
from mgw.gateway.runtime.lease_guard import LeaseGuard
from mgw.gateway.runtime.memory_watch import WATCH_SECONDS, MemoryWatch
from mgw.gateway.runtime.procedures import Procedures
from mgw.gateway.runtime.pruning import Pruning
from mgw.gateway.runtime.pulse import START_SECONDS, Pulse
from mgw.gateway.runtime.secret_files import SecretFiles
from mgw.gateway.runtime.service_manager import ServiceManager
from mgw.gateway.runtime.standby import Standby, Turn
from mgw.gateway.runtime.start_heap import StartHeap
from mgw.gateway.runtime.start_job import StartJob
from mgw.gateway.runtime.timekeeping import Timekeeper, events_of
from mgw.gateway.state import lease
from mgw.gateway.state.secrets import Secrets
from mgw.transforms.clock import SYSTEM_CLOCK, Clock
from mgw.transforms.errors import GatewayError, HubError, HubMoved, HubUnavailable, LeaseLost
from mgw.transforms.open_files import in_use, limit

__all__ = ["RunOptions", "Supervisor"]

_LOGGER = logging.getLogger("mgw.engine")

POLL_SECONDS = 0.5  # how soon changed definitions and status requests are seen
TIME_MANAGER_SECONDS = 1.0
PREPARE_SECONDS = 5.0  # between two attempts to prepare links whose brokers were not there
PRUNE_SECONDS = 3600.0
SECRET_FILE_SECONDS = 1.0  # how soon a renewed password file is seen
CERTIFICATE_SECONDS = 5.0  # between two looks whether there are links whose certificates were not looked at for an hour
MERGE_SECONDS = 10.0  # how often records of small batches are merged


class Supervisor:
    """Keeps one agent as its status in the hub asks: START_SCHEDULED starts it, SHUTTING_DOWN stops it."""

    def __init__(
        self,
        hub: Hub,
        secrets: Secrets,
        options: RunOptions,
        procedures: Procedures,
        clock: Clock = SYSTEM_CLOCK,
        *,
        init_file: InitFile | None = None,
    ) -> None:
        self._hub = hub
        self._secrets = secrets
        self._options = options
        self._procedures = procedures
        self._clock = clock
        self._agent: Agent | None = None
        self._stop = threading.Event()
        self._reload = threading.Event()
        self._nudge = threading.Event()
        self._lost: LeaseLost | None = None
        self._starting = False  # a start failed and is repeated
        self._init_file = init_file or InitFile()
        self._complaint = ""
        self._away = Complaint(clock, _LOGGER)  # of the hub
        self._journalist = Journalist(events_of(hub, options.agent, clock))
        self._timekeeper = Timekeeper(hub, self._journalist, clock)
        self._pruning = Pruning(hub, key(options.agent), clock, self._stop)
        self._history = JobHistory(hub, key(options.agent), clock)
        self._manager = ServiceManager(os.environ, clock)
        self.pulse = Pulse(clock, self._manager)
        self._certificates = CertificateWatch(hub, self._links, self._journalist, clock)
        self._secret_files = SecretFiles(lambda: procedures.read_files(options.config_files), self.request_reload)
        self._prepared: set[str] | None = set() if options.config_files else None  # links; None: all that ask for it
        self._unprepared = Complaint(clock, _LOGGER)
        self.applied: Counter[str] = Counter()  # files read again: ok, they changed nothing; refused
        self.heap = StartHeap()
        self.exit_code = 0
        self.fenced = False  # another process took the agent over
        self._standby = Standby(hub, options.agent, clock)
        self._memory = MemoryWatch()
        self._guard = LeaseGuard(lambda: self._agent)
        self._start_job = StartJob(options.agent, self._nudge.set)
        self._ending = Ending(AgentStatus.START_SCHEDULED if options.standby else AgentStatus.NOT_STARTED)

    @property
    def agent(self) -> Agent | None:
        """The agent, while it is started."""
        return self._agent

    @property
    def agent_name(self) -> str:
        """Name of the agent, in upper case."""
        return key(self._options.agent)

    @property
    def waits_for(self) -> str:
        """Why this process is on standby; empty: it is not."""
        return self._standby.waits_for

    @property
    def refused(self) -> str:
        """Why changed definitions are not in force; empty: they are."""
        return self._complaint

    def request_stop(self) -> None:
        """Drain and end."""
        self._stop.set()
        self._nudge.set()

    def request_reload(self) -> None:
        """Apply the configuration files again."""
        self._reload.set()
        self._nudge.set()

    def state(self) -> Sequence[str]:
        """What runs, in lines for the log; asks nothing of the hub, which may be what everybody waits for."""
        agent = self._agent
        lines = [
            f"mgw {__version__}, agent {self._options.agent}, hub {self._hub.name}",
            f"hub: {self._away.lasts or 'no trouble known'}",
            f"main loop: last came round {self.pulse.silence:.1f} s ago",
            f"{in_use()} of {limit()} files open, {self.heap.frozen} objects left out of garbage collection",
            self._start_job.state,
            *(agent.state() if agent is not None else [self.waits_for or "the agent is not started"]),
        ]
        return [self._secrets.redact(line) for line in lines]

    def run(self) -> int:
        """Run until stopped; returns the exit code.

        Raises:
            GatewayError: the agent cannot be started at all.
        """
        if self._options.config_files:
            self._secret_files.look()
        agent = self._first_agent()
        if agent is None:
            return 0
        self.pulse.beat(START_SECONDS)
        self._agent = agent
        chores = self._start_chores()
        if self._options.standby:
            self._guard.start()
        try:
            agent.start()
            with suppress(HubError):  # the first look counts from here
                self._record()
            self._manager.ready(f"running agent {agent.name}")
            while not self._stop.is_set():
                self.pulse.beat()
                self._nudge.wait(POLL_SECONDS)
                self._nudge.clear()
                chores.follow_clock()
                self._round()
        except (LeaseLost, HubMoved) as lost:
            self._abandon(lost)
        except Exception as error:
            self._ending = ending_of(error)
            raise
        finally:
            self._guard.end()
            self._manager.stopping()
            chores.end()
            self._timekeeper.close()
            self._stop_agent(self._ending)
        return self.exit_code

    def _first_agent(self) -> Agent | None:
        """The agent with its lease; None: asked to stop on standby."""
        agent, first = self._new_agent(), True
        if not self._options.standby:
            agent.acquire(log_level=self._log_level)
            return agent
        while not self._stop.is_set():
            self.pulse.beat(START_SECONDS)
            if self._standby.look(first=first) is not Turn.WAIT and self._takes(agent):
                return agent
            if first:
                self._manager.ready(f"standby for agent {agent.name}")
            first = False
            self._nudge.wait(POLL_SECONDS)
            self._nudge.clear()
        return None

    def _takes(self, agent: Agent) -> bool:
        """Whether it is this process that gets the agent, of all those on standby."""
        with suppress(lease.AgentAlreadyRunning, HubUnavailable):
            agent.acquire(patience=0.0, silent=self._standby.silent, log_level=self._log_level)
            return True
        return False

    @property
    def _log_level(self) -> int:
        given = self._options.log_level
        return (self._init_file.log_level or 0) if given is None else given

    def _new_agent(self) -> Agent:
        return Agent(
            self._hub,
            self._secrets,
            self._options.agent,
            self._clock,
            self._procedures,
            pulse=self.pulse,
            hub_url=self._options.hub_url,
            nudge=self._nudge.set,
            defaults=self._init_file.properties,
        )

    def _round(self) -> None:
        """One look at what is asked for; a hub that is away is tried again in the next round."""
        try:
            if self._reload.is_set():
                self._reload.clear()
                self._manager.reloading()
                self._apply_configuration()
                self._manager.ready(f"running agent {self._options.agent}")
            if self._agent is None:
                self._maybe_start()
                return
            if self._lost is not None:
                raise self._lost
            asked = self._agent.status()
            self._away.over()
            if asked is AgentStatus.SHUTTING_DOWN:
                self._stop_agent(Ending(AgentStatus.NOT_STARTED))
                return
            self._start_job.follow(True)
            self._start_job.taken()
            self._agent.refresh()
            self._complaint = ""
        except (LeaseLost, HubMoved):
            raise
        except HubError as error:
            self._away.say(str(error))
        except GatewayError as error:
            if self._agent is None:
                raise
            if str(error) != self._complaint:  # said once, not twice a second
                self._complaint = str(error)
                _LOGGER.error("changed definitions not applied, running jobs continue: %s", error)

    def _maybe_start(self) -> None:
        self._start_job.follow(self._starting or self._is_scheduled())
        if not self._start_job.taken():
            return
        agent = self._new_agent()
        if not self._options.standby:
            agent.acquire(log_level=self._log_level)
        elif not self._takes(agent):
            self._start_job.follow(False)
            return
        self._agent, self._starting = agent, True
        try:
            agent.start()
        except (LeaseLost, HubMoved):
            raise
        except GatewayError as error:
            self._stop_agent(ending := ending_of(error))
            self._starting = ending.restarts
            _LOGGER.error("agent %s not started, %s: %s", agent.name, ending.status, error)
            if ending.restarts:
                self._start_job.again()
            return
        self._starting = False

    def _is_scheduled(self) -> bool:
        if self._options.standby:
            return self._standby.look(first=False) is not Turn.WAIT
        with self._hub.read() as conn:
            row = lease.agent_row(conn, self._options.agent)
        return row is not None and row.status is AgentStatus.START_SCHEDULED

    def _stop_agent(self, ending: Ending) -> None:
        if self._agent is not None:
            agent, self._agent = self._agent, None
            self.pulse.beat(self._options.drain_seconds + START_SECONDS)
            agent.stop(seconds=self._options.drain_seconds, status=ending.status, error=ending.error)

    def _abandon(self, lost: LeaseLost | HubMoved) -> None:
        _LOGGER.error("%s", lost)
        self.exit_code, self.fenced = 1, isinstance(lost, LeaseLost)
        self._stop_agent(ending_of(lost))

    def _apply_configuration(self) -> None:
        if not self._options.config_files:
            _LOGGER.info("no configuration file was given at start; nothing to read again")
            return
        self._secret_files.about_to_read()
        try:
            unchanged = 1
            for line in self._procedures.apply_files(self._hub, self._secrets, self._options.config_files):
                _LOGGER.info("%s", line)
                self.pulse.beat()
                unchanged = 0
            self.applied["ok"] += unchanged
            self._prepared = set()
        except GatewayError as error:
            self.applied["refused"] += 1
            self._journalist.tell(ConfigurationRefused(self.agent_name, str(error)))

    # --------------------------------------------------------------------------------------------------------- chores

    def _start_chores(self) -> Chores:
        chores = Chores(self._clock)
        chores.add("time-manager", self._time_manager, TIME_MANAGER_SECONDS)
        chores.add("lease", self._renew, LEASE_SECONDS / 5)
        chores.add("keys", self._tell_keys, LEASE_SECONDS / 5)
        chores.add("prune", self._prune, PRUNE_SECONDS)
        chores.add("merge", self._pruning.merge, MERGE_SECONDS)
        chores.add("history", self._record, LOOK_SECONDS)
        chores.add("prepare", self._prepare, PREPARE_SECONDS)
        if self._options.config_files:
            chores.add("secret-files", self._secret_files.look, SECRET_FILE_SECONDS)
        chores.add("certificates", self._certificates.look, CERTIFICATE_SECONDS)
        chores.add("memory", self._watch_memory, WATCH_SECONDS)
        self._start_job.begin(chores)
        chores.start()
        return chores

    def _links(self) -> Mapping[str, LinkDef]:
        agent = self._agent
        return {} if agent is None else agent.links

    def _renew(self) -> None:
        agent = self._agent
        if agent is None:
            return
        try:
            agent.renew()
            _LOGGER.debug("lease renewed")
        except LeaseLost as lost:
            if agent is self._agent:
                self._lost = lost
                self._nudge.set()

    def _tell_keys(self) -> None:
        agent = self._agent
        if agent is not None:
            agent.tell_keys()

    def _watch_memory(self) -> None:
        agent = self._agent
        self._memory.look(None if agent is None else agent.definition)

    def _prepare(self) -> None:
        """Links whose brokers were not there at the start."""
        if self._prepared is None:
            return
        try:
            for line in self._procedures.prepare_links(
                self._hub, self._secrets, self._options.config_files, self._prepared
            ):
                _LOGGER.info("%s", line)
        except HubError:
            raise
        except GatewayError as error:
            self._unprepared.say(str(error))
        else:
            self._unprepared.over()
            self._prepared = None

    def _time_manager(self) -> None:
        report = self._timekeeper.run(self._stop)
        _LOGGER.log(
            TRACE_LITE if any(astuple(report)) else logging.DEBUG,
            "time manager: %d made ready, %d expired, %d removed, %d returned",
            report.made_ready,
            report.expired,
            report.removed,
            report.returned,
        )

    def _prune(self) -> None:
        agent = self._agent
        self._pruning.prune(None if agent is None else agent.settings)

    def _record(self) -> None:
        """The history of jobs, while the agent is this process's."""
        agent = self._agent
        if agent is not None and agent.lease_left and agent.settings.history_retention:
            self._history.record(agent.measured())
