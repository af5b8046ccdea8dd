"""Publishing to MQTT: QoS 1, many messages in flight, confirmed by the broker's PUBACK."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Collection, Sequence

from mgw.links.contract import Encoded, Recovered
from mgw.links.mqtt.codec import Frame, encode_publish, reason_text, topic_of
from mgw.links.mqtt.connection import Session, open_session
from mgw.links.mqtt.plain_frames import PlainFrames
from mgw.links.mqtt.settings import Settings
from mgw.links.mqtt.wire import Wire, blame_of
from mgw.links.placement import NOWHERE, Placement, placed
from mgw.transforms.clock import Clock
from mgw.transforms.errors import (
    ConversionFailure,
    DeliveryRejected,
    LinkError,
    LinkRefused,
    LinkTimeout,
    LinkUnavailable,
)
from mgw.transforms.message import Message
from mgw.transforms.mqtt import Outbound, Publish, outbound

__all__ = ["MqttDestination", "OpenBatch", "check_publisher"]

WINDOW = 1000  # messages in flight at most; an MQTT 5 broker may ask for less (receive maximum)
WAITING = 20_000  # messages not yet sent above which publish waits
WAITING_BYTES = 64 << 20  # and their bytes
UNSENT = 4 << 20  # bytes in our own send buffer above which nothing is added
_OUTCOMES = 2.0  # seconds that the outcome of what is under way is waited for after a refusal
PATIENCE = 60.0  # seconds without any confirmation after which the broker is given up


class OpenBatch:
    """A published batch: how many of its messages are not confirmed yet, and the packet ids they have (in runs)."""

    __slots__ = ("count", "following", "missing", "refused", "runs", "sequence", "topics")

    def __init__(self, sequence: int, missing: int, topics: list[bytes]) -> None:
        self.sequence = sequence
        self.count = self.missing = missing
        self.refused: list[int] = []  # indexes of messages that the broker refused
        self.topics = topics
        self.runs: list[int] = []
        self.following = 0  # never a packet id

    @property
    def answered(self) -> int:
        """How many of its messages the broker has answered; it answers in order."""
        return self.count - self.missing + len(self.refused)

    def note(self, packet_id: int) -> None:
        """The next message has this packet id."""
        if packet_id == self.following:
            self.runs[-1] += 1
        else:
            self.runs += (packet_id, 1)
        self.following = packet_id + 1 if packet_id >= 0 else packet_id


class MqttDestination:
    """Where a job writes (see :class:`mgw.links.contract.Destination`).

    The session is new at every connect: what was in flight has an unknown outcome and is published again by the engine.
    The client id is the job's own, so a forgotten publisher of the same job is disconnected by the broker.
    """

    def __init__(
        self, settings: Settings, client_id: str, rules: Outbound, clock: Clock, *, located: bool = False
    ) -> None:
        self._located = located
        self._settings = settings
        self._client_id = client_id
        self._rules = rules
        self._plain = PlainFrames(rules)
        self._clock = clock
        self._wire: Wire | None = None
        self._window = WINDOW
        self._largest = settings.max_packet_size
        self._reset()

    def _reset(self) -> None:
        self._order: deque[OpenBatch] = deque()
        self._stored: dict[int, OpenBatch] = {}  # confirmed, until their places are asked for
        self._waiting: deque[tuple[Frame, OpenBatch]] = deque()
        self._waiting_bytes = 0
        self._in_flight: dict[int, OpenBatch] = {}
        self._written: list[OpenBatch] = []  # QoS 0: done when the socket has taken everything
        self._mid = 0
        self._due = 1  # packet id of the next answer
        self._ordered = True  # each answer was the next so far
        self._refused: list[int] = []  # reason codes
        self._outcomes: dict[int, OpenBatch] | None = None  # after a refusal: what was under way
        self._confirmed: int | None = None
        self._progress_at = time.monotonic()

    def connect(self) -> None:
        """See :meth:`mgw.links.contract.Destination.connect`. MQTT topics need not exist; publishing creates them."""
        self.close()
        settings, rules = self._settings, self._rules
        session = open_session(settings, self._client_id, clean=True, nodelay=True)
        try:
            check_publisher(session, settings, rules.qos, rules.retain)
        except BaseException:
            session.wire.close()
            raise
        self._wire = session.wire
        self._window = min(WINDOW, session.receive_maximum)
        limits = [limit for limit in (settings.max_packet_size, session.maximum_packet) if limit]
        self._largest = min(limits, default=0)

    def recovered(self) -> Recovered | None:
        """See :meth:`mgw.links.contract.Destination.recovered`."""
        return None

    def encode(self, message: Message) -> Encoded:
        """See :meth:`mgw.links.contract.Destination.encode`."""
        plain = self._plain.of(message)
        if plain is not None:
            return self._fitting(plain)
        return self._frame(outbound(message, self._rules, self._clock.now()))

    def _frame(self, publish: Publish) -> Frame:
        return self._fitting(encode_publish(publish, self._rules.version))

    def _fitting(self, frame: Frame) -> Frame:
        if self._largest and len(frame[0]) + len(frame[1]) + 2 > self._largest:
            raise ConversionFailure(
                f"message makes an MQTT packet of {len(frame[0]) + len(frame[1]) + 2} bytes",
                cause=f"the broker of link {self._settings.link} accepts at most {self._largest}",
                cure="send smaller messages, or raise the limit (Mosquitto: max_packet_size)",
            )
        return frame

    def publish(self, sequence: int, messages: Sequence[Encoded]) -> None:
        """See :meth:`mgw.links.contract.Destination.publish`."""
        wire = self._require()
        if not self._order:
            self._progress_at = time.monotonic()
        chosen = self._located and (self._rules.topic_from_header or self._rules.topic.fixed is None)
        batch = OpenBatch(sequence, len(messages), [frame[0] for frame in messages] if chosen else [])
        self._order.append(batch)
        self._waiting.extend((frame, batch) for frame in messages)
        self._waiting_bytes += sum(len(frame[0]) + len(frame[1]) for frame in messages)
        self._feed(wire)
        while len(self._waiting) > WAITING or (self._waiting and self._waiting_bytes > WAITING_BYTES):
            self._pump(wire, 1.0)

    def confirmed(self, wait: float) -> int | None:
        """See :meth:`mgw.links.contract.Destination.confirmed`."""
        wire = self._require()
        before = self._confirmed
        self._pump(wire, 0.0)
        if self._confirmed == before and wait > 0:
            deadline = time.monotonic() + wait
            while self._confirmed == before and not wire.woken:
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    break
                self._pump(wire, remaining)
        wire.woken = False
        return self._confirmed

    def _require(self) -> Wire:
        if self._wire is None:
            raise LinkUnavailable(
                f"link {self._settings.link}: the destination {self._rules.topic.text!r} is not connected",
                link=self._settings.link,
                operation="publish",
                cause="it was closed, or never connected",
                cure="connect it",
            )
        return self._wire

    def _pump(self, wire: Wire, wait: float) -> None:
        frames = wire.pump(min(wait, PATIENCE))
        if frames:
            self._take_answers(frames)
        if self._refused and self._outcomes is None:
            self._outcomes = {batch.sequence: batch for batch in self._order}
            raise self._rejected(self._refused[0])
        if self._waiting and self._outcomes is None:
            self._feed(wire)
        if self._written and not wire.unsent:
            for batch in self._written:
                batch.missing -= 1
            self._written.clear()
        if frames or self._order:
            self._advance()

    def _take_answers(self, frames: Sequence[tuple[int, bytes]]) -> None:
        in_flight = self._in_flight
        for first, frame in frames:
            if first != 0x40:
                continue
            mid = frame[0] << 8 | frame[1]
            code = frame[2] if len(frame) > 2 else 0
            if code:
                self._answered(mid, code)
            batch = in_flight.pop(mid, None)
            if mid != self._due:
                self._ordered = False
            self._due = mid % 65535 + 1
            if batch is None:
                continue
            if code < 0x80:
                batch.missing -= 1
            else:
                batch.refused.append(batch.answered)

    def _advance(self) -> None:
        """Confirm the unbroken prefix."""
        order = self._order
        now = time.monotonic()
        while order and not order[0].missing:
            batch = order.popleft()
            self._confirmed = batch.sequence
            if self._located:
                self._stored[batch.sequence] = batch
            self._progress_at = now
        if order and now - self._progress_at > PATIENCE:
            self._require().suspect()
            raise LinkTimeout(
                f"link {self._settings.link}: the broker has confirmed nothing for topic {self._rules.topic.text!r}",
                link=self._settings.link,
                operation="publish",
                cause=f"{len(self._in_flight)} messages have been unconfirmed for {PATIENCE:g} s",
                cure="check the broker's log",
            )

    def located(self, sequence: int) -> Placement | None:
        """See :meth:`mgw.links.contract.Destination.located`; the numbers are packet ids, at QoS 0 there are none."""
        batch = self._stored.pop(sequence, None)
        if batch is None:
            return None
        if not batch.topics:
            return Placement([f"{self._rules.topic.fixed}#"], [batch.runs])
        ids = [number for at in range(0, len(batch.runs), 2) for number in _run(*batch.runs[at : at + 2])]
        topics = [topic_of(head) for head in batch.topics]
        return placed(topics, ids, {topic: f"{topic}#" for topic in topics})

    def stored(self, sequence: int, count: int) -> Collection[int]:
        """See :meth:`mgw.links.contract.Destination.stored`; a broker answers in the order of the messages."""
        if self._confirmed is not None and sequence <= self._confirmed:
            return range(count)
        if self._outcomes is None:
            self._outcomes = {batch.sequence: batch for batch in self._order}
        deadline = time.monotonic() + _OUTCOMES
        with contextlib.suppress(LinkError):
            while self._in_flight and self._wire is not None and (left := deadline - time.monotonic()) > 0:
                self._pump(self._wire, left)
        batch = self._outcomes.get(sequence)
        if batch is None or not self._ordered or self._rules.qos == 0:
            return ()
        return [index for index in range(batch.answered) if index not in batch.refused]

    def _feed(self, wire: Wire) -> None:
        """Send what fits into the window."""
        waiting, in_flight, located = self._waiting, self._in_flight, self._located
        parts: list[bytes] = []
        size = wire.unsent
        at_once = self._rules.qos == 0
        room = self._window - len(in_flight)
        while waiting and size < UNSENT and (room > 0 or at_once):
            (head, tail), batch = waiting.popleft()
            if at_once:
                parts.append(head)
                self._written.append(batch)
                if located:
                    batch.note(NOWHERE)
            else:
                mid = self._next_id()
                in_flight[mid] = batch
                if located:
                    batch.note(mid)
                parts += (head, b"%c%c" % (mid >> 8, mid & 255), tail)
                room -= 1
            size += len(head) + len(tail)
        if parts:
            data = b"".join(parts)
            self._waiting_bytes = max(0, self._waiting_bytes - len(data)) if waiting else 0
            wire.send(data)

    def _next_id(self) -> int:
        """A packet id that is not in flight."""
        in_flight = self._in_flight
        mid = self._mid % 65535 + 1
        while mid in in_flight:
            mid = mid % 65535 + 1
        self._mid = mid
        return mid

    def _answered(self, packet_id: int, code: int) -> None:  # noqa: ARG002  for what is built on this
        """The broker's answer to a message is not plain success."""
        if code >= 0x80:
            self._refused.append(code)

    def _rejected(self, code: int) -> DeliveryRejected:
        return DeliveryRejected(
            f"link {self._settings.link}: the broker refused a message for topic {self._rules.topic.text!r}",
            link=self._settings.link,
            operation="publish",
            cause=reason_text(code),
            cure="check the broker's access rules and limits for the link's user",
            number=805,
        ).blamed(blame_of(code))

    def interrupt(self) -> None:
        """See :meth:`mgw.links.contract.Destination.interrupt`."""
        wire = self._wire
        if wire is not None:
            wire.wake()

    def close(self) -> None:
        """See :meth:`mgw.links.contract.Destination.close`."""
        wire, self._wire = self._wire, None
        self._reset()
        if wire is not None:
            wire.close()


def _run(first: int, count: int) -> Sequence[int]:
    return range(first, first + count) if first >= 0 else [NOWHERE] * count


def check_publisher(session: Session, settings: Settings, qos: int, retain: bool) -> None:
    """Raise LinkRefused when the broker says that it cannot take such messages at all."""
    if qos > session.maximum_qos:
        raise LinkRefused(
            f"link {settings.link}: the broker at {settings.place} accepts messages at QoS 0 only",
            link=settings.link,
            operation="connect",
            cause=f"its maximum QoS is {session.maximum_qos}",
            cure="configure the broker to allow QoS 1, or accept at-most-once by registering with MQTT_Qos = 0",
        )
    if retain and not session.retain:
        raise LinkRefused(
            f"link {settings.link}: the broker at {settings.place} keeps no retained messages",
            link=settings.link,
            operation="connect",
            cause="it says so in its answer to the login",
            cure="configure the broker to allow them, or register the queue without MQTT_Retain",
        )
