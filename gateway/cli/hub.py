"""``mgw hub``: the hub as a whole."""

from __future__ import annotations

from typing import Annotated

import typer

from mgw.gateway.cli.common import hub_url, say

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="The hub as a whole.")


@app.callback()
def _hub() -> None:
    """The hub as a whole."""


@app.command()
def drop(
    ctx: typer.Context,
    force: Annotated[bool, typer.Option("--force", help="Drop it even if messages wait in it; they are lost.")] = False,
) -> None:
    """Drop the hub's tables, views and functions; those of an application in the same database stay as they are.

    Stop every agent and program that uses the hub first. The drop is atomic.
    """
    from mgw.gateway.services.hubs import drop_hub

    done = drop_hub(hub_url(ctx), force=force)
    lost = f", {done.messages} message(s) with it" if done.messages else ""
    say(f"hub {done.hub} dropped: {done.objects} tables and views{lost}")
