"""``mgw aq types``: the object types of the hub."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from gateway.cli.aq.words import Json
from gateway.cli.common import EXIT_USAGE, completer, fail, find_name, hub_url, open_hub, print_json, print_table, say
from gateway.cli.jsonform import moments

__all__ = ["app"]

app = typer.Typer(help="Object types, of which payloads are made.", no_args_is_help=True, rich_markup_mode=None)

TypeName = Annotated[str, typer.Argument(metavar="TYPE", autocompletion=completer("object_types"))]


@app.command("list")
def list_all(ctx: typer.Context, as_json: Json = False) -> None:
    """Object types and what they are made of."""
    from gateway.aq.admin import QueueAdmin

    with open_hub(hub_url(ctx)) as hub:
        found = QueueAdmin(hub).types()
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
    """Make an object type, or an array type. It cannot be changed later."""
    from gateway.aq.admin import QueueAdmin

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
        made = QueueAdmin(hub).create_type(name, declared if array is None else array)
    say(f"object type {made.full_name} created")


@app.command("drop")
def drop(ctx: typer.Context, name: TypeName) -> None:
    """Drop an object type that nothing is made of; messages that hold it can still be dequeued."""
    from gateway.aq.admin import QueueAdmin
    from gateway.aq.names import QualifiedName, qualified

    with open_hub(hub_url(ctx)) as hub:
        admin = QueueAdmin(hub)
        known = {QualifiedName(each.schema, each.name).key: each.full_name for each in admin.types()}
        full = known.get(qualified(name, what="type").key) or find_name("object type", name, list(known.values()))
        admin.drop_type(full)
    say(f"object type {full} dropped")
