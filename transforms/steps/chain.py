"""Transformations one after the other, and the time that one may take."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mgw.transforms.language.values import NoValue
from mgw.transforms.message import Message

if TYPE_CHECKING:
    from mgw.transforms.language.expression import Row

__all__ = ["MAX_STEPS", "MAX_TIME_LIMIT", "chained", "timed"]

MAX_STEPS = 32
MAX_TIME_LIMIT = 3600.0  # seconds


class TookTooLong(NoValue):
    """A transformation came back after its time limit."""


def chained(steps: Sequence[Callable[[Message], Any]]) -> Callable[[Message, Row], Any]:
    """What applies ``steps`` in order, each to all that the one before it made.

    One message may become several at any step, and the next step sees each of them. A message that a step filters is
    seen by no later step; None: no message is left. The first failure is that of the message it all began with.
    """

    def change(message: Message, _row: Row) -> Any:
        found = [message]
        for step in steps:
            made: list[Message] = []
            for each in found:
                result = step(each)
                if isinstance(result, Message):
                    made.append(result)
                elif result is not None:
                    made += result
            if not made:
                return None
            found = made
        return found[0] if len(found) == 1 else found

    return change


def timed(change: Callable[[Message, Row], Any], seconds: float) -> Callable[[Message, Row], Any]:
    """The same, which fails when it took longer than ``seconds``.

    A thread of Python cannot be stopped from outside: the time is taken when the change comes back. One that never
    does is reported by the agent (event JobStuck).
    """

    def within(message: Message, row: Row) -> Any:
        began = time.monotonic()
        result = change(message, row)
        took = time.monotonic() - began
        if took > seconds:
            raise TookTooLong(f"it took {took:.3g} s, and its time_limit is {seconds:g} s")
        return result

    return within
