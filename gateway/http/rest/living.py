"""How agents, links and jobs are, as the routes that show them have it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from mgw.gateway.http.rest.moments import moment
from mgw.gateway.services.verdict import Entry

__all__ = ["Living", "living"]


class Living(BaseModel):
    """How something is that runs, or is meant to."""

    state: str
    since: datetime | None = Field(description="Since when it is in this state; null: nobody knows.")
    healthy: bool
    reason: str | None = Field(description="What is wrong.")
    cure: str | None = Field(description="What to do about it.")


def living(entry: Entry) -> dict[str, Any]:
    """The members of :class:`Living`."""
    return {
        "state": entry.state,
        "since": moment(entry.since),
        "healthy": entry.healthy,
        "reason": entry.reason or None,
        "cure": entry.cure or None,
    }
