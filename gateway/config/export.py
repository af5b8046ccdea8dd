"""The running configuration as a file that :mod:`mgw.gateway.config.apply` finds nothing to do for."""

from __future__ import annotations

import io
import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from mgw.gateway.aq import MAX_PAYLOAD, Hub
from mgw.gateway.config.comparable import DEFAULT_MAX_RETRIES, Comparable
from mgw.gateway.config.fields import Strict
from mgw.gateway.config.forms import hub_name, spec_of
from mgw.gateway.config.models import (
    SECTIONS,
    AgentModel,
    Document,
    ForeignQueueModel,
    JobModel,
    LinkModel,
    TransformationModel,
)
from mgw.gateway.config.running import read_running
from mgw.gateway.definitions.agent_options import NO_EFFECT
from mgw.gateway.definitions.objects import DEFAULT_AGENT
from mgw.links import registry
from mgw.links.options import parse
from mgw.transforms.errors import GatewayError
from mgw.transforms.steps.registry import BUILTIN_MODULE

__all__ = ["Exported", "document_text", "export_text", "exported", "object_values", "shown_text"]

#: What a hub gives a queue when the file does not say it (``mgw.gateway.aq.admin``); not worth a line.
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
_IN_VARIABLES = frozenset(string.ascii_uppercase + string.digits)


#: Settings that the hub keeps.
_KEPT_SETTINGS = {"transform_modules", "rule_functions"}

#: At the top of a file with secrets.
_ABOUT_SECRETS = """\
Secrets are not in this file. A hub that holds them keeps them as long as the variables below are not set; for another
hub set each variable, or its NAME_FILE to a file that holds the secret.
"""
_ABOUT_MODULES = """\
Transformations call functions of modules that another hub's gateway must be allowed to import, if you trust them:
settings: {{transform_modules: [{}]}}
"""
_ABOUT_LEFT_OUT = "Applied with --prune, this file removes what is left out. As the hub has it:"


@dataclass(frozen=True, slots=True)
class Exported:
    """What a hub holds, as a file.

    Attributes:
        text: YAML that ``mgw lint`` accepts.
        left_out: a line for each job that is not in it but as a comment: what it lacks, and what to do.
    """

    text: str
    left_out: tuple[str, ...]


def export_text(hub: Hub, *, abroad: bool = False) -> str:
    """Everything the hub holds as YAML; defaults are left out, each secret is a variable that may be empty.

    Args:
        abroad: it goes to another machine: of links whose client is not installed here, nobody knows what is secret, so
            their attributes are left out.
    """
    return exported(hub, abroad=abroad).text


def exported(hub: Hub, *, abroad: bool = False) -> Exported:
    """As :func:`export_text`. A job whose queue was dropped under it, which no file may name, is a comment."""
    document = read_running(hub)
    lacking = {name: gone for name, job in document.jobs.items() if (gone := _dropped(document, job))}
    if not lacking:
        return Exported(shown_text(document, abroad=abroad), ())
    jobs = {name: job for name, job in document.jobs.items() if name not in lacking}
    text = shown_text(document.model_copy(update={"jobs": jobs}), abroad=abroad)
    left_out = tuple(_told(name, gone) for name, gone in sorted(lacking.items()))
    others = {name: document.jobs[name] for name in lacking}
    whole = document_text(Document().model_copy(update={"jobs": others})).removeprefix("version: 1\n")
    comment = "".join(f"# {line}\n" for line in (*left_out, _ABOUT_LEFT_OUT, *whole.splitlines()))
    return Exported(f"{text}{comment}", left_out)


def _dropped(document: Document, job: JobModel) -> list[str]:
    """The queues of the hub that a job names and that are not there any more."""
    known = {hub_name(name) for name in document.queues}
    named = dict.fromkeys((job.source, job.destination, job.exception_queue))
    return [name for name in named if name is not None and "@" not in name and hub_name(name) not in known]


def _told(name: str, gone: Sequence[str]) -> str:
    queues, were, them = ("queue", "was", "it") if len(gone) == 1 else ("queues", "were", "them")
    again = ", ".join(f"mgw aq create {each} --table TABLE" for each in gone)
    return (
        f"job {name} is left out: it needs {queues} {', '.join(gone)}, which {were} dropped since the job was made; "
        f"create {them} first ({again}) and export again, or remove the job (mgw jobs remove {name})"
    )


def shown_text(document: Document, *, abroad: bool = False) -> str:
    """A document as YAML, for this machine or for another one (``abroad``, as for :func:`export_text`)."""
    return document_text(document, _Guarded() if abroad else None)


def document_text(document: Document, variables: _Variables | None = None) -> str:
    """A document as YAML; never with a secret in it."""
    variables = variables or _Variables()
    root = CommentedMap({"version": 1})
    if settings := document.settings.model_dump(include=_KEPT_SETTINGS, exclude_defaults=True):
        root["settings"] = CommentedMap({name: _plain(value, variables) for name, value in settings.items()})
    for section in SECTIONS:
        objects: dict[str, Strict] = getattr(document, section)
        if section == "agents":
            objects = {name: agent for name, agent in objects.items() if name != DEFAULT_AGENT or agent != AgentModel()}
        if objects:
            root[section] = CommentedMap({name: _object(name, objects[name], variables) for name in sorted(objects)})
    allowed = document.settings.transform_modules
    named = {module for each in document.transformations.values() for module in _modules(each)}
    modules = sorted(each for each in named if not any(f"{each}.".startswith(f"{one}.") for one in allowed))
    about = [_ABOUT_SECRETS] if variables.taken else []
    about += [_ABOUT_MODULES.format(", ".join(modules))] if modules else []
    if about:
        root.yaml_set_start_comment("\n".join(about))
    yaml = YAML(typ="rt")
    yaml.width = 10_000
    yaml.indent(mapping=2, sequence=4, offset=2)
    text = io.StringIO()
    yaml.dump(root, text)
    return text.getvalue()


def object_values(name: str, model: Strict) -> tuple[dict[str, Any], list[str]]:
    """One object as plain data, without what is left at its default, and without secrets; and the keys of the secrets
    that it has: ``password``, ``options.token``.
    """
    without = _LeftOut()
    return dict(_object(name, model, without)), without.keys


class _Variables:
    """Texts as a file holds them: names of variables for secrets, each given once.

    Attributes:
        tells_all: whether settings are told of which nobody knows here whether they are secret.
    """

    tells_all = True

    def __init__(self) -> None:
        self.taken: set[str] = set()

    @staticmethod
    def text(value: str) -> str:
        """As it must be in the file to be read back unchanged: what looks like a variable, and what breaks lines."""
        text = value.replace("${", "$${")
        return text if text.replace(" ", "").isprintable() else DoubleQuotedScalarString(text)

    def placeholder(self, name: str, secret: str) -> str | None:
        """What is written in the file for a secret of the object ``name``."""
        variable = first = "".join(each if each in _IN_VARIABLES else "_" for each in f"{name}_{secret}".upper())
        number = 2
        while variable in self.taken:
            variable, number = f"{first}_{number}", number + 1
        self.taken.add(variable)
        return f"${{{variable}:-}}"


class _Guarded(_Variables):
    """The same, where nobody may see more than is known to be harmless."""

    tells_all = False


class _LeftOut(_Variables):
    """Texts as they are, and no secrets."""

    tells_all = False

    def __init__(self) -> None:
        super().__init__()
        self.keys: list[str] = []

    @staticmethod
    def text(value: str) -> str:
        """The value itself."""
        return value

    def placeholder(self, name: str, secret: str) -> str | None:  # noqa: ARG002  the same for every object
        """Nothing."""
        self.keys.append(secret)
        return None


def _modules(transformation: TransformationModel) -> list[str]:
    """The module of the function that a transformation calls, if it is none of the gateway's."""
    function = transformation.definition.get("function")
    module = function.partition(":")[0] if isinstance(function, str) else ""
    return [module] if module not in ("", BUILTIN_MODULE) else []


def _object(name: str, model: Strict, variables: _Variables) -> CommentedMap:
    values = model.model_dump(exclude_defaults=True, exclude={"definition", "password", "password_file"})
    result = CommentedMap()
    secrets: dict[str, str | None] = {}
    if isinstance(model, AgentModel | LinkModel) and model.password is not None:
        secrets["password"] = variables.placeholder(name, "password")
    if isinstance(model, LinkModel):
        result["type"] = values.pop("type").lower()
        values.pop("attributes", None)
        secrets |= _attributes(name, model, result, values, variables)
    _as_people_write(name, model, values)
    for key, value in values.items():
        if value is None or value == {} or (key in _UNSAID and _UNSAID[key] == value):
            continue
        result[key] = value.lower() if key in ("type", "domain") else _plain(value, variables)
        if isinstance(model, AgentModel) and key in NO_EFFECT:
            result.yaml_add_eol_comment("stored, has no effect", key)
        if key == "username" and secrets.get("password") is not None:
            result["password"] = secrets.pop("password")
    result.update({key: value for key, value in secrets.items() if value is not None})
    if isinstance(model, LinkModel):
        _secret_options(name, model, result, variables)
    return result


def _as_people_write(name: str, model: Strict, values: dict[str, Any]) -> None:
    if isinstance(model, TransformationModel):
        values |= Comparable([]).settings(name, model).values["definition"]
    if isinstance(model, ForeignQueueModel) and model.provider_queue == name.rpartition("@")[0]:
        values.pop("provider_queue", None)
    if isinstance(model, JobModel) and "msgbatchsize" in values.get("options", {}):
        values["batch_size"] = int(values["options"].pop("msgbatchsize"))


def _attributes(
    name: str, link: LinkModel, result: CommentedMap, values: dict[str, Any], variables: _Variables
) -> dict[str, str | None]:
    """Add attributes that differ from their default; placeholders for those that are secret and set."""
    try:
        spec = registry.spec(link.type)
        held = parse(spec.attributes, link.attributes, f"link {name}")
        fields = spec.attributes
        hidden = {field.name.lower() for field in spec.options if field.secret}
    except GatewayError:  # its client is not installed here: everything as stored
        held, fields, hidden = dict(link.attributes), (), set()
        if variables.tells_all:
            result.update({key: value for key, value in held.items() if value is not None})
        else:
            values.pop("options", None)
    secrets: dict[str, str | None] = {}
    for field in fields:
        value = held[field.name.lower()]
        if value is None:
            continue
        if field.secret:
            secrets[field.name] = variables.placeholder(name, field.name)
        elif value != field.default or field.required:  # a file has to name it
            result[field.name] = _plain(value, variables)
    if hidden:
        values["options"] = {key: value for key, value in link.options.items() if key.lower() not in hidden}
    return secrets


def _secret_options(name: str, link: LinkModel, result: CommentedMap, variables: _Variables) -> None:
    spec = spec_of(link.type)
    hidden = {field.name.lower() for field in spec.options if field.secret} if spec else set()
    for option in sorted(option for option in link.options if option.lower() in hidden):
        if (variable := variables.placeholder(name, option)) is not None:
            result.setdefault("options", CommentedMap())[option] = variable


def _plain(value: Any, variables: _Variables) -> Any:
    if isinstance(value, dict):
        return CommentedMap({key: _plain(entry, variables) for key, entry in value.items() if entry is not None})
    if isinstance(value, list):
        return [_plain(entry, variables) for entry in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return variables.text(value) if isinstance(value, str) else value
