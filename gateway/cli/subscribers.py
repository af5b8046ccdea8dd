"""``mgw subscribers``: subscribers of the old style, which are jobs together with a schedule."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from mgw.gateway.cli.common import admin, completer, print_json, print_table, say
from mgw.gateway.cli.jsonform import record
from mgw.gateway.cli.words import (
    REMOVES,
    DropMessages,
    Force,
    Json,
    MoveTo,
    Options,
    check_fate,
    described,
    pairs,
    what_became,
)
from mgw.gateway.services.attributes import JOB_ATTRIBUTES

__all__ = ["OLD_STYLE_TYPE", "app"]

ENDS, KNOWN = completer("foreign_queues", "queues"), completer("transformations")
SubscriberName = Annotated[str, typer.Argument(metavar="SUBSCRIBER", autocompletion=completer("job_subscribers"))]
OLD_STYLE_TYPE = "INBOUND: from a messaging system into the hub. OUTBOUND: from the hub to a messaging system."

app = typer.Typer(
    help="Subscribers of the old style: with a schedule of the same type, source and destination they are jobs.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("list")
def list_all(ctx: typer.Context, as_json: Json = False) -> None:
    """Subscribers: those of all jobs, and those without a schedule. (Of queues of the hub: mgw aq subscribers.)"""
    from mgw.gateway.services.old_style import options_of, subscribers

    with admin(ctx) as procedures:
        rows, types = subscribers(procedures.hub), procedures.link_types()
    if as_json:
        print_json([record(row) | {"options": options_of(row, types)} for row in rows])
        return
    print_table(
        {
            "SUBSCRIBER": "fold",
            "TYPE": "left",
            "SOURCE": "fold",
            "DESTINATION": "fold",
            "SCHEDULE": "fold",
            "STATUS": "left",
            "BACKLOG": "right",
        },
        [
            (
                row.subscriber_id,
                row.propagation_type,
                row.queue_name,
                row.destination,
                row.schedule_id,
                row.status,
                row.backlog,
            )
            for row in rows
        ],
    )


@app.command("create")
def create(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="SUBSCRIBER")],
    propagation_type: Annotated[str, typer.Option("--type", "-t", help=OLD_STYLE_TYPE)],
    source: Annotated[str, described(JOB_ATTRIBUTES["source"], known=ENDS)],
    destination: Annotated[str, described(JOB_ATTRIBUTES["destination"], known=ENDS)],
    *,
    rule: Annotated[str | None, described(JOB_ATTRIBUTES["rule"])] = None,
    transformation: Annotated[str | None, described(JOB_ATTRIBUTES["transformation"], known=KNOWN)] = None,
    exception_queue: Annotated[str | None, described(JOB_ATTRIBUTES["exception_queue"], known=ENDS)] = None,
    option: Options = None,
) -> None:
    """Add a subscriber: it collects from now on, and is a job as soon as it has a schedule."""
    with admin(ctx) as procedures:
        made = procedures.add_subscriber(
            name,
            propagation_type,
            source,
            destination,
            rule,
            transformation,
            exception_queue,
            pairs(option, "--option"),
        )
    say(f"subscriber {name} created; " + (f"schedule {made.schedule}" if made.schedule else "it has no schedule"))


@app.command("alter")
def alter(
    ctx: typer.Context,
    name: SubscriberName,
    *,
    rule: Annotated[str | None, described(JOB_ATTRIBUTES["rule"], more=REMOVES)] = None,
    transformation: Annotated[
        str | None, described(JOB_ATTRIBUTES["transformation"], more=REMOVES, known=KNOWN)
    ] = None,
    exception_queue: Annotated[
        str | None, described(JOB_ATTRIBUTES["exception_queue"], more=REMOVES, known=ENDS)
    ] = None,
    option: Options = None,
) -> None:
    """Change a subscriber while its job runs."""
    from mgw.gateway.services.admin import NO_CHANGE
    from mgw.gateway.services.old_style import subscriber

    def text(value: str | None) -> Any:
        return NO_CHANGE if value is None else value or None

    options = pairs(option, "--option")
    with admin(ctx) as procedures:
        name = subscriber(procedures, name)
        procedures.alter_subscriber(name, text(rule), text(transformation), text(exception_queue), options or None)
    say(f"subscriber {name} altered")


@app.command("reset")
def reset(ctx: typer.Context, name: SubscriberName) -> None:
    """Clear the failures of a subscriber, and retry at once."""
    from mgw.gateway.services.old_style import subscriber

    with admin(ctx) as procedures:
        name = subscriber(procedures, name)
        procedures.reset_subscriber(name)
    say(f"subscriber {name} reset")


@app.command("remove")
def remove(
    ctx: typer.Context,
    name: SubscriberName,
    *,
    force: Force = False,
    move_to: MoveTo = None,
    drop_messages: DropMessages = False,
) -> None:
    """Remove a subscriber and its subscription; its schedule stays. If messages wait for it, give
    --move-to, --drop-messages or --force.
    """
    from mgw.gateway.services.lookup import queue
    from mgw.gateway.services.old_style import subscriber

    check_fate(force=force, move_to=move_to, drop_messages=drop_messages)
    with admin(ctx) as procedures:
        name = subscriber(procedures, name)
        target = None if move_to is None else queue(procedures.hub, move_to)
        held = procedures.held_for_job(name)
        gone = procedures.remove_subscriber(name, force=force, move_to=target, drop_messages=drop_messages)
        told = what_became(held, force=force or drop_messages, moved_to=target, now=procedures.clock.now())
    say(f"subscriber {name} " + ("removed" if gone else "is marked for removal; its agent finishes it") + told)
