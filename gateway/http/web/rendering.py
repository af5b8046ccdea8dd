"""Templates to answers, and the files that pages load."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import Depends, Request
from fastapi.responses import Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from mgw import __version__
from mgw.gateway.http.web.words import FILTERS, SHAPES, visible
from mgw.gateway.services.board import Board
from mgw.gateway.services.redaction import redact
from mgw.gateway.services.users import Identity, Role

__all__ = ["BoardOf", "Renderer", "name_in_path", "page", "wants_page"]

_HERE = Path(__file__).parent
_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
PART_HEADER = "X-Part"  # of a request for what is in <main> alone


def wants_page(request: Request) -> bool:
    """Whether somebody looks at the answer with a browser."""
    return "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/api/")


def name_in_path(name: str) -> str:
    """A name as a part of a path."""
    return quote(name, safe="")


def _shown(value: Any) -> Any:
    """What an expression of a template gives: text of anybody is made visible before it is escaped."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


class Renderer:
    """The templates, and the files next to them."""

    def __init__(self) -> None:
        self.files = {
            path.name: (path.read_bytes(), _TYPES[path.suffix]) for path in sorted((_HERE / "static").iterdir())
        }
        digest = hashlib.sha256(b"".join(content for content, _ in self.files.values())).hexdigest()[:12]
        self._environment = Environment(
            loader=FileSystemLoader(_HERE / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=_shown,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._environment.filters.update(FILTERS, path=name_in_path, safe_words=redact)
        self._environment.globals.update(digest=digest, shapes=SHAPES, version=__version__)
        self.digest = digest

    def __call__(self, template: str, values: Mapping[str, Any]) -> bytes:
        """The page; halves of surrogate pairs, which are no text, are written out."""
        return self._environment.get_template(template).render(values).encode("utf-8", "backslashreplace")


def page(
    request: Request, template: str, who: Identity | None, values: Mapping[str, Any], *, status: int = 200
) -> Response:
    """An answer with a page; what is in ``<main>`` alone where a script asks for it."""
    renderer: Renderer = request.app.state.renderer
    stream = any(getattr(route, "path", "") == _STREAM for route in request.app.routes)
    path = request.url.path
    base = {
        "who": who,
        "may_change": who is not None and who.role.includes(Role.OPERATOR),
        "layout": "part.html" if request.headers.get(PART_HEADER) == "main" else "layout.html",
        "here": path,
        "section": path.split("/")[1],
        "hub_name": request.app.state.hub.name,
        "stream": _STREAM if stream else "",
        "said": "",
    }
    return Response(renderer(template, base | dict(values)), status, media_type="text/html; charset=utf-8")


_STREAM = "/api/v1/events/stream"


def _board(request: Request) -> Board:
    found: Board = request.app.state.board
    return found


BoardOf = Annotated[Board, Depends(_board)]
