"""The hub on both databases in turns: ``python -m benchmarks.databases [ROUTE ...] [--rounds N] [--batch N ...]``.

The same routes as :mod:`benchmarks.against`, with this checkout: every round runs a route with the hub on SQLite and
with the hub on PostgreSQL, in an order that changes. Told are messages per second, the CPU time of the agent for a
message, and that of the PostgreSQL server, which works on the core of the brokers. The ratios are of PostgreSQL to
SQLite, taken within a round: above 1, it is faster, or costs the agent less.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.against import DATABASES, HERE, ROUTES, USUAL, Checkout, pin
from benchmarks.guarantees import SIZES, Stand
from benchmarks.measuring import machine, sync_seconds
from benchmarks.recorded import Recorder

_Runs = Mapping[str, Sequence[Mapping[str, float]]]


def _median(runs: _Runs, database: str, what: str) -> float:
    return statistics.median(run[what] for run in runs[database])


def _ratio(runs: _Runs, what: str, *, cost: bool = False) -> str:
    pairs = zip(runs["postgresql"], runs["sqlite"], strict=True)
    ratios = [
        sqlite[what] / postgresql[what] if cost else postgresql[what] / sqlite[what] for postgresql, sqlite in pairs
    ]
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def _line(route: str, batch: int, runs: _Runs) -> str:
    told = [f"{_median(runs, each, 'rate'):,.0f}" for each in DATABASES] + [_ratio(runs, "rate")]
    told += [f"{_median(runs, each, 'cpu'):.1f}" for each in DATABASES] + [_ratio(runs, "cpu", cost=True)]
    return f"| {route} | {batch} | {' | '.join(told)} | {_median(runs, 'postgresql', 'server'):.1f} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare the databases on the routes asked for, and print one line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("routes", nargs="*", choices=[*ROUTES, []], help=f"default: {' '.join(USUAL)}")
    parser.add_argument("--rounds", type=int, default=3, help="default 3")
    parser.add_argument("--batch", type=int, nargs="+", choices=list(SIZES), default=list(SIZES), help="MsgBatchSize")
    parser.add_argument("--messages", type=float, default=1.0, help="so many times the messages")
    chosen: Any = parser.parse_args(arguments)
    recorder = Recorder("databases", rounds=chosen.rounds, messages=chosen.messages)
    with tempfile.TemporaryDirectory(prefix="mgw-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o755)
        this = Checkout(HERE, pin())
        print(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {machine()}, load {os.getloadavg()[0]:.1f}")
        sync = sync_seconds(folder) * 1000
        print(f"{this.commit()}, {chosen.rounds} rounds; one sync of the hub's disk: {sync:.2f} ms\n")
        print(
            "| Route | Batch | SQLite, messages/s | PostgreSQL | ratio "
            "| agent CPU, us/message: SQLite | PostgreSQL | ratio | server CPU, us/message |"
        )
        print("|---|---|---|---|---|---|---|---|---|", flush=True)
        stand = Stand(folder, chosen.rounds, chosen.messages, stack)
        for route, batch in itertools.product(chosen.routes or USUAL, chosen.batch):
            runs: dict[str, list[dict[str, float]]] = {each: [] for each in DATABASES}
            for number in range(chosen.rounds):
                for each in DATABASES if number % 2 else reversed(DATABASES):
                    run = this.run(stand, route, batch, batch, each)
                    runs[each].append(run)
                    for measure, value in run.items():
                        recorder.add(f"{route}, batch {batch}", each, measure, value)
                    load = os.getloadavg()[0]
                    print(route, batch, number, each, json.dumps(run), f"load {load:.1f}", file=sys.stderr, flush=True)
            print(_line(route, batch, runs), flush=True)
            recorder.part().write()


if __name__ == "__main__":
    main()
