"""What a link whose queues can be looked through, and emptied message by message, offers in addition to
:class:`mgw.links.contract.Link`.

The exception desk reads exception queues with it. A link whose system removes no single message does not offer it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from mgw.links.contract import Destination, Encoded, JobUse
from mgw.transforms.message import Message

__all__ = ["Held", "HeldQueue", "ReadsBack"]


class Held(NamedTuple):
    """A message that is held. ``message`` has no header of the hop that brought it into this queue."""

    token: Any  # the link's own, for remove
    message: Message
    size: int  # bytes of its body


class HeldQueue(Protocol):
    """A queue whose messages are held while they are looked at. All that was not removed is where it was after close.

    One thread drives it.
    """

    def connect(self) -> None:
        """Connect, and see that looking can do no harm to the messages.

        Raises:
            LinkError: the system does not answer, the queue is missing, somebody else reads it, or it is of a kind in
                which looking harms messages.
        """
        ...

    def read(self, most: int) -> Sequence[Held]:
        """The next messages, in their order; none after the last one that was there at connect."""
        ...

    def remove(self, held: Sequence[Held]) -> None:
        """Remove messages for good; returns when the system has done so."""
        ...

    def keep(self, seconds: float) -> None:
        """Wait, and keep the connection alive."""
        ...

    def stored_form(self, encoded: Encoded) -> Message:
        """How a message that :meth:`ReadsBack.exceptions_writer` encodes is read again."""
        ...

    def close(self) -> None:
        """Give back what is held, and disconnect. Idempotent, never raises."""
        ...


@runtime_checkable
class ReadsBack(Protocol):
    """A link with such queues. The uses are those of one job, with ``logged`` False."""

    def exceptions_reader(self, use: JobUse) -> HeldQueue:
        """A reader of the queue, not yet connected.

        Raises:
            LinkError: the endpoint is no queue.
        """
        ...

    def exceptions_writer(self, use: JobUse) -> Destination:
        """What writes to the queue that the job ``use`` reads as its source, to no other reader; not yet connected."""
        ...

    def came_from(self, use: JobUse, origin: str) -> bool:
        """Whether source coordinates are of the queue that the job ``use`` reads."""
        ...

    def sent_again(self, message: Message) -> Message:
        """The message without the headers that tell how it came the first time."""
        ...
