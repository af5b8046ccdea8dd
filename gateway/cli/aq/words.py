"""Arguments and options that the commands of ``mgw aq`` share, and the look-up of names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli.common import completer, find_name

if TYPE_CHECKING:
    from gateway.aq.hub import Hub

__all__ = [
    "Comment",
    "Json",
    "QueueName",
    "TableName",
    "User",
    "Wait",
    "full_queue_name",
    "full_table_name",
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


def full_queue_name(hub: Hub, name: str, user: str | None = None) -> str:
    """The queue as it was defined; leaves with a suggestion when there is none. A user is told by the hub."""
    from gateway.aq.admin import QueueAdmin

    if user is not None:
        return name
    found = QueueAdmin(hub).queue(name)
    if found is not None:
        return found.full_name
    known = [each.full_name for each in QueueAdmin(hub).queues() if not each.name.upper().startswith("AQ$_")]
    return find_name("queue", name, known)


def full_table_name(hub: Hub, name: str) -> str:
    """The queue table as it was defined; leaves with a suggestion when there is none."""
    from gateway.aq.admin import QueueAdmin

    admin = QueueAdmin(hub)
    found = admin.queue_table(name)
    return (
        found.full_name if found else find_name("queue table", name, [each.full_name for each in admin.queue_tables()])
    )
