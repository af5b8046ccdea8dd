"""The configuration as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field

from mgw.gateway.http.access import Administrator, Viewer
from mgw.gateway.http.rest.bodies import JSON_TYPES, YAML_TYPES, Body, Sent, object_of, text_of, unsupported
from mgw.gateway.http.rest.changes import ChangesOf, FindingModel, Force, Step, finding, step, told
from mgw.gateway.http.rest.conditions import Conditions, header_of
from mgw.gateway.services.definition_changes import Planned

__all__ = ["router"]

router = APIRouter(prefix="/config", tags=["config"])


@router.get(
    "",
    response_class=Response,
    responses={
        200: {"description": "A configuration file.", "content": {"text/yaml": {"schema": {"type": "object"}}}},
    },
)
def export(changes: ChangesOf, _: Viewer) -> Response:
    """What the hub holds as a configuration file, as `mgw export` prints it. Each secret is a variable."""
    return Response(changes.export(), media_type="text/yaml")


Prune = Annotated[bool, Query(description="Remove what the configuration does not name.")]


class PlanModel(BaseModel):
    """What a configuration does, or would do, in order."""

    steps: list[Step]
    findings: list[FindingModel] = Field(description="Warnings.")
    prepared: list[str] = Field(description="What was created at messaging systems, and what could not be.")


#: YAML as a file has it, or the same as JSON.
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": {"type": "object"}},
            "text/yaml": {"schema": {"type": "object"}},
            "application/yaml": {"schema": {"type": "object"}},
        },
    }
}


def _given(sent: Sent) -> str | Mapping[str, Any]:
    if sent.kind in YAML_TYPES:
        return text_of(sent)
    if sent.kind not in JSON_TYPES:
        raise unsupported(sent, (YAML_TYPES[0], JSON_TYPES[0]))
    return object_of(sent)


def _plan(found: Planned) -> Response:
    body = PlanModel(
        steps=[step(each) for each in found.actions],
        findings=[finding(each) for each in found.findings],
        prepared=[told(each) for each in found.prepared],
    )
    return JSONResponse(body.model_dump(mode="json"), headers=header_of(found.tag) if found.tag else {})


_TAGGED: dict[int | str, dict[str, Any]] = {
    200: {"headers": {"ETag": {"description": "For If-Match of `apply`.", "schema": {"type": "string"}}}}
}


@router.post("/plan", openapi_extra=_BODY, response_model=PlanModel, responses=_TAGGED)
def plan(changes: ChangesOf, _: Administrator, sent: Body, prune: Prune = False) -> Response:
    """What `apply` would do. Variables are not replaced; `${NAME:-}` keeps the secret that the hub has."""
    return _plan(changes.plan(_given(sent), prune=prune))


@router.post("/apply", openapi_extra=_BODY, response_model=PlanModel)
def apply(
    changes: ChangesOf,
    _: Administrator,
    sent: Body,
    expected: Conditions,
    prune: Prune = False,
    force: Force = False,
) -> Response:
    """Bring the hub to what a configuration says, as `mgw apply` does; every object is one transaction.

    With `If-Match`, the `ETag` of the plan, it is refused where something was changed since (412).
    """
    return _plan(changes.apply(_given(sent), expected, prune=prune, force=force))
