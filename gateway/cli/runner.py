"""``mgw run``: the daemon. ``mgw serve``: the web face of a hub, without an agent."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from mgw.gateway.cli.common import EXIT_USAGE, completer, explain, fail, hub_url, open_hub
from mgw.gateway.cli.configure import ConfigDir, EnvFiles, Overrides, gathered

if TYPE_CHECKING:
    from mgw.gateway.services.configuration import Document
    from mgw.gateway.services.daemon import RunOptions
    from mgw.gateway.services.http_address import HttpAddress
    from mgw.gateway.services.hubs import Hub
    from mgw.gateway.services.probes import Probes

__all__ = ["register"]

_YIELDS = 15  # to the agents of the machine: who asks waits, and the jobs do not


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.command()(run)
    app.command()(serve)


def run(
    ctx: typer.Context,
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE", help="Configuration files to apply before the start, and again on SIGHUP."),
    ] = None,
    *,
    agent: Annotated[
        list[str] | None,
        typer.Option(
            "--agent",
            "-a",
            help="Agent to run; may be repeated: each runs in a process of its own. all: every agent of the hub. "
            "[default: DEFAULT_AGENT]",
            autocompletion=completer("agents"),
        ),
    ] = None,
    log_dir: Annotated[
        Path | None,
        typer.Option(help="Folder for one log file per run, or off. [default: log next to an SQLite hub]"),
    ] = None,
    log_format: Annotated[Literal["text", "json"] | None, typer.Option(help="Format of standard output.")] = None,
    durability: Annotated[
        Literal["full", "fast"], typer.Option(help="fast: a power failure may lose the latest commits.")
    ] = "full",
    standby: Annotated[
        bool,
        typer.Option("--standby", help="Wait while another process runs the agent; take over when that is gone."),
    ] = False,
    drain: Annotated[float, typer.Option(help="Seconds that work in flight may take at shutdown.")] = 10.0,
    http: Annotated[
        str | None,
        typer.Option(
            "--http",
            metavar="HOST:PORT",
            help="Address for health and metrics, auto (the next free port) or off; also MGW_HTTP. "
            "[default: 127.0.0.1:8787]",
        ),
    ] = None,
    config_dir: ConfigDir = None,
    settings: Overrides = None,
    env_file: EnvFiles = None,
) -> None:
    """Run agents until SIGTERM: they carry messages, and accept changes while they run.

    An object of a file that is refused is named and stays as it is in the hub; all others are applied.
    """
    from mgw.gateway.services import daemon
    from mgw.gateway.services.configuration import STANDARD_INPUT

    if not daemon.end_with_parent(os.environ):
        raise typer.Exit(0)
    files = gathered(files, config_dir, settings, env_file)
    if any(str(file) == STANDARD_INPUT for file in files):
        fail("mgw run reads its files again while it runs; name a file in place of standard input", EXIT_USAGE)
    form = log_format or daemon.log_format_of(files)
    names = list(dict.fromkeys(agent or ["DEFAULT_AGENT"]))
    first = "DEFAULT_AGENT" if names[0] == "all" else names[0]
    with daemon.logged(first, form) as signals:
        try:
            document = _document(ctx, files, first)
            options = _options(ctx, document, first, files, log_dir, log_format, durability, drain, standby)
            if names == ["all"] or len(names) > 1:
                address = _address(http, document)
                code = daemon.run_agents(options, None if "all" in names else names, address, signals)
            else:
                code = daemon.run(options, signals, _face(http, document))
        except Exception as error:
            if form != "json" or isinstance(error, typer.Exit | BrokenPipeError):
                raise
            code = explain(error)
    raise typer.Exit(code)


def serve(
    ctx: typer.Context,
    *,
    http: Annotated[
        str | None,
        typer.Option(
            "--http",
            metavar="HOST:PORT",
            help="Address, or auto (the next free port); also MGW_HTTP. [default: 127.0.0.1:8787]",
        ),
    ] = None,
    log_format: Annotated[Literal["text", "json"], typer.Option(help="Format of standard output.")] = "text",
) -> None:
    """Answer over HTTP about a hub until SIGTERM, without running an agent: health, metrics, REST.

    The process has a lower priority (nice 15): on a busy machine the jobs of an agent come first.
    """
    from mgw.gateway.http.face import serve as answer
    from mgw.gateway.services.http_address import http_address

    address = http_address(http, os.environ, None)
    if address is None:
        fail("nothing would be answered at the address off; give --http HOST:PORT", EXIT_USAGE)
    os.nice(_YIELDS)
    with open_hub(hub_url(ctx)) as hub:
        answer(address, hub, log_format)


def _document(ctx: typer.Context, files: list[Path], agent: str) -> Document | None:
    """The files, which are applied first as far as they are not refused; None where there are none."""
    if not files:
        return None
    from mgw.gateway.cli.configure import follow

    return follow(ctx, files, agent)


def _address(http: str | None, document: Document | None) -> HttpAddress | None:
    from mgw.gateway.services.http_address import http_address

    return http_address(http, os.environ, document.settings if document else None)


def _face(
    http: str | None, document: Document | None
) -> Callable[[Hub, Probes], AbstractContextManager[object]] | None:
    """What has the agent answer over HTTP; None: nothing does."""
    address = _address(http, document)
    if address is None:
        return None
    from mgw.gateway.http.face import serving

    return partial(serving, address)


def _options(  # noqa: PLR0917  as given
    ctx: typer.Context,
    document: Document | None,
    agent: str,
    files: list[Path],
    log_dir: Path | None,
    log_format: str | None,
    durability: Literal["full", "fast"],
    drain: float,
    standby: bool,
) -> RunOptions:
    """How the supervisor is to run."""
    settings = document.settings if document else None
    log = settings.log if settings else None
    from mgw.gateway.services.daemon import RunOptions, log_level_of

    return RunOptions(
        hub_url(ctx, settings.hub if settings else None),
        agent,
        files,
        log_dir or _folder(os.environ.get("MGW_LOG_DIR") or (log.directory if log else None)),
        log_format or (log.format if log else "text"),
        drain_seconds=drain,
        durability=durability,
        log_level=log_level_of(os.environ, log.level if log else None),
        standby=standby,
    )


def _folder(name: str | None) -> Path | None:
    return Path(name) if name else None
