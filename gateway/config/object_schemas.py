"""The JSON Schemas of single objects, as programs send them in JSON: those of files without what only files can say."""

from __future__ import annotations

from typing import Any

from mgw.gateway.config.models import SECTIONS
from mgw.gateway.config.schema import json_schema
from mgw.gateway.config.schema_parts import VARIABLE

__all__ = ["SCHEMA_NAMES", "object_schemas"]

#: Section to the name of the schema of its objects: ``foreign_queues`` to ``ForeignQueue``.
SCHEMA_NAMES = {section: model.__name__.removesuffix("Model") for section, model in SECTIONS.items()}
_OWN = (*SCHEMA_NAMES.values(), "Subscriber")


def object_schemas(place: str) -> dict[str, Any]:
    """The schema of each kind of object by its name: variables and files of secrets are no part of it.

    Args:
        place: in front of the names in references: ``#/components/schemas/``.
    """
    definitions = json_schema()["$defs"]
    return {name: _of_json(definitions[f"{name}Model"], place) for name in _OWN}


def _of_json(node: Any, place: str) -> Any:
    if isinstance(node, list):
        return [_of_json(each, place) for each in node if not _is_variable(each)]
    if not isinstance(node, dict):
        return node
    found = {key: _of_json(value, place) for key, value in node.items()}
    for names in ("properties", "patternProperties"):
        if isinstance(held := found.get(names), dict):
            found[names] = {name: value for name, value in held.items() if not _is_file(name, held)}
    if isinstance(found.get("$ref"), str):
        found["$ref"] = place + found["$ref"].rpartition("/")[2].removesuffix("Model")
    return found


def _is_variable(node: Any) -> bool:
    """Whether a choice is a variable, or a link of a type that a variable names."""
    return node == VARIABLE or (isinstance(node, dict) and node.get("properties") == {"type": VARIABLE})


def _is_file(name: str, held: dict[str, Any]) -> bool:
    """Whether a key names the file of a secret that another key holds."""
    plain = name.removesuffix("_file")
    ending = "_[Ff][Ii][Ll][Ee])$"
    return (plain != name and plain in held and _is_secret(plain, held[plain])) or (
        name.endswith(ending) and f"{name.removesuffix(ending)})$" in held
    )


def _is_secret(name: str, schema: Any) -> bool:
    return name == "password" or (isinstance(schema, dict) and bool(schema.get("writeOnly")))
