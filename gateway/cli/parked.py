"""``mgw exceptions parked | release | give-up``: keys whose messages wait behind one that cannot be delivered."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from mgw.gateway.cli.common import EXIT_USAGE, admin, completer, fail, print_json, print_table, printable, say, who
from mgw.gateway.cli.jsonform import moment, second
from mgw.gateway.cli.words import JobName, Json

__all__ = ["give_up", "parked", "release"]

OptionalJob = Annotated[str | None, typer.Argument(metavar="[JOB]", autocompletion=completer("jobs"))]
Keys = Annotated[list[str] | None, typer.Option("--key", "-k", metavar="KEY", help="A parked key; repeat for several.")]
All = Annotated[bool, typer.Option("--all", help="All parked keys of the job.")]


def parked(ctx: typer.Context, job: OptionalJob = None, *, as_json: Json = False) -> None:
    """The parked keys of a job, or of all jobs: what waits behind a message that cannot be delivered, and why."""
    from mgw.gateway.services.exceptions import parked_keys

    with admin(ctx) as procedures:
        found = parked_keys(procedures, job)
    if as_json:
        rows: list[dict[str, Any]] = [
            {
                "job": each.job,
                "key": each.entry.key,
                "state": each.entry.state,
                "messages": each.messages,
                "first": each.first,
                "attempts": each.entry.attempts,
                "number": each.entry.error_number,
                "reason": each.entry.reason,
                "since": moment(each.entry.since),
                "next_attempt": moment(each.entry.next_attempt),
            }
            for each in found
        ]
        print_json(rows)
        return
    columns = {"JOB": "fold", "KEY": "fold", "MESSAGES": "right", "SINCE (UTC)": "right"}
    columns |= {"ATTEMPTS": "right", "NEXT (UTC)": "right", "REASON": "fold"}
    print_table(
        columns,
        [
            (
                each.job,
                printable(each.entry.key),
                each.messages,
                second(each.entry.since),
                each.entry.attempts,
                second(each.entry.next_attempt),
                printable(each.entry.reason.partition("; cause: ")[0]),
            )
            for each in found
        ],
    )


def release(ctx: typer.Context, job: JobName, *, key: Keys = None, everything: All = False) -> None:
    """Try the first message of parked keys now; when it is delivered, those behind it follow in order."""
    from mgw.gateway.services.exceptions import release as hasten

    if bool(key) is everything:
        fail("name keys (--key), or say --all", EXIT_USAGE)
    with admin(ctx) as procedures:
        done = hasten(procedures, job, key or (), by=who())
    say(f"{len(done)} key(s) of job {job} are tried now")


def give_up(ctx: typer.Context, job: JobName, *, key: Keys = None) -> None:
    """Move the first message of parked keys to the exception queue; those behind it follow in order."""
    from mgw.gateway.services.exceptions import give_up as give

    if not key:
        fail("name the keys (--key)", EXIT_USAGE)
    with admin(ctx) as procedures:
        done = give(procedures, job, key, by=who())
    say(f"the first message of {len(done)} key(s) of job {job} goes to its exception queue")
