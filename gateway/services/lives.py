"""The life of a message, told from the ledger: from where it came, what each job did with it, where it is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from mgw.gateway.aq import Hub
from mgw.gateway.services.proof import Kind, Sight, message_life
from mgw.transforms.errors import GatewayError

__all__ = ["Life", "Stage", "life", "with_origin"]


@dataclass(frozen=True, slots=True)
class Stage:
    """Something that happened to a message.

    Attributes:
        time: epoch seconds; None: it has not happened yet, or nobody knows when.
        places: coordinates outside the hub.
        messages: ids of messages in the hub that it became.
        wrong: it could not be delivered.
    """

    time: float | None
    job: str
    text: str
    places: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    wrong: bool = False


@dataclass(frozen=True, slots=True)
class Life:
    """What is known of a message.

    Attributes:
        state: where it is in the hub now, in words; None: it has left the hub.
        queue: the queue that it is in; None: none.
        offences: what contradicts exactly once.
    """

    message: str
    stages: Sequence[Stage]
    state: str | None
    queue: str | None
    offences: Sequence[str]


_ID = re.compile(r"(?:AQMSGID:)?([0-9A-Fa-f]{32})")


def life(hub: Hub, message: str) -> Life:
    """What is known of a message.

    Raises:
        GatewayError: it is no message id of this hub.
    """
    digits = _ID.fullmatch(message)
    if digits is None:
        raise GatewayError(
            f"{message!r:.80} is not a message id", cause="that has 32 hexadecimal digits", cure="copy it whole"
        )
    found = message_life(hub, bytes.fromhex(digits[1])).trace
    state = found.states.get(found.message)
    stages = [stage for sight in found.sights for stage in _stages(sight, found.message)]
    stages.sort(key=lambda stage: float("inf") if stage.time is None else stage.time)
    queue = state.partition(": ")[0].removeprefix("queue ") if state else None
    return Life(found.message, stages, state, queue, found.offences)


def with_origin(hub: Hub, found: Life, origin: str) -> Life:
    """The life of a message with that of the one that it was made of, in another queue of the hub or of another hub."""
    try:
        before = life(hub, origin)
    except GatewayError:  # of another hub
        return found
    return replace(found, stages=[*before.stages, *found.stages], offences=[*before.offences, *found.offences])


def _stages(sight: Sight, message: str) -> Iterator[Stage]:
    job, reason = sight.job, f": {sight.reason}" if sight.reason else ""
    others = tuple(each for each in sight.messages if each != message)
    wrong = bool(sight.reason)
    if sight.kind in (Kind.RECEIVED, Kind.CARRIED):
        again = " again, as the source says" if sight.redelivered else ""
        origin = (sight.origin,) if sight.origin else ()
        yield Stage(sight.started, job, f"read from the source{again}", origin)
    else:
        yield Stage(sight.started, job, f"planned in batch {sight.sequence}")
    if sight.finished is None:
        yield Stage(None, job, "not completed yet")
        return
    if sight.sent is not None:
        yield Stage(sight.sent, job, "sent to the destination", sight.places)
        yield Stage(sight.confirmed, job, "confirmed: the destination has it")
    yield Stage(sight.finished, job, f"{sight.outcome}{reason} (record {sight.batch})", (), others, wrong)
