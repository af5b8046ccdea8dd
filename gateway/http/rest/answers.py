"""What the routes have in common: the hub, the form of refusals, the status of each error."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Request
from pydantic import BaseModel, ConfigDict, Field

from mgw.gateway.http.problems import PROBLEM_JSON, Problem
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.services.busy import Busy
from mgw.gateway.services.configuration import Finding
from mgw.gateway.services.definition_changes import Invalid
from mgw.gateway.services.hubs import Hub
from mgw.gateway.services.refusals import Kind, about, kind_of
from mgw.transforms.errors import GatewayError

__all__ = ["REFUSALS", "AdminOf", "HubOf", "ProblemModel", "StrictModel", "problem_of"]


class StrictModel(BaseModel):
    """A body that a caller sends: a member that is not known is an error."""

    model_config = ConfigDict(extra="forbid")


class ProblemModel(BaseModel):
    """A refusal, RFC 9457."""

    type: str = Field(
        description="Where the number is described: `/docs/errors#32855`. `about:blank`: nowhere; the status says it."
    )
    title: str = Field(description="The words of the status.")
    status: int
    detail: str = Field(description="What could not be done, with its object.")
    object: str = Field(default="", description="Kind and name of the object, where there is one: `job SHIP`.")
    cause: str = Field(default="", description="Why, where that is known.")
    cure: str = Field(default="", description="What to do about it.")
    number: int | None = Field(default=None, description="Of the error, as the error reference lists it.")
    errors: list[dict[str, Any]] | None = Field(default=None, description="What is wrong where in the request.")


_STATUSES = {
    400: "The request cannot be read.",
    401: "Nobody is logged in, or the token is not valid.",
    403: "The role of the user is not enough, or a page of another origin asks.",
    404: "There is no such object.",
    405: "The address does not know this method; Allow says which it knows.",
    408: "The request did not arrive in time.",
    409: "The state of the object does not allow it.",
    412: "The object is not as If-Match or If-None-Match says.",
    413: "The body is too large.",
    415: "The body is of a type that this address does not take.",
    421: "The request is for another host.",
    422: "A value cannot be used.",
    431: "The headers are too large.",
    429: "Too many requests; Retry-After says when.",
    502: "A messaging system cannot be reached, or refused.",
    503: "The hub does not answer, or too much is in work.",
}

#: The refusals that every route may answer with, for its description.
REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {
        "description": text,
        "content": {PROBLEM_JSON: {"schema": {"$ref": f"#/components/schemas/{ProblemModel.__name__}"}}},
    }
    for status, text in _STATUSES.items()
}

_STATUS_OF = {
    Kind.MISSING: 404,
    Kind.CONFLICT: 409,
    Kind.OVERTAKEN: 412,
    Kind.INVALID: 422,
    Kind.ELSEWHERE: 502,
    Kind.HUB: 503,
}


def problem_of(error: GatewayError) -> Problem:
    """The refusal that tells an error."""
    if isinstance(error, Busy):
        return Problem(429 if error.of_one else 503, error.what, error.cure, {"Retry-After": "1"})
    kind = kind_of(error)
    headers = {"Retry-After": "1"} if kind is Kind.HUB else {}
    return Problem(
        _STATUS_OF[kind],
        error.what,
        error.cure,
        headers,
        cause=error.cause,
        number=error.number,
        about=about(error),
        more={"errors": [_place(each) for each in error.findings]} if isinstance(error, Invalid) else None,
    )


def _place(found: Finding) -> dict[str, Any]:
    """A finding as a member of ``errors``."""
    return {
        "where": found.where,
        "what": found.message,
        "cure": found.cure,
        "name": found.name,
        "severity": found.severity,
    }


def _hub(request: Request) -> Hub:
    """The hub, which answers: that it is away is told at once, however many ask.

    Raises:
        HubError: it does not answer.
    """
    request.app.state.probes.look()
    found: Hub = request.app.state.hub
    return found


HubOf = Annotated[Hub, Depends(_hub)]


def _admin(hub: HubOf) -> GatewayAdmin:
    """The procedures of the hub."""
    return GatewayAdmin(hub)


AdminOf = Annotated[GatewayAdmin, Depends(_admin)]
