"""Builds the route of a job and drives it on a thread of its own: connect, carry, back off, report."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import sqlalchemy as sa

from gateway import journal, lease
from gateway.aq import payloads, transfer
from gateway.aq.hub import Hub
from gateway.aq.rules import compile_rule
from gateway.connections import Connections, NoConnectionFree
from gateway.conversion import Conversion
from gateway.events import GuaranteeChanged, JobActivated, JobFailed, JobRetrying, JobStopped, JobStuck, Journalist
from gateway.exceptionqueue import ForeignExceptionQueue
from gateway.inbound import InboundRoute
from gateway.jobsetup import JobSetup
from gateway.model import Activity
from gateway.outbound import OutboundRoute
from gateway.retry import decide
from gateway.route import Route, RouteContext
from gateway.turns import Turns
from gateway.watch import VERIFY_SECONDS, GuaranteeWatch, weaken
from links import registry
from links.contract import Direction, GuaranteeReport, Link
from transforms.clock import Clock
from transforms.convert import from_payload, to_payload
from transforms.errors import ConversionFailure, GatewayError, HubError, LeaseLost, LinkTimeout
from transforms.registry import compile_transformation

__all__ = ["Engine", "JobRunner"]

_LOGGER = logging.getLogger("mgw.engine")

SAMPLE_SECONDS = 5.0  # how often a job's gauges are refreshed
SETTLE_SECONDS = 0.5  # how soon the gauges are refreshed when the flow stops
DRAIN_SECONDS = 5.0  # how long a stopping job waits for confirmations in flight
VERIFIED_AT_ONCE = 2  # jobs of an agent whose guarantees are verified at the same time while they run


@dataclass(frozen=True, slots=True)
class Engine:
    """What the jobs of one agent share."""

    hub: Hub
    agent_key: str
    token: int
    clock: Clock
    turns: Turns
    journalist: Journalist
    transform_modules: tuple[str, ...] = ()
    ledger: bool = True
    verify_seconds: float = VERIFY_SECONDS
    connections: Connections = field(default_factory=Connections)
    verify_turns: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(VERIFIED_AT_ONCE))

    def build(self, setup: JobSetup, link: Link, *, cautious: bool) -> Route:
        """The route of a job, not yet open."""
        job = setup.job
        context = RouteContext(
            self.hub,
            self.agent_key,
            self.token,
            job,
            self.clock,
            self.turns,
            self.journalist,
            cautious,
            ledger=self.ledger,
        )
        transform = None
        if setup.transformation is not None:
            transform = compile_transformation(setup.transformation, job=job.name, modules=self.transform_modules)
        inbound = job.propagation_type is Direction.INBOUND
        with self.hub.read() as conn:
            queue = transfer.resolve(conn, job.destination if inbound else job.source)
            declared = payloads.object_type_of(conn, queue)
        if inbound:
            fit = partial(to_payload, payload_type=queue.payload_type, max_payload=queue.max_payload, declared=declared)
            rule = compile_rule(job.rule) if job.rule else None
            exceptions = None
            if setup.exception_use is not None and job.exception_queue:
                # Its messages are written before the source is settled, one batch at a time: it needs no sending log.
                plain = registry.open_link(replace(setup.link, outbound_log_queue=None, inbound_log_queue=None))
                destination = plain.destination(setup.exception_use)
                exceptions = ForeignExceptionQueue(job.exception_queue, job.name, destination, self.clock)
            conversion = Conversion(fit, rule, transform, inbound=True)
            return InboundRoute(context, link.source(setup.use), job.destination, conversion, exceptions)
        conversion = Conversion(
            partial(from_payload, payload_type=queue.payload_type, typed=transform is not None),
            None,
            transform,
            inbound=False,
        )
        destination = link.destination(replace(setup.use, located=self.ledger))
        return OutboundRoute(context, destination, job.source, conversion, job.exception_queue)


class JobRunner:
    """One job on its own thread, from activation until it is stopped, fails for good or the agent loses its lease."""

    def __init__(self, engine: Engine, setup: JobSetup, resets: int = 0) -> None:
        self.setup = setup
        self.resets = resets  # of the definitions it was started with or last reset by
        self.lost: LeaseLost | None = None
        self._engine = engine
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._route: Route | None = None
        self._failures = 0
        self._waits = 0  # for a connection, in a row
        self._cautious = False
        self._activity = Activity.STOPPED
        self._next_sample = 0.0
        self._last_loop = engine.clock.monotonic()
        self._thread = threading.Thread(target=self._run, name=f"job-{setup.job.name}", daemon=True)

    @property
    def name(self) -> str:
        """Name of the job."""
        return self.setup.job.name

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    @property
    def silence(self) -> float:
        """Seconds since the thread last came round its loop."""
        return self._engine.clock.monotonic() - self._last_loop

    def state(self) -> str:
        """What it is doing, in a line for the log."""
        thread = "" if self.alive else ", its thread has ended"
        return f"job {self.name}: {self._activity}, {self._failures} failures, silent for {self.silence:.1f} s{thread}"

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def request_stop(self) -> None:
        """Ask the thread to finish its batch and end."""
        self._stop.set()
        self._wake.set()
        self.interrupt()

    def join(self, timeout: float) -> bool:
        """Wait for the end; False when it did not come in time."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def interrupt(self) -> None:
        """Make a waiting route look again."""
        route = self._route
        if route is not None:
            route.interrupt()

    def reset(self, resets: int) -> None:
        """RESET_JOB was called, for the time ``resets``: failures are forgotten, the next attempt is now."""
        self.resets = resets
        self._failures = 0
        self._wake.set()

    # ------------------------------------------------------------------------------------------------- the thread

    def _run(self) -> None:
        try:
            self._failures = self._stored_failures()
            while not self._stop.is_set():
                self._last_loop = self._engine.clock.monotonic()
                setup = self.setup
                link = setup.link.name
                try:
                    held = self._engine.connections.held(self.name, link, setup.connections, setup.max_connections)
                    with held:
                        self._attempt()
                except LeaseLost as lost:
                    self.lost = lost
                    _LOGGER.error("%s", lost)
                    return
                except GatewayError as error:
                    if not self._failed(error):
                        return
                except Exception as error:
                    _LOGGER.exception("job %s: internal error", self.name)
                    if not self._failed(error):
                        return
        except Exception:
            _LOGGER.exception("job %s ended", self.name)
        finally:
            self._show(Activity.STOPPED, only_if_stopping=True)

    def _stored_failures(self) -> int:
        """Failures in a row before this thread began; waits for a hub that is away."""
        waits = 0
        while not self._stop.is_set():
            try:
                with self._engine.hub.read() as conn:
                    return journal.job_row(conn, self.setup.job.id).failures
            except HubError as error:
                waits += 1
                _LOGGER.warning("job %s waits for the hub: %s", self.name, error)
                self._wake.wait(decide(waits, error, forever=True).delay)
                self._wake.clear()
        return 0

    def _attempt(self) -> None:
        """Connect and carry until stopped; any error ends the attempt."""
        engine, setup = self._engine, self.setup
        self._show(Activity.CONNECTING)
        link = registry.open_link(setup.link)

        def ask() -> GuaranteeReport:
            return weaken(link.verify(setup.use, setup.job.propagation_type), engine.hub)

        report, job = ask(), setup.job
        self._check_required(report)
        route = engine.build(setup, link, cautious=self._cautious)
        watch = GuaranteeWatch(
            job.name,
            ask,
            engine.clock,
            engine.verify_turns,
            engine.verify_seconds,
            strict=job.require_guarantee is not None,
            answered=self.interrupt,
        )
        self._route = route
        try:
            route.open()
            self._keep(report)
            engine.journalist.tell(JobActivated(job.name, job.source, job.destination, report.level))
            changed = self._carry(route, watch, report)
            route.drain(DRAIN_SECONDS)
            if changed is None:
                engine.journalist.tell(JobStopped(job.name))
        finally:
            self._route = None
            route.close()
            watch.close()
        if changed is not None:  # the next attempt begins at once, under the conditions of now
            engine.journalist.tell(GuaranteeChanged(job.name, report.level, changed.level, changed.note))

    @contextmanager
    def _writing(self) -> Iterator[sa.Connection]:
        """A hub transaction that a process which lost the agent cannot commit."""
        with self._engine.hub.write() as conn:
            lease.check_owner(conn, self._engine.agent_key, self._engine.token)
            yield conn

    def _keep(self, report: GuaranteeReport) -> None:
        with self._writing() as conn:
            journal.set_guarantee(conn, self.setup.job.id, report)

    def _check_required(self, report: GuaranteeReport) -> None:
        required = self.setup.job.require_guarantee
        if required is not None and report.level.rank > required.rank:
            self._keep(report)
            raise GatewayError(
                f"job {self.name} requires {required} but can give {report.level} only",
                cause=report.note or "a condition of the link is not met",
                cure="restore the condition, or lower require_guarantee",
            )

    def _carry(self, route: Route, watch: GuaranteeWatch, report: GuaranteeReport) -> GuaranteeReport | None:
        """Carry until the job is stopped (None), or until what it promises is another level than ``report`` says."""
        poll, clock = self.setup.job.poll_seconds, self._engine.clock
        moved = False  # since the last sample
        wait, last = 0.0, float("-inf")  # the first look is quick, so that the state shows at once
        while not self._stop.is_set():
            now = self._last_loop = clock.monotonic()
            counts = route.carry(wait)
            moved = moved or bool(counts.total)
            wait = min(poll, SETTLE_SECONDS if moved else SAMPLE_SECONDS)
            if self._failures and (counts.total or not route.busy):
                self._recovered()
            if counts.total:
                last = clock.monotonic()
                self._show(Activity.RUNNING)
            quiet = clock.monotonic() - last >= SETTLE_SECONDS / 2  # a lull between two batches is no rest
            if now >= self._next_sample or (moved and quiet):
                self._next_sample = now + SAMPLE_SECONDS
                self._sample(route, idle=quiet)
                moved = not quiet
            answer = watch.answer()
            if answer is not None and answer != report:
                if answer.level is not report.level:
                    return answer
                self._keep(report := answer)
        return None

    def _sample(self, route: Route, *, idle: bool) -> None:
        backlog = route.backlog()
        if backlog is not None:
            with self._writing() as conn:
                journal.set_backlog(conn, self.setup.job.id, backlog, now=self._engine.clock.now())
        route.check_stall(backlog)
        if idle:
            self._show(Activity.IDLE)

    def _recovered(self) -> None:
        self._failures = 0
        self._cautious = False
        with self._writing() as conn:
            journal.record_recovery(conn, self.setup.job.id)

    def _failed(self, error: Exception) -> bool:
        """Record a failure and wait for the next attempt; False when there is none."""
        engine, job = self._engine, self.setup.job
        if self._stop.is_set():
            return False
        waiting = isinstance(error, NoConnectionFree)  # counts as no failure: nothing was tried
        self._waits = self._waits + 1 if waiting else 0
        self._failures += not waiting
        self._cautious = isinstance(error, ConversionFailure)
        decision = decide(self._waits or self._failures, error, forever=job.flag("retry_forever"))
        text = str(error) if isinstance(error, GatewayError) else f"internal error, {type(error).__name__}: {error}"
        now = engine.clock.now()
        try:
            with self._writing() as conn:
                journal.record_failure(
                    conn,
                    job.id,
                    status=decision.status,
                    failures=self._failures,
                    error=text,
                    now=now,
                    retry_at=None if decision.delay is None else now + decision.delay,
                )
        except LeaseLost as lost:
            self.lost = lost
            return False
        except HubError as hub_error:
            _LOGGER.warning("failure of job %s not recorded: %s", job.name, hub_error)
            if decision.delay is None:  # the views would show a job that is about to try again, for ever
                decision = decide(1, hub_error, forever=True)
        if isinstance(error, LinkTimeout) and error.operation in {"read", "publish"}:
            engine.journalist.tell(JobStuck(job.name, self.silence, text))
        if decision.delay is None:
            engine.journalist.tell(JobFailed(job.name, self._failures, text))
            return False
        engine.journalist.tell(JobRetrying(job.name, self._failures, decision.delay, text))
        self._activity = Activity.BACKOFF
        self._wake.wait(decision.delay)
        self._wake.clear()
        return not self._stop.is_set()

    def _show(self, activity: Activity, *, only_if_stopping: bool = False) -> None:
        if activity is self._activity or (only_if_stopping and not self._stop.is_set()):
            return
        try:
            with self._writing() as conn:
                journal.set_activity(conn, self.setup.job.id, activity)
            self._activity = activity
        except HubError as error:
            _LOGGER.debug("activity of job %s not recorded: %s", self.name, error)
