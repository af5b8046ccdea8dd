"""``mgw hub``: the hub as a whole."""

from __future__ import annotations

from typing import Annotated

import typer

from mgw.gateway.cli.common import admin, hub_url, say

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="The hub as a whole.")


@app.callback()
def _hub() -> None:
    """The hub as a whole."""


@app.command()
def create(ctx: typer.Context) -> None:
    """Create the hub: its tables, views and functions. Running it again changes nothing.

    SQLite: the file. PostgreSQL: tables in a database that is there already. 'mgw apply FILE' creates the hub, too.
    """
    from mgw.gateway.services.hubs import create_hub

    made = create_hub(hub_url(ctx))
    if made.done == "nothing":
        say(f"hub {made.hub} is there already; nothing was changed")
        return
    within = f", in schema {made.schema}" if made.schema is not None else ""
    if made.done == "gateway":
        say(f"hub {made.hub} had queues only; the tables of the gateway were added{within}")
    else:
        say(f"hub {made.hub} created{within}")
    say("next: mgw aq create, mgw links create and mgw jobs create, or mgw apply FILE; then mgw run")


@app.command()
def backup(
    ctx: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Where the copy is made; nothing may be there.")],
) -> None:
    """Copy the hub to a file, while agents and applications use it (SQLite). PostgreSQL: use pg_dump.

    The copy is checked, and gets its name when it is complete and on disk. The key of the secrets is not in it.
    """
    from mgw.gateway.services.hubs import back_up

    made = back_up(hub_url(ctx), file)
    say(f"hub {made.copied.hub} copied to {file}: {made.copied.size / 1e6:.1f} MB, checked")
    if made.key_file is not None:
        say(f"the key of its secrets is not in the copy: keep {made.key_file}, too, in another place")


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


@app.command("rotate-key")
def rotate_key(
    ctx: typer.Context,
    *,
    wait: Annotated[float, typer.Option(min=0, help="Seconds in which running agents must learn the new key.")] = 30.0,
    force: Annotated[bool, typer.Option("--force", help="Do not wait for running agents.")] = False,
    forget: Annotated[
        bool, typer.Option("--forget-former", help="Only remove keys from the file that no secret uses any more.")
    ] = False,
) -> None:
    """Encrypt every stored secret with a new key, while agents run. The former key stays in the key file.

    Run it again after it was interrupted: it goes on.
    """
    from mgw.gateway.services import key_rotation

    with admin(ctx) as procedures:
        if forget:
            done = key_rotation.forget_former_keys(procedures)
            say(f"{len(done.former)} former key(s) removed from {done.place}; key {done.key} stays")
            return
        done = key_rotation.rotate_key(procedures, wait=wait, force=force)
    say(f"{done.secrets} secret(s) encrypted with key {done.key} of {done.place}")
    if done.former:
        say(
            f"former key(s) {', '.join(done.former)} stay there, for backups; remove them with: "
            "mgw hub rotate-key --forget-former"
        )
