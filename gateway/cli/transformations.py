"""``mgw transformations``: create and alter transformations, look at them and remove them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from mgw.gateway.cli.common import admin, fail, print_json, print_table, say
from mgw.gateway.cli.words import REMOVES, Json, TransformationName

__all__ = ["app"]

app = typer.Typer(help="Transformations of messages.", no_args_is_help=True, rich_markup_mode=None)


Definition = typer.Option(
    "--definition", metavar="FILE", help="JSON file with the part that 'show' prints as definition."
)
FromType = typer.Option("--from-type", help="Payload type that it takes.")
ToType = typer.Option("--to-type", help="Payload type that it gives.")


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


@app.command("create")
def create(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME")],
    *,
    from_type: Annotated[str, FromType],
    to_type: Annotated[str, ToType],
    definition: Annotated[Path, Definition],
    comment: Annotated[str | None, typer.Option(help="Free text.")] = None,
) -> None:
    """Define a transformation; its expressions are checked now."""
    steps = _definition(definition)
    with admin(ctx) as procedures:
        procedures.create_transformation(name, from_type, to_type, steps, comment or None)
    say(f"transformation {name} created")


@app.command("alter")
def alter(
    ctx: typer.Context,
    name: TransformationName,
    *,
    from_type: Annotated[str | None, FromType] = None,
    to_type: Annotated[str | None, ToType] = None,
    definition: Annotated[Path | None, Definition] = None,
    comment: Annotated[str | None, typer.Option(help=f"Free text. {REMOVES}")] = None,
) -> None:
    """Change a transformation; jobs that use it continue with the new one at once."""
    from mgw.gateway.services.admin import NO_CHANGE
    from mgw.gateway.services.lookup import transformation

    steps = None if definition is None else _definition(definition)
    with admin(ctx) as procedures:
        name = transformation(procedures, name).name
        procedures.alter_transformation(
            name, from_type, to_type, steps, NO_CHANGE if comment is None else comment or None
        )
    say(f"transformation {name} altered")


@app.command("remove")
def remove(ctx: typer.Context, name: TransformationName) -> None:
    """Remove a transformation that no job and no subscriber uses."""
    from mgw.gateway.services.lookup import transformation

    with admin(ctx) as procedures:
        name = transformation(procedures, name).name
        procedures.drop_transformation(name)
    say(f"transformation {name} removed")


def _definition(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text("utf-8"))
    except OSError as error:
        fail(f"{path} cannot be read: {error.strerror}; check path and permissions")
    except (ValueError, RecursionError) as error:
        fail(f"{path} is not JSON: {error}; correct it")
    if not isinstance(value, dict):
        fail(f'{path} is not a JSON object; write one such as {{"set": {{"priority": "0"}}}}')
    return value
