"""``mgw aq types``: the object types of the hub."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from mgw.gateway.cli.aq.words import Json
from mgw.gateway.cli.common import EXIT_USAGE, completer, fail, hub_url, open_hub, print_json, print_table, say
from mgw.gateway.cli.jsonform import moments

__all__ = ["app"]

app = typer.Typer(help="Object types for payloads.", no_args_is_help=True, rich_markup_mode=None)

TypeName = Annotated[str, typer.Argument(metavar="TYPE", autocompletion=completer("object_types"))]


@app.command("list")
def list_all(ctx: typer.Context, as_json: Json = False) -> None:
    """Object types and what they are made of."""
    from mgw.gateway.services.queues import administration

    with open_hub(hub_url(ctx)) as hub:
        found = administration(hub).types()
    if as_json:
        print_json([moments(asdict(each), "created") for each in found])
        return
    rows = [
        (each.full_name, each.array or ", ".join(f"{name} {declared}" for name, declared in each.attributes.items()))
        for each in found
    ]
    print_table({"TYPE": "fold", "MADE OF": "fold"}, rows)


@app.command("create")
def create(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="TYPE")],
    attributes: Annotated[
        list[str] | None, typer.Argument(metavar="NAME=DECLARATION...", help="Such as 'price=NUMBER(9,2)', in order.")
    ] = None,
    *,
    array: Annotated[str | None, typer.Option(help="'VARRAY(n) OF type' instead of attributes.")] = None,
) -> None:
    """Create an object type, or an array type. It cannot be changed later."""
    from mgw.gateway.services.queues import administration

    if bool(attributes) is (array is not None):
        fail("give either attributes as NAME=DECLARATION, or --array", EXIT_USAGE)
    declared: dict[str, str] = {}
    for each in attributes or ():
        attribute, equals, text = each.partition("=")
        if not equals or not attribute.strip() or not text.strip():
            fail(f"attribute {each!r} is not of the form NAME=DECLARATION", EXIT_USAGE)
        if attribute.strip() in declared:
            fail(f"attribute {attribute.strip()} is given twice", EXIT_USAGE)
        declared[attribute.strip()] = text.strip()
    with open_hub(hub_url(ctx)) as hub:
        made = administration(hub).create_type(name, declared if array is None else array)
    say(f"object type {made.full_name} created")


@app.command("drop")
def drop(ctx: typer.Context, name: TypeName) -> None:
    """Drop an object type that nothing uses; messages that hold it can still be dequeued."""
    from mgw.gateway.services import lookup
    from mgw.gateway.services.queues import administration

    with open_hub(hub_url(ctx)) as hub:
        full = lookup.object_type(hub, name)
        administration(hub).drop_type(full)
    say(f"object type {full} dropped")
