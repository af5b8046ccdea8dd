"""The REST interface and the numbers of errors, for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import Response
from markupsafe import Markup

from mgw.gateway.http.access import Viewer
from mgw.gateway.http.openapi import described
from mgw.gateway.http.outline import outline_of
from mgw.gateway.http.problems import ERRORS_PAGE
from mgw.gateway.http.web.rendering import Renderer, page
from mgw.gateway.services.error_numbers import chapters as error_chapters

__all__ = ["DOCS_PAGE", "prepare", "router"]

DOCS_PAGE = "/docs"

router = APIRouter()


def prepare(app: FastAPI) -> None:
    """Have what these pages say, which stays the same, written with the first request."""
    renderer: Renderer = app.state.renderer

    def text(template: str, values: Callable[[], Mapping[str, Any]]) -> Callable[[], Markup]:
        return cache(lambda: Markup(renderer(template, values()).decode()))  # noqa: S704  a template escaped it

    app.state.interface = text("docs-routes.html", lambda: {"outline": outline_of(described(app))})
    app.state.errors = text("docs-numbers.html", lambda: {"chapters": error_chapters()})


@router.get(DOCS_PAGE)
def docs_page(request: Request, who: Viewer) -> Response:
    """Every route of the REST interface."""
    values = {"heading": "REST interface", "text": request.app.state.interface()}
    return page(request, "docs.html", who, values)


@router.get(ERRORS_PAGE)
def errors_page(request: Request, who: Viewer) -> Response:
    """Every number of an error."""
    values = {"heading": "Numbers of errors", "text": request.app.state.errors()}
    return page(request, "docs.html", who, values)
