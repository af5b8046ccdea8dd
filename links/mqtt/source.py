"""Reading from MQTT: a persistent session, QoS 1, acknowledged by hand after the hub has the messages.

Where the broker gives packet ids cyclically, a message that comes again is known by the receiving log
(:mod:`mgw.links.mqtt.receiving_log`), whatever was killed in between.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import islice

from mgw.links.contract import BATCH_BYTES, EMPTY_BATCH, Backlog, Batch, Delivery, Mark
from mgw.links.mqtt.codec import Malformed, parse_publish, reason_text, varint
from mgw.links.mqtt.connection import Session, open_session
from mgw.links.mqtt.knowledge import Knowledge
from mgw.links.mqtt.plain_publish import PlainPublishes
from mgw.links.mqtt.receiving_log import OFF, ReceivingLog, digest_of, receipt
from mgw.links.mqtt.settings import Settings
from mgw.links.mqtt.wire import Wire
from mgw.links.nodes import Node
from mgw.transforms.errors import (
    ConversionFailure,
    LinkError,
    LinkRefused,
    LinkTimeout,
    LinkUnavailable,
    QueueMissing,
)
from mgw.transforms.gap import Gap
from mgw.transforms.mqtt import Inbound, Publish, inbound

__all__ = ["MqttSource", "forget", "try_read"]

_HELD = "held"  # entry of the receiving log: which session the job has had at a broker
_NEWS_WAIT = 1.0  # seconds; what the hub must know of a session is not kept from it for longer
RECEIVE_MAXIMUM = 1000  # messages in flight, MQTT 5; a bigger batch asks for more
_log = logging.getLogger("mgw.links.mqtt")


def subscribe(session: Session, topic_filter: str, qos: int, retain_handling: int, version: int) -> None:
    """Send SUBSCRIBE for one filter. ``retain_handling`` 1: retained copies if the subscription is new, 2: none."""
    text = topic_filter.encode()
    options = qos | retain_handling << 4 if version >= 5 else qos
    body = b"\x00\x01" + (b"\x00" if version >= 5 else b"") + len(text).to_bytes(2, "big") + text + bytes((options,))
    session.wire.send(b"\x82" + varint(len(body)) + body)


def wait_for_suback(
    session: Session, settings: Settings, topic_filter: str, qos: int
) -> tuple[list[tuple[int, bytes]], int]:
    """Frames that came meanwhile, and the granted QoS.

    Raises:
        LinkError: LinkTimeout, QueueMissing for a filter the broker refuses, LinkRefused.
    """
    deadline = time.monotonic() + settings.connect_timeout
    frames: list[tuple[int, bytes]] = []
    code: int | None = None
    while code is None and time.monotonic() < deadline:
        # What follows the SUBACK in the same reading counts too: nobody would hand it out again on this connection.
        for first, frame in session.wire.pump(max(0.0, deadline - time.monotonic())):
            if first >> 4 != 9:
                frames.append((first, frame))
            else:
                code = frame[-1] if frame else 0x80
    if code is not None:
        _check_granted(code, settings, topic_filter, qos)
        return frames, code
    session.wire.suspect()
    raise LinkTimeout(
        f"link {settings.link}: the broker does not answer the subscription to {topic_filter!r}",
        link=settings.link,
        operation="subscribe",
        cause=f"no SUBACK within {settings.connect_timeout:g} s",
        cure="check the broker's log",
    )


def _check_granted(code: int, settings: Settings, topic_filter: str, qos: int) -> None:
    """Raise unless the SUBACK's reason code grants the QoS."""
    if code >= 0x80:
        kind = QueueMissing if code in (0x8F, 0x80, 0x9E, 0xA2) else LinkRefused
        raise kind(
            f"link {settings.link}: the broker refused the subscription to {topic_filter!r}",
            link=settings.link,
            operation="subscribe",
            cause=reason_text(code),
            cure="check the topic filter and the broker's access rules for the link's user",
        )
    if code < qos:
        raise LinkRefused(
            f"link {settings.link}: the broker grants only QoS {code} for {topic_filter!r}",
            link=settings.link,
            operation="subscribe",
            cause="at QoS 0 messages are lost whenever the connection is lost",
            cure="configure the broker to grant QoS 1, or accept at-most-once by registering with MQTT_Qos = 0",
        )


class MqttSource:
    """One job's subscription (see :class:`mgw.links.contract.Source`).

    The broker keeps the session, and what arrives in it, while nobody is connected. It is subscribed to at every
    connect: a crash between CONNECT and SUBSCRIBE would otherwise leave a session that never gets anything.
    """

    def __init__(
        self,
        settings: Settings,
        client_ids: tuple[str, str],
        topic_filter: str,
        rules: Inbound,
        *,
        knowledge: Knowledge,
        cyclic: Callable[[], bool],
        qos: int = 1,
        retained: bool = False,
        batch_size: int = 30,
    ) -> None:
        self._settings = settings
        self._client_ids = client_ids
        self._client_id = client_ids[0]
        self._knowledge = knowledge
        self._cyclic = cyclic
        self._log: ReceivingLog | None = None
        self._logged = False
        self._filter = topic_filter
        self._rules = rules
        self._qos = qos
        self._retained = retained
        self._receive_maximum = min(65535, max(RECEIVE_MAXIMUM, 2 * batch_size))
        self._wire: Wire | None = None
        self._generation = 0
        self._plain = PlainPublishes(rules, settings.version, digests=False)
        self._buffer: deque[tuple[int, bytes]] = deque()
        self._had_session = False
        self._held: tuple[Mark, ...] = ()  # for the hub, with the next batch: that there is a session
        self._gaps: tuple[Gap, ...] = ()  # to be told with the next batch
        self._drop_retained = settings.version < 5 and not retained
        self._dropped = 0

    def connect(self, positions: Mapping[str, str]) -> None:
        """See :meth:`links.contract.Source.connect`. A session that the broker lost starts again, and the next batch
        says so."""
        self.close()
        settings = self._settings
        self._logged = self._qos > 0 and self._cyclic()
        self._plain = PlainPublishes(self._rules, settings.version, digests=self._logged)
        log = self._log = self._open_log(positions)
        self._client_id = self._client_ids[log.slot]
        session = self._open()
        held = f"{settings.place}/{self._client_ids[0]}"
        gone = (self._had_session or positions.get(_HELD) == held) and not session.present
        if log.expected and not session.present:
            # What was just made must not stay: after a crash it would look like the session that was lost.
            session.wire.close()
            forget(settings, [self._client_id], [session.node])
            gone = True
            log.lose()
            self._client_id = self._client_ids[log.slot]
            session = self._open()
        self._generation += 1
        try:
            self._check(session)
            if gone:
                self._tell_loss()
            subscribe(session, self._filter, self._qos, 1 if self._retained else 2, settings.version)
            frames, _ = wait_for_suback(session, settings, self._filter, self._qos)
        except BaseException:
            session.wire.close()
            raise
        self._had_session = True
        self._held = (Mark(_HELD, held),) if self._qos and positions.get(_HELD) != held else ()
        self._wire = session.wire
        self._take(frames)

    def _open(self) -> Session:
        settings = self._settings
        expiry, maximum = settings.session_expiry, self._receive_maximum
        return open_session(
            settings,
            self._client_id,
            clean=False,
            expiry=expiry,
            receive_maximum=maximum,
            holder=self._client_ids[0],
        )

    def _open_log(self, positions: Mapping[str, str]) -> ReceivingLog:
        identity = f"{self._settings.place}/{self._client_ids[0]}" if self._logged else OFF
        try:
            return ReceivingLog(positions, identity)
        except ValueError as error:
            raise LinkRefused(
                f"link {self._settings.link}: the receiving log of {self._filter!r} cannot be read",
                link=self._settings.link,
                operation="connect",
                cause=f"{error}; a newer version of the gateway, or somebody else, wrote it",
                cure="run the version that wrote it, or recreate the job",
            ) from error

    def _tell_loss(self) -> None:
        elsewhere = ", or it is at another node of hosts, where messages wait in it" if self._settings.several else ""
        when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
        self._knowledge.note_loss(
            self._client_ids[0],
            f"the broker lost the job's session, as seen at {when}: messages sent before then may be missing",
        )
        self._gaps = (
            Gap(
                "",
                None,
                None,
                f"the broker no longer has the session {self._client_ids[0]}: it expired while the gateway was "
                f"away, or the broker lost what it had stored{elsewhere}",
            ),
        )
        _log.warning(
            "link %s: the broker no longer has the session of %r (client id %s); messages sent meanwhile may be "
            "missing. See its session expiry and persistence settings",
            self._settings.link,
            self._filter,
            self._client_ids[0],
        )

    def _check(self, session: Session) -> None:
        if session.expiry == 0 and self._qos:
            raise LinkRefused(
                f"link {self._settings.link}: the broker keeps no session of {self._filter!r}",
                link=self._settings.link,
                operation="connect",
                cause="it set the session expiry to 0 s: whatever is sent while we are not connected would be lost",
                cure="configure the broker to keep sessions, or accept at-most-once by registering with MQTT_Qos = 0",
            )
        if session.expiry is not None and session.expiry < self._settings.session_expiry:
            _log.warning(
                "link %s: the broker keeps the session of %r only %d s, not %d; a longer outage of the gateway loses "
                "messages",
                self._settings.link,
                self._filter,
                session.expiry,
                self._settings.session_expiry,
            )

    def _require(self) -> Wire:
        if self._wire is None:
            raise LinkUnavailable(
                f"link {self._settings.link}: the source {self._filter!r} is not connected",
                link=self._settings.link,
                operation="read",
                cause="it was closed, or never connected",
                cure="connect it",
            )
        return self._wire

    def _take(self, frames: list[tuple[int, bytes]]) -> None:
        if not frames:
            return
        if self._drop_retained:
            frames = [frame for frame in frames if not self._drop(*frame)]
        self._buffer.extend(frame for frame in frames if frame[0] >> 4 == 3)

    def _drop(self, first: int, frame: bytes) -> bool:
        """Acknowledge and leave out a retained copy: it was published before the job, or was delivered before."""
        if first >> 4 != 3 or not first & 1:
            return False
        mid, _ = self._parse(first, frame)
        if mid:
            self._require().send(b"\x40\x02" + mid.to_bytes(2, "big"))
        self._dropped += 1
        _log.debug("link %s: skipped %d retained messages of %r", self._settings.link, self._dropped, self._filter)
        return True

    def read(self, max_messages: int, wait: float) -> Batch:
        """See :meth:`mgw.links.contract.Source.read`."""
        wire = self._require()
        buffer = self._buffer
        news = bool(self._held or self._gaps)
        wait = min(wait, _NEWS_WAIT) if news else wait
        if len(buffer) < max_messages:
            self._take(wire.pump(0.0))
        if not buffer and wait > 0:
            deadline = time.monotonic() + wait
            while not buffer and not wire.woken:
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    break
                self._take(wire.pump(remaining))
        wire.woken = False
        return self._batch(self._light(max_messages) if buffer else 0) if buffer or news else EMPTY_BATCH

    def _batch(self, count: int) -> Batch:
        """The first ``count`` of the waiting messages."""
        buffer = self._buffer
        deliveries = []
        acks = []
        receipts = []
        rules, parse, log, logged = self._rules, self._parse, self._log, self._logged
        assert log is not None  # noqa: S101  connect made it
        plain, new = self._plain.read, tuple.__new__  # faster than to call the class of a named tuple
        failure: ConversionFailure | None
        for _ in range(count):
            first, frame = buffer.popleft()
            dup, known = first & 8 == 8, False
            read = plain(first, frame)
            if read is not None:
                mid, message, digest, origin = read
                failure = None
            else:
                mid, publish = parse(first, frame)
                digest = digest_of(publish) if mid and logged else b""
                message, failure = inbound(publish, rules)
                origin = f"{publish.topic}#{mid}"
            if mid:
                acks.append(b"\x40\x02%c%c" % (mid >> 8, mid & 255))
                if logged:
                    known = dup and log.knows(mid, digest)
                    if not known:
                        receipts.append(receipt(mid, digest))
            deliveries.append(new(Delivery, (message, failure, dup, origin, known)))
        positions, marks = log.add(receipts)
        gaps, self._gaps = self._gaps, ()
        if self._held:
            marks, self._held = (*marks, *self._held), ()
        return Batch(deliveries, positions, (self._generation, b"".join(acks)), marks, gaps=gaps)

    def _light(self, most: int) -> int:
        """How many of the waiting frames a batch should have, that they are not more than BATCH_BYTES; one at least."""
        room = BATCH_BYTES
        for number, (_, frame) in enumerate(islice(self._buffer, most)):
            room -= len(frame)
            if room < 0:
                return max(1, number)
        return min(most, len(self._buffer))

    def _parse(self, first: int, frame: bytes) -> tuple[int, Publish]:
        try:
            return parse_publish(first, frame, self._settings.version)
        except Malformed as error:
            raise LinkUnavailable(
                f"link {self._settings.link}: the broker sent something that is not MQTT",
                link=self._settings.link,
                operation="read",
                cause=str(error),
                cure="check the broker's log",
            ) from error

    def settle(self, batch: Batch) -> None:
        """See :meth:`links.contract.Source.settle`. What an earlier connection delivered is not acknowledged on this
        one: packet ids may mean other messages by now."""
        if batch.token is None:
            return
        generation, acks = batch.token
        wire = self._require()
        if generation == self._generation and acks:
            wire.send(acks)

    def backlog(self) -> Backlog | None:
        """None: MQTT has no way to ask how much a session holds."""
        return None

    def interrupt(self) -> None:
        """See :meth:`mgw.links.contract.Source.interrupt`."""
        wire = self._wire
        if wire is not None:
            wire.wake()

    def close(self) -> None:
        """See :meth:`mgw.links.contract.Source.close`; the session stays at the broker."""
        wire, self._wire = self._wire, None
        self._buffer.clear()
        if wire is not None:
            wire.close()


def forget(settings: Settings, client_ids: Iterable[str], nodes: Iterable[Node]) -> None:
    """Remove sessions and their subscriptions from the broker, at each of the nodes: they may not share sessions.

    Raises:
        LinkError: a node cannot be reached or refused us; the others are visited all the same.
    """
    failure = None
    for node in nodes:
        try:
            for client_id in client_ids:
                open_session(settings, client_id, clean=True, expiry=0, node=node).wire.close()
        except LinkError as error:
            failure = failure or error
    if failure is not None:
        raise failure


def try_read(session: Session, settings: Settings, topic: str, wait: float) -> str | None:
    """The retained text of a topic, or None when the broker does not show it within ``wait`` seconds.

    Raises:
        LinkError: the connection was lost, which says nothing about the topic.
    """
    subscribe(session, topic, 0, 0, settings.version)
    try:
        frames, _ = wait_for_suback(session, settings, topic, 0)
        deadline = time.monotonic() + wait
        while True:
            for first, frame in frames:
                if first >> 4 == 3:
                    return parse_publish(first, frame, settings.version)[1].payload.decode("utf-8", "replace")
            if time.monotonic() >= deadline:
                return None
            frames = session.wire.pump(max(0.0, deadline - time.monotonic()))
    except (QueueMissing, LinkRefused, Malformed):
        return None
