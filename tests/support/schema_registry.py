"""A schema registry on a free loopback port that answers as Confluent's does, for tests.

It holds what it is given, in memory: subjects with versions, schemas by id, references. A login can be asked for.
"""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

from tests.support.ports import LOOPBACK

__all__ = ["SchemaRegistry", "schema_registry"]

_ID = re.compile(r"/schemas/ids/(\d+)")
_VERSION = re.compile(r"/subjects/([^/]+)/versions/(\d+|latest)")


class SchemaRegistry:
    """What the server answers.

    Attributes:
        asked: paths of all questions so far.
        login: ``user:password`` that every question must have, or None.
        logins: that of each question, or None.
        broken: an answer of 503 to every question.
        hold: every answer waits for it, or None.
        odd: the answer to every question, or ``...``.
        moved: address to which every question is redirected, or None.
    """

    def __init__(self, port: int) -> None:
        self.url = f"http://{LOOPBACK}:{port}"
        self.asked: list[str] = []
        self.login: str | None = None
        self.logins: list[str | None] = []
        self.broken = False
        self.hold: threading.Event | None = None
        self.odd: Any = ...
        self.moved: str | None = None
        self._by_id: dict[int, dict[str, Any]] = {}
        self._subjects: dict[str, list[int]] = {}

    def register(
        self, subject: str, schema: str, *, kind: str = "AVRO", references: Mapping[str, tuple[str, int]] | None = None
    ) -> int:
        """A new version of a subject; returns the id of its schema."""
        number = len(self._by_id) + 1
        names = [{"name": name, "subject": at[0], "version": at[1]} for name, at in (references or {}).items()]
        answer: dict[str, Any] = {"schema": schema}
        if kind != "AVRO":  # left out for Avro, as the real one does
            answer["schemaType"] = kind
        if names:
            answer["references"] = names
        self._by_id[number] = answer
        self._subjects.setdefault(subject, []).append(number)
        return number

    def answer(self, path: str, authorization: str | None) -> tuple[int, Any]:
        """Status and body for a question."""
        self.asked.append(path)
        basic = (authorization or "").removeprefix("Basic ")
        self.logins.append(base64.b64decode(basic).decode() if basic else None)
        if self.hold is not None:
            self.hold.wait(60)
        if self.odd is not ...:
            return 200, self.odd
        if self.broken:
            return 503, {"error_code": 50301, "message": "away"}
        if self.login is not None and authorization != "Basic " + base64.b64encode(self.login.encode()).decode():
            return 401, {"error_code": 401, "message": "Unauthorized"}
        path = path.partition("?")[0]  # a schema is held in the form in which it will be asked for
        if found := _ID.fullmatch(path):
            known = self._by_id.get(int(found[1]))
            return (200, known) if known else (404, {"error_code": 40403, "message": "Schema not found"})
        if found := _VERSION.fullmatch(path):
            versions = self._subjects.get(unquote(found[1]), [])
            at = len(versions) if found[2] == "latest" else int(found[2])
            if 1 <= at <= len(versions):
                number = versions[at - 1]
                return 200, {"subject": unquote(found[1]), "version": at, "id": number, **self._by_id[number]}
        return 404, {"error_code": 40401, "message": "Subject not found."}


@contextmanager
def schema_registry() -> Iterator[SchemaRegistry]:
    """A registry that runs."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, answer = registry.answer(self.path, self.headers.get("Authorization"))
            body = b"" if answer is None else json.dumps(answer).encode()
            if registry.moved is not None:
                status = 302
            self.send_response(status)
            self.send_header("Location", f"{registry.moved}{self.path}")
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the name of the class above
            pass

    server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
    registry = SchemaRegistry(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, name="schema registry")
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
