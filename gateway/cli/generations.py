"""``mgw generations`` and ``mgw rollback``: what was defined when, and the way back."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from mgw.gateway.cli.common import EXIT_FAILED, EXIT_USAGE, fail, hub_url, open_hub, print_json, print_table, say
from mgw.gateway.cli.configure import print_actions, print_done
from mgw.gateway.cli.jsonform import moment, second
from mgw.gateway.cli.words import Json

__all__ = ["app", "register"]

app = typer.Typer(help="Generations of the definitions: what changed when, and what there was.")

_COLUMNS = {"NO.": "right", "TIME (UTC)": "left", "WHO": "fold", "CHANGE": "fold", "RESULT": "fold"}
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="Number of latest generations.")]
Number = Annotated[
    int, typer.Argument(metavar="N", min=0, help="A generation; 0: before the oldest change that is kept.")
]


def register(program: typer.Typer) -> None:
    """Add the command to the program."""
    program.command()(rollback)


@app.callback(invoke_without_command=True)
def _all(ctx: typer.Context) -> None:
    if ctx.invoked_subcommand is None:
        list_(ctx)


@app.command("list")
def list_(ctx: typer.Context, limit: Limit = 20, as_json: Json = False) -> None:
    """The latest generations: when, who, what changed, what it came to. 'mgw generations' alone does the same."""
    from mgw.gateway.services.generations import generations

    with open_hub(hub_url(ctx)) as hub:
        found = generations(hub, limit)
    if as_json:
        print_json([each.values(moment) | {"changes": len(each.changes)} for each in found])
    elif not found:
        say("nothing was changed so far")
    else:
        rows = [(each.number, second(each.time), each.actor, each.what, each.result) for each in found]
        print_table(_COLUMNS, rows)


@app.command()
def show(ctx: typer.Context, number: Number) -> None:
    """Print what a generation held as a configuration file. Secrets are not in it; hub queues are those of today."""
    from mgw.gateway.services.generations import text_of

    with open_hub(hub_url(ctx)) as hub:
        sys.stdout.write(text_of(hub, number))


def rollback(
    ctx: typer.Context,
    number: Annotated[
        int | None,
        typer.Argument(metavar="N", min=0, help="A generation; left out: the one before the latest."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Delete the messages in removed objects.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan, and change nothing.")] = False,
) -> None:
    """Go back to what a generation held: shows the plan, asks, applies it. That is a new generation.

    Queues of the hub and secrets stay as they are today. What is created again takes its secrets from the variables
    that 'mgw generations show N' names.
    """
    from mgw.gateway.services.generations import UNTOUCHED, before_last, way_back
    from mgw.gateway.services.impact import impact

    with open_hub(hub_url(ctx)) as hub:
        wanted = before_last(hub) if number is None else number
        way = way_back(hub, wanted, os.environ)
        if way.is_empty:
            say(f"nothing to do: everything is as in generation {wanted}")
            return
        say(f"back to generation {wanted}:")
        print_actions(list(way.actions), lines=True, intent="to be ")
        for job in impact(hub, way.actions):
            say(str(job))
        say(f"stays as it is today: {UNTOUCHED}")
        if dry_run:
            return
        if not yes:
            if not sys.stdin.isatty():
                fail("nothing was changed: nobody can be asked here; give --yes", EXIT_USAGE)
            if not typer.confirm("Do that?"):
                raise typer.Exit(EXIT_FAILED)
        print_done(way.go(hub, force=force), ())
