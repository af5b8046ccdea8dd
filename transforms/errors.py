"""Every error the product raises, in one tree.

::

    GatewayError                      what happened, to which object, why, and what to do
    ├─ ConfigInvalid                  a configuration that cannot be used            (exit code 78)
    ├─ AdminError                     a refused administration call, ORA number      (AdminError.number)
    ├─ AqError                        a refused queue operation, ORA number          (AqError.number)
    │   ├─ ArgumentInvalid            an argument of another type than the call takes (also a TypeError)
    │   └─ SessionClosed              the session was closed
    ├─ RegistryUnavailable            a schema registry does not answer; the message is good
    ├─ ParkedTooMany                  a job has as many messages parked as it may
    ├─ ConversionFailure              this one message can never be delivered: exception queue
    │   ├─ TransformFailed            ... because the user's transformation raised
    │   ├─ MessageRejected            ... because the foreign system refuses it, sent alone, for what it is
    │   └─ LoopFound                  ... because it goes round in a loop of jobs
    ├─ LinkError                      a foreign messaging system said no, or nothing
    │   ├─ LinkUnavailable            cannot be reached, or the connection was lost
    │   ├─ LinkTimeout                did not answer in time; the outcome is unknown
    │   ├─ LinkRefused                credentials, permissions, TLS
    │   ├─ QueueMissing               the queue, exchange or topic does not exist there
    │   ├─ DeliveryRejected           the system refused a batch (unroutable, overflow, too large); see Blame
    │   └─ PositionLost               the stored source position is gone [415]
    ├─ ExpressionInvalid              an expression that cannot be compiled, with its position
    ├─ ExpressionFailed               an expression that has no value for this message
    └─ HubError                       the hub database
        ├─ HubUnavailable             cannot be reached, locked too long, restarting
        │   └─ HubClosed              this program has closed it
        ├─ HubMoved                   its file was moved, deleted or replaced
        ├─ HubFull                    no space left for the hub
        ├─ HubVersionMismatch         written by a newer (or not by any) release
        └─ LeaseLost                  another process owns this agent now; stop at once

``retriable`` says whether trying again can help without anybody's intervention; *when* is decided in
:mod:`mgw.gateway.runtime.retry` and nowhere else.
"""

from __future__ import annotations

import traceback
from enum import Enum
from pathlib import PurePath
from typing import ClassVar

from mgw.transforms.gap import Gap

__all__ = [
    "AdminError",
    "AqError",
    "ArgumentInvalid",
    "Blame",
    "ConfigInvalid",
    "ConversionFailure",
    "DeliveryRejected",
    "ExpressionFailed",
    "ExpressionInvalid",
    "GatewayError",
    "HubClosed",
    "HubError",
    "HubFull",
    "HubMoved",
    "HubUnavailable",
    "HubVersionMismatch",
    "LeaseLost",
    "LinkError",
    "LinkRefused",
    "LinkTimeout",
    "LinkUnavailable",
    "LoopFound",
    "MessageRejected",
    "ParkedTooMany",
    "PositionLost",
    "QueueMissing",
    "RegistryUnavailable",
    "SessionClosed",
    "TransformFailed",
    "unforeseen",
]


class GatewayError(Exception):
    """The gateway could not do what was asked.

    ``what`` names the object and what happened to it, ``cause`` says why, ``cure`` what to do about it.
    """

    retriable: ClassVar[bool] = False

    def __init__(self, what: str = "", *, cause: str = "", cure: str = "", number: int | None = None) -> None:
        self.what = what or (type(self).__doc__ or "").strip().splitlines()[0]
        self.cause = cause
        self.cure = cure
        self.number = number
        super().__init__(self.what)

    def __str__(self) -> str:
        return (f"[{self.number}] " if self.number else "") + self.text()

    def text(self) -> str:
        """What, cause and cure in one line, without the number."""
        parts = [self.what]
        if self.cause:
            parts.append(f"cause: {self.cause}")
        if self.cure:
            parts.append(f"cure: {self.cure}")
        return "; ".join(parts)


class ConfigInvalid(GatewayError):
    """The configuration cannot be used."""


class AdminError(GatewayError):
    """An administration call was refused (``number`` is the ORA number of the documentation)."""

    def __str__(self) -> str:
        return (f"ORA-{self.number:05d}: " if self.number else "") + self.text()


class AqError(GatewayError):
    """A queue operation was refused (``number`` is the ORA number of the documentation).

    Every documented error has a class of its own in :mod:`mgw.gateway.aq.errors`, with its number in ``ora``.
    """

    ora: ClassVar[int | None] = None

    def __init__(self, what: str = "", *, cause: str = "", cure: str = "", number: int | None = None) -> None:
        super().__init__(what, cause=cause, cure=cure, number=self.ora if number is None else number)

    def __str__(self) -> str:
        return (f"ORA-{self.number:05d}: " if self.number else "") + self.text()


class ArgumentInvalid(AqError, TypeError):
    """An argument has the wrong type."""


class SessionClosed(AqError):
    """The session was closed."""


class RegistryUnavailable(GatewayError):
    """A schema registry that a transformation asks does not answer; nothing is wrong with the message."""

    retriable: ClassVar[bool] = True


class ParkedTooMany(GatewayError):
    """A job has as many messages parked as it may (park_messages); nothing passes until there are fewer."""

    retriable: ClassVar[bool] = True


class ConversionFailure(GatewayError):
    """This message cannot be converted; it goes to the exception queue.

    ``number`` is the engine number of the messaging gateway chapter (720 to 729), see :mod:`payloads.convert`.
    """


class TransformFailed(ConversionFailure):
    """The transformation of the job raised an error for this message [722]."""


class MessageRejected(ConversionFailure):
    """The messaging system refuses this message, sent alone, because of its content [805]."""


class LoopFound(ConversionFailure):
    """The message passed this job as often as the option max_passes allows: it goes round in a loop [730]."""


class ExpressionInvalid(GatewayError):
    """A rule, condition or transformation expression cannot be compiled.

    ``line`` and ``column`` (both from 1) say where in the expression the error is, ``offending`` is the text there.
    """

    def __init__(
        self, what: str = "", *, cause: str = "", cure: str = "", line: int = 1, column: int = 1, offending: str = ""
    ) -> None:
        super().__init__(what, cause=cause, cure=cure)
        self.line = line
        self.column = column
        self.offending = offending


class ExpressionFailed(GatewayError):
    """An expression has no value for this message: division by zero, text that is not a number, a result out of
    range."""


class LinkError(GatewayError):
    """A foreign messaging system refused an operation or could not be reached.

    ``link`` is the link's name and ``operation`` what was being done (``connect``, ``read``, ``publish``, ``settle``).
    """

    retriable: ClassVar[bool] = True
    #: The documented number of all errors of the class, where none is given; None: it depends.
    usual_number: ClassVar[int | None] = None

    def __init__(
        self,
        what: str = "",
        *,
        link: str = "",
        operation: str = "",
        cause: str = "",
        cure: str = "",
        number: int | None = None,
    ) -> None:
        super().__init__(what, cause=cause, cure=cure, number=self.usual_number if number is None else number)
        self.link = link
        self.operation = operation

    def __str__(self) -> str:
        prefix = f"[{self.number}] " if self.number else ""
        where = f"link {self.link}: " if self.link and self.link not in self.what else ""
        return prefix + where + self.text()


class LinkUnavailable(LinkError):
    """The messaging system cannot be reached, or the connection was lost."""


class LinkTimeout(LinkError):
    """The messaging system did not answer in time; whether it acted is unknown."""

    #: The limit of the messaging system that kept messages back all the time; empty: none is known.
    limit: str = ""

    def limited(self, limit: str) -> LinkTimeout:
        """This error, with the limit that is behind it."""
        self.limit = limit
        return self


class LinkRefused(LinkError):
    """The messaging system refused the credentials, the permissions or the TLS handshake."""


class QueueMissing(LinkError):
    """The queue, exchange or topic does not exist in the messaging system [434]."""

    usual_number = 434


class Blame(Enum):
    """Why a messaging system refused a batch, as far as its answer tells."""

    DESTINATION = "the place itself: no replicas, no binding, no permission to write; it accepts no message now"
    FULL = "the place is full for now, and accepts messages again when somebody reads from it"
    MESSAGE = "one of the messages itself: the others would be accepted"
    FORM = (
        "the way the messages were written; when the same destination encodes them again, they are written in another "
        "way"
    )
    UNKNOWN = "the response does not say, or its meaning is unknown"


class DeliveryRejected(LinkError):
    """The messaging system refused to store a batch [805]."""

    blame: Blame = Blame.DESTINATION

    def blamed(self, blame: Blame) -> DeliveryRejected:
        """This error, with what its answer tells of the reason."""
        self.blame = blame
        return self


class PositionLost(LinkError):
    """The stored position of the source no longer exists there: source messages are missing [415]."""

    retriable: ClassVar[bool] = False
    #: What is missing in each partition, measured from the positions that the hub has; empty: the source cannot tell.
    gaps: tuple[Gap, ...] = ()

    def missing(self, *gaps: Gap) -> PositionLost:
        """This error, with what is missing."""
        self.gaps = gaps
        return self


class HubError(GatewayError):
    """The hub database refused an operation."""


class HubMissing(HubError):
    """There is no hub where one was looked for."""


class HubIncomplete(HubError):
    """The hub has not the tables of every part that is asked for, such as the gateway's."""


class HubUnavailable(HubError):
    """The hub database cannot be reached or stayed locked [241]."""

    retriable: ClassVar[bool] = True


class HubClosed(HubUnavailable):
    """The hub was closed by this program."""

    retriable: ClassVar[bool] = False


class HubMoved(HubError):
    """The file of the hub was moved, deleted or replaced while it was open."""


class HubFull(HubError):
    """The hub database has no space left."""

    retriable: ClassVar[bool] = True


class HubVersionMismatch(HubError):
    """The hub database was written by another release."""


class LeaseLost(HubError):
    """Another process owns this agent now."""


def unforeseen(error: Exception) -> ConversionFailure:
    """The failure of one message, whose conversion raised an error that nobody thought of: what is behind it goes on.

    Raises:
        Exception: the same error, where it is no fault of the message: of the gateway, the system or its memory.
    """
    if isinstance(error, ConversionFailure):
        return error
    if isinstance(error, GatewayError | OSError | MemoryError):
        raise error
    place = traceback.extract_tb(error.__traceback__)[-1:]
    where = f" ({PurePath(place[0].filename).name}, line {place[0].lineno})" if place else ""
    return ConversionFailure(
        "the message cannot be converted",
        cause=f"internal error, {type(error).__name__}: {error}"[:500] + where,
        cure="report it with the message; a transformation that changes what is special about it helps until then",
    )
