"""``mgw audit``: who changed what."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from mgw.gateway.cli.common import completer, hub_url, open_hub, print_json, say
from mgw.gateway.cli.jsonform import moment, second
from mgw.gateway.cli.words import TIMES, Json, epoch

if TYPE_CHECKING:
    from mgw.gateway.services.happenings import Audited

__all__ = ["register"]

_LOOK = 0.5  # seconds between two looks for more
_MOST = 10_000


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command()(audit)


def audit(
    ctx: typer.Context,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=_MOST, help="Number of latest changes.")] = 30,
    since: Annotated[str | None, typer.Option("--since", metavar="TIME", help=f"From then on: {TIMES}.")] = None,
    name: Annotated[
        str | None, typer.Option("--object", help="Only of this object.", autocompletion=completer("jobs", "links"))
    ] = None,
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more; end with ctrl-c.")] = False,
    as_json: Json = False,
) -> None:
    """Who changed what, when, and through what: definitions, starts and stops, removals with what became of messages.

    With --json also the definition before and after; secrets are named, never shown.
    """
    from mgw.gateway.services.audit_words import values_of
    from mgw.gateway.services.happenings import audit as entries

    begin = epoch(since, "--since")
    with open_hub(hub_url(ctx)) as hub:
        last: int | None = None
        while True:
            shown = entries(hub, limit if last is None else _MOST, since=begin, after=last, name=name)[::-1]
            last = max([last or 0, *(each.id for each in shown)])
            if as_json and not follow:
                print_json([values_of(each, moment) for each in shown])
            elif as_json:  # an object a line
                for each in shown:
                    print_json(values_of(each, moment), indent=None)
            for each in () if as_json else shown:
                say(_line(each))
            if not follow:
                return
            sys.stdout.flush()
            time.sleep(_LOOK)


def _line(each: Audited) -> str:
    from mgw.gateway.services.audit_words import told

    number = "" if each.generation is None else f" [{each.generation}]"
    through = "" if each.through is None else f" ({each.through})"
    return f"{second(each.time)} {each.actor}{through}:{number} {told(each)}"
