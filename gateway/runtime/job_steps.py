"""Step 3 of the life of a batch: select, convert, transform. One message in; zero, one or several out, or a reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mgw.gateway.aq import Rule
from mgw.transforms.errors import AqError, ConversionFailure
from mgw.transforms.message import Message
from mgw.transforms.payloads.convert import sendable

__all__ = ["Conversion", "Fit", "Transform"]

Transform = Callable[[Message], "Message | Sequence[Message] | None"]
Fit = Callable[[Message], Message]


@dataclass(frozen=True, slots=True)
class Conversion:
    """What a job does to each message.

    Attributes:
        fit: makes the message fit the payload type of the hub queue (inbound, applied last) or checks the payload
            that comes out of the hub (outbound, applied first); None when every message fits.
        rule: selection of an inbound job; messages for which it is not true are filtered and counted.
        transform: the user's transformation.
        inbound: direction; decides the order of the steps.
    """

    fit: Fit | None
    rule: Rule | None
    transform: Transform | None
    inbound: bool

    def apply(self, message: Message) -> Sequence[Message]:
        """The messages to write; empty when the message is filtered on purpose.

        Raises:
            ConversionFailure: the message can never be delivered by this job.
        """
        if self.transform is None and self.rule is None:
            return (message if self.fit is None else self.fit(message),)
        if self.rule is not None and not self._selected(message):
            return ()
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
