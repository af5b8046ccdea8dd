"""Jobs that are there: how they are, and what an operator does with them, under the addresses of Kafka Connect."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from mgw.gateway.http.access import Viewer
from mgw.gateway.http.rest.answers import HubOf
from mgw.gateway.http.rest.definitions import Living, living
from mgw.gateway.http.slashes import NAME
from mgw.gateway.services import lookup
from mgw.gateway.services.health import COLUMN_TEXTS, JobRow, look
from mgw.gateway.services.hubs import Hub

__all__ = ["router"]

router = APIRouter(prefix="/jobs", tags=["jobs"])


def _of(column: str) -> Any:
    """A member that means what a column of MGW_JOBS means."""
    return Field(description=COLUMN_TEXTS[column])


class CountsOfRun(BaseModel):
    """Messages of a job since its agent started."""

    moved: int = _of("PROPAGATED_MSGS")
    exceptioned: int = _of("EXCEPTIONQ_MSGS")
    filtered: int = _of("FILTERED_MSGS")
    discarded: int = _of("DISCARDED_MSGS")
    suppressed: int = _of("SUPPRESSED_MSGS")


class CountsOfLife(BaseModel):
    """Messages of a job since it was created."""

    moved: int = _of("PROPAGATED_TOTAL")
    exceptioned: int = _of("EXCEPTIONQ_TOTAL")
    filtered: int = _of("FILTERED_TOTAL")
    discarded: int = _of("DISCARDED_TOTAL")
    left_out: int = _of("LEFT_OUT_TOTAL")


class JobStatus(Living):
    """How a job is, in the words of MGW_JOBS and of /healthz."""

    name: str
    agent: str
    type: Literal["INBOUND", "OUTBOUND", "THROUGH", "LOCAL"] = _of("PROPAGATION_TYPE")
    source: str = _of("SOURCE")
    destination: str = _of("DESTINATION")
    enabled: bool
    guarantee: str | None = _of("GUARANTEE")
    guarantee_note: str | None = _of("GUARANTEE_NOTE")
    failures: int = _of("FAILURES")
    next_attempt: datetime | None = _of("NEXT_ATTEMPT")
    last_error: str | None = _of("LAST_ERROR_MSG")
    backlog: int | None = _of("BACKLOG")
    oldest_message_age: float | None = _of("OLDEST_MESSAGE_AGE")
    last_progress: datetime | None = _of("LAST_PROGRESS")
    since_start: CountsOfRun
    since_creation: CountsOfLife


@router.get(f"/{NAME}/status")
def show_status(name: str, request: Request, hub: HubOf, _: Viewer) -> JobStatus:
    """How one job is."""
    return status_of(request, hub, name)


def status_of(request: Request, hub: Hub, name: str) -> JobStatus:
    """How a job is now.

    Raises:
        NotFound: there is none of that name.
    """
    row = lookup.job_row(hub, name)
    health = request.app.state.probes.judged(look(hub), agent="*")
    entry = next((each for each in health.jobs if each.name == row.job_name), None)
    if entry is None:  # it was removed between the two looks
        raise lookup.NotFound("job", name, [])
    return JobStatus(**_members(row), **living(entry))


#: Member to what the columns of MGW_JOBS for it begin with.
_COUNTS = {"moved": "propagated", "exceptioned": "exceptionq", "filtered": "filtered", "discarded": "discarded"}


def _members(row: JobRow) -> dict[str, Any]:
    run = {name: getattr(row, f"{column}_msgs") for name, column in _COUNTS.items()}
    life = {name: getattr(row, f"{column}_total") for name, column in _COUNTS.items()}
    return {
        "name": row.job_name,
        "agent": row.agent_name,
        "type": row.propagation_type,
        "source": row.source,
        "destination": row.destination,
        "enabled": row.enabled == "TRUE",
        "guarantee": row.guarantee,
        "guarantee_note": row.guarantee_note,
        "failures": row.failures,
        "next_attempt": _instant(row.next_attempt),
        "last_error": row.last_error_msg,
        "backlog": row.backlog,
        "oldest_message_age": row.oldest_message_age,
        "last_progress": _instant(row.last_progress),
        "since_start": CountsOfRun(**run, suppressed=row.suppressed_msgs),
        "since_creation": CountsOfLife(**life, left_out=row.left_out_total),
    }


def _instant(text: str | None) -> datetime | None:
    """A moment as views have it."""
    return None if text is None else datetime.fromisoformat(text).replace(tzinfo=UTC)
