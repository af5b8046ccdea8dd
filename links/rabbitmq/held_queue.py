"""Looking through a classic queue: its messages are held, and go back to their places when the connection ends.

Nothing else of AMQP shows a message of a queue. A classic queue only marks it as redelivered. A quorum queue counts
each look as a delivery and drops a message after so many, so it is refused. So is a queue that its last reader deletes.
"""

from __future__ import annotations

from collections.abc import Sequence, Sized
from dataclasses import replace
from functools import partial

from mgw.links.contract import Encoded, JobUse
from mgw.links.rabbitmq.conditions import Answers, look_at_queue
from mgw.links.rabbitmq.connection import End, Session
from mgw.links.rabbitmq.errors import missing
from mgw.links.rabbitmq.frames import ack_frame
from mgw.links.rabbitmq.management import Policies
from mgw.links.rabbitmq.settings import Settings
from mgw.links.reading_back import Held
from mgw.transforms.amqp import Rules, decode
from mgw.transforms.amqp.table import HOP_FIELDS
from mgw.transforms.errors import LinkRefused, LinkTimeout, QueueMissing
from mgw.transforms.message import Message

__all__ = ["HeldClassicQueue", "without_hops"]

_CURE = "use a durable classic queue; or read it with a job from it into a queue of the hub"
_SLICE = 0.1  # seconds between two questions to a broker that delivers nothing
_EXCHANGE, _ROUTING_KEY, _REDELIVERED = "MGW_AMQP_exchange", "MGW_AMQP_routingKey", "MGW_AMQP_redelivered"
_DELIVERY_MODE = "MGW_AMQP_deliveryMode"


class HeldClassicQueue(End):
    """See :class:`mgw.links.reading_back.HeldQueue`."""

    def __init__(self, settings: Settings, use: JobUse, queue: str, rules: Rules) -> None:
        super().__init__(settings, use)
        self._queue = queue
        self._rules = rules
        self._left = 0  # messages that were there at connect and were not read
        self._exclusive = True

    def connect(self) -> None:
        """See :meth:`mgw.links.reading_back.HeldQueue.connect`."""
        session = self._session = Session(self._settings, f"{self._use.agent} {self._use.job} exceptions")
        try:
            with session.calling("connect"):
                answer = session.channel.queue_declare(self._queue, passive=True)
            self._check_kind(session)
            if answer.method.consumer_count:
                raise self._refused(
                    "its messages cannot be held",
                    f"{answer.method.consumer_count} consumer(s) read it, and would get newer messages first",
                    "stop them first",
                )
            self._left = int(answer.method.message_count)
            session.channel._impl.add_on_cancel_callback(lambda _frame: session.fail(self._cancelled()))
        except BaseException as error:
            self.close()
            if isinstance(error, QueueMissing):
                raise missing(self._use, error) from error
            raise

    def _check_kind(self, session: Session) -> None:
        """Refuse a queue in which looking can cost a message."""
        answers = Answers()
        facts = look_at_queue(session, self._queue, Policies(), answers)
        what = "looking through it could cost messages"
        if not facts.known:
            raise self._refused(
                what,
                "the broker does not say what kind of queue it is: the user lacks the configure permission on it",
                "grant it",
            )
        if facts.type == "quorum":
            raise self._refused(
                what,
                "it is a quorum queue, which counts each look as a delivery and drops a message at its delivery limit",
                _CURE,
            )
        if facts.type != "classic":
            raise self._refused(
                "its messages cannot be removed", f"it is a {facts.type}, which gives no message up", _CURE
            )
        if answers.queues[self._queue][1]:
            raise self._refused(
                what, "it is an auto-delete queue, which RabbitMQ deletes when its last reader goes", _CURE
            )
        self._exclusive = not facts.single_active_consumer  # such a queue takes no exclusive reader

    def _refused(self, what: str, cause: str, cure: str) -> LinkRefused:
        return LinkRefused(
            f"foreign queue {self._use.endpoint.full_name}: {what}",
            link=self._settings.link,
            operation="read",
            cause=cause,
            cure=cure,
        )

    def _cancelled(self) -> QueueMissing:
        return QueueMissing(
            f"foreign queue {self._use.endpoint.full_name}: RabbitMQ ended the subscription of {self._queue!r}",
            link=self._settings.link,
            operation="read",
            cause="the queue was deleted, or moved to another node",
            cure="see which messages are left: mgw exceptions list",
        )

    def read(self, most: int) -> Sequence[Held]:
        """See :meth:`mgw.links.reading_back.HeldQueue.read`."""
        session = self._connected("read")
        room = min(most, self._left, 65535)
        if room <= 0:
            return ()
        waiting = session.scanner.deliveries
        with session.calling("read"):
            session.channel.basic_qos(prefetch_count=room)
            consumer = session.channel.basic_consume(self._queue, _never, exclusive=self._exclusive)
        self._await(session, room)
        with session.calling("read"):
            session.channel.basic_cancel(consumer)
        items = list(waiting)
        waiting.clear()
        self._left = self._left - len(items) if len(items) >= room else 0
        now, rules, held = self._use.clock.now(), self._rules, []
        for tag, redelivered, exchange, key, properties, body in items:
            message, _ = decode(properties, body, exchange, key, redelivered, now, rules)
            held.append(Held(tag, without_hop(message, exchange=bool(exchange), redelivered=redelivered), len(body)))
        return held

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
                raise LinkTimeout(
                    f"foreign queue {self._use.endpoint.full_name}: RabbitMQ delivered nothing for "
                    f"{self._settings.answer_timeout:g} s, though {ready} message(s) wait",
                    link=self._settings.link,
                    operation="read",
                    cause="another reader has the queue, or the broker is stuck",
                    cure="stop other readers; AMQP_AnswerTimeout sets the limit",
                )
            else:
                session.pump(_SLICE, partial(_more_than, waiting, had), "read")

    def remove(self, held: Sequence[Held]) -> None:
        """See :meth:`mgw.links.reading_back.HeldQueue.remove`."""
        session = self._connected("settle")
        session.check("settle")
        session.write(b"".join([ack_frame(session.number, each.token, multiple=False) for each in held]))
        with session.calling("settle"):  # an acknowledgement has no answer; a question behind it has
            session.channel.queue_declare(self._queue, passive=True)

    def keep(self, seconds: float) -> None:
        """See :meth:`mgw.links.reading_back.HeldQueue.keep`."""
        self._connected("read").pump(seconds, lambda: False, "read")

    def stored_form(self, encoded: Encoded) -> Message:
        """See :meth:`mgw.links.reading_back.HeldQueue.stored_form`."""
        _, properties, body = encoded
        message, _ = decode(properties, body, b"", self._queue.encode(), False, self._use.clock.now(), self._rules)
        return without_hop(message, exchange=False, redelivered=False)


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
        else:
            kept.append(header)
    return replace(message, headers=tuple(kept))


def without_hops(message: Message) -> Message:
    """The message without the headers of any hop."""
    hop = {*HOP_FIELDS, _ROUTING_KEY}
    return replace(message, headers=tuple(header for header in message.headers if header.name not in hop))


def _more_than(waiting: Sized, had: int) -> bool:
    return len(waiting) > had


def _never(*_arguments: object) -> None:
    """Deliveries pass by pika; see mgw.links.rabbitmq.frames."""
