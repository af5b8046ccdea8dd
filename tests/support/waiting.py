"""Waiting for a condition with a deadline, instead of sleeping and hoping."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

__all__ = ["NotInTime", "eventually"]

T = TypeVar("T")
_FIRST_PAUSE = 0.005
_LONGEST_PAUSE = 0.1
_LONGEST_REST = 0.5  # after a condition that took a while, say a command


class NotInTime(AssertionError):
    """The condition did not come true before the deadline."""


def eventually(
    condition: Callable[[], T],
    *,
    deadline: float = 20.0,
    what: str = "the condition",
    tolerate: tuple[type[Exception], ...] = (AssertionError,),
) -> T:
    """The first true value of ``condition()``, asked again and again for at most ``deadline`` seconds.

    A condition that takes long is asked less often: nobody needs half a machine to see that another is still at work.

    An exception named in ``tolerate`` counts as "not yet", so a condition may be a function full of assertions that
    returns True. Raises NotInTime, which tells ``what`` was awaited, for how long, and what was seen last.
    """
    end = time.monotonic() + deadline
    pause = _FIRST_PAUSE
    while True:
        cause: Exception | None = None
        asked = time.monotonic()
        try:
            value = condition()
            if value:
                return value
            seen = f"last value: {value!r}"
        except tolerate as error:
            cause = error
            seen = f"last error: {type(error).__name__}: {error}"
        now = time.monotonic()
        if now >= end:
            raise NotInTime(f"{what}: not within {deadline:g} s; {seen}") from cause
        time.sleep(max(pause, min(2 * (now - asked), _LONGEST_REST)))
        pause = min(pause * 1.5, _LONGEST_PAUSE)
