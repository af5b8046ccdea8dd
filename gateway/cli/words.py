"""Arguments and options that the commands on the gateway's objects share."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mgw.gateway.cli.common import EXIT_USAGE, completer, fail
from mgw.gateway.services.attributes import Attribute, meaning
from mgw.gateway.services.durations import seconds_of

if TYPE_CHECKING:
    from mgw.gateway.services.queues import Held

__all__ = [
    "REMOVES",
    "TIMES",
    "AgentName",
    "DropForce",
    "DropMessages",
    "Force",
    "JobName",
    "Json",
    "LinkName",
    "MoveTo",
    "Options",
    "PasswordFile",
    "QueueName",
    "Settings",
    "TransformationName",
    "check_fate",
    "described",
    "duration",
    "epoch",
    "pairs",
    "secret",
    "typed_password",
    "what_became",
]

REMOVES = "'' removes it."
TIMES = "2026-11-20T10:00 (UTC, unless it names a zone), or 90s, 15m, 3h, 2d ago"
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Force = Annotated[
    bool,
    typer.Option("--force", help="Remove at once, with its messages in the hub; leave what is in the foreign system."),
]
DropMessages = Annotated[
    bool,
    typer.Option(
        "--drop-messages", help="Delete the messages that wait for it, those in the foreign system's subscription, too."
    ),
]
MoveTo = Annotated[
    str | None,
    typer.Option(
        "--move-to",
        metavar="QUEUE",
        help="Move the messages to this queue of the hub first.",
        autocompletion=completer("queues"),
    ),
]
DropForce = Annotated[bool, typer.Option("--force", help="Delete its messages, too.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Change a setting; NAME= restores the default.")
]
Options = Annotated[
    list[str] | None, typer.Option("--option", metavar="NAME=VALUE", help="Change an option; NAME= removes it.")
]
PasswordFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="File whose first line is the password; - for standard input. [default: asks]"),
]
AgentName = Annotated[str, typer.Argument(metavar="AGENT", autocompletion=completer("agents"))]
LinkName = Annotated[str, typer.Argument(metavar="LINK", autocompletion=completer("links"))]
QueueName = Annotated[str, typer.Argument(metavar="QUEUE@LINK", autocompletion=completer("foreign_queues"))]
TransformationName = Annotated[str, typer.Argument(metavar="NAME", autocompletion=completer("transformations"))]
JobName = Annotated[str, typer.Argument(metavar="JOB", autocompletion=completer("jobs"))]


def described(
    attribute: Attribute,
    *names: str,
    more: str = "",
    known: Callable[[typer.Context, str], list[str]] | None = None,
) -> Any:
    """An option that gives an attribute; what it means and its range are written with the object, checked there, too.

    Args:
        attribute: its description.
        names: of the option, where they are not that of the attribute.
        more: what is to be said of this command alone, such as how to remove the value.
        known: gives the names that the shell completes.
    """
    return typer.Option(*names, help=f"{meaning(attribute)} {more}".strip(), autocompletion=known)


def pairs(words: list[str] | None, option: str) -> dict[str, str | None]:
    """``NAME=VALUE`` words as a mapping; an empty value is None."""
    result: dict[str, str | None] = {}
    for word in words or []:
        name, equals, value = word.partition("=")
        if not equals or not name.strip():
            fail(f"{option} {word!r} is not of the form NAME=VALUE", EXIT_USAGE)
        result[name.strip()] = value or None
    return result


def secret(path: Path) -> str:
    """The secret that a file holds, without the end of its line; ends the command where it cannot be read."""
    try:
        return path.read_text("utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        fail(
            f"{path} cannot be read: {getattr(error, 'strerror', None) or 'not UTF-8 text'}; check path and permissions"
        )


def typed_password(file: Path | None) -> str:
    """The password in the first line of a file, or that somebody types twice; ends the command where there is none."""
    if file is None:
        if not sys.stdin.isatty():
            fail("nobody can be asked for a password; give --password-file FILE, or - for standard input", EXIT_USAGE)
        return str(typer.prompt("Password", hide_input=True, confirmation_prompt=True))
    try:
        text = sys.stdin.readline() if str(file) == "-" else file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        fail(f"{file} cannot be read; cause: {error}; cure: name a file with the password in its first line")
    return text.split("\n", 1)[0].removesuffix("\r")


def epoch(text: str | None, option: str) -> float | None:
    """Epoch seconds of a moment, in UTC where it names no zone, or of so long ago."""
    if text is None:
        return None
    if (before := seconds_of(text)) is not None:
        return time.time() - before
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        fail(f"{option} {text!r} is not a time; write 2026-11-20T10:00 (UTC), or 15m for 15 minutes ago", EXIT_USAGE)
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


def duration(text: str, option: str) -> float:
    """Seconds of a duration: ``90s``, ``15m``, ``3h``, ``7d``."""
    if (seconds := seconds_of(text)) is None:
        fail(f"{option} {text!r} is no duration; write 90s, 15m, 3h or 7d", EXIT_USAGE)
    return seconds


def check_fate(*, force: bool, move_to: str | None, drop_messages: bool) -> None:
    """End the command where more than one thing is to become of the messages of something that is removed."""
    if force + drop_messages + (move_to is not None) > 1:
        fail("give only one of --move-to, --drop-messages, --force", EXIT_USAGE)


def what_became(held: Held, *, force: bool, moved_to: str | None, now: float) -> str:
    """What became of the messages of something that was removed, to be added to that line."""
    if not held.messages or not (force or moved_to):
        return ""
    return f"; {held.told(now)}: " + (f"moved to queue {moved_to}" if moved_to else "deleted with it")
