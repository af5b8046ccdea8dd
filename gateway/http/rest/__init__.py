"""REST, ``/api/v1``: one module per resource. A route translates; what it does is in the services."""

from __future__ import annotations

from fastapi import APIRouter

from mgw.gateway.http.rest import session, users
from mgw.gateway.http.rest.answers import REFUSALS

__all__ = ["router"]

router = APIRouter(prefix="/api/v1", responses=REFUSALS)
for part in (session, users):
    router.include_router(part.router)
