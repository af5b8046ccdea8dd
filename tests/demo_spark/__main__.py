"""``make demo-spark``: many messages bridged, then measured, archived and audited on Spark.

Real brokers on free ports of this machine, a SQLite hub, ``gateway.yaml`` beside this file, and the pipelines of the
folder ``pipelines`` as any user runs them: ``mgw pipeline run``. Exit code 0 only if no audit finds anything.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.live import Live
from rich.table import Table

from tests.demo.__main__ import CONSOLE, jobs_table, say
from tests.demo.plant import Plant, plant
from tests.demo_spark.bridge import CONFIGURATION, MOSQUITTO, Bridged, bridge, make_queues
from tests.demo_spark.chart import draw, measured, read_windows
from tests.demo_spark.data import Fed, make_data, write_fed
from tests.demo_spark.spark import AUDITS, Ran, environment_of, run_pipeline
from tests.demo_spark.tamper import FAULTS, tamper

OUTPUT = Path("build/demo-spark")


def carry(place: Plant, fed: Fed) -> Bridged:
    """Bridge everything, shown live."""
    with Live(jobs_table([]), console=CONSOLE, auto_refresh=False) as live:
        done = bridge(place, fed, lambda rows: live.update(jobs_table(rows), refresh=CONSOLE.is_terminal))
        live.update(jobs_table(done.jobs), refresh=True)
    if not CONSOLE.is_terminal:
        CONSOLE.print()
    return done


def table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table; what begins with a digit stands at the right."""
    shown = Table(title=title, title_justify="left")
    for at, heading in enumerate(headings):
        numbers = all(row[at][:1].isdigit() for row in rows)
        shown.add_column(heading, justify="right" if numbers else "left")
    for row in rows:
        shown.add_row(*row)
    CONSOLE.print(shown)


def audit(place: Plant, environment: dict[str, str]) -> list[Ran]:
    """Run every audit and show what it says."""
    results = []
    for name, question in AUDITS.items():
        say(f"mgw pipeline run {name}: {question}")
        ran = run_pipeline(place, name, environment)
        CONSOLE.print(ran.indented(), markup=False, soft_wrap=True)
        results.append(ran)
    return results


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demonstration; the exit code is the verdict."""
    parser = argparse.ArgumentParser(prog="python -m tests.demo_spark", description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=200_000, help="how many are bridged [default: %(default)s]")
    parser.add_argument("--fault", choices=FAULTS, help="damage the archive, so that its audit must find something")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="folder for the chart [default: %(default)s]")
    chosen = parser.parse_args(arguments)
    began = time.monotonic()
    fed = make_data(chosen.messages)
    with plant(say, plugins=(), mosquitto_config=MOSQUITTO, make_queues=make_queues) as place:
        applied = place.mgw("apply", str(CONFIGURATION))
        if applied.returncode != 0:
            CONSOLE.print(applied.stdout + applied.stderr, markup=False)
            return 1
        say(f"feeding {fed.messages:,} messages: mosquitto_pub (8 machines) and amqp-publish; the gateway carries them")
        bridged = carry(place, fed)
        say(
            f"{fed.messages:,} messages in and out in {bridged.seconds:.0f} s: "
            f"{2 * fed.messages / bridged.seconds:,.0f} per second through the hub, each on disk in between"
        )
        place.rabbitmq.close()  # Spark is given the room
        place.mosquitto.close()
        return judge(place, fed, chosen.fault, chosen.output, began)


def shown(place: Plant, name: str, what: str, environment: dict[str, str]) -> bool:
    """Run a pipeline and show what it says; whether it did its work."""
    say(f"mgw pipeline run {name}: {what}")
    ran = run_pipeline(place, name, environment)
    CONSOLE.print(ran.indented(), markup=False, soft_wrap=True)
    return ran.code == 0


def show_flow(folder: Path, output: Path) -> Path:
    """What flow measured, as a table and as a chart; where that is."""
    windows = read_windows(folder)
    table(
        "What flow measured, from the ledger of the hub (windows of two seconds)",
        ("job", "messages", "per second", "best", "latency", "slowest 1 %", "late"),
        [
            (
                each.job.lower(),
                f"{each.messages:,}",
                f"{each.rate:,.0f}",
                f"{each.best:,.0f}",
                f"{each.typical * 1000:,.0f} ms",
                f"{each.slow * 1000:,.0f} ms",
                f"{each.late:,}",
            )
            for each in measured(windows)
        ],
    )
    output.mkdir(parents=True, exist_ok=True)
    return draw(windows, output / "flow.png")


def judge(place: Plant, fed: Fed, fault: str | None, output: Path, began: float) -> int:
    """The second half: Spark on what was bridged."""
    write_fed(fed, place.folder / "fed.parquet")
    environment = environment_of(place, fed.messages)
    if not shown(place, "flow", "rates and latency of every job", environment):
        return 1
    chart = show_flow(place.folder / "flow", output)
    if not shown(place, "archive", "the topics as Parquet, each message once", environment):
        return 1
    if fault is not None:
        say(f"[bold]--fault {fault}[/]: {tamper(place.folder / 'archive', fault)}")
    audits = audit(place, environment)
    table(
        "What the audits found",
        ("audit", "question", "verdict"),
        [
            (each.name, AUDITS[each.name], "[green]nothing[/]" if each.code == 0 else "[red]see above[/]")
            for each in audits
        ],
    )
    good = all(each.code == 0 for each in audits)
    words = "nothing is missing, doubled, altered or reordered" if good else "the audit found something, see above"
    say(f"rates and latency as a chart: {chart}")
    seconds = time.monotonic() - began
    say(f"[bold {'green' if good else 'red'}]{words}[/] ({fed.messages:,} messages, {seconds:.0f} s)")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
