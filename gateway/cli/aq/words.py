"""Arguments and options that the commands of ``mgw aq`` share, and the look-up of names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli.common import EXIT_USAGE, completer, fail, find_name

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
    "usage",
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


@contextmanager
def usage() -> Iterator[None]:
    """A bad value of an option is a wrong usage."""
    try:
        yield
    except ValueError as error:
        fail(str(error), EXIT_USAGE)


def waiting(seconds: float | None) -> bool | float:
    """``--wait`` as the hub takes it."""
    return True if seconds is None else seconds


def full_queue_name(hub: Hub, name: str, user: str | None = None) -> str:
    """The queue as it was defined; leaves with a suggestion when there is none. A user is told by the hub."""
    from gateway.aq.admin import QueueAdmin

    if user is not None:
        return name
    found = QueueAdmin(hub).queue(name)
    return found.full_name if found else find_name("queue", name, [each.full_name for each in QueueAdmin(hub).queues()])


def full_table_name(hub: Hub, name: str) -> str:
    """The queue table as it was defined; leaves with a suggestion when there is none."""
    from gateway.aq.admin import QueueAdmin

    admin = QueueAdmin(hub)
    found = admin.queue_table(name)
    return (
        found.full_name if found else find_name("queue table", name, [each.full_name for each in admin.queue_tables()])
    )
