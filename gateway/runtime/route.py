"""The life of a batch, implemented once: recover, read, select, write, settle. The order of its lines is the guarantee.

A route has a source and a destination, each of them a link or a queue of the hub (:mod:`gateway.runtime.ends`). Every
batch is completed in one transaction of the hub, together with what its source keeps of its progress:

* Into the hub the messages are put in that transaction, so nothing else is needed. Then the source is told.
* To a link a batch is planned in a transaction before the first byte of it is written, so that after a crash the
  destination's sending log can be asked what happened to it. When the link has confirmed it, it is completed in a
  second one, which also plans the next.

No hub transaction is open while a broker is spoken to. A route is driven by one thread, from ``open`` to ``close``; any
error ends it, and whatever was not settled or completed comes again with the next route of the job.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import sqlalchemy as sa

from mgw.gateway.aq import Hub
from mgw.gateway.definitions.objects import JobDef
from mgw.gateway.ledger.store import record_break
from mgw.gateway.observe.batch_trace import trace_left
from mgw.gateway.observe.events import Journalist, ResendSpared
from mgw.gateway.observe.measures import Measures
from mgw.gateway.observe.spans import BatchSpans
from mgw.gateway.runtime.ends.contract import DestinationEnd, RefusedByHub, SourceEnd, Stored
from mgw.gateway.runtime.fair_semaphore import Turns
from mgw.gateway.runtime.hindrance import Hindrance
from mgw.gateway.runtime.job_steps import See
from mgw.gateway.runtime.moves import arrive_at_target
from mgw.gateway.runtime.plan_requests import PlanningFailed, PlanRequests
from mgw.gateway.runtime.recovery import check_sending_log
from mgw.gateway.runtime.resting_queues import RestingQueues
from mgw.gateway.runtime.sizing import Caution, Sizing
from mgw.gateway.state import lease, run_state
from mgw.gateway.state.run_state import Counts, JobRow
from mgw.links.contract import Backlog, Recovered
from mgw.transforms.clock import Clock
from mgw.transforms.errors import ConversionFailure, GatewayError, HubUnavailable, LeaseLost

__all__ = ["LAST_SECONDS", "STALL_SECONDS", "Route", "RouteContext"]

STALL_SECONDS = 60.0  # nothing moved for so long although something should have: the connection is rebuilt
LAST_SECONDS = 5.0  # how long a route that fails waits for what is on its way: else it is sent once more
MAYBE_SENT = "an earlier attempt failed and may have sent it"


@dataclass(frozen=True, slots=True)
class RouteContext:
    """What a route shares with its agent."""

    hub: Hub
    agent_key: str
    token: int
    job: JobDef
    clock: Clock
    turns: Turns
    journalist: Journalist
    cautious: bool = False  # one message at a time: find the one that cannot be converted
    stall_seconds: float = STALL_SECONDS
    ledger: bool = True  # record what happens to every message
    #: How often the connection was lost over a message that was sent alone, by its id, in all attempts of the job.
    losses: dict[int, int] = field(default_factory=dict)
    requests: PlanRequests = field(default_factory=PlanRequests)  # of the routes that wait for messages of the hub
    resting: RestingQueues | None = None  # None: every route looks by itself
    spans: BatchSpans | None = None  # traces of its batches; None: nobody asks for any
    measures: Measures = field(default_factory=Measures)

    def open_ledger(self, sequence: int | None = None) -> None:
        """A job that runs without the ledger leaves a mark there, so that the gap explains itself."""
        if not self.ledger:
            with self.hub.write() as conn:
                record_break(conn, self.job.id, "the ledger is off", sequence=sequence, now=self.clock.now())


class Route:
    """Carries the messages of one job from its source to its destination."""

    def __init__(self, context: RouteContext, source: SourceEnd, destination: DestinationEnd) -> None:
        self._context = context
        self._source = source
        self._destination = destination
        job = context.job
        self._measured = context.measures.job(job.id)
        self._caution = Caution(Sizing.between(job.batch_size, job.batch_limit), cautious=context.cautious)
        self._sequence = 0  # of the plan made last
        self._left: deque[Any] = deque()  # plans of a predecessor, to be sent again
        self._unsubscribe: Callable[[], None] | None = None
        self._due = True  # messages may wait that no plan has
        self._news: deque[None] = deque(maxlen=2)  # one for each time that messages came lately, from any thread

    # ------------------------------------------------------------------------------------------------------- recover

    def open(self) -> None:
        """Connect both ends; learn from the sending log what is there, and keep the plans that are not."""
        self._load(first=True)
        self._unsubscribe = self._source.listen(self._came)

    def _came(self) -> None:
        """From any thread: messages came to the queue of the hub."""
        self._news.append(None)
        self._destination.interrupt()

    def _load(self, *, first: bool = False) -> None:
        context = self._context
        row, plans = self._source.load()
        self._sequence = row.plan_sequence
        if first:
            context.open_ledger(row.plan_sequence if self._source.planned else None)
        recovered = self._destination.open()
        self._caution.bound(self._destination.largest_batch)
        row = self._arrive(row, plans, recovered)
        done = self._proven(row, recovered)
        self._complete_stored([plan for plan in plans if self._source.sequence_of(plan) <= done])
        self._left.extend(self._source.begin([plan for plan in plans if self._source.sequence_of(plan) > done]))
        trace_left(context.job.name, len(plans), len(self._left))

    def _arrive(self, row: JobRow, plans: Sequence[Any], recovered: Recovered | None) -> JobRow:
        """What the hub knows of the sending log belongs to the place where the destination was connected before."""
        context, place = self._context, self._destination.place()
        if place is None:
            return row
        done = (recovered.sequence or 0) if recovered is not None and recovered.sure else 0
        doubtful = sum(self._source.sequence_of(plan) > done for plan in plans)
        with context.hub.write() as conn:
            lease.check_owner(conn, context.agent_key, context.token)
            row, moved = arrive_at_target(conn, context.job, place, row, doubtful, now=context.clock.now())
        if moved is not None:
            context.journalist.tell(moved)
        return row

    def _proven(self, row: JobRow, recovered: Recovered | None) -> int:
        """Up to which plan the sending log proves that the destination has everything."""
        context = self._context
        check_sending_log(context.job, row, recovered)
        done = (recovered.sequence or 0) if recovered is not None else 0
        if row.log_sequence == run_state.LOG_RESET:
            self._sequence = max(self._sequence, done)  # new batches must not look like old ones
        if recovered is None and row.log_sequence is not None:
            with context.hub.write() as conn:
                run_state.forget_log(conn, context.job.id)
        return 0 if recovered is None or not recovered.sure else done

    def _complete_stored(self, stored: Sequence[Any]) -> None:
        """Complete the plans that the sending log proves stored: a crash came between confirmation and completion."""
        if not stored:
            return
        finished = [self._source.revive(plan, self._destination.encode) for plan in stored]
        counts = Counts()
        self._settle(finished, 0, counts)
        context = self._context
        context.journalist.tell(ResendSpared(context.job.name, counts.suppressed, finished[-1].sequence))

    # ---------------------------------------------------------------------------------------------------- the batches

    def carry(self, wait: float) -> Counts:
        """Carry what is there now; with nothing to do, wait up to ``wait`` seconds.

        Raises:
            GatewayError: nothing is lost; what is not settled or completed comes again.
        """
        counts = Counts()
        self._carry(wait, counts)
        return counts

    def _carry(self, wait: float, counts: Counts) -> None:
        source, destination = self._source, self._destination
        if self._left:
            self._resend()
        if source.reads:
            self._read(wait)
        finished = self._finished()
        room = 0 if self._left else self._room()
        planned: Sequence[Any] = ()
        if finished or (source.planned and (self._due or self._news) and source.plans(room)):
            planned = self._settle(finished, room, counts)
        self._send(planned)
        if finished or planned:
            if counts.total:
                self._caution.passed(counts.total)
            return
        self._caution.passed(0)
        destination.check_stall()
        self._rest(wait)

    def _room(self) -> int:
        """Messages that may be planned now; none where a whole batch waits and only a part of it would fit."""
        room = self._destination.room
        return 0 if self._destination.busy and self._caution.prefers_more(room) else room

    def _rest(self, wait: float) -> None:
        """Nothing is to be done: wait, unless reading has waited. What comes meanwhile may be planned already."""
        if self._wait(wait) and self._destination.confirms and not (self._due or self._news):
            self._wait(wait)

    def _wait(self, wait: float) -> bool:
        """Wait for messages and confirmations; whether messages came that were planned, and sent."""
        source, destination, size = self._source, self._destination, self._caution.limit()
        room = 0 if self._left or size == 1 else self._room()
        if source.awaited is None or room <= 0:
            if not source.reads:
                destination.wait(min(wait, source.rest or wait))
            self._due = True
            return False
        plan = partial(source.plan, sequence=self._sequence, size=size, room=room, completes=True)
        planned = self._context.requests.during(partial(destination.wait, wait), source.awaited, plan)
        if not planned:
            self._due = True
            return False
        if self._news:
            self._news.popleft()  # those that were planned; if it told of others, that of these is to come
        self._note(planned, min(size, room))
        self._due = self._caution.sizing.full
        self._send(planned)
        return True

    def _finished(self) -> Sequence[Any]:
        """Batches that the destination has."""
        return self._destination.finished()

    def _read(self, wait: float) -> None:
        """Read a batch, and write what is selected of it."""
        found = self._read_batch(self._caution.limit(), wait)
        if found is not None:
            self._write_read(*found)

    def _read_batch(self, limit: int, wait: float) -> tuple[Any, Sequence[Any]] | None:
        """Read a batch and select of it: the batch, and what is to be written."""
        taken = self._source.read(limit, wait)
        if taken is None:
            return None
        weight = taken.weight
        self._caution.came(limit, taken.size, weight)
        self._measured.came(taken.size, weight)
        self._destination.weigh(self._caution.sizing)
        try:
            with self._context.turns.take():
                return self._select(taken)
        except ConversionFailure:
            self.drain(LAST_SECONDS)
            raise

    def _select(self, planned: Any, remark: str = "") -> tuple[Any, Sequence[Any]]:
        """Select of a batch, and convert it: the batch, and what is to be written."""
        spans = self._context.spans
        if spans is None:
            return self._source.select(planned, self._destination.encode, remark)
        spans.selecting()
        batch, forms = self._source.select(planned, self._destination.encode, remark)
        spans.selected(batch, len(forms))
        return batch, forms

    def _write_read(self, batch: Any, forms: Sequence[Any]) -> None:
        """What is put into the hub needs no plan."""
        self._destination.write(batch, forms)

    def _send(self, planned: Sequence[Any]) -> None:
        """Select and write what is planned."""
        for index, plan in enumerate(planned):
            try:
                with self._context.turns.take():
                    batch, forms = self._select(plan)
            except ConversionFailure:
                self._take_back(planned[index:])
                self.drain(LAST_SECONDS)
                raise
            self._publish(batch, forms)

    def _publish(self, batch: Any, forms: Sequence[Any]) -> None:
        if self._destination.logged and not self._part_from_unsent(batch):
            return
        self._destination.write(batch, forms)

    def _resend(self) -> None:
        """Write again what was planned and is not known to be there."""
        while self._left and self._may_resend():
            try:
                batch, forms = self._select(self._left[0], MAYBE_SENT)
            except ConversionFailure:
                self.drain(LAST_SECONDS)  # what went before it is not sent once more at every attempt
                raise
            self._left.popleft()
            self._publish(batch, forms)
            self._measured.resent += batch.sent

    def _may_resend(self) -> bool:
        return self._destination.room > 0

    # --------------------------------------------------------------------------------------------------------- settle

    def _settle(self, finished: Sequence[Any], room: int, counts: Counts) -> Sequence[Any]:
        """Complete what the destination has and plan what is there, in one transaction of the hub; then acknowledge.

        Where something of it is refused, what a link has is completed all the same: else it is sent once more at every
        attempt.
        """
        spans = self._context.spans
        try:
            with nullcontext() if spans is None or not finished else spans.during(finished[0]):
                planned = self._transact(finished, room, counts)
        except Exception as error:
            if self._destination.planned and not isinstance(error, (HubUnavailable, LeaseLost)):
                with suppress(GatewayError):  # the first reason is the one to tell
                    self._rescue(finished)
                    self._await_confirmations(LAST_SECONDS, self._rescue)
            raise
        self._source.settle(finished)
        if spans is not None:
            spans.settled(finished)
        return planned

    def _transact(self, finished: Sequence[Any], room: int, counts: Counts) -> Sequence[Any]:
        """The transaction; a message that a queue of the hub refuses leaves its batch, and it is tried again."""
        while True:
            self._source.prepare(finished)
            try:
                with self._context.turns.take():
                    return self._complete_and_plan(finished, room, counts)
            except RefusedByHub as refusal:
                self._source.refuse(refusal)

    def _complete_and_plan(self, finished: Sequence[Any], room: int, counts: Counts) -> Sequence[Any]:
        try:
            return self._in_one_transaction(finished, room, counts, self._context.requests)
        except PlanningFailed:
            return self._in_one_transaction(finished, room, counts, PlanRequests())

    def _in_one_transaction(
        self, finished: Sequence[Any], room: int, counts: Counts, requests: PlanRequests
    ) -> Sequence[Any]:
        context, source, size = self._context, self._source, self._caution.limit()
        stored, planned, plans = Stored(), list[Any](), source.planned and room > 0 and not self._left
        begun = context.clock.monotonic()
        if plans:
            self._news.clear()
        with requests.answering() as answers, context.hub.write() as conn:
            lease.check_owner(conn, context.agent_key, context.token)
            if finished:
                self._complete(conn, finished, stored)
            if plans:
                completes = bool(finished) or self._destination.busy
                planned += source.plan(conn, self._sequence, size, room, completes=completes)
            answers.plan(conn, stored.queues)
        self._measure(finished, context.clock.monotonic() - begun)
        if plans:
            self._note(planned, min(size, room))
            self._due = source.awaited is None or self._caution.sizing.full or size == 1
        counts.add(stored.counts)
        self._tell(stored)
        return planned

    def _measure(self, finished: Sequence[Any], seconds: float) -> None:
        """A transaction took so long, and is committed."""
        context = self._context
        kind = "plan" if not finished else "complete" if self._destination.planned else "store"
        context.measures.transaction(kind, seconds)
        if finished:
            self._source.committed(finished, context.clock.now())

    def _note(self, planned: Sequence[Any], asked: int) -> None:
        """So much is planned, and durable."""
        source = self._source
        if planned:
            self._sequence = source.sequence_of(planned[-1])
        if not source.reads:  # else it was noted when it was read
            weights = [plan.weight for plan in planned]
            self._caution.came(asked, sum(plan.size for plan in planned), sum(weights))
            for plan, weight in zip(planned, weights, strict=True):
                self._measured.came(plan.size, weight)
            self._destination.weigh(self._caution.sizing)

    def _complete(self, conn: sa.Connection, finished: Sequence[Any], stored: Stored) -> None:
        context, source = self._context, self._source
        now = context.clock.now()
        source.admit(conn, finished, now)
        self._destination.store(conn, finished, stored, now)
        source.complete(conn, finished, stored, now)
        if context.ledger:
            source.record(conn, finished, now)
        if source.planned:
            run_state.delete_plans(conn, context.job.id, [batch.sequence for batch in finished])
        sent = [batch.sequence for batch in finished if batch.sent] if self._destination.logged else []
        run_state.count(conn, context.job.id, stored.counts, now=now, log_sequence=max(sent, default=None))

    def _tell(self, stored: Stored) -> None:
        """After the commit: wake who waits for messages, and write the events."""
        if stored.queues:
            self._context.hub.notifier.committed(stored.queues)
        for event in stored.events:
            self._context.journalist.tell(event)

    def _rescue(self, finished: Sequence[Any]) -> None:
        """Complete all of it if only the planning failed, else what the destination has."""
        if not finished:
            return
        try:
            with self._context.turns.take():
                self._complete_and_plan(finished, 0, Counts())
        except Exception:
            self._keep(finished)
        else:
            self._source.settle(finished)

    def _keep(self, finished: Sequence[Any]) -> None:
        """Complete what the destination has and nothing else, where the rest of it is refused."""

    def _part_from_unsent(self, batch: Any) -> bool:  # noqa: ARG002  here nothing is sent without the rest
        """What has expired or is refused leaves a plan before the rest is sent; whether there is a rest."""
        return True

    def _take_back(self, plans: Sequence[Any]) -> None:
        """Plans of which not one byte was sent."""
        context = self._context
        with context.hub.write() as conn:
            lease.check_owner(conn, context.agent_key, context.token)
            note = "a message of the batch cannot be converted"
            self._source.take_back(conn, plans, context.clock.now(), note)

    # ---------------------------------------------------------------------------------------------------------- state

    @property
    def busy(self) -> bool:
        """Whether messages are planned or on their way."""
        return bool(self._left) or self._destination.busy

    def state(self) -> list[str]:
        """What its ends have in hand, in lines for the log; any thread may ask."""
        again = f", {len(self._left)} plans of an earlier attempt are sent again" if self._left else ""
        plan = f"plan: {self._sequence} was made last{again}"
        ends = [f"source: {self._source.state()}", f"destination: {self._destination.state()}"]
        return [*([plan] if self._source.planned else []), *ends]

    @property
    def patient(self) -> bool:
        """Whether nothing has to be done while the source waits for messages, for a while."""
        return self._source.patient and not self._destination.planned

    def backlog(self) -> Backlog | None:
        """What waits at the source, where only the route can tell."""
        return self._source.backlog()

    def hindrance(self, patience: float) -> Hindrance | None:
        """What keeps messages from moving; None: nothing does, or nothing is to be moved. From any thread.

        Args:
            patience: seconds without progress that are nothing to speak of, unless a limit is known.
        """
        return self._destination.hindrance(patience) or self._source.hindrance(patience)

    def check_stall(self, backlog: Backlog | None) -> None:
        """Refuse to look healthy while messages wait and none moves.

        Raises:
            LinkTimeout: so that the connection is torn down and rebuilt.
        """
        self._source.check_stall(backlog)

    def drain(self, seconds: float) -> None:
        """Wait up to ``seconds`` for what is in flight and complete it, and until the source has taken what was
        acknowledged; start nothing new."""
        deadline = self._context.clock.monotonic() + seconds
        self._await_confirmations(seconds, lambda finished: self._settle(finished, 0, Counts()))
        self._source.await_settled(deadline - self._context.clock.monotonic())

    def _await_confirmations(self, seconds: float, settle: Callable[[Sequence[Any]], object]) -> None:
        clock, destination = self._context.clock, self._destination
        deadline = clock.monotonic() + seconds
        while destination.busy:
            finished = self._finished()
            if finished:
                settle(finished)
            elif (left := deadline - clock.monotonic()) <= 0:
                break
            else:
                destination.wait(min(left, 0.5))

    def tap(self, see: See | None) -> None:
        """From any thread: let somebody see what messages become; None: nobody any more."""
        self._source.tap(see)

    def interrupt(self) -> None:
        """From any thread: make a waiting ``carry`` return."""
        self._source.interrupt()
        self._destination.interrupt()

    def close(self) -> None:
        """Disconnect; what is not settled or completed comes again with the next route of this job."""
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        if self._context.spans is not None:
            self._context.spans.close()
        self._destination.close()
        self._source.close()
