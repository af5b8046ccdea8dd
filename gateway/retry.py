"""When a failed job tries again, and when it gives up. Pure: error and count in, decision out.

AQ guide 12.2 §17.4: exponential delays from 2 seconds to 30 minutes, FAILED after sixteen failures in a row.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from gateway.model import JobStatus
from transforms.errors import GatewayError, HubError

__all__ = ["MAX_DELAY", "MAX_FAILURES", "Decision", "decide"]

MAX_FAILURES = 16
MAX_DELAY = 1800.0  # seconds
MAX_HUB_DELAY = 30.0  # seconds; a hub that is away or full stops every job at once, and none must stay behind
WAITING = 421  # no connection of the link is free: the job's turn comes, so it neither gives up nor waits for long
HOPELESS = frozenset({415, 416, 417})  # a log does not match its queue: a person must decide
JITTER = 0.1  # share of the delay, both ways: jobs that failed together do not come back together


@dataclass(frozen=True, slots=True)
class Decision:
    """What follows a failure: ``delay`` seconds until the next attempt, None when there is none."""

    status: JobStatus
    delay: float | None


def decide(failures: int, error: BaseException, *, forever: bool = False, jitter: float | None = None) -> Decision:
    """Decide after failure number ``failures`` (1 = the first since the last success).

    A hub that is away or full is no fault of the job, nor is a link without a free connection [421]: the job tries
    again every half minute, for ever.

    Args:
        failures: failures in a row, this one included; at least 1.
        error: what failed. Numbers 415, 416 and 417 end the job at once.
        forever: job option ``retry_forever``: never FAILED, keeps going at the longest delay.
        jitter: -1..1, for tests; drawn at random otherwise.
    """
    hopeless = isinstance(error, GatewayError) and error.number in HOPELESS
    waiting = isinstance(error, GatewayError) and error.number == WAITING
    not_its_fault = waiting or (isinstance(error, HubError) and error.retriable)
    if hopeless or (failures >= MAX_FAILURES and not forever and not not_its_fault):
        return Decision(JobStatus.FAILED, None)
    delay = min(2.0 ** min(failures, 11), MAX_HUB_DELAY if not_its_fault else MAX_DELAY)
    spread = random.uniform(-1, 1) if jitter is None else jitter  # noqa: S311  # not a secret
    return Decision(JobStatus.RETRY, delay * (1 + JITTER * spread))
