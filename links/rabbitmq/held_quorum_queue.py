"""Looking through a quorum queue: its messages are held, and go back to their places when the channel ends.

The queue counts each look as a delivery, and drops a message that goes back after as many as its delivery limit says. A
message that is refused (basic.nack) would lose its place; so would one of a second consumer, because the queue takes
messages back consumer by consumer. So one consumer gets all messages at first, and is cancelled before the first one is
removed: no message that comes later gets into their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from mgw.links.contract import JobUse
from mgw.links.rabbitmq.connection import Session
from mgw.links.rabbitmq.held_queue import HeldAmqpQueue, more_than
from mgw.links.rabbitmq.settings import Settings
from mgw.links.reading_back import Held
from mgw.transforms.amqp import Rules
from mgw.transforms.errors import LinkError, LinkRefused

__all__ = ["HeldQuorumQueue"]

_WINDOW = 10_000  # messages of one consumer
_SLICE = 0.1  # seconds without a message after which the broker is asked
_BACK_SECONDS = 2.0  # in which the broker takes messages back, at most
_BACK_PAUSE = 0.02


class HeldQuorumQueue(HeldAmqpQueue):
    """See :class:`mgw.links.reading_back.HeldQueue`."""

    def __init__(
        self,
        settings: Settings,
        use: JobUse,
        queue: str,
        rules: Rules,
        session: Session,
        *,
        waiting: int,
        delivery_limit: int | None,
    ) -> None:
        super().__init__(
            settings, use, queue, rules, session, waiting=waiting, exclusive=False, delivery_limit=delivery_limit
        )
        self._consumer = ""
        self._window = 0  # messages of the consumer that are not read
        self._held = 0
        self._there = waiting  # messages that are to be in the queue at the end

    def _gather(self, session: Session, room: int) -> int:
        if not self._window:
            self._subscribe(session)
        room = min(room, self._window)
        waiting, had = session.scanner.deliveries, -1
        while had < len(waiting) < room:  # what is not needed yet stays in the socket: a question would bring it, too
            had = len(waiting)
            session.pump(_SLICE, partial(more_than, waiting, room - 1), "read")
        self._await(session, room)
        return room

    def read(self, most: int) -> Sequence[Held]:
        """See :meth:`mgw.links.reading_back.ReadQueue.read`."""
        found = super().read(most)
        self._window -= len(found)
        self._held += len(found)
        return found

    def _subscribe(self, session: Session) -> None:
        if self._held:
            raise LinkRefused(
                f"foreign queue {self._use.endpoint.full_name} has more messages than can be looked through",
                link=self._settings.link,
                operation="read",
                cause=f"{self._held} messages are held, and {self.waiting} more cannot be without a change of order",
                cure="give a --limit that is reached earlier, or replay or discard the first messages",
            )
        self._cancel(session)
        self._window = min(self.waiting, _WINDOW)
        with session.calling("read"):
            session.channel.basic_qos(prefetch_count=self._window)
            self._consumer = session.channel.basic_consume(self._queue, lambda *_: None)

    def _cancel(self, session: Session) -> None:
        if self._consumer:
            consumer, self._consumer = self._consumer, ""
            with session.calling("read"):
                session.channel.basic_cancel(consumer)

    def remove(self, held: Sequence[Held]) -> None:
        """See :meth:`mgw.links.reading_back.HeldQueue.remove`."""
        self._cancel(self._connected("settle"))
        super().remove(held)
        self._held -= len(held)
        self._there -= len(held)

    def close(self) -> None:
        """See :meth:`mgw.links.reading_back.ReadQueue.close`."""
        if self._session is not None and (self._held or self._window):
            with suppress(LinkError):
                self._give_back(self._session)
        super().close()

    def _give_back(self, session: Session) -> None:
        """The queue takes messages back a moment after it was told; who looks in between would miss them."""
        clock = self._use.clock
        deadline = clock.monotonic() + _BACK_SECONDS
        with session.calling("close"):
            other = session.fresh_channel()
            session.channel._impl.close()
        while clock.monotonic() < deadline:
            with session.calling("close"):
                ready = other.queue_declare(self._queue, passive=True).method.message_count
            if ready >= self._there:
                return
            session.pump(_BACK_PAUSE, lambda: False, "close")
