"""The command ``mgw``. It translates between people and the gateway and decides nothing.

Exit codes: 0 done, 1 the check or the operation failed, 2 wrong usage, 78 bad configuration.
"""

from __future__ import annotations

import logging
import os
import sys
from functools import cache
from typing import Annotated, Any, NoReturn

import typer
from typer.main import get_command

from mgw import __version__
from mgw.gateway.cli import (
    agents,
    aq,
    audit,
    configure,
    exceptions,
    foreign_queues,
    functions,
    generations,
    hub,
    jobs,
    links,
    mapping,
    outbound_schedules,
    prove,
    runner,
    schedules,
    skeleton,
    subscribers,
    top,
    transformations,
    upgrade,
    users,
    watch,
)
from mgw.gateway.cli.common import DEFAULT_HUB, EXIT_FAILED, explain
from mgw.gateway.cli.plugins import Commands

__all__ = ["app", "command", "execute", "main"]

app = typer.Typer(
    name="mgw",
    cls=Commands,
    help="Carries messages between durable hub queues and RabbitMQ, Kafka and MQTT.",
    epilog="Start with: mgw init, mgw lint FILE, mgw apply FILE, mgw run.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
for part in (skeleton, configure, generations, mapping, runner, watch, audit, top, prove, upgrade):
    part.register(app)
for name, group in (
    ("agents", agents),
    ("links", links),
    ("queues", foreign_queues),
    ("transformations", transformations),
    ("jobs", jobs),
    ("subscribers", subscribers),
    ("schedules", schedules),
    ("outbound-schedules", outbound_schedules),
    ("exceptions", exceptions),
    ("users", users),
    ("generations", generations),
    ("hub", hub),
):
    app.add_typer(group.app, name=name)
app.add_typer(functions.modules, name="modules")
app.add_typer(functions.functions, name="functions")
app.add_typer(aq.app, name="aq")


def _version(show: bool) -> None:
    if show:
        sys.stdout.write(f"mgw {__version__}\n")
        raise typer.Exit


@app.callback()
def _options(
    hub: Annotated[
        str | None,
        typer.Option(
            "--hub",
            metavar="URL",
            help=f"Hub database; also MGW_HUB. [default: {DEFAULT_HUB}]",
        ),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Carries messages between durable hub queues and RabbitMQ, Kafka and MQTT."""


def main() -> NoReturn:
    """Entry point of the command ``mgw`` and of ``python -m gateway``."""
    sys.exit(execute(sys.argv[1:]))


@cache
def command(program: typer.Typer) -> Any:
    """A program with all of its commands, which takes a while to build."""
    return get_command(program)


def execute(arguments: list[str], program: typer.Typer | None = None, name: str = "mgw") -> int:
    """Run one command of a program that has ``--hub``; the exit code. Bad input never shows a traceback."""
    given = _hub_first(arguments)
    if logging.lastResort is not None:  # what is said where no log is set up
        logging.lastResort.setFormatter(_Plain())
        if not logging.getLogger().handlers:
            logging.getLogger().addHandler(logging.lastResort)
    try:
        command(program or app)(given, prog_name=name)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else EXIT_FAILED
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:  # the reader of our output has left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141
    except Exception as error:
        code = explain(error)
    else:
        code = 0
    finally:
        if logging.lastResort is not None:
            logging.getLogger().removeHandler(logging.lastResort)
    return code


class _Plain(logging.Formatter):
    """Warnings of commands that have no log, in the form of their errors."""

    def format(self, record: logging.LogRecord) -> str:
        from mgw.gateway.services.redaction import redact

        return f"mgw: {record.levelname.lower()}: {redact(' '.join(super().format(record).split()))}"


def _hub_first(arguments: list[str]) -> list[str]:
    """``--hub URL`` may be anywhere; it belongs to the whole program, so it is moved to the front."""
    front: list[str] = []
    rest: list[str] = []
    words = iter(arguments)
    for word in words:
        if word == "--":
            rest += [word, *words]
        elif word == "--hub":
            front += [word, *([value] if (value := next(words, None)) is not None else [])]
        elif word.startswith("--hub="):
            front.append(word)
        else:
            rest.append(word)
    return front + rest


if __name__ == "__main__":
    main()
