"""A route from a link to a link: what it does where the destination refuses a batch.

A batch is what the receiving log of the source speaks of, so it cannot be divided once it is read. What was on its way
is read again, one message at a time. A message that is refused alone, for what it is, goes to the exception queue with
the system's reason; without one the job fails. Where the answer does not tell who is to blame, the message is sent once
more, and then the job waits and tries again: no message behind it is sent to find out, for its receiving log would be
stored before that of the one before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from mgw.gateway.runtime.ends.link_destination import LinkDestination
from mgw.gateway.runtime.ends.planned_source import Carried, PlannedLinkSource
from mgw.gateway.runtime.route import LAST_SECONDS, Route, RouteContext
from mgw.gateway.state.run_state import Counts
from mgw.transforms.errors import Blame, DeliveryRejected, GatewayError, MessageRejected

__all__ = ["ThroughRoute"]

_BREATH = 1.0  # seconds at most between two looks at the destination, so that its connection lives
_GLANCE = 0.05  # seconds between two looks at the source while batches are on their way


class ThroughRoute(Route):
    """See the module."""

    _source: PlannedLinkSource
    _destination: LinkDestination

    def __init__(self, context: RouteContext, source: PlannedLinkSource, destination: LinkDestination) -> None:
        super().__init__(context, source, destination)
        self._source, self._destination = source, destination
        self._unsent = 0  # messages that are planned, and were not written as one before them was refused
        self._doubted = ""  # origin of a message that was refused alone, and nobody can tell why

    def carry(self, wait: float) -> Counts:
        """See :meth:`mgw.gateway.runtime.route.Route.carry`.

        Raises:
            MessageRejected: a message that is refused alone, and there is no exception queue.
            GatewayError: nothing is lost; what is not completed comes again.
        """
        counts = Counts()
        try:
            self._carry(wait, counts)
        except DeliveryRejected as error:
            self._refused(error, counts)
        return counts

    def _read(self, wait: float) -> None:
        """Read what is there, up to half of the room: one transaction of the hub plans it, and one of Kafka sends it.

        While a poisonous message is looked for, it is one batch at a time.
        """
        if self._source.holds:
            return
        wait = 0.0 if self._destination.busy else min(wait, _BREATH)
        while (found := self._read_batch(self._caution.limit(), wait)) is not None:
            self._write_read(*found)
            most = 1 if self._caution.limit() == 1 else self._destination.room // 2  # fewer where they are heavy
            if self._source.held >= most or found[0].batch.alone:
                return
            wait = 0.0

    def _room(self) -> int:
        """None where what was read is more than fits: a batch cannot be divided once it is read."""
        room = self._destination.room
        return 0 if self._destination.busy and self._source.next_size > room else room

    def _write_read(self, batch: Any, forms: Any) -> None:  # noqa: ARG002  it is planned first
        self._source.hold(batch)

    def _send(self, planned: Sequence[Any]) -> None:
        self._unsent = sum(carried.size for carried in planned)
        for carried in planned:
            self._unsent -= carried.size
            try:
                super()._send([carried])
            except DeliveryRejected:
                self._complete_what_went_before()
                raise

    def _complete_what_went_before(self) -> None:
        """A batch was refused as it was written: those before it are confirmed still, and need not come again."""
        refused = self._destination.flights.pop()
        with suppress(GatewayError):  # the refusal is the reason to tell
            self.drain(LAST_SECONDS)
        self._destination.flights.append(refused)

    def _rest(self, wait: float) -> None:
        self._destination.wait(min(wait, _GLANCE) if self._destination.busy else 0.0)

    # -- what is done about a refusal ---------------------------------------------------------------------------------

    def _refused(self, error: DeliveryRejected, counts: Counts) -> None:
        flights = self._destination.flights
        if error.blame in {Blame.DESTINATION, Blame.FULL} or not flights:
            raise error
        if len(flights) > 1 or flights[0].size > 1 or self._unsent:
            self._caution.begin(sum(flight.size for flight in flights) + self._unsent)
            self._unsent = 0
            self._source.leave()
            self._destination.forget()
            self._load()
            return
        carried: Carried = flights[0]
        self._destination.forget()
        row, _ = self._source.load()
        if carried.sequence <= self._proven(row, self._destination.open()):
            self._settle([carried], 0, counts)  # its sending log says that it is there
            return
        origin = carried.batch.deliveries[0].origin if carried.batch.deliveries else ""
        if error.blame is Blame.FORM or (error.blame is Blame.UNKNOWN and self._doubted != origin):
            self._doubted = origin
            carried = self._source.encoded_anew(carried, self._destination.encode)
            self._destination.write(carried, carried.forms)
        elif error.blame is Blame.UNKNOWN:
            raise error
        else:
            self._set_aside(carried, error, counts)

    def _set_aside(self, carried: Carried, error: DeliveryRejected, counts: Counts) -> None:
        failure = MessageRejected(
            f"{self._context.job.destination} refuses the message",
            cause=error.cause or error.what,
            cure=error.cure,
            number=error.number or 805,
        )
        if not self._source.has_exception_queue:
            raise failure from error
        self._source.set_aside(carried, failure)
        self._settle([carried], 0, counts)
