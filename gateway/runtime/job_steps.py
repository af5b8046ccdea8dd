"""Step 3 of the life of a batch: select, convert, transform. One message in; zero, one or several out, or a reason."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mgw.gateway.aq import Rule
from mgw.transforms.errors import AqError, ConversionFailure
from mgw.transforms.message import Message
from mgw.transforms.payloads.convert import Fit, sendable
from mgw.transforms.trail import Trail

__all__ = ["Conversion", "Fit", "Lookers", "See", "Transform", "seen"]

Transform = Callable[[Message], "Message | Sequence[Message] | None"]
#: Is told a message as it was read, what was made of it, and the error that came instead.
See = Callable[[Message, Sequence[Message], Exception | None], object]


def seen(convert: Callable[[Message], Sequence[Message]], see: See | None) -> Callable[[Message], Sequence[Message]]:
    """The same, and somebody sees what it does."""
    if see is None:
        return convert

    def converted(message: Message) -> Sequence[Message]:
        try:
            results = convert(message)
        except Exception as error:
            see(message, (), error)
            raise
        see(message, results, None)
        return results

    return converted


class Lookers:
    """Who sees what the messages of a job become, in this attempt of the job and in the next ones."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._see: See | None = None
        self._tap: Callable[[See | None], None] | None = None

    def tap(self, see: See | None) -> None:
        """From any thread: let somebody see; None: nobody any more."""
        with self._lock:
            self._see = see
            if self._tap is not None:
                self._tap(see)

    def follow(self, tap: Callable[[See | None], None]) -> None:
        """An attempt begins: ``tap`` tells its source who sees."""
        with self._lock:
            self._tap = tap
            tap(self._see)


@dataclass(frozen=True, slots=True)
class Conversion:
    """What a job does to each message.

    Attributes:
        fit: makes the message fit the payload type of the hub queue (inbound, applied last) or checks the payload
            that comes out of the hub (outbound, applied first); None when every message fits.
        rule: selection of an inbound job; messages for which it is not true are filtered and counted.
        transform: the user's transformation.
        inbound: direction; decides the order of the steps.
        local: tells messages that are skipped because the hub published them; None: none are.
        trail: adds the job to the trail of the message, and refuses one that passed it too often; None: neither.
    """

    fit: Fit | None
    rule: Rule | None
    transform: Transform | None
    inbound: bool
    trail: Trail | None = None
    local: Callable[[Message], bool] | None = None

    @property
    def only_fit(self) -> Fit | None:
        """The one step, where it is the only one but for the trail: one message becomes one."""
        if self.rule is not None or self.transform is not None or self.local is not None:
            return None
        fit, trail = self.fit, self.trail
        return fit if fit is None or trail is None else lambda message: trail(fit(message))

    @property
    def nothing(self) -> bool:
        """Whether every message is written as it came, but for the trail."""
        return self.fit is None and self.rule is None and self.transform is None and self.local is None

    def apply(self, message: Message) -> Sequence[Message]:
        """The messages to write; empty when the message is filtered on purpose.

        Raises:
            ConversionFailure: the message can never be delivered by this job.
        """
        if self.local is not None and self.local(message):
            return ()
        if self.transform is None and self.rule is None:
            message = message if self.fit is None else self.fit(message)
            return (message if self.trail is None else self.trail(message),)
        if self.rule is not None and not self._selected(message):
            return ()
        if self.trail is None:
            return self._changed(message)
        passed = self.trail.passed(message)  # before a transformation, which may leave out headers
        return [self.trail.mark(result, passed) for result in self._changed(message)]

    def _changed(self, message: Message) -> Sequence[Message]:
        if self.fit is not None and not self.inbound:
            message = self.fit(message)
        results: Sequence[Message] = (message,)
        if self.transform is not None:
            result = self.transform(message)
            if result is None:
                return ()
            results = (result,) if isinstance(result, Message) else result
        if not self.inbound:
            return [sendable(result) for result in results]
        if self.fit is not None:
            results = [self.fit(result) for result in results]
        return results

    def _selected(self, message: Message) -> bool:
        assert self.rule is not None  # noqa: S101  # called only then
        try:
            return self.rule.matches(message)
        except AqError as error:
            raise ConversionFailure(error.what, cause=error.cause, cure=error.cure, number=722) from error
