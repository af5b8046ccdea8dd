"""``mgw upgrade``: bring a hub of an older release forward."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mgw.gateway.cli.common import EXIT_FAILED, hub_url, print_json, say

if TYPE_CHECKING:
    from mgw.gateway.services.upgrade import Outlook

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("upgrade", rich_help_panel=None)(upgrade)


def upgrade(
    ctx: typer.Context,
    check: Annotated[bool, typer.Option("--check", help="Only check; exit code 1: an upgrade is needed.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list the steps.")] = False,
    backup: Annotated[
        str | None,
        typer.Option("--backup", metavar="PATH", help="First copy the hub to this file (SQLite only)."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Upgrade the hub of an older release to this one.

    Stop every agent and program that uses the hub first; the upgrade is refused while one does. The upgrade is atomic:
    after a kill the hub is the old one or the new one.
    """
    from mgw.gateway.services.upgrade import look
    from mgw.gateway.services.upgrade import upgrade as run

    url = hub_url(ctx)
    began = time.monotonic()
    if check or dry_run:
        outlook = look(url)
        seconds = None
    else:
        outlook = run(
            url, backup=backup, told=lambda part, step: None if as_json else say(_step(part, step.version, step.title))
        )
        seconds = time.monotonic() - began
    if as_json:
        print_json(_json(outlook, seconds if outlook.needed else None))
    elif not outlook.needed:
        say(f"hub {outlook.hub} is up to date: {_versions(outlook)}")
    elif seconds is None:
        say(f"hub {outlook.hub} needs an upgrade: {_versions(outlook)}")
        for part in outlook.parts:
            for version, title in part.steps:
                say(_step(part.name, version, title))
    else:
        say(f"hub {outlook.hub} upgraded in {seconds:.1f} s: {_versions(outlook)}")
    if check and outlook.needed:
        raise typer.Exit(EXIT_FAILED)


def _step(part: str, version: int, title: str) -> str:
    return f"  {part} {version}: {title}"


def _versions(outlook: Outlook) -> str:
    return ", ".join(
        f"{part.name} {part.stored} -> {part.needed}" if part.steps else f"{part.name} {part.stored}"
        for part in outlook.parts
    )


def _json(outlook: Outlook, seconds: float | None) -> dict[str, Any]:
    return {
        "hub": outlook.hub,
        "upgrade_needed": outlook.needed and seconds is None,
        "upgraded": seconds is not None,
        "seconds": None if seconds is None else round(seconds, 3),
        "parts": [
            {
                "name": part.name,
                "stored": part.stored,
                "needed": part.needed,
                "steps": [{"version": version, "title": title} for version, title in part.steps],
            }
            for part in outlook.parts
        ],
    }
