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
    old_style,
    outbound_schedules,
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
    outbound_schedules,
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

_ROUTERS = (*(part.router for part in _PARTS), old_style.subscribers, old_style.schedules)

router = APIRouter(prefix=_PREFIX, responses=REFUSALS)
for each in _ROUTERS:
    router.include_router(each)


def routes() -> Iterator[tuple[str, str, Role | None]]:
    """Method and path of every route, and the role that it asks for; None: whoever comes."""
    return roles_of(_ROUTERS, _PREFIX)
