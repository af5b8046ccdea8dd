"""What a broker must be and allow, so that the echo of a job can be its sending log; checked on the live broker."""

from __future__ import annotations

import secrets
import time

from mgw.links.mqtt.codec import Malformed, encode_publish, parse_publish
from mgw.links.mqtt.connection import Session, open_session
from mgw.links.mqtt.echo_log import Echo, acknowledgement
from mgw.links.mqtt.knowledge import Knowledge
from mgw.links.mqtt.logged_destination import room_for
from mgw.links.mqtt.settings import Settings
from mgw.links.mqtt.source import subscribe, wait_for_suback
from mgw.links.mqtt.wire import Wire
from mgw.transforms.errors import LinkError, LinkRefused, LinkTimeout, QueueMissing
from mgw.transforms.mqtt import Publish

__all__ = ["shortcoming"]

_PROBE_EXPIRY = 60  # seconds


def shortcoming(
    settings: Settings, knowledge: Knowledge, session: Session, echo: Echo, batch_size: int, *, one_node: bool
) -> str:
    """Why the broker cannot keep the echo of a job, in words; empty if it can.

    Args:
        knowledge: of the broker, what the room for the echo was found to be included.
        session: a clean one of ours, to ask with.
        one_node: the broker is known to be one node that keeps the order of a publisher.

    Raises:
        LinkError: the connection was lost, which says nothing.
    """
    if not one_node:
        return (
            "$SYS/broker/version does not name Mosquitto, and link option MQTT_SingleNode is not TRUE: messages may "
            "reach the echo late, so it proves nothing"
        )
    if gap := knowledge.gap(echo.client_id):
        return gap
    if not session.wildcards and ("+" in echo.topic_filter or "#" in echo.topic_filter):
        return "the broker does not support wildcards, which the echo of topics chosen per message needs"
    if lacking := _room(settings, knowledge, echo.record_topic, room_for(batch_size)):
        return lacking
    for topic_filter in (echo.record_topic, echo.topic_filter):  # the last step: messages come from here on
        try:
            subscribe(session, topic_filter, 1, 2, settings.version)
            wait_for_suback(session, settings, topic_filter, 1)
        except (QueueMissing, LinkRefused) as error:
            return f"the echo cannot subscribe to {topic_filter!r}: {error.cause}"
    return ""


def _room(settings: Settings, knowledge: Knowledge, record_topic: str, wanted: int) -> str:
    room = (settings.username, record_topic, wanted)
    lacking = knowledge.room(room)
    if lacking is None:
        lacking = _measure(settings, f"{record_topic}/{secrets.token_hex(6)}", wanted)
        knowledge.note_room(room, lacking)
    return lacking


def _measure(settings: Settings, topic: str, wanted: int) -> str:
    """Let the broker keep ``wanted`` messages for a session that is absent, and count what it kept."""
    name = f"{settings.prefix}room{secrets.token_hex(6)}"
    session = open_session(settings, name, clean=True, expiry=_PROBE_EXPIRY)
    try:
        if session.expiry == 0:
            return "the broker keeps no sessions (it set their expiry to 0 s)"
        subscribe(session, topic, 1, 2, settings.version)
        wait_for_suback(session, settings, topic, 1)
    except (QueueMissing, LinkRefused) as error:
        return f"the echo cannot subscribe to {topic!r}: {error.cause}"
    finally:
        session.wire.close()
    publisher = open_session(settings, name + "p", clean=True, nodelay=True)
    reader: Session | None = None
    try:
        problem = _publish(publisher, settings, topic, b"", wanted)
        reader = open_session(settings, name, clean=False, receive_maximum=65535)  # ends with the connection
        if problem := problem or _publish(publisher, settings, topic, b"end", 1):
            return problem
        kept = _count(reader.wire, settings)
    except LinkTimeout as error:
        return f"the broker does not deliver on {topic!r} what was published there: {error.cause}"
    finally:
        publisher.wire.close()
        if reader is not None:
            reader.wire.close()
    return (
        ""
        if kept >= wanted
        else (
            f"the broker keeps {kept} messages for an absent session, but the echo needs {wanted} (Mosquitto: "
            "max_queued_messages): it drops any above that without notice"
        )
    )


def _publish(session: Session, settings: Settings, topic: str, payload: bytes, count: int) -> str:
    """Publish at QoS 1; returns why the broker refused, in words."""
    head, tail = encode_publish(Publish(topic, payload), settings.version)
    window = min(session.receive_maximum, 1000)
    sent = answered = 0
    deadline = time.monotonic() + settings.connect_timeout
    while answered < count:
        parts: list[bytes] = []
        while sent < count and sent - answered < window:
            sent += 1
            parts.append(b"%b%c%c%b" % (head, sent >> 8, sent & 255, tail))
        if parts:
            session.wire.send(b"".join(parts))
        for first, frame in session.wire.pump(max(0.0, deadline - time.monotonic())):
            if first != 0x40:
                continue
            answered += 1
            deadline = time.monotonic() + settings.connect_timeout
            if len(frame) > 2 and frame[2] >= 0x80:
                return (
                    f"the link's user may not write to topics below that of its records, such as {topic!r} "
                    "(outbound_log_queue)"
                )
        if time.monotonic() > deadline:
            raise _late(settings, f"no confirmation within {settings.connect_timeout:g} s")
    return ""


def _count(wire: Wire, settings: Settings) -> int:
    kept = 0
    deadline = time.monotonic() + settings.connect_timeout
    while True:
        for first, frame in wire.pump(max(0.0, deadline - time.monotonic())):
            if first >> 4 != 3:
                continue
            try:
                mid, publish = parse_publish(first, frame, settings.version)
            except Malformed as error:
                raise _late(settings, str(error)) from error
            wire.send(acknowledgement(mid))
            if publish.payload:
                return kept
            kept += 1
            deadline = time.monotonic() + settings.connect_timeout
        if time.monotonic() > deadline:
            raise _late(settings, f"{kept} messages arrived, but no more within {settings.connect_timeout:g} s")


def _late(settings: Settings, cause: str) -> LinkError:
    return LinkTimeout(
        f"link {settings.link}: the broker at {settings.place} does not answer",
        link=settings.link,
        operation="verify",
        cause=cause,
        cure="check the broker's log",
    )
