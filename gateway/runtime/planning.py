"""A route from a queue of the hub to a link: what happens to a plan of which a part has expired, or is refused."""

from __future__ import annotations

from collections.abc import Sequence

from mgw.gateway.ledger import store as ledger
from mgw.gateway.runtime.ends.contract import Stored
from mgw.gateway.runtime.ends.hub_source import HubSource
from mgw.gateway.runtime.ends.link_destination import LinkDestination
from mgw.gateway.runtime.in_flight import Flight
from mgw.gateway.runtime.route import Route, RouteContext
from mgw.gateway.state import lease, run_state
from mgw.gateway.state.run_state import Plan

__all__ = ["PlanningRoute"]


class PlanningRoute(Route):
    """See the module."""

    _source: HubSource
    _destination: LinkDestination

    def __init__(self, context: RouteContext, source: HubSource, destination: LinkDestination) -> None:
        super().__init__(context, source, destination)
        self._source, self._destination = source, destination

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
                note = "the exception queue does not take the batch"
                ledger.record_returned(conn, job_id, unsent, now=now, note=note)
            run_state.delete_plans(conn, job_id, [sequence for sequence, _ in unsent])
            if plans:
                run_state.add_plans(conn, job_id, plans, token=context.token, now=now)
        self._sequence += len(plans)
        self._tell(stored)

    def _part_from_expired(self, batch: Flight) -> bool:
        """What has expired leaves a plan before the rest is sent: after a crash the number of the plan in the sending
        log would else prove that it was sent, too. Returns whether there is a rest."""
        context, job_id, stored = self._context, self._context.job.id, Stored()
        rest = tuple(number for number in batch.ids if number not in batch.expired)
        gone = Flight(self._sequence + 1, tuple(batch.expired), expired=batch.expired) if rest else batch
        with context.turns.take(), context.hub.write() as conn:
            lease.check_owner(conn, context.agent_key, context.token)
            if rest:
                plan = Plan(gone.sequence, gone.ids)
                run_state.add_plans(conn, job_id, [plan], token=context.token, now=context.clock.now())
                run_state.alter_plan(conn, job_id, Plan(batch.sequence, rest))
            self._complete(conn, [gone], stored)
        if rest:
            self._sequence = gone.sequence
            batch.ids, batch.expired = rest, {}
        self._tell(stored)
        return bool(rest)
