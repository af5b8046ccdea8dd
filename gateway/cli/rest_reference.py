"""rest.md: every route of the REST interface, from its own description."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mgw.gateway.config.reference_text import cell, page, table
from mgw.gateway.services.configuration import SCHEMA_NAMES

__all__ = ["rest_page"]

_REFERENCE = "#/components/schemas/"


def rest_page() -> str:
    """The page."""
    from fastapi import FastAPI

    from mgw.gateway.http.openapi import described
    from mgw.gateway.http.rest import router

    app = FastAPI(title="Messaging gateway")
    app.include_router(router)
    document = described(app)
    refusals = document["components"]["schemas"]["ProblemModel"]["properties"]
    parts = [
        "# REST\n",
        "With the extra `http`, the port of `mgw run` and `mgw serve` answers under `/api/v1`; "
        "[use REST](../how-to/rest.md) shows how. `/docs` describes every route in a browser, without the internet, "
        "and `/openapi.json` for programs (OpenAPI 3.1). "
        "`DELETE`, `PATCH` and `PUT` of definitions need the role administrator, verbs of links, jobs and agents the "
        "role operator, the rest the role viewer, unless a route says otherwise. Names are percent-encoded: "
        "`orders%40rabbit`, `in%2Fa%40rabbit`; letter case does not matter.\n",
        "Lists that have the parameter `cursor` come in pages: `limit` objects, and `cursor` for the next ones. Those "
        f"that have none are whole: {', '.join(_whole(document))}. One object has an `ETag`; a change with "
        "`If-Match` is done only if nobody was faster, and answered with 412 otherwise.\n",
        "## Refusals\n",
        "Every route may refuse with `application/problem+json` (RFC 9457):\n",
        table(("Member", "Meaning"), [(f"`{name}`", cell(_text(each))) for name, each in refusals.items()]),
        table(("Status", "When"), _refusals(document)),
    ]
    common = {status for status, _ in _refusals(document)}
    for tag, routes in _by_tag(document).items():
        parts.append(f"## {tag.replace('-', ' ').capitalize()}\n")
        for method, path, route in routes:
            parts += _route(method, path, route, common)
    return page(parts)


def _whole(document: Mapping[str, Any]) -> Iterator[str]:
    """The lists that come in one piece."""
    for path, methods in document["paths"].items():
        content = methods.get("get", {}).get("responses", {}).get("200", {}).get("content", {})
        if content.get("application/json", {}).get("schema", {}).get("type") == "array":
            yield f"`{path.removeprefix('/api/v1')}`"


def _text(schema: Mapping[str, Any]) -> str:
    return str(schema.get("description") or "The status of the answer.")


def _by_tag(document: Mapping[str, Any]) -> dict[str, list[tuple[str, str, Mapping[str, Any]]]]:
    found: dict[str, list[tuple[str, str, Mapping[str, Any]]]] = {}
    for path, methods in document["paths"].items():
        for method, route in methods.items():
            found.setdefault(route["tags"][0], []).append((method.upper(), path, route))
    return {tag: sorted(found[tag], key=lambda route: (route[1], route[0])) for tag in sorted(found)}


def _refusals(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What every route may refuse with: the statuses that the first one has."""
    route = next(iter(next(iter(document["paths"].values())).values()))
    responses = route["responses"].items()
    return [(f"{status}", cell(each["description"])) for status, each in responses if int(status) >= 400]


def _route(method: str, path: str, route: Mapping[str, Any], common: set[str]) -> Iterator[str]:
    yield f"### {method} {path.removeprefix('/api/v1')}\n"
    role = f" Role: {route['x-role']}." if "x-role" in route else ""
    yield f"{cell(' '.join(route.get('description', '').split()))}{role}\n"
    rows = [
        (f"`{each['name']}`", each["in"], cell(each.get("description") or "")) for each in route.get("parameters", ())
    ]
    if rows:
        yield table(("Parameter", "In", "Meaning"), rows)
    if body := route.get("requestBody"):
        kinds = ", ".join(f"`{kind}`" for kind in body["content"])
        yield f"Body ({kinds}): {_shape(next(iter(body['content'].values()))['schema'])}.\n"
    answers = [
        (status, cell(each["description"]), _content(each))
        for status, each in sorted(route["responses"].items())
        if status not in common
    ]
    yield table(("Status", "When", "Body"), answers)


def _content(answer: Mapping[str, Any]) -> str:
    for kind, each in answer.get("content", {}).items():
        return _shape(each["schema"]) if kind == "application/json" else f"`{kind}`"
    return ""


def _shape(schema: Mapping[str, Any]) -> str:
    """A schema in a few words: where it is described, or its name."""
    if "$ref" in schema:
        name = str(schema["$ref"]).removeprefix(_REFERENCE)
        section = next((section for section, own in SCHEMA_NAMES.items() if own == name), None)
        return f"`{name}`" if section is None else f"as under [{section}](configuration.md#{section})"
    if schema.get("type") == "array":
        return f"a list of {_shape(schema['items'])}"
    return cell(str(schema.get("description") or "an object"))
