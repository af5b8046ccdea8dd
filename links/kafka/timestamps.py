"""Which timestamps a topic takes: from its configuration, and from what the broker answers when it refuses one.

A broker compares the timestamp of a record with its own clock. Records that a topic does not take make it refuse the
whole batch, so their timestamps are moved into the window beforehand (:func:`mgw.transforms.kafka.to_record`).

The configuration may not be readable, may change while a job runs, and the clocks of both machines may differ. So the
window that a refusal names counts more than the configuration, until the configuration is another one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from mgw.transforms.kafka import Window

__all__ = ["Timestamps"]

_UNLIMITED: Final = 2**63 - 1  # milliseconds
_MARGIN: Final = 10_000  # milliseconds at most: the broker looks later, with another clock
_MAX_LESSONS: Final = 3  # refusals in a row from which a window is learnt
_RANGE: Final = re.compile(r"should be within \[(-?\d+), (-?\d+)\]")
_TYPE: Final = "message.timestamp.type"
_BEFORE: Final = ("message.timestamp.before.max.ms", "message.timestamp.difference.max.ms")
_AFTER: Final = ("message.timestamp.after.max.ms", "message.timestamp.difference.max.ms")


class Timestamps:
    """The window of one topic, as of the last :meth:`learn` or :meth:`refused`."""

    def __init__(self) -> None:
        self._configured: tuple[bool, int, int] | None = None
        self._append_time = False
        self._before = self._after = _UNLIMITED  # milliseconds from now; negative where the clocks differ so much
        self._lessons = 0
        self._windows: dict[int, Window | None] = {}  # the last one: milliseconds -> window

    def learn(self, config: Mapping[str, str] | None) -> None:
        """Take the configuration of the topic; None where it may not be read. What is not told is not limited."""
        self._windows = {}
        known = config or {}
        configured = (known.get(_TYPE) == "LogAppendTime", _limit(known, _BEFORE), _limit(known, _AFTER))
        if configured != self._configured:
            self._configured = configured
            self._append_time, before, after = configured
            self._before, self._after = before - _margin(before), after - _margin(after)

    def window(self, now: float) -> Window | None:
        """The timestamps that can be sent at ``now`` (epoch seconds), a little narrower than the broker's own window;
        None where the topic takes any, because it writes its own."""
        milliseconds = int(now * 1000)
        if milliseconds not in self._windows:  # many messages are encoded within one
            self._windows = {milliseconds: self._window(milliseconds)}
        return self._windows[milliseconds]

    def _window(self, milliseconds: int) -> Window | None:
        if self._append_time:
            return None
        earliest, latest = max(0, milliseconds - self._before), min(_UNLIMITED, milliseconds + self._after)
        return Window(earliest, max(earliest, latest))

    @staticmethod
    def told(error: BaseException) -> bool:
        """Whether the text of a refusal names the window, which alone says it where several records are refused."""
        return _RANGE.search(str(error)) is not None

    def refused(self, error: BaseException, now: float) -> bool:
        """Learn from such a refusal at ``now`` (epoch seconds); False where the lessons before it were no use."""
        self._windows = {}
        found = _RANGE.search(str(error))
        self._lessons += 1
        if self._lessons > (_MAX_LESSONS if found else 1):
            return False
        milliseconds = int(now * 1000)
        self._append_time = False
        if found is None:  # a release that does not tell the window
            self._before, self._after = _MARGIN, 0
            return True
        earliest, latest = int(found[1]), int(found[2])
        if latest < earliest:  # the broker's own number ran over: there is no upper end
            latest = _UNLIMITED
        margin = _margin(latest - earliest)
        self._before = milliseconds - (earliest + margin)
        self._after = latest - margin - milliseconds
        return True

    def accepted(self) -> None:
        """The broker took records since the last refusal."""
        self._lessons = 0


def _limit(config: Mapping[str, str], names: tuple[str, ...]) -> int:
    return min((int(config[name]) for name in names if name in config), default=_UNLIMITED)


def _margin(limit: int) -> int:
    return min(_MARGIN, limit // 10)
