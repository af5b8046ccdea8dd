"""``mgw jobs history``: what a job did over the last hours or days."""

from __future__ import annotations

from typing import Annotated

import typer

from mgw.gateway.cli.common import ago, hub_url, open_hub, print_json, print_table, say
from mgw.gateway.cli.jsonform import moment, second
from mgw.gateway.cli.words import JobName, Json, duration

__all__ = ["history"]

_LINES = 24

Window = Annotated[str, typer.Option("--window", "-w", help="How far back: 90s, 15m, 3h, 7d; at most 31 days.")]
Points = Annotated[int, typer.Option("--points", "-n", min=1, max=180, help="Lines at most.")]


def history(
    ctx: typer.Context, name: JobName, window: Window = "3h", points: Points = _LINES, *, as_json: Json = False
) -> None:
    """What a job did: rate, latency, backlog, failures, state. Times that no agent ran are left out."""
    from mgw.gateway.services.job_history import course_of

    with open_hub(hub_url(ctx)) as hub:
        course = course_of(hub, name, duration(window, "--window"), points=points)
    known = [point for point in course.points if point.seconds > 0]
    if as_json:
        print_json(
            [
                {
                    "from": moment(point.begun),
                    "known_seconds": round(point.seconds, 3),
                    "state": point.state,
                    "rate": point.rate,
                    "moved": point.moved,
                    "exceptioned": point.exceptioned,
                    "filtered": point.filtered,
                    "discarded": point.discarded,
                    "failures": point.failures,
                    "read_to_stored": point.stored,
                    "stored_to_confirmed": point.confirmed,
                    "origin_to_confirmed": point.origin,
                    "backlog": point.backlog,
                    "oldest": point.oldest,
                }
                for point in known
            ]
        )
        return
    if not known:
        say(f"nothing is known of job {course.job} in this time: its agent writes what it did every 15 s while it runs")
        return
    columns = {"FROM (UTC)": "left", "STATE": "left", "MOVED": "right", "RATE": "right", "LATENCY": "right"}
    columns |= {"WAITING": "right", "OLDEST": "right", "EXC.": "right", "FAILED": "right"}
    print_table(
        columns,
        [
            (
                second(point.begun),
                point.state,
                f"{point.moved:,.0f}",
                "" if point.rate is None else f"{point.rate:,.1f}",
                "" if point.origin is None else f"{point.origin:.2f}s",
                "" if point.backlog is None else f"{point.backlog:,}",
                ago(point.oldest),
                f"{point.exceptioned:,.0f}" if point.exceptioned else "",
                f"{point.failures:,.0f}" if point.failures else "",
            )
            for point in known
        ],
    )
