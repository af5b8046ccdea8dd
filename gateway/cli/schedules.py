"""``mgw schedules``: schedules of the old style, which are jobs together with a subscriber."""

from __future__ import annotations

from typing import Annotated

import typer

from mgw.gateway.cli.common import admin, completer, hub_url, open_hub, print_json, print_table, say
from mgw.gateway.cli.jsonform import record
from mgw.gateway.cli.subscribers import ENDS, OLD_STYLE_TYPE
from mgw.gateway.cli.words import Json, described
from mgw.gateway.services.attributes import JOB_ATTRIBUTES

__all__ = ["app"]

ScheduleName = Annotated[str, typer.Argument(metavar="SCHEDULE", autocompletion=completer("schedules"))]
LATENCY = JOB_ATTRIBUTES["poll_interval"]

app = typer.Typer(
    help="Schedules of the old style: with a subscriber of the same type, source and destination they are jobs.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("list")
def list_all(ctx: typer.Context, as_json: Json = False) -> None:
    """Schedules: those of all jobs, and those without a subscriber."""
    from mgw.gateway.services.old_style import schedules

    with open_hub(hub_url(ctx)) as hub:
        rows = schedules(hub)
    if as_json:
        print_json([record(row) for row in rows])
        return
    print_table(
        {
            "SCHEDULE": "fold",
            "TYPE": "left",
            "SOURCE": "fold",
            "DESTINATION": "fold",
            "SUBSCRIBER": "fold",
            "DISABLED": "left",
            "LATENCY": "right",
        },
        [
            (
                row.schedule_id,
                row.propagation_type,
                row.source,
                row.destination,
                row.subscriber_id,
                row.schedule_disabled,
                f"{row.latency:g}",
            )
            for row in rows
        ],
    )


@app.command("create")
def create(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="SCHEDULE")],
    propagation_type: Annotated[str, typer.Option("--type", "-t", help=OLD_STYLE_TYPE)],
    source: Annotated[str, described(JOB_ATTRIBUTES["source"], known=ENDS)],
    destination: Annotated[str, described(JOB_ATTRIBUTES["destination"], known=ENDS)],
    *,
    latency: Annotated[float | None, described(LATENCY, "--latency")] = None,
) -> None:
    """Schedule propagation: messages move from now on if there is a subscriber of the same type, source and
    destination.
    """
    with admin(ctx) as procedures:
        procedures.schedule_propagation(name, propagation_type, source, destination, latency=latency)
    say(f"schedule {name} created")


@app.command("alter")
def alter(
    ctx: typer.Context,
    name: ScheduleName,
    latency: Annotated[float | None, described(LATENCY, "--latency", more="Left out, the default is restored.")] = None,
) -> None:
    """Set the poll interval of a schedule."""
    from mgw.gateway.services.old_style import schedule

    with admin(ctx) as procedures:
        name = schedule(procedures, name)
        procedures.alter_propagation_schedule(name, latency=latency)
    say(f"schedule {name} altered")


@app.command("enable")
def enable(ctx: typer.Context, name: ScheduleName) -> None:
    """Let the job of a schedule move messages."""
    from mgw.gateway.services.old_style import schedule

    with admin(ctx) as procedures:
        name = schedule(procedures, name)
        procedures.enable_propagation_schedule(name)
    say(f"schedule {name} enabled")


@app.command("disable")
def disable(ctx: typer.Context, name: ScheduleName) -> None:
    """Stop the job of a schedule; its subscription keeps collecting."""
    from mgw.gateway.services.old_style import schedule

    with admin(ctx) as procedures:
        name = schedule(procedures, name)
        procedures.disable_propagation_schedule(name)
    say(f"schedule {name} disabled")


@app.command("remove")
def remove(ctx: typer.Context, name: ScheduleName) -> None:
    """Remove a schedule at once. Its subscriber stays and collects, but is no job any more."""
    from mgw.gateway.services.old_style import schedule

    with admin(ctx) as procedures:
        name = schedule(procedures, name)
        procedures.unschedule_propagation(name)
    say(f"schedule {name} removed")
