"""PUT, PATCH and DELETE of what a configuration file defines: the same routes for each section."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field

from mgw.gateway.http.access import Administrator, Operator
from mgw.gateway.http.rest.answers import HubOf
from mgw.gateway.http.rest.bodies import Body, object_of
from mgw.gateway.http.rest.conditions import Conditions, header_of
from mgw.gateway.http.rest.definitions import as_schema, path_of, show_one_of
from mgw.gateway.http.slashes import NAME
from mgw.gateway.services.configuration import Action, Finding, Verb
from mgw.gateway.services.definition_changes import Changes, Outcome
from mgw.gateway.services.definitions import NOUNS, SECTIONS
from mgw.transforms.errors import GatewayError

__all__ = ["ChangesOf", "FindingModel", "Step", "finding", "router", "step", "told"]

router = APIRouter()


def _changes(request: Request, _: HubOf) -> Changes:
    """What changes the definitions of the hub."""
    found: Changes = request.app.state.changes
    return found


ChangesOf = Annotated[Changes, Depends(_changes)]
DryRun = Annotated[bool, Query(description="Tell what would be done, and change nothing.")]
Force = Annotated[bool, Query(description="Delete the messages that would be lost.")]


class Setting(BaseModel):
    """A setting that changes; of a secret, whether it is set: `***`."""

    setting: str
    old: Any
    new: Any


class Lost(BaseModel):
    """Messages that are deleted with what is removed."""

    messages: int
    oldest_age: float | None = Field(description="Seconds.")


class Step(BaseModel):
    """What is done with one object."""

    verb: Literal["create", "alter", "remove", "none", "leave"] = Field(
        description="`none`: it is so already; `leave`: it is not named, and stays."
    )
    kind: str
    name: str
    changes: list[Setting]
    deletes: Lost | None = None


class FindingModel(BaseModel):
    """What was found in a configuration, as `mgw lint` tells it."""

    severity: Literal["error", "warning"]
    name: str = Field(description="Stable, for programs and searches.")
    where: str = Field(description="The keys that lead there, or line and column; empty: the object itself.")
    message: str
    cure: str


class Changed(BaseModel):
    """What a change did, or would do with `dry_run`."""

    changed: bool = Field(description="false: everything is so already, or this was a dry run.")
    done: bool = Field(description="false: a running agent has yet to finish the removal.")
    steps: list[Step]
    findings: list[FindingModel] = Field(description="Warnings.")
    prepared: list[str] = Field(description="What was created at the messaging system, and what could not be.")


def step(action: Action) -> Step:
    """A step of a plan."""
    return Step(**action.as_json())


def finding(found: Finding) -> FindingModel:
    """A finding of the linter."""
    return FindingModel(
        severity=found.severity, name=found.name, where=found.where, message=found.message, cure=found.cure
    )


def told(line: str | GatewayError) -> str:
    """A line about what was prepared."""
    return str(line)


def _answer(outcome: Outcome, *, dry_run: bool, removed: bool = False) -> Response:
    made = outcome.action.verb is Verb.CREATE and not dry_run
    body = Changed(
        changed=outcome.action.changes_hub and not dry_run,
        done=outcome.done,
        steps=[step(outcome.action)],
        findings=[finding(each) for each in outcome.findings],
        prepared=[told(each) for each in outcome.prepared],
    )
    headers = {} if outcome.found is None or removed or dry_run else header_of(outcome.found.tag)
    status = 201 if made else 200 if outcome.done else 202
    return JSONResponse(body.model_dump(mode="json"), status, headers)


_MODEL: dict[str, Any] = {"model": Changed}
_DONE: dict[int | str, dict[str, Any]] = {200: _MODEL | {"description": "It is so now, or it was so already."}}
_MADE = _DONE | {201: _MODEL | {"description": "It was created."}}
_GONE = _DONE | {202: _MODEL | {"description": "A running agent finishes the removal."}}


def _body(section: str, *, patch: bool = False) -> dict[str, Any]:
    """The description of a body."""
    schema: dict[str, Any] = as_schema(section)
    kinds = ["application/json"]
    if patch:
        schema = {"type": "object", "description": "The settings that change; null removes one."}
        kinds.append("application/merge-patch+json")
    return {"requestBody": {"required": True, "content": {kind: {"schema": schema} for kind in kinds}}}


def register(section: str) -> None:
    """Add the routes of a section."""
    noun, path = NOUNS[section], f"{path_of(section)}/{NAME}"
    tags: list[Any] = [path_of(section).strip("/")]

    def put(  # noqa: PLR0917
        name: str,
        changes: ChangesOf,
        _: Administrator,
        expected: Conditions,
        sent: Body,
        dry_run: DryRun = False,
        force: Force = False,
    ) -> Response:
        outcome = changes.put(section, name, object_of(sent), expected, dry_run=dry_run, force=force)
        return _answer(outcome, dry_run=dry_run)

    def patch(  # noqa: PLR0917
        name: str,
        changes: ChangesOf,
        _: Administrator,
        expected: Conditions,
        sent: Body,
        dry_run: DryRun = False,
        force: Force = False,
    ) -> Response:
        outcome = changes.patch(section, name, object_of(sent), expected, dry_run=dry_run, force=force)
        return _answer(outcome, dry_run=dry_run)

    def delete(
        name: str,
        changes: ChangesOf,
        _: Administrator,
        expected: Conditions,
        dry_run: DryRun = False,
        force: Force = False,
    ) -> Response:
        return _answer(
            changes.delete(section, name, expected, dry_run=dry_run, force=force), dry_run=dry_run, removed=True
        )

    def add(verb: str, does: Any, responses: Any, text: str, *, below: str = "", extra: Any = None) -> None:
        router.add_api_route(
            path + below,
            does,
            methods=[verb.upper()],
            response_model=None,
            responses=responses,
            tags=tags,
            name=f"{verb}_{section}{below.replace('/', '_')}",
            summary=f"{_WORDS[verb]} one {noun}",
            description=text,
            openapi_extra=extra,
        )

    wording = f"Create the {noun}, or give it these settings and no others. Secrets that are left out stay."
    add("put", put, _MADE, wording, extra=_body(section))
    add(
        "patch", patch, _DONE, "Change the settings that are given; null removes one.", extra=_body(section, patch=True)
    )
    add("delete", delete, _GONE, f"Remove the {noun}; refused where messages would be lost or something uses it.")
    if section == "jobs":
        add("put", put, _MADE, f"{wording} The same as PUT of the job.", below="/config", extra=_body(section))
        show_one_of(section, "/config")


_WORDS = {"put": "Create or replace", "patch": "Change", "delete": "Remove"}
for _section in SECTIONS:
    register(_section)


class Validated(BaseModel):
    """What is wrong with a configuration of a job."""

    valid: bool = Field(description="Whether nothing is an error.")
    findings: list[FindingModel]


@router.post(f"/jobs/{NAME}/validate", tags=["jobs"], openapi_extra=_body("jobs"))
def validate_job(name: str, changes: ChangesOf, _: Operator, sent: Body) -> Validated:
    """Check a configuration of a job, which need not exist, and change nothing."""
    found = changes.validate("jobs", name, object_of(sent))
    return Validated(
        valid=not any(each.severity == "error" for each in found), findings=[finding(each) for each in found]
    )
