"""Carries messages from a hub queue to a link: plan, convert, publish, confirm, complete.

A plan is durable before the first byte of it leaves. Several plans are in flight, completed strictly in order; plans
that a crash left are sent again exactly as they were made, before anything new.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b
from typing import Any

from gateway import journal, lease, ledger
from gateway.aq import transfer
from gateway.aq.errors import NotEnabledForDequeue
from gateway.batchtrace import trace_flight, trace_left
from gateway.conversion import Conversion
from gateway.events import MessagesExceptioned, MessagesOverdue, ResendSpared
from gateway.flight import Flight
from gateway.journal import Counts, Plan
from gateway.recovery import check_plan, check_sending_log
from gateway.route import Caution, RouteContext
from links.contract import Backlog, Destination
from transforms.convert import for_exception_queue
from transforms.errors import ConversionFailure, GatewayError, HubUnavailable, LeaseLost, LinkTimeout
from transforms.message import Message

__all__ = ["OutboundRoute"]

WINDOW_MESSAGES = 4000  # messages published and not yet confirmed, per job
PLANS_PER_CLAIM = 8  # batches planned in one hub transaction at most
MAYBE_SENT = "an earlier attempt failed and may have sent it"
LAST_SECONDS = 5.0  # how long a route that fails waits for what is on its way: else it is sent once more


class OutboundRoute:
    """Carries messages from a hub queue to a link."""

    def __init__(
        self,
        context: RouteContext,
        destination: Destination,
        queue_name: str,
        conversion: Conversion,
        exception_queue: str | None,
        *,
        window: int = WINDOW_MESSAGES,
    ) -> None:
        self._context = context
        self._destination = destination
        self._queue_name = queue_name
        self._convert = conversion.apply
        self._exception_name = exception_queue
        self._caution = Caution(context)
        self._window = max(window, 2 * context.job.batch_size)
        self._flights: deque[Flight] = deque()
        self._in_flight = 0
        self._left: deque[tuple[Plan, list[transfer.Claimed]]] = deque()
        self._unsubscribe: Any = None
        self._last_confirmed = context.clock.monotonic()

    def open(self) -> None:
        """Connect the destination, learn from its sending log what is there, queue up the plans that are not."""
        self._load(first=True)
        self._unsubscribe = self._context.hub.notifier.subscribe([self._queue.id], self._destination.interrupt)

    def _load(self, *, first: bool = False) -> None:
        context = self._context
        with context.hub.read() as conn:
            queue = self._queue = transfer.resolve(conn, self._queue_name)
            self._consumer = context.job.subscriber if queue.multiple_consumers else None
            self._exception_queue = transfer.resolve(conn, self._exception_name) if self._exception_name else None
            row = journal.job_row(conn, context.job.id)
            plans = journal.load_plans(conn, context.job.id)
            left = [(plan, transfer.load(conn, queue, self._consumer, plan.ids)) for plan in plans]
        self._sequence = row.plan_sequence
        if first:
            context.open_ledger(row.plan_sequence)
        self._destination.connect()
        recovered = self._destination.recovered()
        self._logged = recovered is not None
        check_sending_log(context.job, row, recovered)
        done = (recovered.sequence or 0) if recovered is not None else 0
        if row.log_sequence == journal.LOG_RESET:
            self._sequence = max(self._sequence, done)  # new batches must not look like old ones
        if not self._logged and row.log_sequence is not None:
            with context.hub.write() as conn:
                journal.forget_log(conn, context.job.id)
        if recovered is not None and not recovered.sure:
            done = 0
        self._complete_stored([entry for entry in left if entry[0].sequence <= done])
        for plan, claimed in left:
            if plan.sequence > done:
                check_plan(context.job, plan, len(claimed))
                self._left.append((plan, claimed))
        trace_left(context.job.name, len(left), len(self._left))

    def _complete_stored(self, stored: Sequence[tuple[Plan, list[transfer.Claimed]]]) -> None:
        """Complete the plans that the sending log proves stored: a crash came between confirmation and completion."""
        if not stored:
            return
        flights = [self._convert_plan(plan, claimed, sent_before=True)[0] for plan, claimed in stored]
        counts = Counts()
        self._settle(flights, 0, counts)
        context = self._context
        context.journalist.tell(ResendSpared(context.job.name, counts.suppressed, flights[-1].sequence))

    def carry(self, wait: float) -> Counts:
        """Complete what is confirmed, plan and send what is there; with nothing to do, wait up to ``wait`` seconds.

        Raises:
            GatewayError: what is not completed stays planned and is sent again.
        """
        counts = Counts()
        self._carry(wait, counts)
        return counts

    def _carry(self, wait: float, counts: Counts) -> None:
        if self._left:
            self._resend()
        finished = self._take_confirmed()
        room = self._window - self._in_flight
        planned: list[tuple[Plan, list[transfer.Claimed]]] = []
        if finished or room > 0:
            planned = self._settle(finished, room, counts)
        self._send(planned)
        if not finished and not planned:
            self._caution.passed(0)
            self._check_flight()
            self._destination.confirmed(wait if not self._flights else min(wait, 1.0))
        else:
            self._caution.passed(counts.total)

    def _resend(self) -> None:
        while self._left and self._may_resend():
            plan, claimed = self._left[0]
            try:
                flight = self._convert_plan(plan, claimed, remark=MAYBE_SENT)
            except ConversionFailure:
                self.drain(LAST_SECONDS)  # what went before it is not sent once more at every attempt
                raise
            self._left.popleft()
            self._publish(*flight)

    def _may_resend(self) -> bool:
        return self._in_flight < self._window

    def _take_confirmed(self) -> list[Flight]:
        if not self._flights:
            return []
        confirmed = self._destination.confirmed(0)
        finished = []
        while self._flights:
            flight = self._flights[0]
            if flight.sent and (confirmed is None or flight.sequence > confirmed):
                break
            finished.append(self._flights.popleft())
            self._in_flight -= len(flight.ids)
        if finished:
            self._last_confirmed = self._context.clock.monotonic()
            for flight in finished:
                trace_flight(self._context.job.name, flight, "confirmed")
            if self._context.ledger:
                now, located = self._context.clock.now(), self._destination.located
                for flight in finished:
                    if flight.sent:
                        flight.confirmed_at, flight.placement = now, located(flight.sequence)
        return finished

    def _settle(
        self, finished: Sequence[Flight], room: int, counts: Counts
    ) -> list[tuple[Plan, list[transfer.Claimed]]]:
        """Complete what is confirmed and plan what is there, in one transaction of the hub.

        Where something of it is refused, what is confirmed is completed all the same: else it is sent once more at
        every attempt.
        """
        try:
            with self._context.turns.take():
                return self._complete_and_plan(finished, room, counts)
        except Exception as error:
            if not isinstance(error, (HubUnavailable, LeaseLost)):
                with suppress(GatewayError):  # the first reason is the one to tell
                    self._rescue(finished)
                    self._await_confirmations(LAST_SECONDS, self._rescue)
            raise

    def _rescue(self, finished: Sequence[Flight]) -> None:
        """Complete all of it if only the planning failed, else what the destination has."""
        if not finished:
            return
        try:
            with self._context.turns.take():
                self._complete_and_plan(finished, 0, Counts())
        except Exception:
            self._keep(finished)

    def _keep(self, finished: Sequence[Flight]) -> None:
        """Complete what is confirmed and nothing else; refused messages stay set aside, on plans of their own.

        They get new numbers: that the sending log has the old ones, or later ones, proves nothing of them.
        """
        last = max((flight.sequence for flight in (*finished, *self._flights) if flight.sent), default=0)
        kept = [flight for flight in finished if flight.ends or flight.sequence < last]
        if not kept:
            return
        context, now = self._context, self._context.clock.now()
        job_id, parted = context.job.id, [flight for flight in kept if flight.refused]
        unsent = [(flight.sequence, flight.ids) for flight in parted if not flight.ends]
        plans = [
            Plan(self._sequence + number, tuple(entry.id for entry in flight.refused))
            for number, flight in enumerate(parted, 1)
        ]
        counts = Counts()
        with context.turns.take(), context.hub.write() as conn:
            lease.check_owner(conn, context.agent_key, context.token)
            for flight in parted:  # the ledger records batches as they are planned
                if flight.ends:
                    journal.alter_plan(conn, job_id, Plan(flight.sequence, flight.without_refused().ids))
            self._complete(conn, [flight.without_refused() for flight in kept if flight.ends], counts)
            if context.ledger:
                note = "the exception queue does not take the batch"
                ledger.record_returned(conn, job_id, unsent, now=now, note=note)
            journal.delete_plans(conn, job_id, [sequence for sequence, _ in unsent])
            if plans:
                journal.add_plans(conn, job_id, plans, token=context.token, now=now)
        self._sequence += len(plans)
        self._tell_overdue(counts)

    def _complete_and_plan(
        self, finished: Sequence[Flight], room: int, counts: Counts
    ) -> list[tuple[Plan, list[transfer.Claimed]]]:
        context = self._context
        job, now = context.job, context.clock.now()
        size = self._caution.limit()
        limit = min(room, size * PLANS_PER_CLAIM if size > 1 else 1)
        planned: list[tuple[Plan, list[transfer.Claimed]]] = []
        with context.hub.write() as conn:
            lease.check_owner(conn, context.agent_key, context.token)
            if finished:
                self._complete(conn, finished, counts)
            if limit > 0 and not self._left and (claimed := self._claim(conn, limit, completes=bool(finished))):
                for start in range(0, len(claimed), size):
                    batch = claimed[start : start + size]
                    sequence = self._sequence + 1 + start // size
                    planned.append((Plan(sequence, tuple(entry.id for entry in batch)), batch))
                journal.add_plans(conn, job.id, [plan for plan, _ in planned], token=context.token, now=now)
        if planned:
            self._sequence = planned[-1][0].sequence
        self._tell_overdue(counts)
        for flight in finished:
            if flight.refused:
                name = self._exception_name or ""
                reason = flight.reasons[flight.refused[-1].id]
                context.journalist.tell(MessagesExceptioned(job.name, len(flight.refused), name, reason))
        if self._exception_queue is not None and counts.exceptioned:
            context.hub.notifier.committed([self._exception_queue.id])
        return planned

    def _tell_overdue(self, counts: Counts) -> None:
        if counts.discarded:
            self._context.journalist.tell(MessagesOverdue(self._context.job.name, counts.discarded))

    def _claim(self, conn: Any, limit: int, *, completes: bool) -> list[transfer.Claimed]:
        """Messages for new plans: none where the queue was stopped and something is on its way, which is completed."""
        try:
            return transfer.claim(conn, self._queue, self._consumer, limit)
        except NotEnabledForDequeue:
            if completes or self._flights:
                return []
            raise

    def _complete(self, conn: Any, finished: Sequence[Flight], counts: Counts) -> None:
        queue, consumer = self._queue, self._consumer
        consumed = [message_id for flight in finished for message_id in flight.consumed]
        refused = [entry for flight in finished for entry in flight.refused]
        if consumed:
            transfer.complete(conn, queue, consumer, consumed)
        if refused and self._exception_queue is not None:
            transfer.move(conn, queue, consumer, refused, self._exception_queue)
        if expired := [number for flight in finished for number in flight.expired]:
            transfer.release(conn, queue, consumer, expired)  # for the time manager
            counts.discarded += len(expired)
        filtered = sum(len(flight.filtered) for flight in finished)
        counts.filtered += filtered
        counts.propagated += len(consumed) - filtered
        counts.exceptioned += len(refused)
        counts.suppressed += sum(len(flight.consumed) for flight in finished if flight.sent_before)
        sent = [flight.sequence for flight in finished if flight.sent] if self._logged else []
        job_id, now = self._context.job.id, self._context.clock.now()
        if self._context.ledger:
            ledger.record_completed(conn, job_id, [flight.ended() for flight in finished], now=now)
        journal.delete_plans(conn, job_id, [flight.sequence for flight in finished])
        journal.count(conn, job_id, counts, now=now, log_sequence=max(sent, default=None))

    def _send(self, planned: Sequence[tuple[Plan, list[transfer.Claimed]]]) -> None:
        for index, (plan, claimed) in enumerate(planned):
            try:
                with self._context.turns.take():
                    flight = self._convert_plan(plan, claimed)
            except ConversionFailure:
                self._take_back([entry for entry, _ in planned[index:]])
                self.drain(LAST_SECONDS)
                raise
            self._publish(*flight)

    def _convert_plan(
        self, plan: Plan, claimed: Sequence[transfer.Claimed], *, sent_before: bool = False, remark: str = ""
    ) -> tuple[Flight, list[Any]]:
        """``remark``: what the ledger says of messages that have expired."""
        flight = Flight(plan.sequence, plan.ids, sent_before=sent_before)
        encoded: list[Any] = []
        encode, convert = self._destination.encode, self._convert
        now = self._context.clock.now()
        for message_id, message in claimed:
            if message.expires_at is not None and message.expires_at <= now and not sent_before:
                flight.expired[message_id] = remark
                continue
            try:
                results = [encode(result) for result in _identified(convert(message))]
            except ConversionFailure as failure:
                if self._exception_queue is None:
                    raise
                name = self._context.job.name
                original = for_exception_queue(message, failure, name, self._queue_name)
                flight.refused.append(transfer.Claimed(message_id, original))
                flight.reasons[message_id] = str(failure)
                continue
            flight.consumed.append(message_id)
            if len(results) == 1:
                encoded += results
            elif results:
                encoded += results
                flight.parts[message_id] = len(results)
            else:
                flight.filtered.append(message_id)
        flight.sent = len(encoded)
        return flight, encoded

    def _publish(self, flight: Flight, encoded: Sequence[Any]) -> None:
        if flight.expired and self._logged and not self._part_from_expired(flight):
            return
        if not self._flights:
            self._last_confirmed = self._context.clock.monotonic()
        self._flights.append(flight)
        self._in_flight += len(flight.ids)
        if encoded:
            self._destination.publish(flight.sequence, encoded)
            trace_flight(self._context.job.name, flight, "sent")
            flight.sent_at = self._context.clock.now()

    def _part_from_expired(self, flight: Flight) -> bool:
        """What has expired leaves a plan before the rest is sent: after a crash the number of the plan in the sending
        log would else prove that it was sent, too. Returns whether there is a rest."""
        context, job_id, counts = self._context, self._context.job.id, Counts()
        rest = tuple(number for number in flight.ids if number not in flight.expired)
        gone = Flight(self._sequence + 1, tuple(flight.expired), expired=flight.expired) if rest else flight
        with context.turns.take(), context.hub.write() as conn:
            lease.check_owner(conn, context.agent_key, context.token)
            if rest:
                plan = Plan(gone.sequence, gone.ids)
                journal.add_plans(conn, job_id, [plan], token=context.token, now=context.clock.now())
                journal.alter_plan(conn, job_id, Plan(flight.sequence, rest))
            self._complete(conn, [gone], counts)
        if rest:
            self._sequence = gone.sequence
            flight.ids, flight.expired = rest, {}
        self._tell_overdue(counts)
        return bool(rest)

    def _take_back(self, plans: Sequence[Plan]) -> None:
        """Plans of which not one byte was sent go back to READY, position unchanged."""
        context = self._context
        with context.hub.write() as conn:
            lease.check_owner(conn, context.agent_key, context.token)
            ids = [message_id for plan in plans for message_id in plan.ids]
            transfer.release(conn, self._queue, self._consumer, ids)
            if context.ledger:
                taken = [(plan.sequence, plan.ids) for plan in plans]
                note = "a message of the batch cannot be converted"
                ledger.record_returned(conn, context.job.id, taken, now=context.clock.now(), note=note)
            journal.delete_plans(conn, context.job.id, [plan.sequence for plan in plans])

    def _check_flight(self) -> None:
        silence = self._context.clock.monotonic() - self._last_confirmed
        if self._flights and silence > self._context.stall_seconds:
            raise LinkTimeout(
                f"{self._in_flight} messages sent to {self._context.job.destination} are not confirmed "
                f"for {silence:.0f} s",
                operation="publish",
                cause="the messaging system is blocked or the connection is stuck",
                cure="the connection is rebuilt now and the messages are sent again; check the system's alarms",
            )

    @property
    def busy(self) -> bool:
        """Whether messages are planned or on their way."""
        return bool(self._flights or self._left)

    def check_stall(self, backlog: Backlog | None) -> None:
        """Flights are watched by ``carry`` itself."""

    def backlog(self) -> Backlog | None:
        """Counted live by the views for hub queues."""
        return None

    def drain(self, seconds: float) -> None:
        """Wait up to ``seconds`` for the confirmations in flight and complete them; plan nothing new."""
        self._await_confirmations(seconds, lambda finished: self._settle(finished, 0, Counts()))

    def _await_confirmations(self, seconds: float, settle: Callable[[Sequence[Flight]], object]) -> None:
        clock = self._context.clock
        deadline = clock.monotonic() + seconds
        while self._flights:
            finished = self._take_confirmed()
            if finished:
                settle(finished)
            elif (left := deadline - clock.monotonic()) <= 0:
                break
            else:
                self._destination.confirmed(min(left, 0.5))

    def interrupt(self) -> None:
        """From any thread: make a waiting ``carry`` return."""
        self._destination.interrupt()

    def close(self) -> None:
        """Disconnect; plans in flight are sent again by the next route of this job."""
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        self._destination.close()


def _identified(results: Sequence[Message]) -> Sequence[Message]:
    """Messages that one message became, each with an id of its own that is the same at every attempt.

    Receivers drop what has an id they know: with one id for all they would keep the first only.
    """
    if len(results) < 2:
        return results
    first = results[0]
    return [first] + [
        replace(result, msgid=blake2b((result.msgid or b"") + number.to_bytes(4), digest_size=16).digest())
        for number, result in enumerate(results[1:], 1)
    ]
