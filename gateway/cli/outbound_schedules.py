"""``mgw outbound-schedules``: schedules of the older gateway (DBMS_HQADM), each of which makes a job."""

from __future__ import annotations

from typing import Annotated

import typer

from mgw.gateway.cli.common import admin, completer, hub_url, open_hub, print_json, print_table, say
from mgw.gateway.cli.jsonform import record
from mgw.gateway.cli.words import Json, described
from mgw.gateway.services.attributes import OUTBOUND_SCHEDULE_ATTRIBUTES as ATTRIBUTES
from mgw.gateway.services.attributes import meaning

__all__ = ["app"]

Queue = Annotated[
    str,
    typer.Argument(metavar="QUEUE", help=meaning(ATTRIBUTES["queue_name"]), autocompletion=completer("queues")),
]
Destination = Annotated[
    str,
    typer.Argument(
        metavar="DESTINATION", help=meaning(ATTRIBUTES["destination"]), autocompletion=completer("foreign_queues")
    ),
]
Protocol = Annotated[str, described(ATTRIBUTES["protocol"])]
ANY_LINK, LATENCY = str(ATTRIBUTES["protocol"].default), float(ATTRIBUTES["latency"].default)

app = typer.Typer(
    help="Schedules of the older gateway (DBMS_HQADM): each makes a job from a RAW queue of the hub, with windows, a "
    "latency and an exception queue of its own.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("list")
def list_all(ctx: typer.Context, as_json: Json = False) -> None:
    """Schedules, with their windows and what waits for them."""
    from mgw.gateway.services.old_style import outbound_schedules, window_of

    with open_hub(hub_url(ctx)) as hub:
        rows, now = outbound_schedules(hub), hub.clock.now()
    if as_json:
        print_json([record(row) for row in rows])
        return
    print_table(
        {
            "JOB": "fold",
            "QUEUE": "fold",
            "DESTINATION": "fold",
            "WINDOW": "left",
            "DISABLED": "left",
            "WAITING": "right",
            "BAD": "right",
        },
        [
            (
                row.job_name,
                row.queue_name,
                row.destination,
                window_of(row, now),
                row.disabled,
                row.transmit_msgs,
                row.exception_msgs,
            )
            for row in rows
        ],
    )


@app.command("create")
def create(
    ctx: typer.Context,
    queue: Queue,
    destination: Destination,
    *,
    protocol: Protocol = ANY_LINK,
    start_time: Annotated[str | None, described(ATTRIBUTES["start_time"])] = None,
    duration: Annotated[float | None, described(ATTRIBUTES["duration"])] = None,
    next_time: Annotated[str | None, described(ATTRIBUTES["next_time"])] = None,
    latency: Annotated[float, described(ATTRIBUTES["latency"])] = LATENCY,
) -> None:
    """Schedule propagation: messages of the queue move to the destination, in windows. Makes a job and its exception
    queue.
    """
    with admin(ctx) as procedures:
        job = procedures.hq_schedule_propagation(queue, protocol, destination, start_time, duration, next_time, latency)
    say(f"outbound schedule of {queue} to {destination} created; job {job.name}, exception queue {job.exception_queue}")


@app.command("remove")
def remove(
    ctx: typer.Context,
    queue: Queue,
    destination: Destination,
    *,
    protocol: Protocol = ANY_LINK,
    force: Annotated[
        bool,
        typer.Option("--force", help="Delete the messages that wait for it, and those in its exception queue."),
    ] = False,
) -> None:
    """Remove a schedule with its job and its exception queue."""
    with admin(ctx) as procedures:
        gone = procedures.hq_unschedule_propagation(queue, protocol, destination, force)
    told = "removed" if gone else "removed; its agent finishes its job"
    say(f"outbound schedule of {queue} to {destination} {told}")
