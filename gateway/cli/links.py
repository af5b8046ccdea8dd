"""``mgw links``: look at links, try and change them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from mgw.gateway.cli.common import (
    EXIT_FAILED,
    EXIT_USAGE,
    admin,
    completer,
    describe,
    fail,
    hub_url,
    open_hub,
    print_json,
    say,
)
from mgw.gateway.cli.jsonform import record
from mgw.gateway.cli.watch import print_links
from mgw.gateway.cli.words import REMOVES, Json, LinkName, Options, Settings, described, pairs, secret
from mgw.gateway.services.attributes import LINK_ATTRIBUTES

__all__ = ["app"]

app = typer.Typer(help="Links: connections to messaging systems.", no_args_is_help=True, rich_markup_mode=None)


@app.command("list")
def list_all(ctx: typer.Context, as_json: Json = False) -> None:
    """Links."""
    from mgw.gateway.services.health import read

    with open_hub(hub_url(ctx)) as hub:
        state = read(hub)
    if as_json:
        print_json([record(row) for row in state.links])
    else:
        print_links(state)


@app.command("show")
def show(ctx: typer.Context, name: LinkName, as_json: Json = False) -> None:
    """One link with its settings; secrets are hidden."""
    from mgw.gateway.services import lookup
    from mgw.gateway.services.options import link_settings

    with admin(ctx) as procedures:
        values = link_settings(lookup.link(procedures, name))
    print_json(values) if as_json else describe(values)


@app.command("test")
def try_out(ctx: typer.Context, name: LinkName, as_json: Json = False) -> None:
    """Connect, and report in plain words what works and what does not. Exit 1 if something does not."""
    from dataclasses import asdict

    from mgw.gateway.services.connection_test import test_link

    with admin(ctx) as procedures:
        checks = test_link(procedures, name)
    if as_json:
        print_json([asdict(check) for check in checks])
    for check in () if as_json else checks:
        mark, cure = ("ok  ", "") if check.ok else ("FAIL", f"; {check.cure}" if check.cure else "")
        say(f"{mark} {check.name}: {check.detail}{cure}")
    if not all(check.ok for check in checks):
        raise typer.Exit(EXIT_FAILED)


@app.command("reconnect")
def reconnect(ctx: typer.Context, name: LinkName) -> None:
    """Have every job of a link finish its batch and connect again at once."""
    from mgw.gateway.services.job_verbs import reconnect as connect_again

    with admin(ctx) as procedures:
        name, jobs = connect_again(procedures, name)
    say(f"link {name}: " + (f"jobs {', '.join(jobs)} connect again" if jobs else "no enabled job uses it"))


@app.command("prepare")
def prepare(
    ctx: typer.Context,
    name: LinkName,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be created, and change nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Create the log queues or log topic that the link's jobs need for exactly once, and name them in the link.
    Existing ones stay as they are. Run it again after jobs were added.
    """
    from mgw.gateway.services.lookup import link_name

    with admin(ctx) as procedures:
        done = procedures.prepare_msgsystem_link(link_name(procedures, name), dry_run=dry_run)
    if as_json:
        print_json(done.as_json())
        return
    for line in (*(str(step) for step in done.steps if str(step) not in done.lines), *done.lines):
        say(line)
    if not done.lines:
        say(f"link {done.link} is prepared: nothing to do")
    elif dry_run:
        say("dry run: nothing was changed")


@app.command("create")
def create(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="LINK")],
    link_type: Annotated[str, described(LINK_ATTRIBUTES["type"], "--type", "-t")],
    *,
    agent: Annotated[
        str, described(LINK_ATTRIBUTES["agent"], "--agent", "-a", known=completer("agents"))
    ] = "DEFAULT_AGENT",
    settings: Settings = None,
    option: Options = None,
    password_file: Annotated[Path | None, typer.Option(help="File that holds the password.")] = None,
    comment: Annotated[str | None, described(LINK_ATTRIBUTES["comment"])] = None,
) -> None:
    """Define a link; nothing is connected. The reference of link types lists its settings and options."""
    properties = _properties(settings, password_file)
    with admin(ctx) as procedures:
        procedures.create_msgsystem_link(name, link_type, properties, agent, pairs(option, "--option"), comment or None)
    say(f"link {name} created")


@app.command("alter")
def alter(
    ctx: typer.Context,
    name: LinkName,
    *,
    settings: Settings = None,
    option: Options = None,
    password_file: Annotated[Path | None, typer.Option(help="File that holds the new password.")] = None,
    comment: Annotated[str | None, described(LINK_ATTRIBUTES["comment"], more=REMOVES)] = None,
) -> None:
    """Change a link. A password is read from a file, never from the command line."""
    from mgw.gateway.services.admin import NO_CHANGE
    from mgw.gateway.services.lookup import link_name

    properties = _properties(settings, password_file)
    with admin(ctx) as procedures:
        name = link_name(procedures, name)
        procedures.alter_msgsystem_link(
            name, properties, pairs(option, "--option") or None, NO_CHANGE if comment is None else comment or None
        )
    say(f"link {name} altered")


@app.command("remove")
def remove(ctx: typer.Context, name: LinkName) -> None:
    """Remove a link without foreign queues."""
    from mgw.gateway.services.lookup import link_name

    with admin(ctx) as procedures:
        name = link_name(procedures, name)
        procedures.remove_msgsystem_link(name)
    say(f"link {name} removed")


def _properties(settings: list[str] | None, password_file: Path | None) -> dict[str, Any]:
    """What ``--set`` and ``--password-file`` say."""
    properties: dict[str, Any] = dict(pairs(settings, "--set"))
    if any("password" in key.lower() for key in properties):
        fail("a password on the command line can be seen by others; use --password-file", EXIT_USAGE)
    if password_file is not None:
        properties["password"] = secret(password_file)
    return properties
