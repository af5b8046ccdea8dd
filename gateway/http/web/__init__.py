"""The page for people: rendered here, with scripts that keep it fresh. What it shows comes from the services."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import Response

from mgw.gateway.http.access import roles_of
from mgw.gateway.http.problems import Problem
from mgw.gateway.http.web import (
    entrance,
    exceptions,
    generations,
    history,
    interface,
    jobs,
    links,
    map_page,
    queues,
    setup,
)
from mgw.gateway.http.web.interface import DOCS_PAGE
from mgw.gateway.http.web.rendering import Renderer, Shared, wants_page
from mgw.gateway.services.board import Board
from mgw.gateway.services.typed_secrets import TypedSecrets
from mgw.gateway.services.users import Role

__all__ = ["DOCS_PAGE", "install", "refusal_page", "routes"]

_PARTS = (entrance, map_page, jobs, queues, exceptions, links, history, generations, setup, interface)


def install(app: FastAPI) -> None:
    """Add the pages to the application."""
    app.state.board = Board(app.state.hub, app.state.probes)
    app.state.renderer = Renderer()
    app.state.shared = Shared()
    app.state.typed = TypedSecrets()
    interface.prepare(app)
    router = APIRouter(include_in_schema=False)
    for part in _PARTS:
        router.include_router(part.router)
    app.include_router(router)


def routes() -> Iterator[tuple[str, str, Role | None]]:
    """Method and path of every page, and the role that it asks for; None: whoever comes."""
    return roles_of(part.router for part in _PARTS)


def refusal_page(request: Request, problem: Problem) -> Response | None:
    """A refusal for somebody who looks at it with a browser; None: a program asks."""
    return entrance.refusal(request, problem) if wants_page(request) else None
