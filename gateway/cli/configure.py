"""``mgw lint``, ``plan``, ``apply``, ``export`` and ``schema``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mgw.gateway.cli.common import EXIT_CONFIG, EXIT_FAILED, EXIT_USAGE, fail, hub_url, open_hub, print_json, say

if TYPE_CHECKING:
    from mgw.gateway.services.configuration import Action, Document
    from mgw.transforms.errors import GatewayError

__all__ = ["ConfigDir", "EnvFiles", "Overrides", "follow", "gathered", "print_actions", "print_done", "register"]

Files = Annotated[
    list[Path] | None,
    typer.Argument(metavar="FILE", help="Configuration files; several are merged. - is standard input."),
]
ConfigDir = Annotated[
    Path | None,
    typer.Option("--config-dir", metavar="DIR", help="Folder; every *.yaml in it is read, in the order of the names."),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Override a value of the files: links.rabbit.port=5673."),
]
EnvFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--env-file",
        metavar="FILE",
        help="File of variables, one NAME=VALUE per line; variables that are set already take precedence.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.command()(lint)
    app.command()(plan)
    app.command()(apply)
    app.command()(export)
    app.command()(schema)


def gathered(
    files: list[Path] | None, config_dir: Path | None, settings: list[str] | None, env_file: list[Path] | None
) -> list[Path]:
    """The files of a call, after its variables and values were set for this process."""
    if env_file:
        from mgw.gateway.services.environment import add_variables

        for file in env_file:
            add_variables(file)
    if settings:
        from mgw.gateway.services.configuration import OVERRIDES

        os.environ[OVERRIDES] = "\n".join(settings)
    return [*(files or []), *([config_dir] if config_dir is not None else [])]


def _needed(files: list[Path]) -> list[Path]:
    if not files:
        fail("no configuration file: name FILE or --config-dir", EXIT_USAGE)
    return files


def lint(
    files: Files = None,
    as_json: Json = False,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings count as failures.")] = False,
    *,
    config_dir: ConfigDir = None,
    settings: Overrides = None,
    env_file: EnvFiles = None,
) -> None:
    """Check configuration files without touching a hub or a broker. Exit 78 when there is an error."""
    from mgw.gateway.services.configuration import errors, shown_file
    from mgw.gateway.services.configuration import lint as find

    files = _needed(gathered(files, config_dir, settings, env_file))
    findings = find(files)
    if as_json:
        print_json([finding.as_json() for finding in findings])
    else:
        for finding in findings:
            say(str(finding))
        if not findings:
            say(f"{', '.join(map(shown_file, files))}: no problems found")
    if errors(findings) or (strict and findings):
        raise typer.Exit(EXIT_CONFIG)


def plan(
    ctx: typer.Context,
    files: Files = None,
    as_json: Json = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Include the removal of objects that the files do not define.")
    ] = False,
    *,
    config_dir: ConfigDir = None,
    settings: Overrides = None,
    env_file: EnvFiles = None,
) -> None:
    """Show what 'apply' would do, which jobs it restarts and what waits for them, and change nothing."""
    from mgw.gateway.services.configuration import hub_is_missing, impact_of, prepared_links
    from mgw.gateway.services.configuration import plan as plan_for

    files = _needed(gathered(files, config_dir, settings, env_file))
    document, url = _checked(ctx, files, quiet=as_json, alone=prune)
    if hub_is_missing(url) and not as_json:
        say(f"hub {_shown(url)} does not exist yet; apply would create it")
    actions = plan_for(url, document, prune=prune)
    if as_json:
        print_json([action.as_json() for action in actions])
        return
    print_actions(actions, lines=True, intent="to be ")
    for job in impact_of(url, actions):
        say(str(job))
    for name in prepared_links(document):
        say(f"apply then prepares link {name}; what that creates: mgw links prepare {name} --dry-run")


def apply(
    ctx: typer.Context,
    files: Files = None,
    create_hub: Annotated[
        bool, typer.Option("--create-hub/--no-create-hub", help="Create the hub if it is missing.")
    ] = True,
    prune: Annotated[bool, typer.Option("--prune", help="Remove objects that the files do not define.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Delete the messages in removed objects.")] = False,
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done, as 'mgw plan' does, and change nothing.")
    ] = False,
    config_dir: ConfigDir = None,
    settings: Overrides = None,
    env_file: EnvFiles = None,
) -> None:
    """Create and alter the objects of the hub as the files say. Running it again changes nothing.

    A further run completes one that was interrupted. Objects that the files do not name stay as they are, and are
    listed at the end. A secret without a key, or whose variable is empty (`${NAME:-}`), is kept. Each object is one
    transaction: changes before an error stay. If messages would be deleted, nothing is changed without --force.
    """
    from mgw.gateway.services import configuration

    if dry_run:
        plan(ctx, files, prune=prune, config_dir=config_dir, settings=settings, env_file=env_file)
        return
    files = _needed(gathered(files, config_dir, settings, env_file))
    document, url = _checked(ctx, files, alone=prune)
    if names := configuration.not_kept(document):
        typer.echo(f"the hub does not keep {' and '.join(names)}: give this file to mgw run as well", err=True)
    if create_hub and configuration.hub_is_missing(url):
        say(f"create hub {_shown(url)}")
    with open_hub(url, create=create_hub) as hub:
        name = ", ".join(map(configuration.shown_file, files))
        steps = configuration.apply(hub, document, prune=prune, force=force, name=name)
        complete = print_done(steps, configuration.prepare(hub, document))
    if not complete:
        raise typer.Exit(EXIT_FAILED)


def export(
    ctx: typer.Context,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to a file.")] = None,
) -> None:
    """Print what the hub holds as a configuration file; applying it to this hub changes nothing.

    Each secret is a variable that may be empty: this hub then keeps the stored secret; another hub needs the variable.
    A job whose queue was dropped is written as a comment, with a warning.
    """
    from mgw.gateway.services.configuration import exported, write_export

    with open_hub(hub_url(ctx)) as hub:
        found = exported(hub)
    for line in found.left_out:
        sys.stderr.write(f"mgw: warning: {line}\n")
    if output is None:
        sys.stdout.write(found.text)
    else:
        write_export(found.text, output)


def schema(
    tests: Annotated[bool, typer.Option("--tests", help="Print the schema of files *_test.yaml instead.")] = False,
) -> None:
    """Print the JSON Schema of configuration files, for editors, with the link types of all installed packages.

    It accepts what 'mgw lint' accepts, as far as a schema can express it.
    """
    from mgw.gateway.services import configuration, mapping_tests

    print_json(mapping_tests.json_schema() if tests else configuration.json_schema())


def follow(ctx: typer.Context, files: list[Path], agent: str) -> Document:
    """What ``mgw run FILE`` does first: objects that are refused are reported, all others applied; the document of
    these.
    Leaves with 78 if the files as a whole cannot be used. A messaging system that does not answer keeps nothing from
    running."""
    from mgw.gateway.services import configuration

    url = hub_url(ctx, configuration.hub_of(files))
    found = configuration.usable_for(url, files)
    if not found.ok:
        for finding in found.findings:
            sys.stderr.write(f"{finding}\n")
        raise typer.Exit(EXIT_CONFIG)
    configuration.log(found.findings)
    if configuration.hub_is_missing(url):
        say(f"create hub {_shown(url)}")
    with open_hub(url, create=True) as hub:
        print_done(configuration.follow(hub, found, agent), configuration.prepare(hub, found.document))
    return found.document


def print_done(steps: Iterable[Action], prepared: Iterable[str | GatewayError]) -> bool:
    """Each step that changes the hub when it is over, what was prepared then, and what the steps come to; whether all
    was prepared."""
    actions: list[Action] = []
    for action in steps:
        actions.append(action)
        if action.changes_hub:
            say(str(action))
            sys.stdout.flush()
    complete = True
    for line in prepared:
        if isinstance(line, str):
            say(line)
        else:
            complete = False
            sys.stderr.write(f"{line}\n")
    print_actions(actions, lines=False)
    return complete


def _checked(
    ctx: typer.Context, files: list[Path], *, quiet: bool = False, alone: bool = False
) -> tuple[Document, str]:
    """The document and its hub, after every error and warning has been shown; leaves with 78 if there is an error.

    ``alone``: the files must be complete, what the hub holds next to them is about to go.
    """
    from mgw.gateway.services import configuration

    url = hub_url(ctx, configuration.hub_of(files))
    found = configuration.check_for(url, files, alone=alone)
    for finding in found.findings:
        if finding.severity == "error" or not quiet:
            sys.stderr.write(f"{finding}\n")
    if not found.ok:
        raise typer.Exit(EXIT_CONFIG)
    return found.document, url


def _shown(url: str) -> str:
    from mgw.gateway.services.redaction import redact

    return redact(url)


def print_actions(actions: list[Action], *, lines: bool, intent: str = "") -> None:
    """The steps, if ``lines``, and what they come to."""
    from mgw.gateway.services.configuration import Verb

    labels = {
        Verb.CREATE: intent + "created",
        Verb.ALTER: intent + "altered",
        Verb.REMOVE: intent + "removed",
        Verb.NONE: "unchanged",
    }
    if lines:
        for action in actions:
            if action.changes_hub:
                say(str(action))
    if left := [action.object for action in actions if action.verb is Verb.LEAVE]:
        say(f"not in the files, left alone: {', '.join(left)}")
    counts = {verb: sum(action.verb is verb for action in actions) for verb in labels}
    if any(counts[verb] for verb in (Verb.CREATE, Verb.ALTER, Verb.REMOVE)):
        say(", ".join(f"{counts[verb]} {label}" for verb, label in labels.items() if counts[verb]))
    else:
        say(f"nothing to do: {counts[Verb.NONE]} objects match the files")
