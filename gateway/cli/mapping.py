"""``mgw test`` and ``mgw transform``: mappings tried without a broker; ``mgw tap``: what they do to live messages."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from mgw.gateway.cli.common import (
    EXIT_CONFIG,
    EXIT_FAILED,
    EXIT_USAGE,
    admin,
    completer,
    explain,
    fail,
    hub_url,
    open_hub,
    print_json,
    say,
)
from mgw.gateway.cli.jsonform import moments
from mgw.gateway.cli.words import Json

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.command("test")(run_tests)
    app.command()(transform)
    app.command()(tap)


def run_tests(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="PATH", help="Test files, or folders with *_test.yaml in them or below. [default: .]"),
    ] = None,
) -> None:
    """Run the tests of mappings that are next to the configuration. No hub and no broker is touched.

    Exits with 1 when a test fails or there is none, with 78 when a file cannot be used. What links need, such as
    passwords, may be missing.
    """
    from mgw.gateway.services import mapping_tests
    from mgw.transforms.errors import ConfigInvalid

    files = [file for path in paths or [Path()] for file in mapping_tests.files_in(path)]
    passed = failed = 0
    unusable = False
    for file in files:
        try:
            for verdict in mapping_tests.run(file):
                passed, failed = passed + verdict.passed, failed + (not verdict.passed)
                if not verdict.passed:
                    say(f"FAILED {file}: {verdict.name}")
                    for line in verdict.lines:
                        say(f"    {line}")
        except ConfigInvalid as error:
            unusable = True
            explain(error)
    say(f"{passed} passed, {failed} failed, {len(files)} file(s)")
    if unusable:
        raise typer.Exit(EXIT_CONFIG)
    if failed or not passed:
        raise typer.Exit(EXIT_FAILED)


def transform(
    ctx: typer.Context,
    file: Annotated[
        Path,
        typer.Option("--file", "-f", metavar="FILE", help="Message in YAML or JSON, as in test files; - is input."),
    ],
    job: Annotated[str | None, typer.Option("--job", help="Job of the hub.", autocompletion=completer("jobs"))] = None,
    transformation: Annotated[
        str | None,
        typer.Option(
            "--transformation", help="Transformation of the hub.", autocompletion=completer("transformations")
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Run one message through the rule, the conversion and the transformation of a job. Nothing is stored or sent.

    Exits with 1 when the message fails: the job would put it into its exception queue.
    """
    from mgw.gateway.services import trial

    if (job is None) == (transformation is None):
        fail("name one of --job and --transformation", EXIT_USAGE)
    message = trial.read_message(_text(file))
    with open_hub(hub_url(ctx)) as hub:
        tried = trial.of_job(hub, job) if job is not None else trial.of_transformation(hub, transformation or "")
        shown = _with_moments(trial.shown(tried.run(message)))
    if as_json:
        print_json(shown)
    else:
        _print(shown)
    if "failure" in shown:
        raise typer.Exit(EXIT_FAILED)


def tap(  # noqa: PLR0917  typer passes them by name
    ctx: typer.Context,
    job: Annotated[str, typer.Argument(help="Job of the hub.", autocompletion=completer("jobs"))],
    count: Annotated[int | None, typer.Option("--count", "-n", help="End after so many messages.")] = None,
    seconds: Annotated[float | None, typer.Option("--seconds", help="End after so many seconds.")] = None,
    per_second: Annotated[int, typer.Option("--per-second", help="Messages shown in a second, at most.")] = 10,
    size: Annotated[int, typer.Option("--size", help="Characters of a body that are shown.")] = 2000,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per message.")] = False,
) -> None:
    """Show live messages of a job before and after its rule, conversion and transformation. End with ctrl-c.

    The job carries them as without it. Headers with names of secrets, such as authorization, are hidden.
    """
    from mgw.gateway.services.tap import LOOK_SECONDS, OpenTap

    end = None if seconds is None else time.monotonic() + seconds
    told = ""
    with admin(ctx) as procedures, OpenTap(procedures, job, count=count, per_second=per_second, size=size) as opened:
        while True:
            over = end is not None and time.monotonic() >= end
            for seen in map(_with_moments, opened.read()):
                if as_json:
                    print_json(seen, indent=None)
                else:
                    say(f"-- {seen['time']}")
                    _print(seen)
                sys.stdout.flush()
            if over or opened.over:
                break
            reason = opened.silent_because() or ""
            if reason != told:
                sys.stderr.write(f"mgw: {reason or f'job {job} carries messages now'}\n")
                told = reason
            time.sleep(LOOK_SECONDS)
        if opened.missed:
            sys.stderr.write(f"mgw: {opened.missed} more messages were not shown, see --per-second\n")


def _text(file: Path) -> str:
    try:
        return (sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()).decode()
    except OSError as error:
        fail(f"{file} cannot be read: {error.strerror}; check path and permissions")
    except UnicodeDecodeError:
        fail(f"{file} is not UTF-8 text; write bytes as body_hex")


def _with_moments(shown: dict[str, Any]) -> dict[str, Any]:
    """What is shown, with times as all commands print them; test files take them so, too."""
    result = moments(shown, "time") | {"before": moments(shown["before"], "enqueue_time")}
    if "after" in result:
        result["after"] = [moments(message, "enqueue_time") for message in result["after"]]
    return result


def _print(shown: dict[str, Any]) -> None:
    say("before")
    print_json(shown["before"])
    if "failure" in shown:
        say(f"failed: {shown['failure']}")
    elif "filtered" in shown:
        by = shown["filtered"]
        say("filtered" if by is True else f"filtered by {by}")
    for number, message in enumerate(shown.get("after", ()), 1):
        count = len(shown["after"]) + shown.get("more", 0)
        say("after" if count == 1 else f"after, {number} of {count}")
        print_json(message)
