"""The running configuration as a file that :mod:`gateway.config.apply` finds nothing to do for."""

from __future__ import annotations

import io
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap

from gateway.agentsettings import NO_EFFECT
from gateway.aq.admin import MAX_PAYLOAD
from gateway.aq.hub import Hub
from gateway.config.comparable import DEFAULT_MAX_RETRIES, Comparable
from gateway.config.models import (
    SECTIONS,
    AgentModel,
    Document,
    ForeignQueueModel,
    JobModel,
    LinkModel,
    Strict,
    TransformationModel,
)
from gateway.config.running import read_running
from links import registry
from links.options import parse
from transforms.errors import GatewayError

__all__ = ["document_text", "export_text"]

#: What a hub gives a queue when the file does not say it (``gateway.aq.admin``); not worth a line.
_UNSAID = {
    "sort_list": "ENQ_TIME",
    "compatible": "10.0",
    "max_payload": MAX_PAYLOAD,
    "message_grouping": "NONE",
    "secure": False,
    "jms_types": False,
    "primary_instance": 0,
    "secondary_instance": 0,
    "multiple_consumers": False,
    "payload_type": "BASIC",
    "max_retries": DEFAULT_MAX_RETRIES,
}


def export_text(hub: Hub) -> str:
    """Everything the hub holds as YAML; defaults are left out, secrets become comments that name a variable."""
    return document_text(read_running(hub))


def document_text(document: Document) -> str:
    """A document as YAML; never with a secret in it."""
    root = CommentedMap({"version": 1})
    for section in SECTIONS:
        objects: dict[str, Strict] = getattr(document, section)
        if objects:
            root[section] = CommentedMap({name: _object(name, objects[name]) for name in sorted(objects)})
    yaml = YAML(typ="rt")
    yaml.width = 10_000
    yaml.indent(mapping=2, sequence=4, offset=2)
    text = io.StringIO()
    yaml.dump(root, text)
    return text.getvalue()


def _object(name: str, model: Strict) -> CommentedMap:
    values = model.model_dump(exclude_defaults=True, exclude={"definition", "password", "password_file"})
    result = CommentedMap()
    if isinstance(model, LinkModel):
        result["type"] = values.pop("type").lower()
        values.pop("attributes", None)
        secrets = _attributes(name, model, result, values)
    else:
        secrets = ["password"] if isinstance(model, AgentModel) and model.username else []
        if isinstance(model, TransformationModel):
            values |= Comparable([]).settings(name, model).values["definition"]
    if isinstance(model, ForeignQueueModel) and model.provider_queue == name.rpartition("@")[0]:
        values.pop("provider_queue", None)
    if isinstance(model, JobModel) and "msgbatchsize" in values.get("options", {}):
        values["batch_size"] = int(values["options"].pop("msgbatchsize"))
    for key, value in values.items():
        if value is None or value == {} or (key in _UNSAID and _UNSAID[key] == value):
            continue
        result[key] = value.lower() if key in ("type", "domain") else _plain(value)
        if isinstance(model, AgentModel) and key in NO_EFFECT:
            result.yaml_add_eol_comment("stored, has no effect", key)
    for secret in secrets:
        hint = f"{secret}: ${{{_variable(name)}_{secret.upper()}}}  # kept as it is while this key is missing"
        result.yaml_set_comment_before_after_key(next(iter(result), None), before=hint, indent=4)
    return result


def _attributes(name: str, link: LinkModel, result: CommentedMap, values: dict[str, Any]) -> list[str]:
    """Attributes that differ from their default; the names of those that are secret and set."""
    secrets = ["password"] if link.password else []
    try:
        spec = registry.spec(link.type)
        held = parse(spec.attributes, link.attributes, f"link {name}")
        fields = spec.attributes
        hidden = {field.name.lower() for field in spec.options if field.secret}
    except GatewayError:  # its client is not installed here: everything as stored
        held, fields, hidden = dict(link.attributes), (), set()
        result.update({key: value for key, value in held.items() if value is not None})
    for field in fields:
        value = held[field.name.lower()]
        if value is not None and field.secret:
            secrets.append(field.name)
        elif value != field.default:
            result[field.name] = _plain(value)
    if hidden:
        values["options"] = {key: value for key, value in link.options.items() if key.lower() not in hidden}
    return secrets


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return CommentedMap({key: _plain(entry) for key, entry in value.items() if entry is not None})
    if isinstance(value, float) and value.is_integer():
        return int(value)
    # A text that looks like a variable must come back as it is.
    return value.replace("${", "$${") if isinstance(value, str) else value


def _variable(name: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in name.upper())
