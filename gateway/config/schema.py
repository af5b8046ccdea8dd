"""The JSON Schema of configuration files, for editors and other programs."""

from __future__ import annotations

from typing import Any

from gateway.config.models import Document
from links import registry
from links.contract import Field
from transforms.errors import GatewayError

__all__ = ["json_schema"]

_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of a configuration file, with the settings of every link type that can be loaded."""
    schema = Document.model_json_schema()
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "mgw configuration"} | schema
    definitions = schema["$defs"]
    common = definitions.pop("LinkModel")
    common["properties"].pop("attributes")
    kinds = []
    for name in registry.types():
        try:
            spec = registry.spec(name)
        except (GatewayError, ModuleNotFoundError):  # not installed: its links are not described
            continue
        properties = dict(common["properties"])
        properties["type"] = {"const": name.lower(), "description": spec.description}
        properties["options"] = {
            "type": "object",
            "properties": {field.name: _schema(field) for field in spec.options},
            "additionalProperties": False,
        }
        properties |= {field.name: _schema(field) for field in spec.attributes}
        required = ["type", *(field.name for field in spec.attributes if field.required)]
        kinds.append(
            {
                "title": spec.title,
                "description": spec.description,
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": False,
            }
        )
    definitions["LinkModel"] = {"title": "Link", "description": common["description"], "oneOf": kinds}
    transformation = definitions["TransformationModel"]
    transformation["properties"].pop("definition")
    transformation["additionalProperties"] = True
    _accept_variables(schema)
    return schema


def _schema(field: Field) -> dict[str, Any]:
    result: dict[str, Any] = {"type": _TYPES[field.type], "description": field.description}
    if field.default is not None:
        result["default"] = field.default
    if field.choices:
        result["enum"] = list(field.choices)
    if field.minimum is not None:
        result["minimum"] = field.minimum
    if field.maximum is not None:
        result["maximum"] = field.maximum
    if field.secret:
        result["writeOnly"] = True
    return result


def _accept_variables(node: Any) -> None:
    """Wherever a number or a switch is expected, ``${VARIABLE}`` may stand as well."""
    if isinstance(node, list):
        for entry in node:
            _accept_variables(entry)
    if not isinstance(node, dict):
        return
    if node.get("type") in ("integer", "number", "boolean"):
        kept = {key: node.pop(key) for key in ("type", "minimum", "maximum") if key in node}
        node["anyOf"] = [kept, {"type": "string", "pattern": r"\$\{"}]
        return
    for entry in list(node.values()):
        _accept_variables(entry)
