"""The description of the interface, OpenAPI 3.1: made from the routes, once."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

from fastapi import FastAPI, Response
from fastapi.openapi.utils import get_openapi

from mgw.gateway.http.rest import routes
from mgw.gateway.http.rest.answers import ProblemModel
from mgw.gateway.http.rest.definitions import SCHEMA
from mgw.gateway.services.configuration import SCHEMA_NAMES, object_schemas

__all__ = ["described", "written"]

_SCHEMAS = "#/components/schemas/"
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
        schemas |= object_schemas(_SCHEMAS)
        made["paths"], schemas = _resolved(made["paths"]), _resolved(schemas)
        parts["schemas"] = dict(sorted(schemas.items()))
        parts["securitySchemes"] = {
            "token": {"type": "http", "scheme": "bearer"},
            "session": {"type": "apiKey", "in": "cookie", "name": "mgw_session"},
        }
        made["security"] = [{"token": []}, {"session": []}, {}]
        for method, path, role in routes():
            if role is not None:
                made["paths"][path][method.lower()]["x-role"] = role.lower()
        app.openapi_schema = made
    return app.openapi_schema


def written(app: FastAPI) -> Callable[[], Response]:
    """Answers with the document, which is large: it is made and written with the first request, and then kept."""

    @cache
    def text() -> bytes:
        return json.dumps(described(app), ensure_ascii=False, separators=(",", ":")).encode()

    return lambda: Response(text(), media_type="application/json")


def _resolved(node: Any) -> Any:
    """Schemas of sections, which stand under their names in the document."""
    if isinstance(node, list):
        return [_resolved(each) for each in node]
    if not isinstance(node, dict):
        return node
    if (section := node.get(SCHEMA)) is not None:
        kept = {key: value for key, value in node.items() if key == "description"}
        return {**kept, "$ref": _SCHEMAS + SCHEMA_NAMES[section]}
    return {key: _resolved(value) for key, value in node.items()}
