"""Streams that end before the offset a job has stored: deleted and made again, or without their end after a crash.

RabbitMQ lets a consumer wait at an offset beyond the end and says nothing. So the end is looked for, with a second
subscription at the last chunk. One look proves little: the member of the stream on this node may lack the last messages
for a moment, because it was away. It counts what every connection saw for a while.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

from mgw.links.rabbitmq.connection import Session

__all__ = ["EMPTY", "ShortStream", "ShortStreams", "end_of"]

EMPTY = -1  # the end of a stream without messages
_QUIET_SECONDS = 2.0  # without another message: that was the last one
_STILL, _GROWING = 4, 40  # times the patience of a link: a member that was away and catches up, grows
_PREFETCH = 500


def end_of(session: Session, queue: str, enough: int) -> int | None:
    """Offset of the last message of a stream, EMPTY if it has none. Takes two seconds, or less if it has ``enough``.

    Returns:
        None: the session was interrupted, its own subscription has messages, or the end did not come in time.

    Raises:
        LinkError: the connection ended, or the broker refused.
    """
    last, heard = EMPTY, False

    def came(channel: Any, method: Any, properties: Any, _body: bytes) -> None:
        nonlocal last, heard
        last, heard = int((properties.headers or {}).get("x-stream-offset", EMPTY)), True
        channel.basic_ack(method.delivery_tag)

    def more() -> object:
        return heard or session.scanner.deliveries

    with session.calling("read"):
        channel = session.fresh_channel()
        channel.basic_qos(prefetch_count=_PREFETCH)
        channel._impl.basic_consume(queue, came, arguments={"x-stream-offset": "last"})
    limit = session.settings.answer_timeout
    quiet = min(_QUIET_SECONDS, limit)
    until, ended = time.monotonic() + quiet + limit, False
    while not ended and last < enough and not session.scanner.deliveries and time.monotonic() < until:
        heard = False
        if session.pump(quiet, more, "read"):
            break
        ended = not heard
    with session.calling("read"):
        channel._impl.close()  # pika's own close would reject messages that came meanwhile
    return last if (ended or last >= enough) and not session.scanner.deliveries else None


@dataclass(frozen=True, slots=True)
class ShortStream:
    """A stream that was found to end before offset ``stored``.

    Attributes:
        stored: the offset that the job stored last.
        end: offset of the last message.
        since: when that was first seen (monotonic seconds).
        still: since when the end did not move.
    """

    stored: int
    end: int
    since: float
    still: float

    def certain(self, now: float, patience: float) -> bool:
        """Whether no member of the stream that was away explains it; ``patience``: seconds to wait for an answer."""
        return now - self.still >= _STILL * patience or now - self.since >= _GROWING * patience

    def wait(self, patience: float) -> float:
        """Seconds for which it must stand still."""
        return _STILL * patience


class ShortStreams:
    """What was seen of such streams, by the jobs that read them. Any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[tuple[str, str, str], ShortStream] = {}

    def seen(self, slot: tuple[str, str, str], stored: int, end: int, now: float) -> ShortStream:
        """Note that the stream of ``slot`` (virtual host, queue, job) ended at ``end``."""
        with self._lock:
            known = self._seen.get(slot)
            if known is None or known.stored != stored:
                known = ShortStream(stored, end, now, now)
            elif known.end != end:
                known = ShortStream(stored, end, known.since, now)
            self._seen[slot] = known
            return known

    def forget(self, slot: tuple[str, str, str]) -> None:
        """The stream reaches what is stored, or the job goes on elsewhere."""
        with self._lock:
            self._seen.pop(slot, None)
