"""Looking through a stream from its first message to the last one that was there at first; nothing leaves it.

AMQP does not tell where a stream ends. A reader from ``last`` gets the whole last chunk of it before the broker answers
the next question, so the last of these messages is the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from hashlib import blake2b
from typing import Final

from mgw.links.contract import JobUse
from mgw.links.rabbitmq.connection import Session
from mgw.links.rabbitmq.frames import Incoming, ack_frame
from mgw.links.rabbitmq.held_queue import OFFSET, ReadBack, without_hop
from mgw.links.rabbitmq.settings import Settings
from mgw.links.reading_back import Held, LogPlace
from mgw.transforms.amqp import Rules
from mgw.transforms.amqp.identity import content_digest
from mgw.transforms.message import Message

__all__ = ["KeptStream"]

_PREFETCH = 200
_PART = 0  # a stream is one log
_EMPTY_SECONDS: Final = 0.2  # in which a stream that has a message hands it out


class KeptStream(ReadBack):
    """See :class:`mgw.links.reading_back.KeptLog`; ``bare`` False: messages with the headers of the hop into it."""

    identity = ""  # AMQP tells none

    def __init__(
        self, settings: Settings, use: JobUse, queue: str, rules: Rules, session: Session, *, bare: bool = True
    ) -> None:
        super().__init__(settings, use, queue, rules, session)
        self._bare = bare
        self._consumer: str | None = None
        self._last = self._find_end(session)
        self._seen = -1  # offset of the last message that was handed out
        if self._last >= 0:
            self._subscribe(session, "first")
            self._await(session)
        self.begins: Mapping[int, int] = {_PART: self._offset(session.scanner.deliveries[0]) if self._last >= 0 else 0}

    def _find_end(self, session: Session) -> int:
        """The offset of the last message; -1: there is none."""
        self._subscribe(session, "last")
        waiting = session.scanner.deliveries
        session.pump(_EMPTY_SECONDS, lambda: waiting, "read")
        quiet = had = 0
        while quiet < 2:
            with session.calling("read"):
                session.channel.queue_declare(self._queue, passive=True)
            quiet, had = (quiet + 1 if len(waiting) == had else 0), len(waiting)
        return self._offset(waiting[-1]) if waiting else -1

    def _subscribe(self, session: Session, offset: str | int) -> None:
        """Read from there, and forget what came before."""
        with session.calling("read"):
            if self._consumer is not None:
                session.channel.basic_cancel(self._consumer)
            session.scanner.deliveries.clear()
            session.channel.basic_qos(prefetch_count=_PREFETCH)
            self._consumer = session.channel.basic_consume(self._queue, _never, arguments={"x-stream-offset": offset})

    def _offset(self, item: Incoming) -> int:
        return _offset_of(self._decoded(item[4], b"", item[2], item[3], item[1]))

    def _await(self, session: Session) -> None:
        """Until a message is here."""
        waiting = session.scanner.deliveries
        clock = self._use.clock
        deadline = clock.monotonic() + self._settings.answer_timeout
        while not waiting:
            left = deadline - clock.monotonic()
            if left <= 0:
                raise self._silent(
                    f"it has messages up to offset {self._last}",
                    "the broker is stuck, or the stream was deleted",
                    "check the broker",
                )
            session.pump(left, partial(bool, waiting), "read")

    def read(self, most: int) -> Sequence[Held]:
        """See :meth:`mgw.links.reading_back.ReadQueue.read`."""
        session = self._connected("read")
        found: list[Held] = []
        while not found and self._seen < self._last:
            self._await(session)
            waiting = session.scanner.deliveries
            items = [waiting.popleft() for _ in range(min(most, len(waiting)))]
            # Only then the broker sends more.
            session.write(ack_frame(session.number, items[-1][0], multiple=True))
            before, found = self._seen, [self._held(item) for item in items]
            self._seen = found[-1].token
            # A reader begins with a whole chunk.
            found = [held for held in found if before < held.token <= self._last]
        return found

    def _held(self, item: Incoming) -> Held:
        _, redelivered, exchange, key, properties, body = item
        message = self._decoded(properties, body, exchange, key, redelivered)
        offset = _offset_of(message)
        shown = without_hop(message, exchange=bool(exchange), redelivered=redelivered) if self._bare else message
        return Held(offset, shown, len(body), LogPlace(_PART, offset, _digest(item, shown)))

    def seek(self, offsets: Mapping[int, int]) -> None:
        """See :meth:`mgw.links.reading_back.KeptLog.seek`."""
        offset = offsets.get(_PART, 0)
        if self.begins[_PART] < offset <= self._last + 1:
            self._seen = offset - 1
            if offset <= self._last:
                self._subscribe(self._connected("read"), offset)

    def read_on(self) -> None:
        """See :meth:`mgw.links.reading_back.KeptLog.read_on`."""
        session = self._connected("read")
        before, self._last = self._last, self._find_end(session)
        self._seen = before
        if self._last > before:
            self._subscribe(session, before + 1)


def _digest(item: Incoming, message: Message) -> str:
    """Of the body, of where it was published to, and of why and when it failed. A newer release of the broker may hand
    out other properties than these in another form."""
    reason = [(name, str(value)) for name, _, value in message.headers if name.startswith("MGW_error")]
    told = repr(sorted(reason)).encode("utf-8", "surrogatepass")
    return blake2b(content_digest(told, item[5], item[2], item[3]), digest_size=12).hexdigest()


def _offset_of(message: Message) -> int:
    value = message.header(OFFSET)
    return value if isinstance(value, int) else -1


def _never(*_arguments: object) -> None:
    """Deliveries pass by pika; see mgw.links.rabbitmq.frames."""
