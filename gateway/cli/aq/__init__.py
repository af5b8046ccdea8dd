"""``mgw aq``: the hub's own queue tables, queues, subscribers and messages."""

from __future__ import annotations

import typer

from mgw.gateway.cli.aq import messages, queues, security, subscribers, tables, types

__all__ = ["app"]

app = typer.Typer(help="The hub's own queues and their messages.", no_args_is_help=True, rich_markup_mode=None)
queues.register(app)
messages.register(app)
app.add_typer(tables.app, name="tables")
app.add_typer(types.app, name="types")
app.add_typer(subscribers.app, name="subscribers")
security.register(app)
