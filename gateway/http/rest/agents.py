"""What an operator does with agents: start them, shut them down, have them log more."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, Field

from mgw.gateway.http.access import Operator
from mgw.gateway.http.rest.answers import AdminOf, StrictModel
from mgw.gateway.http.slashes import NAME
from mgw.gateway.services import lookup
from mgw.gateway.services.admin import GatewayAdmin

__all__ = ["router"]

router = APIRouter(prefix="/agents", tags=["agents"])


class AgentStatus(BaseModel):
    """How an agent is."""

    name: str
    status: str = Field(description="As AGENT_STATUS of MGW_GATEWAY.")


class Ping(BaseModel):
    """Whether the process of an agent answers."""

    name: str
    status: str = Field(description="As AGENT_STATUS of MGW_GATEWAY.")
    ping: str | None = Field(
        description="REACHABLE, UNREACHABLE, or null where no process is expected (NOT_STARTED, START_SCHEDULED)."
    )


class LogLevel(StrictModel):
    """How much an agent logs."""

    level: Annotated[int, Field(ge=0, le=4, description="0 basic to 4 everything.")]


def _status(admin: GatewayAdmin, name: str) -> AgentStatus:
    return AgentStatus(name=name, status=str(admin.agent_state(name).status))


@router.post(f"/{NAME}/start", status_code=202)
def start(name: str, admin: AdminOf, _: Operator) -> AgentStatus:
    """Schedule an agent; a process of `mgw run` that waits for that starts it."""
    agent = lookup.agent(admin, name).name
    admin.startup(agent)
    return _status(admin, agent)


@router.post(f"/{NAME}/shutdown", status_code=202)
def shutdown(name: str, admin: AdminOf, _: Operator) -> AgentStatus:
    """Ask an agent to stop after the work in flight."""
    agent = lookup.agent(admin, name).name
    admin.shutdown(agent)
    return _status(admin, agent)


@router.post(f"/{NAME}/ping")
def ping(name: str, admin: AdminOf, _: Operator) -> Ping:
    """Ask the process of an agent whether it answers; takes up to 5 seconds."""
    agent = lookup.agent(admin, name).name
    answer = admin.ping_agent(agent)
    return Ping(name=agent, status=str(admin.agent_state(agent).status), ping=answer)


@router.put(f"/{NAME}/log-level", status_code=204)
def set_log_level(name: str, given: LogLevel, admin: AdminOf, _: Operator) -> None:
    """Set the log level of a running agent until it stops."""
    admin.set_log_level(given.level, lookup.agent(admin, name).name)
