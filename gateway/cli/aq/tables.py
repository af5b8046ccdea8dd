"""``mgw aq tables``: the queue tables of the hub."""

from __future__ import annotations

from typing import Annotated

import typer

from mgw.gateway.cli.aq.words import Comment, Json, TableName, Wait, waiting
from mgw.gateway.cli.common import EXIT_USAGE, fail, hub_url, open_hub, print_json, print_table, say
from mgw.gateway.cli.words import MoveTo, Options, described, pairs, what_became
from mgw.gateway.services.attributes import QUEUE_TABLE_ATTRIBUTES

__all__ = ["app"]

app = typer.Typer(help="Queue tables: storage shared by queues.", no_args_is_help=True, rich_markup_mode=None)

Primary = Annotated[int | None, described(QUEUE_TABLE_ATTRIBUTES["primary_instance"])]
Secondary = Annotated[int | None, described(QUEUE_TABLE_ATTRIBUTES["secondary_instance"])]


@app.command("list")
def list_all(ctx: typer.Context, as_json: Json = False) -> None:
    """Queue tables and the fixed properties of their queues."""
    from mgw.gateway.services.options import queue_table_view
    from mgw.gateway.services.queues import administration

    with open_hub(hub_url(ctx)) as hub:
        found = administration(hub).queue_tables()
    if as_json:
        print_json([queue_table_view(each) for each in found])
        return
    columns = {"TABLE": "fold", "HOLDS": "left", "KIND": "left", "SORT": "left", "GROUPING": "left"}
    columns |= {"COMPATIBLE": "left", "SECURE": "left", "COMMENT": "fold"}
    print_table(
        columns,
        [
            (
                each.full_name,
                each.object_type or each.payload_type,
                "multi" if each.multiple_consumers else "single",
                each.sort_list,
                each.message_grouping,
                each.compatible,
                "yes" if each.secure else "no",
                each.comment,
            )
            for each in found
        ],
    )


@app.command("create")
def create(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="TABLE")],
    *,
    payload_type: Annotated[str, described(QUEUE_TABLE_ATTRIBUTES["payload_type"], "--type")] = "BASIC",
    multiple_consumers: Annotated[
        bool, described(QUEUE_TABLE_ATTRIBUTES["multiple_consumers"], "--multiple-consumers")
    ] = False,
    sort_list: Annotated[str | None, described(QUEUE_TABLE_ATTRIBUTES["sort_list"], "--sort")] = None,
    transactional: Annotated[bool, described(QUEUE_TABLE_ATTRIBUTES["message_grouping"], "--transactional")] = False,
    compatible: Annotated[str | None, described(QUEUE_TABLE_ATTRIBUTES["compatible"])] = None,
    secure: Annotated[bool, described(QUEUE_TABLE_ATTRIBUTES["secure"], "--secure")] = False,
    max_payload: Annotated[int | None, described(QUEUE_TABLE_ATTRIBUTES["max_payload"])] = None,
    storage_clause: Annotated[str | None, described(QUEUE_TABLE_ATTRIBUTES["storage_clause"], "--storage")] = None,
    primary_instance: Primary = None,
    secondary_instance: Secondary = None,
    option: Options = None,
    comment: Comment = None,
) -> None:
    """Create a queue table."""
    from mgw.gateway.services.queues import administration

    with open_hub(hub_url(ctx)) as hub:
        made = administration(hub).create_queue_table(
            name,
            payload_type,
            storage_clause=storage_clause,
            sort_list=sort_list,
            multiple_consumers=multiple_consumers,
            message_grouping="TRANSACTIONAL" if transactional else "NONE",
            comment=comment,
            primary_instance=primary_instance or 0,
            secondary_instance=secondary_instance or 0,
            compatible=compatible,
            secure=secure,
            max_payload=max_payload,
            options=pairs(option, "--option"),
        )
    say(f"queue table {made.full_name} created")


@app.command("alter")
def alter(
    ctx: typer.Context,
    table: TableName,
    *,
    comment: Comment = None,
    primary_instance: Primary = None,
    secondary_instance: Secondary = None,
    option: Options = None,
) -> None:
    """Change a queue table; what is not named stays."""
    from mgw.gateway.services import lookup
    from mgw.gateway.services.queues import administration

    options = pairs(option, "--option") or None
    if comment is None and primary_instance is None and secondary_instance is None and options is None:
        fail("nothing to change; give an option", EXIT_USAGE)
    with open_hub(hub_url(ctx)) as hub:
        changed = administration(hub).alter_queue_table(
            lookup.queue_table(hub, table),
            comment=comment,
            primary_instance=primary_instance,
            secondary_instance=secondary_instance,
            options=options,
        )
    say(f"queue table {changed.full_name} altered")


@app.command("migrate")
def migrate(
    ctx: typer.Context, table: TableName, compatible: Annotated[str, typer.Argument(metavar="COMPATIBLE")]
) -> None:
    """Give a queue table another compatible setting: 8.1, 10.0 or 12.2."""
    from mgw.gateway.services import lookup
    from mgw.gateway.services.queues import administration

    with open_hub(hub_url(ctx)) as hub:
        changed = administration(hub).migrate_queue_table(lookup.queue_table(hub, table), compatible)
    say(f"queue table {changed.full_name} migrated to {changed.compatible}")


@app.command("enable-jms-types")
def enable_jms_types(ctx: typer.Context, table: TableName) -> None:
    """Let the queues of an ANYDATA queue table take JMS and XML types. This cannot be taken back."""
    from mgw.gateway.services import lookup
    from mgw.gateway.services.queues import administration

    with open_hub(hub_url(ctx)) as hub:
        full = lookup.queue_table(hub, table)
        administration(hub).enable_jms_types(full)
    say(f"queue table {full} accepts JMS and XML types")


@app.command("drop")
def drop(
    ctx: typer.Context,
    table: TableName,
    force: Annotated[
        bool,
        typer.Option("--force", help="Stop and drop its queues too, with their messages; none may be used by a job."),
    ] = False,
    move_to: MoveTo = None,
) -> None:
    """Drop a queue table without queues. If its exception queue holds messages, give --force or --move-to."""
    from mgw.gateway.services import lookup
    from mgw.gateway.services.queues import drop_queue_table

    with open_hub(hub_url(ctx)) as hub:
        full = lookup.queue_table(hub, table)
        target = None if move_to is None else lookup.queue(hub, move_to)
        held = drop_queue_table(hub, full, force=force, move_to=target)
        told = what_became(held, force=force, moved_to=target, now=hub.clock.now())
    say(f"queue table {full} dropped{told}")


@app.command("purge")
def purge(
    ctx: typer.Context,
    table: TableName,
    *,
    condition: Annotated[
        str | None, typer.Option("--where", help="Over the columns of the view, such as qtview.msg_state = 'EXPIRED'.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All messages of all its queues.")] = False,
    block: Annotated[bool, typer.Option("--block", help="Wait for messages that other transactions hold.")] = False,
    wait: Wait = None,
) -> None:
    """Remove messages by a condition over the view AQ$TABLE. Exit 1 when other transactions hold some of them."""
    from mgw.gateway.services import lookup
    from mgw.gateway.services.queues import administration

    if everything is (condition is not None):
        fail("give either --where with a condition, or --all", EXIT_USAGE)
    with open_hub(hub_url(ctx)) as hub:
        full = lookup.queue_table(hub, table)
        limit = waiting(wait) if block or wait is not None else False
        done = administration(hub).purge_queue_table(full, condition, block=limit)
    entries = f", {done.entries} entries of consumers" if done.entries else ""
    say(f"queue table {full} purged: {done.messages} message(s) removed{entries}")
