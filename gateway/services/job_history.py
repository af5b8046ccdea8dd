"""The history of a job for somebody who looks at it: rate, latency and backlog at points of equal distance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mgw.gateway.aq import Hub
from mgw.gateway.services import lookup
from mgw.gateway.services.verdict import IN_TROUBLE, word_of
from mgw.gateway.state import history
from mgw.gateway.state.history import Interval

__all__ = ["MOST_POINTS", "MOST_SECONDS", "Course", "Point", "course_of", "points_of"]

MOST_POINTS = 180
MOST_SECONDS = 31 * 86400.0
_FINEST = 15.0  # seconds between two points at least: how often an agent looks


@dataclass(frozen=True, slots=True)
class Point:
    """What a job did in a part of the time, and how it was at its end.

    Attributes:
        begun: epoch seconds.
        seconds: of it that are known; 0: no agent ran, and nothing else is known.
        stored, confirmed, origin: see :class:`~mgw.gateway.state.history.Interval`.
        backlog, oldest: the largest.
        state: the word that all faces have for it; of a trouble, if there was one; empty: not known.
    """

    begun: float
    seconds: float = 0.0
    moved: float = 0.0
    exceptioned: float = 0.0
    filtered: float = 0.0
    discarded: float = 0.0
    failures: float = 0.0
    bytes: float = 0.0
    stored: float | None = None
    confirmed: float | None = None
    origin: float | None = None
    backlog: int | None = None
    oldest: float | None = None
    state: str = ""

    @property
    def rate(self) -> float | None:
        """Messages a second; None: not known."""
        return self.moved / self.seconds if self.seconds > 0 else None


@dataclass(frozen=True, slots=True)
class Course:
    """The history of a job.

    Attributes:
        since, until: epoch seconds.
        step: seconds between two points.
        points: from ``since`` on.
    """

    job: str
    since: float
    until: float
    step: float
    points: Sequence[Point]

    @property
    def is_known(self) -> bool:
        """Whether anything is known."""
        return any(point.seconds > 0 for point in self.points)


def course_of(hub: Hub, name: str, seconds: float, *, points: int = MOST_POINTS) -> Course:
    """The history of a job over the last so many seconds.

    Args:
        seconds: 60 to :data:`MOST_SECONDS`; what lies outside is taken for the nearest.
        points: how many at most, 1 to :data:`MOST_POINTS`.

    Raises:
        NotFound: there is no such job.
        HubError: the hub does not answer.
    """
    seconds = min(max(60.0, seconds), MOST_SECONDS)
    step = max(_FINEST, seconds / min(max(1, points), MOST_POINTS))
    row = lookup.job_row(hub, name)
    until = hub.clock.now()
    count = max(1, round(seconds / step))
    since = until - count * step
    with hub.read() as conn:
        found = history.between(conn, row.job_name, since, until)
    return Course(row.job_name, since, until, step, points_of(found, since, step, count))


def points_of(rows: Sequence[Interval], since: float, step: float, count: int) -> list[Point]:
    """Rows spread over points: what happened in a row belongs to each point by the time that they share."""
    shares: list[list[tuple[float, Interval]]] = [[] for _ in range(count)]
    for row in rows:
        for place, seconds in _places(row, since, step, count):
            shares[place].append((seconds, row))
    return [_point(since + place * step, parts) for place, parts in enumerate(shares)]


def _places(row: Interval, since: float, step: float, count: int) -> Iterator[tuple[int, float]]:
    first, last = int((row.begun - since) // step), int((row.ended - since) // step)
    for place in range(max(0, first), min(count - 1, last) + 1):
        begin = since + place * step
        shared = min(row.ended, begin + step) - max(row.begun, begin)
        if shared > 0:
            yield place, shared


def _point(begun: float, parts: Sequence[tuple[float, Interval]]) -> Point:
    if not parts:
        return Point(begun)

    def part(name: str) -> float:
        return sum(float(getattr(row, name)) * seconds / row.seconds for seconds, row in parts)

    rows = [row for _, row in parts]
    words = [word_of(row.status, row.activity, row.enabled) for row in rows]
    troubles = [word for word in IN_TROUBLE if word in words]
    return Point(
        begun,
        sum(seconds for seconds, _ in parts),
        part("moved"),
        part("exceptioned"),
        part("filtered"),
        part("discarded"),
        part("failures"),
        part("bytes"),
        history.mean_of(rows, "stored"),
        history.mean_of(rows, "confirmed"),
        history.mean_of(rows, "origin"),
        max((row.backlog for row in rows if row.backlog is not None), default=None),
        max((row.oldest for row in rows if row.oldest is not None), default=None),
        troubles[0] if troubles else words[-1],
    )
