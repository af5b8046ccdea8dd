"""Log in, log out, and who is logged in."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from mgw.gateway.http.access import SESSION_COOKIE, Access, Viewer
from mgw.gateway.http.problems import Problem
from mgw.gateway.http.rest.answers import HubOf, StrictModel
from mgw.gateway.services.users import Identity

__all__ = ["router"]

router = APIRouter(prefix="/session", tags=["session"])


class LogIn(StrictModel):
    """What somebody logs in with."""

    name: str = Field(min_length=1, max_length=128)
    password: str = Field(min_length=1, max_length=1024, json_schema_extra={"format": "password"})


class Session(BaseModel):
    """Who sends the requests."""

    name: str
    role: Literal["viewer", "operator", "administrator"]
    how: Literal["session", "token", "open"] = Field(description="`open`: nobody has to log in.")
    csrf: str = Field(description="To be sent as `X-CSRF-Token` with every change; empty without a session.")


def _secure(request: Request) -> bool:
    """Whether the browser came over TLS, to this port or to the proxy before it."""
    return request.url.scheme == "https"


def _told(found: Identity) -> Session:
    return Session(name=found.name, role=found.role.lower(), how=found.how, csrf=found.csrf)  # type: ignore[arg-type]


@router.get("")
def show_session(found: Viewer) -> Session:
    """Who sends the requests, and what may be done."""
    return _told(found)


@router.post("")
def log_in(given: LogIn, request: Request, response: Response, _: HubOf) -> Session:
    """Log in with name and password; sets a cookie that no script can read."""
    access: Access = request.app.state.access
    caller = request.client.host if request.client else "?"
    keys = (f"address {caller}", f"name {given.name.upper()}")
    access.failures.check(*keys)
    found = access.users.log_in(given.name, given.password)
    if found is None:
        access.failures.add(*keys)
        raise Problem(
            401, "name or password are wrong", "try again", headers={"WWW-Authenticate": 'Bearer realm="mgw"'}
        )
    who, secret = found
    if old := request.cookies.get(SESSION_COOKIE):
        access.users.log_out(old)
    response.set_cookie(SESSION_COOKIE, secret, httponly=True, samesite="strict", secure=_secure(request), path="/")
    return _told(who)


@router.delete("", status_code=204)
def log_out(request: Request, response: Response, _: Viewer) -> None:
    """Log out."""
    access: Access = request.app.state.access
    if cookie := request.cookies.get(SESSION_COOKIE):
        access.users.log_out(cookie)
    response.delete_cookie(SESSION_COOKIE, path="/", httponly=True, samesite="strict", secure=_secure(request))
