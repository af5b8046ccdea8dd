"""``mgw run``: the daemon."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from gateway.cli.common import explain, hub_url

if TYPE_CHECKING:
    from gateway.supervisor import RunOptions

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
    from gateway.logcapture import captured
    from gateway.logfile import configure
    from gateway.signals import Signals

    form = log_format or _log_format(files or [])
    configure(agent, directory=None, log_format=form)
    signals = Signals()
    with captured(lines=form == "json"):
        try:
            options = _options(ctx, agent, files or [], log_dir, log_format, durability, drain)
            from gateway.supervisor import run as supervise

            code = supervise(options, signals)
        except Exception as error:
            if form != "json" or isinstance(error, typer.Exit | BrokenPipeError):
                raise
            code = explain(error)
    raise typer.Exit(code)


def _options(  # noqa: PLR0917  as given
    ctx: typer.Context,
    agent: str,
    files: list[Path],
    log_dir: Path | None,
    log_format: str | None,
    durability: Literal["full", "fast"],
    drain: float,
) -> RunOptions:
    """How the supervisor is to run; the files are applied first."""
    settings = None
    if files:
        from gateway.cli.configure import bring_to

        settings = bring_to(ctx, files).settings
    log = settings.log if settings else None
    from gateway.supervisor import RunOptions

    return RunOptions(
        hub_url(ctx, settings.hub if settings else None),
        agent,
        files,
        log_dir or (Path(log.directory) if log and log.directory else None),
        log_format or (log.format if log else "text"),
        drain_seconds=drain,
        transform_modules=tuple(settings.transform_modules) if settings else (),
        durability=durability,
    )


def _log_format(files: list[Path]) -> str:
    """The form of the log that the files ask for, before they are checked: what is said of them has it, too."""
    if not files:
        return "text"
    from gateway.config.load import load

    place: object = load(files, os.environ).tree
    for key in ("settings", "log", "format"):
        place = place.get(key) if isinstance(place, dict) else None
    return "json" if str(place).lower() == "json" else "text"
