"""The hop trail: which jobs a message has passed, in a header that travels with it.

The header ``MGW_trail`` has an entry ``JOB@HUB*PASSES`` for each job, the one that was passed last at the end. HUB are
the first eight digits of the hub's id, as two hubs may have jobs of one name. A job that was passed before moves to the
end and counts one more. So the entries behind a job are the way back to it, and the rounds do not make a trail longer.
"""

from __future__ import annotations

import re
from typing import Final

from mgw.transforms.errors import LoopFound
from mgw.transforms.message import (
    MAX_HEADERS,
    TRAIL,
    Header,
    HeaderValue,
    Message,
    ValueType,
    find_header,
    with_headers,
)

__all__ = ["MAX_ENTRIES", "Trail"]

MAX_ENTRIES: Final = 24  # jobs; with the longest names they fit into a header

_ENTRY: Final = re.compile(r"([A-Za-z][\w$#.-]{0,127}@[0-9a-f]{8})\*([1-9]\d{0,5})", re.ASCII)
_SEPARATOR: Final = ", "
_HUB_DIGITS: Final = 8
_REMEMBERED: Final = 256  # header arrays


class Trail:
    """Adds one job to the trail of messages, and stops those that passed it too often.

    Messages of one flow share their header arrays, so what became of an array is kept, and is one array for all.
    """

    def __init__(self, job: str, hub: str, passes: int) -> None:
        """``hub``: its id as hexadecimal digits; ``passes``: how often a message may pass the job."""
        self._job = job
        self._hub = hub[:_HUB_DIGITS]
        self._passes = passes
        self._me = f"{job}@{self._hub}"
        self._first = Header(TRAIL, ValueType.TEXT, f"{self._me}*1")  # of messages without a trail
        self._trails: dict[HeaderValue, Header] = {}  # by the trail that came
        self._arrays: dict[int, tuple[tuple[Header, ...], tuple[Header, ...]]] = {}

    def __call__(self, message: Message) -> Message:
        """The message with this job in its trail.

        Raises:
            LoopFound: it passed the job as often as it may.
        """
        headers = message.headers
        known = self._arrays.get(id(headers))  # the array is kept, so that its id stays its own
        if known is None or known[0] is not headers:
            known = headers, _with_trail(headers, self._passed(headers))
            if len(self._arrays) >= _REMEMBERED:
                self._arrays.clear()
            self._arrays[id(headers)] = known
        return with_headers(message, known[1])

    def passed(self, message: Message) -> Header:
        """The trail of a message, with this job.

        Raises:
            LoopFound: it passed the job as often as it may.
        """
        return self._passed(message.headers)

    @staticmethod
    def mark(message: Message, trail: Header) -> Message:
        """The message with that trail."""
        return with_headers(message, _with_trail(message.headers, trail))

    def _passed(self, headers: tuple[Header, ...]) -> Header:
        found = find_header(headers, TRAIL)
        if found is None:
            return self._first
        value = found.value
        known = self._trails.get(value)
        if known is None:
            known = Header(TRAIL, ValueType.TEXT, self._added(_entries(value)))
            if len(self._trails) >= _REMEMBERED:
                self._trails.clear()
            self._trails[value] = known
        return known

    def _added(self, entries: dict[str, int]) -> str:
        if entries.get(self._me, 0) >= self._passes:
            raise self._loop(entries)
        entries[self._me] = entries.pop(self._me, 0) + 1
        newest = list(entries.items())[-MAX_ENTRIES:]
        return _SEPARATOR.join(f"{name}*{passes}" for name, passes in newest)

    def _loop(self, entries: dict[str, int]) -> LoopFound:
        names = list(entries)
        way = [self._shown(name) for name in (*names[names.index(self._me) :], self._me)]
        return LoopFound(
            f"the message goes round in a loop: {' -> '.join(way)}",
            cause=f"it has passed job {self._job} {entries[self._me]} times, which is its max_passes; jobs without "
            "max_passes are not named",
            cure="end the loop: let a job read or write another place, or give one a rule that is false for what comes "
            "back; then replay the message",
            number=730,
        )

    def _shown(self, name: str) -> str:
        """A job of this hub by its name alone."""
        return name.removesuffix(f"@{self._hub}")


def _entries(value: HeaderValue) -> dict[str, int]:
    """What a trail says; what is no entry of a gateway is left out."""
    text = value.decode("ascii", "replace") if isinstance(value, bytes) else str(value)
    found: dict[str, int] = {}
    for part in text.split(_SEPARATOR):
        if entry := _ENTRY.fullmatch(part):
            found[entry[1]] = int(entry[2])
    return found


def _with_trail(headers: tuple[Header, ...], trail: Header) -> tuple[Header, ...]:
    """The array with that trail; as it is where it has no room for one more header."""
    others = [header for header in headers if header[0] != TRAIL]
    return headers if len(others) >= MAX_HEADERS else (*others, trail)
