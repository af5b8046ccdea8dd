"""The description of the interface in the parts that people read: chapters, routes, fields."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Answer", "Chapter", "Field", "Outline", "Parameter", "Route", "Shape", "outline_of"]

_SCHEMAS = "#/components/schemas/"
_PREFIX = "/api/v1"
_DEEPEST = 2  # objects within objects whose fields are listed
_BOUNDS = {"minimum": "from", "maximum": "to", "minLength": "at least", "maxLength": "at most"}

Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Field:
    """A member of an object; of a part of it, ``part.member``."""

    name: str
    kind: str
    meaning: str
    required: bool


@dataclass(frozen=True, slots=True)
class Shape:
    """What an object has; ``forms``: its fields, in each of the forms that it may have, by the name of the form."""

    name: str
    meaning: str
    forms: Mapping[str, Sequence[Field]]


@dataclass(frozen=True, slots=True)
class Parameter:
    """What is given in the address or a header."""

    name: str
    place: str
    kind: str
    meaning: str
    required: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """A status, when it comes, and what the body is: media types or the name of a shape."""

    status: str
    when: str
    kind: str
    shape: str | None


@dataclass(frozen=True, slots=True)
class Route:
    """A method of an address.

    Attributes:
        anchor: its place in the page.
        role: that a caller needs; empty: none.
        body: what a body is, and its media types; empty: there is none.
        shape: the name of the object in the body, where it is one.
    """

    anchor: str
    method: str
    path: str
    summary: str
    meaning: str
    role: str
    parameters: Sequence[Parameter]
    body: str
    media: str
    shape: str | None
    answers: Sequence[Answer]


@dataclass(frozen=True, slots=True)
class Chapter:
    """Routes that belong together."""

    anchor: str
    title: str
    routes: Sequence[Route]


@dataclass(frozen=True, slots=True)
class Outline:
    """The whole: what is to be known first, routes, what all may refuse with, the objects that they name."""

    about: str
    chapters: Sequence[Chapter]
    refusals: Sequence[Answer]
    shapes: Mapping[str, Shape]


def outline_of(document: Schema) -> Outline:
    """The parts of an OpenAPI document."""
    schemas = document["components"]["schemas"]
    found: dict[str, list[Route]] = {}
    common: set[tuple[str, str]] | None = None
    for path, methods in document["paths"].items():
        for method, route in methods.items():
            told = {(status, each["description"]) for status, each in route["responses"].items()}
            common = told if common is None else common & told
            found.setdefault(route["tags"][0], []).append(_route(method.upper(), path, route, schemas))
    shared = {each for each in common or () if each[0] >= "400"}
    chapters = [
        Chapter(_anchor(tag), tag.replace("-", " ").capitalize(), sorted(_without(found[tag], shared), key=_place))
        for tag in sorted(found)
    ]
    return Outline(
        document["info"].get("description", ""),
        chapters,
        [Answer(status, when, "", None) for status, when in sorted(shared)],
        {name: _shape(name, schema, schemas) for name, schema in schemas.items()},
    )


def _place(route: Route) -> tuple[str, str]:
    return route.path, route.method


def _without(routes: Sequence[Route], shared: set[tuple[str, str]]) -> Iterator[Route]:
    """Routes without the refusals that all have."""
    for each in routes:
        own = [answer for answer in each.answers if (answer.status, answer.when) not in shared]
        yield Route(**{name: getattr(each, name) for name in Route.__slots__ if name != "answers"}, answers=own)


def _anchor(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _route(method: str, path: str, route: Schema, schemas: Schema) -> Route:
    body = route.get("requestBody", {})
    content = body.get("content", {})
    schema = next(iter(content.values()))["schema"] if content else {}
    return Route(
        anchor=_anchor(f"{method} {path.removeprefix(_PREFIX)}"),
        method=method,
        path=path,
        summary=route.get("summary", ""),
        meaning=" ".join(route.get("description", "").split()),
        role=route.get("x-role", ""),
        parameters=[_parameter(each) for each in route.get("parameters", ())],
        body=(body.get("description") or schema.get("description") or _kind(schema)) if content else "",
        media=", ".join(content),
        shape=next((each for each in _names(schema) if each in schemas), None),
        answers=[_answer(status, each) for status, each in sorted(route["responses"].items())],
    )


def _parameter(given: Schema) -> Parameter:
    schema = given.get("schema", {})
    meaning = given.get("description") or schema.get("description") or ""
    return Parameter(given["name"], given["in"], _kind(schema), meaning, given.get("required", False))


def _answer(status: str, given: Schema) -> Answer:
    content = given.get("content", {})
    schema = content.get("application/json", {}).get("schema", {})
    media = next(iter(content), "")
    return Answer(status, given["description"], _kind(schema) if schema else media, next(iter(_names(schema)), None))


def _names(schema: Schema) -> Iterator[str]:
    """The objects that a schema names."""
    if "$ref" in schema:
        yield str(schema["$ref"]).removeprefix(_SCHEMAS)
    for each in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        yield from _names(each)
    if "items" in schema:
        yield from _names(schema["items"])


def _shape(name: str, schema: Schema, schemas: Schema) -> Shape:
    forms = [each for each in schema.get("oneOf", ()) if "properties" in each]
    told = {each.get("title", ""): list(_fields(each, schemas)) for each in forms}
    own = list(_fields(schema, schemas))
    return Shape(name, schema.get("description", ""), told if not own else {"": own} | told)


def _fields(schema: Schema, schemas: Schema, before: str = "", depth: int = 1) -> Iterator[Field]:
    needed = schema.get("required", ())
    for name, each in schema.get("properties", {}).items():
        yield Field(f"{before}{name}", _kind(each), each.get("description", ""), name in needed and not before)
        if "properties" in each and depth < _DEEPEST:
            yield from _fields(each, schemas, f"{before}{name}.", depth + 1)


def _kind(schema: Schema) -> str:
    """What a value is, in words."""
    if "$ref" in schema:
        return str(schema["$ref"]).removeprefix(_SCHEMAS)
    if "enum" in schema or "const" in schema:
        return ", ".join(str(each) for each in schema.get("enum", [schema.get("const")]))
    for several in ("anyOf", "oneOf"):
        if several in schema:
            plain = [each for each in schema[several] if each.get("type") != "null"]
            exact = [each for each in plain if "pattern" not in each] or plain  # without their forms as text
            return " or ".join(dict.fromkeys(_kind(each) for each in exact))
    kind = schema.get("type", "value")
    if kind == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    word = " or ".join(kind) if isinstance(kind, list) else str(schema.get("format") or kind)
    bounds = [f"{text} {schema[key]:g}" for key, text in _BOUNDS.items() if key in schema]
    return f"{word}, {' '.join(bounds)}" if bounds else word
