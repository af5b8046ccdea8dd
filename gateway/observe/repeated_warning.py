"""A trouble that lasts, in the log: said when it begins and changes, at growing intervals, and when it is over."""

from __future__ import annotations

import logging
from typing import Final

from mgw.transforms.clock import Clock

__all__ = ["Complaint"]

_FIRST: Final = 10.0  # seconds until a trouble that lasts is said again; then twice as long, and so on
_LONGEST: Final = 600.0


class Complaint:
    """One source of trouble, asked more often than anybody wants to read. Used by one thread."""

    def __init__(self, clock: Clock, logger: logging.Logger) -> None:
        self._clock = clock
        self._logger = logger
        self._text = ""
        self._since = 0.0
        self._again = 0.0
        self._pause = 0.0

    def say(self, text: str) -> None:
        """There is trouble, or it lasts."""
        now = self._clock.monotonic()
        if not self._text:
            self._since = now
        if text != self._text:
            self._text, self._pause, self._again = text, _FIRST, now + _FIRST
            self._logger.warning("%s", text)
        elif now >= self._again:
            self._pause = min(2 * self._pause, _LONGEST)
            self._again = now + self._pause
            self._logger.warning("for %.0f s now: %s", now - self._since, text)

    @property
    def lasts(self) -> str:
        """The trouble and since when, in words; empty: there is none. Any thread may ask."""
        text = self._text
        return f"for {self._clock.monotonic() - self._since:.0f} s now: {text}" if text else ""

    def over(self) -> None:
        """All is well."""
        if self._text:
            self._logger.info("over after %.0f s: %s", self._clock.monotonic() - self._since, self._text)
            self._text = ""
