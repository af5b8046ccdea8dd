"""The workers of an agent, as its supervisor keeps them: started, told what to do, replaced when they die.

A worker that dies is fenced first: its token is raised, which waits for what it has under way in the hub. Then another
process takes its place, with its jobs. They do not move to the other workers: a job that brings its process down would
bring down one after the other.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mgw.gateway.aq import Hub
from mgw.gateway.definitions.objects import Activity
from mgw.gateway.observe.events import Journalist, WorkerDied
from mgw.gateway.observe.measures import Told, kept, merged
from mgw.gateway.observe.relayed import say_again
from mgw.gateway.runtime.connection_quota import Connections
from mgw.gateway.runtime.job_setup import JobSetup
from mgw.gateway.runtime.workers.assignment import assign, load_of
from mgw.gateway.runtime.workers.channel import Said
from mgw.gateway.runtime.workers.process import Process
from mgw.gateway.runtime.workers.quota import Held
from mgw.gateway.runtime.workers.remote import RemoteJob
from mgw.gateway.runtime.workers.wake import Mailboxes, Relay
from mgw.gateway.state import lease, run_state
from mgw.gateway.state.lease import Owner
from mgw.transforms.clock import Clock
from mgw.transforms.errors import HubError, LeaseLost

__all__ = ["SILENT_SECONDS", "Order", "Pool"]

_LOGGER = logging.getLogger("mgw.engine")

LOOK_SECONDS = 0.5
SILENT_SECONDS = 15.0  # a worker that has said nothing for so long is killed and replaced; one that heard nothing ends
SHORT_LIFE = 60.0  # a worker that dies sooner is replaced with a growing delay
DELAYS = (0.0, 1.0, 2.0, 4.0, 8.0, 15.0)  # seconds, by short lives in a row
ANSWER_SECONDS = 2.0  # for what a worker is asked for the log
END_SECONDS = 5.0  # for a worker that has no job any more
FENCE_SECONDS = 2.0  # for the hub, before a worker is started: it may be locked by another one that stands still


@dataclass(frozen=True, slots=True)
class Order:
    """What is the same for all workers.

    Attributes:
        count: how many there are.
        token: of the agent.
        defaults: options for those that the agent does not have in the hub.
    """

    agent: str
    token: int
    count: int
    hub_url: str
    durability: str
    verify_seconds: float
    defaults: Mapping[str, str] = field(default_factory=dict)


class _Slot:
    """A worker by number, whichever process it is."""

    def __init__(self, number: int, held: Held) -> None:
        self.number = number
        self.held = held
        self.process: Process | None = None
        self.token = 0  # for the next process; 0: the last one is not fenced yet
        self.jobs: dict[int, RemoteJob] = {}
        self.silent = 0  # looks in a row without a word of it
        self.busy = False  # what it said last is being done: a line of its log may wait for standard output
        self.lives = 0  # short ones, in a row
        self.restarts = 0
        self.told: Told = {}  # what the process measured
        self.told_before: Told = {}  # and those in whose place it is
        self.born = float("-inf")
        self.due = float("-inf")


class Pool:
    """Any thread may call it.

    Attributes:
        lost: another process owns the agent.
        refusals: how many jobs have ended that should run, because their worker knows newer definitions.

    Args:
        nudge: called when the agent should look at its jobs again.
    """

    def __init__(
        self, hub: Hub, order: Order, journalist: Journalist, clock: Clock, nudge: Callable[[], object] = lambda: None
    ) -> None:
        self.lost: LeaseLost | None = None
        self.refusals = 0
        self._hub = hub
        self._order = order
        self._journalist = journalist
        self._clock = clock
        self._nudge = nudge
        self._owner = Owner.this_process()
        self._lock = threading.RLock()
        connections = Connections()
        numbers = range(1, order.count + 1)
        self._slots = {number: _Slot(number, Held(connections)) for number in numbers}
        self._mailboxes = Mailboxes(list(numbers))
        self._relay = Relay(hub, self._mailboxes.writing)
        self._placed: dict[int, int] = {}
        self._watchers: dict[str, list[int]] = {}
        self._hub_works: dict[str, bool] = {}
        self._level = 0
        self._closing = threading.Event()
        self._look_now = threading.Event()
        self._calls: dict[int, queue.SimpleQueue[list[str]]] = {}
        self._next_call = 0
        self._fence_due = float("-inf")  # a hub that was locked for one worker is for all
        self._thread = threading.Thread(target=self._look_after, name="workers", daemon=True)

    # ----------------------------------------------------------------------------------------- what the agent calls

    def start(self) -> None:
        """Begin to start workers, each when it has a job."""
        self._thread.start()

    def place(self, wanted: Mapping[int, JobSetup]) -> None:
        """Decide which worker runs each job; those that are placed stay."""
        loads = {job_id: load_of(setup.job) for job_id, setup in wanted.items()}
        self._placed = assign(loads, self._slots, self._placed)

    def most(self, wanted: Mapping[int, JobSetup]) -> int:
        """Connections that the jobs of one worker hold, of the one whose jobs hold most."""
        held = dict.fromkeys(self._slots, 0)
        for job_id, setup in wanted.items():
            held[self._placed[job_id]] += setup.connections
        return max(held.values())

    def runner(self, setup: JobSetup, version: int, resets: int) -> RemoteJob:
        """The job in the worker where it was placed; not started."""
        return RemoteJob(self, self._placed[setup.job.id], setup, version, resets)

    def know(self, version: int, running: Mapping[int, RemoteJob], level: int) -> None:
        """The jobs that run are those of this version of the definitions; ``level``: of the log."""
        watchers: dict[int, set[int]] = {}
        for job in running.values():
            job.version = version
            if not job.setup.job.propagation_type.from_link and (source := job.setup.queues[0]) is not None:
                watchers.setdefault(source.id, set()).add(job.number)
        with self._lock:
            self._relay.watchers = {number: sorted(found) for number, found in watchers.items()}
            self._watchers = {str(number): sorted(found) for number, found in watchers.items()}
            self._level = level
            for slot in self._slots.values():
                self._tell(slot, "know", watchers=self._watchers, level=level)

    def tell_hub(self, operation: str, works: bool) -> None:
        """Whether the hub can be read, or written: jobs may wait for that."""
        with self._lock:
            if self._hub_works.get(operation) is works:
                return
            self._hub_works[operation] = works
            for slot in self._slots.values():
                self._tell(slot, "hub", works=self._hub_works)

    @property
    def restarts(self) -> dict[int, int]:
        """How often each worker has died since the agent started, by number: another process takes its place."""
        return {slot.number: slot.restarts for slot in self._slots.values()}

    def told(self) -> Told:
        """What the jobs measured, in all processes that the workers were and are."""
        with self._lock:
            return merged(told for slot in self._slots.values() for told in (slot.told_before, slot.told))

    def keep(self, jobs: Collection[int]) -> None:
        """Forget what was measured of jobs that do not exist any more."""
        with self._lock:
            for slot in self._slots.values():
                slot.told, slot.told_before = kept(slot.told, jobs), kept(slot.told_before, jobs)

    def state(self) -> list[str]:
        """What the workers do, in lines for the log."""
        asked = []
        with self._lock:
            for slot in self._slots.values():
                self._next_call += 1
                answer = self._calls[self._next_call] = queue.SimpleQueue()
                asked.append((slot, answer))
                if not self._tell(slot, "state", call=self._next_call):
                    answer.put(["is being replaced"])
        lines, deadline = [], self._clock.monotonic() + ANSWER_SECONDS
        for slot, answer in asked:
            process = slot.process
            who = f"worker {slot.number}" + (f", process {process.pid}" if process is not None else "")
            try:
                told = answer.get(timeout=max(0.01, deadline - self._clock.monotonic()))
            except queue.Empty:
                told = [f"has not answered within {ANSWER_SECONDS:g} s"]
            lines += [f"{who}: {told[0]}", *(f"  {line}" for line in told[1:])]
        with self._lock:
            self._calls.clear()
        return lines

    def close(self) -> None:
        """End the workers; jobs that have not ended by now are killed with them."""
        self._closing.set()
        self._look_now.set()
        self._relay.close()
        with self._lock:
            for slot in self._slots.values():
                self._tell(slot, "end")
        if self._thread.ident is not None:
            self._thread.join()  # it has started them: they end with it at the latest
        self._mailboxes.close()

    # ------------------------------------------------------------------------------------------- what its jobs call

    def begin(self, job: RemoteJob) -> None:
        """See :class:`mgw.gateway.runtime.workers.remote.Worker`."""
        with self._lock:
            slot = self._slots[job.number]
            slot.jobs[job.setup.job.id] = job
            if not self._tell(slot, "run", jobs=_wanted([job])):
                self._look_now.set()

    def stop(self, job: RemoteJob) -> None:
        """See :class:`mgw.gateway.runtime.workers.remote.Worker`."""
        with self._lock:
            slot = self._slots[job.number]
            if not self._tell(slot, "stop", job=job.setup.job.id) and slot.process is None and slot.token:
                self._end(slot, job.setup.job.id)

    def reset(self, job: RemoteJob) -> None:
        """See :class:`mgw.gateway.runtime.workers.remote.Worker`."""
        with self._lock:
            self._tell(self._slots[job.number], "reset", job=job.setup.job.id, resets=job.resets)

    # ---------------------------------------------------------------------------------------------------- the workers

    def _tell(self, slot: _Slot, what: str, **details: Any) -> bool:
        return slot.process is not None and slot.process.channel.say(what, **details)

    def _end(self, slot: _Slot, job_id: int) -> None:
        job = slot.jobs.pop(job_id, None)
        if job is not None:
            job.ended()

    def _look_after(self) -> None:
        """Started processes end with the thread that started them, so this one stays until they have ended."""
        early = True
        while not self._closing.is_set():
            for slot in self._slots.values():
                try:
                    self._look(slot, early=early)
                except Exception:
                    _LOGGER.exception("worker %d could not be looked after", slot.number)
            early = self._look_now.wait(LOOK_SECONDS)
            self._look_now.clear()
        deadline = self._clock.monotonic() + END_SECONDS
        for slot in self._slots.values():
            if slot.process is not None:
                slot.process.end(max(0.1, deadline - self._clock.monotonic()))

    def _look(self, slot: _Slot, *, early: bool) -> None:
        process = slot.process
        if process is None:
            wanted = slot.jobs and self.lost is None and (slot.token or self._fence(slot))
            if wanted and self._clock.monotonic() >= slot.due:
                self._start(slot)
            return
        process.channel.say("ping")
        slot.silent += not early and not slot.busy  # looks are counted: a machine may have been suspended
        if slot.silent * LOOK_SECONDS > SILENT_SECONDS:
            slot.silent = 0
            _LOGGER.error("worker %d says nothing for %.0f s; it is killed", slot.number, SILENT_SECONDS)
            process.kill()

    def _fence(self, slot: _Slot) -> bool:
        if self._clock.monotonic() < self._fence_due:
            return False
        order = self._order
        try:
            with self._hub.write(patience=FENCE_SECONDS) as conn:
                token = lease.fence_worker(conn, order.agent, order.token, slot.number, self._owner)
                now = self._clock.now()
                for job_id, job in list(slot.jobs.items()):
                    job.connected, job.trouble = False, None
                    run_state.set_activity(conn, job_id, Activity.CONNECTING, now=now)
        except HubError as error:
            _LOGGER.debug("worker %d cannot be started yet: %s", slot.number, error)
            self._fence_due = self._clock.monotonic() + FENCE_SECONDS
            return False
        except LeaseLost as lost:
            self.lost = lost
            self._nudge()
            return False
        with self._lock:
            slot.token = token
            slot.held.free_all()
            for job_id, job in list(slot.jobs.items()):
                if job.stopping:
                    self._end(slot, job_id)
        return True

    def _start(self, slot: _Slot) -> None:
        order, number = self._order, slot.number
        told = {
            "number": number,
            "agent": order.agent,
            "key": lease.worker_key(order.agent, number),
            "token": slot.token,
            "hub_url": order.hub_url,
            "durability": order.durability,
            "signature": self._owner.worker_signature(number),
            "verify_seconds": order.verify_seconds,
            "defaults": dict(order.defaults),
            "silent_seconds": SILENT_SECONDS,
            "level": self._level,
        }
        try:
            process = Process(number, self._mailboxes)
        except OSError as error:
            slot.due = self._clock.monotonic() + DELAYS[-1]
            _LOGGER.error("worker %d cannot be started, will be tried again: %s", number, error.strerror or error)
            return
        with self._lock:
            slot.process, slot.token = process, 0
            slot.born, slot.silent = self._clock.monotonic(), 0
            process.channel.say("begin", **told)
            process.channel.say("know", watchers=self._watchers, level=self._level)
            process.channel.say("hub", works=self._hub_works)
            if slot.jobs:
                process.channel.say("run", jobs=_wanted(list(slot.jobs.values())))
        _LOGGER.info("worker %d is process %d", number, process.pid)
        threading.Thread(target=self._listen, args=(slot, process), name=f"worker-{number}", daemon=True).start()

    def _listen(self, slot: _Slot, process: Process) -> None:
        """What a worker says, until it has ended."""
        for said in process.channel.heard():
            slot.busy, slot.silent = True, 0
            try:
                self._obey(slot, process, said)
            except Exception:
                _LOGGER.exception("worker %d: what it said could not be understood", slot.number)
            slot.busy = False
        how = process.reap()
        if self._closing.is_set():
            return
        lived = self._clock.monotonic() - slot.born
        slot.lives = slot.lives + 1 if lived < SHORT_LIFE else 1
        delay = DELAYS[min(slot.lives, len(DELAYS)) - 1]
        slot.due = self._clock.monotonic() + delay
        with self._lock:
            slot.process = None
            slot.restarts += 1
            slot.told_before, slot.told = merged([slot.told_before, slot.told]), {}
        self._look_now.set()
        self._journalist.tell(WorkerDied(self._order.agent, slot.number, process.pid, how, len(slot.jobs), delay))

    def _obey(self, slot: _Slot, process: Process, said: Said) -> None:
        what = said["what"]
        if what == "alive":  # answered here, too: who looks after the workers may be waiting for the hub
            process.channel.say("ping")
        elif what == "log":
            say_again(slot.number, said["record"])
        elif what == "job":
            job = slot.jobs.get(said["job"])
            if job is not None:
                job.connected, job.trouble = said["connected"], said["trouble"] and tuple(said["trouble"])
        elif what == "measured":
            with self._lock:
                slot.told |= said["told"]
        elif what == "ended":
            self._ended(slot, said["job"], refused=said["refused"])
        elif what == "hold":
            refusal = slot.held.hold(said["job"], said["link"], said["needed"], said["limit"])
            process.channel.say("answer", call=said["call"], refusal=refusal)
        elif what == "free":
            slot.held.free(said["job"], said["link"])
        elif what == "state" and (answer := self._calls.get(said["call"])) is not None:
            answer.put(said["lines"])

    def _ended(self, slot: _Slot, job: int, *, refused: bool) -> None:
        with self._lock:
            if not refused:
                self._end(slot, job)
            elif job in slot.jobs:
                self.refusals += 1
                self._end(slot, job)
        if not refused:  # else in the next round: a worker may refuse again and again
            self._nudge()


def _wanted(jobs: Sequence[RemoteJob]) -> dict[str, list[int]]:
    """For a worker: version of the definitions and resets, by the job's id."""
    return {str(job.setup.job.id): [job.version, job.resets] for job in jobs if not job.stopping}
