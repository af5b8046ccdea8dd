"""A link as destination: several batches are on their way, and are finished strictly in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from mgw.gateway.definitions.objects import Activity
from mgw.gateway.observe.batch_trace import trace_flight
from mgw.gateway.runtime.ends.contract import DestinationEnd, Encode
from mgw.gateway.runtime.hindrance import BLOCKED_SECONDS, Hindrance
from mgw.gateway.runtime.route import RouteContext
from mgw.gateway.runtime.sizing import Sizing
from mgw.links.contract import Bounded, Destination, Limited, Recovered
from mgw.links.place import AskPlace, Place, nowhere
from mgw.transforms.errors import LinkTimeout

__all__ = ["LOGGED_WINDOW_MESSAGES", "WINDOW_BYTES", "WINDOW_MESSAGES", "LinkDestination"]

#: Messages published and not yet completed, per job; or two of its largest batches, if that is more. Without a sending
#: log that is what a crash repeats.
WINDOW_MESSAGES = 1000
LOGGED_WINDOW_MESSAGES = 4000  # with a sending log, which proves what need not be repeated
WINDOW_BYTES = 64 << 20  # of bodies; or two of its smallest batches, if that is more


class LinkDestination(DestinationEnd):
    """Publishes, and waits for the confirmation."""

    planned = True

    def __init__(
        self, context: RouteContext, link: Destination, place: AskPlace = nowhere, *, window: int | None = None
    ) -> None:
        self.link = link
        self.encode: Encode = link.encode
        self.logged = False
        self.flights: deque[Any] = deque()
        self.in_flight = 0  # messages
        self._context = context
        self._given = window
        self._window = self._largest_window(logged=False)
        self._light = self._window  # messages that have WINDOW_BYTES
        self._last_confirmed = context.clock.monotonic()
        self._place = place

    def open(self) -> Recovered | None:
        """Connect, fence what an earlier connection may still send, read the sending log."""
        self.link.connect()
        recovered = self.link.recovered()
        self.logged = recovered is not None
        self._window = self._light = self._largest_window(logged=self.logged)
        return recovered

    def _largest_window(self, *, logged: bool) -> int:
        window = self._given or (LOGGED_WINDOW_MESSAGES if logged else WINDOW_MESSAGES)
        return max(window, 2 * self._context.job.batch_limit)

    @property
    def largest_batch(self) -> int | None:
        """See :attr:`mgw.gateway.runtime.ends.contract.DestinationEnd.largest_batch`."""
        return self.link.largest_batch if isinstance(self.link, Bounded) else None

    def weigh(self, sizing: Sizing) -> None:
        """See :meth:`mgw.gateway.runtime.ends.contract.DestinationEnd.weigh`."""
        light = sizing.within(WINDOW_BYTES)
        self._light = self._window if light is None else min(self._window, max(light, 2 * sizing.least))

    def place(self) -> Place | None:
        """See :meth:`mgw.gateway.runtime.ends.contract.DestinationEnd.place`."""
        return self._place()

    def forget(self) -> None:
        """Disconnect, to start again with the same destination; what is on its way is left to recovery."""
        self.flights.clear()
        self.in_flight = 0
        self.link.close()

    @property
    def room(self) -> int:
        """Messages that may be published before something is confirmed."""
        return self._light - self.in_flight

    @property
    def busy(self) -> bool:
        """Whether messages are on their way."""
        return bool(self.flights)

    @property
    def confirms(self) -> bool:
        """Whether a confirmation is to come for the batch that is finished next."""
        return bool(self.flights and self.flights[0].sent)

    def write(self, batch: Any, forms: Sequence[Any]) -> None:
        """Begin to publish a batch; one without messages is finished when those before it are."""
        if not self.flights:
            self._last_confirmed = self._context.clock.monotonic()
        self.flights.append(batch)
        self.in_flight += batch.size
        if forms:
            self.link.publish(batch.sequence, forms)
            trace_flight(self._context.job.name, batch, "sent")
            batch.sent_at = self._context.clock.now()

    def finished(self) -> Sequence[Any]:
        """Batches that the messaging system has confirmed, in order."""
        if not self.flights:
            return []
        confirmed = self.link.confirmed(0)
        finished = []
        while self.flights:
            flight = self.flights[0]
            if flight.sent and (confirmed is None or flight.sequence > confirmed):
                break
            finished.append(self.flights.popleft())
            self.in_flight -= flight.size
        if finished:
            self._last_confirmed = self._context.clock.monotonic()
            for flight in finished:
                trace_flight(self._context.job.name, flight, "confirmed")
            now, located = self._context.clock.now(), self.link.located if self._context.ledger else None
            for flight in finished:
                if flight.sent:
                    flight.confirmed_at = now
                    flight.placement = None if located is None else located(flight.sequence)
        return finished

    def wait(self, seconds: float) -> None:
        """Wait for a confirmation, or keep the connection alive for so long."""
        self.link.confirmed(seconds if not self.flights else min(seconds, 1.0))

    def hindrance(self, patience: float) -> Hindrance | None:
        """See :meth:`mgw.gateway.runtime.ends.contract.DestinationEnd.hindrance`."""
        if not self.flights:
            return None
        silence = self._context.clock.monotonic() - self._last_confirmed
        limit = self.link.limit if isinstance(self.link, Limited) and silence > BLOCKED_SECONDS else ""
        if limit:
            return Hindrance(Activity.BLOCKED, limit, silence)
        if silence <= patience:
            return None
        reason = f"{self.in_flight} messages sent to {self._context.job.destination} are not confirmed"
        return Hindrance(Activity.STUCK, reason, silence)

    def check_stall(self) -> None:
        """Refuse to wait forever.

        Raises:
            LinkTimeout: nothing was confirmed for too long.
        """
        silence = self._context.clock.monotonic() - self._last_confirmed
        if self.flights and silence > self._context.stall_seconds:
            limit = self.link.limit if isinstance(self.link, Limited) else ""
            raise LinkTimeout(
                f"{self.in_flight} messages sent to {self._context.job.destination} are not confirmed "
                f"for {silence:.0f} s",
                operation="publish",
                cause=limit or "the messaging system is blocked or the connection is stuck",
                cure="the gateway reconnects and sends the messages again; check the alarms of the messaging system",
            ).limited(limit)

    def state(self) -> str:
        """See :meth:`mgw.gateway.runtime.ends.contract.DestinationEnd.state`."""
        flights = tuple(self.flights)
        text = f"{self.in_flight} messages in flight, window {self._window}, {'a' if self.logged else 'no'} sending log"
        if not flights:
            return text
        silence = self._context.clock.monotonic() - self._last_confirmed
        return f"{text}, plans {flights[0].sequence} to {flights[-1].sequence}, no confirmation for {silence:.1f} s"

    def interrupt(self) -> None:
        """From any thread: make a waiting ``wait`` return."""
        self.link.interrupt()

    def close(self) -> None:
        """Disconnect; batches on their way have plans, the next route of this job deals with them."""
        self.link.close()
