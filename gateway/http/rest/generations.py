"""Generations of the definitions, and the way back to one."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Path
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field

from mgw.gateway.http.access import Administrator, Viewer
from mgw.gateway.http.rest.answers import HubOf
from mgw.gateway.http.rest.changes import DryRun, Force, Step, step
from mgw.gateway.http.rest.conditions import Conditions, header_of
from mgw.gateway.http.rest.events import AuditModel, audited
from mgw.gateway.http.rest.given import Cursor, Limit, cursor_of, whence
from mgw.gateway.http.rest.moments import moment
from mgw.gateway.services.audit_words import THROUGH
from mgw.gateway.services.generations import UNTOUCHED, generation, generations, text_of, way_back
from mgw.gateway.services.impact import Impact, impact

__all__ = ["router"]

router = APIRouter(prefix="/config", tags=["config"])

_MOST = 2**62

Number = Annotated[int, Path(ge=0, le=_MOST, description="Of the generation; 0: before the oldest that is kept.")]


class GenerationModel(BaseModel):
    """A change of the definitions, or several that were one."""

    generation: int = Field(description="Its number; grows, with gaps.")
    time: datetime = Field(description="When it was complete.")
    actor: str = Field(description="Who did it.")
    through: str | None = Field(description=THROUGH)
    version: int | None = Field(description="`mgw_config_generation` with it; null: it has no part in that.")
    what: str = Field(description="In a line.")
    result: str = Field(description="`done`; of an apply or rollback, what it came to.")


class OneGeneration(GenerationModel):
    """A generation with its changes."""

    changes: list[AuditModel] = Field(description="In order.")


class GenerationPage(BaseModel):
    """Generations, the latest first."""

    generations: list[GenerationModel] = Field(description="The generations.")
    next: str | None = Field(description="`cursor` of the next page, which is of earlier ones; null: there is none.")


class Restart(BaseModel):
    """A job that drains and connects again, or stops, or is behind one that stops."""

    job: str
    because: list[str] = Field(description="The objects that it depends on; where it starves, the jobs that stop.")
    stops: bool = Field(description="It does not go on.")
    starves: bool = Field(description="It is left as it is, and gets nothing more from a job that stops.")
    waiting: int | None = Field(description="Messages that wait for it; null: nobody can tell.")


class Back(BaseModel):
    """Where to go back to."""

    generation: int = Field(ge=0, le=_MOST, description="A generation; 0: before the oldest that is kept.")


class BackModel(BaseModel):
    """What going back did, or would do with `dry_run`, in order."""

    changed: bool = Field(description="false: everything is so already, or this was a dry run.")
    steps: list[Step]
    restarts: list[Restart] = Field(description="Jobs that it has connect again, stops or starves.")
    untouched: str = Field(description="What stays as it is today.")


def _restart(each: Impact) -> Restart:
    return Restart(
        job=each.job, because=list(each.because), stops=each.stops, starves=each.starves, waiting=each.waiting
    )


@router.get("/generations")
def list_generations(hub: HubOf, _: Viewer, limit: Limit = 100, cursor: Cursor = None) -> GenerationPage:
    """Generations of the definitions, the latest first. They are kept for a year (agent option `audit_retention`)."""
    place = whence(cursor, 1)
    found = generations(hub, limit, before=int(place[0]) if place else None)
    following = cursor_of([found[-1].number]) if len(found) == limit else None
    return GenerationPage(generations=[GenerationModel(**each.values(moment)) for each in found], next=following)


@router.get("/generations/{number}")
def show_generation(number: Number, hub: HubOf, _: Viewer) -> OneGeneration:
    """One generation with its changes."""
    found = generation(hub, number)
    return OneGeneration(**found.values(moment), changes=[audited(each) for each in found.changes])


@router.get(
    "/generations/{number}/definitions",
    response_class=Response,
    responses={
        200: {"description": "A configuration file.", "content": {"text/yaml": {"schema": {"type": "object"}}}},
    },
)
def definitions(number: Number, hub: HubOf, _: Viewer) -> Response:
    """What a generation held as a configuration file; secrets are variables, hub queues are those of today."""
    return Response(text_of(hub, number, abroad=True), media_type="text/yaml")


@router.post(
    "/rollback",
    response_model=BackModel,
    responses={
        200: {"headers": {"ETag": {"description": "For If-Match of the same call.", "schema": {"type": "string"}}}}
    },
)
def roll_back(
    given: Back, hub: HubOf, _: Administrator, expected: Conditions, dry_run: DryRun = False, force: Force = False
) -> Response:
    """Go back to a generation, as `mgw rollback` does; secrets stay as they are today. That is a new generation. With
    `If-Match`, the `ETag` of a dry run, it is refused where something was changed since (412)."""
    way = way_back(hub, given.generation)
    expected.check_tag(way.tag, f"the way back to generation {given.generation}")
    restarts = [_restart(each) for each in impact(hub, way.actions)]
    actions = way.actions if dry_run else list(way.go(hub, force=force))
    body = BackModel(
        changed=not dry_run and not way.is_empty,
        steps=[step(each) for each in actions if each.changes_hub],
        restarts=restarts,
        untouched=UNTOUCHED,
    )
    return JSONResponse(body.model_dump(mode="json"), headers=header_of(way.tag) if dry_run else {})
