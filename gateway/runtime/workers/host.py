"""The jobs in a worker process."""

from __future__ import annotations

import logging
import os
import queue
import threading
from collections.abc import Iterable, Mapping
from typing import Any

from mgw.gateway.aq import Hub
from mgw.gateway.definitions.agent_options import AgentSettings
from mgw.gateway.definitions.objects import Snapshot
from mgw.gateway.observe.events import Journalist
from mgw.gateway.observe.log_file import set_level
from mgw.gateway.observe.measures import Measures, Told
from mgw.gateway.runtime.engine import Engine
from mgw.gateway.runtime.fair_semaphore import Turns
from mgw.gateway.runtime.job_runner import JobRunner
from mgw.gateway.runtime.job_setup import setup_of
from mgw.gateway.runtime.reach import Reaches
from mgw.gateway.runtime.signals import stacks
from mgw.gateway.runtime.state_dump import agent_lines
from mgw.gateway.runtime.stuck import StuckWatch
from mgw.gateway.runtime.taps import Taps
from mgw.gateway.runtime.timekeeping import events_of
from mgw.gateway.runtime.workers.channel import Channel, Said
from mgw.gateway.runtime.workers.quota import AskedConnections
from mgw.gateway.runtime.workers.wake import Relay
from mgw.gateway.state import catalog
from mgw.gateway.state.secrets import Secrets
from mgw.links.pool import LinkPool
from mgw.transforms.clock import SYSTEM_CLOCK
from mgw.transforms.errors import GatewayError, HubError, LeaseLost

__all__ = ["Host"]

_LOGGER = logging.getLogger("mgw.engine")

LOOK_SECONDS = 3.0


class Host:
    """Obeys the supervisor on the main thread of the worker.

    Attributes:
        ended: the supervisor said so.
    """

    def __init__(self, hub: Hub, secrets: Secrets, channel: Channel, relay: Relay, begin: Said) -> None:
        self.ended = False
        self._hub = hub
        self._secrets = secrets
        self._channel = channel
        self._relay = relay
        self._begin = begin
        self._links = LinkPool()
        self._reaches = Reaches(SYSTEM_CLOCK, self._links)
        self._journalist = Journalist(events_of(hub, begin["agent"], SYSTEM_CLOCK))
        self._taps = Taps(hub, secrets, SYSTEM_CLOCK)
        self._snapshot: Snapshot | None = None
        self._engine: Engine | None = None
        self._lock = threading.Lock()  # guards the runners, and what was reported of them
        self._runners: dict[int, JobRunner] = {}
        self._reported: dict[int, Any] = {}
        self._measures = Measures()
        self._told: Told = {}  # what was reported of them
        self._calls: dict[int, queue.SimpleQueue[Mapping[str, Any]]] = {}
        self._next_call = 0

    def obey(self, said: Iterable[Said]) -> bool:
        """Do what the supervisor says until it says that this is the end; False: it is gone."""
        for each in said:
            if each["what"] == "end":
                self.ended = True
                self._taps.close()
                return True
            try:
                self._obey(each)
            except Exception:
                _LOGGER.exception("what the supervisor said could not be done: %s", each["what"])
        return False

    def _obey(self, said: Said) -> None:
        what = said["what"]
        if what == "run":
            self._run({int(job_id): wanted for job_id, wanted in said["jobs"].items()})
        elif what == "stop" and (runner := self._runners.get(said["job"])) is not None:
            runner.request_stop()
            threading.Thread(target=self._await, args=(said["job"], runner), name="stop", daemon=True).start()
        elif what == "reset" and (runner := self._runners.get(said["job"])) is not None:
            runner.reset(said["resets"])
        elif what == "know":
            self._relay.watchers = {int(number): watching for number, watching in said["watchers"].items()}
            set_level(said["level"])
            self._look_at_taps()
        elif what == "hub":
            for operation, works in said["works"].items():
                self._reaches.hub.told(operation, works)
        elif what == "state":
            threading.Thread(target=self._tell_state, args=(said["call"],), name="state", daemon=True).start()
        elif what == "answer" and (answer := self._calls.pop(said["call"], None)) is not None:
            answer.put(said)

    # ------------------------------------------------------------------------------------------------------- the jobs

    def _run(self, wanted: Mapping[int, list[int]]) -> None:
        """Run jobs by the definitions that the supervisor knows; where there are newer ones, it is to look again."""
        try:
            with self._hub.read() as conn:
                snapshot = catalog.load_snapshot(conn, self._begin["agent"], self._secrets)
        except GatewayError as error:
            _LOGGER.warning("definitions of %d job(s) not loaded, will be tried again: %s", len(wanted), error)
            for job_id in wanted:
                self._ended(job_id, refused=True)
            return
        settings = AgentSettings.read(snapshot.agent_options, self._begin["defaults"])
        if self._engine is None:
            self._engine = self._new_engine(snapshot, settings)
        self._snapshot = snapshot
        self._links.keep(link.config() for link in snapshot.links.values())
        self._measures.keep(snapshot.jobs)
        for job_id, (version, resets) in wanted.items():
            job = snapshot.jobs.get(job_id)
            if version != snapshot.version or job is None:
                self._ended(job_id, refused=True)
                continue
            try:
                setup = setup_of(snapshot, settings.applied(job), self._hub.hub_id, SYSTEM_CLOCK)
                runner = JobRunner(self._engine, setup, resets)
                self._taps.begin(runner)
                with self._lock:
                    runner.start()
                    self._runners[job_id] = runner
            except GatewayError as error:  # the supervisor has found none
                _LOGGER.warning("job %s cannot run: %s", job.name, error)
                self._ended(job_id, refused=True)
            except Exception:  # no further thread can be started, for example: the others run all the same
                _LOGGER.exception("job %s cannot run", job.name)
                self._ended(job_id, refused=True)
        self._look_at_taps()

    def _look_at_taps(self) -> None:
        with self._lock:
            runners = dict(self._runners)
        try:
            self._taps.look(runners)
        except HubError as error:
            _LOGGER.debug("taps not looked for: %s", error)

    def _new_engine(self, snapshot: Snapshot, settings: AgentSettings) -> Engine:
        return Engine(
            self._hub,
            self._begin["key"],
            self._begin["token"],
            SYSTEM_CLOCK,
            Turns(snapshot.agent.max_threads),
            self._journalist,
            self._reaches,
            self._links,
            ledger=settings.ledger_retention > 0,
            verify_seconds=self._begin["verify_seconds"],
            connections=AskedConnections(self._ask, self._channel.say),
            measures=self._measures,
        )

    def _ended(self, job_id: int, *, refused: bool = False) -> None:
        self._channel.say("ended", job=job_id, refused=refused)

    def _ask(self, what: str, **details: Any) -> Mapping[str, Any]:
        """Say it to the supervisor and wait for the answer; it answers without asking anybody."""
        answer: queue.SimpleQueue[Mapping[str, Any]] = queue.SimpleQueue()
        with self._lock:
            self._next_call += 1
            call = self._next_call
            self._calls[call] = answer
        self._channel.say(what, call=call, **details)
        return answer.get()

    def report(self) -> None:
        """Tell the supervisor what has changed of the jobs; called twice a second."""
        with self._lock:
            runners = list(self._runners.items())
        for job_id, runner in runners:
            seen = (runner.connected, runner.trouble)
            if self._reported.get(job_id) != seen:
                self._reported[job_id] = seen
                self._channel.say("job", job=job_id, connected=seen[0], trouble=seen[1])
            if not runner.alive:
                self._let_go(job_id, runner)
        told = self._measures.told()
        if news := {what: numbers for what, numbers in told.items() if self._told.get(what) != numbers}:
            self._told = told
            self._channel.say("measured", told=news)

    def _await(self, job_id: int, runner: JobRunner) -> None:
        while not runner.join(LOOK_SECONDS):
            pass
        self._let_go(job_id, runner)

    def _let_go(self, job_id: int, runner: JobRunner) -> None:
        """The thread of a job has ended, and this worker does nothing for it any more."""
        if runner.lost is not None:
            os._exit(1)  # another process has the place of this one; the job has said so
        with self._lock:
            if self._runners.get(job_id) is not runner:
                return
            del self._runners[job_id]
            self._reported.pop(job_id, None)
        self._ended(job_id)

    def look_after(self) -> None:
        """Report threads that are stuck; end where another process has the place of this one."""
        pause, watch = threading.Event(), StuckWatch(self._journalist)
        while True:
            pause.wait(LOOK_SECONDS)
            with self._lock:
                runners, engine = dict(self._runners), self._engine
            if engine is None:
                continue
            try:
                watch.look(runners, engine)
            except LeaseLost:  # its job has said so
                os._exit(1)

    def _tell_state(self, call: int) -> None:
        with self._lock:
            runners = list(self._runners.values())
        lines = agent_lines(self._snapshot, self._engine, runners, of_runners=True)
        head = f"definitions of version {self._snapshot.version if self._snapshot else None}, {len(runners)} jobs"
        self._channel.say("state", call=call, lines=[head, *lines, *stacks()])
