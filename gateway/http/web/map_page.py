"""The map: is everything well, and if not, what first?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from mgw.gateway.http.access import Viewer
from mgw.gateway.http.rest.answers import HubOf
from mgw.gateway.http.web.graph import drawn, grouped
from mgw.gateway.http.web.rendering import BoardOf, SharedOf, is_part, page
from mgw.gateway.services.board import JobLine, Mood, Picture

__all__ = ["router"]

router = APIRouter()

_MOST_DRAWN = 60  # jobs, each as an edge of its own
_PAGE = 100  # jobs in the table
_TROUBLES = 8  # told in full
_MOODS = ("need", "trying", "paused", "fine")

Filter = Annotated[str, Query(max_length=200)]


@router.get("/")
def map_page(  # noqa: PLR0917
    request: Request,
    _: HubOf,
    who: Viewer,
    board: BoardOf,
    shared: SharedOf,
    q: Filter = "",
    mood: Filter = "",
    link: Filter = "",
    at: Annotated[int, Query(ge=1, le=100_000)] = 1,
) -> Response:
    """The map."""
    seen = board.latest()
    key = (who, is_part(request), q, mood, link, at)
    return shared(seen, key, lambda: page(request, "map.html", who, _values(seen, q, mood, link, at)))


def _values(seen: Picture, q: str, mood: str, link: str, at: int) -> Mapping[str, Any]:
    """What is shown of a moment."""
    jobs = [job for job in seen.jobs if _is_meant(job, q, mood, link)]
    pages = max(1, -(-len(jobs) // _PAGE))
    at = min(at, pages)
    return {
        "seen": seen,
        "sentence": _sentence(seen),
        "jobs": jobs[(at - 1) * _PAGE : at * _PAGE],
        "found": len(jobs),
        "at": at,
        "pages": pages,
        "filters": {"q": q, "mood": mood, "link": link},
        "moods": _MOODS,
        "graph": drawn(seen, jobs) if len(jobs) <= _MOST_DRAWN else grouped(seen, jobs),
        "is_grouped": len(jobs) > _MOST_DRAWN,
        "troubles": seen.troubles[:_TROUBLES],
        "retries": seen.retries[: max(0, _TROUBLES - len(seen.troubles))],
        "more_troubles": max(0, len(seen.troubles) - _TROUBLES),
    }


def _is_meant(job: JobLine, text: str, mood: str, link: str) -> bool:
    if text and not job.says(text.strip()):
        return False
    if link and link.upper() not in (job.source_link, job.target_link):
        return False
    return mood not in _MOODS or job.mood == mood


_WORDS: tuple[tuple[Mood, str, str], ...] = (
    ("fine", "fine", "fine"),
    ("paused", "paused", "paused"),
    ("trying", "trying again", "trying again"),
    ("need", "needs you", "need you"),
)


def _sentence(seen: Picture) -> str:
    """Is everything well? In one sentence."""
    count = seen.count
    if not count.jobs:
        return "No job is defined yet"
    noun = "job" if count.jobs == 1 else "jobs"
    if count.by_mood["fine"] == count.jobs:
        return "1 job, and it is fine" if count.jobs == 1 else f"{count.jobs} {noun}, and all are fine"
    parts = [
        f"{count.by_mood[mood]} {one if count.by_mood[mood] == 1 else many}"
        for mood, one, many in _WORDS
        if count.by_mood[mood]
    ]
    return f"{count.jobs} {noun}: {', '.join(parts)}"
