"""Schedules of the older gateway (DBMS_HQADM): their protocols, and the windows in which they propagate.

A window opens at its beginning and closes ``duration`` seconds later; then ``next_time`` says when the next one opens,
with the end of the window as its SYSDATE, so that windows do not drift. Without a duration it stays open, without
``next_time`` it is the last one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from mgw.transforms.errors import ExpressionInvalid

__all__ = [
    "DEFAULT_LATENCY",
    "KAFKA_OUTBOUND",
    "LAST_MOMENT",
    "MAX_PROTOCOL",
    "MAX_SECONDS",
    "MIN_PROTOCOL",
    "MOST_WINDOWS",
    "MQSERIES_OUTBOUND",
    "MQTT_OUTBOUND",
    "PROTOCOL_NAMES",
    "PROTOCOL_TYPES",
    "RABBITMQ_OUTBOUND",
    "OutboundSchedule",
    "protocol_name",
]

DEFAULT_LATENCY = 60.0  # seconds, MQSeries gateway guide 9.2 ch. 11
MIN_PROTOCOL, MAX_PROTOCOL = 128, 255  # those that AQ leaves to others

MQSERIES_OUTBOUND: Final = 128  # of the calls that are moved here; the link says which messaging system it is
RABBITMQ_OUTBOUND: Final = 129
KAFKA_OUTBOUND: Final = 130
MQTT_OUTBOUND: Final = 131
#: The type of link that each protocol stands for; None: any.
PROTOCOL_TYPES: Mapping[int, str | None] = {
    MQSERIES_OUTBOUND: None,
    RABBITMQ_OUTBOUND: "RABBITMQ",
    KAFKA_OUTBOUND: "KAFKA",
    MQTT_OUTBOUND: "MQTT",
}

#: The numbers by the names of their constants.
PROTOCOL_NAMES: Mapping[str, int] = {f"{kind or 'MQSERIES'}_OUTBOUND": each for each, kind in PROTOCOL_TYPES.items()}

MAX_SECONDS = 1e11  # of a window and of a latency, as of all times of queues
LAST_MOMENT = 253402300799.0  # of the year 9999; no window ends later
MOST_WINDOWS = 2000  # that one call reckons one by one: less than 0.1 s


def protocol_name(number: int) -> str:
    """The name of the constant, or the number."""
    return next((name for name, each in PROTOCOL_NAMES.items() if each == number), str(number))


@dataclass(frozen=True, slots=True)
class OutboundSchedule:
    """What a schedule says of its job. Times are epoch seconds."""

    protocol: int
    latency: float  # seconds; 0: a message is sent as soon as it is there
    start_time: float
    duration: float | None  # seconds; None: the window stays open
    next_time: str | None
    exception_queue: str  # made with the schedule
    window: float  # beginning of the window that is open, opens next or was the last

    @property
    def end(self) -> float | None:
        """When the window closes; None: never."""
        return None if self.duration is None else self.window + self.duration

    def is_open(self, now: float) -> bool:
        """Whether messages are propagated."""
        return self.window <= now and (self.end is None or now < self.end)

    def edge(self, now: float) -> float | None:
        """When that changes next, as far as is known."""
        if now < self.window:
            return self.window
        return self.end if self.is_open(now) else None

    def removal(self, source: str, destination: str) -> str:
        """The command that removes the schedule of a job with these ends."""
        protocol = "" if self.protocol == MQSERIES_OUTBOUND else f" --protocol {protocol_name(self.protocol)}"
        return f"mgw outbound-schedules remove {source} {destination}{protocol}"

    def following(self) -> float | None:
        """Beginning of the next window; None: there is none.

        Raises:
            ExpressionInvalid: ``next_time`` has no value, or that window would not end within the years of dates.
        """
        if self.end is None or self.next_time is None:
            return None
        # Not at the top: it loads a parser of SQL, and every command loads this module.
        from mgw.transforms.language.dates import date_of

        begin = date_of(self.next_time, self.end)
        if begin + (self.duration or 0.0) > LAST_MOMENT:
            raise ExpressionInvalid(
                f"next_time {self.next_time!r} cannot be used",
                cause="the window would end after the year 9999",
                cure="give an earlier date, or a shorter duration",
            )
        return begin

    def is_behind(self, now: float) -> bool:
        """Whether its window has ended, and there is another."""
        return self.end is not None and self.end <= now and self.next_time is not None

    def moved(self, now: float) -> OutboundSchedule:
        """With the window that is open or opens next, after those that have ended; or with its last one.

        After :data:`MOST_WINDOWS` it is behind still, and the next call goes on.

        Raises:
            ExpressionInvalid: ``next_time`` has no value.
        """
        found = self._skipped(now)
        for _ in range(MOST_WINDOWS):
            if found.end is None or now < found.end or (begin := found.following()) is None:
                return found
            found = replace(found, window=max(begin, found.end))
        return found

    def _skipped(self, now: float) -> OutboundSchedule:
        """With the last window that has ended, if windows follow each other in equal steps."""
        if self.end is None or self.duration is None or self.next_time is None or now < self.end:
            return self
        from mgw.transforms.language.dates import constant_step

        step = constant_step(self.next_time)
        if step is None:
            return self
        period = self.duration + max(0.0, step)
        return replace(self, window=self.window + (now - self.end) // period * period)
