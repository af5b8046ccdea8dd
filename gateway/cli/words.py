"""Arguments and options that the commands on the gateway's objects share."""

from __future__ import annotations

from typing import Annotated

import typer

from mgw.gateway.cli.common import EXIT_USAGE, completer, fail

__all__ = [
    "AgentName",
    "Force",
    "JobName",
    "Json",
    "LinkName",
    "Options",
    "QueueName",
    "Settings",
    "TransformationName",
    "pairs",
]

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Force = Annotated[bool, typer.Option("--force", help="Remove at once, whatever stays in the foreign system.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Change a setting; NAME= puts back the default.")
]
Options = Annotated[
    list[str] | None, typer.Option("--option", metavar="NAME=VALUE", help="Change an option; NAME= removes it.")
]
AgentName = Annotated[str, typer.Argument(metavar="AGENT", autocompletion=completer("agents"))]
LinkName = Annotated[str, typer.Argument(metavar="LINK", autocompletion=completer("links"))]
QueueName = Annotated[str, typer.Argument(metavar="QUEUE@LINK", autocompletion=completer("foreign_queues"))]
TransformationName = Annotated[str, typer.Argument(metavar="NAME", autocompletion=completer("transformations"))]
JobName = Annotated[str, typer.Argument(metavar="JOB", autocompletion=completer("jobs"))]


def pairs(words: list[str] | None, option: str) -> dict[str, str | None]:
    """``NAME=VALUE`` words as a mapping; an empty value is None."""
    result: dict[str, str | None] = {}
    for word in words or []:
        name, equals, value = word.partition("=")
        if not equals or not name.strip():
            fail(f"{option} {word!r} is not of the form NAME=VALUE", EXIT_USAGE)
        result[name.strip()] = value or None
    return result
