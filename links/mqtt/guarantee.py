"""What a job over MQTT can promise: an inbound one by what is known of the broker, an outbound one by what the broker
must be and allow, so that its echo can be its sending log; checked on the live broker."""

from __future__ import annotations

import secrets
import time

from mgw.links.contract import Endpoint, Guarantee
from mgw.links.mqtt.codec import Malformed, encode_publish, parse_publish
from mgw.links.mqtt.connection import Session, open_session
from mgw.links.mqtt.echo_log import Echo, acknowledgement
from mgw.links.mqtt.knowledge import Knowledge
from mgw.links.mqtt.logged_destination import room_for
from mgw.links.mqtt.probe import VERSION_TOPIC
from mgw.links.mqtt.settings import Settings
from mgw.links.mqtt.source import subscribe, wait_for_suback
from mgw.links.mqtt.wire import Wire
from mgw.transforms.errors import LinkError, LinkRefused, LinkTimeout, QueueMissing
from mgw.transforms.mqtt import Publish
from mgw.transforms.mqtt.topic import split_shared

__all__ = ["check_subscriber", "inbound_promise", "shortcoming"]

_PROBE_EXPIRY = 60  # seconds


def inbound_promise(
    settings: Settings, topic: str, *, mosquitto: bool, shared: bool, declared: bool, retained: bool, lost: str
) -> tuple[Guarantee, list[str]]:
    """The level of an inbound job, and what it depends on: first what was lost, then the condition that failed, or what
    a crash of the broker costs.

    Args:
        topic: the filter that it subscribes to.
        mosquitto: whether the broker says that it is one.
        shared: whether its nodes are declared to share their sessions (MQTT_SharedSessions).
        declared: whether packet ids are declared to come in order (MQTT_CyclicPacketIds).
        retained: whether retained messages are delivered.
        lost: what the job has lost; empty: nothing.
    """
    failed = ""
    if settings.several and not shared:
        failed = (
            "hosts names several nodes, which may keep sessions of their own, and link option MQTT_SharedSessions "
            "is not TRUE: a message whose acknowledgement was lost is stored again, and messages wait in the "
            "session at one node while the job is connected to another"
        )
    elif not mosquitto and not declared:
        failed = (
            f"{VERSION_TOPIC} does not name Mosquitto, and link option MQTT_CyclicPacketIds is not TRUE: a "
            f"message whose acknowledgement was lost is stored again"
        )
    elif not mosquitto and split_shared(topic)[0] is not None:
        failed = "the broker may give a message of a shared subscription to another member after it was delivered to us"
    elif settings.version < 5 and retained:
        failed = "MQTT 3.1.1 delivers retained messages again at every reconnect (MQTT_Retained = deliver)"
    level = Guarantee.AT_LEAST_ONCE if failed else Guarantee.EXACT_UNLESS_BROKER_CRASH
    saving = " (Mosquitto: needs persistence true, saves every autosave_interval)" if mosquitto else ""
    limit = " (Mosquitto: max_queued_messages, 1000 by default)" if mosquitto else ""
    notes = [
        failed or f"a crash of the broker loses what came after it last saved its sessions{saving}",
        f"above its queue limit{limit} the broker drops messages without notice; published at QoS 0 they may be lost",
    ]
    return level, [lost, *notes] if lost else notes


def check_subscriber(session: Session, link: str, endpoint: Endpoint, qos: int) -> None:
    """What the broker said when it let the link in must cover what a job subscribes to.

    Raises:
        LinkRefused: the broker does not support it.
    """
    group, topic_filter = split_shared(endpoint.provider_queue)
    lacking = ""
    if group is not None and not session.shared:
        lacking = "shared subscriptions"
    elif not session.wildcards and ("+" in topic_filter or "#" in topic_filter):
        lacking = "wildcards"
    elif qos > session.maximum_qos:
        lacking = "QoS 1"
    if lacking:
        raise LinkRefused(
            f"{endpoint.full_name}: {endpoint.provider_queue!r} cannot be subscribed to",
            link=link,
            operation="verify",
            cause=f"the broker does not support {lacking}",
            cure="configure the broker to allow it, or register another topic filter",
        )


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
