"""What kind of refusal an error is, for faces that answer with codes."""

from __future__ import annotations

import re
from enum import Enum, auto

from mgw.gateway.aq import HoldsMessages
from mgw.gateway.config.history import UnknownGeneration
from mgw.gateway.config.holding import WouldDelete
from mgw.gateway.config.obstacles import WouldStop
from mgw.gateway.config.plan import FixedSetting
from mgw.gateway.config.queue_users import QueueIsUsed
from mgw.gateway.services.admin import Ora, Overtaken
from mgw.gateway.services.exceptions import DeskRefused
from mgw.gateway.services.expected import Unexpected
from mgw.gateway.services.generations import NotRestored
from mgw.gateway.services.lookup import NotFound
from mgw.gateway.services.proof import NotInLedger
from mgw.gateway.services.queues import OfAJob
from mgw.gateway.services.takings import TokenEnded
from mgw.transforms.errors import AdminError, AqError, GatewayError, HubError, LinkError

__all__ = ["Kind", "about", "kind_of"]


class Kind(Enum):
    """What a caller can make of a refusal."""

    MISSING = auto()  # there is no such object
    CONFLICT = auto()  # another state of the object would allow it
    OVERTAKEN = auto()  # it is not as the caller saw it
    INVALID = auto()  # what was given cannot be used
    ELSEWHERE = auto()  # a messaging system is away, or refuses
    HUB = auto()  # the hub is away; the same again later may work


_MISSING = frozenset(
    (
        Ora.LINK_MISSING,
        Ora.QUEUE_MISSING,
        Ora.AQ_QUEUE_MISSING,
        Ora.AGENT_MISSING,
        Ora.JOB_MISSING,
        Ora.SUBSCRIBER_MISSING,
        Ora.SCHEDULE_MISSING,
    )
)
_CONFLICT = frozenset(
    (
        Ora.LINK_EXISTS,
        Ora.QUEUE_EXISTS,
        Ora.LINK_IN_USE,
        Ora.QUEUE_IN_USE,
        Ora.MARKED_FOR_REMOVAL,
        Ora.SOURCE_IN_USE,
        Ora.NOT_STARTED,
        Ora.MUST_BE_SHUT_DOWN,
        Ora.NOT_RUNNING,
        Ora.STILL_STARTING,
        Ora.ALREADY_RUNNING,
        Ora.CANNOT_START,
        Ora.AGENT_EXISTS,
        Ora.AGENT_IN_USE,
        Ora.JOB_EXISTS,
        Ora.SUBSCRIBER_EXISTS,
        Ora.SCHEDULE_EXISTS,
        Ora.SCHEDULED,
        Ora.NEW_STYLE,
        Ora.HQ_IN_PROGRESS,
    )
)
#: Of AqError (AQ guide 12.2 §18): the object does not exist; its state does not allow it.
_AQ_MISSING = frozenset((4043, 24002, 24010, 24035, 24088, 25205, 25263))
_AQ_CONFLICT = frozenset((54, 955, 2303, 24001, 24006, 24011, 24012, 24018, 24034, 24067, 24089, 25207, 25226, 25228))


#: Errors, of any number or of those, and what they are; the first that fits.
_KINDS: tuple[tuple[tuple[type[GatewayError], ...], frozenset[int] | None, Kind], ...] = (
    ((HubError,), None, Kind.HUB),
    ((LinkError,), None, Kind.ELSEWHERE),
    ((NotFound, NotInLedger, UnknownGeneration), None, Kind.MISSING),
    ((Unexpected,), None, Kind.OVERTAKEN),
    (
        (
            DeskRefused,
            FixedSetting,
            HoldsMessages,
            NotRestored,
            OfAJob,
            Overtaken,
            QueueIsUsed,
            TokenEnded,
            WouldDelete,
            WouldStop,
        ),
        None,
        Kind.CONFLICT,
    ),
    ((AdminError,), _MISSING, Kind.MISSING),
    ((AdminError,), _CONFLICT, Kind.CONFLICT),
    ((AqError,), _AQ_MISSING, Kind.MISSING),
    ((AqError,), _AQ_CONFLICT, Kind.CONFLICT),
)


def kind_of(error: GatewayError) -> Kind:
    """What kind of refusal it is."""
    number = error.number
    for types, numbers, kind in _KINDS:
        if isinstance(error, types) and (numbers is None or number in numbers):
            return kind
    if _holds_messages(error):
        return Kind.CONFLICT
    missing = isinstance(error, AdminError) and error.what.endswith("does not exist")
    return Kind.MISSING if missing else Kind.INVALID


#: How a text begins that is about an object.
_NAMED = re.compile(
    r"(agent|link|foreign queue|queue table|queue|job|subscriber|(?:outbound )?schedule|transformation|user|task|"
    r"AQ agent|object type|type|rule function) ('[^']+'|\"[^\"]+\"|\S+?)"
    r"(?:$|: | (?:already|belongs|cannot|does|has|is|may|must|now|requires|reads|was)\b)"
)


def about(error: GatewayError) -> str:
    """Kind and name of the object that an error is about, ``job SHIP``; empty: it names none."""
    if isinstance(error, NotFound) and error.about:
        return error.about
    if isinstance(error, LinkError) and error.link:
        return f"link {error.link}"
    found = _NAMED.match(error.what)
    return "" if found is None else f"{found[1]} {found[2].strip(chr(39) + chr(34))}"


def _holds_messages(error: BaseException | None) -> bool:
    """Whether it tells, in other words, that an object holds messages."""
    while error is not None:
        if isinstance(error, HoldsMessages):
            return True
        error = error.__cause__
    return False
