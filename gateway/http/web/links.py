"""Links: can the messaging system be reached?"""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from mgw.gateway.http.access import Operator, Viewer
from mgw.gateway.http.problems import Problem
from mgw.gateway.http.rest.answers import AdminOf
from mgw.gateway.http.web.forms import done, said
from mgw.gateway.http.web.rendering import BoardOf, name_in_path, page
from mgw.gateway.services import job_verbs, lookup
from mgw.gateway.services.connection_test import test_link
from mgw.gateway.services.job_story import link_story

__all__ = ["router"]

router = APIRouter()


@router.get("/links")
def links_page(request: Request, who: Viewer, board: BoardOf, _: AdminOf) -> Response:
    """All links."""
    seen = board.latest()
    return page(request, "links.html", who, {"links": seen.links, "now": seen.now})


@router.get("/links/{name}")
def link_page(request: Request, name: str, who: Viewer, board: BoardOf, admin: AdminOf) -> Response:
    """A link."""
    link, seen = lookup.link_name(admin, name), board.latest()
    line = seen.link(link)
    if line is None:
        raise Problem(503, f"link {link} was made a moment ago", "load the page again", {"Retry-After": "1"})
    settings, events = link_story(admin, link)
    jobs = [job for job in seen.jobs if link.upper() in (job.source_link, job.target_link)]
    values = {"line": line, "link": link, "settings": settings, "events": events, "jobs": jobs, "now": seen.now}
    return page(
        request, "link.html", who, values | {"said": said(request.query_params.get("said", "")), "checks": None}
    )


@router.post("/links/{name}/test")
def check_link(request: Request, name: str, who: Operator, admin: AdminOf) -> Response:
    """Connect from this process, and try what jobs need."""
    link = lookup.link_name(admin, name)
    return page(request, "link-test.html", who, {"link": link, "checks": test_link(admin, link)})


@router.post("/links/{name}/reconnect")
def reconnect(name: str, _: Operator, admin: AdminOf) -> Response:
    """Have every job of the link drain and connect again."""
    link, _jobs = job_verbs.reconnect(admin, name)
    return done(f"/links/{name_in_path(link)}", "reconnected")
