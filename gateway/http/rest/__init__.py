"""REST, ``/api/v1``: one module per resource. A route translates; what it does is in the services."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import APIRouter
from fastapi.routing import APIRoute

from mgw.gateway.http.access import needed_role
from mgw.gateway.http.rest import (
    agents,
    changes,
    configuration,
    definitions,
    dequeue,
    events,
    exceptions,
    jobs,
    links,
    messages,
    proof,
    queue_work,
    session,
    tasks,
    users,
)
from mgw.gateway.http.rest.answers import REFUSALS
from mgw.gateway.services.users import Role

__all__ = ["router", "routes"]

_PREFIX = "/api/v1"
_PARTS = (
    session,
    users,
    definitions,
    changes,
    agents,
    links,
    jobs,
    configuration,
    messages,
    dequeue,
    queue_work,
    proof,
    exceptions,
    tasks,
    events,
)

router = APIRouter(prefix=_PREFIX, responses=REFUSALS)
for part in _PARTS:
    router.include_router(part.router)


def routes() -> Iterator[tuple[str, str, Role | None]]:
    """Method and path of every route, and the role that it asks for; None: whoever comes."""
    for part in _PARTS:
        for route in part.router.routes:
            if isinstance(route, APIRoute):
                roles = (needed_role(each.call) for each in route.dependant.dependencies if each.call)
                role = next((role for role in roles if role is not None), None)
                for method in sorted(route.methods or ()):
                    yield method, f"{_PREFIX}{route.path_format}", role
