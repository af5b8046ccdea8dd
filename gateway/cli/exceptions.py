"""``mgw exceptions``: look at the messages that a job could not deliver, edit, replay and discard them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mgw.gateway.cli.common import (
    EXIT_FAILED,
    EXIT_USAGE,
    admin,
    completer,
    describe,
    fail,
    print_json,
    print_table,
    printable,
    say,
    who,
)
from mgw.gateway.cli.jsonform import moment, second
from mgw.gateway.cli.parked import give_up, parked, release
from mgw.gateway.cli.words import TIMES, JobName, Json, epoch, pairs

if TYPE_CHECKING:
    from mgw.gateway.services.exceptions import Entry, Outcome, Which

__all__ = ["app"]

OptionalJob = Annotated[str | None, typer.Argument(metavar="[JOB]", autocompletion=completer("jobs"))]
MessageId = Annotated[str, typer.Argument(metavar="ID", help="As mgw exceptions list shows it.")]
MessageIds = Annotated[
    list[str] | None, typer.Argument(metavar="[ID]...", help="Messages; none: those of the filters.")
]
Number = Annotated[int | None, typer.Option("--number", help="Only errors with this number, such as 722.")]
Text = Annotated[
    str | None, typer.Option("--reason", help="Only errors whose text contains this; * and ? are wildcards.")
]
Since = Annotated[
    str | None, typer.Option("--since", metavar="TIME", help=f"Only failures from this time on: {TIMES}.")
]
Before = Annotated[
    str | None,
    typer.Option("--before", metavar="TIME", help="Only failures before this time; same form as --since."),
]
Limit = Annotated[int | None, typer.Option("--limit", "-n", min=1, help="Maximum number of messages, oldest first.")]
Rate = Annotated[float | None, typer.Option("--rate", help="Maximum number of messages a second.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")]
All = Annotated[bool, typer.Option("--all", help="All messages of the job; needed where no id and no filter is given.")]
Consumer = Annotated[
    str | None,
    typer.Option(
        "--consumer",
        "-c",
        help="Subscriber, where the exception queue is a multi-consumer queue.",
        autocompletion=completer("subscribers"),
    ),
]

To = Annotated[
    str | None,
    typer.Option(
        "--to",
        metavar="QUEUE@LINK",
        help="Registered foreign queue that gets them instead of the source, on the link of the exception queue.",
        autocompletion=completer("foreign_queues"),
    ),
]

app = typer.Typer(
    help="Messages that jobs could not deliver: show, edit, replay, discard.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


app.command("parked")(parked)
app.command("release")(release)
app.command("give-up")(give_up)


@app.command("list")
def list_all(
    ctx: typer.Context,
    job: OptionalJob = None,
    *,
    number: Number = None,
    reason: Text = None,
    since: Since = None,
    before: Before = None,
    limit: Limit = None,
    consumer: Consumer = None,
    as_json: Json = False,
) -> None:
    """The messages in the exception queue of a job, or of all jobs, oldest failure first."""
    from mgw.gateway.services.exceptions import desk_of, jobs_with_desks
    from mgw.transforms.errors import GatewayError, HubError

    which = _which((), number, reason, since, before)
    found: list[Entry] = []
    with admin(ctx) as procedures:
        if job is not None:
            found += desk_of(procedures, job, consumer=consumer).entries(which, limit, whole=False)
        else:
            for each in jobs_with_desks(procedures):
                try:
                    found += desk_of(procedures, each.name, consumer=consumer).entries(which, limit, whole=False)
                except HubError:
                    raise
                except GatewayError as refusal:  # its queue was dropped or stopped, or is on a link
                    sys.stderr.write(f"mgw: job {each.name} is left out: {' '.join(str(refusal).split())}\n")
    if as_json:
        print_json([_form(entry) for entry in found])
        return
    columns = {"ID": "right", "TIME (UTC)": "right", "JOB": "fold", "NUMBER": "right", "REASON": "fold"}
    rows = [
        (
            entry.id,
            second(entry.reason.time),
            entry.job,
            entry.reason.number,
            printable(entry.reason.text.partition("; cause: ")[0]),
        )
        for entry in found
    ]
    print_table(columns, rows)


@app.command("show")
def show(
    ctx: typer.Context, job: JobName, message: MessageId, *, consumer: Consumer = None, as_json: Json = False
) -> None:
    """One message: reason, origin, headers and body."""
    from mgw.gateway.services.exceptions import Which, desk_of

    with admin(ctx) as procedures:
        found = next(desk_of(procedures, job, consumer=consumer).entries(Which(ids=(message,)), 1), None)
    if found is None:
        fail(f"message {message} is not in the exception queue of job {job}; see mgw exceptions list {job}")
    form = _form(found, whole=True)
    if as_json:
        print_json(form)
        return
    headers = [f"\n  {printable(name)} = {printable(str(value))} ({kind})" for name, kind, value in form.pop("headers")]
    body = form.pop("body")
    described = {name: printable(value, "\n\t") if isinstance(value, str) else value for name, value in form.items()}
    describe(described | {"headers": "".join(headers), "body": printable(body, "\n\t")})


@app.command("edit")
def edit(
    ctx: typer.Context,
    job: JobName,
    message: MessageId,
    *,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", exists=True, dir_okay=False, readable=True, help="The new body, byte for byte."),
    ] = None,
    body: Annotated[str | None, typer.Option("--body", help="The new body.")] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", metavar="NAME=VALUE", help="Text header; NAME= removes it.")
    ] = None,
    correlation: Annotated[str | None, typer.Option(help="The new correlation; '' removes it.")] = None,
    consumer: Consumer = None,
) -> None:
    """Change a message in the exception queue, before it is replayed. It gets another id."""
    from mgw.gateway.services.exceptions import Change, desk_of
    from mgw.transforms.message import Header, ValueType

    if file is not None and body is not None:
        fail("give either --file or --body", EXIT_USAGE)
    try:
        new = body.encode() if body is not None else file.read_bytes() if file is not None else None
    except UnicodeEncodeError as error:
        fail(f"--body is not UTF-8 text at character {error.start}; give bytes with --file", EXIT_USAGE)
    given = pairs(header, "--header")
    change = Change(
        body=new,
        put=[Header(name, ValueType.TEXT, value) for name, value in given.items() if value is not None],
        remove=[name for name, value in given.items() if value is None],
        correlation=correlation,
    )
    with admin(ctx) as procedures:
        edited = desk_of(procedures, job, consumer=consumer).edit(message, change, by=who())
    say(f"message {message} edited: {change.told()}; its id is now {edited.id}")


@app.command("replay")
def replay(
    ctx: typer.Context,
    job: JobName,
    messages: MessageIds = None,
    *,
    number: Number = None,
    reason: Text = None,
    since: Since = None,
    before: Before = None,
    everything: All = False,
    limit: Limit = None,
    rate: Rate = None,
    dry_run: DryRun = False,
    consumer: Consumer = None,
    to: To = None,
    as_json: Json = False,
) -> None:
    """Put messages back to where they came from, oldest failure first."""
    which = _chosen(messages, number, reason, since, before, everything)
    _act(ctx, "replay", job, which, limit, rate, dry_run, consumer, as_json, to)


@app.command("discard")
def discard(
    ctx: typer.Context,
    job: JobName,
    messages: MessageIds = None,
    *,
    number: Number = None,
    reason: Text = None,
    since: Since = None,
    before: Before = None,
    everything: All = False,
    limit: Limit = None,
    rate: Rate = None,
    dry_run: DryRun = False,
    consumer: Consumer = None,
    as_json: Json = False,
) -> None:
    """Remove messages for good. The audit keeps who did it and which they were."""
    which = _chosen(messages, number, reason, since, before, everything)
    _act(ctx, "discard", job, which, limit, rate, dry_run, consumer, as_json)


def _act(  # noqa: PLR0917
    ctx: typer.Context,
    verb: str,
    job: str,
    which: Which,
    limit: int | None,
    rate: float | None,
    dry_run: bool,
    consumer: str | None,
    as_json: bool,
    to: str | None = None,
) -> None:
    from mgw.gateway.services.exceptions import Pace, desk_of

    with admin(ctx) as procedures:
        desk = desk_of(procedures, job, consumer=consumer, to=to)
        act = desk.replay if verb == "replay" else desk.discard
        outcome = act(which, by=who(), limit=limit, pace=Pace(rate), dry=dry_run)
    if as_json:
        print_json(
            {"target": outcome.target, "dry_run": outcome.dry, "done": outcome.done, "gone": outcome.gone}
            | {"failed": outcome.failed, "reasons": dict(outcome.reasons)}
            | {"stopped": outcome.stopped or None}
        )
    else:
        say(_told(outcome, verb))
        for message, why in outcome.failed.items():
            say(f"  {message}: {printable(why)}")
        if outcome.stopped:
            fail(f"the rest stays where it is: {outcome.stopped}")
    if outcome.failed or outcome.stopped:
        raise typer.Exit(EXIT_FAILED)


def _told(outcome: Outcome, verb: str) -> str:
    where = f" to {outcome.target}" if verb == "replay" else ""
    word = "replayed" if verb == "replay" else "discarded"
    parts = [f"{len(outcome.done)} message(s) {'would be ' if outcome.dry else ''}{word}{where}"]
    if outcome.reasons:
        numbers = ", ".join(f"{name} {count}" for name, count in sorted(outcome.reasons.items()))
        parts.append(f"by error number: {numbers}")
    if outcome.gone:
        parts.append(f"{len(outcome.gone)} were taken by somebody else, or are in somebody's open transaction")
    if outcome.failed:
        parts.append(f"{len(outcome.failed)} stay, because they were refused")
    return "; ".join(parts)


def _chosen(  # noqa: PLR0917
    ids: list[str] | None,
    number: int | None,
    reason: str | None,
    since: str | None,
    before: str | None,
    everything: bool,
) -> Which:
    which = _which(ids or (), number, reason, since, before)
    if which.everything is not everything:
        fail("give ids or filters, or --all for all messages of the job", EXIT_USAGE)
    return which


def _which(ids: Any, number: int | None, reason: str | None, since: str | None, before: str | None) -> Which:
    from mgw.gateway.services.exceptions import Which

    return Which(tuple(ids), number, reason, epoch(since, "--since"), epoch(before, "--before"))


def _form(entry: Entry, *, whole: bool = False) -> dict[str, Any]:
    from mgw.gateway.services.messages import body_bytes

    reason = entry.reason
    values: dict[str, Any] = {
        "id": entry.id,
        "job": entry.job,
        "queue": entry.queue,
        "time": moment(reason.time),
        "number": reason.number,
        "reason": reason.text,
        "origin": reason.origin,
        "original_id": reason.msgid.hex() if reason.msgid else reason.key or None,
        "consumer": reason.consumer,
        "omitted": reason.omitted,
        "edited": reason.edited,
    }
    if whole:
        message = entry.message
        values |= {"correlation": message.correlation, "priority": message.priority, "expiration": reason.expiration}
        shown = [each for each in message.headers if not each.name.startswith("MGW_error")]
        values["headers"] = [
            [name, kind.name, value.hex() if isinstance(value, bytes) else value] for name, kind, value in shown
        ]
        values["body"] = body_bytes(message.body).decode("utf-8", "backslashreplace")
    return values
