"""What a link that can be asked about its queues offers in addition to :class:`mgw.links.contract.Link`: whether one
exists, and what its first message is, without a change there."""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

from mgw.links.contract import Delivery, Endpoint, JobUse

__all__ = ["Existence", "FindsQueues", "ShowsMessages"]


class Existence(NamedTuple):
    """Whether a queue, an exchange or a topic exists.

    Attributes:
        exists: the system has it, or needs none.
        detail: what it is there, or what is missing.
        made_by: command that makes it, where it is missing.
        needs_none: nothing of that name has to be there, so that nothing was looked for.
    """

    exists: bool
    detail: str
    made_by: str = ""
    needs_none: bool = False


@runtime_checkable
class FindsQueues(Protocol):
    """A link that tells whether a queue exists."""

    def find_queue(self, endpoint: Endpoint) -> Existence:
        """Ask the system for what the endpoint names. Nothing is created there.

        Raises:
            LinkError: the system does not answer, or refuses to tell.
        """
        ...


@runtime_checkable
class ShowsMessages(Protocol):
    """A link that shows messages of some of its queues."""

    def first_message(self, use: JobUse) -> Delivery | None:
        """The first message of a queue as a job reads it; None: there is none. It is neither taken nor marked, and
        nobody else gets it later or in another place.

        Raises:
            LinkError: the system does not answer, the queue is missing, or its messages cannot be shown like that.
        """
        ...
