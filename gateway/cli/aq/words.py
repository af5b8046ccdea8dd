"""Arguments and options that the commands of ``mgw aq`` share."""

from __future__ import annotations

from typing import Annotated

import typer

from mgw.gateway.cli.common import completer

__all__ = [
    "Comment",
    "Json",
    "QueueName",
    "TableName",
    "User",
    "Wait",
    "waiting",
]

Json = Annotated[bool, typer.Option("--json", help="Print JSON, one message or object at a time.")]
QueueName = Annotated[str, typer.Argument(metavar="QUEUE", autocompletion=completer("queues"))]
TableName = Annotated[str, typer.Argument(metavar="TABLE", autocompletion=completer("queue_tables"))]
Comment = Annotated[str | None, typer.Option(help="Free text.")]
User = Annotated[str | None, typer.Option("--user", help="Work as this user, with the privileges of that user only.")]
Wait = Annotated[
    float | None,
    typer.Option("--wait", min=0, help="Seconds to wait for running transactions; 0: fail at once. Default: no limit."),
]


def waiting(seconds: float | None) -> bool | float:
    """``--wait`` as the hub takes it."""
    return True if seconds is None else seconds
