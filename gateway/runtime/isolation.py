"""A route from the hub to a link that finds the message for which a batch was refused, so that the others continue.

A messaging system refuses a batch, or ends the connection, for one message, and seldom says for which. Here the plans
that are left are sent again one at a time. One that is refused is divided, down to a message alone. A message that is
refused alone goes to the exception queue with the system's reason; without one the job fails as with any message that
cannot be delivered.

Who is to blame, the destination's error says (:class:`transforms.errors.Blame`). Where the cause is unknown, the
message is sent once more, and then the messages behind it are tried, one by one. If one is taken, those before it are
suspected with reason: each of them that is refused again is set aside. If none is, the whole destination refuses.

Some systems say nothing at all and end the connection, or confirm nothing. A message over which that happens time and
again, sent alone, is dealt with as one that is refused for a reason nobody knows. It takes so many times because a
network may be bad for a while, and a message that is taken after all is then behind one that came after it.

What the system is known to have is completed before anything is sent again. Plans that are divided get new numbers:
that a sending log has a number proves nothing of what is sent later. So nothing whose fate is unknown gets one.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from mgw.gateway.ledger import store as ledger
from mgw.gateway.runtime.ends.contract import Stored
from mgw.gateway.runtime.ends.hub_source import HubSource, Planned
from mgw.gateway.runtime.ends.link_destination import LinkDestination
from mgw.gateway.runtime.in_flight import Flight
from mgw.gateway.runtime.planning import PlanningRoute
from mgw.gateway.runtime.route import RouteContext
from mgw.gateway.state import lease, run_state
from mgw.gateway.state.run_state import Counts, Plan
from mgw.transforms.errors import (
    Blame,
    DeliveryRejected,
    GatewayError,
    LeaseLost,
    LinkTimeout,
    LinkUnavailable,
    MessageRejected,
)

__all__ = ["IsolatingRoute"]

SUSPECTS = 10  # messages in a row that may be refused until the whole destination is taken to refuse
PATIENCE = 2  # failures in a row after which the next attempt goes step by step
LOSSES = 8  # times that the connection is lost over a message sent alone, until it is a suspect: minutes, by then
PARTS = 8  # into how many plans one is divided
_NOTE = "the destination refused the batch"
_UNSURE = f"{_NOTE}, and may have stored this message all the same"  # without a sending log nobody can tell


class IsolatingRoute(PlanningRoute):
    """See the module."""

    _alone = False  # one plan at a time
    _cleared = False  # a message behind the suspects was taken

    def __init__(self, context: RouteContext, source: HubSource, destination: LinkDestination) -> None:
        super().__init__(context, source, destination)
        self._suspects: dict[int, DeliveryRejected] = {}  # refused alone, and nobody can tell why
        self._accused: set[int] = set()  # were suspects when a message behind them was taken

    def open(self) -> None:
        """As any route; after failures without success, plans are sent one at a time.

        A broker may close the connection over a message and give no reason, or its reason is lost with the connection.
        So the first plan is divided, too: in a small one the answer has time to come.
        """
        super().open()
        self._alone = self._context.cautious
        if not self._left or self._alone:
            return
        with self._context.hub.read() as conn:
            failures = run_state.job_row(conn, self._context.job.id).failures
        if failures >= PATIENCE:
            self._alone = True
            self._divide()

    def carry(self, wait: float) -> Counts:
        """See :meth:`mgw.gateway.runtime.route.Route.carry`.

        Raises:
            MessageRejected: a message that is refused alone, and there is no exception queue.
            GatewayError: what is not completed stays planned and is sent again.
        """
        counts = Counts()
        try:
            self._carry(wait, counts)
            if not self._left and not self._destination.flights:
                self._alone = False
        except DeliveryRejected as error:
            try:
                self._refused(error, counts)
            except GatewayError as failure:
                self._restore(failure)
                raise
        except GatewayError as failure:
            if not self._suspected(failure, counts):
                self._restore(failure)
                raise
        return counts

    def _suspected(self, failure: GatewayError, counts: Counts) -> bool:
        """A system that says nothing: whether the message over which the connection is lost, each time that it is sent
        alone, was dealt with as one that is refused for an unknown reason.

        Raises:
            GatewayError: the connection cannot be made again.
        """
        flights = self._destination.flights
        message_id = _only(flights[0]) if self._alone and len(flights) == 1 else None
        if message_id is None or not isinstance(failure, LinkUnavailable | LinkTimeout):
            return False
        losses = self._context.losses
        losses[message_id] = times = losses.pop(message_id, 0) + 1
        if len(losses) > SUSPECTS:
            del losses[next(iter(losses))]
        if times < LOSSES or not self._source.sets_aside:
            return False
        suspicion = DeliveryRejected(
            failure.what,
            link=failure.link,
            operation="publish",
            cause=f"this happened {times} times when this message was sent alone, and not with one behind it; "
            f"{failure.cause}",
            cure="see the system's log for its limits; what was sent may be there all the same",
            number=805,
        ).blamed(Blame.UNKNOWN)
        try:
            self._refused(suspicion, counts)
        except GatewayError as error:
            if error is suspicion:
                return False
            self._restore(error)
            raise
        return True

    def _may_resend(self) -> bool:
        if not self._alone:
            return super()._may_resend()
        return not self._destination.flights

    def _carry(self, wait: float, counts: Counts) -> None:
        if self._suspects and self._cleared:
            self._accused.update(self._suspects)
            self._suspects, self._cleared = {}, False
        super()._carry(wait, counts)

    def _finished(self) -> Sequence[Flight]:
        finished = super()._finished()
        if self._suspects and any(flight.sent for flight in finished):
            self._cleared = True
        return finished

    # -- what is done about a refusal ---------------------------------------------------------------------------------

    def _refused(self, error: DeliveryRejected, counts: Counts) -> None:
        """Connect again, and send what is left in smaller plans; or deal with a message that is refused alone.

        Raises:
            DeliveryRejected: the whole destination refuses.
            MessageRejected: see :meth:`carry`.
        """
        if error.blame is Blame.DESTINATION or not self._destination.flights:
            raise error
        if error.blame is Blame.FULL:
            if not self._complete_known(counts):
                raise error
            self._reopen()
            return
        flights = self._destination.flights
        message_id = _only(flights[0]) if len(flights) == 1 else None
        divide = self._alone and message_id is None
        self._complete_known(counts)
        self._reopen()
        self._alone = True
        if error.blame is Blame.FORM or not self._left:
            return
        if message_id is None:
            if divide:
                self._divide()
        elif message_id not in self._left[0][0].ids:
            return  # its sending log says that it is there
        elif error.blame is Blame.UNKNOWN and message_id not in self._accused:
            self._doubt(message_id, error)
        else:
            self._suspects.pop(message_id, None)
            self._set_aside(message_id, error, counts)

    def _reopen(self) -> None:
        """Begin again from what is planned, as after a crash, with the same destination."""
        self._left.clear()
        self._destination.forget()
        self._load()

    def _complete_known(self, counts: Counts) -> bool:
        """Complete the messages on their way that the destination is known to have; whether there were any."""
        known: dict[int, Flight] = {}
        now = self._context.clock.now()
        for flight in self._destination.flights:
            if ids := self._known(flight):
                parts = {number: flight.parts[number] for number in ids if number in flight.parts}
                known[flight.sequence] = Flight(
                    flight.sequence, tuple(ids), len(ids), ids, parts=parts, sent_at=flight.sent_at, confirmed_at=now
                )
        if not known:
            return False
        old: list[Plan] = []
        wanted: list[tuple[int, ...]] = []
        for plan in self._plans():
            if plan.sequence in known:
                done = set(known[plan.sequence].ids)
                wanted.append(tuple(number for number in plan.ids if number not in done))
            elif plan.sequence > min(known):
                old.append(plan)
                wanted.append(plan.ids)
        self._replan(old, wanted, list(known.values()), counts)
        return True

    def _plans(self) -> list[Plan]:
        with self._context.hub.read() as conn:
            return run_state.load_plans(conn, self._context.job.id)

    def _known(self, flight: Flight) -> list[int]:
        """Messages of a plan on its way of which the destination is known to have everything."""
        if not flight.sent:
            return []
        stored = self._destination.link.stored(flight.sequence, flight.sent)
        if not stored:
            return []
        has, at, filtered = set(stored), 0, set(flight.filtered)
        found: list[int] = []
        for message_id in flight.consumed:
            parts = 0 if message_id in filtered else flight.parts.get(message_id, 1)
            if parts and all(index in has for index in range(at, at + parts)):
                found.append(message_id)
            at += parts
        return found

    def _divide(self) -> None:
        """Give the first plan that is left to several smaller ones."""
        ids = self._left[0][0].ids
        if len(ids) < 2:
            return
        size = max(1, -(-len(ids) // PARTS))
        parts = [ids[start : start + size] for start in range(0, len(ids), size)]
        self._arrange([*parts, *(plan.ids for plan, _ in list(self._left)[1:])])

    def _doubt(self, message_id: int, error: DeliveryRejected) -> None:
        """Send the message behind the suspects first, or the first of them once more.

        Raises:
            DeliveryRejected: nobody can tell more, or too many of them are refused too.
        """
        again = message_id in self._suspects
        self._suspects[message_id] = error
        if not self._source.sets_aside or len(self._suspects) > SUSPECTS:
            raise error
        if len(self._suspects) == 1 and not again:
            return  # it may have been the moment
        if self._behind() is None:
            self._plan_one_more()
        found = self._behind()
        if found is None:
            raise error
        rest = [found.ids[1:]] if len(found.ids) > 1 else []
        suspects, others = self._sorted([plan for plan, _ in self._left if plan is not found])
        self._arrange([found.ids[:1], *suspects, *rest, *others])

    def _behind(self) -> Plan | None:
        """The first plan that is left without a suspect."""
        return next((plan for plan, _ in self._left if not self._suspects.keys() & set(plan.ids)), None)

    def _sorted(self, plans: Sequence[Plan]) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
        """The messages of the plans of suspects, in the order in which they were refused, and those of the others."""
        suspects = [plan.ids for number in self._suspects for plan in plans if number in plan.ids]
        return suspects, [plan.ids for plan in plans if plan.ids not in suspects]

    def _plan_one_more(self) -> None:
        context = self._context
        with context.turns.take(), context.hub.write() as conn:
            lease.check_owner(conn, context.agent_key, context.token)
            claimed = self._source.claim(conn, 1, completes=True)
            if not claimed:
                return
            plan = Plan(self._sequence + 1, tuple(entry.id for entry in claimed))
            run_state.add_plans(conn, context.job.id, [plan], token=context.token, now=context.clock.now())
        self._sequence = plan.sequence
        self._left.append(Planned(plan, claimed))

    def _set_aside(self, message_id: int, error: DeliveryRejected, counts: Counts) -> None:
        """A message that is planned leaves its plan, as one that cannot be converted does.

        Raises:
            MessageRejected: there is no exception queue.
            GatewayError: it takes nothing.
        """
        failure = MessageRejected(
            f"{self._context.job.destination} refuses the message",
            cause=error.cause or error.what,
            cure=error.cure,
            number=error.number or 805,
        )
        if not self._source.sets_aside:
            raise failure from error
        place = next(at for at, (plan, _) in enumerate(self._left) if message_id in plan.ids)
        planned = self._left[place]
        flight, _ = self._source.select(planned, self._destination.encode)
        if message_id in flight.consumed:  # it may have expired by now
            flight.consumed.remove(message_id)
            message = next(entry.message for entry in planned.claimed if entry.id == message_id)
            self._source.fail(flight, message_id, message, failure)
        flight.sent, flight.parts = 0, {}
        del self._left[place]
        self._end_unsent(flight, counts)

    def _end_unsent(self, flight: Flight, counts: Counts) -> None:
        """A plan of which nothing is sent."""
        self._settle([flight], 0, counts)

    def _restore(self, failure: GatewayError) -> None:
        """The order as it was, where the job fails while a message goes before the suspects.

        What is on its way may have been stored: its sending log tells it by the number of the plan, so that is looked
        at first. Where it cannot be read, the order stays: better than sending a message twice.
        """
        if self._suspects and not self._cleared and not isinstance(failure, LeaseLost):
            with suppress(GatewayError):
                if self._destination.logged and any(flight.sent for flight in self._destination.flights):
                    self._reopen()
                plans = self._plans()
                suspects, others = self._sorted(plans)
                if suspects and plans[0].ids != suspects[0]:
                    self._replan(plans, [*suspects, *others], [], Counts())
        self._suspects = {}

    # -- plans --------------------------------------------------------------------------------------------------------

    def _arrange(self, wanted: Sequence[tuple[int, ...]]) -> None:
        """Make other plans of the messages of the plans that are left."""
        entries = {entry.id: entry for _, claimed in self._left for entry in claimed}
        plans = self._replan([plan for plan, _ in self._left], wanted, [], Counts())
        self._left.clear()
        self._left.extend(Planned(plan, [entries[number] for number in plan.ids]) for plan in plans)

    def _replan(
        self,
        old: Sequence[Plan],
        wanted: Sequence[tuple[int, ...]],
        known: Sequence[Flight],
        counts: Counts,
    ) -> list[Plan]:
        """Complete what is known to be there, and give the messages of old plans to new ones, in one transaction."""
        context, now = self._context, self._context.clock.now()
        job_id, stored = context.job.id, Stored()
        groups = [ids for ids in wanted if ids]
        plans = [Plan(self._sequence + number, ids) for number, ids in enumerate(groups, 1)]
        with context.turns.take(), context.hub.write() as conn:
            lease.check_owner(conn, context.agent_key, context.token)
            for flight in known:  # the ledger records batches as they are planned
                run_state.alter_plan(conn, job_id, Plan(flight.sequence, flight.ids))
            if known:
                self._complete(conn, known, stored)
            self._return(conn, old, now)
            if plans:
                run_state.add_plans(conn, job_id, plans, token=context.token, now=now)
                self._renumbered(conn, plans)
        self._sequence += len(plans)
        counts.add(stored.counts)
        return plans

    def _renumbered(self, conn: Any, plans: Sequence[Plan]) -> None:
        """Messages of old plans are in these now."""

    def _return(self, conn: Any, old: Sequence[Plan], now: float) -> None:
        if not old:
            return
        job_id = self._context.job.id
        if self._context.ledger:
            returned = [(plan.sequence, plan.ids) for plan in old]
            ledger.record_returned(conn, job_id, returned, now=now, note=_NOTE if self._destination.logged else _UNSURE)
        run_state.delete_plans(conn, job_id, [plan.sequence for plan in old])


def _only(flight: Flight) -> int | None:
    """The message of a plan of which something was sent, where it is one alone."""
    filtered = set(flight.filtered)
    sent = [number for number in flight.consumed if number not in filtered]
    return sent[0] if len(sent) == 1 else None
