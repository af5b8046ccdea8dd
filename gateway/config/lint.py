"""Checks configuration files without touching a hub or a broker.

Three passes. The structure: every object is validated by its model of :mod:`gateway.config.models`, one at a time, so
that one bad object does not hide the next. The meaning: :mod:`gateway.config.checks` looks at the objects together and
at the specifications of the link types, and refuses what creating them would refuse. The rehearsal: what is complete is
applied to a hub made for the purpose, so that nothing can be refused later that needs no broker to be known.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from mgw.gateway.aq import parse_url
from mgw.gateway.config.fields import Strict
from mgw.gateway.config.findings import Finding, Path, errors, nearest
from mgw.gateway.config.forms import with_logs
from mgw.gateway.config.kept import complete, missing_variables
from mgw.gateway.config.load import Source, load, no_file, read_secret
from mgw.gateway.config.models import SECTIONS, AgentModel, Document, LinkModel, SettingsModel, TransformationModel
from mgw.gateway.definitions.http_address import HttpAddress, behind_a_proxy, certificate_of
from mgw.links.contract import LinkSpec
from mgw.transforms.errors import ConfigInvalid, GatewayError, HubError

__all__ = ["Checked", "check", "check_source", "lint", "settings_of"]

#: Keys people bring along from other products, and where they belong here.
_HABITS = {
    "host": "hostname",
    "vhost": "virtual_host",
    "user": "username",
    "pass": "password",
    "topic": "provider_queue",
    "queue": "provider_queue",
    "batch": "batch_size",
    "interval": "poll_interval",
    "filter": "rule",
    "dead_letter_queue": "exception_queue",
    "comments": "comment",
    "brokers": "bootstrap_servers",
    "bootstrap": "bootstrap_servers",
    "from": "source",
    "to": "destination",
}


@dataclass(frozen=True, slots=True)
class Checked:
    """The configuration as far as it could be read, and everything found. Apply it only when there is no error."""

    document: Document
    findings: list[Finding]

    @property
    def ok(self) -> bool:
        """True when no finding is an error."""
        return not errors(self.findings)


def lint(paths: Sequence[str | FilePath], environ: Mapping[str, str] | None = None) -> list[Finding]:
    """All findings in the files taken together, in the order of files and lines."""
    return check(paths, environ).findings


def settings_of(paths: Sequence[str | FilePath], environ: Mapping[str, str] | None = None) -> SettingsModel:
    """The settings in the files, as far as they are right; what is wrong is found by :func:`check`."""
    source = load(paths, os.environ if environ is None else environ)
    return _settings(source, source.tree.get("settings"))


def check(
    paths: Sequence[str | FilePath],
    environ: Mapping[str, str] | None = None,
    *,
    existing: Document | None = None,
    held: Document | None = None,
    without: Collection[str] = (),
    lenient: bool = False,
) -> Checked:
    """Read and check files.

    Args:
        environ: variables; None means those of the process.
        existing: what a hub holds already and the files may refer to; None: the files must be complete.
        held: what the hub holds, ``existing`` if None: secrets that the files leave out, functions that it knows; where
            both are None, a secret whose variable may be empty (``${NAME:-}``) counts as known.
        without: objects, as findings name them, that are treated as if the files did not have them.
        lenient: variables that are not set and secrets that are not there are no errors, as for
            :func:`mgw.gateway.config.load.load`; the document has something in their place. Nothing is rehearsed.
    """
    source = load(paths, os.environ if environ is None else environ, lenient=lenient)
    _leave_out(source, without)
    return check_source(source, existing=existing, held=held)


def check_source(source: Source, *, existing: Document | None = None, held: Document | None = None) -> Checked:
    """Check what was read; the other arguments are those of :func:`check`."""
    from mgw.gateway.config.checks import check_meaning

    document = _structure(source)
    held = existing if held is None else held
    whole = complete(source, document, held)
    check_meaning(source, whole, existing or Document(), held or Document())
    if source.lenient:
        document = whole
    elif existing is None and not errors(source.findings):
        _rehearse(source, whole)
    order = {file: number for number, file in enumerate(source.files)}
    findings = sorted(
        dict.fromkeys(source.findings),
        key=lambda found: (order.get(found.mark.file, -1), found.mark.line, found.mark.column),
    )
    return Checked(document, findings)


def _leave_out(source: Source, objects: Collection[str]) -> None:
    for each in objects:
        section, _, name = each.partition(" ")
        source.tree[section].pop(name)
    source.findings[:] = [finding for finding in source.findings if finding.object not in objects]


def _rehearse(source: Source, document: Document) -> None:
    """Whatever creating the objects would still refuse."""
    from mgw.gateway.config.apply import rehearse

    found = rehearse(document)
    if found is not None:
        action, error = found
        message = f"{error.what}: {error.cause}" if error.cause else error.what
        path: Path = (action.section, action.name)
        variables = missing_variables(source, path)
        source.error("refused", path, message, f"set {variables}" if variables else error.cure)


def _structure(source: Source) -> Document:
    """The document with every object that is valid by itself."""
    parts: dict[str, Any] = {}
    for section, value in source.tree.items():
        if section == "version":
            if value != 1 or value is True:
                source.error("bad-value", ("version",), f"version {value!r} is unknown", "write version: 1")
        elif section == "settings":
            parts["settings"] = _settings(source, value)
        elif section in SECTIONS:
            parts[section] = _section(source, section, value)
        else:
            _unknown_key(source, (section,), ["version", "settings", *SECTIONS])
    return Document.model_construct(**(dict(Document()) | parts))


def _settings(source: Source, value: Any) -> SettingsModel:
    found = _object(source, SettingsModel, ("settings",), value if value is not None else {})
    if not isinstance(found, SettingsModel):
        return SettingsModel()
    place: Path = ("settings", "hub")
    if found.hub is not None and place not in source.unresolved:
        try:
            parse_url(found.hub)
        except HubError as error:
            source.error("bad-value", place, f"{error.what}: {error.cause}", error.cure)
    place = ("settings", "http", "listen")
    if place in source.marks and place not in source.unresolved:
        try:
            proxied = behind_a_proxy(source.environ, found.http.behind_proxy)
            files = certificate_of(source.environ, found.http.certificate_file, found.http.key_file)
            HttpAddress.parse(found.http.listen, behind_proxy=proxied, certificate=files)
        except ConfigInvalid as error:
            source.error("bad-value", place, f"{error.what}: {error.cause}", error.cure)
    place = ("settings", "secret_key_file")
    if found.secret_key_file is None or place in source.unresolved or source.remote:
        return found
    file = FilePath(source.mark(place).file).parent / found.secret_key_file
    if not file.is_file() and not source.lenient:
        source.error("missing-file", place, f"key file {file} does not exist", "create one: openssl rand -base64 32")
    return found.model_copy(update={"secret_key_file": str(file)})


def _section(source: Source, section: str, value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        source.error(
            "bad-value", (section,), f"{section} must be a mapping of names", f"write '{section}:' and 'name: {{...}}'"
        )
        return {}
    result = {}
    for name, entry in value.items():
        path: Path = (section, name)
        model = SECTIONS[section]
        values = {} if entry is None else entry
        if isinstance(values, dict):
            values = dict(values)
            if model in (LinkModel, AgentModel):
                _refuse_files(source, path, values)
                _keep_secrets(source, path, values, ("password",))
            if model is LinkModel:
                _gather_attributes(source, path, values)
            elif model is TransformationModel:
                _gather_definition(values)
        found = _object(source, model, path, values)
        if found is not None:
            result[name] = with_logs(found) if isinstance(found, LinkModel) else found
    return result


def _object(source: Source, model: type[Strict], path: Path, values: Any) -> Strict | None:
    """One object by its model, or None after adding findings."""
    if not isinstance(values, dict):
        source.error("bad-value", path, f"{path[-1]} must be a mapping", "write its settings as 'key: value' below it")
        return None
    try:
        return model.model_validate(values)
    except ValidationError as problem:
        for detail in problem.errors(include_url=False):
            _translate(source, model, path, detail)
        return None


def _translate(source: Source, model: type[Strict], path: Path, detail: ErrorDetails) -> None:
    place = (*path, *detail["loc"])
    kind = detail["type"]
    if kind == "missing":
        source.error("missing-key", path, f"{place[-1]} is missing", f"add '{place[-1]}: ...'")
        return
    if kind == "extra_forbidden":
        known = model
        for step in detail["loc"][:-1]:  # into nested models (settings.log)
            field = known.model_fields.get(str(step))
            known = (field and _model_in(field.annotation)) or known
        _unknown_key(source, place, [name for name in known.model_fields if name not in ("attributes", "definition")])
        return
    while place not in source.marks and len(place) > len(path) + 1:  # union members are no places in the file
        place = place[:-1]
    if place in source.unresolved:
        return
    name, shown = place[-1], detail["input"]
    secret = "password" in str(name).lower() or place in source.variables
    given = "" if secret or isinstance(shown, dict | list) else f" {shown!r}"
    reason = detail["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
    if reason.startswith(("greater than", "less than")):
        reason = f"a number {reason}"
    source.error("bad-value", place, f"{name} cannot be{given or ' so'}", f"give {reason}")


def _model_in(annotation: Any) -> type[Strict] | None:
    """The model that an annotation is, or holds."""
    if isinstance(annotation, type) and issubclass(annotation, Strict):
        return annotation
    return next((found for each in get_args(annotation) if (found := _model_in(each))), None)


def _unknown_key(source: Source, path: Path, known: Sequence[str]) -> None:
    word = str(path[-1])
    habit = _HABITS.get(word.lower(), "")
    guess = habit if habit in known else nearest(word, known)
    cure = f"did you mean {guess!r}?" if guess else f"known here: {', '.join(known)}"
    source.error("unknown-key", path, f"key {word!r} is not known", cure)


def _gather_attributes(source: Source, path: Path, values: dict[str, Any]) -> None:
    """Move the keys that belong to the link type into ``attributes``, and complain of those nobody knows."""
    common = [name for name in LinkModel.model_fields if name != "attributes"]
    spec = _spec_of(source, path, values)
    attributes: dict[str, Any] = {}
    fields = {field.name.lower(): field for field in spec.attributes} if spec else {}
    for name in [name for name in values if name not in common]:
        field = fields.get(name.lower())
        secret = fields.get(name.lower().removesuffix("_file"))
        value = values.pop(name)
        if field is not None and field.secret and value == "" and (*path, name) in source.blank:
            source.kept[*path, field.name] = source.blank[*path, name]
        elif field is not None:
            attributes[field.name] = value
        elif secret is not None and secret.secret and isinstance(value, str):
            attributes[secret.name] = secret_from_file(source, (*path, name), value)
        elif spec is not None:
            _unknown_key(source, (*path, name), [*common, *(field.name for field in spec.attributes)])
    if spec is not None or attributes:
        values["attributes"] = attributes
    if spec is not None and isinstance(options := values.get("options"), dict):
        secrets = {field.name.lower() for field in spec.options if field.secret}
        values["options"] = dict(options)
        below = (*path, "options")
        _keep_secrets(source, below, values["options"], [name for name in options if name.lower() in secrets])


def _refuse_files(source: Source, path: Path, values: dict[str, Any]) -> None:
    """What came from another machine names no file of this one for its password."""
    if source.remote and "password_file" in values:
        del values["password_file"]
        no_file(source, (*path, "password_file"))


def _keep_secrets(source: Source, path: Path, values: dict[str, Any], names: Sequence[str]) -> None:
    """A secret whose variable is empty is left out: a hub that holds it keeps it."""
    for name in names:
        if values.get(name) == "" and (*path, name) in source.blank:
            source.kept[*path, name] = source.blank[*path, name]
            del values[name]


def secret_from_file(source: Source, path: Path, file: str) -> str:
    """Contents of a file named by a ``..._file`` key; a finding and an empty text if it cannot be read."""
    if source.remote:
        return no_file(source, path)
    try:
        return read_secret(FilePath(source.mark(path).file).parent / file)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        message = f"{path[-1]}: {file} cannot be read: {reason}"
        return source.missing("missing-file", path, message, "check path and permissions")


def _spec_of(source: Source, path: Path, values: Mapping[str, Any]) -> LinkSpec | None:
    from mgw.links import registry

    link_type = values.get("type")
    if not isinstance(link_type, str):
        return None  # missing or not a text: the model says so
    if link_type.upper() not in registry.types():
        known = [name.lower() for name in registry.types()]
        guess = nearest(link_type, known)
        cure = f"did you mean {guess!r}?" if guess else f"use one of {', '.join(known)}"
        source.error("unknown-link-type", (*path, "type"), f"link type {link_type!r} is unknown", cure)
        return None
    try:
        registry.check_client(link_type, values)
        return registry.spec(link_type)
    except ConfigInvalid as error:  # offered by a package that is no link, or by two packages
        source.error("unknown-link-type", (*path, "type"), f"{error.what}: {error.cause}", error.cure)
    except GatewayError as error:
        source.error("missing-client", (*path, "type"), f"{error.what}: {error.cause}", error.cure)
    return None


def _gather_definition(values: dict[str, Any]) -> None:
    """What a transformation does is next to its types in the file; the registry knows its keys."""
    own = [name for name in TransformationModel.model_fields if name != "definition"]
    values["definition"] = {name: values.pop(name) for name in list(values) if name not in own}
