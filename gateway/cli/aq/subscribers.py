"""``mgw aq subscribers``."""

from __future__ import annotations

from typing import Annotated

import typer

from mgw.gateway.cli.aq.words import Json, QueueName
from mgw.gateway.cli.common import EXIT_USAGE, completer, fail, hub_url, open_hub, print_json, print_table, say
from mgw.gateway.cli.words import DropForce, MoveTo, Options, described, pairs, what_became
from mgw.gateway.services.attributes import SUBSCRIBER_ATTRIBUTES

__all__ = ["app"]

app = typer.Typer(help="Subscribers of multi-consumer queues.", no_args_is_help=True, rich_markup_mode=None)

SubscriberName = Annotated[str, typer.Argument(metavar="SUBSCRIBER", autocompletion=completer("subscribers"))]
Rule = Annotated[str | None, described(SUBSCRIBER_ATTRIBUTES["rule"])]
Transformation = Annotated[str | None, described(SUBSCRIBER_ATTRIBUTES["transformation"])]


@app.command("list")
def list_all(
    ctx: typer.Context,
    queue: Annotated[str | None, typer.Argument(metavar="QUEUE", autocompletion=completer("queues"))] = None,
    as_json: Json = False,
) -> None:
    """Subscribers of one queue, or of all. Those named MGW_... belong to jobs."""
    from mgw.gateway.services import lookup
    from mgw.gateway.services.options import subscriber_view
    from mgw.gateway.services.queues import administration

    with open_hub(hub_url(ctx)) as hub:
        found = administration(hub).queue_subscribers(lookup.queue(hub, queue) if queue else None)
    if as_json:
        print_json([subscriber_view(each) for each in found])
        return
    print_table(
        {"QUEUE": "fold", "SUBSCRIBER": "fold", "RULE": "fold", "TRANSFORMATION": "fold"},
        [(each.queue, each.name, each.rule, each.transformation) for each in found],
    )


@app.command("add")
def add(
    ctx: typer.Context,
    queue: QueueName,
    name: SubscriberName,
    *,
    rule: Rule = None,
    transformation: Transformation = None,
    option: Options = None,
) -> None:
    """Subscribe; the subscriber gets what is enqueued from now on."""
    from mgw.gateway.services import lookup
    from mgw.gateway.services.queues import administration

    with open_hub(hub_url(ctx)) as hub:
        full = lookup.queue(hub, queue)
        administration(hub).add_subscriber(
            full, name, rule=rule, transformation=transformation, options=pairs(option, "--option")
        )
    say(f"{name} subscribes to {full}")


@app.command("alter")
def alter(
    ctx: typer.Context,
    queue: QueueName,
    name: SubscriberName,
    *,
    rule: Rule = None,
    transformation: Transformation = None,
    option: Options = None,
) -> None:
    """Set both rule and transformation: one that is not given is removed. Options that are not named stay."""
    from mgw.gateway.services import lookup
    from mgw.gateway.services.queues import administration

    _not_of_a_job(name, "alter")
    with open_hub(hub_url(ctx)) as hub:
        full = lookup.queue(hub, queue)
        administration(hub).alter_subscriber(
            full, name, rule=rule, transformation=transformation, options=pairs(option, "--option")
        )
    say(f"subscriber {name} of {full} altered")


@app.command("remove")
def remove(
    ctx: typer.Context, queue: QueueName, name: SubscriberName, force: DropForce = False, move_to: MoveTo = None
) -> None:
    """End a subscription. If messages wait for it, give --force or --move-to."""
    from mgw.gateway.services import lookup
    from mgw.gateway.services.queues import administration

    _not_of_a_job(name, "remove")
    if force and move_to is not None:
        fail("give either --force or --move-to", EXIT_USAGE)
    with open_hub(hub_url(ctx)) as hub:
        full = lookup.queue(hub, queue)
        target = None if move_to is None else lookup.queue(hub, move_to)
        held = administration(hub).remove_subscriber(full, name, force=force, move_to=target)
        told = what_became(held, force=force, moved_to=target, now=hub.clock.now())
    say(f"{name} no longer subscribes to {full}{told}")


def _not_of_a_job(name: str, verb: str) -> None:
    from mgw.gateway.services.queues import job_of

    if (job := job_of(name)) is not None:
        fail(f"subscriber {name} belongs to a job; {verb} the job instead: mgw jobs {verb} {job}")
