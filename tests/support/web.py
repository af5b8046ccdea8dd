"""The web face in the process of a test, and a browser-less caller of it."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from mgw.gateway.http.application import Reach, application, guarded
from mgw.gateway.http.budget import Budget
from mgw.gateway.http.web_server import Certificate, WebServer
from mgw.gateway.services.hubs import Hub
from mgw.gateway.services.probes import HubProbes
from mgw.gateway.services.probing import Probing
from tests.support.ports import LOOPBACK

__all__ = ["Answer", "Caller", "serving"]


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


@dataclass
class Caller:
    """Sends requests to one address, with the same headers each; every request has a connection of its own."""

    port: int
    headers: dict[str, str] = field(default_factory=dict)
    tls: ssl.SSLContext | None = None

    def __call__(
        self, method: str, path: str, value: Any = None, *, body: bytes | None = None, **headers: str
    ) -> Answer:
        """Send a request; ``value`` as JSON, or ``body`` as it is. ``if_match="x"`` is the header If-Match."""
        given = self.headers | {name.replace("_", "-"): text for name, text in headers.items()}
        if value is not None:
            body = json.dumps(value).encode()
            given.setdefault("Content-Type", "application/json")
        connection = self._connection()
        try:
            connection.request(method, path, body, given)
            found = connection.getresponse()
            return Answer(found.status, {name.lower(): text for name, text in found.getheaders()}, found.read())
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        if self.tls is not None:
            return http.client.HTTPSConnection(LOOPBACK, self.port, timeout=60, context=self.tls)
        return http.client.HTTPConnection(LOOPBACK, self.port, timeout=60)

    def ok(self, method: str, path: str, value: Any = None, **headers: str) -> Any:
        """The JSON of an answer that is no refusal; None where it is empty."""
        found = self(method, path, value, body=None, **headers)
        assert 200 <= found.status < 300, (found.status, found.body)
        return found.json if found.body else None

    def refused(self, status: int, method: str, path: str, value: Any = None, **headers: str) -> dict[str, Any]:
        """The problem detail of an answer that is a refusal."""
        found = self(method, path, value, body=None, **headers)
        assert found.status == status, (found.status, found.body)
        assert found.headers["content-type"] == "application/problem+json"
        told: dict[str, Any] = found.json
        assert told["status"] == status
        assert told["detail"]
        return told


@contextmanager
def serving(
    hub: Hub,
    *,
    probes: Probing | None = None,
    reach: Reach | None = None,
    certificate: Certificate | None = None,
    budget: Budget | None = None,
) -> Iterator[Caller]:
    """The web face of a hub on a free port of this machine, until the end of the block."""
    who = reach or Reach()
    listener = socket.create_server((LOOPBACK, 0), backlog=512)
    app = guarded(application(hub, probes or HubProbes(hub), who, budget), who)
    server = WebServer(listener, app, certificate)
    try:
        yield Caller(listener.getsockname()[1])
    finally:
        server.close()
