"""REST, ``/api/v1``: one module per resource. A route translates; what it does is in the services."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import APIRouter

from mgw.gateway.http.access import roles_of
from mgw.gateway.http.rest import (
    agents,
    changes,
    configuration,
    definitions,
    dequeue,
    events,
    exceptions,
    foreign_queues,
    generations,
    history,
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
    foreign_queues,
    jobs,
    history,
    configuration,
    generations,
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
    return roles_of((part.router for part in _PARTS), _PREFIX)
