"""The JSON Schema of configuration files, for editors and other programs.

It is made from the models, and from the descriptions of the link types, jobs and agents. It accepts what ``mgw lint``
accepts as far as a schema can say it: keys, types, choices, ranges, what a key excludes or needs. Names that refer to
each other, expressions and what only a hub would refuse are the linter's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from mgw.gateway.aq import COMPATIBLE, QUEUE_TABLE_OPTIONS, SUBSCRIBER_OPTIONS
from mgw.gateway.config.models import SECTIONS, Document, QueueTableModel
from mgw.gateway.config.schema_parts import (
    VARIABLE,
    as_written,
    in_any_case,
    merged,
    one_of_the_names,
    settings,
    whole,
)
from mgw.gateway.definitions.agent_options import AGENT_OPTIONS
from mgw.gateway.definitions.job_options import JOB_OPTIONS
from mgw.links import registry
from mgw.links.contract import Field, LinkSpec
from mgw.transforms.errors import GatewayError
from mgw.transforms.steps.chain import MAX_STEPS, MAX_TIME_LIMIT

__all__ = ["FILE", "SCHEMA_ID", "json_schema"]

SCHEMA_ID: Final = "urn:messaging-gateway:configuration:1"

#: The schema as it is shipped, with the gateway's own link types; ``python -m mgw.gateway.cli.reference`` writes it.
FILE: Final = Path(__file__).parent / "gateway.schema.json"

_IDENTIFIER = "[A-Za-z][A-Za-z0-9_$#.-]{0,127}"
_NAMES = {
    "links": whole(_IDENTIFIER),
    "jobs": whole(_IDENTIFIER),
    "foreign_queues": "^[!-?A-~]{1,128}@[^@]+$",
}
_STORAGE = [name for name in QueueTableModel.model_fields if name != "comment"]


def json_schema(*, own: bool = False) -> dict[str, Any]:
    """JSON Schema (2020-12) of a configuration file, with the settings of every link type that can be loaded.

    Args:
        own: only the link types of the gateway itself, for the file that is shipped.
    """
    schema = Document.model_json_schema()
    definitions = schema.pop("$defs")
    specs = _specs(own=own)
    link = definitions.pop("LinkModel")
    definitions = {name: as_written(each) for name, each in definitions.items()}
    definitions["LinkModel"] = _link(link, specs)
    _agent(definitions["AgentModel"])
    _foreign_queue(definitions["ForeignQueueModel"], specs)
    _job(definitions["JobModel"], specs)
    _object_type(definitions["ObjectTypeModel"])
    _queue_table(definitions["QueueTableModel"])
    _queue(definitions["QueueModel"])
    definitions["SubscriberModel"]["properties"]["options"] = _options(SUBSCRIBER_OPTIONS)
    _transformation(definitions["TransformationModel"])
    sections = {name: _section(name, schema["properties"][name]) for name in SECTIONS}
    subscribers = definitions["QueueModel"]["properties"]["subscribers"]
    subscribers["anyOf"][0]["additionalProperties"] = _or_nothing(subscribers["anyOf"][0]["additionalProperties"])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        "title": "mgw configuration",
        "description": schema["description"],
        "type": "object",
        "properties": {
            "version": schema["properties"]["version"] | {"const": 1},
            "settings": _or_nothing(schema["properties"]["settings"]),
            **sections,
        },
        "additionalProperties": False,
        "$defs": definitions,
    }


def _specs(*, own: bool) -> list[LinkSpec]:
    """The link types that are there; those whose client is not installed are not described."""
    found = []
    for name in registry.types(own=own):
        try:
            found.append(registry.spec(name))
        except (GatewayError, ModuleNotFoundError):
            continue
    return found


def _or_nothing(schema: dict[str, Any]) -> dict[str, Any]:
    annotations = {key: value for key, value in schema.items() if key in ("description", "default")}
    return annotations | {
        "anyOf": [{key: value for key, value in schema.items() if key not in annotations}, {"type": "null"}]
    }


def _section(name: str, given: dict[str, Any]) -> dict[str, Any]:
    """A section: objects by name. Nothing at all is an object without settings."""
    objects: dict[str, Any] = {"type": "object", "additionalProperties": _or_nothing(given["additionalProperties"])}
    if SECTIONS[name].model_json_schema().get("required"):
        objects["additionalProperties"] = given["additionalProperties"]
    if name in _NAMES:
        objects["propertyNames"] = {"pattern": _NAMES[name]}
    return {"description": given["description"], "anyOf": [objects, {"type": "null"}]}


def _link(common: dict[str, Any], specs: list[LinkSpec]) -> dict[str, Any]:
    """A link: what it takes depends on its type."""
    shared = as_written({"properties": common["properties"]})["properties"]
    shared.pop("attributes")
    kinds = [_link_of(spec, shared) for spec in specs]
    unknown = {
        "title": "Link of a type that a variable names",
        "type": "object",
        "properties": {"type": VARIABLE},
        "required": ["type"],
    }
    return {"title": "Link", "description": common["description"], "oneOf": [*kinds, unknown]}


def _link_of(spec: LinkSpec, shared: dict[str, Any]) -> dict[str, Any]:
    named, patterns = settings(spec.attributes, secret_files=True)
    own = {name: each for name, each in named.items() if name not in shared}
    patterns = {pattern: each for pattern, each in patterns.items() if pattern not in _patterns_of(shared)}
    properties: dict[str, Any] = dict(shared) | own
    properties["type"] = {
        "description": spec.description,
        "anyOf": [{"const": spec.type.lower()}, {"type": "string", "pattern": rf"^\s*{in_any_case(spec.type)}\s*$"}],
    }
    properties["options"] = _options(spec.options)
    required = [
        [field.name, *([f"{field.name}_file"] if field.secret else []), *([field.instead] if field.instead else [])]
        for field in spec.attributes
        if field.required
    ]
    return {
        "title": spec.title,
        "description": spec.description,
        "type": "object",
        "properties": properties,
        "patternProperties": patterns,
        "required": ["type"],
        "allOf": [_not_both("password", "password_file"), *(one_of_the_names(names) for names in required)],
        "additionalProperties": False,
    }


def _patterns_of(names: dict[str, Any]) -> set[str]:
    return {whole(in_any_case(name)) for name in names}


def _options(fields: tuple[Field, ...]) -> dict[str, Any]:
    named, patterns = settings(fields)
    return {"type": "object", "properties": named, "patternProperties": patterns, "additionalProperties": False}


def _not_both(one: str, other: str) -> dict[str, Any]:
    return {"not": {"required": [one, other]}}


def _all_of(definition: dict[str, Any], *conditions: dict[str, Any]) -> None:
    definition["allOf"] = [*definition.get("allOf", []), *conditions]


def _agent(definition: dict[str, Any]) -> None:
    definition["properties"]["options"] = _options(AGENT_OPTIONS)
    _all_of(definition, _not_both("password", "password_file"))


def _foreign_queue(definition: dict[str, Any], specs: list[LinkSpec]) -> None:
    """Options of every link type: which one it is, the name of the queue says, and the linter reads it."""
    definition["properties"]["options"] = _options_of_all((), [spec.queue_options for spec in specs])


def _job(definition: dict[str, Any], specs: list[LinkSpec]) -> None:
    options = _options_of_all(JOB_OPTIONS, [spec.job_options for spec in specs])
    definition["properties"]["options"] = options
    batch_size = one_of_the_names(["MsgBatchSize"])
    _all_of(
        definition,
        {"not": {"required": ["batch_size", "options"], "properties": {"batch_size": _GIVEN, "options": batch_size}}},
    )


def _options_of_all(common: tuple[Field, ...], parts: list[tuple[Field, ...]]) -> dict[str, Any]:
    every = [settings(common), *(settings(fields) for fields in parts)]
    return {
        "type": "object",
        "properties": merged(*(named for named, _ in every)),
        "patternProperties": merged(*(patterns for _, patterns in every)),
        "additionalProperties": False,
    }


def _object_type(definition: dict[str, Any]) -> None:
    filled = {"properties": {"attributes": {"minProperties": 1}}, "required": ["attributes"]}
    array = {"properties": {"array": _GIVEN}, "required": ["array"]}
    definition["oneOf"] = [filled, array]


_GIVEN: dict[str, Any] = {"not": {"type": "null"}}


def _queue_table(definition: dict[str, Any]) -> None:
    _storage(definition)


def _queue(definition: dict[str, Any]) -> None:
    _storage(definition)
    elsewhere = {"required": ["queue_table"], "properties": {"queue_table": _GIVEN}}
    exception = {"required": ["type"], "properties": {"type": {"pattern": rf"^\s*{in_any_case('EXCEPTION')}\s*$"}}}
    _all_of(
        definition,
        {"if": elsewhere, "then": {"not": {"anyOf": [{"required": [name]} for name in _STORAGE]}}},
        {
            "if": exception,
            "then": {
                "not": {"anyOf": [{"required": [name]} for name in ("max_retries", "retry_delay", "retention_time")]}
            },
        },
    )


def _storage(definition: dict[str, Any]) -> None:
    """What holds for the attributes of a queue table, there and in a queue."""
    compatible = definition["properties"]["compatible"]
    numbers = [float(each) for each in COMPATIBLE]
    definition["properties"]["options"] = _or_nothing(_options(QUEUE_TABLE_OPTIONS))
    compatible["anyOf"] = [{"enum": [*COMPATIBLE, *numbers]}, VARIABLE, {"type": "null"}]
    second = {
        "required": ["secondary_instance"],
        "properties": {"secondary_instance": {"type": "integer", "minimum": 1}},
    }
    first = {"required": ["primary_instance"], "properties": {"primary_instance": {"not": {"enum": [0, "0", None]}}}}
    _all_of(definition, {"if": second, "then": first})


_PROPERTIES = "|".join(in_any_case(each) for each in ("correlation", "corrid", "priority", "expiration", "delay"))
_BODY = "|".join(in_any_case(each) for each in ("body", "user_data"))
_TARGET = rf"^\s*(?:(?:{_BODY})(?:[.].+)?|{_PROPERTIES}|{in_any_case('header')}[.].+)\s*$"


def _transformation(definition: dict[str, Any]) -> None:
    """What it does is next to its types: a function, assignments or steps, and maybe a filter."""
    definition["properties"].pop("definition")
    values = {"type": ["string", "number", "boolean", "null"]}
    parts = {
        "function": ({"type": "string"}, "`package.module:function` of an allowed module."),
        "options": ({"type": "object"}, "Keyword arguments of the function."),
        "set": (
            {"type": "object", "propertyNames": {"pattern": _TARGET}, "additionalProperties": values},
            "Expression by target: `body`, `body.<attribute>`, `correlation`, `priority`, `expiration`, `delay`, "
            "`header.<name>`.",
        ),
        "unset": ({"type": "array", "items": {"type": "string", "pattern": _TARGET}}, "Targets to clear."),
        "steps": (
            {"type": "array", "items": {"type": "string"}, "maxItems": MAX_STEPS},
            "Transformations that are applied one after the other.",
        ),
        "where": ({"type": "string"}, "Other messages are filtered on purpose."),
        "time_limit": (
            {"type": "number", "exclusiveMinimum": 0, "maximum": MAX_TIME_LIMIT},
            "Seconds that it may take for one message; a message that takes longer fails.",
        ),
    }
    definition["properties"] |= {
        name: {"description": text, "anyOf": [value, {"type": "null"}]} for name, (value, text) in parts.items()
    }
    function, options, assignments, unset, steps, where, _ = (_filled(name) for name in parts)
    _all_of(
        definition,
        {"anyOf": [function, assignments, unset, steps, where]},
        {"not": {"allOf": [function, {"anyOf": [assignments, unset]}]}},
        {"not": {"allOf": [steps, {"anyOf": [function, assignments, unset]}]}},
        {"if": options, "then": function},
    )


def _filled(name: str) -> dict[str, Any]:
    """Of an object: the key is there, and not empty."""
    filled = {"type": ["string", "object", "array"], "minLength": 1, "minProperties": 1, "minItems": 1}
    return {"required": [name], "properties": {name: filled}}
