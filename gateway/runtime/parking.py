"""A route from the hub to a link that parks the messages of a key behind one that cannot be delivered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mgw.gateway.aq import transfer
from mgw.gateway.ledger import store as ledger
from mgw.gateway.observe.parking_events import KeyReleased
from mgw.gateway.runtime.ends.link_destination import LinkDestination
from mgw.gateway.runtime.ends.parking_source import ParkingSource
from mgw.gateway.runtime.in_flight import Flight
from mgw.gateway.runtime.isolation import IsolatingRoute
from mgw.gateway.runtime.route import RouteContext
from mgw.gateway.state import lease, parked, run_state
from mgw.gateway.state.run_state import Counts, Plan

__all__ = ["ParkingRoute", "release_all"]

_NOTE = "its key is parked"


def release_all(context: RouteContext) -> None:
    """What an earlier definition of the job parked is READY again, in its place: the job does not park any more.

    Raises:
        HubError: the hub cannot be reached.
    """
    job = context.job
    with context.hub.read() as conn:
        if not parked.load(conn, job.id):
            return
    events = list[KeyReleased]()
    with context.hub.write() as conn:
        lease.check_owner(conn, context.agent_key, context.token)
        queue = transfer.resolve(conn, job.source)
        for each in parked.load(conn, job.id):
            ids = parked.remove(conn, job.id, each.number)
            transfer.release(conn, queue, job.subscriber if queue.multiple_consumers else None, ids)
            events.append(KeyReleased(job.name, each.key, len(ids)))
    for event in events:
        context.journalist.tell(event)


class ParkingRoute(IsolatingRoute):
    """See the module."""

    _source: ParkingSource

    def __init__(self, context: RouteContext, source: ParkingSource, destination: LinkDestination) -> None:
        super().__init__(context, source, destination)
        self._source = source

    def _carry(self, wait: float, counts: Counts) -> None:
        super()._carry(self._look_at_parked(wait), counts)

    def _look_at_parked(self, wait: float) -> float:
        """Make READY what may be; returns how long the route may wait.

        Not while plans are left: the messages in them were claimed while the key was parked, and must find it so.
        """
        source, context = self._source, self._context
        if not source.parks or self._left:
            return wait
        if context.clock.monotonic() >= source.look_at:
            passed, due = source.due()
            if passed or due:
                with context.turns.take(), context.hub.write() as conn:
                    lease.check_owner(conn, context.agent_key, context.token)
                    events = source.release(conn, passed, due)
                for event in events:
                    context.journalist.tell(event)
                self._due = True
            source.look_at = context.clock.monotonic() + source.wait_for_parked(context.job.poll_seconds)
        return min(wait, max(0.0, source.look_at - context.clock.monotonic()))

    def _renumbered(self, conn: Any, plans: Sequence[Plan]) -> None:
        self._source.renumbered(conn, plans)

    def _publish(self, batch: Any, forms: Sequence[Any]) -> None:
        if not batch.parked or self._part_from_parked(batch):
            super()._publish(batch, forms)

    def _part_from_parked(self, batch: Flight) -> bool:
        """What is parked leaves its plan before the rest is sent: after a crash the number of the plan in the sending
        log would else prove that it was sent, too. Returns whether there is a rest."""
        context, source, job_id = self._context, self._source, self._context.job.id
        source.check_room(len(batch.parked))
        ids = tuple(number for number in batch.ids if number in batch.parked)
        rest = tuple(number for number in batch.ids if number not in batch.parked)
        gone = Plan(self._sequence + 1 if rest else batch.sequence, ids)
        with context.turns.take(), context.hub.write() as conn:
            lease.check_owner(conn, context.agent_key, context.token)
            now = context.clock.now()
            if rest:
                run_state.add_plans(conn, job_id, [gone], token=context.token, now=now)
                run_state.alter_plan(conn, job_id, Plan(batch.sequence, rest))
            if context.ledger:
                ledger.record_returned(conn, job_id, [(gone.sequence, ids)], now=now, note=_NOTE)
            run_state.delete_plans(conn, job_id, [gone.sequence])
            events = source.store_parked(conn, batch)
        if rest:
            self._sequence = gone.sequence
            batch.ids = rest
        batch.parked = {}
        for event in events:
            context.journalist.tell(event)
        return bool(rest)

    def _end_unsent(self, flight: Flight, counts: Counts) -> None:
        if not flight.parked or self._part_from_parked(flight):
            super()._end_unsent(flight, counts)
