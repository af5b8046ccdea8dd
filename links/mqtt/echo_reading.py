"""Reading the messages of an echo session when a destination connects."""

from __future__ import annotations

import time
from collections.abc import Callable

from mgw.links.mqtt.codec import Malformed, parse_publish
from mgw.links.mqtt.connection import Session
from mgw.links.mqtt.echo_log import Echo, EchoLog
from mgw.links.mqtt.settings import Settings
from mgw.links.mqtt.source import subscribe, wait_for_suback
from mgw.transforms.errors import LinkTimeout, LinkUnavailable
from mgw.transforms.mqtt import Publish

__all__ = ["parsed", "read_echo", "silent"]


def parsed(settings: Settings, first: int, frame: bytes) -> tuple[int, Publish]:
    """Packet id and content of a PUBLISH.

    Raises:
        LinkUnavailable: it is none.
    """
    try:
        return parse_publish(first, frame, 5)
    except Malformed as error:
        raise LinkUnavailable(
            f"link {settings.link}: the broker sent something that is not MQTT",
            link=settings.link,
            operation="read",
            cause=str(error),
            cure="check the broker's log",
        ) from error


def read_echo(
    session: Session,
    settings: Settings,
    names: Echo,
    log: EchoLog,
    *,
    tell: Callable[[], bytes],
    pump: Callable[[], None],
) -> set[bytes]:
    """Subscribe, and read into ``log`` what the session holds; returns the markers that were in it.

    Args:
        tell: publishes the marker that ends the reading, and returns it.
        pump: keeps the publisher's connection going.

    Raises:
        LinkError: LinkTimeout when the marker does not come, LinkUnavailable, LinkRefused, QueueMissing.
    """
    frames: list[tuple[int, bytes]] = []
    for topic_filter in (names.topic_filter, names.record_topic):
        subscribe(session, topic_filter, 1, 2, settings.version)
        frames += wait_for_suback(session, settings, topic_filter, 1)[0]
    last = tell()
    marks: set[bytes] = set()
    quiet_since = time.monotonic()
    while True:
        for first, frame in frames:
            if first >> 4 != 3 or not first & 6:
                continue
            mid, publish = parsed(settings, first, frame)
            if publish.topic != names.record_topic:
                log.found(mid, names.key_of(publish))
            elif (record := names.record_of(publish.payload)) is not None:
                log.found_record(mid, record)
            else:
                marks.add(publish.payload)
                session.wire.send(log.passed(mid))
        if last in marks:
            log.found_all()
            return marks
        pump()
        frames = session.wire.pump(0.2)
        if frames:
            quiet_since = time.monotonic()
        elif time.monotonic() - quiet_since > settings.connect_timeout:
            raise silent(settings, names)


def silent(settings: Settings, names: Echo) -> LinkTimeout:
    """A marker does not come back."""
    return LinkTimeout(
        f"link {settings.link}: the echo of {names.topic_filter!r} cannot be read",
        link=settings.link,
        operation="connect",
        cause=f"a marker on {names.record_topic!r} does not come back within {settings.connect_timeout:g} s",
        cure="allow the link's user to write and read that topic in the broker's access rules",
    )
