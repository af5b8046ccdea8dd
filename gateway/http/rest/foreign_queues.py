"""What an operator asks about foreign queues: whether they exist at their messaging systems."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel, Field

from mgw.gateway.http.access import Operator, require
from mgw.gateway.http.rest.answers import AdminOf
from mgw.gateway.http.rest.bodies import Body, object_of
from mgw.gateway.http.rest.changes import ChangesOf
from mgw.gateway.http.rest.definitions import as_schema
from mgw.gateway.http.slashes import NAME
from mgw.gateway.services.queue_checks import check_queue, check_queue_before
from mgw.gateway.services.users import Role

__all__ = ["router"]

router = APIRouter(prefix="/foreign-queues", tags=["foreign-queues"])

_SETTINGS = {
    "requestBody": {
        "required": False,
        "content": {"application/json": {"schema": as_schema("foreign_queues")}},
        "description": "Settings that are not saved yet, for the role administrator; without them it is as it is "
        "registered.",
    }
}


class Found(BaseModel):
    """Whether what a foreign queue names exists."""

    name: str = Field(description="`queue@link`.")
    exists: bool | None = Field(description="null: it could not be found out.")
    detail: str = Field(description="What is there, what is missing, or why it could not be found out.")
    made_by: str = Field(description="A command that makes it; empty where nothing is missing.")
    cure: str = Field(description="What to do; empty where nothing is missing.")


@router.post(f"/{NAME}/check", openapi_extra=_SETTINGS)
def check(name: str, admin: AdminOf, changes: ChangesOf, who: Operator, sent: Body) -> Found:
    """Ask the messaging system whether a queue, exchange or topic exists, before or after its registration. Nothing is
    created there. With settings in the body, which may name any queue of that system, it is for the role administrator,
    as a registration is."""
    if sent.data:
        require(who, Role.ADMINISTRATOR, "a check with settings of its own")
        found = check_queue_before(admin, *changes.checked("foreign_queues", name, object_of(sent)))
    else:
        found = check_queue(admin, name)
    return Found(name=found.name, exists=found.exists, detail=found.detail, made_by=found.made_by, cure=found.cure)
