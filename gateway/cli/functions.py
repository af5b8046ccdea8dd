"""``mgw modules`` and ``functions``: the Python code that transformations and rules of the hub may call."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from mgw.gateway.cli.common import hub_url, open_hub, print_json, print_table, say
from mgw.gateway.cli.words import Json

__all__ = ["functions", "modules"]

modules = typer.Typer(
    help="Python modules that transformations and rules may call.", no_args_is_help=True, rich_markup_mode=None
)
functions = typer.Typer(
    help="Python functions that rules may call by name.", no_args_is_help=True, rich_markup_mode=None
)

ModuleName = Annotated[str, typer.Argument(metavar="MODULE", help="Name for import, such as plant.rules.")]
FunctionName = Annotated[str, typer.Argument(metavar="NAME", help="Name in rules, such as hr.get_type.")]


@modules.command("list")
def modules_list(ctx: typer.Context, as_json: Json = False) -> None:
    """Modules whose functions may be called, in every process that opens the hub."""
    from mgw.gateway.services.queues import administration

    with open_hub(hub_url(ctx)) as hub:
        found = administration(hub).modules()
    if as_json:
        print_json(found)
    else:
        print_table({"MODULE": "fold"}, [(name,) for name in found])


@modules.command("allow")
def modules_allow(ctx: typer.Context, name: ModuleName) -> None:
    """Allow a module and those below it. It is imported when a function of it is first called, not now."""
    from mgw.gateway.services.queues import administration

    with open_hub(hub_url(ctx)) as hub:
        administration(hub).allow_module(name)
    say(f"module {name} allowed")


@modules.command("forbid")
def modules_forbid(ctx: typer.Context, name: ModuleName) -> None:
    """Take a module off the list; refused while a function or a transformation of the hub uses it."""
    from mgw.gateway.services.queues import administration

    with open_hub(hub_url(ctx)) as hub:
        administration(hub).forbid_module(name)
    say(f"module {name} forbidden")


@functions.command("list")
def functions_list(ctx: typer.Context, as_json: Json = False) -> None:
    """Functions that rules may call, and where they are."""
    from mgw.gateway.services.queues import administration

    with open_hub(hub_url(ctx)) as hub:
        found = administration(hub).rule_functions()
    if as_json:
        print_json([asdict(each) for each in found])
    else:
        print_table({"NAME": "fold", "FUNCTION": "fold"}, [(each.name, each.function) for each in found])


@functions.command("set")
def functions_set(
    ctx: typer.Context,
    name: FunctionName,
    function: Annotated[str, typer.Argument(metavar="MODULE:FUNCTION", help="A function of an allowed module.")],
) -> None:
    """Let rules call a function by a name, or give the name another function. It must be importable here."""
    from mgw.gateway.services.queues import administration

    with open_hub(hub_url(ctx)) as hub:
        made = administration(hub).set_rule_function(name, function)
    say(f"rules may call {made.name}: {made.function}")


@functions.command("drop")
def functions_drop(ctx: typer.Context, name: FunctionName) -> None:
    """Remove a function; rules that call it are refused from then on."""
    from mgw.gateway.services.queues import administration

    with open_hub(hub_url(ctx)) as hub:
        administration(hub).drop_rule_function(name)
    say(f"function {name} dropped")
