"""Templates to answers, and the files that pages load."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, urlencode

from fastapi import Depends, Request
from fastapi.responses import Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from mgw import __version__
from mgw.gateway.http.web.words import FILTERS, SHAPES, visible
from mgw.gateway.services.board import Board
from mgw.gateway.services.redaction import redact
from mgw.gateway.services.users import Identity, Role

__all__ = ["BoardOf", "Renderer", "Shared", "SharedOf", "address", "is_part", "name_in_path", "page", "wants_page"]

_HERE = Path(__file__).parent
_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
PART_HEADER = "X-Part"  # of a request for what is in <main> alone


def wants_page(request: Request) -> bool:
    """Whether somebody looks at the answer with a browser."""
    return "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/api/")


def name_in_path(name: str) -> str:
    """A name as a part of a path."""
    return quote(name, safe="")


def address(path: str, **values: str | None) -> str:
    """A path with a query of what is given; what is empty is left out."""
    given = {name: value for name, value in values.items() if value}
    return f"{path}?{urlencode(given)}" if given else path


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
        self._environment.globals.update(address=address, digest=digest, shapes=SHAPES, version=__version__)
        self.digest = digest

    def __call__(self, template: str, values: Mapping[str, Any]) -> bytes:
        """The page; halves of surrogate pairs, which are no text, are written out."""
        return self._environment.get_template(template).render(values).encode("utf-8", "backslashreplace")


class Shared:
    """Pages that are the same for everybody who looks within the same second: made once, not for each of ten viewers.

    Any thread may ask.
    """

    _MOST = 50  # pages of one moment

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._moment: object = None
        self._made: dict[Hashable, Response] = {}

    def __call__(self, moment: object, key: Hashable, make: Callable[[], Response]) -> Response:
        """The page ``key`` of a moment: the one that was made, else what ``make`` gives."""
        with self._mutex:
            if self._moment is not moment:
                self._moment, self._made = moment, {}
            found = self._made.get(key)
        if found is not None:
            return Response(found.body, found.status_code, media_type=found.media_type)
        made = make()
        with self._mutex:
            if self._moment is moment and len(self._made) < self._MOST:
                self._made[key] = made
        return made


def is_part(request: Request) -> bool:
    """Whether what is in ``<main>`` alone is asked for, as a script does that keeps a page fresh."""
    return request.headers.get(PART_HEADER) == "main"


def page(
    request: Request, template: str, who: Identity | None, values: Mapping[str, Any], *, status: int = 200
) -> Response:
    """An answer with a page; what is in ``<main>`` alone where a script asks for it."""
    renderer: Renderer = request.app.state.renderer
    path = request.url.path
    base = {
        "who": who,
        "may_change": who is not None and who.role.includes(Role.OPERATOR),
        "may_define": who is not None and who.role.includes(Role.ADMINISTRATOR),
        "layout": "part.html" if is_part(request) else "layout.html",
        "here": path,
        "section": path.split("/")[1],
        "hub_name": request.app.state.hub.name,
        "stream": _STREAM,
        "said": "",
    }
    return Response(renderer(template, base | dict(values)), status, media_type="text/html; charset=utf-8")


_STREAM = "/api/v1/events/stream"


def _board(request: Request) -> Board:
    found: Board = request.app.state.board
    return found


BoardOf = Annotated[Board, Depends(_board)]


def _shared(request: Request) -> Shared:
    found: Shared = request.app.state.shared
    return found


SharedOf = Annotated[Shared, Depends(_shared)]
