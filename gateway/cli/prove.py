"""``mgw prove``: what happened to a message, and whether every message of a job has exactly one outcome."""

from __future__ import annotations

import textwrap
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mgw.gateway.cli import jsonform
from mgw.gateway.cli.common import (
    EXIT_FAILED,
    EXIT_USAGE,
    completer,
    console,
    fail,
    hub_url,
    open_hub,
    print_json,
    say,
)
from mgw.gateway.cli.words import TIMES, epoch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mgw.gateway.services.proof import Proof, Sight, Trace

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command()(prove)


def prove(  # noqa: PLR0917  one parameter per option
    ctx: typer.Context,
    job: Annotated[str, typer.Argument(help="The job.", autocompletion=completer("jobs"))],
    message: Annotated[
        str | None,
        typer.Argument(help="Only this message: its id in the hub (AQMSGID:... or hex), or its coordinates outside."),
    ] = None,
    since: Annotated[str | None, typer.Option("--since", help=f"From this time on: {TIMES}.")] = None,
    until: Annotated[str | None, typer.Option("--until", help="Before this time; same form as --since.")] = None,
    last: Annotated[
        int | None, typer.Option("--last", min=1, help="Only the latest batches that hold this many messages.")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="Also print a line per message.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """What happened to one message, or whether every message of a job has exactly one outcome; exit 1 if not."""
    from mgw.gateway.services.proof import Range, prove_job, trace_message

    if message is not None and (since or until or last):
        fail("a message and a range were given; give one of them", EXIT_USAGE)
    span = Range(epoch(since, "--since"), epoch(until, "--until"), last)
    with open_hub(hub_url(ctx)) as hub:
        if message is not None:
            found = trace_message(hub, job, message)
            _show_trace(found, as_json=as_json)
            holds = not found.offences
        else:
            proof, sights = prove_job(hub, job, span, listed=listed)
            _show_proof(proof, sights, listed=listed, as_json=as_json)
            holds = proof.holds
    if not holds:
        raise typer.Exit(EXIT_FAILED)


def _show_trace(trace: Trace, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "message": trace.message,
                "holds": not trace.offences,
                "records": [_plain(sight) for sight in trace.sights],
                "now": dict(trace.states),
                "offences": list(trace.offences),
            }
        )
        return
    say(f"message {trace.message}")
    for sight in trace.sights:
        say(f"job {sight.job}")
        for moment, text in _story(sight):
            _say_at(moment, text)
    for identity, state in trace.states.items():
        say(f"now: AQMSGID:{identity} {'is in ' + state if state else 'has left the hub'}")
    _say_offences(trace.offences, 0)


def _story(sight: Sight) -> list[tuple[float | None, str]]:
    """The stages of one record."""
    from mgw.gateway.services.proof import Kind

    if sight.kind is Kind.RECEIVED:
        again = " (redelivered)" if sight.redelivered else ""
        names = "".join(f", AQMSGID:{identity}" for identity in sight.messages)
        reason = f": {sight.reason}" if sight.reason else ""
        return [
            (sight.started, f"received from {sight.origin or 'the source'}{again}"),
            (sight.finished, f"{sight.outcome}{names}{reason} (record {sight.batch})"),
        ]
    stages = [(sight.started, f"planned in batch {sight.sequence}")]
    if sight.finished is None:
        return [*stages, (None, "not completed yet")]
    if sight.sent is not None:
        stages += [
            (sight.sent, f"sent to {', '.join(sight.places)}"),
            (sight.confirmed, "confirmed by the destination"),
            (sight.finished, f"completed (record {sight.batch})"),
        ]
        return stages
    reason = f": {sight.reason}" if sight.reason else ""
    return [*stages, (sight.finished, f"{sight.outcome}{reason} (record {sight.batch})")]


def _show_proof(proof: Proof, sights: Sequence[Sight], *, listed: bool, as_json: bool) -> None:
    if as_json:
        values: dict[str, Any] = asdict(proof) | {
            "holds": proof.holds,
            "first": jsonform.moment(proof.first),
            "last": jsonform.moment(proof.last),
            "outcomes": dict(proof.outcomes),
        }
        print_json(values | ({"list": [_plain(sight) for sight in sights]} if listed else {}))
        return
    for sight in sights:
        _say_line(sight)
    if listed:
        say()
    say(f"job {proof.job}: {proof.messages:,} messages in {proof.batches:,} batches")
    if proof.first is not None:
        say(f"from {_utc(proof.first)} to {_utc(proof.last)} UTC")
    counts = dict(proof.outcomes)
    counts |= {"planned, not completed yet": proof.planned, "in the queue, not planned yet": proof.waiting or 0}
    for what, count in counts.items():
        if count:
            say(f"{count:>12,}  {what}")
    for note in _notes(proof):
        _wrapped(f"note: {note}")
    _say_offences(proof.offences, proof.unlisted)
    if proof.holds and proof.batches:
        say("every message has exactly one outcome" + ("" if not proof.uncertain else ", except for those"))


def _say_line(sight: Sight) -> None:
    names = [sight.origin, *(f"AQMSGID:{identity}" for identity in sight.messages), *sight.places]
    reason = f": {sight.reason}" if sight.reason else ""
    _wrapped(f"{_utc(sight.finished)}  {' '.join(name for name in names if name)}")
    _wrapped(f"    {sight.outcome}{reason}", indent=4)


def _notes(proof: Proof) -> list[str]:
    notes = list(proof.notes)
    if proof.vacant:
        notes.append(
            f"{proof.vacant:,} source positions between these messages brought no message: the messaging system keeps "
            "its own records there, or the messages were compacted, aborted or expired"
        )
    if proof.uncertain:
        notes.append(
            f"{proof.uncertain:,} messages were stored although the source had delivered them before; nothing in them "
            "tells copies apart, so any of them may be stored twice"
        )
    return notes


def _say_offences(offences: Sequence[str], unlisted: int) -> None:
    for offence in offences:
        _wrapped(f"! {offence}")
    if unlisted:
        say(f"! and {unlisted:,} more")


def _say_at(moment: float | None, text: str) -> None:
    _wrapped(f"  {_utc(moment) or 'now':<23}  {text}", indent=27)


def _wrapped(text: str, indent: int = 2) -> None:
    say(
        textwrap.fill(
            text,
            console().width,
            subsequent_indent=" " * indent,
            drop_whitespace=True,
            break_long_words=False,
            break_on_hyphens=False,
        )
    )


def _plain(sight: Sight) -> Mapping[str, Any]:
    return jsonform.moments(asdict(sight), "started", "sent", "confirmed", "finished")


def _utc(moment: float | None) -> str | None:
    if moment is None:
        return None
    return datetime.fromtimestamp(moment, UTC).replace(tzinfo=None).isoformat(" ", "milliseconds")
