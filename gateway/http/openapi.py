"""The description of the interface, OpenAPI 3.1: made from the routes, once."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from mgw.gateway.http.access import needed_role
from mgw.gateway.http.rest.answers import ProblemModel

__all__ = ["described"]

_ABOUT = """\
Links, queues and jobs of the gateway, messages of the hub's queues, and the exception desk. Refusals are problem
details (RFC 9457) with `detail`, `cause` and `cure`. Programs send `Authorization: Bearer TOKEN` (`mgw users token`);
without users, and on an address that only this machine can reach, nobody has to log in."""


def described(app: FastAPI) -> dict[str, Any]:
    """The document."""
    if app.openapi_schema is None:
        made = get_openapi(
            title=app.title, version=app.version, openapi_version="3.1.0", description=_ABOUT, routes=app.routes
        )
        parts = made.setdefault("components", {})
        schemas = parts.setdefault("schemas", {})
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        schemas[ProblemModel.__name__] = ProblemModel.model_json_schema(
            ref_template="#/components/schemas/{model}", mode="serialization"
        )
        parts["securitySchemes"] = {
            "token": {"type": "http", "scheme": "bearer"},
            "session": {"type": "apiKey", "in": "cookie", "name": "mgw_session"},
        }
        made["security"] = [{"token": []}, {"session": []}, {}]
        for route in app.routes:
            if isinstance(route, APIRoute) and route.include_in_schema:
                _say_role(made, route)
        app.openapi_schema = made
    return app.openapi_schema


def _say_role(made: dict[str, Any], route: APIRoute) -> None:
    """Have the description of a route say who may use it."""
    roles = [role for each in route.dependant.dependencies if each.call and (role := needed_role(each.call))]
    if not roles:
        return
    for method in route.methods or ():
        operation = made["paths"][route.path_format][method.lower()]
        operation["x-role"] = roles[0].lower()
