"""The web face as one application: probes, metrics, REST, the page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from mgw import __version__
from mgw.gateway.http import limits
from mgw.gateway.http.access import Access, identity
from mgw.gateway.http.budget import Budget
from mgw.gateway.http.guard import Guard
from mgw.gateway.http.openapi import written
from mgw.gateway.http.pages import PAGES, Pages
from mgw.gateway.http.problems import PROBLEM_JSON, Problem
from mgw.gateway.http.rest import router
from mgw.gateway.http.rest.answers import problem_of
from mgw.gateway.http.server import Request as PageRequest
from mgw.gateway.http.slashes import NamesWithSlashes
from mgw.gateway.http.web import DOCS_PAGE, install, refusal_page
from mgw.gateway.services.definition_changes import Changes
from mgw.gateway.services.drains import Drains
from mgw.gateway.services.feed import Feed
from mgw.gateway.services.hubs import Hub
from mgw.gateway.services.probing import Probing
from mgw.gateway.services.takings import Takings
from mgw.gateway.services.tasks import Tasks
from mgw.gateway.services.users import Users
from mgw.transforms.errors import GatewayError

__all__ = ["Reach", "application", "guarded"]

#: Probes of machines, which have no token: they say whether, not why.
_OPEN = frozenset(("/livez", "/readyz", "/version"))

_TOLD = 3  # of the things that are wrong with a request, in its text; all are in ``errors``


@dataclass(frozen=True, slots=True)
class Reach:
    """Who can reach the port.

    Attributes:
        local: this machine alone.
        secure: callers come over TLS.
        any_host: under whatever name.
        proxied: through a proxy, which says who they are.
    """

    local: bool = True
    secure: bool = False
    any_host: bool = False
    proxied: bool = False


def application(hub: Hub, probes: Probing, reach: Reach, budget: Budget | None = None) -> FastAPI:
    """The application that answers about a hub, and about the process of ``probes``.

    Args:
        budget: the processor time of requests in a process that has jobs.
    """
    app = FastAPI(
        title="Messaging gateway",
        version=__version__,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.hub, app.state.probes, app.state.budget = hub, probes, budget
    app.state.drains, app.state.changes = Drains(hub), Changes(hub)
    app.state.access = Access(Users(hub), reach.local)
    app.state.takings = Takings(hub)
    app.state.tasks = Tasks(hub.clock)
    app.state.feed = Feed(hub, probes, limits.STREAMS)
    app.add_middleware(NamesWithSlashes)
    app.add_exception_handler(Problem, _refused)  # type: ignore[arg-type]
    app.add_exception_handler(GatewayError, _failed)  # type: ignore[arg-type]
    app.add_exception_handler(RequestValidationError, _invalid)  # type: ignore[arg-type]
    app.add_exception_handler(HTTPException, _unknown)  # type: ignore[arg-type]
    pages = Pages(probes, budget)
    for path in PAGES:
        app.add_api_route(path, _page(path, pages), methods=["GET", "HEAD"], include_in_schema=False)
    app.include_router(router)
    install(app)
    app.get("/openapi.json", include_in_schema=False)(written(app))
    return app


def guarded(app: FastAPI, reach: Reach) -> Guard:
    """The application behind its limits."""
    return Guard(
        app,
        any_host=reach.any_host,
        secure=reach.secure,
        proxied=reach.proxied,
        at_end=app.state.feed.end,
        budget=app.state.budget,
    )


def _page(path: str, pages: Pages) -> Callable[[Request], Response]:
    """A page that the small server has, too."""

    def answer(request: Request) -> Response:
        if path not in _OPEN:
            problem = _unnamed(request)
            if problem is not None and path == "/healthz":
                return _short(pages, request)
            if problem is not None:
                raise problem
        found = pages(PageRequest(request.method, path, dict(request.query_params), request.headers.get("accept", "")))
        return Response(found.body, found.status, dict(found.headers), found.content_type)

    return answer


def _unnamed(request: Request) -> Problem | None:
    """Why the caller may not look; None: it may. Without users anybody may, whatever the address is."""
    access: Access = request.app.state.access
    try:
        request.app.state.probes.look()
        if access.users.exist():
            identity(request)
    except Problem as problem:
        return problem
    except GatewayError:  # the hub is away: that may be told to anybody
        return None
    return None


def _short(pages: Pages, request: Request) -> Response:
    """Whether all is well, for a probe that has no token."""
    found = pages(PageRequest(request.method, "/healthz", dict(request.query_params)))
    word = b'{"healthy": true}\n' if found.status == 200 else b'{"healthy": false}\n'
    return Response(word, found.status, media_type=found.content_type)


async def _refused(request: Request, problem: Problem) -> Response:
    seen = await run_in_threadpool(refusal_page, request, problem)  # it may ask the hub who is logged in
    if seen is not None:
        return seen
    return Response(problem.body(), problem.status, problem.headers, PROBLEM_JSON)


async def _failed(request: Request, error: GatewayError) -> Response:
    return await _refused(request, problem_of(error))


async def _invalid(request: Request, error: RequestValidationError) -> Response:
    places = [{"where": ".".join(map(str, each["loc"])), "what": each["msg"]} for each in error.errors()]
    unreadable = any(each["type"] == "json_invalid" for each in error.errors())
    status, detail = (400, "the body is no JSON") if unreadable else (422, "the request cannot be used")
    cause = "; ".join(f"{each['where']}: {each['what']}" for each in places[:_TOLD])
    cause += f"; and {len(places) - _TOLD} more" if len(places) > _TOLD else ""
    cure = f"{DOCS_PAGE} says what the route takes"
    return await _refused(request, Problem(status, detail, cure, cause=cause, more={"errors": places}))


async def _unknown(request: Request, error: HTTPException) -> Response:
    headers: dict[str, Any] = dict(error.headers or {})
    if error.status_code == 404:
        pages = ", ".join(PAGES)
        problem = Problem(404, "there is no such page", f"use one of {pages}, or /api/v1 as {DOCS_PAGE} says", headers)
    elif error.status_code == 405:
        problem = Problem(405, f"method {request.method[:20]!r} is not supported", headers=headers)
    else:
        problem = Problem(error.status_code, str(error.detail), headers=headers)
    return await _refused(request, problem)
