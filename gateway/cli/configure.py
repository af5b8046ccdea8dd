"""``mgw lint``, ``plan``, ``apply``, ``export`` and ``schema``."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli.common import EXIT_CONFIG, hub_url, open_hub, print_json, say

if TYPE_CHECKING:
    from gateway.config.findings import Finding
    from gateway.config.models import Document
    from gateway.config.plan import Action

__all__ = ["bring_to", "register"]

Files = Annotated[list[Path], typer.Argument(metavar="FILE", help="Configuration files; several are merged.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.command()(lint)
    app.command()(plan)
    app.command()(apply)
    app.command()(export)
    app.command()(schema)


def lint(
    files: Files,
    as_json: Json = False,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings fail as well.")] = False,
) -> None:
    """Check configuration files without touching a hub or a broker. Exit 78 when there is an error."""
    from gateway.config.findings import errors
    from gateway.config.lint import lint as find

    findings = find(files)
    if as_json:
        print_json([finding.as_json() for finding in findings])
    else:
        for finding in findings:
            say(str(finding))
        if not findings:
            say(f"{', '.join(map(str, files))}: nothing to complain about")
    if errors(findings) or (strict and findings):
        raise typer.Exit(EXIT_CONFIG)


def plan(
    ctx: typer.Context,
    files: Files,
    as_json: Json = False,
    prune: Annotated[bool, typer.Option("--prune", help="Include the removal of what the files do not name.")] = False,
) -> None:
    """Show what 'apply' would do, and do nothing."""
    from gateway.config.apply import plan_for

    document = _checked(ctx, files, quiet=as_json, alone=prune)
    url = hub_url(ctx, document.settings.hub)
    if _missing(url):
        actions = plan_for(None, document)
        if not as_json:
            say(f"hub {_shown(url)} does not exist yet; apply would create it")
    else:
        with open_hub(url) as hub:
            actions = plan_for(hub, document, prune=prune)
    if as_json:
        print_json([action.as_json() for action in actions])
        return
    _print(actions, lines=True, intent="to be ")


def apply(
    ctx: typer.Context,
    files: Files,
    create_hub: Annotated[
        bool, typer.Option("--create-hub/--no-create-hub", help="Create the hub if it is missing.")
    ] = True,
    prune: Annotated[bool, typer.Option("--prune", help="Remove what the files do not name.")] = False,
) -> None:
    """Bring the hub to what the files say. Running it again does nothing; a broken-off run is finished.

    What the files do not name is left alone, and named at the end. A secret without a key, or whose variable is empty
    (`${NAME:-}`), is kept. Each object is one transaction: what was done before an error stays done.
    """
    bring_to(ctx, files, create_hub=create_hub, prune=prune)


def export(
    ctx: typer.Context,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to a file.")] = None,
) -> None:
    """Print what the hub holds as a configuration file; applying it to this hub changes nothing.

    Each secret is a variable that may be empty: this hub keeps what it holds then, another one needs the variable.
    """
    from gateway.config.export import export_text

    with open_hub(hub_url(ctx)) as hub:
        text = export_text(hub)
    if output is None:
        sys.stdout.write(text)
        return
    from transforms.errors import GatewayError

    try:
        output.write_text(text, "utf-8")
    except OSError as error:
        raise GatewayError(
            f"{output} cannot be written", cause=error.strerror or str(error), cure="name another file"
        ) from error


def schema() -> None:
    """Print the JSON Schema of configuration files, for editors."""
    from gateway.config.schema import json_schema

    print_json(json_schema())


def bring_to(ctx: typer.Context, files: list[Path], *, create_hub: bool = True, prune: bool = False) -> Document:
    """What ``mgw apply`` does, and ``mgw run FILE`` first; the document that the hub now follows."""
    from gateway.admin import GatewayAdmin
    from gateway.config.apply import apply_action, plan_for

    document = _checked(ctx, files, alone=prune)
    url = hub_url(ctx, document.settings.hub)
    if create_hub and _missing(url):
        say(f"create hub {_shown(url)}")
    with open_hub(url, create=create_hub) as hub:
        actions = plan_for(hub, document, prune=prune)
        procedures = GatewayAdmin(hub)
        for action in actions:
            if action.verb in ("create", "alter", "remove"):
                apply_action(procedures, document, action)
                say(str(action))
                sys.stdout.flush()
    _print(actions, lines=False)
    return document


def _checked(ctx: typer.Context, files: list[Path], *, quiet: bool = False, alone: bool = False) -> Document:
    """The document, after every error and warning has been shown; leaves with 78 if there is an error.

    ``alone``: the files must be complete, what the hub holds beside them is about to go.
    """
    from gateway.config.lint import check, settings_of
    from gateway.config.models import Document
    from gateway.config.running import read_running

    settings = settings_of(files)
    if settings.secret_key_file:
        os.environ.setdefault("MGW_SECRET_KEY_FILE", settings.secret_key_file)
    url = hub_url(ctx, settings.hub)
    if _missing(url):
        found = check(files, held=Document())
    else:  # what the files refer to, or collide with, may be in the hub; so are secrets that they leave out
        with open_hub(url) as hub:
            held = read_running(hub)
        found = check(files, existing=None if alone else held, held=held)
    _show(found.findings, quiet=quiet)
    if not found.ok:
        raise typer.Exit(EXIT_CONFIG)
    return found.document


def _show(findings: list[Finding], *, quiet: bool) -> None:
    for finding in findings:
        if finding.severity == "error" or not quiet:
            sys.stderr.write(f"{finding}\n")


def _missing(url: str) -> bool:
    from gateway.config.apply import hub_is_missing

    return hub_is_missing(url)


def _shown(url: str) -> str:
    from gateway.secrets import redact

    return redact(url)


def _print(actions: list[Action], *, lines: bool, intent: str = "") -> None:
    """The steps, if ``lines``, and what they come to."""
    from gateway.config.plan import Verb

    labels = {
        Verb.CREATE: intent + "created",
        Verb.ALTER: intent + "altered",
        Verb.REMOVE: intent + "removed",
        Verb.NONE: "unchanged",
    }
    if lines:
        for action in actions:
            if action.verb not in (Verb.NONE, Verb.LEAVE):
                say(str(action))
    if left := [action.object for action in actions if action.verb is Verb.LEAVE]:
        say(f"left alone, not in the files: {', '.join(left)}")
    counts = {verb: sum(action.verb is verb for action in actions) for verb in labels}
    if any(counts[verb] for verb in (Verb.CREATE, Verb.ALTER, Verb.REMOVE)):
        say(", ".join(f"{counts[verb]} {label}" for verb, label in labels.items() if counts[verb]))
    else:
        say(f"nothing to do: {counts[Verb.NONE]} objects are as the files say")
