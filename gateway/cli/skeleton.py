"""``mgw init``: the first configuration file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from mgw.gateway.cli.common import say

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command()(init)


def _types() -> list[str]:
    from mgw.gateway.services.skeleton import pairs

    return list(dict.fromkeys(source for source, _ in pairs()))


def init(
    file: Annotated[Path, typer.Argument(metavar="[FILE]", help="File to write; - is standard output.")] = Path(
        "gateway.yaml"
    ),
    *,
    source: Annotated[
        str,
        typer.Option(
            "--from", metavar="TYPE", help="Where messages come from: rabbitmq, kafka or mqtt.", autocompletion=_types
        ),
    ] = "rabbitmq",
    target: Annotated[
        str,
        typer.Option("--to", metavar="TYPE", help="Where they go: rabbitmq, kafka or mqtt.", autocompletion=_types),
    ] = "kafka",
    tls: Annotated[bool, typer.Option("--tls", help="The brokers use TLS and require a login.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that exists.")] = False,
) -> None:
    """Write a first configuration file, a bridge between two messaging systems, and say what to do next."""
    from mgw.gateway.services.skeleton import first_steps, skeleton, write

    text = skeleton(source, target, tls=tls)
    if str(file) == "-":
        sys.stdout.write(text)
        return
    write(file, text, force=force)
    say(f"{file} written; next:")
    for step in first_steps(source, target, file, tls=tls):
        say(f"  {step}")
