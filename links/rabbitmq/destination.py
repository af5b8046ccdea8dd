"""Writing to RabbitMQ: a queue, or an exchange with a routing key; confirmed by the broker, many batches in flight."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from mgw.links.contract import Encoded, JobUse, Recovered
from mgw.links.placement import Placement, placed
from mgw.links.rabbitmq.connection import Session
from mgw.links.rabbitmq.end import End
from mgw.links.rabbitmq.errors import alarm, missing
from mgw.links.rabbitmq.frames import Returned, message_frames, publish_method, routing_key_of
from mgw.links.rabbitmq.settings import Settings
from mgw.transforms.amqp import Rules, encode, encode_known
from mgw.transforms.errors import (
    Blame,
    ConversionFailure,
    DeliveryRejected,
    LinkError,
    LinkTimeout,
    QueueMissing,
)
from mgw.transforms.message import Message

__all__ = ["Confirmations", "DestinationPlan", "Progress", "RabbitDestination"]

_CHANNEL = 1  # a connection of ours has one channel
_UNSENT_LIMIT = 4 * 1024 * 1024  # bytes; above, publish waits for the socket
_MAX_PROPERTIES = 128 * 1024 - 64  # a content header is one frame


@dataclass(frozen=True, slots=True)
class DestinationPlan:
    """Where to write. ``routing_key`` None: each message names its own (header MGW_AMQP_routingKey)."""

    exchange: str
    routing_key: str | None
    queue: str | None  # to be checked; None for exchanges
    mandatory: bool
    max_message_size: int
    rules: Rules
    queue_type: str = "auto"  # of the queue, or of all queues that the exchange routes to, as it is declared


class Progress(Protocol):
    """What is known of the batches on their way."""

    done: int | None
    refusal: str
    blame: Blame

    @property
    def in_flight(self) -> bool:
        """Whether a sequence waits for its confirmation."""
        ...

    @property
    def answered(self) -> bool:
        """Whether no answer is to come that tells more of what is stored."""
        ...

    def refuse(self, why: str, blame: Blame = Blame.DESTINATION) -> None:
        """The broker refused a message."""
        ...


class Confirmations:
    """Which sequences are stored: turns the broker's confirmations, in any order, into an unbroken prefix.

    Messages that a full queue refuses are never confirmed, others around them are. After a message that was returned
    nothing counts any more, for the broker confirms it all the same: what was confirmed before stands, the rest is
    unknown.
    """

    def __init__(self) -> None:
        self.published = 0  # delivery tag of the last message
        self.done: int | None = None  # highest sequence of the unbroken prefix
        self.refusal: str = ""
        self.blame = Blame.DESTINATION
        self._low = 0  # every tag up to here is confirmed
        self._beyond: set[int] = set()  # confirmed tags above _low + 1
        self._full: set[int] = set()  # tags that the broker refused without a reason
        self._ended = False  # nothing counts any more
        self._batches: deque[tuple[int, int]] = deque()  # last tag, sequence

    @property
    def in_flight(self) -> bool:
        """Whether a sequence waits for its confirmation."""
        return bool(self._batches)

    def add(self, sequence: int, count: int) -> None:
        """A batch of ``count`` messages is on its way."""
        self.published += count
        self._batches.append((self.published, sequence))
        if self.published == self._low:
            self._advance()

    def confirmed(self, tag: int, multiple: bool, positive: bool) -> None:
        """``basic.ack`` or ``basic.nack`` from the broker."""
        if self._ended:
            return
        if not positive:
            self._full.update(self._open(tag) if multiple else (tag,))
            self._refuse(
                "it could not store a message (basic.nack): the queue is full, or the leader of a quorum queue is lost",
                Blame.FULL,
            )
            return
        if self._full and multiple:
            self._beyond.update(self._open(tag))
        elif multiple:
            if tag > self._low:
                self._low = tag
                if self._beyond:
                    self._beyond = {other for other in self._beyond if other > tag}
        elif tag == self._low + 1:
            self._low = tag
        else:
            self._beyond.add(tag)
            return
        beyond = self._beyond
        while self._low + 1 in beyond:
            self._low += 1
            beyond.remove(self._low)
        self._advance()

    def refuse(self, why: str, blame: Blame = Blame.DESTINATION) -> None:
        """The broker refused a message; what is not confirmed by now never will be."""
        self._ended = True
        self._refuse(why, blame)

    def _refuse(self, why: str, blame: Blame) -> None:
        if not self.refusal:
            self.refusal = why
            self.blame = blame

    def _open(self, tag: int) -> set[int]:
        """Tags up to this one that were neither confirmed nor refused."""
        return set(range(self._low + 1, tag + 1)) - self._beyond - self._full

    @property
    def answered(self) -> bool:
        """Whether the broker will say nothing more of what was published."""
        return self._ended or self._low + len(self._beyond) + len(self._full) >= self.published

    def stored(self, sequence: int, count: int) -> Collection[int]:
        """Which of the ``count`` messages of a batch (indexes in it) were confirmed."""
        if self.done is not None and sequence <= self.done:
            return range(count)
        last = next((tag for tag, number in self._batches if number == sequence), 0)
        first = last - count + 1
        return [tag - first for tag in range(first, last + 1) if 0 < tag <= self._low or tag in self._beyond]

    def _advance(self) -> None:
        batches = self._batches
        while batches and batches[0][0] <= self._low:
            self.done = batches.popleft()[1]


class RabbitDestination(End):
    """See :class:`mgw.links.contract.Destination`."""

    def __init__(self, settings: Settings, use: JobUse, plan: DestinationPlan) -> None:
        super().__init__(settings, use)
        self._plan = plan
        self._confirmations = Confirmations()
        self._state: Progress = self._confirmations
        self._told: int | None = None
        self._published = 0  # messages on this connection
        self._places: dict[int, Placement] = {}  # until they are asked for
        self._last_progress = 0.0
        self._exchange = plan.exchange.encode()
        self._method = self._method_for(plan.routing_key or "")

    def _method_for(self, routing_key: str) -> bytes:
        return publish_method(_CHANNEL, self._exchange, routing_key.encode(), mandatory=self._plan.mandatory)

    def connect(self) -> None:
        """See :meth:`mgw.links.contract.Destination.connect`."""
        self._told = None
        self._published = 0
        self._places = {}
        session = self._session = self._new_session()
        try:
            with session.calling("connect"):
                if self._plan.queue is not None:
                    session.channel.queue_declare(self._plan.queue, passive=True)
                elif self._plan.exchange:
                    session.channel.exchange_declare(self._plan.exchange, passive=True)
            self._prepare(session)
            if session.number != _CHANNEL:
                raise AssertionError("a new connection starts with channel 1")
        except BaseException as error:
            self.close()
            if isinstance(error, QueueMissing):
                raise missing(self._use, error) from error
            raise
        self._last_progress = self._use.clock.monotonic()

    def _new_session(self) -> Session:
        state = self._confirmations = self._state = Confirmations()
        purpose = f"{self._use.agent} {self._use.job} out"
        return Session(self._settings, purpose, confirmed=state.confirmed, returned=self._returned)

    def _prepare(self, session: Session) -> None:
        with session.calling("connect"):
            session.channel.confirm_delivery()

    def _returned(self, message: Returned) -> None:
        target = f"exchange {message.exchange!r}" if message.exchange else f"queue {message.routing_key!r}"
        key = f" with routing key {message.routing_key!r}" if message.exchange else ""
        own_key = self._plan.routing_key is None
        self._state.refuse(
            f"it could not route a message for {target}{key} ({message.code} {message.text})",
            Blame.MESSAGE if own_key else Blame.DESTINATION,
        )

    def recovered(self) -> Recovered | None:
        """See :meth:`mgw.links.contract.Destination.recovered`."""
        return None

    def encode(self, message: Message) -> Encoded:
        """See :meth:`mgw.links.contract.Destination.encode`."""
        plan = self._plan
        properties, body, key = encode_known(message, plan.rules) or encode(message, self._use.clock.now(), plan.rules)
        if len(properties) > _MAX_PROPERTIES:
            raise ConversionFailure(
                f"the headers of the message take {len(properties)} bytes",
                cause=f"AMQP carries at most {_MAX_PROPERTIES}",
                cure="have the sender set fewer or smaller headers",
            )
        if len(body) > plan.max_message_size:
            raise ConversionFailure(
                f"the message has {len(body)} bytes",
                cause=f"foreign queue {self._use.endpoint.full_name} accepts at most {self._plan.max_message_size}",
                cure="raise AMQP_MaxMessageSize if the broker accepts more",
            )
        if plan.routing_key is not None:
            return self._method, properties, body
        if not isinstance(key, str):
            raise ConversionFailure(
                "the message has no routing key",
                cause=f"foreign queue {self._use.endpoint.full_name} names an exchange only",
                cure="set the header MGW_AMQP_routingKey (TEXT) in a transformation, or register exchange/routing.key",
            )
        try:
            method = self._method_for(key)
        except ValueError as error:  # not Unicode, or longer than a byte can count
            raise ConversionFailure(
                f"routing key {key!a:.60} cannot be sent",
                cause="AMQP routing keys have at most 255 bytes of UTF-8",
                cure="correct MGW_AMQP_routingKey in a transformation",
            ) from error
        return method, properties, body

    def publish(self, sequence: int, messages: Sequence[Encoded]) -> None:
        """See :meth:`mgw.links.contract.Destination.publish`."""
        session = self._connected("publish")
        session.check("publish")
        state = self._confirmations
        if not state.in_flight:
            self._last_progress = self._use.clock.monotonic()
        state.add(sequence, len(messages))
        self._place(sequence, messages)
        pieces: list[bytes] = []
        message_frames(pieces, _CHANNEL, session.frame_max, messages)
        if pieces:
            session.write(b"".join(pieces))
        session.pump(0.0, _at_once, "publish")
        if session.unsent > _UNSENT_LIMIT:
            self._wait_for_room(session)

    def _place(self, sequence: int, messages: Sequence[Encoded]) -> None:
        """RabbitMQ names no message; the number is that of the message on this connection (its publishing number)."""
        if self._use.located and messages:
            first, count, exchange = self._published + 1, len(messages), self._plan.exchange
            start = f"{exchange}/" if exchange else ""
            if self._plan.routing_key is not None:
                self._places[sequence] = Placement([f"{start}{self._plan.routing_key}#"], [[first, count]])
            else:
                methods = [method for method, _, _ in messages]
                names = {method: f"{start}{routing_key_of(method)}#" for method in set(methods)}
                self._places[sequence] = placed(methods, range(first, first + count), names)
            self._published += count

    def located(self, sequence: int) -> Placement | None:
        """See :meth:`mgw.links.contract.Destination.located`."""
        return self._places.pop(sequence, None)

    def stored(self, sequence: int, count: int) -> Collection[int]:
        """See :meth:`mgw.links.contract.Destination.stored`."""
        return self._confirmations.stored(sequence, count)

    def _wait_for_room(self, session: Session) -> None:
        seconds = self._settings.confirm_timeout
        deadline = self._use.clock.monotonic() + seconds
        while session.unsent > _UNSENT_LIMIT:
            left = deadline - self._use.clock.monotonic()
            if left <= 0:
                raise self._too_slow("publish", seconds, session)
            session.pump(min(left, 1.0), lambda: session.unsent <= _UNSENT_LIMIT, "publish")

    def confirmed(self, wait: float) -> int | None:
        """See :meth:`mgw.links.contract.Destination.confirmed`."""
        session = self._connected("publish")
        state, told = self._state, self._told
        if state.done != told or state.refusal:
            wait = 0.0
        try:
            session.pump(wait, lambda: state.done != told or state.refusal, "publish")
        except LinkError:
            if state.done == told:
                raise  # otherwise what was still confirmed is told first, and the error at the next call
        if state.done != told:
            self._told = state.done
            self._last_progress = self._use.clock.monotonic()
        elif state.refusal:
            with suppress(LinkError):  # what is known by then counts
                session.pump(self._settings.answer_timeout, lambda: state.answered, "publish")
            raise DeliveryRejected(
                f"foreign queue {self._use.endpoint.full_name}: RabbitMQ refused a batch",
                link=self._settings.link,
                operation="publish",
                cause=state.refusal,
                cure="check the queue, its limits and the bindings of the exchange",
                number=805,
            ).blamed(state.blame)
        elif state.in_flight:
            seconds = self._settings.confirm_timeout
            if self._use.clock.monotonic() - self._last_progress > seconds:
                raise self._too_slow("publish", seconds, session)
        return self._told

    def _too_slow(self, operation: str, seconds: float, session: Session) -> LinkTimeout:
        blocked = f"the broker is blocked by an alarm ({session.blocked})" if session.blocked else ""
        session.suspect()
        return LinkTimeout(
            f"foreign queue {self._use.endpoint.full_name}: RabbitMQ confirmed nothing for {seconds:g} s",
            link=self._settings.link,
            operation=operation,
            cause=blocked or "the broker is overloaded or stuck",
            cure="check the broker; AMQP_ConfirmTimeout sets the limit",
        ).limited(alarm(session.blocked))


def _at_once() -> Any:
    return True
