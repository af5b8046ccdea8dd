"""Jobs that are there: how they are, and what an operator does with them, under the addresses of Kafka Connect."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field

from mgw.gateway.http.access import Operator, Viewer
from mgw.gateway.http.rest.answers import AdminOf, HubOf
from mgw.gateway.http.rest.living import Living, living
from mgw.gateway.http.slashes import NAME
from mgw.gateway.services import job_verbs, lookup
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.services.exception_desk import retry
from mgw.gateway.services.health import COLUMN_TEXTS, JobRow, look
from mgw.gateway.services.hubs import Hub

__all__ = ["router"]

router = APIRouter(prefix="/jobs", tags=["jobs"])

DRAIN_SECONDS = 3.0  # for which a caller waits for a job that drains


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
    nodes: str | None = _of("NODES")
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


Verb = Callable[[Request, GatewayAdmin, str], str]


def _pause(request: Request, admin: GatewayAdmin, name: str) -> str:
    request.app.state.drains.give_up(name)
    return job_verbs.pause(admin, name)


def _resume(request: Request, admin: GatewayAdmin, name: str) -> str:
    request.app.state.drains.give_up(name)
    return job_verbs.resume(admin, name)


def _reset(_: Request, admin: GatewayAdmin, name: str) -> str:
    return retry(admin, name)


def _verb(word: str, does: Verb, text: str) -> None:
    """A verb with POST and with PUT, that answers how the job is then."""

    def act(name: str, request: Request, admin: AdminOf, _: Operator) -> JobStatus:
        return status_of(request, admin.hub, does(request, admin, name))

    _add(word, act, text, 202)


def _add(word: str, act: Callable[..., Any], text: str, status: int) -> None:
    for method in ("POST", "PUT"):
        router.add_api_route(
            f"/{NAME}/{word}",
            act,
            methods=[method],
            status_code=status,
            name=f"{word}_job",
            summary=f"{word.capitalize()} one job",
            description=text,
        )


def restart(name: str, admin: AdminOf, _: Operator) -> None:
    """Have a job finish its batches, disconnect, and connect again at once."""
    job_verbs.restart(admin, name)


def drain(
    name: str,
    request: Request,
    admin: AdminOf,
    _: Operator,
    timeout: Annotated[float, Query(ge=0, le=86_400, description="Seconds until it is paused in any case.")] = 60.0,
) -> JobStatus:
    """Wait until nothing waits for a job, then pause it. The answer comes after 3 seconds at most; the state tells
    whether it is paused already. Pausing or resuming the job ends the wait, and so does the end of this process."""
    job = request.app.state.drains.begin(name, timeout, wait=DRAIN_SECONDS)
    return status_of(request, admin.hub, job)


_verb("pause", _pause, "Stop a job after its current batch; what comes meanwhile waits.")
_verb("resume", _resume, "Let a job that was paused continue.")
_verb("reset", _reset, "Forget the failures of a job, and have it tried at once.")
_add("restart", restart, " ".join((restart.__doc__ or "").split()), 204)
_add("drain", drain, " ".join((drain.__doc__ or "").split()), 202)

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
        "nodes": row.nodes,
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
