"""Looking through a classic queue: its messages are held, and go back to their places when the connection ends.

Nothing else of AMQP shows a message of a queue. A classic queue only marks it as redelivered; of quorum queues see
:mod:`mgw.links.rabbitmq.held_quorum_queue`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence, Sized
from dataclasses import replace
from functools import partial

from mgw.links.contract import Encoded, JobUse
from mgw.links.rabbitmq.connection import Session
from mgw.links.rabbitmq.end import End
from mgw.links.rabbitmq.frames import ack_frame
from mgw.links.rabbitmq.settings import Settings
from mgw.links.reading_back import Held
from mgw.transforms.amqp import HEADER_PREFIX, Rules, decode
from mgw.transforms.amqp.table import HOP_FIELDS
from mgw.transforms.errors import LinkTimeout, QueueMissing
from mgw.transforms.message import Message

__all__ = ["OFFSET", "HeldAmqpQueue", "ReadBack", "more_than", "without_hop", "without_hops"]

OFFSET = HEADER_PREFIX + "x-stream-offset"

_SLICE = 0.1  # seconds between two questions to a broker that delivers nothing
#: Acknowledgements without a question behind them. RabbitMQ holds those of a quorum queue back from the 33rd one that
#: the queue has not confirmed, and forgets what it holds back when the channel ends.
_TOGETHER = 24
_EXCHANGE, _ROUTING_KEY, _REDELIVERED = "MGW_AMQP_exchange", "MGW_AMQP_routingKey", "MGW_AMQP_redelivered"
_DELIVERY_MODE = "MGW_AMQP_deliveryMode"
#: How often a quorum queue handed the message out; newer brokers count what was not processed apart.
_DELIVERIES = (HEADER_PREFIX + "x-delivery-count", HEADER_PREFIX + "x-acquired-count")
_COUNTS = frozenset((*_DELIVERIES, OFFSET))  # the broker writes them anew for every hop


class ReadBack(End):
    """What all queues that are read back share. The session is open, and the end of the subscription is told by it."""

    def __init__(self, settings: Settings, use: JobUse, queue: str, rules: Rules, session: Session) -> None:
        super().__init__(settings, use)
        self._session = session
        self._queue = queue
        self._rules = rules
        session.channel._impl.add_on_cancel_callback(lambda _frame: session.fail(self._cancelled()))

    def _cancelled(self) -> QueueMissing:
        return QueueMissing(
            f"foreign queue {self._use.endpoint.full_name}: RabbitMQ ended the subscription of {self._queue!r}",
            link=self._settings.link,
            operation="read",
            cause="the queue was deleted, or moved to another node",
            cure="see which messages are left: mgw exceptions list",
            number=434,
        )

    def _silent(self, what: str, cause: str, cure: str) -> LinkTimeout:
        return LinkTimeout(
            f"foreign queue {self._use.endpoint.full_name}: RabbitMQ delivered nothing for "
            f"{self._settings.answer_timeout:g} s, though {what}",
            link=self._settings.link,
            operation="read",
            cause=cause,
            cure=f"{cure}; AMQP_AnswerTimeout sets the limit",
        )

    def _decoded(self, properties: bytes, body: bytes, exchange: bytes, key: bytes, redelivered: bool) -> Message:
        message, _ = decode(properties, body, exchange, key, redelivered, self._use.clock.now(), self._rules)
        return message

    def keep(self, seconds: float) -> None:
        """See :meth:`mgw.links.reading_back.ReadQueue.keep`."""
        self._connected("read").pump(seconds, lambda: False, "read")

    def stored_form(self, encoded: Encoded) -> Message:
        """See :meth:`mgw.links.reading_back.ReadQueue.stored_form`."""
        _, properties, body = encoded
        message = self._decoded(properties, body, b"", self._queue.encode(), False)
        return without_hop(message, exchange=False, redelivered=False)


class HeldAmqpQueue(ReadBack):
    """See :class:`mgw.links.reading_back.HeldQueue`: a classic queue.

    ``waiting``: messages that are there. ``exclusive``: the queue takes a reader that shuts others out.
    """

    def __init__(
        self,
        settings: Settings,
        use: JobUse,
        queue: str,
        rules: Rules,
        session: Session,
        *,
        waiting: int,
        exclusive: bool,
        delivery_limit: int | None = None,
    ) -> None:
        super().__init__(settings, use, queue, rules, session)
        self.waiting = waiting
        self.delivery_limit = delivery_limit
        self._exclusive = exclusive
        self._tags = deque[int]()  # of the messages that are held, in the order in which they came

    def read(self, most: int) -> Sequence[Held]:
        """See :meth:`mgw.links.reading_back.ReadQueue.read`."""
        session = self._connected("read")
        room = min(most, self.waiting, 65535)
        if room <= 0:
            return ()
        room = self._gather(session, room)
        waiting = session.scanner.deliveries
        items = [waiting.popleft() for _ in range(min(room, len(waiting)))]
        self.waiting = self.waiting - len(items) if len(items) >= room else 0
        held = []
        for tag, redelivered, exchange, key, properties, body in items:
            message = self._decoded(properties, body, exchange, key, redelivered)
            shown = without_hop(message, exchange=bool(exchange), redelivered=redelivered)
            held.append(Held(tag, shown, len(body), None, _deliveries(message)))
            self._tags.append(tag)
        return held

    def _gather(self, session: Session, room: int) -> int:
        """Let so many messages come, or all that are there; how many were asked for."""
        with session.calling("read"):
            session.channel.basic_qos(prefetch_count=room)
            consumer = session.channel.basic_consume(self._queue, _never, exclusive=self._exclusive)
        self._await(session, room)
        with session.calling("read"):
            session.channel.basic_cancel(consumer)
        return room

    def _await(self, session: Session, room: int) -> None:
        """Until so many messages are here, or the broker has no more.

        Its answer may overtake messages that it has sent already, so it is asked twice.
        """
        clock, waiting = self._use.clock, session.scanner.deliveries
        quiet, deadline = 0, clock.monotonic() + self._settings.answer_timeout
        while len(waiting) < room and quiet < 2:
            had = len(waiting)
            with session.calling("read"):
                ready = session.channel.queue_declare(self._queue, passive=True).method.message_count
            if len(waiting) > had:
                quiet, deadline = 0, clock.monotonic() + self._settings.answer_timeout
            elif not ready:
                quiet += 1
            elif clock.monotonic() > deadline:
                raise self._silent(
                    f"{ready} message(s) wait",
                    "another reader has the queue, or the broker is stuck",
                    "stop other readers",
                )
            else:
                session.pump(_SLICE, partial(more_than, waiting, had), "read")

    def remove(self, held: Sequence[Held]) -> None:
        """See :meth:`mgw.links.reading_back.HeldQueue.remove`."""
        session = self._connected("settle")
        session.check("settle")
        frames = self._acknowledgements(session.number, {each.token for each in held})
        for first in range(0, len(frames), _TOGETHER):
            session.write(b"".join(frames[first : first + _TOGETHER]))
            with session.calling("settle"):  # an acknowledgement has no answer; a question behind it has
                session.channel.queue_declare(self._queue, passive=True)

    def _acknowledgements(self, channel: int, removed: set[int]) -> list[bytes]:
        """Frames that remove held messages: one for all that no kept message comes before, one for each other."""
        last = 0
        while self._tags and self._tags[0] in removed:
            last = self._tags.popleft()
            removed.remove(last)
        if removed:
            self._tags = deque(tag for tag in self._tags if tag not in removed)
        together = [ack_frame(channel, last, multiple=True)] if last else []
        return together + [ack_frame(channel, tag, multiple=False) for tag in sorted(removed)]


def without_hop(message: Message, *, exchange: bool, redelivered: bool) -> Message:
    """The message without the headers of its last hop, which come before those of earlier ones."""
    dropped = {_ROUTING_KEY, _DELIVERY_MODE}
    if exchange:
        dropped.add(_EXCHANGE)
    if redelivered:
        dropped.add(_REDELIVERED)
    kept = []
    for header in message.headers:
        if header.name in dropped:
            dropped.remove(header.name)
        elif header.name not in _COUNTS:
            kept.append(header)
    return replace(message, headers=tuple(kept))


def without_hops(message: Message) -> Message:
    """The message without the headers of any hop."""
    hop = {*HOP_FIELDS, _ROUTING_KEY, *_COUNTS}
    return replace(message, headers=tuple(header for header in message.headers if header.name not in hop))


def _deliveries(message: Message) -> int:
    """How often the message had been handed out before."""
    counts = [header.value for header in message.headers if header.name in _DELIVERIES]
    return max((count for count in counts if isinstance(count, int)), default=0)


def more_than(waiting: Sized, had: int) -> bool:
    """Whether more than so many wait."""
    return len(waiting) > had


def _never(*_arguments: object) -> None:
    """Deliveries pass by pika; see mgw.links.rabbitmq.frames."""
