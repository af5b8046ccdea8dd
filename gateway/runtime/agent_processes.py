"""Several agents under one command: each runs in a process of its own, started by its scheduler job.

An agent whose process crashes does not touch the others. The process that starts them carries no messages. It ends
them when it ends, and they end when it is killed.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence

from mgw.gateway.aq import Hub
from mgw.gateway.definitions.objects import AgentStatus, key
from mgw.gateway.observe.repeated_warning import Complaint
from mgw.gateway.runtime.child_of import PARENT_VARIABLE
from mgw.gateway.runtime.chores import Chores
from mgw.gateway.runtime.pulse import ROUND_SECONDS, START_SECONDS, Pulse
from mgw.gateway.runtime.service_manager import OF_THE_SERVICE, ServiceManager
from mgw.gateway.runtime.signals import Signals
from mgw.gateway.runtime.start_job import REPEAT_SECONDS, StartJob
from mgw.gateway.state import catalog, lease
from mgw.gateway.state.lease import AgentRow
from mgw.transforms.clock import Clock
from mgw.transforms.errors import GatewayError, HubError

__all__ = ["AgentProcesses"]

_LOGGER = logging.getLogger("mgw.engine")

LOOK_SECONDS = 0.5
SHORT_LIFE = 5.0  # a process that lives no longer is started again by the clock of its scheduler job
END_SECONDS = 15.0  # for a process, in addition to the time in which it may drain
_NOT_AGAIN = (2, 78)  # exit codes of wrong usage and of a configuration that is invalid as a whole

Command = Callable[[str, int], Sequence[str]]


class _Child:
    """An agent with its process, whichever that is."""

    def __init__(self, agent: str, number: int, nudge: Callable[[], object]) -> None:
        self.agent = agent
        self.number = number
        self.wanted = True
        self.process: subprocess.Popen[bytes] | None = None
        self.born = float("-inf")
        self.job = StartJob(agent, nudge)

    @property
    def ended(self) -> int | None:
        """Exit code of a process that has ended since the last look."""
        return None if self.process is None else self.process.poll()


class AgentProcesses:
    """Starts, watches and ends the processes of agents.

    Args:
        agents: their names; None: all that the hub has, also those that are created later.
        command: the words of the command line that run an agent, given its name and its number, from 0.
        drain_seconds: how long a process may work off what is in flight when it is told to end.
    """

    def __init__(
        self,
        hub: Hub,
        agents: Sequence[str] | None,
        command: Command,
        clock: Clock,
        *,
        drain_seconds: float,
    ) -> None:
        self._hub = hub
        self._named = agents
        self._command = command
        self._clock = clock
        self._drain_seconds = drain_seconds
        self._children: dict[str, _Child] = {}
        self._stop = threading.Event()
        self._nudge = threading.Event()
        self._away = Complaint(clock, _LOGGER)
        self._manager = ServiceManager(os.environ, clock)
        self._pulse = Pulse(clock, self._manager)
        self._chores = Chores(clock)

    def run(self, signals: Signals) -> int:
        """Run them until a signal ends this process; the exit code. Other signals go to every process.

        Raises:
            GatewayError: there is no agent of a name that was given.
            HubError: the hub cannot be read.
        """
        self._check_names()
        signals.state = self.state
        for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
            signals.on(number, self._forward)
        signals.end_on(self._end)
        self._chores.start()
        try:
            ready = False
            while not self._stop.is_set():
                self._pulse.beat()
                self._round()
                if not ready:
                    self._manager.ready(f"running {len(self._children)} agents")
                    ready = True
                self._nudge.wait(LOOK_SECONDS)
                self._nudge.clear()
                self._chores.follow_clock()
        finally:
            self._manager.stopping()
            self._chores.end()
            self._end_all()
        return 0

    def state(self) -> list[str]:
        """What runs, in lines for the log."""
        return [
            f"agent {child.agent}: "
            + (f"process {child.process.pid}" if child.process is not None else "no process")
            + f", {child.job.state}"
            for child in self._children.values()
        ]

    def _check_names(self) -> None:
        with self._hub.read() as conn:
            known = {key(agent.name) for agent in catalog.list_agents(conn)}
        for name in self._named or ():
            if key(name) not in known:
                raise GatewayError(
                    f"agent {name} does not exist",
                    cause="nobody created it",
                    cure="create it under agents: and mgw apply, or leave it out",
                )

    # ------------------------------------------------------------------------------------------------------- the round

    def _round(self) -> None:
        rows = self._rows()
        if rows is not None:
            self._follow(rows)
        for child in self._children.values():
            row = None if rows is None else rows.get(key(child.agent))
            code = child.ended
            if code is not None:
                self._ended(child, code, row)
            if child.process is None and row is not None and row.status is AgentStatus.START_SCHEDULED:
                child.wanted = True
            child.job.follow(child.wanted)
            if child.job.taken() and child.process is None:
                self._start(child)

    def _rows(self) -> dict[str, AgentRow] | None:
        """The agents by name; None: the hub does not answer."""
        try:
            with self._hub.read() as conn:
                names = self._named or [agent.name for agent in catalog.list_agents(conn)]
                found = {key(name): lease.agent_row(conn, name) for name in names}
        except HubError as error:
            self._away.say(str(error))
            return None
        self._away.over()
        return {name: row for name, row in found.items() if row is not None}

    def _follow(self, rows: dict[str, AgentRow]) -> None:
        """Agents that are new, and those that are gone."""
        for name, row in rows.items():
            if name not in self._children:
                self._children[name] = child = _Child(row.name, len(self._children), self._nudge.set)
                child.job.begin(self._chores)
        for name, child in list(self._children.items()):
            if name not in rows and child.process is None:
                child.wanted = False

    def _ended(self, child: _Child, code: int, row: AgentRow | None) -> None:
        process, child.process = child.process, None
        assert process is not None  # noqa: S101  it has ended
        lived = self._clock.monotonic() - child.born
        crashed = self._record_crash(child, process.pid, code, row)
        stays = row is not None and row.status is AgentStatus.NOT_STARTED and (code == 0 or bool(row.last_error))
        child.wanted = crashed or not (stays or code in _NOT_AGAIN)
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        if not child.wanted:
            _LOGGER.warning("agent %s: process %d ended, %s; it is not started again", child.agent, process.pid, how)
            return
        soon = lived >= SHORT_LIFE
        when = "now" if soon else f"within {REPEAT_SECONDS:.0f} s"
        _LOGGER.warning("agent %s: process %d ended, %s; it is started again %s", child.agent, process.pid, how, when)
        if soon:
            child.job.again()

    def _record_crash(self, child: _Child, pid: int, code: int, row: AgentRow | None) -> bool:
        """Whether it left the agent behind as if it ran; that is START_SCHEDULED now, with the error."""
        if row is None or row.owner is None or row.owner.pid != pid or row.owner.is_alive_here() is not False:
            return False
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        error = f"ORA-28576: process {pid} of agent {child.agent} ended prematurely: {how}"
        try:
            with self._hub.write() as conn:
                lease.release_lease(
                    conn,
                    child.agent,
                    row.token,
                    status=AgentStatus.START_SCHEDULED,
                    error=error,
                    now=self._clock.now(),
                )
        except HubError as failure:
            self._away.say(str(failure))
        return True

    def _start(self, child: _Child) -> None:
        environment = {name: value for name, value in os.environ.items() if name not in OF_THE_SERVICE}
        environment["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)
        environment[PARENT_VARIABLE] = str(os.getpid())
        words = self._command(child.agent, child.number)
        try:
            child.process = subprocess.Popen(  # noqa: S603  of ourselves
                [sys.executable, "-P", "-m", "mgw.gateway", *words],
                stdin=subprocess.DEVNULL,
                env=environment,
            )
        except OSError as error:
            _LOGGER.error("agent %s: no process can be started: %s", child.agent, error)
            return
        child.born = self._clock.monotonic()
        _LOGGER.info("agent %s: process %d started by %s", child.agent, child.process.pid, child.job.name)

    # ----------------------------------------------------------------------------------------------------- its signals

    def _forward(self, number: signal.Signals) -> None:
        for child in list(self._children.values()):
            if child.process is not None and child.process.poll() is None:
                child.process.send_signal(number)

    def _end(self, number: signal.Signals) -> None:
        self._stop.set()
        self._nudge.set()
        _LOGGER.info("signal %s: %d agents drain", number.name, len(self._children))

    def _end_all(self) -> None:
        self._pulse.beat(self._drain_seconds + END_SECONDS + ROUND_SECONDS + START_SECONDS)
        self._forward(signal.SIGTERM)
        deadline = self._clock.monotonic() + self._drain_seconds + END_SECONDS
        for child in self._children.values():
            if child.process is None:
                continue
            try:
                child.process.wait(max(0.1, deadline - self._clock.monotonic()))
            except subprocess.TimeoutExpired:
                _LOGGER.warning("agent %s: process %d does not end; it is killed", child.agent, child.process.pid)
                child.process.kill()
                child.process.wait()
