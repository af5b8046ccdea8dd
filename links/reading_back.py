"""What a link whose queues can be looked through offers in addition to :class:`mgw.links.contract.Link`.

The exception desk reads exception queues with it. In a queue the messages are held, and removed one by one. A log (a
stream, a topic) gives no single message up: its messages have places, and the desk keeps which of them are done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from mgw.links.contract import Destination, Encoded, JobUse
from mgw.transforms.message import Message

__all__ = ["Held", "HeldQueue", "KeptLog", "LogPlace", "ReadQueue", "ReadsBack"]


class LogPlace(NamedTuple):
    """Where a message is in a log. ``digest`` tells it from another one that is at the same offset of a later log."""

    part: int
    offset: int
    digest: str


class Held(NamedTuple):
    """A message that was read. ``message`` has no header of the hop that brought it into this queue."""

    token: Any  # the link's own, for remove
    message: Message
    size: int  # bytes of its body
    place: LogPlace | None = None  # in a log
    deliveries: int = 0  # how often it had been handed out before, where the system counts that


class ReadQueue(Protocol):
    """A queue that is looked through, connected when it is made. One thread drives it."""

    def read(self, most: int) -> Sequence[Held]:
        """The next messages, in their order; none after the last one that was there at first."""
        ...

    def keep(self, seconds: float) -> None:
        """Wait, and keep the connection alive."""
        ...

    def stored_form(self, encoded: Encoded) -> Message:
        """How a message that was encoded for this queue is read again."""
        ...

    def close(self) -> None:
        """Give back what is held, and disconnect. Idempotent, never raises."""
        ...


@runtime_checkable
class HeldQueue(ReadQueue, Protocol):
    """A queue whose messages are held while they are looked at. All that was not removed is where it was after close.

    Attributes:
        delivery_limit: a message that is given back after so many earlier deliveries leaves the queue; None: never.
        waiting: messages that were there at first, and were not read.
    """

    delivery_limit: int | None
    waiting: int

    def remove(self, held: Sequence[Held]) -> None:
        """Remove messages for good; returns when the system has done so."""
        ...


@runtime_checkable
class KeptLog(ReadQueue, Protocol):
    """A log, whose messages stay. It is read up to where it ended when it was connected.

    Attributes:
        identity: another one for a log that was made again under the same name; "" where the system says nothing.
        begins: the first offset of each partition.
    """

    identity: str
    begins: Mapping[int, int]

    def seek(self, offsets: Mapping[int, int]) -> None:
        """Read next from these offsets on, by partition: of a partition that is not named, or whose log ends before the
        offset, from its beginning. Asked before the first message is read."""
        ...

    def read_on(self) -> None:
        """Read next what was added since it was connected, up to where the log ends now."""
        ...


@runtime_checkable
class ReadsBack(Protocol):
    """A link with such queues. The uses are those of one job, with ``logged`` False."""

    def exceptions_reader(self, use: JobUse) -> HeldQueue | KeptLog:
        """A reader of the queue, connected; looking with it can do no harm to the messages.

        Raises:
            LinkError: the endpoint is no queue, the system does not answer, the queue is missing, somebody else reads
                it, or it is of a kind in which looking harms messages.
        """
        ...

    def exceptions_writer(self, use: JobUse, to: JobUse | None = None) -> Destination:
        """What writes to the queue that the job ``use`` reads as its source, to no other reader; not yet connected.

        ``to``: to that queue or exchange instead.
        """
        ...

    def came_from(self, use: JobUse, origin: str) -> bool:
        """Whether source coordinates are of the queue that the job ``use`` reads."""
        ...

    def sent_again(self, message: Message) -> Message:
        """The message without the headers that tell how it came the first time."""
        ...
