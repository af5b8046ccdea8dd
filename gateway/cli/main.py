"""The command ``mgw``. It translates between people and the gateway and decides nothing.

Exit codes: 0 done, 1 the check or the operation failed, 2 wrong usage, 78 bad configuration.
"""

from __future__ import annotations

import os
import sys
from importlib import metadata
from typing import Annotated, NoReturn

import typer

from gateway.cli import aq, configure, objects, prove, runner, watch
from gateway.cli.common import DEFAULT_HUB, EXIT_CONFIG, EXIT_FAILED
from gateway.cli.plugins import Commands

__all__ = ["app", "execute", "main"]

app = typer.Typer(
    name="mgw",
    cls=Commands,
    help="Carries messages between durable hub queues and RabbitMQ, Kafka and MQTT.",
    epilog="Start with: mgw lint FILE, mgw apply FILE, mgw run.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
for part in (configure, runner, watch, prove, objects):
    part.register(app)
app.add_typer(aq.app, name="aq")


def _version(show: bool) -> None:
    if show:
        try:
            version = metadata.version("messaging-gateway")
        except metadata.PackageNotFoundError:
            version = "(not installed)"
        sys.stdout.write(f"mgw {version}\n")
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
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and leave.")
    ] = False,
) -> None:
    """Carries messages between durable hub queues and RabbitMQ, Kafka and MQTT."""


def main() -> NoReturn:
    """Entry point of the command ``mgw`` and of ``python -m gateway``."""
    sys.exit(execute(sys.argv[1:]))


def execute(arguments: list[str], program: typer.Typer | None = None, name: str = "mgw") -> int:
    """Run one command of a program that has ``--hub``; the exit code. Bad input never shows a traceback."""
    given = _hub_first(arguments)
    try:
        (program or app)(given, prog_name=name)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else EXIT_FAILED
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:  # the reader of our output has left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141
    except Exception as error:
        code = _explain(error)
    else:
        code = 0
    return code


def _hub_first(arguments: list[str]) -> list[str]:
    """``--hub URL`` may stand anywhere; it belongs to the whole program, so it is moved to the front."""
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


def _explain(error: Exception) -> int:
    """One line on standard error: object, cause, cure."""
    from gateway.secrets import redact
    from transforms.errors import ConfigInvalid, GatewayError

    if os.environ.get("MGW_DEBUG") == "1":
        import traceback

        sys.stderr.write(redact("".join(traceback.format_exception(error))))
    if isinstance(error, GatewayError):
        sys.stderr.write(f"mgw: error: {redact(' '.join(str(error).split()))}\n")
        return EXIT_CONFIG if isinstance(error, ConfigInvalid) else EXIT_FAILED
    text = " ".join(str(error).split())[:300]
    sys.stderr.write(
        f"mgw: unexpected {type(error).__name__}: {redact(text)}; "
        "this is a fault of mgw: run it again with MGW_DEBUG=1 and report what it prints\n"
    )
    return EXIT_FAILED


if __name__ == "__main__":
    main()
