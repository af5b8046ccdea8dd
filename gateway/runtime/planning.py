"""A route from a queue of the hub to a link: what happens to a plan of which a part has expired, or is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mgw.gateway.ledger import store as ledger
from mgw.gateway.runtime.ends.contract import Stored
from mgw.gateway.runtime.ends.hub_source import HubSource
from mgw.gateway.runtime.ends.link_destination import LinkDestination
from mgw.gateway.runtime.in_flight import Flight
from mgw.gateway.runtime.route import LAST_SECONDS, Route, RouteContext
from mgw.gateway.state import lease, run_state
from mgw.gateway.state.run_state import Plan
from mgw.transforms.errors import GatewayError, HubUnavailable, LeaseLost

__all__ = ["PlanningRoute"]

_UNTAKEN = "the exception queue does not take the batch"


class PlanningRoute(Route):
    """See the module."""

    _source: HubSource
    _destination: LinkDestination

    def __init__(self, context: RouteContext, source: HubSource, destination: LinkDestination) -> None:
        super().__init__(context, source, destination)
        self._source, self._destination = source, destination
        self._untaken: GatewayError | None = None  # the exception queue did not take what was refused

    def _keep(self, finished: Sequence[Flight]) -> None:
        """Complete what is confirmed and nothing else; refused messages stay set aside, on plans of their own.

        They get new numbers: that the sending log has the old ones, or later ones, proves nothing of them.
        """
        flights = (*finished, *self._destination.flights)
        last = max((flight.sequence for flight in flights if flight.sent), default=0)
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
        stored = Stored()
        with context.turns.take(), context.hub.write() as conn:
            lease.check_owner(conn, context.agent_key, context.token)
            for flight in parted:  # the ledger records batches as they are planned
                if flight.ends:
                    run_state.alter_plan(conn, job_id, Plan(flight.sequence, flight.without_refused().ids))
            self._complete(conn, [flight.without_refused() for flight in kept if flight.ends], stored)
            if context.ledger:
                ledger.record_returned(conn, job_id, unsent, now=now, note=_UNTAKEN)
            run_state.delete_plans(conn, job_id, [sequence for sequence, _ in unsent])
            if plans:
                run_state.add_plans(conn, job_id, plans, token=context.token, now=now)
        self._sequence += len(plans)
        self._tell(stored)

    def _load(self, *, first: bool = False) -> None:
        self._untaken = None  # its plan is among those that are left
        super()._load(first=first)

    def _send(self, planned: Sequence[Any]) -> None:
        super()._send(planned)
        self._fail_at_last()

    def _resend(self) -> None:
        super()._resend()
        if not self._left:
            self._fail_at_last()

    def _fail_at_last(self) -> None:
        """Everything that could be sent was; nothing new is planned while the exception queue takes nothing."""
        failure, self._untaken = self._untaken, None
        if failure is not None:
            self.drain(LAST_SECONDS)
            raise failure

    def _part_from_unsent(self, batch: Flight) -> bool:
        """What has expired or is refused leaves a plan before the rest is sent: after a crash the number of the plan in
        the sending log would else prove that it was sent, too. Returns whether there is a rest.

        Where the exception queue does not take it, it gets a plan of its own behind all others, and the job fails when
        those are sent.
        """
        unsent = {*batch.expired, *(entry.id for entry in batch.refused)}
        if not unsent:
            return True
        rest = tuple(number for number in batch.ids if number not in unsent)
        ids = tuple(number for number in batch.ids if number in unsent)
        gone = Flight(0, ids, refused=batch.refused, reasons=batch.reasons, expired=batch.expired)
        try:
            self._part(batch, rest, gone, ends=True)
        except (HubUnavailable, LeaseLost):
            raise
        except GatewayError as error:
            self._untaken = error
            self._part(batch, rest, gone, ends=False)
        batch.ids, batch.expired, batch.refused, batch.reasons = rest, {}, [], {}
        return bool(rest)

    def _part(self, batch: Flight, rest: tuple[int, ...], gone: Flight, *, ends: bool) -> None:
        context, job_id, stored = self._context, self._context.job.id, Stored()
        moves = bool(rest) or not ends
        gone.sequence = self._sequence + 1 if moves else batch.sequence
        with context.turns.take(), context.hub.write() as conn:
            lease.check_owner(conn, context.agent_key, context.token)
            now = context.clock.now()
            if rest:
                run_state.alter_plan(conn, job_id, Plan(batch.sequence, rest))
            elif moves:
                if context.ledger:
                    ledger.record_returned(conn, job_id, [(batch.sequence, gone.ids)], now=now, note=_UNTAKEN)
                run_state.delete_plans(conn, job_id, [batch.sequence])
            if moves:
                run_state.add_plans(conn, job_id, [Plan(gone.sequence, gone.ids)], token=context.token, now=now)
            if ends:
                self._complete(conn, [gone], stored)
        self._sequence = max(self._sequence, gone.sequence)
        self._tell(stored)
