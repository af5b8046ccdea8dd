"""Configuration files against a hub: what is wrong in them, what they would change, and the change itself."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mgw.gateway.aq import Hub, Undertaking
from mgw.gateway.config.apply import apply_actions, apply_rest, hub_is_missing, plan_for
from mgw.gateway.config.export import export_text, exported
from mgw.gateway.config.findings import Finding, errors
from mgw.gateway.config.lint import check, lint, settings_of
from mgw.gateway.config.load import OVERRIDES, STANDARD_INPUT, load, shown_file
from mgw.gateway.config.models import OF_THE_PROCESS, Document
from mgw.gateway.config.object_schemas import SCHEMA_NAMES, object_schemas
from mgw.gateway.config.plan import Action, Verb
from mgw.gateway.config.running import read_running
from mgw.gateway.config.schema import json_schema
from mgw.gateway.config.usable import Usable, usable
from mgw.gateway.definitions.objects import JobStatus
from mgw.gateway.observe.events import Journalist, ObjectRefused
from mgw.gateway.runtime.secret_files import ReadFiles
from mgw.gateway.runtime.timekeeping import events_of
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.services.hubs import open_hub
from mgw.gateway.services.impact import Impact, impact
from mgw.gateway.state.secrets import Secrets
from mgw.transforms.errors import ConfigInvalid, GatewayError

__all__ = [
    "OVERRIDES",
    "SCHEMA_NAMES",
    "STANDARD_INPUT",
    "Action",
    "Checked",
    "Document",
    "Finding",
    "Usable",
    "Verb",
    "apply",
    "apply_files",
    "check_for",
    "errors",
    "export_text",
    "exported",
    "follow",
    "hub_is_missing",
    "hub_of",
    "impact_of",
    "json_schema",
    "lint",
    "log",
    "not_kept",
    "object_schemas",
    "plan",
    "prepare",
    "prepare_left",
    "prepared_links",
    "shown_file",
    "usable_for",
    "write_export",
]

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Checked:
    """Files checked for one hub. ``document`` may be used only where ``ok`` is true."""

    document: Document
    findings: Sequence[Finding]
    ok: bool


def hub_of(files: Sequence[Path]) -> str | None:
    """The hub that the files name, or None. The file of their key is used from now on, unless the environment says."""
    settings = settings_of(files)
    if settings.secret_key_file:
        os.environ.setdefault("MGW_SECRET_KEY_FILE", settings.secret_key_file)
    return settings.hub


def check_for(url: str, files: Sequence[Path], *, alone: bool = False) -> Checked:
    """The files, checked with what the hub at ``url`` holds.

    Args:
        url: what the files refer to, or collide with, may be in that hub; so may secrets that they leave out.
        alone: the files must be complete, what the hub holds next to them is about to go.
    """
    if hub_is_missing(url):
        found = check(files, held=Document())
    else:
        with open_hub(url) as hub:
            held = read_running(hub)
        found = check(files, existing=None if alone else held, held=held)
    return Checked(found.document, found.findings, found.ok)


def plan(url: str, document: Document, *, prune: bool = False) -> list[Action]:
    """What :func:`apply` would do, in order.

    Raises:
        ConfigInvalid: a setting differs that cannot be changed after creation.
    """
    if hub_is_missing(url):
        return plan_for(None, document)
    with open_hub(url) as hub:
        return plan_for(hub, document, prune=prune)


def impact_of(url: str, actions: Sequence[Action]) -> list[Impact]:
    """The jobs of the hub at ``url`` that a plan has connect again, or stops; none, where there is no hub yet."""
    if hub_is_missing(url):
        return []
    with open_hub(url) as hub:
        return impact(hub, actions)


def apply(
    hub: Hub, document: Document, *, prune: bool = False, force: bool = False, name: str = ""
) -> Iterator[Action]:
    """Bring a hub to what a document says; every step is given when it is over, also those with nothing to do.

    Args:
        name: of the document, for the audit.
        prune: remove what the document does not name.
        force: delete the messages that what is removed holds.

    Raises:
        GatewayError: messages would be deleted, and nothing was done; or a step was refused, and the steps before it
            are done.
    """
    actions = plan_for(hub, document, prune=prune)
    return apply_actions(
        GatewayAdmin(hub), document, actions, force=force, under=Undertaking("apply", "configuration", name)
    )


def prepared_links(document: Document) -> list[str]:
    """The links whose logs the document wants to be created."""
    return [name for name, link in document.links.items() if link.prepare]


def prepare(hub: Hub, document: Document, secrets: Secrets | None = None) -> Iterator[str | GatewayError]:
    """Create the logs of the links that ask for it; gives a line for everything that was changed.

    A link that cannot be prepared now is given as an error that says so, and the others are prepared.
    """
    admin = GatewayAdmin(hub, secrets)
    for name in prepared_links(document):
        try:
            yield from admin.prepare_msgsystem_link(name).lines
        except GatewayError as error:
            yield GatewayError(
                f"link {name} is not prepared: {error.what}",
                cause=error.cause,
                cure=f"{error.cure}; then run: mgw links prepare {name}" if error.cure else f"mgw links prepare {name}",
            )


def prepare_left(hub: Hub, secrets: Secrets, files: Sequence[str | Path], done: set[str]) -> Iterator[str]:
    """Prepare the links of files that ask for it and are not in ``done``, and try their jobs at once; gives a line for
    everything that was changed. A gateway that starts before its brokers comes here until they are there.

    Raises:
        GatewayError: a link cannot be prepared now; the others are.
    """
    admin, left = GatewayAdmin(hub, secrets), None
    for name in prepared_links(usable(files, existing=read_running(hub)).document):
        if name in done:
            continue
        try:
            lines = admin.prepare_msgsystem_link(name).lines
        except GatewayError as error:
            left = error
            continue
        done.add(name)
        yield from lines
        if lines:
            for job in admin.list_jobs():
                if job.uses_link(name) and job.status is JobStatus.RETRY:
                    admin.reset_job(job.name)
    if left is not None:
        raise left


def usable_for(url: str, files: Sequence[Path]) -> Usable:
    """The files, checked with what the hub at ``url`` holds, without what is refused in them."""
    if hub_is_missing(url):
        return usable(files, existing=Document())
    with open_hub(url) as hub:
        return usable(files, existing=read_running(hub))


def not_kept(document: Document) -> list[str]:
    """The settings of a document that the hub does not keep: they are of the process that reads the file."""
    return [f"settings.{name}" for name in OF_THE_PROCESS if name in document.settings.model_fields_set]


def log(findings: Sequence[Finding]) -> None:
    """Have what was found in files in the log."""
    for finding in findings:
        _LOGGER.log(logging.ERROR if finding.severity == "error" else logging.WARNING, "%s", finding)


def follow(hub: Hub, found: Usable, agent: str) -> Iterator[Action]:
    """Bring a hub to what files say, as far as it is not refused; gives every step that is over. What is refused stays
    as it is in the hub, and is reported as an event of the agent when everything else is done.

    Raises:
        HubError: the hub cannot be used.
    """
    refused = {name: f"{finding.message}; {finding.cure}" for name, finding in found.refused.items()}

    def refuse(name: str, error: GatewayError) -> None:
        refused[name] = str(error)

    yield from apply_rest(GatewayAdmin(hub), found.document, plan_for(hub, found.document, refuse=refuse), refuse)
    journalist = Journalist(events_of(hub, agent, hub.clock))
    for name, why in refused.items():
        journalist.tell(ObjectRefused(name, why))


def apply_files(
    hub: Hub, secrets: Secrets, files: Sequence[str | Path], environ: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Check files and bring the hub to what they say; yields a line for everything that was done.

    Raises:
        ConfigInvalid: the files have errors; nothing was changed.
        GatewayError: a step was refused; the steps before it are done.
    """
    found = check(files, environ, existing=read_running(hub))
    if not found.ok:
        first, *more = [finding for finding in found.findings if finding.severity == "error"]
        rest = f" (and {len(more)} more)" if more else ""
        raise ConfigInvalid(f"{first}{rest}", cure=f"run: mgw lint {' '.join(map(str, files))}")
    log(found.findings)
    for action in apply_actions(GatewayAdmin(hub, secrets), found.document, plan_for(hub, found.document)):
        if action.changes_hub:
            yield str(action)
    for line in prepare(hub, found.document, secrets):
        yield str(line)


def read_files(files: Sequence[str | Path], environ: Mapping[str, str] | None = None) -> ReadFiles:
    """What a configuration is read from now."""
    source = load(files, os.environ if environ is None else environ)
    return ReadFiles(frozenset(map(Path, source.files)), frozenset(source.secret_files))


def write_export(text: str, output: Path) -> None:
    """Store an exported configuration.

    Raises:
        GatewayError: the file cannot be written.
    """
    try:
        output.write_text(text, "utf-8")
    except OSError as error:
        raise GatewayError(
            f"{output} cannot be written", cause=error.strerror or str(error), cure="name another file"
        ) from error
