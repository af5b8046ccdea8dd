"""``mgw run``: the daemon."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from gateway.cli.common import hub_url

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command()(run)


def run(
    ctx: typer.Context,
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE", help="Configuration files to apply before the start, and again on SIGHUP."),
    ] = None,
    *,
    agent: Annotated[str, typer.Option("--agent", "-a", help="Agent to run.")] = "DEFAULT_AGENT",
    log_dir: Annotated[
        Path | None, typer.Option(help="Folder for one log file per run. [default: log beside a SQLite hub]")
    ] = None,
    log_format: Annotated[Literal["text", "json"] | None, typer.Option(help="Form of standard output.")] = None,
    durability: Annotated[
        Literal["full", "fast"], typer.Option(help="fast: the last commits may be lost with the power.")
    ] = "full",
    drain: Annotated[float, typer.Option(help="Seconds that work in flight may take at the end.")] = 10.0,
) -> None:
    """Run an agent until SIGTERM: it carries messages, and takes changes while it runs."""
    paths = files or []
    settings = None
    if paths:
        from gateway.cli.configure import bring_to

        settings = bring_to(ctx, paths).settings
    log = settings.log if settings else None
    from gateway.supervisor import RunOptions
    from gateway.supervisor import run as supervise

    options = RunOptions(
        hub_url(ctx, settings.hub if settings else None),
        agent,
        paths,
        log_dir or (Path(log.directory) if log and log.directory else None),
        log_format or (log.format if log else "text"),
        drain_seconds=drain,
        transform_modules=tuple(settings.transform_modules) if settings else (),
        durability=durability,
    )
    raise typer.Exit(supervise(options))
