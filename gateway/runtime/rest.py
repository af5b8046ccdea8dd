"""How long a job that has nothing to do waits before it looks again.

A wait ends when a message comes, so it costs no time. It bounds what else the job does between two messages: to look
what waits at its source, and to ask whether its guarantee holds.
"""

from __future__ import annotations

__all__ = ["REST_SECONDS", "waiting"]

REST_SECONDS = 15.0  # between two looks where nothing has moved for so long


def waiting(seconds: float, quiet: float, verified: float) -> float:
    """Seconds until the next look of a job whose source waits by itself, instead of ``seconds``.

    ``quiet``: since the job moved a message. ``verified``: between two questions whether its guarantee holds.
    """
    return max(seconds, min(REST_SECONDS, verified / 4)) if quiet >= REST_SECONDS else seconds
