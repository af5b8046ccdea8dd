"""``mgw status``, ``top`` and ``events``: what the gateway is doing, readable at 80 columns."""

from __future__ import annotations

import contextlib
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gateway.cli import jsonform
from gateway.cli.common import (
    EXIT_FAILED,
    ago,
    completer,
    console,
    describe,
    find_name,
    hub_url,
    open_hub,
    print_json,
    print_table,
    say,
)

if TYPE_CHECKING:
    import sqlalchemy as sa
    from rich.console import RenderableType

    from gateway.status import GatewayRow, JobRow, LinkRow

__all__ = ["register", "show_agents", "show_job", "show_jobs", "show_links"]

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
        bool, typer.Option("--check", help="Exit 1 when an agent is down or a job is FAILED or STUCK.")
    ] = False,
) -> None:
    """Agents, links and jobs: state, counters, backlog, guarantee."""
    from gateway import status as views

    with _reading(ctx) as conn:
        agents, links, jobs = views.gateway(conn), views.links(conn), views.jobs(conn)
    wrong = troubles(agents, jobs)
    if as_json:
        print_json(
            {
                "agents": [jsonform.record(row) for row in agents],
                "links": [jsonform.record(row) for row in links],
                "jobs": _jobs_as_json(jobs, links),
                "troubles": wrong,
            }
        )
    else:
        print_table(AGENT_COLUMNS, [_agent(row) for row in agents])
        if links:
            say()
            print_table(LINK_COLUMNS, [_link(row, jobs) for row in links])
        if jobs:
            say()
            _print_jobs(jobs)
        if wrong:
            say()
        for line in wrong:
            say(textwrap.fill(f"! {line}", console().width, subsequent_indent="  "))
    if check and failing(agents, jobs):
        raise typer.Exit(EXIT_FAILED)


def troubles(agents: Sequence[GatewayRow], jobs: Sequence[JobRow]) -> list[str]:
    """What needs somebody's attention, a line each."""
    busy = {job.agent_name for job in jobs if job.enabled == "TRUE"}
    result = []
    for agent in agents:
        if agent.agent_status == "RUNNING" and agent.agent_ping == "REACHABLE":
            continue
        if agent.agent_name in busy or agent.agent_status == "BROKEN":
            state = "does not answer" if agent.agent_ping == "UNREACHABLE" else f"is {agent.agent_status}"
            reason = f": {agent.last_error_msg}" if agent.last_error_msg else ""
            result.append(f"agent {agent.agent_name} {state}{reason}")
    for job in jobs:
        if state_of(job) in ("FAILED", "STUCK", "RETRY") and job.enabled == "TRUE":
            reason = f": {job.last_error_msg}" if job.last_error_msg else ""
            result.append(f"job {job.job_name} is {state_of(job)}{reason}")
    return result


def failing(agents: Sequence[GatewayRow], jobs: Sequence[JobRow]) -> bool:
    """Whether an agent with work is down, or a job is FAILED or STUCK."""
    return any(not line.split(":", 1)[0].endswith(" is RETRY") for line in troubles(agents, jobs))


def state_of(job: JobRow) -> str:
    """One word for a job: its status where that is bad news, otherwise what it does."""
    if job.status in ("FAILED", "DELETE_PENDING"):
        return job.status
    if job.enabled != "TRUE":
        return "DISABLED"
    return "RETRY" if job.status == "RETRY" else job.activity


def show_agents(ctx: typer.Context, *, as_json: bool) -> None:
    """``mgw agents list``."""
    from gateway import status as views

    with _reading(ctx) as conn:
        rows = views.gateway(conn)
    if as_json:
        print_json([jsonform.record(row) for row in rows])
    else:
        print_table(AGENT_COLUMNS, [_agent(row) for row in rows])


def show_links(ctx: typer.Context, *, as_json: bool) -> None:
    """``mgw links list``."""
    from gateway import status as views

    with _reading(ctx) as conn:
        rows, jobs = views.links(conn), views.jobs(conn)
    if as_json:
        print_json([jsonform.record(row) for row in rows])
    else:
        print_table(LINK_COLUMNS, [_link(row, jobs) for row in rows])


def show_jobs(ctx: typer.Context, *, as_json: bool) -> None:
    """``mgw jobs list``."""
    from gateway import status as views

    with _reading(ctx) as conn:
        rows, links = views.jobs(conn), views.links(conn)
    print_json(_jobs_as_json(rows, links)) if as_json else _print_jobs(rows)


def _jobs_as_json(rows: Sequence[JobRow], links: Sequence[LinkRow]) -> list[dict[str, Any]]:
    types = {link.link_name: link.link_type for link in links}
    return [jsonform.job(row, types.get(row.link_name)) for row in rows]


def show_job(ctx: typer.Context, name: str, *, as_json: bool) -> None:
    """``mgw jobs show``."""
    from gateway import status as views

    with _reading(ctx) as conn:
        rows, links = {row.job_name: row for row in views.jobs(conn)}, views.links(conn)
    row = rows[find_name("job", name, list(rows))]
    print_json(*_jobs_as_json([row], links)) if as_json else describe(asdict(row))


def _agent(row: GatewayRow) -> Sequence[Any]:
    since = row.agent_start_time if row.agent_status != "NOT_STARTED" else None
    return row.agent_name, row.agent_status, row.agent_ping, row.agent_host, row.agent_pid, since


def _link(row: Any, jobs: Sequence[JobRow]) -> Sequence[Any]:
    count = sum(job.link_name == row.link_name for job in jobs)
    return row.link_name, row.link_type.lower(), row.agent_name, count, row.link_comment


def _print_jobs(rows: Sequence[JobRow]) -> None:
    """The jobs; the longest guarantee is shortened, or it would fold the names of the jobs at 80 columns."""
    print_table(JOB_COLUMNS, [_job(row) for row in rows])
    if any(row.guarantee == _LONGEST for row in rows):
        say("* unless the broker itself crashes")


def _job(row: JobRow) -> Sequence[Any]:
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


@contextlib.contextmanager
def _reading(ctx: typer.Context) -> Iterator[sa.Connection]:
    with open_hub(hub_url(ctx)) as hub, hub.read() as conn:
        yield conn


# -- top -------------------------------------------------------------------------------------------------------------


def top(
    ctx: typer.Context,
    interval: Annotated[
        float, typer.Option("--interval", "-n", min=0.2, max=60, help="Seconds between two looks.")
    ] = 1.0,
    count: Annotated[int | None, typer.Option("--count", min=1, help="Leave after so many looks.")] = None,
) -> None:
    """The jobs, live: rates, backlog, age of the oldest message, last error. Leave with q or ctrl-c."""
    from rich.live import Live

    from gateway import status as views

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
            with hub.read() as conn:
                agents, jobs = views.gateway(conn), views.jobs(conn)
            rates = {job.job_name: _rate(before.get(job.job_name), started, job.propagated_total) for job in jobs}
            before = {job.job_name: (started, job.propagated_total) for job in jobs}
            live.update(_screen(hub.name, agents, jobs, rates), refresh=True)
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


def _screen(
    hub: str, agents: Sequence[GatewayRow], jobs: Sequence[JobRow], rates: dict[str, float | None]
) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    from gateway.cli.common import table

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
    for job in jobs:
        state, rate = state_of(job), rates.get(job.job_name)
        shown.add_row(
            Text(job.job_name),
            Text(state, style=colours.get(state, "")),
            "" if rate is None else f"{rate:,.0f}",
            f"{job.propagated_total:,}",
            str(job.exceptionq_total or ""),
            "" if job.backlog is None else f"{job.backlog:,}",
            ago(job.oldest_message_age),
        )
    running = "; ".join(f"{agent.agent_name} {agent.agent_status}" for agent in agents)
    total = sum(rate for rate in rates.values() if rate is not None)
    head = Text(f"{time.strftime('%H:%M:%S')}  {hub}\n{running}  {total:,.0f} messages/s\n", style="bold")
    lines = [Text(line, style="red", overflow="ellipsis", no_wrap=True) for line in troubles(agents, jobs)]
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
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="How many, the latest.")] = 30,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more; leave with ctrl-c.")] = False,
    name: Annotated[
        str | None, typer.Option("--object", help="Only of this job or link.", autocompletion=completer("jobs"))
    ] = None,
    as_json: Json = False,
) -> None:
    """What happened: starts and stops, failures, messages put aside."""
    from gateway import status as views

    with open_hub(hub_url(ctx)) as hub:
        last = 0
        while True:
            with hub.read() as conn:
                found = views.events(conn, after=last, limit=limit if last == 0 else 10_000)
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
