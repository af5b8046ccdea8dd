"""What every command needs: the hub, the names, the printing of results and refusals. Imports nothing heavy."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from mgw.gateway.services.admin import GatewayAdmin
    from mgw.gateway.services.hubs import Hub

__all__ = [
    "DEFAULT_HUB",
    "EXIT_CONFIG",
    "EXIT_FAILED",
    "EXIT_USAGE",
    "admin",
    "ago",
    "console",
    "describe",
    "explain",
    "fail",
    "hub_url",
    "open_hub",
    "print_json",
    "print_table",
    "printable",
    "say",
    "table",
    "who",
]

EXIT_FAILED, EXIT_USAGE, EXIT_CONFIG = 1, 2, 78
DEFAULT_HUB = "sqlite:///mgw-hub.db"
_ENDLESS = 100_000  # columns
_GAP = 2  # columns between two of a table


def say(text: str = "") -> None:
    """One line on standard output."""
    sys.stdout.write(text + "\n")


def printable(text: str, kept: str = "\n") -> str:
    """Text of anybody for a terminal: what is not printable is escaped, but for the letters to be ``kept``."""
    return "".join(letter if letter.isprintable() or letter in kept else repr(letter)[1:-1] for letter in text)


def fail(text: str, code: int = EXIT_FAILED) -> NoReturn:
    """One line on standard error, and out."""
    from mgw.gateway.services.redaction import redact

    sys.stdout.flush()
    sys.stderr.write(f"mgw: error: {redact(' '.join(text.split()))}\n")
    raise typer.Exit(code)


def explain(error: Exception) -> int:
    """One line on standard error: object, cause, cure; the exit code."""
    from mgw.gateway.services.redaction import redact
    from mgw.transforms.errors import ConfigInvalid, GatewayError

    if os.environ.get("MGW_DEBUG") == "1":
        import traceback

        sys.stderr.write(redact("".join(traceback.format_exception(error))))
    if isinstance(error, GatewayError):
        sys.stderr.write(f"mgw: error: {redact(' '.join(str(error).split()))}\n")
        return EXIT_CONFIG if isinstance(error, ConfigInvalid) else EXIT_FAILED
    text = " ".join(str(error).split())[:300]
    sys.stderr.write(
        f"mgw: unexpected {type(error).__name__}: {redact(text)}; "
        "this is a bug in mgw: run it again with MGW_DEBUG=1 and report the output\n"
    )
    return EXIT_FAILED


def hub_url(ctx: typer.Context, configured: str | None = None) -> str:
    """The hub of this call: ``--hub``, ``MGW_HUB``, the configuration files, a file in the current folder."""
    given = ctx.find_root().params.get("hub")
    return str(given or os.environ.get("MGW_HUB") or configured or DEFAULT_HUB)


@contextmanager
def open_hub(url: str, *, create: bool = False) -> Iterator[Hub]:
    """The hub at ``url``, closed at the end.

    Raises:
        HubError: it is not there, cannot be reached, or is of another release.
    """
    from mgw.gateway.services.authors import by_command
    from mgw.gateway.services.hubs import open_hub as opened

    with by_command(), opened(url, create=create) as hub:
        yield hub


@contextmanager
def admin(ctx: typer.Context) -> Iterator[GatewayAdmin]:
    """The administration of the hub of this call."""
    from mgw.gateway.services.authors import by_command
    from mgw.gateway.services.hubs import administration

    with by_command(), administration(hub_url(ctx)) as procedures:
        yield procedures


def print_json(value: Any, *, indent: int | None = 2) -> None:
    """JSON on standard output; ``indent`` None: one line."""
    say(json.dumps(value, indent=indent, ensure_ascii=False, default=str))


def console(otherwise: int = 80) -> Console:
    """Standard output; ``otherwise`` is its width where it is not a terminal and COLUMNS does not say."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else int(os.environ.get("COLUMNS") or otherwise)
    return Console(width=width, highlight=False, soft_wrap=False)


def table(columns: Mapping[str, str], title: str = "", *, width: int = 80) -> Table:
    """An empty table; ``columns`` maps a heading to ``left``, ``right`` (numbers) or ``fold`` (long text).

    Headings are not broken where ``width`` has room for all of them.
    """
    from rich.table import Table

    result = Table(
        title=title or None, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, _GAP, 0, 0)
    )
    whole = sum(len(heading) + _GAP for heading in columns) - _GAP <= width
    for heading, kind in columns.items():
        result.add_column(
            heading,
            justify="right" if kind == "right" else "left",
            overflow="fold",
            no_wrap=kind == "right",
            min_width=len(heading) if whole else None,
            header_style="bold",
        )
    return result


def print_table(columns: Mapping[str, str], rows: Sequence[Sequence[Any]], title: str = "") -> None:
    """A table on standard output; a line for each row where it is not a terminal and COLUMNS does not say how wide."""
    shape = console(otherwise=_ENDLESS)
    shown = table(columns, title, width=shape.width)
    for row in rows:
        shown.add_row(*("" if cell is None else str(cell).replace("[", "\\[") for cell in row))
    if sys.stdout.isatty():
        shape.print(shown)
        return
    with shape.capture() as captured:
        shape.print(shown)
    for line in captured.get().splitlines():
        say(line.rstrip())


def describe(values: Mapping[str, Any]) -> None:
    """One object: a line per value that is set."""
    width = max((len(name) for name in values), default=0)
    for name, value in values.items():
        if value not in (None, "", {}, ()):
            say(f"{name:<{width}}  {value}")


def ago(seconds: float | None) -> str:
    """A duration in two characters and a unit: ``12s``, ``4m``, ``3h``, ``9d``; empty for None."""
    if seconds is None:
        return ""
    seconds = max(0.0, seconds)
    steps: tuple[tuple[float, str, float], ...] = ((120, "s", 1), (7200, "m", 60), (172_800, "h", 3600))
    for limit, unit, size in steps:
        if seconds < limit:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds / 86_400:.0f}d"


def completer(*sections: str) -> Callable[[typer.Context, str], list[str]]:
    """Shell completion with the names that exist in the hub, in the letter case in which they are begun; silent when
    there is no hub."""

    def names(ctx: typer.Context, incomplete: str) -> list[str]:
        from mgw.gateway.services.lookup import known_names

        try:
            with open_hub(hub_url(ctx)) as hub:
                known = [name for section in sections for name in known_names(hub, section)]
        except Exception:  # completion must never disturb the command line
            return []
        found = [name for name in known if name.casefold().startswith(incomplete.casefold())]
        return [name if name.startswith(incomplete) else _as_begun(name, incomplete) for name in found]

    return names


def _as_begun(name: str, begun: str) -> str:
    """A name means the same in whatever letter case; shells drop one that does not begin as it was typed."""
    case = name.upper() if begun == begun.upper() else name.lower()
    return begun + case[len(begun) :]


def who() -> str:
    """The user of this process, for the event: as the system knows it, not as the environment says."""
    import os
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"
