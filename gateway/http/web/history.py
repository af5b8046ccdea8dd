"""What happened: events, and what administration changed."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from mgw.gateway.http.access import Viewer
from mgw.gateway.http.rest.answers import HubOf
from mgw.gateway.http.web.rendering import page
from mgw.gateway.services.happenings import audit
from mgw.gateway.services.records import some_events

__all__ = ["router"]

router = APIRouter()

_PAGE = 100

Before = Annotated[int | None, Query(ge=1, le=2**62)]


@router.get("/events")
def events_page(  # noqa: PLR0917
    request: Request,
    hub: HubOf,
    who: Viewer,
    q: Annotated[str, Query(max_length=200)] = "",
    level: Annotated[str, Query(max_length=20)] = "",
    before: Before = None,
) -> Response:
    """Events, newest first."""
    found = some_events(hub, before=before, limit=_PAGE, level=level, text=q.strip())
    last = found[-1].event_id if len(found) == _PAGE else None
    return page(request, "events.html", who, {"found": found, "q": q, "level": level, "before": before, "last": last})


@router.get("/audit")
def audit_page(request: Request, hub: HubOf, who: Viewer, before: Before = None) -> Response:
    """What was changed, by whom."""
    found = audit(hub, _PAGE, before=before)
    last = found[-1].id if len(found) == _PAGE else None
    return page(request, "audit.html", who, {"found": found, "before": before, "last": last})
