"""What every request passes before anything looks at it, and every answer on its way out."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import ClientDisconnect

from mgw.gateway.http import limits
from mgw.gateway.http.budget import Budget
from mgw.gateway.http.hosts import is_this_machine
from mgw.gateway.http.pages import PAGES
from mgw.gateway.http.problems import PROBLEM_JSON, Problem
from mgw.gateway.http.shared_answers import ASKED, SharedAnswers

__all__ = ["Guard", "Rates"]

_LOGGER = logging.getLogger("mgw.http")

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

_SAFE = frozenset(("GET", "HEAD", "OPTIONS"))
_CALLERS = 10_000  # whose rates are remembered

#: Headers of every answer that does not say otherwise. The page loads nothing from elsewhere and runs no script that
#: is not a file of ours.
HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class Rates:
    """How often each caller may come: a bucket that fills at ``rate`` a second up to ``burst``."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, caller: str) -> float:
        """Take one; 0, or the seconds until there is one again."""
        now = self._clock()
        left, when = self._left.pop(caller, (self._burst, now))
        left = min(self._burst, left + (now - when) * self._rate)
        short = left < 1
        self._left[caller] = (left if short else left - 1, now)
        if len(self._left) > _CALLERS:
            self._left.popitem(last=False)
        return (1 - left) / self._rate if short else 0.0


class Guard:
    """The outermost layer of the application.

    Args:
        any_host: take requests for any host name, because a proxy, or a certificate, says which one is meant.
        secure: callers come over TLS.
        proxied: a proxy says in ``X-Forwarded-For``, ``-Host`` and ``-Proto`` who calls, and what was asked.
        at_end: lets go those who would be answered without end.
        budget: the processor time of requests; None: they may take all. Health and metrics never wait for it, but what
            is refused does: who asks again at once must not take more than who waits.

    Attributes:
        shared: answers that a crowd shares; None: every request is answered by itself.
    """

    def __init__(
        self,
        app: App,
        *,
        any_host: bool = False,
        secure: bool = False,
        proxied: bool = False,
        at_end: Callable[[], None] = lambda: None,
        budget: Budget | None = None,
    ) -> None:
        self._app = app
        self.end = at_end
        self._any_host = any_host
        self._proxied = proxied
        self._rates = Rates(limits.RATE, limits.RATE_BURST)
        self._working = 0
        self._budget = budget
        self.shared = None if budget is None else SharedAnswers(budget, self._rates.wait)
        self._headers = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
        if secure:
            self._headers.append((b"strict-transport-security", b"max-age=31536000"))

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return
        answer = _Answer(send, self._headers)
        if self._proxied:
            for caller in _of_proxy(scope, b"x-forwarded-for"):
                scope["client"] = (caller, 0)
            for scheme in _of_proxy(scope, b"x-forwarded-proto"):
                scope["scheme"] = "https" if scheme.lower() == "https" else "http"
        try:
            await self._admit(scope)
        except Problem as problem:
            await answer.refuse(problem)
            return
        if ASKED in scope:
            answer.recorded = []
        self._working += 1
        try:
            await self._app(scope, _Body(receive, _length(scope), answer), answer)
            self._share(scope, answer)
        except Problem as problem:
            await self._late(problem, answer)
        except ClientDisconnect:  # in the middle of its request; nobody is there to be answered
            return
        except Exception:
            _LOGGER.exception("request could not be answered")
            await self._late(Problem(500, "this is a bug in mgw", "see the log of the agent"), answer)
        finally:
            self._working -= 1

    async def _admit(self, scope: MutableMapping[str, Any]) -> None:
        """Let a request in, as soon as there is processor time for it.

        Raises:
            Problem: it is refused.
        """
        if self._budget is None:
            self._check(scope)
            return
        waits = scope["path"] not in PAGES
        if waits:
            await self._budget.turn(_caller(scope))
        try:
            self._check(scope)
        except Problem:
            if not waits:
                await self._budget.turn(_caller(scope))
            raise

    def _share(self, scope: MutableMapping[str, Any], answer: _Answer) -> None:
        """Keep an answer for those who ask the same."""
        if self.shared is None or not answer.recorded or answer.recorded[0].get("status") != 200:
            return
        begin, *pieces = answer.recorded
        if not pieces or pieces[-1].get("more_body", False):
            return
        body = b"".join(piece.get("body", b"") for piece in pieces)
        self.shared.keep(scope[ASKED], begin["headers"], body, _caller(scope) if self._proxied else None)

    @staticmethod
    async def _late(problem: Problem, answer: _Answer) -> None:
        if answer.begun:
            raise problem
        answer.instead = None
        await answer.refuse(problem)

    def _check(self, scope: MutableMapping[str, Any]) -> None:
        """Refuse what needs no look at the request.

        Raises:
            Problem: it is refused.
        """
        caller = _caller(scope)
        if self._working >= limits.REQUESTS:
            raise Problem(503, f"{limits.REQUESTS} requests are in work", headers={"Retry-After": "1"})
        if wait := self._rates.wait(caller):
            raise Problem(
                429,
                f"more than {limits.RATE:g} requests a second came from {caller}",
                headers={"Retry-After": str(max(1, round(wait)))},
            )
        hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        if len(hosts) > 1 or (hosts and not self._any_host and not is_this_machine(hosts[0])):
            raise Problem(
                421, "the host of the request is not this machine", "use 127.0.0.1, or set behind_proxy: true"
            )
        if sum(len(name) + len(value) for name, value in scope["headers"]) > limits.HEADER_BYTES:
            raise Problem(431, f"the headers are longer than {limits.HEADER_BYTES} bytes")
        if not scope["path"].startswith("/"):
            raise Problem(400, "the request names no path", "ask for /, or for a path that begins with it")
        if scope["query_string"].count(b"&") >= 20:
            raise Problem(400, "the request has more than 20 parameters")
        if scope["method"] not in _SAFE:
            _refuse_other_pages(scope, [*hosts, *(_of_proxy(scope, b"x-forwarded-host") if self._proxied else ())])
        if (_length(scope) or 0) > limits.BODY_BYTES:
            raise _too_large()


def _caller(scope: MutableMapping[str, Any]) -> str:
    return str((scope.get("client") or ("?", 0))[0])


def _refuse_other_pages(scope: MutableMapping[str, Any], hosts: list[str]) -> None:
    """A browser says which page a change comes from; only ours may ask for one. Newer ones say it in a word, which
    holds whatever host a proxy puts into the request.

    Raises:
        Problem: it comes from somewhere else.
    """
    headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
    site, origin = headers.get(b"sec-fetch-site"), headers.get(b"origin")
    if site is not None:
        foreign = site not in ("same-origin", "none")
    else:
        foreign = origin is not None and urlsplit(origin).netloc.lower() not in {host.lower() for host in hosts}
    if foreign:
        raise Problem(403, "a page of another origin asks for a change", "use a page of this address, or a token")


def _of_proxy(scope: MutableMapping[str, Any], header: bytes) -> list[str]:
    """What the proxy itself has added to a header: the last entry; nothing where it has not."""
    found = [value.decode("latin-1") for name, value in scope["headers"] if name == header]
    entry = found[-1].rpartition(",")[2].strip()[:200] if found else ""
    return [entry] if entry else []


def _length(scope: MutableMapping[str, Any]) -> int | None:
    found = [value for name, value in scope["headers"] if name == b"content-length"]
    return int(found[0]) if found and found[0].isdigit() else None


def _too_large() -> Problem:
    return Problem(413, f"the body is larger than {limits.BODY_BYTES >> 20} MiB", "send less at once")


class _Body:
    """The body of a request, of a size that is bounded, within a time that is bounded."""

    def __init__(self, receive: Receive, length: int | None, answer: _Answer) -> None:
        self._receive = receive
        self._answer = answer
        self._left = limits.BODY_BYTES
        self._whole = length == 0
        self._end = time.monotonic() + limits.REQUEST_SECONDS

    async def __call__(self) -> Message:
        """The next piece.

        Raises:
            Problem: there is too much, or it comes too slowly. Whatever the application makes of that, the caller hears
                just this.
        """
        try:
            return await self._next()
        except Problem as problem:
            self._answer.instead = problem
            raise

    async def _next(self) -> Message:
        if self._whole:  # what follows is the end of the connection, for which streams wait
            return await self._receive()
        try:
            async with asyncio.timeout(max(0.0, self._end - time.monotonic())):
                message = await self._receive()
        except TimeoutError:
            raise Problem(408, f"the request did not arrive within {limits.REQUEST_SECONDS:g} s") from None
        if message["type"] == "http.request":
            self._left -= len(message.get("body", b""))
            self._whole = not message.get("more_body", False)
            if self._left < 0:
                raise _too_large()
        else:
            self._whole = True
        return message


class _Answer:
    """Sends an answer with the headers that all have."""

    def __init__(self, send: Send, headers: list[tuple[bytes, bytes]]) -> None:
        self._send = send
        self._headers = headers
        self.begun = False
        self.instead: Problem | None = None  # of what the application answers
        self.recorded: list[Message] | None = None  # what was sent, if that is to be kept

    async def __call__(self, message: Message) -> None:
        """Send a piece of an answer."""
        if self.instead is not None:
            if not self.begun:
                problem, self.instead = self.instead, None
                await self.refuse(problem)
                self.instead = problem
            return
        if message["type"] == "http.response.start":
            self.begun = True
            given = {name.lower() for name, _ in message.get("headers", ())}
            more = [pair for pair in self._headers if pair[0] not in given]
            message = {**message, "headers": [*message.get("headers", ()), *more]}
        if self.recorded is not None:
            self.recorded.append(message)
        await self._send(message)

    async def refuse(self, problem: Problem) -> None:
        """Send a refusal; the connection ends where the request was not read."""
        body = problem.body()
        headers = [(b"content-type", PROBLEM_JSON.encode()), (b"content-length", str(len(body)).encode())]
        headers += [(name.lower().encode(), value.encode("latin-1")) for name, value in problem.headers.items()]
        headers.append((b"connection", b"close"))
        await self({"type": "http.response.start", "status": problem.status, "headers": headers})
        await self({"type": "http.response.body", "body": body})
