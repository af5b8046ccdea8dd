"""``mgw aq``: the hub's own queues."""

from __future__ import annotations

import typer

app = typer.Typer(help="The hub's own queues and their messages.", no_args_is_help=True, rich_markup_mode=None)


@app.command("queues")
def q() -> None:
    """x"""


@app.command("q2")
def q2() -> None:
    """x"""
