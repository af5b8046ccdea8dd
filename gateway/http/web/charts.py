"""The history of a job as three small charts. Pure: points in, lines out; the template draws them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from mgw.gateway.http.web.words import number, rate, span
from mgw.gateway.services.job_history import Course, Point

__all__ = ["HEIGHT", "WIDTH", "WINDOWS", "Chart", "Tick", "charts", "failures", "times"]

#: What somebody may choose, and its seconds.
WINDOWS = {"1h": 3600.0, "3h": 10_800.0, "24h": 86_400.0, "7d": 604_800.0}

WIDTH, HEIGHT = 600, 120
_STEPS = (1, 1.5, 2, 3, 4, 6, 8, 10)
_TIMES = (60, 300, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800)  # between two marks of time
_MARKS = 6  # of time, at most


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark at an axis."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Chart:
    """One line over time.

    Attributes:
        lines: paths of SVG, one for each stretch that is known.
        areas: the same closed at the bottom.
        now: the last value that is known, in words; ``most``: the largest.
    """

    key: str
    title: str
    lines: Sequence[str]
    areas: Sequence[str]
    ticks: Sequence[Tick]
    now: str
    most: str

    @property
    def is_empty(self) -> bool:
        """Whether no value is known."""
        return not self.lines


def charts(course: Course) -> list[Chart]:
    """Rate, latency and backlog."""
    return [
        _chart("rate", "Rate", course, lambda point: point.rate, rate),
        _chart("latency", "Latency of a batch", course, _latency, span),
        _chart(
            "backlog", "Waiting", course, lambda point: None if point.backlog is None else float(point.backlog), number
        ),
    ]


def _latency(point: Point) -> float | None:
    if point.origin is not None:
        return point.origin
    known = [each for each in (point.stored, point.confirmed) if each is not None]
    return sum(known) if known else None


def _chart(
    key: str, title: str, course: Course, value: Callable[[Point], float | None], word: Callable[[float | None], str]
) -> Chart:
    values = [value(point) if point.seconds > 0 else None for point in course.points]
    known = [each for each in values if each is not None]
    top = _top(max(known, default=0.0))
    lines, areas = [], []
    for stretch in _stretches(values):
        places = [(WIDTH * (place + 0.5) / len(values), HEIGHT * (1 - each / top)) for place, each in stretch]
        if len(places) == 1:  # a dot would not be seen
            half = WIDTH / len(values) / 2
            places = [(places[0][0] - half, places[0][1]), (places[0][0] + half, places[0][1])]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        lines.append(f"M{path}")
        areas.append(f"M{places[0][0]:.1f},{HEIGHT} L{path} L{places[-1][0]:.1f},{HEIGHT} Z")
    ticks = [Tick(HEIGHT * (1 - part), word(top * part)) for part in (1.0, 0.5)]
    return Chart(key, title, lines, areas, ticks, word(known[-1] if known else None), word(max(known, default=None)))


def _top(value: float) -> float:
    """A round number that is not smaller."""
    if value <= 0:
        return 1.0
    size = 10 ** math.floor(math.log10(value))
    return float(next(step * size for step in _STEPS if step * size >= value * 0.999))


def _stretches(values: Sequence[float | None]) -> list[list[tuple[int, float]]]:
    """Values without a hole between them."""
    found: list[list[tuple[int, float]]] = [[]]
    for place, value in enumerate(values):
        if value is not None:
            found[-1].append((place, value))
        elif found[-1]:
            found.append([])
    return [each for each in found if each]


def times(course: Course) -> list[Tick]:
    """Marks of time, in UTC, at round moments."""
    length = course.until - course.since
    apart = next((each for each in _TIMES if length / each <= _MARKS), _TIMES[-1])
    moment, found = math.ceil(course.since / apart) * apart, []
    while moment < course.until:
        when = datetime.fromtimestamp(moment, UTC)
        text = f"{when:%d %b}" if apart >= 86_400 or (when.hour == when.minute == 0) else f"{when:%H:%M}"
        found.append(Tick(WIDTH * (moment - course.since) / length, text))
        moment += apart
    return found


def failures(course: Course) -> list[Tick]:
    """Where attempts failed, and how many."""
    count = len(course.points)
    return [
        Tick(WIDTH * (place + 0.5) / count, number(point.failures))
        for place, point in enumerate(course.points)
        if point.failures > 0
    ]
