"""``mgw transformations``: look at transformations and remove them. They are made by ``mgw apply``."""

from __future__ import annotations

import typer

from mgw.gateway.cli.common import admin, print_json, print_table, say
from mgw.gateway.cli.words import Json, TransformationName

__all__ = ["app"]

app = typer.Typer(help="Transformations of messages.", no_args_is_help=True, rich_markup_mode=None)


@app.command("list")
def list_all(ctx: typer.Context, as_json: Json = False) -> None:
    """Transformations."""
    from mgw.gateway.services.options import record

    with admin(ctx) as procedures:
        found = procedures.list_transformations()
    if as_json:
        print_json([record(each) for each in found])
        return
    print_table(
        {"TRANSFORMATION": "fold", "FROM": "left", "TO": "left", "COMMENT": "fold"},
        [(each.name, each.from_type, each.to_type, each.comments) for each in found],
    )


@app.command("show")
def show(ctx: typer.Context, name: TransformationName) -> None:
    """One transformation, as JSON."""
    from mgw.gateway.services.lookup import transformation
    from mgw.gateway.services.options import record

    with admin(ctx) as procedures:
        found = transformation(procedures, name)
    print_json(record(found))


@app.command("remove")
def remove(ctx: typer.Context, name: TransformationName) -> None:
    """Remove a transformation that no job and no subscriber uses."""
    from mgw.gateway.services.lookup import transformation

    with admin(ctx) as procedures:
        name = transformation(procedures, name).name
        procedures.drop_transformation(name)
    say(f"transformation {name} removed")
