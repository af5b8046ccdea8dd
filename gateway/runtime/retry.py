"""When a failed job tries again, and when it gives up. Pure: errors in, decisions out.

Failures are of two kinds (decision 0019). One that a message or the configuration makes repeats itself: delays grow
from 2 seconds to 30 minutes, and the sixteenth in a row ends the job (AQ guide 12.2 §17.4). A broker or hub that cannot
be reached is not a fault of the job: it never gives up, and no delay is longer than a minute, or what the
job option ``retry_max_delay`` says.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum

from mgw.gateway.definitions.objects import JobDef, JobStatus
from mgw.transforms.errors import (
    Blame,
    DeliveryRejected,
    GatewayError,
    HubFull,
    HubUnavailable,
    LinkRefused,
    LinkTimeout,
    LinkUnavailable,
    ParkedTooMany,
)

__all__ = ["MAX_AWAY_DELAY", "MAX_DELAY", "MAX_FAILURES", "Decision", "Kind", "Setbacks", "decide", "kind_of"]

MAX_FAILURES = 16
MAX_DELAY = 1800.0  # seconds, after a failure that counts
MAX_AWAY_DELAY = 60.0  # seconds, while a broker or the hub cannot be reached
MAX_FULL_DELAY = 10.0  # seconds, while the destination is full: nothing tells when it takes messages again
SOON = 2.0  # seconds; the first delay of every kind
MAX_TURN_DELAY = 30.0  # seconds, while no connection of the link is free
JITTER = 0.1  # share of the delay: jobs that failed together do not come back together
STEADY = 5.0  # seconds for which a job must have been able to read, at least, after a failure that counts
_TURN = 421
_HOPELESS = frozenset({415, 416, 417})
_AWAY = (LinkUnavailable, LinkTimeout, LinkRefused, HubUnavailable, HubFull, ParkedTooMany)


class Kind(Enum):
    """What a failure says about the next attempt."""

    HOPELESS = "a log does not match its queue: the operator must decide"
    FAULT = "a message or the configuration; it counts"
    AWAY = "a broker or the hub cannot be reached, refuses the login, or takes no more for now"
    TURN = "no connection of the link is free; nothing was tried"


@dataclass(frozen=True, slots=True)
class Decision:
    """What follows a failure: ``delay`` seconds until the next attempt, None when there is none. ``failures``: how many
    of this kind there were in a row."""

    status: JobStatus
    delay: float | None
    kind: Kind = Kind.FAULT
    failures: int = 1


def kind_of(error: BaseException, *, documented: bool = False) -> Kind:
    """The kind of a failure; ``documented`` (job option ``retry_policy``): a broker or hub that is away counts."""
    number = error.number if isinstance(error, GatewayError) else None
    if number in _HOPELESS:
        return Kind.HOPELESS
    if number == _TURN:
        return Kind.TURN
    away = isinstance(error, _AWAY) or _is_full(error)
    return Kind.AWAY if away and not documented else Kind.FAULT


def _is_full(error: BaseException) -> bool:
    """Whether the destination takes nothing until somebody reads there."""
    return isinstance(error, DeliveryRejected) and error.blame is Blame.FULL


def decide(
    failures: int,
    error: BaseException,
    *,
    forever: bool = False,
    documented: bool = False,
    longest: float = MAX_AWAY_DELAY,
    settling: bool = False,
    waited: float = 0.0,
    jitter: float | None = None,
) -> Decision:
    """Decide after failure number ``failures`` of its kind (1 = the first since the last success).

    Args:
        failures: failures of this kind in a row, this one included; at least 1.
        error: what failed. Numbers 415, 416 and 417 end the job at once.
        forever: job option ``retry_forever``: never FAILED, keeps going at the longest delay.
        documented: job option ``retry_policy`` is ``documented``: every failure counts.
        longest: job option ``retry_max_delay``: the longest delay while a broker or the hub is away.
        settling: what cannot be reached has begun to accept connections a moment ago: it will be ready soon.
        waited: seconds for which the attempt waited for an answer.
        jitter: -1..1, for tests; drawn at random otherwise.
    """
    kind = kind_of(error, documented=documented)
    if kind is Kind.HOPELESS or (kind is Kind.FAULT and failures >= MAX_FAILURES and not forever):
        return Decision(JobStatus.FAILED, None, kind, failures)
    spread = random.uniform(-1, 1) if jitter is None else jitter  # noqa: S311  # not a secret
    delay = 2.0 ** min(failures, 11)
    if kind is Kind.AWAY:
        # An attempt that waited in vain was a pause already, and where something hangs only attempts tell when it ends.
        patient = isinstance(error, LinkTimeout) and waited >= SOON
        soon = patient or (settling and not isinstance(error, LinkRefused))
        delay = min(delay, SOON if soon else min(MAX_FULL_DELAY, longest) if _is_full(error) else longest)
        return Decision(JobStatus.RETRY, delay * (1 - JITTER * (1 + spread) / 2), kind, failures)
    delay = min(delay, MAX_TURN_DELAY if kind is Kind.TURN else MAX_DELAY)
    return Decision(JobStatus.RETRY, delay * (1 + JITTER * spread), kind, failures)


class Setbacks:
    """The failures of one job since its last success. Used by the job's thread."""

    def __init__(self, job: JobDef) -> None:
        self._forever = job.flag("retry_forever")
        self._documented = job.options.get("retry_policy", "").lower() == "documented"
        self._longest = float(job.options.get("retry_max_delay", MAX_AWAY_DELAY))
        self._faults = 0  # in a row, also with failures of other kinds between them
        self._others: Kind | None = None  # kind of the last failure, where that was none that counts
        self._repeated = 0  # times that it came in a row
        self._rested = 0.0  # seconds of the last delay; 0: it was cut short
        self._open = False  # whether the hub still says RETRY

    def __bool__(self) -> bool:
        return self._open

    @property
    def failures(self) -> int:
        """How many there were in a row of the kind of the last one."""
        return self._faults if self._others is None else self._repeated

    @property
    def away(self) -> bool:
        """Whether the last failure was one to reach a broker or the hub."""
        return self._others is Kind.AWAY

    def resume(self, must_recover: bool) -> None:
        """The job begins, and the hub may say RETRY. A changed job counts from zero, and must recover, too."""
        self._open = must_recover

    def reset(self) -> None:
        """An operator has forgiven them."""
        self._faults = self._repeated = 0
        self._others = None

    def add(self, error: BaseException, *, settling: bool = False, waited: float = 0.0) -> Decision:
        """Count a failure and decide what follows; see :func:`decide`."""
        kind = kind_of(error, documented=self._documented)
        self._open = True
        if kind in {Kind.AWAY, Kind.TURN}:
            self._repeated = self._repeated + 1 if kind is self._others else 1
            self._others = kind
        else:
            self._faults, self._others, self._repeated = self._faults + 1, None, 0
        return decide(
            self.failures,
            error,
            forever=self._forever,
            documented=self._documented,
            longest=self._longest,
            settling=settling,
            waited=waited,
        )

    def rested(self, seconds: float) -> None:
        """The delay after the last failure; 0 where it was cut short, since what was away is back."""
        self._rested = seconds

    def over(self, moved: bool, readable: float) -> bool:
        """Whether the job has recovered: a message moved, or reading has been possible for longer than the last delay.

        A first look that finds nothing proves nothing: what failed may be the very next message.
        """
        return self._open and (moved or readable > max(self._rested, STEADY if self._faults else SOON))

    def clear(self) -> None:
        """It has recovered."""
        self.reset()
        self._open = False
