"""Log-in, refusals, and the files that pages load."""

from __future__ import annotations

from http import HTTPStatus
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from mgw.gateway.http.access import Access, identity
from mgw.gateway.http.problems import Problem
from mgw.gateway.http.web.rendering import Renderer, page
from mgw.gateway.services.redaction import redact
from mgw.gateway.services.users import Identity
from mgw.transforms.errors import GatewayError

__all__ = ["refusal", "router"]

router = APIRouter()


def _own(path: str) -> str:
    """A path of this page; a link that leads elsewhere becomes ``/``."""
    plain = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if plain and "\\" not in path else "/"


@router.get("/log-in")
def log_in_page(request: Request, next: str = "/") -> Response:  # noqa: A002  the word in the address
    """Where people say who they are."""
    request.app.state.probes.look()
    access: Access = request.app.state.access
    if not access.users.exist() or _known(request) is not None:
        return RedirectResponse(_own(next), 303)
    return page(request, "log-in.html", None, {"next": _own(next)})


@router.get("/static/{name}")
def static_file(name: str, request: Request, v: str = "") -> Response:
    """A file that pages load."""
    renderer: Renderer = request.app.state.renderer
    if name not in renderer.files:
        raise Problem(404, "there is no such file")
    content, kind = renderer.files[name]
    kept = "public, max-age=31536000, immutable" if v == renderer.digest else "no-cache"
    return Response(content, media_type=f"{kind}; charset=utf-8", headers={"Cache-Control": kept})


def refusal(request: Request, problem: Problem) -> Response:
    """A problem detail as a page; whoever is not logged in is sent to do so."""
    if problem.status == 401 and request.method in ("GET", "HEAD"):
        wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(f"/log-in?next={quote(wanted, safe='')}", 303)
    who = None if problem.status >= 500 else _known(request)
    told = {name: redact(text) for name, text in (("detail", problem.detail), ("cause", problem.cause))}
    values = told | {
        "status": problem.status,
        "title": HTTPStatus(problem.status).phrase,
        "cure": redact(problem.cure),
        "number": problem.number,
        "described": problem.type if problem.number is not None and problem.type.startswith("/") else "",
    }
    answer = page(request, "problem.html", who, values, status=problem.status)
    answer.headers.update(problem.headers)
    return answer


def _known(request: Request) -> Identity | None:
    try:
        return identity(request)
    except (Problem, GatewayError):
        return None
