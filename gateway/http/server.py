"""A small HTTP server for the probes of an installation without the extra ``http``: GET and HEAD, one request per
connection, every limit enforced.
"""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from mgw.gateway.http.hosts import is_this_machine
from mgw.gateway.http.limits import HEADER_BYTES, REQUEST_SECONDS, REQUESTS
from mgw.gateway.http.problems import PROBLEM_JSON, Problem

__all__ = ["Request", "Response", "Server"]

_LOGGER = logging.getLogger("mgw.http")

_LINGER_SECONDS = 1.0  # for the caller to close its end
_PAUSE = 0.1  # seconds after a connection that could not be taken: there is no file for it


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked for."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    accept: str = ""


@dataclass(frozen=True, slots=True)
class Response:
    """What is answered."""

    status: int
    body: bytes
    content_type: str
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def json(cls, status: int, value: Any, content_type: str = "application/json") -> Response:
        """A JSON document."""
        text = json.dumps(value, ensure_ascii=False, indent=2, default=str)
        return cls(status, f"{text}\n".encode(), content_type)

    @classmethod
    def of(cls, problem: Problem) -> Response:
        """A refusal."""
        return cls(problem.status, problem.body(), PROBLEM_JSON, problem.headers)

    @classmethod
    def text(cls, status: int, text: str) -> Response:
        """A line of text."""
        return cls(status, f"{text}\n".encode(), "text/plain; charset=utf-8")


class Server:
    """Answers on a listening socket, a thread per request, until it is closed.

    Args:
        answer: what a request is answered with; may raise :class:`Problem`.
        any_host: take requests for any host name. Otherwise only for addresses and ``localhost``, so that no web page
            can read answers through a name that it lets point to this machine.
    """

    def __init__(
        self, listener: socket.socket, answer: Callable[[Request], Response], *, any_host: bool = False
    ) -> None:
        self._listener = listener
        self._answer = answer
        self._any_host = any_host
        self._free = threading.BoundedSemaphore(REQUESTS)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._accept, name="http", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Take no more requests."""
        self._closing.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits in accept
        self._thread.join(REQUEST_SECONDS)
        self._listener.close()

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                self._closing.wait(_PAUSE)
                continue
            connection.settimeout(REQUEST_SECONDS)
            if self._free.acquire(blocking=False):
                threading.Thread(target=self._serve, args=(connection,), name="http-request", daemon=True).start()
            else:
                _refuse(connection)

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection:
                self._converse(connection)
        except OSError as error:  # the caller has gone, or does not read
            _LOGGER.debug("answer not delivered: %s", error)
        finally:
            self._free.release()

    def _converse(self, connection: socket.socket) -> None:
        method = "GET"
        try:
            request = self._understood(_head(connection))
            method = request.method
            response = self._answer(request)
        except Problem as problem:
            response = Response.of(problem)
        except OSError:
            raise
        except Exception:
            _LOGGER.exception("request could not be answered")
            response = Response.of(Problem(500, "this is a bug in mgw", "see the log of the agent"))
        connection.settimeout(REQUEST_SECONDS)
        connection.sendall(_wire(response, body=method != "HEAD"))
        _linger(connection)

    def _understood(self, head: bytes) -> Request:
        lines = head.decode("latin-1").split("\r\n")
        words = lines[0].split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            raise Problem(400, "this is not an HTTP/1.1 request")
        method, target, _ = words
        if method not in ("GET", "HEAD"):
            raise Problem(405, f"method {method[:20]!r} is not supported", headers={"Allow": "GET, HEAD"})
        hosts = [line.partition(":")[2].strip() for line in lines[1:] if line.lower().startswith("host:")]
        if len(hosts) > 1 or (hosts and not self._any_host and not is_this_machine(hosts[0])):
            raise Problem(
                421, "the host of the request is not this machine", "use 127.0.0.1, or set behind_proxy: true"
            )
        try:
            parts = urlsplit(target)
            query = dict(parse_qsl(parts.query, keep_blank_values=True, max_num_fields=20))
        except ValueError:
            raise Problem(400, "the address of the request cannot be read") from None
        accepts = [line.partition(":")[2].strip() for line in lines[1:] if line.lower().startswith("accept:")]
        return Request(method, unquote(parts.path), query, ", ".join(accepts))


def _head(connection: socket.socket) -> bytes:
    """The request line and the headers.

    Raises:
        Problem: they are too long, or do not arrive in time.
    """
    deadline, received = time.monotonic() + REQUEST_SECONDS, b""
    while (end := received.find(b"\r\n\r\n")) < 0:
        left = deadline - time.monotonic()
        if len(received) > HEADER_BYTES:
            break
        try:
            if left <= 0:
                raise TimeoutError
            connection.settimeout(left)
            piece = connection.recv(4096)
        except TimeoutError:
            raise Problem(408, f"the request did not arrive within {REQUEST_SECONDS:g} s") from None
        if not piece:
            raise ConnectionResetError("the caller has gone")
        received += piece
    if not 0 <= end <= HEADER_BYTES:
        raise Problem(431, f"the headers are longer than {HEADER_BYTES} bytes")
    return received[:end]


def _wire(response: Response, *, body: bool = True) -> bytes:
    headers = {
        "Content-Type": response.content_type,
        "Content-Length": str(len(response.body)),
        "Cache-Control": "no-store",
        "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
        "X-Content-Type-Options": "nosniff",
        "Connection": "close",
        **response.headers,
    }
    lines = [f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (response.body if body else b"")


def _linger(connection: socket.socket) -> None:
    """Let the caller read the answer: closing while something of it is unread would take the answer away."""
    connection.shutdown(socket.SHUT_WR)
    deadline = time.monotonic() + _LINGER_SECONDS
    while (left := deadline - time.monotonic()) > 0:
        connection.settimeout(left)
        try:
            if not connection.recv(4096):
                return
        except TimeoutError:
            return


def _refuse(connection: socket.socket) -> None:
    problem = Problem(503, f"{REQUESTS} requests are in work", headers={"Retry-After": "1"})
    try:
        with connection:
            connection.setblocking(False)  # a new connection takes as little as this at once
            connection.send(_wire(Response.of(problem)))
            connection.shutdown(socket.SHUT_WR)
    except OSError as error:
        _LOGGER.debug("answer not delivered: %s", error)
