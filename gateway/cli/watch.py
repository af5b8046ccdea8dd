"""``mgw status`` and ``events``: what the gateway is doing, readable at 80 columns."""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mgw.gateway.cli import jsonform
from mgw.gateway.cli.common import (
    EXIT_FAILED,
    EXIT_USAGE,
    ago,
    completer,
    console,
    fail,
    hub_url,
    open_hub,
    print_json,
    print_table,
    say,
)
from mgw.gateway.cli.jsonform import second
from mgw.gateway.cli.words import TIMES, epoch
from mgw.gateway.services.event_levels import LEVELS

if TYPE_CHECKING:
    from mgw.gateway.services.health import EventRow, GatewayRow, GatewayState, Health, JobRow
    from mgw.gateway.services.hubs import Hub

__all__ = ["print_agents", "print_jobs", "print_links", "register"]

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

AGENT_COLUMNS = {
    "AGENT": "fold",
    "STATUS": "left",
    "PING": "left",
    "HOST": "fold",
    "PID": "right",
    "SINCE (UTC)": "left",
}
LINK_COLUMNS = {"LINK": "fold", "TYPE": "left", "AGENT": "fold", "JOBS": "right", "COMMENT": "fold"}
LINK_STATES = {"LINK": "fold", "TYPE": "left", "AGENT": "fold", "JOBS": "right", "STATE": "left", "SINCE (UTC)": "left"}
JOB_COLUMNS = {
    "JOB": "fold",
    "STATE": "left",
    "MOVED": "right",
    "BAD": "right",
    "LEFT OUT": "right",
    "WAITING": "right",
    "OLDEST": "right",
    "GUARANTEE": "fold",
}
_LONGEST = "exact-unless-broker-crash"
_MOST = 10_000  # events at once
_WITH_AUDIT = (None, "DEBUG", "INFO")  # levels with which entries of the audit are shown


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.command()(status)
    app.command()(events)


def status(
    ctx: typer.Context,
    as_json: Json = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Exit 1, with the reasons, when an agent with work is down, a job has not worked for too long, or the "
            "hub cannot be read.",
        ),
    ] = False,
    agent: Annotated[
        str | None, typer.Option("--agent", "-a", help="Only this agent.", autocompletion=completer("agents"))
    ] = None,
    max_age: Annotated[
        float, typer.Option("--max-age", min=0, help="Seconds for which a job may be RETRY, FAILED or STUCK.")
    ] = 60.0,
) -> None:
    """Agents, links and jobs: state, counters, backlog, guarantee, health."""
    from mgw.gateway.services.health import assess, read, unreachable
    from mgw.transforms.errors import HubError

    try:
        with open_hub(hub_url(ctx)) as hub:
            health = assess(hub, agent=agent, max_age=max_age)
            state = read(hub, agent)
    except HubError as error:
        if not (check and as_json):
            raise
        print_json({"health": unreachable("hub", error, max_age=max_age).as_json()})
        raise typer.Exit(EXIT_FAILED) from None
    if as_json:
        print_json(_as_json(state) | {"health": health.as_json()})
    else:
        _print_state(state, health)
    if check and not as_json:
        say()
        for line in [f"unhealthy: {reason}" for reason in health.reasons] or ["healthy"]:
            say(line)
    if check and not health.healthy:
        raise typer.Exit(EXIT_FAILED)


def _as_json(state: GatewayState) -> dict[str, Any]:
    return {
        "agents": [jsonform.record(row) for row in state.agents],
        "links": [jsonform.record(row) for row in state.links],
        "jobs": [jsonform.job(row, state.link_types.get(row.link_name or "")) for row in state.jobs],
        "troubles": state.troubles,
    }


def _print_state(state: GatewayState, health: Health) -> None:
    print_agents(state.agents)
    if state.links:
        say()
        _print_link_states(state, health)
    if state.jobs:
        say()
        print_jobs(state)
    if state.troubles:
        say()
    for line in state.troubles:
        say(textwrap.fill(f"! {line}", console().width, subsequent_indent="  "))


def print_agents(rows: Sequence[GatewayRow]) -> None:
    """The agents as a table."""
    print_table(AGENT_COLUMNS, [_agent(row) for row in rows])


def print_links(state: GatewayState) -> None:
    """The links as a table, with how many jobs each has."""
    rows = [
        (row.link_name, row.link_type.lower(), row.agent_name, state.jobs_of(row), row.link_comment)
        for row in state.links
    ]
    print_table(LINK_COLUMNS, rows)


def _print_link_states(state: GatewayState, health: Health) -> None:
    """The links as a table, with the state that their jobs show, and since when where that is known."""
    found = {entry.name: entry for entry in health.links}
    rows = []
    for row in state.links:
        entry = found[row.link_name]
        since = jsonform.second(entry.since)
        rows.append((row.link_name, row.link_type.lower(), row.agent_name, state.jobs_of(row), entry.state, since))
    print_table(LINK_STATES, rows)


def print_jobs(state: GatewayState) -> None:
    """The jobs as a table; the longest guarantee is shortened, or it would fold the names of the jobs at 80 columns."""
    print_table(JOB_COLUMNS, [_job(row, state) for row in state.jobs])
    if any(row.guarantee == _LONGEST for row in state.jobs):
        say("* unless the broker itself crashes")


def _agent(row: GatewayRow) -> Sequence[Any]:
    since = row.agent_start_time if row.agent_status != "NOT_STARTED" else None
    return row.agent_name, row.agent_status, row.agent_ping, row.agent_host, row.agent_pid, since


def _job(row: JobRow, state: GatewayState) -> Sequence[Any]:
    return (
        row.job_name,
        state.state_of(row),
        row.propagated_total,
        row.exceptionq_total or "",
        row.left_out_total or "",
        row.backlog if state.knows_backlog(row) else "unknown",
        ago(row.oldest_message_age),
        "exact*" if row.guarantee == _LONGEST else row.guarantee,
    )


# -- events ----------------------------------------------------------------------------------------------------------


def events(
    ctx: typer.Context,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="Number of latest events.")] = 30,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more; end with ctrl-c.")] = False,
    *,
    name: Annotated[
        str | None, typer.Option("--object", help="Only of this job or link.", autocompletion=completer("jobs"))
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help=f"Only from this time on: {TIMES}.")
    ] = None,
    level: Annotated[
        str | None, typer.Option("--level", help=f"Only of this importance or more: {', '.join(LEVELS)}.")
    ] = None,
    audit: Annotated[
        bool,
        typer.Option(
            "--audit", help="Also what administration changed, as events Administration of level INFO (mgw audit)."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """What happened: starts and stops, failures, messages put aside; with --audit also who changed what."""
    from mgw.gateway.services.health import read_events

    begun = epoch(since, "--since")
    if level is not None and level.upper() not in LEVELS:
        fail(f"--level {level!r} is no level; write {', '.join(LEVELS[:-1])} or {LEVELS[-1]}", EXIT_USAGE)
    least = None if level is None else level.upper()
    with open_hub(hub_url(ctx)) as hub:
        last, changed = 0, None
        wanted = limit
        while True:
            shown: list[EventRow] = read_events(hub, after=last, limit=wanted, name=name, since=begun, level=least)
            last = max([last, *(row.event_id for row in shown)])
            if audit and least in _WITH_AUDIT:
                more, changed = _changes(hub, changed, wanted, name, begun)
                shown = sorted([*shown, *more], key=lambda row: row.event_time)[-wanted:]
            if as_json and not follow:
                print_json([jsonform.record(row) for row in shown])
            elif as_json:  # an object a line
                for row in shown:
                    print_json(jsonform.record(row), indent=None)
            for row in () if as_json else shown:
                what = f" {row.object_name}" if row.object_name else ""
                say(f"{row.event_time} {row.event_level} {row.event_name}{what}: {row.event_text}")
            if not follow:
                return
            wanted = _MOST
            sys.stdout.flush()
            time.sleep(0.5)


def _changes(
    hub: Hub, after: int | None, limit: int, name: str | None, since: float | None
) -> tuple[list[EventRow], int]:
    """What administration changed, as events with the numbers of the entries, the oldest first; and the last number.

    Entries of removals, users and the exception desk have events of their own.
    """
    from mgw.gateway.services.audit_words import has_event, told
    from mgw.gateway.services.happenings import audit as entries
    from mgw.gateway.services.health import EventRow

    found = entries(hub, limit, since=since, after=after, name=name)[::-1]
    rows = [
        EventRow(
            each.id,
            second(each.time) or "",
            "INFO",
            "Administration",
            None,
            each.object,
            f"{told(each)}, by {each.actor}" + (f" ({each.through})" if each.through else ""),
        )
        for each in found
        if not has_event(each)
    ]
    return rows, max([after or 0, *(each.id for each in found)])
