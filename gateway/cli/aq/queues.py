"""``mgw aq``: the queues of the hub, listed, made, changed, started, stopped and dropped."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mgw.gateway.cli.aq.words import Comment, Json, QueueName, Wait, waiting
from mgw.gateway.cli.common import EXIT_USAGE, ago, completer, fail, hub_url, open_hub, print_json, print_table, say
from mgw.gateway.cli.jsonform import moments
from mgw.gateway.cli.words import DropForce, MoveTo, described, what_became
from mgw.gateway.services.attributes import QUEUE_ATTRIBUTES

if TYPE_CHECKING:
    from mgw.gateway.services.queues import Counts

__all__ = ["register"]

Retries = Annotated[int | None, described(QUEUE_ATTRIBUTES["max_retries"])]
RetryDelay = Annotated[float | None, described(QUEUE_ATTRIBUTES["retry_delay"])]
Retention = Annotated[str | None, described(QUEUE_ATTRIBUTES["retention_time"])]
Enqueue = Annotated[bool, described(QUEUE_ATTRIBUTES["enqueue"], "--enqueue/--no-enqueue")]
Dequeue = Annotated[bool, described(QUEUE_ATTRIBUTES["dequeue"], "--dequeue/--no-dequeue")]


def register(app: typer.Typer) -> None:
    """Add the commands to the group."""
    for name, command in (
        ("queues", queues),
        ("create", create),
        ("alter", alter),
        ("start", start),
        ("stop", stop),
        ("drop", drop),
        ("time-manager", time_manager),
    ):
        app.command(name)(command)


def queues(ctx: typer.Context, as_json: Json = False) -> None:
    """Queues of the hub with the messages in them."""
    from mgw.gateway.services.queues import overview

    with open_hub(hub_url(ctx)) as hub:
        now, found = hub.clock.now(), overview(hub)
    if as_json:
        print_json(
            [
                asdict(queue)
                | {
                    "messages": moments(asdict(held), "oldest"),
                    "subscribers": {name: moments(asdict(each), "oldest") for name, each in by_reader.items()},
                }
                for queue, held, by_reader in found
            ]
        )
        return
    rows: list[tuple[Any, ...]] = []
    for queue, held, by_reader in found:
        if queue.name.upper().startswith("AQ$_") and not (held.ready or held.expired or held.waiting):
            continue
        kind = "multi" if queue.multiple_consumers else "single"
        kind = "exception" if queue.queue_type == "EXCEPTION_QUEUE" else kind
        flags = ("E" if queue.enqueue_enabled else "-") + ("D" if queue.dequeue_enabled else "-")
        numbers = ("", "", "", "") if by_reader else _numbers(held, now)
        rows.append((queue.full_name, kind, queue.object_type or queue.payload_type, flags, *numbers))
        rows += [(f"  {name}", "", "", "", *_numbers(each, now)) for name, each in by_reader.items()]
    columns = {"QUEUE, SUBSCRIBER": "fold", "KIND": "left", "HOLDS": "left", "ON": "left"}
    print_table(columns | {"READY": "right", "DELAYED": "right", "EXPIRED": "right", "OLDEST": "right"}, rows)


def _numbers(held: Counts, now: float) -> tuple[Any, ...]:
    age = ago(None if held.oldest is None else now - held.oldest)
    return held.ready + held.claimed, held.waiting, held.expired, age


def create(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="QUEUE")],
    table: Annotated[
        str, typer.Option("--table", "-t", help="Queue table that stores it.", autocompletion=completer("queue_tables"))
    ],
    *,
    exception: Annotated[bool, described(QUEUE_ATTRIBUTES["type"], "--exception")] = False,
    max_retries: Retries = None,
    retry_delay: RetryDelay = None,
    retention: Retention = None,
    comment: Comment = None,
    started: Annotated[bool, typer.Option("--start/--no-start", help="Start it at once.")] = True,
) -> None:
    """Create a queue in a queue table, and start it."""
    from mgw.gateway.services import lookup
    from mgw.gateway.services.queues import create_queue

    kept = _retention(retention)
    with open_hub(hub_url(ctx)) as hub:
        full = lookup.queue_table(hub, table)
        made = create_queue(
            hub,
            name,
            full,
            exception=exception,
            max_retries=max_retries,
            retry_delay=retry_delay or 0,
            retention_time=kept or 0,
            comment=comment,
            started=started,
        )
    say(f"queue {made.full_name} created in queue table {full}{'' if started else ', stopped'}")


def alter(
    ctx: typer.Context,
    queue: QueueName,
    *,
    max_retries: Retries = None,
    retry_delay: RetryDelay = None,
    retention: Retention = None,
    comment: Comment = None,
) -> None:
    """Change a queue; what is not named stays."""
    from mgw.gateway.services import lookup
    from mgw.gateway.services.queues import administration

    kept = _retention(retention)
    if all(value is None for value in (max_retries, retry_delay, kept, comment)):
        fail("nothing to change; give an option", EXIT_USAGE)
    with open_hub(hub_url(ctx)) as hub:
        changed = administration(hub).alter_queue(
            lookup.queue(hub, queue),
            max_retries=max_retries,
            retry_delay=retry_delay,
            retention_time=kept,
            comment=comment,
        )
    say(f"queue {changed.full_name} altered")


def start(ctx: typer.Context, queue: QueueName, *, enqueue: Enqueue = True, dequeue: Dequeue = True) -> None:
    """Start a queue, in both directions unless it is an exception queue."""
    from mgw.gateway.services import lookup
    from mgw.gateway.services.queues import start_queue

    with open_hub(hub_url(ctx)) as hub:
        full = lookup.queue(hub, queue)
        start_queue(hub, full, enqueue=enqueue, dequeue=dequeue)
    say(f"queue {full} started")


def stop(
    ctx: typer.Context, queue: QueueName, *, enqueue: Enqueue = True, dequeue: Dequeue = True, wait: Wait = None
) -> None:
    """Stop a queue when the transactions on it have ended; no new ones can start in the meantime."""
    from mgw.gateway.services import lookup
    from mgw.gateway.services.queues import administration

    with open_hub(hub_url(ctx)) as hub:
        full = lookup.queue(hub, queue)
        administration(hub).stop_queue(full, enqueue=enqueue, dequeue=dequeue, wait=waiting(wait))
    say(f"queue {full} stopped")


def drop(ctx: typer.Context, queue: QueueName, force: DropForce = False, move_to: MoveTo = None) -> None:
    """Drop a stopped queue that no job uses, with its subscribers. If it holds messages, give --force or --move-to."""
    from mgw.gateway.services import lookup
    from mgw.gateway.services.queues import drop_queue

    if force and move_to is not None:
        fail("give either --force or --move-to", EXIT_USAGE)
    with open_hub(hub_url(ctx)) as hub:
        full = lookup.queue(hub, queue)
        target = None if move_to is None else lookup.queue(hub, move_to)
        held = drop_queue(hub, full, force=force, move_to=target)
        told = what_became(held, force=force, moved_to=target, now=hub.clock.now())
    say(f"queue {full} dropped{told}")


def time_manager(ctx: typer.Context, as_json: Json = False) -> None:
    """Run one pass of the time manager: delays, expirations, retentions. Agents do it every second."""
    from mgw.gateway.services.queues import run_time_manager

    with open_hub(hub_url(ctx)) as hub:
        report = run_time_manager(hub)
    if as_json:
        print_json(asdict(report) | {"expirations": [each._asdict() for each in report.expirations]})
        return
    say(
        f"{report.made_ready} made ready, {report.expired} expired, {report.removed} removed, "
        f"{report.returned} returned from sessions that died"
    )


def _retention(given: str | None) -> float | None:
    from mgw.gateway.services.queues import INFINITE

    if given is None:
        return None
    if given.upper() == "INFINITE":
        return INFINITE
    try:
        return float(given)
    except ValueError:
        fail(f"--retention {given!r} is neither a number of seconds nor INFINITE", EXIT_USAGE)
