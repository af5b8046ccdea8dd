"""What keeps the messages of a job from moving: a limit that is known (BLOCKED), or nothing that tells (STUCK).

It is found by the watermarks at both ends of a route: what was sent and not confirmed, what waits and was not read.
"""

from __future__ import annotations

from typing import NamedTuple

from mgw.gateway.definitions.job_options import stuck_after
from mgw.gateway.definitions.objects import Activity, JobDef
from mgw.gateway.runtime.connection_quota import NoConnectionFree
from mgw.transforms.errors import Blame, DeliveryRejected, GatewayError, HubFull, LinkTimeout, ParkedTooMany

__all__ = ["BLOCKED_SECONDS", "Hindrance", "limit_of", "patience", "said"]

BLOCKED_SECONDS = 1.0  # a limit that holds for less time is not worth a word


class Hindrance(NamedTuple):
    """Nothing has moved for ``seconds``, and why."""

    activity: Activity
    reason: str
    seconds: float


def patience(job: JobDef) -> float:
    """Seconds without progress after which a job with messages is STUCK."""
    return stuck_after(job.options)


def limit_of(error: BaseException) -> str:
    """The limit that an attempt failed at, in words; empty where it failed for another reason."""
    if isinstance(error, DeliveryRejected) and error.blame is Blame.FULL:
        return f"the destination is full: {error.cause}"
    if isinstance(error, LinkTimeout):
        return error.limit
    if isinstance(error, NoConnectionFree):
        return f"max_connections of the link: {error.cause}"
    if isinstance(error, HubFull):
        return "the space of the hub"
    return f"park_messages: {error.cause}" if isinstance(error, ParkedTooMany) else ""


def said(error: Exception) -> str:
    """What an error says, for the views and the log."""
    return str(error) if isinstance(error, GatewayError) else f"internal error, {type(error).__name__}: {error}"
