"""Publishing to MQTT 5 exactly once: an echo of everything that the job publishes is its sending log.

A session of our own (fixed client id, never started again) subscribes to the output topic at QoS 1 and to a topic for
records. A message that the broker took over is in that session, in the order of its arrival, until we acknowledge it:
when the record of its batch is there too (:mod:`mgw.links.mqtt.echo_log`). Every message carries a mark, user property
``MGW_log``: job, message id and enqueue time.

At a connect the publisher's client id is taken over first: that ends an older publisher of the job, and what it had not
brought into the broker by then is gone forever. Then a marker is published and the echo read up to it. The hub's plans
are sent again without the messages that were read.

The first marker is published while the session is not connected, when it can overflow; a second one after. If only the
second arrives, the session was full and the broker has dropped messages: then the echo does not prove what is missing.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence

from mgw.links.contract import Encoded, Recovered
from mgw.links.mqtt.codec import Frame, encode_publish, reason_text
from mgw.links.mqtt.connection import open_session
from mgw.links.mqtt.destination import MqttDestination, OpenBatch
from mgw.links.mqtt.echo_log import KEY, Echo, EchoLog, Record
from mgw.links.mqtt.echo_reading import parsed, read_echo, silent
from mgw.links.mqtt.knowledge import Knowledge
from mgw.links.mqtt.settings import Settings
from mgw.links.mqtt.wire import Wire
from mgw.links.placement import Placement
from mgw.transforms.clock import Clock
from mgw.transforms.errors import LinkRefused, LinkUnavailable
from mgw.transforms.message import Message
from mgw.transforms.mqtt import Outbound, Publish, outbound

__all__ = ["EchoDestination", "room_for"]

ROOM = 500  # messages and records that may lie in the echo; Mosquitto keeps 1000 for an absent session by default
GROWN = 150  # messages to which batches grow: two of them have room in the echo, which does not grow
_EVERYTHING = 65535  # receive maximum: the broker hands out all that it has without waiting for acknowledgements
_NO_SUBSCRIBER = 0x10
_log = logging.getLogger("mgw.links.mqtt")


def _room(batch_size: int) -> int:
    return max(ROOM, batch_size + 1)


def room_for(batch_size: int) -> int:
    """Messages and records that the broker must keep for an absent session of a job with such a MsgBatchSize."""
    return _room(batch_size) + batch_size + 50  # one more batch, and what connecting adds


class EchoDestination(MqttDestination):
    """A destination that keeps the sending log in its echo.

    Args:
        knowledge: of the broker; what is seen of the echo is added.
        shortcoming: why the broker cannot keep such a log, empty if it can; asked at every connect. Without the log
            the destination works all the same, at least once.
        batch_size: of the job.
        batch_limit: to which its batches grow; they do as far as no more room is needed for it.
    """

    def __init__(
        self,
        settings: Settings,
        client_id: str,
        rules: Outbound,
        clock: Clock,
        *,
        echo: Echo,
        knowledge: Knowledge,
        shortcoming: Callable[[], str],
        batch_size: int,
        batch_limit: int = 0,
        located: bool = False,
    ) -> None:
        self._names = echo
        self._knowledge = knowledge
        self._shortcoming = shortcoming
        self._grown = max(batch_size, min(batch_limit, GROWN))
        self._room = _room(batch_size) - (self._grown - batch_size)  # what room_for counts is the same
        topic = echo.record_topic.encode()
        self._prefix = len(topic).to_bytes(2, "big") + topic
        self._needle = f"{echo.owner}:".encode()
        super().__init__(settings, client_id, rules, clock, located=located)

    def _reset(self) -> None:
        super()._reset()
        self._echo: Wire | None = None
        self._log = EchoLog()
        self._queued: deque[tuple[int, Sequence[Frame], int]] = deque()  # and how many they were
        self._sizes: deque[tuple[int, int]] = deque()  # batches in the echo: sequence, messages and record
        self._lying = 0
        self._kept = 0  # of the messages that lie there: those from before the connect
        self._claimed = 0  # of those, how many belong to batches that have begun
        self._sent = 0
        self._sent_by: deque[tuple[int, int]] = deque()  # sequence, messages sent up to it
        self._begun = 0
        self._unrecorded: deque[tuple[int, int]] = deque()  # batches that have begun: sequence, all their messages
        self._partial: set[int] = set()
        self._record: OpenBatch | None = None  # the record on its way
        self._record_due: int | None = None
        self._told: dict[int, bytes] = {}  # packet id -> record or marker on its way

    # -- connecting ---------------------------------------------------------------------------------------------------

    def connect(self) -> None:
        """See :meth:`mgw.links.contract.Destination.connect`.

        Raises:
            LinkUnavailable: the echo has overflowed; from the next connect on the job continues, at least once.
        """
        problem = self._shortcoming()
        super().connect()
        if problem:
            _log.warning("link %s: no sending log for %r: %s", self._settings.link, self._rules.topic.text, problem)
            return
        self._limit = self._window
        self._window = max(1, self._window - 1)  # a place for the record
        try:
            self._open_echo(self._require())
        except BaseException:
            self.close()
            raise

    def _open_echo(self, wire: Wire) -> None:
        settings, names = self._settings, self._names
        first, second = (f"mark {secrets.token_hex(8)} {self._names.owner}".encode() for _ in range(2))
        deadline = time.monotonic() + self._settings.connect_timeout
        marker = self._tell(wire, first)
        while marker.missing:
            if (left := deadline - time.monotonic()) <= 0:
                raise silent(settings, names)
            self._pump(wire, left)

        def end() -> bytes:
            self._tell(wire, second)
            return second

        expiry = settings.session_expiry
        session = open_session(settings, names.client_id, clean=False, expiry=expiry, receive_maximum=_EVERYTHING)
        try:
            marks = read_echo(session, settings, names, self._log, tell=end, pump=lambda: self._pump(wire, 0.0))
        except BaseException:
            session.wire.close()
            raise
        self._lying = self._kept = self._log.kept
        self._echo = session.wire
        wire.watch(session.wire)
        self._check_overflow(session.present and first not in marks)
        if self._log.seen:
            count, topic = len(self._log.seen), self._rules.topic.text
            _log.info("link %s: the echo of %r shows %d messages behind its records", settings.link, topic, count)

    def _check_overflow(self, overflown: bool) -> None:
        identity, link = self._names.client_id, self._settings.link
        if not overflown:
            return
        when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
        cause = (
            f"the echo of the job overflowed, as seen at {when} (Mosquitto: max_queued_messages; the broker drops "
            "what exceeds it): messages that it does not show are sent again and may arrive twice"
        )
        _log.warning("link %s, topic %r: %s", link, self._rules.topic.text, cause)
        if self._knowledge.note_overflow(identity, cause):
            raise LinkUnavailable(
                f"link {link}: the echo of {self._rules.topic.text!r} is incomplete",
                link=link,
                operation="connect",
                cause=cause,
                cure="the job continues at least once; raise the broker's queue limits (Mosquitto: "
                "max_queued_messages)",
            )

    def recovered(self) -> Recovered | None:
        """See :meth:`mgw.links.contract.Destination.recovered`."""
        return None if self._echo is None else Recovered(self._log.sequence)

    @property
    def largest_batch(self) -> int | None:
        """See :class:`mgw.links.contract.Bounded`."""
        return None if self._echo is None else self._grown

    # -- publishing ---------------------------------------------------------------------------------------------------

    def encode(self, message: Message) -> Encoded:
        """See :meth:`mgw.links.contract.Destination.encode`."""
        publish = outbound(message, self._rules, self._clock.now())
        if message.msgid is not None:
            properties = publish.properties
            user = [self._names.mark(message.msgid, message.enqueue_time), *properties.user]
            publish = publish._replace(properties=properties._replace(user=user))
        return self._frame(publish)

    def publish(self, sequence: int, messages: Sequence[Encoded]) -> None:
        """See :meth:`mgw.links.contract.Destination.publish`; leaves out what the echo has shown."""
        if self._echo is None:
            super().publish(sequence, messages)
            return
        self._require()
        count = len(messages)
        if self._log.seen:
            missing = [frame for frame in messages if self._key_in(frame) not in self._log.seen]
            if len(missing) < count:
                self._partial.add(sequence)
                _log.info(
                    "link %s: %d of %d messages of batch %d are already at the broker and are not sent again",
                    self._settings.link,
                    count - len(missing),
                    count,
                    sequence,
                )
                messages = missing
        self._log.publishes(sequence, known=len(messages) < count, fresh=bool(messages))
        self._queued.append((sequence, messages, count))
        self._admit()

    def _key_in(self, frame: Frame) -> bytes:
        at = frame[1].find(self._needle)
        return frame[1][at + 9 : at + 9 + KEY] if at >= 0 else b""

    def _admit(self) -> None:
        """Send the batches for which the echo has room, or one alone. Batches are sent whole."""
        queued, sizes = self._queued, self._sizes
        while queued:
            sequence, frames, count = queued[0]
            size = len(frames) + 1
            if frames and sizes and self._lying + size > self._room:
                return
            queued.popleft()
            self._lying += size
            sizes.append((sequence, size))
            self._claimed += count - len(frames)
            self._sent += len(frames)
            self._sent_by.append((sequence, self._sent))
            self._unrecorded.append((sequence, count))
            self._begun = sequence
            super().publish(sequence, frames)

    def _advance(self) -> None:
        """A batch counts as confirmed when its record is stored too."""
        if self._echo is None:
            super()._advance()
            return
        told = self._confirmed
        super()._advance()
        stored, self._confirmed = self._confirmed, told
        if stored != told:
            self._record_due = stored
        record = self._record
        if record is not None and not record.missing:
            self._confirmed, self._record = record.sequence, None
            self._told.clear()
        wire, due = self._wire, self._record_due
        if self._record is None and due is not None and wire is not None and len(self._in_flight) < self._limit:
            self._record_due = None
            messages = 0
            while self._sent_by and self._sent_by[0][0] <= due:
                messages = self._sent_by.popleft()[1]
            while self._unrecorded and self._unrecorded[0][0] <= due:
                self._unrecorded.popleft()
            beyond = sum(count for _, count in self._unrecorded) + max(0, self._log.kept - self._claimed)
            self._log.record_sent(due, self._begun, messages)
            self._record = self._tell(wire, self._names.payload(Record(due, beyond)), due)

    def _tell(self, wire: Wire, payload: bytes, sequence: int = 0) -> OpenBatch:
        """Publish a record or a marker."""
        batch = OpenBatch(sequence, 1, [])
        head, tail = encode_publish(Publish(self._names.record_topic, payload), 5)
        mid = self._next_id()
        self._in_flight[mid] = batch
        self._told[mid] = payload
        wire.send(b"%b%c%c%b" % (head, mid >> 8, mid & 255, tail))
        return batch

    def _answered(self, packet_id: int, code: int) -> None:
        payload = self._told.get(packet_id)
        if payload is None:
            super()._answered(packet_id, code)
        elif code >= 0x80:
            raise LinkRefused(
                f"link {self._settings.link}: the broker refused a record of the sending log on "
                f"{self._names.record_topic!r}",
                link=self._settings.link,
                operation="publish",
                cause=reason_text(code),
                cure="allow the link's user to write and read that topic in its access rules (outbound_log_queue)",
            )
        elif code == _NO_SUBSCRIBER and self._echo is not None:
            raise LinkUnavailable(
                f"link {self._settings.link}: the broker no longer has the echo of {self._rules.topic.text!r}",
                link=self._settings.link,
                operation="publish",
                cause=f"nobody subscribes to {self._names.record_topic!r} any more",
                cure=f"find out who removed the session {self._names.client_id}",
            )

    # -- the echo -----------------------------------------------------------------------------------------------------

    def _pump(self, wire: Wire, wait: float) -> None:
        if self._echo is None:
            super()._pump(wire, wait)
            return
        super()._pump(wire, min(wait, 1.0))
        self._read_echo(self._echo)

    def _read_echo(self, echo: Wire) -> None:
        settings, log, prefix = self._settings, self._log, self._prefix
        for first, frame in echo.pump(0.0):
            if first >> 4 != 3 or not first & 6:
                continue
            end = 2 + (frame[0] << 8 | frame[1])
            mid = frame[end] << 8 | frame[end + 1]
            if not frame.startswith(prefix):
                log.arrived(mid)
                continue
            record = self._names.record_of(parsed(settings, first, frame)[1].payload)
            if record is None:
                echo.send(log.passed(mid))
            else:
                self._check_gap(log.record_arrived(mid, record.sequence))
        self._release(echo)

    def _check_gap(self, missing: int) -> None:
        if not missing:
            return
        identity, link, topic = self._names.client_id, self._settings.link, self._rules.topic.text
        cause = (
            f"{missing} messages that the broker had confirmed did not come back: its access rules hide {topic!r} from "
            "the link's user, or its queue limits are too low; the agent checks again after its next start"
        )
        self._knowledge.note_gap(identity, cause)
        raise LinkUnavailable(
            f"link {link}: the echo of {topic!r} is incomplete",
            link=link,
            operation="publish",
            cause=cause,
            cure="the job continues at least once; correct the broker, then start the agent again",
        )

    def _release(self, echo: Wire) -> None:
        log, sizes = self._log, self._sizes
        acks = log.due(idle=not sizes)
        if acks:
            echo.send(acks)
        while sizes and sizes[0][0] <= log.released:
            self._lying -= sizes.popleft()[1]
        if log.settled and self._kept:
            self._lying -= self._kept
            self._kept = 0
        if log.settled:
            self._knowledge.end_overflow(self._names.client_id)
        if self._queued:
            self._admit()

    def stored(self, sequence: int, count: int) -> Collection[int]:
        """See :meth:`mgw.links.contract.Destination.stored`; the echo shows it after the next connect."""
        return super().stored(sequence, count) if self._echo is None else ()

    def located(self, sequence: int) -> Placement | None:
        """See :meth:`mgw.links.contract.Destination.located`; not known of a batch that an earlier connection began."""
        found = super().located(sequence)
        if sequence in self._partial:
            self._partial.discard(sequence)
            return None
        return found

    def close(self) -> None:
        """See :meth:`mgw.links.contract.Destination.close`; the echo stays at the broker."""
        echo, self._echo = self._echo, None
        super().close()
        if echo is not None:
            echo.close()
