"""``mgw queues``: foreign queues, registered, looked at and unregistered. A registration cannot be altered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mgw.gateway.cli.common import EXIT_USAGE, admin, describe, fail, print_json, print_table, say
from mgw.gateway.cli.words import Json, Options, QueueName, described, pairs
from mgw.gateway.services.attributes import FOREIGN_QUEUE_ATTRIBUTES

if TYPE_CHECKING:
    from mgw.gateway.services.lookup import ForeignQueueDef

__all__ = ["app"]

app = typer.Typer(help="Foreign queues: registered as queue@link.", no_args_is_help=True, rich_markup_mode=None)


@app.command("list")
def list_all(ctx: typer.Context, as_json: Json = False) -> None:
    """Foreign queues. (The hub's own queues: mgw aq queues.)"""
    with admin(ctx) as procedures:
        found, types = procedures.list_foreign_queues(), procedures.link_types()
    if as_json:
        print_json([_values(queue, types) for queue in found])
        return
    print_table(
        {"FOREIGN QUEUE": "fold", "DOMAIN": "left", "NAME THERE": "fold"},
        [(f"{queue.name}@{queue.link}", queue.domain or "", queue.provider_queue) for queue in found],
    )


@app.command("show")
def show(ctx: typer.Context, name: QueueName, as_json: Json = False) -> None:
    """One foreign queue."""
    from mgw.gateway.services.lookup import foreign_queue

    with admin(ctx) as procedures:
        found, types = foreign_queue(procedures, name), procedures.link_types()
    values = _values(found, types)
    print_json(values) if as_json else describe(values)


@app.command("register")
def register_queue(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="QUEUE@LINK")],
    *,
    provider_queue: Annotated[str | None, described(FOREIGN_QUEUE_ATTRIBUTES["provider_queue"])] = None,
    domain: Annotated[str | None, described(FOREIGN_QUEUE_ATTRIBUTES["domain"])] = None,
    option: Options = None,
    comment: Annotated[str | None, described(FOREIGN_QUEUE_ATTRIBUTES["comment"])] = None,
) -> None:
    """Register a queue, exchange or topic of a messaging system; nothing is made there.
    A registration cannot be altered: remove it and register it again.
    """
    queue, at, link = name.rpartition("@")
    if not (queue and at and link):
        fail(f"{name!r} is not of the form QUEUE@LINK", EXIT_USAGE)
    options = pairs(option, "--option")
    with admin(ctx) as procedures:
        procedures.register_foreign_queue(queue, link, provider_queue or None, domain or None, options, comment or None)
    say(f"foreign queue {queue}@{link} registered")


@app.command("remove")
def remove(ctx: typer.Context, name: QueueName) -> None:
    """Unregister a foreign queue that no job uses. The queue itself is not touched."""
    from mgw.gateway.services.lookup import foreign_queue

    with admin(ctx) as procedures:
        found = foreign_queue(procedures, name)
        procedures.unregister_foreign_queue(found.name, found.link)
    say(f"foreign queue {found.name}@{found.link} unregistered")


def _values(queue: ForeignQueueDef, types: Mapping[str, str]) -> dict[str, Any]:
    from mgw.gateway.services.options import foreign_queue_view

    return foreign_queue_view(queue, types.get(queue.link.upper()))
