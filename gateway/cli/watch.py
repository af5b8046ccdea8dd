"""``mgw status``, ``top`` and ``events``: what the gateway is doing, readable at 80 columns."""

from __future__ import annotations

import contextlib
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mgw.gateway.cli import jsonform
from mgw.gateway.cli.common import (
    EXIT_FAILED,
    ago,
    completer,
    console,
    hub_url,
    open_hub,
    print_json,
    print_table,
    say,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mgw.gateway.services.health import GatewayRow, GatewayState, JobRow

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


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.command()(status)
    app.command()(top)
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
        _print_state(state)
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


def _print_state(state: GatewayState) -> None:
    print_agents(state.agents)
    if state.links:
        say()
        print_links(state)
    if state.jobs:
        say()
        print_jobs(state.jobs)
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


def print_jobs(rows: Sequence[JobRow]) -> None:
    """The jobs as a table; the longest guarantee is shortened, or it would fold the names of the jobs at 80 columns."""
    print_table(JOB_COLUMNS, [_job(row) for row in rows])
    if any(row.guarantee == _LONGEST for row in rows):
        say("* unless the broker itself crashes")


def _agent(row: GatewayRow) -> Sequence[Any]:
    since = row.agent_start_time if row.agent_status != "NOT_STARTED" else None
    return row.agent_name, row.agent_status, row.agent_ping, row.agent_host, row.agent_pid, since


def _job(row: JobRow) -> Sequence[Any]:
    from mgw.gateway.services.health import state_of

    return (
        row.job_name,
        state_of(row),
        row.propagated_total,
        row.exceptionq_total or "",
        (row.filtered_total + row.discarded_total) or "",
        row.backlog,
        ago(row.oldest_message_age),
        "exact*" if row.guarantee == _LONGEST else row.guarantee,
    )


# -- top -------------------------------------------------------------------------------------------------------------


def top(
    ctx: typer.Context,
    interval: Annotated[
        float, typer.Option("--interval", "-n", min=0.2, max=60, help="Seconds between refreshes.")
    ] = 1.0,
    count: Annotated[int | None, typer.Option("--count", min=1, help="Exit after this many refreshes.")] = None,
) -> None:
    """The jobs, live: rates, backlog, age of the oldest message, last error. Leave with q or ctrl-c."""
    from rich.live import Live

    from mgw.gateway.services.health import read

    looks = 0
    before: dict[str, tuple[float, int]] = {}
    screen = console()
    with (
        open_hub(hub_url(ctx)) as hub,
        _keys() as pressed,
        Live(console=screen, screen=screen.is_terminal, auto_refresh=False) as live,
    ):
        while count is None or looks < count:
            started = time.monotonic()
            state = read(hub)
            rates = {job.job_name: _rate(before.get(job.job_name), started, job.propagated_total) for job in state.jobs}
            before = {job.job_name: (started, job.propagated_total) for job in state.jobs}
            live.update(_screen(hub.name, state, rates), refresh=True)
            looks += 1
            if pressed(interval if count is None or looks < count else 0):
                break
    if not screen.is_terminal:
        say()


def _rate(before: tuple[float, int] | None, now: float, moved: int) -> float | None:
    """Messages per second since the last look; None at the first."""
    if before is None or now <= before[0]:
        return None
    return max(0, moved - before[1]) / (now - before[0])


def _screen(hub: str, state: GatewayState, rates: dict[str, float | None]) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    from mgw.gateway.cli.common import table
    from mgw.gateway.services.health import state_of

    colours = {"RUNNING": "green", "FAILED": "bold red", "STUCK": "bold red", "RETRY": "yellow", "BACKOFF": "yellow"}
    shown = table(
        {
            "JOB": "fold",
            "STATE": "left",
            "PER S": "right",
            "MOVED": "right",
            "BAD": "right",
            "WAITING": "right",
            "OLDEST": "right",
        }
    )
    for job in state.jobs:
        word, rate = state_of(job), rates.get(job.job_name)
        shown.add_row(
            Text(job.job_name),
            Text(word, style=colours.get(word, "")),
            "" if rate is None else f"{rate:,.0f}",
            f"{job.propagated_total:,}",
            str(job.exceptionq_total or ""),
            "" if job.backlog is None else f"{job.backlog:,}",
            ago(job.oldest_message_age),
        )
    running = "; ".join(f"{agent.agent_name} {agent.agent_status}" for agent in state.agents)
    total = sum(rate for rate in rates.values() if rate is not None)
    head = Text(f"{time.strftime('%H:%M:%S')}  {hub}\n{running}  {total:,.0f} messages/s\n", style="bold")
    lines = [Text(line, style="red", overflow="ellipsis", no_wrap=True) for line in state.troubles]
    return Group(head, shown, Text(), *lines)


@contextlib.contextmanager
def _keys() -> Iterator[Any]:
    """A function that waits some seconds and says whether q was pressed meanwhile."""
    if not sys.stdin.isatty():

        def wait_only(seconds: float) -> bool:
            time.sleep(seconds)
            return False

        yield wait_only
        return
    import select
    import termios
    import tty

    saved = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)

    def wait(seconds: float) -> bool:
        ready, _, _ = select.select([sys.stdin], [], [], seconds)
        return bool(ready) and sys.stdin.read(1) in ("q", "Q")

    try:
        yield wait
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, saved)


# -- events ----------------------------------------------------------------------------------------------------------


def events(
    ctx: typer.Context,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="Number of latest events.")] = 30,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more; end with ctrl-c.")] = False,
    name: Annotated[
        str | None, typer.Option("--object", help="Only of this job or link.", autocompletion=completer("jobs"))
    ] = None,
    as_json: Json = False,
) -> None:
    """What happened: starts and stops, failures, messages put aside."""
    from mgw.gateway.services.health import read_events

    with open_hub(hub_url(ctx)) as hub:
        last = 0
        while True:
            found = read_events(hub, after=last, limit=limit if last == 0 else 10_000)
            last = max([last, *(row.event_id for row in found)])
            shown = [row for row in found if name is None or (row.object_name or "").upper() == name.upper()]
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
            sys.stdout.flush()
            time.sleep(0.5)
