"""The exception queue of an inbound job: a registered queue on the source's own link.

AQ guide 12.2 §17.4: it takes messages that can never be converted, never those that met an access error. The original
goes there with its reason in ``MGW_error*`` headers, durably, before anything is acknowledged at the source.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b

from mgw.links.contract import Destination
from mgw.transforms.clock import Clock
from mgw.transforms.errors import ConversionFailure, LinkTimeout, unforeseen
from mgw.transforms.message import Body, Header, Message
from mgw.transforms.payloads.exception_message import Identity, for_exception_queue, left_out

__all__ = ["ForeignExceptionQueue", "Refused", "lasting"]

CONFIRM_TIMEOUT = 60.0  # seconds


def lasting(origin: str) -> bool:
    """Whether source coordinates name a message forever, not in one connection only."""
    place, _, number = origin.rpartition("@")
    return bool(place) and number.isdecimal()


@dataclass(frozen=True, slots=True)
class Refused:
    """A message that could not be converted, and why."""

    message: Message
    failure: ConversionFailure
    origin: str
    key: str | None = None  # of a source whose messages have unique ids
    nonce: str = field(default_factory=lambda: uuid.uuid4().hex, repr=False)  # where the origin is not lasting


class ForeignExceptionQueue:
    """Writes refused messages; connected when the first one comes, closed with the route."""

    def __init__(self, name: str, job: str, destination: Destination, clock: Clock) -> None:
        self.name = name
        self._job = job
        self._destination = destination
        self._clock = clock
        self._connected = False
        self._sequence = 0

    def take(self, refused: Sequence[Refused]) -> None:
        """Store the messages; returns when the system has confirmed all of them.

        Raises:
            LinkError: the exception queue cannot be reached or refuses; nothing may be acknowledged then.
        """
        try:
            if not self._connected:
                self._destination.connect()
                self._connected = True
            self._sequence += 1
            self._destination.publish(self._sequence, [self._encode(entry) for entry in refused])
            self._wait()
        except BaseException:
            self.close()
            raise

    def _wait(self) -> None:
        deadline = self._clock.monotonic() + CONFIRM_TIMEOUT
        while (self._destination.confirmed(1.0) or 0) < self._sequence:
            if self._clock.monotonic() > deadline:
                raise LinkTimeout(
                    f"exception queue {self.name} did not confirm within {CONFIRM_TIMEOUT:.0f} s",
                    operation="publish",
                    cause="the messaging system is overloaded or blocked",
                    cure="check the system; the job tries again",
                )

    def _encode(self, entry: Refused) -> object:
        """The original with its reason; without what the system cannot carry, which is told."""
        message, omitted = entry.message, list[str]()
        try:
            return self._encoded(self._explained(entry, message, omitted))
        except ConversionFailure:
            kept = []
            for header in message.headers:
                problem = self._problem(header, message.body)
                if problem:
                    omitted.append(left_out(header, problem))
                else:
                    kept.append(header)
            message = replace(message, headers=tuple(kept))
        try:
            return self._encoded(self._explained(entry, message, omitted))
        except ConversionFailure as failure:  # all of them together, or a property: the body and the reason still can
            omitted += [left_out(header, failure.cause) for header in message.headers]
            bare = Message(message.body, (), message.kind)
            return self._destination.encode(self._explained(entry, bare, omitted))

    def _encoded(self, message: Message) -> object:
        try:
            return self._destination.encode(message)
        except Exception as error:
            raise unforeseen(error) from error

    def _explained(self, entry: Refused, message: Message, omitted: Sequence[str]) -> Message:
        return for_exception_queue(
            message,
            entry.failure,
            self._job,
            entry.origin,
            omitted,
            limited=False,
            now=self._clock.now(),
            identity=Identity(self._key(entry)),
        )

    def _key(self, entry: Refused) -> str:
        """Another one for each refusal, unless the source names the message permanently and it has not changed.

        The content counts, too: a topic that was created again numbers its messages from the start.
        """
        message = entry.message
        named = (entry.origin, message.headers, message.body) if lasting(entry.origin) else entry.nonce
        return blake2b(repr((self._job, self.name, named)).encode(), digest_size=16).hexdigest()

    def _problem(self, header: Header, body: Body) -> str:
        try:
            self._encoded(Message(body, (header,)))
        except ConversionFailure as failure:
            return failure.cause or failure.what
        return ""

    @property
    def connected(self) -> bool:
        """Whether it has a connection that is to be kept alive."""
        return self._connected

    def keep_alive(self) -> None:
        """Let the connection breathe between refusals; a lost one is made again when it is needed."""
        if self._connected:
            try:
                self._destination.confirmed(0)
            except Exception:
                self.close()

    def close(self) -> None:
        """Disconnect."""
        self._connected = False
        with contextlib.suppress(Exception):
            self._destination.close()
