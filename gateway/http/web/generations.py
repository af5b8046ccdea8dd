"""Generations: what was changed when, what there was, and the way back."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response

from mgw.gateway.http.access import Administrator, Viewer
from mgw.gateway.http.rest.answers import HubOf
from mgw.gateway.http.web.forms import Form, done, said
from mgw.gateway.http.web.rendering import page
from mgw.gateway.services.generations import UNTOUCHED, generation, generations, text_of, way_back
from mgw.gateway.services.impact import impact

__all__ = ["router"]

router = APIRouter()

_PAGE = 50
_MOST = 2**62

Before = Annotated[int | None, Query(ge=1, le=_MOST)]
Number = Annotated[int, Path(ge=1, le=_MOST)]


@router.get("/generations")
def generations_page(request: Request, hub: HubOf, who: Viewer, before: Before = None) -> Response:
    """What was changed when, the latest first."""
    found = generations(hub, _PAGE, before=before)
    last = found[-1].number if len(found) == _PAGE else None
    values = {"found": found, "before": before, "last": last, "said": said(request.query_params.get("said", ""))}
    return page(request, "generations.html", who, values)


@router.get("/generations/{number}")
def generation_page(request: Request, number: Number, hub: HubOf, who: Viewer) -> Response:
    """What a generation changed, and what there was then."""
    values = {"one": generation(hub, number), "yaml": text_of(hub, number, abroad=True)}
    return page(request, "generation.html", who, values)


@router.get("/generations/{number}/rollback")
def rollback_page(request: Request, number: Number, hub: HubOf, who: Administrator) -> Response:
    """What going back will do, before it is done."""
    one, way = generation(hub, number), way_back(hub, number)
    values = {"one": one, "way": way, "jobs": impact(hub, way.actions), "untouched": UNTOUCHED}
    return page(request, "rollback.html", who, values)


@router.post("/generations/{number}/rollback")
def roll_back(number: Number, given: Form, hub: HubOf, _: Administrator) -> Response:
    """Do it, as it was shown."""
    version = given.get("version", "")
    seen = int(version) if version.isascii() and version.isdigit() else -1  # none: a plan was never looked at
    for _step in way_back(hub, number).go(hub, seen=seen):
        pass
    return done("/generations", "rolled-back")
