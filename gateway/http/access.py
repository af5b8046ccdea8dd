"""Who asks, and what may be done: sessions of browsers, tokens of programs, or a port that is open to this machine."""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.routing import APIRoute

from mgw.gateway.http import limits
from mgw.gateway.http.problems import Problem
from mgw.gateway.services.authors import acts
from mgw.gateway.services.users import Identity, Role, Users

__all__ = [
    "CSRF_HEADER",
    "SESSION_COOKIE",
    "Access",
    "Administrator",
    "Operator",
    "Viewer",
    "identity",
    "require",
    "roles_of",
]

SESSION_COOKIE = "mgw_session"
CSRF_HEADER = "X-CSRF-Token"
_SAFE = frozenset(("GET", "HEAD", "OPTIONS"))
_NAMES = 10_000  # whose failed log-ins are remembered

#: What everybody may who need not log in.
_ANYBODY = Identity("anonymous", Role.ADMINISTRATOR, "open")


class _Failures:
    """Failed log-ins of callers and names; beyond a limit both have to wait."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._when: OrderedDict[str, deque[float]] = OrderedDict()

    def check(self, *keys: str) -> None:
        """Refuse a log-in where too many failed.

        Raises:
            Problem: it has to wait.
        """
        now = self._clock()
        for key in keys:
            times = self._when.get(key, deque())
            while times and now - times[0] > limits.LOG_IN_SECONDS:
                times.popleft()
            if len(times) >= limits.LOG_INS:
                wait = max(1, round(limits.LOG_IN_SECONDS - (now - times[0])))
                raise Problem(429, "too many log-ins failed", f"wait {wait} s", headers={"Retry-After": str(wait)})

    def add(self, *keys: str) -> None:
        """A log-in failed."""
        for key in keys:
            self._when.setdefault(key, deque()).append(self._clock())
            self._when.move_to_end(key)
        while len(self._when) > _NAMES:
            self._when.popitem(last=False)


@dataclass
class Access:
    """Decides who asks.

    Attributes:
        local: only this machine can reach the port. Then nobody has to log in as long as there are no users.
    """

    users: Users
    local: bool
    failures: _Failures = field(default_factory=_Failures)

    def identify(self, request: Request) -> Identity:
        """Who sends a request.

        Raises:
            Problem: nobody who is known, or a page that does not prove that it is ours.
            HubError: the hub cannot be asked.
        """
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            found = self.users.of_token(token.strip())
            if found is None:
                raise _who("the token is not valid any more, or never was", "mgw users token NAME makes one")
            return found
        if scheme:
            raise _who("tokens are sent as Authorization: Bearer TOKEN", "mgw users token NAME makes one")
        cookie = request.cookies.get(SESSION_COOKIE)
        found = self.users.of_session(cookie) if cookie else None
        if found is not None:
            if request.method not in _SAFE and request.headers.get(CSRF_HEADER) != found.csrf:
                raise Problem(403, f"the request has not the {CSRF_HEADER} of its session", "load the page again")
            return found
        if not self.users.exist():
            if self.local:
                return _ANYBODY
            raise Problem(
                403,
                "there are no users, and other machines can reach this address",
                "create an administrator: mgw users add NAME --role administrator",
            )
        raise _who("nobody is logged in", "log in, or send a token: Authorization: Bearer TOKEN")


def _who(detail: str, cure: str) -> Problem:
    return Problem(401, detail, cure, headers={"WWW-Authenticate": 'Bearer realm="mgw"'})


def identity(request: Request) -> Identity:
    """Who sends the request; for routes that anybody may use who is known.

    Raises:
        Problem: nobody who is known.
        HubError: the hub does not answer.
    """
    request.app.state.probes.look()  # a hub that is away is told at once
    access: Access = request.app.state.access
    return access.identify(request)


Known = Annotated[Identity, Depends(identity)]


def require(found: Identity, role: Role, what: str = "this") -> None:
    """Refuse what is for another role than the user has.

    Raises:
        Problem: it is.
    """
    if not found.role.includes(role):
        raise Problem(
            403,
            f"user {found.name} is {found.role.lower()}",
            f"ask an administrator for the role {role.lower()}",
            cause=f"{what} is for the role {role.lower()}",
        )


def _needs(role: Role) -> Callable[[Identity], Awaitable[Identity]]:
    async def check(found: Known) -> Identity:  # in the context of the request, which the route gets as well
        require(found, role)
        acts(found.name)
        return found

    check.role = role  # type: ignore[attr-defined]
    return check


def roles_of(parts: Iterable[APIRouter], prefix: str = "") -> Iterator[tuple[str, str, Role | None]]:
    """Method and path of every route of some routers, and the role that it asks for; None: whoever comes."""
    for part in parts:
        for route in part.routes:
            if isinstance(route, APIRoute):
                roles = (_needed(each.call) for each in route.dependant.dependencies if each.call)
                role = next((role for role in roles if role is not None), None)
                for method in sorted(route.methods or ()):
                    yield method, f"{prefix}{route.path_format}", role


def _needed(check: Callable[..., object]) -> Role | None:
    """The role that a dependency of a route asks for."""
    return getattr(check, "role", None)


#: Who sends the request, of at least that role; for the parameters of routes.
Viewer = Annotated[Identity, Depends(_needs(Role.VIEWER))]
Operator = Annotated[Identity, Depends(_needs(Role.OPERATOR))]
Administrator = Annotated[Identity, Depends(_needs(Role.ADMINISTRATOR))]
