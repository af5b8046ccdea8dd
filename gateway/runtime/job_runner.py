"""Builds the route of a job and drives it on a thread of its own: connect, carry, back off, report."""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from dataclasses import asdict

import sqlalchemy as sa

from mgw.gateway.aq import MessageRefused
from mgw.gateway.definitions.objects import Activity, JobStatus, Propagation, key
from mgw.gateway.observe.events import (
    GuaranteeChanged,
    JobActivated,
    JobFailed,
    JobRetrying,
    JobStopped,
    JobStuck,
    Journalist,
)
from mgw.gateway.observe.levels import TRACE_HIGH, TRACE_LITE
from mgw.gateway.runtime.connection_quota import no_file
from mgw.gateway.runtime.engine import Engine
from mgw.gateway.runtime.guarantee_watch import GuaranteeWatch, weaken
from mgw.gateway.runtime.hindrance import Hindrance, limit_of, patience, said
from mgw.gateway.runtime.job_setup import JobSetup
from mgw.gateway.runtime.job_state import JobState
from mgw.gateway.runtime.job_steps import Lookers
from mgw.gateway.runtime.moves import noted
from mgw.gateway.runtime.recovery import give_up, gives_up, missed, missing_by
from mgw.gateway.runtime.rest import waiting
from mgw.gateway.runtime.retry import MAX_AWAY_DELAY, Decision, Kind, Setbacks, decide
from mgw.gateway.runtime.route import Route
from mgw.gateway.state import run_state
from mgw.gateway.state.run_state import Counts
from mgw.links.contract import GuaranteeReport
from mgw.links.nodes import node_of
from mgw.transforms.errors import (
    ConversionFailure,
    DeliveryRejected,
    GatewayError,
    HubError,
    LeaseLost,
    LinkError,
    LinkTimeout,
)

__all__ = ["JobRunner"]

_LOGGER = logging.getLogger("mgw.engine")

SAMPLE_SECONDS = 5.0  # how often a job's gauges are refreshed
SETTLE_SECONDS = 0.5  # how soon the gauges are refreshed when the flow stops
_CONTINUE = "on_missing is continue"
DRAIN_SECONDS = 5.0  # how long a stopping job waits for confirmations in flight
_HINDERED = (Activity.STUCK, Activity.BLOCKED)
_HOPES = (Activity.CONNECTING, Activity.IDLE, Activity.RUNNING)


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
        self.lookers = Lookers()
        self._setbacks = Setbacks(setup.job)
        self._cautious = False
        self._losses: dict[int, int] = {}
        self._given_up = 0  # attempts in a row that found messages missing and gave them up
        self._state = JobState(setup.job)
        self._next_sample = 0.0
        self._last_loop = engine.clock.monotonic()
        self._last_progress = self._last_loop
        self._resting = False
        self._patience = patience(setup.job)
        self._allowed = float("inf")  # seconds for which the thread may be silent now
        self._limit = ""  # that the last attempt failed at, until the job has recovered
        self.thread = threading.Thread(target=self._run, name=f"job-{setup.job.name}", daemon=True)

    @property
    def name(self) -> str:
        """Name of the job."""
        return self.setup.job.name

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self.thread.is_alive()

    @property
    def connected(self) -> bool:
        """Whether it carries messages, or would if there were any: a reset makes it reconnect."""
        return self._route is not None and not self._setbacks

    @property
    def silence(self) -> float:
        """Seconds since the thread last came round its loop; 0 while it waits for its next attempt."""
        return 0.0 if self._resting else self._engine.clock.monotonic() - self._last_loop

    @property
    def trouble(self) -> tuple[float, str, str] | None:
        """Since when it fails (epoch seconds), the last error, and the word for its state."""
        return self._state.trouble

    def state(self) -> list[str]:
        """What it is doing, in lines for the log."""
        route = self._route
        return self._state.lines(
            failures=self._setbacks.failures,
            silence=self.silence,
            alive=self.alive,
            route=[] if route is None else route.state(),
            now=self._engine.clock.now(),
        )

    def start(self) -> None:
        """Start the thread."""
        self.thread.start()

    def request_stop(self) -> None:
        """Ask the thread to finish its batch and end."""
        self._stop.set()
        self._wake.set()
        self.interrupt()

    def join(self, timeout: float) -> bool:
        """Wait for the end; False when it did not come in time."""
        self.thread.join(timeout)
        return not self.thread.is_alive()

    def interrupt(self) -> None:
        """Make a waiting route look again."""
        route = self._route
        if route is not None:
            route.interrupt()

    def reset(self, resets: int) -> None:
        """RESET_JOB was called, for the time ``resets``: failures are forgotten, the next attempt is now."""
        self.resets = resets
        self._setbacks.reset()
        self._wake.set()

    @property
    def overdue(self) -> bool:
        """Whether the thread, which carries messages, should have come round its loop long ago."""
        return self.silence - self._allowed > self._patience

    def stuck(self, where: str) -> Hindrance | None:
        """What the hub is to say of a thread that does not complete its loop, until it does; None: it says that
        already. From another thread.

        Args:
            where: what it does, in words; a limit that is known is told instead.
        """
        route = self._route
        found = None if route is None else route.hindrance(self._patience)
        if found is None or found.activity is not Activity.BLOCKED:
            found = Hindrance(Activity.STUCK, f"its thread {where}", self.silence)
        return found if self._is_news(found) else None

    def write_stuck(self, conn: sa.Connection, found: Hindrance, silence: float) -> bool:
        """Write what :meth:`stuck` found, unless the thread, which was silent for ``silence`` seconds, has come back or
        stopped meanwhile. From another thread."""
        return self.silence >= silence and self._set_hindrance(conn, found, unless_stopped=True)

    def shown(self, found: Hindrance) -> None:
        """It is written."""
        self._state.activity, self._state.reason = found.activity, found.reason
        _LOGGER.info("job %s is %s for %.0f s: %s", self.name, found.activity, found.seconds, found.reason)

    def _is_news(self, found: Hindrance) -> bool:
        """Whether the hub says something else; how many messages are STUCK is no news."""
        same = found.activity is Activity.STUCK or found.reason == self._state.reason
        return found.activity is not self._state.activity or not same

    def _write_hindrance(self, found: Hindrance) -> None:
        with self._engine.writing() as conn:
            self._set_hindrance(conn, found)
        self.shown(found)

    def _set_hindrance(self, conn: sa.Connection, found: Hindrance, *, unless_stopped: bool = False) -> bool:
        since, job_id = self._engine.clock.now() - found.seconds, self.setup.job.id
        return run_state.set_activity(
            conn, job_id, found.activity, now=since, reason=found.reason, unless_stopped=unless_stopped
        )

    # ------------------------------------------------------------------------------------------------- the thread

    def _run(self) -> None:
        try:
            self._setbacks.resume(self._must_recover())
            while not self._stop.is_set():
                self._last_loop = self._last_progress = self._engine.clock.monotonic()
                setup = self.setup
                links = ", ".join(setup.held)
                try:
                    with self._engine.connections.all_held(self.name, setup.held):
                        self._attempt()
                except LeaseLost as lost:
                    self.lost = lost
                    _LOGGER.error("%s", lost)
                    return
                except GatewayError as error:
                    if not (self._go_on(error) if gives_up(self.setup.job, error) else self._failed(error)):
                        return
                except Exception as error:
                    known = no_file(self.name, links, error)
                    if known is None:
                        _LOGGER.exception("job %s: internal error", self.name)
                    if not self._failed(known or error):
                        return
        except Exception:
            _LOGGER.exception("job %s ended", self.name)
        finally:
            self._show(Activity.STOPPED, only_if_stopping=True)

    def _must_recover(self) -> bool:
        """Whether the hub says RETRY when this thread begins; waits for a hub that is away."""
        waits = 0
        while not self._stop.is_set():
            try:
                with self._engine.hub.read() as conn:
                    return run_state.job_row(conn, self.setup.job.id).status is JobStatus.RETRY
            except HubError as error:
                waits += 1
                _LOGGER.warning("job %s waits for the hub: %s", self.name, error)
                self._rest(decide(waits, error, forever=True), error)
        return False

    def _attempt(self) -> None:
        """Connect and carry until stopped; any error ends the attempt."""
        engine, setup, job = self._engine, self.setup.begin(), self.setup.job
        self._show(Activity.CONNECTING)
        names = " and ".join(f"link {end.link.name} ({end.link.type})" for end in setup.ends) or "the hub"
        _LOGGER.log(TRACE_LITE, "job %s connects to %s; %d failures", job.name, names, self._setbacks.failures)
        source, target = (None if end is None else engine.links.link(end.link) for end in (setup.source, setup.target))
        exceptions = None
        if setup.source is not None and setup.exception_use is not None:
            exceptions = engine.links.without_logs(setup.source.link)

        def promised() -> GuaranteeReport:
            return weaken(setup.promised(source, target, exceptions), engine.hub)

        def note(report: GuaranteeReport) -> GuaranteeReport:
            return noted(report, engine.hub, job.id, engine.clock.now())

        def ask() -> GuaranteeReport:
            return note(promised())

        report = promised()
        _LOGGER.log(TRACE_LITE, "job %s can promise %s; %s", self.name, report.level, report.note or "no reservation")
        self._check_required(report)
        route = engine.build(setup, source, target, cautious=self._cautious, losses=self._losses)
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
        self.lookers.follow(route.tap)
        try:
            route.open()
            report = note(report)  # the route has found out whether it is where it was before
            nodes = list(dict.fromkeys(filter(None, map(node_of, (source, target)))))
            self._keep(report, ", ".join(nodes))
            self._note_links(connected=True)
            engine.journalist.tell(
                JobActivated(job.name, job.source, job.destination, report.level, " and ".join(nodes))
            )
            changed = self._carry(route, watch, report)
            self._allowed = float("inf")
            if route.busy:
                self._show(Activity.DRAINING)
            route.drain(DRAIN_SECONDS)
            if changed is None:
                engine.journalist.tell(JobStopped(job.name))
        finally:
            self._route, self._allowed = None, float("inf")
            self._note_links(connected=False)
            route.close()
            watch.close()
            engine.journalist.tell_sums(job.name, all_of_them=True)
        if changed is not None:  # the next attempt begins at once, under the conditions of now
            engine.journalist.tell(GuaranteeChanged(job.name, report.level, changed.level, changed.note))

    def _note_links(self, *, connected: bool) -> None:
        states = self._engine.link_states
        for end in self.setup.ends:
            if connected:
                self._engine.measures.connected(key(end.link.name))
                states.at(end.link.name, node_of(self._engine.links.link(end.link)))
            (states.connected if connected else states.left)(end.link.name, self.name, self._engine.clock.now())

    def _keep(self, report: GuaranteeReport, nodes: str | None = None) -> None:
        self._state.guarantee = report
        with self._engine.writing() as conn:
            run_state.set_guarantee(conn, self.setup.job.id, report, nodes)

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
        began = clock.monotonic()
        moved = False  # since the last sample
        wait, last = 0.0, float("-inf")  # the first look is quick, so that the state shows at once
        while not self._stop.is_set():
            self._allowed = 2 * wait + SETTLE_SECONDS
            now = self._last_loop = clock.monotonic()
            counts = route.carry(wait)
            self._trace(counts, clock.monotonic() - now)
            moved = moved or bool(counts.total)
            settles = moved or bool(self._setbacks)  # which is to show soon
            wait = min(poll, SETTLE_SECONDS if settles else SAMPLE_SECONDS)
            if route.patient and not settles and not self._state.waits:
                wait = waiting(wait, clock.monotonic() - max(last, began), self._engine.verify_seconds)
            if counts.total or not route.busy:
                self._last_progress = clock.monotonic()
            if self._setbacks.over(bool(counts.total), 0.0 if route.busy else self._last_progress - began):
                self._recovered()
            if counts.total:
                self._given_up = 0
                last, self._state.moved = clock.monotonic(), clock.now()
                self._limit = ""
                self._show(Activity.RUNNING)
            else:
                self._look_for_hindrance(route)
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

    def _look_for_hindrance(self, route: Route) -> None:
        """Nothing has moved just now: say what is in the way, or that nothing is any more."""
        found = route.hindrance(self._patience)
        if found is not None:
            if self._is_news(found):
                with suppress(HubError):  # it is looked for again
                    self._write_hindrance(found)
        elif self._state.activity in _HINDERED:
            self._show(Activity.RUNNING if route.busy or self._state.waits else Activity.IDLE)

    def _trace(self, counts: Counts, seconds: float) -> None:
        level = TRACE_HIGH if counts.total else logging.DEBUG
        if _LOGGER.isEnabledFor(level):
            what = ", ".join(f"{value} {name}" for name, value in asdict(counts).items() if value) or "nothing moved"
            _LOGGER.log(level, "job %s: %s, in %.3f s", self.name, what, seconds)

    def _sample(self, route: Route, *, idle: bool) -> None:
        backlog = route.backlog()
        if backlog is not None:
            _LOGGER.debug("job %s: %d messages wait at the source", self.name, backlog.messages)
            now = self._engine.clock.now()
            if self._state.is_news(backlog, now):
                with self._engine.writing() as conn:
                    run_state.set_backlog(conn, self.setup.job.id, backlog, now=now)
        route.check_stall(backlog)
        self._engine.journalist.tell_sums(self.name)
        if idle and not route.busy and not (backlog is not None and backlog.messages):
            self._show(Activity.IDLE)
        elif self._state.activity is Activity.CONNECTING:
            self._show(Activity.RUNNING)

    def _recovered(self) -> None:
        away = self._setbacks.away
        _LOGGER.log(TRACE_LITE, "job %s works again after %d failures", self.name, self._setbacks.failures)
        with self._engine.writing() as conn:
            run_state.record_recovery(conn, self.setup.job.id)
        self._setbacks.clear()
        self._state.recovered()
        self._limit = ""
        self._cautious = False
        if away:
            reaches = self._engine.reaches
            for reach in (reaches.hub, *(reaches.link(end.link.name) for end in self.setup.ends)):
                reach.succeeded()

    def _failed(self, error: Exception) -> bool:
        """Record a failure and wait for the next attempt; False when there is none."""
        engine, setup, job = self._engine, self.setup, self.setup.job
        if self._stop.is_set():
            return False
        self._cautious = isinstance(error, (ConversionFailure, MessageRefused)) or (
            isinstance(error, DeliveryRejected) and job.propagation_type is Propagation.THROUGH
        )
        waited = engine.clock.monotonic() - self._last_progress
        decision = self._setbacks.add(
            error, settling=self._engine.reaches.of(error, setup.failed_link(error)).settling, waited=waited
        )
        failures = 0 if decision.kind is Kind.TURN else decision.failures
        text = said(error)
        now = engine.clock.now()
        # What waits for confirmations does not work from the moment nothing moves, not only when it gives up.
        vain = isinstance(error, LinkTimeout) and error.operation == "publish"
        since = now - waited if vain else now
        limit = limit_of(error) if decision.delay is not None else ""
        self._limit = limit if decision.kind is not Kind.TURN else ""  # an attempt that begins has its connection
        self._state.failed(decision.status, text, since, limit)
        failed = setup.failed_link(error)
        if failed is not None and isinstance(error, LinkError):
            engine.link_states.failed(failed.name, text, now)
            engine.measures.failed(key(failed.name))
        missing = None
        try:
            with self._engine.writing() as conn:
                if decision.delay is None:
                    missing = missed(conn, job, error, now=now)
                run_state.record_failure(
                    conn,
                    job.id,
                    status=decision.status,
                    failures=failures,
                    error=text,
                    now=now,
                    since=since,
                    retry_at=None if decision.delay is None else now + decision.delay,
                    limit=limit,
                )
        except LeaseLost as lost:
            self.lost = lost
            return False
        except HubError as hub_error:
            _LOGGER.warning("failure of job %s not recorded: %s", job.name, hub_error)
            if decision.delay is None:  # the views would show a job that is about to try again, forever
                decision, error = decide(1, hub_error, forever=True), hub_error
        if isinstance(error, LinkTimeout) and error.operation in {"read", "publish"}:
            engine.journalist.tell(JobStuck(job.name, waited, text))
        if missing is not None:
            engine.journalist.tell(missing)
        if decision.delay is None:
            engine.journalist.tell(JobFailed(job.name, failures, text))
            return False
        engine.journalist.tell(JobRetrying(job.name, failures, decision.delay, text))
        self._state.activity = Activity.BLOCKED if limit else Activity.BACKOFF
        self._setbacks.rested(self._rest(decision, error))
        return not self._stop.is_set()

    def _go_on(self, error: GatewayError) -> bool:
        """Give up what is missing at the source and connect again: at once, unless that was in vain before."""
        engine, again = self._engine, self._given_up
        self._given_up += 1
        try:
            with self._engine.writing() as conn:
                event = give_up(conn, self.setup.job, missing_by(error), _CONTINUE, now=engine.clock.now())
        except LeaseLost as lost:
            self.lost = lost
            return False
        except HubError as hub_error:
            return self._failed(hub_error)
        Journalist().tell(event)  # in the hub it is already
        delay = min(2.0**again, MAX_AWAY_DELAY) if again else 0.0
        self._rest(Decision(JobStatus.READY, delay), error)
        return not self._stop.is_set()

    def _rest(self, decision: Decision, error: Exception) -> float:
        """Wait for the next attempt; returns the delay in seconds, 0 where it was cut short."""
        self._resting, self._state.next_attempt = True, self._engine.clock.now() + (decision.delay or 0.0)
        seconds = self._engine.reaches.rest(self._wake, decision, error, self.setup.failed_link(error))
        self._wake.clear()
        self._last_loop = self._engine.clock.monotonic()
        self._resting, self._state.next_attempt = False, None
        return seconds

    def _show(self, activity: Activity, *, only_if_stopping: bool = False) -> None:
        if activity is self._state.activity or (only_if_stopping and not self._stop.is_set()):
            return
        if self._limit and activity in _HOPES:  # whether there is room again shows when something moves
            return
        try:
            with self._engine.writing() as conn:
                run_state.set_activity(conn, self.setup.job.id, activity, now=self._engine.clock.now())
            self._state.activity, self._state.reason = activity, ""
            _LOGGER.debug("job %s is %s", self.name, activity)
        except HubError as error:
            _LOGGER.debug("activity of job %s not recorded: %s", self.name, error)
