"""What a job did over the last hours or days."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from mgw.gateway.http.access import Viewer
from mgw.gateway.http.rest.answers import HubOf
from mgw.gateway.http.rest.moments import moment
from mgw.gateway.http.slashes import NAME
from mgw.gateway.services.durations import PATTERN, seconds_of
from mgw.gateway.services.job_history import MOST_POINTS, Point, course_of

__all__ = ["router"]

router = APIRouter(prefix="/jobs", tags=["jobs"])


class HistoryPoint(BaseModel):
    """What a job did from a moment on, until the next point; members that are null are not known."""

    time: datetime
    known_seconds: float = Field(
        description="Of the time until the next point. 0: no agent ran; the rest says nothing."
    )
    rate: float | None = Field(description="Messages that it moved, a second.")
    moved: float
    exceptioned: float
    filtered: float
    discarded: float
    failures: float = Field(description="Attempts that failed.")
    bytes: float = Field(description="Of the bodies that it read.")
    read_to_stored: float | None = Field(description="Seconds that a batch took, on average; as in the metrics.")
    stored_to_confirmed: float | None
    origin_to_confirmed: float | None
    backlog: int | None = Field(description="Messages that waited, at most.")
    oldest: float | None = Field(description="Seconds for which the oldest of them had waited, at most.")
    state: str = Field(description="The last one, or a trouble that there was; empty: not known.")


class JobHistory(BaseModel):
    """What a job did. Numbers at a point may be parts of whole messages: rows of the history are spread over points."""

    job: str
    since: datetime
    until: datetime
    step: float = Field(description="Seconds between two points.")
    points: list[HistoryPoint]


@router.get(f"/{NAME}/history")
def job_history(
    name: str,
    hub: HubOf,
    _: Viewer,
    window: Annotated[
        str, Query(pattern=PATTERN, description="How far back: 90s, 15m, 3h, 7d; at most 31 days.")
    ] = "3h",
    points: Annotated[int, Query(ge=1, le=MOST_POINTS, description="At most so many.")] = MOST_POINTS,
) -> JobHistory:
    """What one job did: rate, latency, backlog, failures and state in intervals of equal length."""
    course = course_of(hub, name, seconds_of(window) or 0.0, points=points)
    return JobHistory(
        job=course.job,
        since=moment(course.since),
        until=moment(course.until),
        step=course.step,
        points=[_point(each) for each in course.points],
    )


def _point(point: Point) -> HistoryPoint:
    return HistoryPoint(
        time=moment(point.begun),
        known_seconds=point.seconds,
        rate=point.rate,
        moved=point.moved,
        exceptioned=point.exceptioned,
        filtered=point.filtered,
        discarded=point.discarded,
        failures=point.failures,
        bytes=point.bytes,
        read_to_stored=point.stored,
        stored_to_confirmed=point.confirmed,
        origin_to_confirmed=point.origin,
        backlog=point.backlog,
        oldest=point.oldest,
        state=point.state,
    )
