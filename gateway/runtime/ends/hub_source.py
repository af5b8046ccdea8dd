"""A queue of the hub as source: the plan is durable before the first byte of a batch is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any, NamedTuple

import sqlalchemy as sa

from mgw.gateway.aq import NotEnabledForDequeue, transfer
from mgw.gateway.ledger import store as ledger
from mgw.gateway.observe.events import MessagesExceptioned, MessagesFiltered, MessagesOverdue
from mgw.gateway.runtime.ends.contract import Encode, RefusedByHub, SourceEnd, Stored
from mgw.gateway.runtime.ends.held_up import held_up
from mgw.gateway.runtime.ends.link_destination import WINDOW_BYTES
from mgw.gateway.runtime.ends.unrouted import set_aside
from mgw.gateway.runtime.in_flight import Flight
from mgw.gateway.runtime.job_steps import Conversion, See, seen
from mgw.gateway.runtime.origin import origin_of
from mgw.gateway.runtime.recovery import check_plan
from mgw.gateway.runtime.route import RouteContext
from mgw.gateway.runtime.sizing import weight_of, weights_of
from mgw.gateway.state import run_state
from mgw.gateway.state.run_state import JobRow, Plan
from mgw.transforms.errors import ConversionFailure, unforeseen
from mgw.transforms.message import Message
from mgw.transforms.payloads.exception_message import Identity, for_exception_queue

__all__ = ["HubSource", "Planned", "identified"]

_LOOK_SECONDS = 60.0  # after which a route looks by itself, whatever is known of its queue
_FRESH = 0.8  # of the poll interval: how old may be what is known of all queues
_PIECE = 500  # messages that are claimed at once in addition, or a batch, if that is more
PLANS_PER_CLAIM = 8  # batches planned in one hub transaction at most


class Planned(NamedTuple):
    """A plan and the messages in it."""

    plan: Plan
    claimed: list[transfer.Claimed]

    @property
    def sequence(self) -> int:
        """Number of the plan."""
        return self.plan.sequence

    @property
    def size(self) -> int:
        """Messages in it."""
        return len(self.claimed)

    @property
    def weight(self) -> int:
        """Bytes of their bodies."""
        return weight_of([entry.message.body for entry in self.claimed])


class HubSource(SourceEnd):
    """Plans and claims, completes."""

    planned = True
    reads = False

    def __init__(
        self, context: RouteContext, queue_name: str, conversion: Conversion, exception_queue: str | None
    ) -> None:
        self.queue_name = queue_name
        self.consumer: str | None = None
        self.exception_queue: transfer.QueueRef | None = None
        self._context = context
        self._measured = context.measures.job(context.job.id)
        self._conversion = conversion
        self._convert: Callable[[Message], Sequence[Message]] = conversion.apply
        self._fit = conversion.only_fit
        self._exception_name = exception_queue
        self._look = True  # something may be there
        self._looked = float("-inf")
        self._latency = context.job.latency
        self._rests_until = float("-inf")  # monotonic: it found nothing, and takes nothing before that

    def load(self) -> tuple[JobRow, Sequence[Planned]]:
        """Run state and plans of the job."""
        context = self._context
        with context.hub.read() as conn:
            queue = self.queue = transfer.resolve(conn, self.queue_name)
            self.awaited = None if self._latency else queue.id  # no other route plans its messages then
            self.consumer = context.job.subscriber if queue.multiple_consumers else None
            self.exception_queue = transfer.resolve(conn, self._exception_name) if self._exception_name else None
            row = run_state.job_row(conn, context.job.id)
            plans = run_state.load_plans(conn, context.job.id)
            return row, [Planned(plan, transfer.load(conn, queue, self.consumer, plan.ids)) for plan in plans]

    def revive(self, plan: Planned, encode: Encode) -> Flight:
        """A crash came between confirmation and completion."""
        return self._converted(plan, encode, sent_before=True)[0]

    def begin(self, left: Sequence[Planned]) -> Sequence[Planned]:
        """All of them are sent again, exactly as planned.

        Raises:
            GatewayError: [415] messages of a plan are gone.
        """
        for plan, claimed in left:
            check_plan(self._context.job, plan, len(claimed))
        return left

    def select(self, taken: Planned, encode: Encode, remark: str = "") -> tuple[Flight, Sequence[Any]]:
        """Convert the messages of a plan. ``remark``: what the ledger says of those that have expired.

        Raises:
            ConversionFailure: of one of them, and there is no exception queue.
        """
        planned_at = self._context.clock.now()
        flight, forms = self._converted(taken, encode, remark=remark)
        flight.planned_at, flight.origin = planned_at, origin_of(taken.claimed[0].message) if taken.claimed else 0.0
        return flight, forms

    def _converted(
        self, taken: Planned, encode: Encode, *, sent_before: bool = False, remark: str = ""
    ) -> tuple[Flight, list[Any]]:
        plan, claimed = taken
        flight = Flight(plan.sequence, plan.ids, sent_before=sent_before)
        forms: list[Any] = []
        convert, fit = self._convert, self._fit if encode is not None else None
        now = self._context.clock.now()
        for message_id, message in claimed:
            if message.expires_at is not None and message.expires_at <= now and not sent_before:
                flight.expired[message_id] = remark
                continue
            try:
                if fit is not None and encode is not None:
                    forms.append(encode(fit(message)))
                    flight.consumed.append(message_id)
                    continue
                results: Sequence[Any] = identified(convert(message))
                if encode is not None:
                    results = [encode(result) for result in results]
            except Exception as error:
                self.fail(flight, message_id, message, error)
                continue
            flight.consumed.append(message_id)
            if len(results) == 1:
                forms += results
            elif results:
                forms += results
                flight.parts[message_id] = len(results)
            else:
                flight.filtered.append(message_id)
        flight.sent = len(forms)
        if encode is None:  # they go into a queue of the hub, which may refuse one
            flight.messages, flight.claimed = forms, claimed
        return flight, forms

    def tap(self, see: See | None) -> None:
        """See :meth:`mgw.gateway.runtime.ends.contract.SourceEnd.tap`."""
        self._fit = self._conversion.only_fit if see is None else None
        self._convert = seen(self._conversion.apply, see)

    def fail(self, flight: Flight, message_id: int, message: Message, error: Exception) -> None:
        """A message of a batch cannot be converted.

        Raises:
            ConversionFailure: there is no exception queue.
        """
        failure = unforeseen(error)
        if self.exception_queue is None:
            place = f"AQMSGID:{(message.msgid or b'').hex()} of queue {self.queue_name}"
            raise held_up(self._context.job, failure, place) from (None if failure is error else error)
        self.set_aside(flight, message_id, message, failure)

    @property
    def sets_aside(self) -> bool:
        """Whether the job continues without a message that cannot be delivered."""
        return self.exception_queue is not None

    def set_aside(self, flight: Flight, message_id: int, message: Message, failure: ConversionFailure) -> None:
        """A message of a batch goes to the exception queue."""
        msgid = message.msgid
        identity = Identity(f"AQMSGID:{msgid.hex()}" if msgid else "", msgid, self.consumer)
        original = for_exception_queue(
            message, failure, self._context.job.name, self.queue_name, now=self._context.clock.now(), identity=identity
        )
        flight.refused.append(transfer.Claimed(message_id, original))
        flight.reasons[message_id] = str(failure)

    @property
    def rest(self) -> float:
        """See :attr:`mgw.gateway.runtime.ends.contract.SourceEnd.rest`."""
        return max(0.0, self._rests_until - self._context.clock.monotonic()) if self._latency else 0.0

    def plans(self, room: int) -> bool:
        """Whether there may be something to plan."""
        context, now = self._context, self._context.clock.monotonic()
        if room <= 0 or self.rest:
            return False
        if self._look or self._latency or context.resting is None or now - self._looked >= _LOOK_SECONDS:
            return True
        return not context.resting.has(self.queue.id, context.job.poll_seconds * _FRESH)

    def plan(self, conn: sa.Connection, sequence: int, size: int, room: int, *, completes: bool) -> Sequence[Planned]:
        """Claim messages, and make plans of them."""
        limit = min(room, size * PLANS_PER_CLAIM if size > 1 else 1)
        if limit > size:
            limit -= limit % size  # no small plan for the rest of the room
        if limit <= 0 or self.rest:
            return []
        planned: list[Planned] = []
        self._look, self._looked = False, self._context.clock.monotonic()  # what comes from now on sets it again
        claimed = self._claimed(conn, size, limit, completes=completes)
        for start in range(0, len(claimed), size):
            batch = claimed[start : start + size]
            number = sequence + 1 + start // size
            planned.append(Planned(Plan(number, tuple(entry.id for entry in batch)), batch))
        if self._latency and not planned:
            self._rests_until = self._looked + self._latency
        if planned:
            context = self._context
            self._look = True
            plans = [plan for plan, _ in planned]
            run_state.add_plans(conn, context.job.id, plans, token=context.token, now=context.clock.now())
        return planned

    def _claimed(self, conn: sa.Connection, size: int, limit: int, *, completes: bool) -> list[transfer.Claimed]:
        """Up to ``limit`` messages: a batch, then more in pieces, as long as those before them are light.

        Bodies are in memory once claimed, and what they weigh is known only then.
        """
        claimed: list[transfer.Claimed] = []
        weight, piece = 0, min(limit, size)
        while piece > 0:
            found = self.claim(conn, piece, completes=completes)
            claimed += found
            if len(found) < piece or len(claimed) >= limit:
                break
            weights = weights_of([entry.message.body for entry in found])
            weight, heaviest = weight + sum(weights), max(weights, default=0)
            piece = min(limit - len(claimed), max(size, _PIECE))
            if heaviest:
                piece = min(piece, (WINDOW_BYTES - weight) // heaviest)
            piece -= piece % size
        return claimed

    def claim(self, conn: sa.Connection, limit: int, *, completes: bool) -> list[transfer.Claimed]:
        """Messages for new plans: none where the queue was stopped and something is on its way, which is completed."""
        try:
            return transfer.claim(conn, self.queue, self.consumer, limit)
        except NotEnabledForDequeue:
            if completes:
                return []
            raise

    def sequence_of(self, planned: Planned) -> int:
        """The number of a plan."""
        return planned.plan.sequence

    def complete(
        self,
        conn: sa.Connection,
        finished: Sequence[Flight],
        stored: Stored,
        now: float,  # noqa: ARG002  the hub's clock tells
    ) -> None:
        """Messages are consumed, go to the exception queue, or are left to the time manager."""
        queue, consumer, counts = self.queue, self.consumer, stored.counts
        consumed = [message_id for flight in finished for message_id in flight.consumed]
        refused = [entry for flight in finished for entry in flight.refused]
        if consumed:
            transfer.complete(conn, queue, consumer, consumed)
        if refused and self.exception_queue is not None:
            transfer.move(conn, queue, consumer, refused, self.exception_queue)
            stored.queues.append(self.exception_queue.id)
        if expired := [number for flight in finished for number in flight.expired]:
            transfer.release(conn, queue, consumer, expired)  # for the time manager
            counts.discarded += len(expired)
            stored.events.append(MessagesOverdue(self._context.job.name, len(expired)))
        filtered = sum(len(flight.filtered) for flight in finished)
        unrouted = sum(len(flight.unrouted) for flight in finished)
        counts.filtered += filtered
        counts.discarded += unrouted
        counts.unrouted += unrouted
        counts.propagated += len(consumed) - filtered - unrouted
        counts.exceptioned += len(refused)
        counts.suppressed += sum(len(flight.consumed) for flight in finished if flight.sent_before)
        name = self._context.job.name
        if filtered:
            stored.events.append(MessagesFiltered(name, filtered))
        for flight in finished:
            if flight.refused:
                reason = flight.reasons[flight.refused[-1].id]
                stored.events.append(MessagesExceptioned(name, len(flight.refused), self._exception_name or "", reason))

    def committed(self, finished: Sequence[Flight], now: float) -> None:
        """See :meth:`mgw.gateway.runtime.ends.contract.SourceEnd.committed`; a queue of the hub has them now."""
        for flight in finished:
            if flight.sent:
                confirmed_at = now if flight.messages else flight.confirmed_at
                self._measured.took("stored_to_confirmed", flight.planned_at, confirmed_at)
                self._measured.took("origin_to_confirmed", flight.origin, confirmed_at)

    def record(self, conn: sa.Connection, finished: Sequence[Flight], now: float) -> None:
        """Batches in the ledger, as they were planned."""
        ledger.record_completed(conn, self._context.job.id, [flight.ended() for flight in finished], now=now)

    def refuse(self, refusal: RefusedByHub) -> None:
        """See :meth:`mgw.gateway.runtime.ends.contract.SourceEnd.refuse`."""
        flight: Flight = refusal.batch
        error, given = refusal.error, {entry.id: entry.message for entry in flight.claimed}

        def place(index: int) -> str:
            msgid = given[flight.owner(index)].msgid
            return f"AQMSGID:{(msgid or b'').hex()} of queue {self.queue_name}"

        indexes = set_aside(self._context.job, refusal, place, exceptions=self.exception_queue is not None)
        failure = ConversionFailure(error.what, cause=error.cause, cure=error.cure, number=error.number)
        for message_id in dict.fromkeys(map(flight.owner, indexes)):
            flight.leave_out(message_id)
            self.set_aside(flight, message_id, given[message_id], failure)

    def take_back(self, conn: sa.Connection, plans: Sequence[Planned], now: float, note: str) -> None:
        """Messages of plans go back to READY, position unchanged."""
        context = self._context
        ids = [message_id for plan, _ in plans for message_id in plan.ids]
        transfer.release(conn, self.queue, self.consumer, ids)
        if context.ledger:
            taken = [(plan.sequence, plan.ids) for plan, _ in plans]
            ledger.record_returned(conn, context.job.id, taken, now=now, note=note)
        run_state.delete_plans(conn, context.job.id, [plan.sequence for plan, _ in plans])

    def state(self) -> str:
        """See :meth:`mgw.gateway.runtime.ends.contract.SourceEnd.state`."""
        return f"queue {self.queue_name}, subscriber {self.consumer}" if self.consumer else f"queue {self.queue_name}"

    def listen(self, wake: Callable[[], None]) -> Callable[[], None]:
        """A message that is enqueued wakes the route."""

        def look() -> None:
            self._look = True
            wake()

        return self._context.hub.notifier.subscribe([self.queue.id], look)


def identified(results: Sequence[Message]) -> Sequence[Message]:
    """Messages that one message became, each with an id of its own that is the same at every attempt.

    Receivers drop what has an id they know: with one id for all they would keep the first only. Without an id there is
    nothing that is the same at every attempt and different from one message to the next.
    """
    if len(results) < 2 or results[0].msgid is None:
        return results
    first = results[0]
    return [first] + [
        replace(result, msgid=blake2b((result.msgid or b"") + number.to_bytes(4), digest_size=16).digest())
        for number, result in enumerate(results[1:], 1)
    ]
