"""The pages: ``/livez``, ``/readyz``, ``/healthz``, ``/metrics`` and ``/version``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from mgw.gateway.http.metrics import HeldBack, exposition
from mgw.gateway.http.problems import Problem
from mgw.gateway.http.server import Request, Response
from mgw.gateway.services.probing import Probing
from mgw.gateway.services.redaction import redact
from mgw.gateway.services.verdict import MAX_AGE
from mgw.transforms.errors import GatewayError

__all__ = ["PAGES", "Pages"]

#: What each page says, for the documentation.
PAGES: Mapping[str, str] = {
    "/livez": "200 while the main loop of the process runs; otherwise 503: restart the process.",
    "/readyz": "200 when the hub can be read, the lease is held and the definitions are loaded; otherwise 503.",
    "/healthz": "200 when nothing is wrong; otherwise 503. Takes `?max_age=SECONDS` (60), `?agent=NAME` or `?agent=*`.",
    "/metrics": "Metrics in the text format of Prometheus; always 200.",
    "/version": "Release and agent; always 200.",
}


class Pages:
    """Answers requests about one process.

    Args:
        held: requests that were held back; None: none ever is.
    """

    def __init__(self, probes: Probing, held: HeldBack | None = None) -> None:
        self._probes, self._held = probes, held
        self._pages: dict[str, Callable[[Request], Response]] = {
            "/livez": self._live,
            "/readyz": self._ready,
            "/healthz": self._healthy,
            "/metrics": self._metrics,
            "/version": self._version,
        }

    def __call__(self, request: Request) -> Response:
        """The answer.

        Raises:
            Problem: there is no such page, or a parameter is wrong.
        """
        page = self._pages.get(request.path)
        if page is None:
            raise Problem(404, "there is no such page", f"use one of {', '.join(PAGES)}")
        return page(request)

    def _live(self, _: Request) -> Response:
        live, text = self._probes.life()
        return Response.text(200 if live else 503, text)

    def _ready(self, _: Request) -> Response:
        found = self._probes.readiness()
        value = {"ready": found.ready, "agent": self._probes.agent, "reasons": found.reasons}
        return _json(200 if found.ready else 503, value)

    def _healthy(self, request: Request) -> Response:
        max_age = _seconds(request.query.get("max_age"))
        try:
            health = self._probes.health(agent=request.query.get("agent"), max_age=max_age)
        except GatewayError as error:
            raise Problem(404, error.what, error.cure) from None
        return _json(200 if health.healthy else 503, health.as_json())

    def _metrics(self, request: Request) -> Response:
        text, content_type = exposition(self._probes, request.accept, self._held)
        return Response(200, text.encode(), content_type)

    def _version(self, _: Request) -> Response:
        inside = self._probes.inside()
        return Response.json(200, {"version": inside.version, "agent": inside.agent})


def _json(status: int, value: object) -> Response:
    """Errors may quote what was configured; no answer tells a secret."""
    plain = Response.json(status, value)
    return Response(status, redact(plain.body.decode()).encode(), plain.content_type)


def _seconds(text: str | None) -> float:
    if text is None:
        return MAX_AGE
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < math.inf:
        raise Problem(400, "max_age is a number of seconds", "write max_age=60")
    return seconds
