"""``make demo``: what goes in, what comes out, and whether they agree.

Real brokers on free ports of this machine, a SQLite hub, conf/quickstart.yaml, and a plant's messages fed and read back
by mosquitto_pub and _sub, amqp-publish and -consume, curl and Kafka's console tools. Exit code 0 only if every message
came out, unaltered, once, where it belongs.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from tests.demo import feed, keep
from tests.demo.data import ALARM_TEMPERATURE, DataSet, make_data
from tests.demo.plant import CONFIGURATION, GatewayProcess, Plant, plant

CONSOLE = Console(highlight=False, width=None if sys.stdout.isatty() else 100)
DEADLINE = 120.0  # seconds until everything must have arrived


@dataclass(frozen=True, slots=True)
class Verdict:
    """One line of the result."""

    job: str
    into: str
    fed: int
    out: str
    found: int
    problem: str = ""


def say(text: str) -> None:
    """One line of progress."""
    CONSOLE.print(f"[bold]>[/] {text}")


def jobs_table(rows: Sequence[dict[str, Any]]) -> Table:
    """MGW_JOBS as people like to see it."""
    table = Table(title="MGW_JOBS", title_justify="left", expand=False)
    for name in ("job", "source", "destination"):
        table.add_column(name, overflow="ellipsis", no_wrap=True, max_width=22)
    for name in ("state", "moved", "bad", "waits"):
        table.add_column(name, justify="right" if name != "state" else "left", no_wrap=True)
    for row in rows:
        table.add_row(
            row["JOB_NAME"],
            row["SOURCE"],
            row["DESTINATION"],
            f"{row['STATUS']}/{row['ACTIVITY']}",
            str(row["PROPAGATED_MSGS"]),
            str(row["EXCEPTIONQ_MSGS"]),
            "" if row["BACKLOG"] is None else str(row["BACKLOG"]),
        )
    return table


def watch(place: Plant, gateway: GatewayProcess, done: Callable[[Sequence[dict[str, Any]]], bool], what: str) -> None:
    """Show the jobs live until ``done``."""
    deadline = time.monotonic() + DEADLINE
    rows = place.jobs()
    with Live(jobs_table(rows), console=CONSOLE, auto_refresh=False, transient=False) as live:
        while not done(rows):
            gateway.check()
            if time.monotonic() > deadline:
                raise RuntimeError(f"{what} did not happen within {DEADLINE:.0f} s")
            time.sleep(0.3)
            rows = place.jobs()
            live.update(jobs_table(rows), refresh=CONSOLE.is_terminal)
        live.update(jobs_table(rows), refresh=True)
    if not CONSOLE.is_terminal:
        CONSOLE.print()


def connected(rows: Sequence[dict[str, Any]]) -> bool:
    """Every job has its connections."""
    return bool(rows) and all(row["ACTIVITY"] in {"RUNNING", "IDLE"} and row["GUARANTEE"] for row in rows)


def expected_alarms(data: DataSet) -> list[str]:
    """Bodies that the subscription rule of the alarm job selects."""
    bodies = [body for rows in data.telemetry.values() for body in rows]
    return [body for body in bodies if float(body.split('"temperature":')[1].split(",")[0]) > ALARM_TEMPERATURE]


def moved(data: DataSet) -> Callable[[Sequence[dict[str, Any]]], bool]:
    """Whether the counters say that everything has gone through."""
    telemetry = sum(map(len, data.telemetry.values()))
    wanted = {
        "telemetry_in": telemetry,
        "telemetry_to_kafka": telemetry,
        "alarms_to_rabbit": len(expected_alarms(data)),
        "orders_in": len(data.orders),
        "orders_to_kafka": len(data.orders),
        "commands_in": len(data.commands),
        "commands_to_plant": len(data.commands),
        "readings_in": len(data.readings),
        "readings_to_kafka": len(data.readings) - len(data.poison),
    }

    def check(rows: Sequence[dict[str, Any]]) -> bool:
        seen = {row["JOB_NAME"].lower(): row["PROPAGATED_MSGS"] + row["EXCEPTIONQ_MSGS"] for row in rows}
        return all(seen.get(job, 0) >= count for job, count in wanted.items())

    return check


def compare(fed: Sequence[str], found: Sequence[str], *, ordered: bool = False) -> str:
    """What is wrong between two lists of bodies, in words, or nothing."""
    missing, extra = Counter(fed) - Counter(found), Counter(found) - Counter(fed)
    if missing or extra:
        return f"{missing.total()} missing, {extra.total()} unexpected (e.g. {next(iter(missing or extra))[:60]!r})"
    return "" if not ordered or list(fed) == list(found) else "same messages in another order"


def judge(place: Plant, data: DataSet, commands_out: Sequence[str]) -> list[Verdict]:
    """Read everything back and compare."""
    expected = {
        "plant.telemetry": sum(map(len, data.telemetry.values())),
        "orders": len(data.orders),
        "readings": len(data.readings) - len(data.poison),
    }
    with ThreadPoolExecutor() as pool:
        topics = {name: pool.submit(feed.kafka_read, place.kafka, name, count) for name, count in expected.items()}
        records = {name: future.result() for name, future in topics.items()}
    verdicts = []

    bodies = [body for rows in data.telemetry.values() for body in rows]
    out = [value for _, _, value in records["plant.telemetry"]]
    problem = compare(bodies, out)
    for machine, rows in data.telemetry.items():
        mine = [body for body in out if f'"machine":"{machine}"' in body]
        problem = problem or compare(rows, mine, ordered=True)
    verdicts.append(
        Verdict(
            "telemetry_in + telemetry_to_kafka",
            "MQTT plant/+/telemetry",
            len(bodies),
            "Kafka plant.telemetry",
            len(out),
            problem,
        )
    )

    alarms = expected_alarms(data)
    found = feed.amqp_read(place.rabbitmq, "alarms", place.depth("alarms"), place.folder)
    verdicts.append(
        Verdict(
            "alarms_to_rabbit (rule)",
            f"of these > {ALARM_TEMPERATURE} degrees",
            len(alarms),
            "RabbitMQ plant.alarms",
            len(found),
            compare(alarms, found),
        )
    )

    keyed = [f"{order.customer} {order.priority} {order.body}" for order in data.orders]
    got = [f"{key} {9 - int(_header(headers, 'MGW_AQ_priority'))} {value}" for headers, key, value in records["orders"]]
    problem = compare(keyed, got)
    urgency = [int(entry.split()[1]) for entry in got]
    if not problem and urgency != sorted(urgency, reverse=True):
        problem = "not in order of priority"
    verdicts.append(
        Verdict(
            "orders_in + orders_to_kafka",
            "RabbitMQ orders (priority)",
            len(keyed),
            "Kafka orders (key, priority)",
            len(got),
            problem,
        )
    )

    wanted = [f"plant/{command.device}/command {command.body}" for command in data.commands]
    verdicts.append(
        Verdict(
            "commands_in + commands_to_plant",
            "Kafka commands",
            len(wanted),
            "MQTT plant/<device>/command",
            len(commands_out),
            compare(wanted, commands_out),
        )
    )

    poison = set(data.poison)
    good = [body for body in data.readings if body not in poison]
    out = [value for _, _, value in records["readings"]]
    verdicts.append(
        Verdict(
            "readings_in (+celsius)",
            "RabbitMQ readings",
            len(good),
            "Kafka readings",
            len(out),
            _check_celsius(good, out),
        )
    )
    # amqp-publish sends each line with its line feed, and an exception queue keeps every byte.
    bad = feed.amqp_read(place.rabbitmq, "readings.bad", place.depth("readings.bad"), place.folder)
    verdicts.append(
        Verdict(
            "readings_in, poison",
            "the same queue",
            len(data.poison),
            "RabbitMQ readings.bad",
            len(bad),
            compare([f"{body}\n" for body in data.poison], bad, ordered=True),
        )
    )
    return verdicts


def _header(headers: str, name: str) -> str:
    for header in headers.split(","):
        key, _, value = header.partition(":")
        if key == name:
            return value
    return "-1"


def _check_celsius(fed: Sequence[str], found: Sequence[str]) -> str:
    import json

    try:
        rows = [json.loads(body) for body in found]
        wrong = [row for row in rows if abs(row.pop("celsius") - (row["fahrenheit"] - 32) * 5 / 9) > 0.06]
    except (ValueError, KeyError) as error:
        return f"a reading without celsius: {error}"
    if wrong:
        return f"{len(wrong)} with a wrong celsius"
    return compare(
        [json.dumps(json.loads(body), sort_keys=True) for body in fed],
        [json.dumps(row, sort_keys=True) for row in rows],
    )


def show(verdicts: Sequence[Verdict]) -> None:
    """The verdict as a table."""
    table = Table(title="What went in and what came out, read back with the brokers' own clients", title_justify="left")
    for name in ("job", "in", "fed", "out", "read back", "verdict"):
        table.add_column(name, justify="right" if name in {"fed", "read back"} else "left")
    for entry in verdicts:
        colour = "red" if entry.problem else "green"
        table.add_row(
            entry.job,
            entry.into,
            str(entry.fed),
            entry.out,
            str(entry.found),
            f"[{colour}]{entry.problem or 'equal'}[/]",
        )
    CONSOLE.print(table)


def main() -> int:
    """Run the demonstration; the exit code is the verdict."""
    began = time.monotonic()
    data = make_data()
    with plant(say) as place:
        applied = place.mgw("apply", str(CONFIGURATION))
        if applied.returncode != 0:
            CONSOLE.print(applied.stdout + applied.stderr, markup=False)
            return 1
        say(f"mgw apply conf/quickstart.yaml: {applied.stdout.strip().splitlines()[-1]}")
        feed.curl_orders(place.rabbitmq, "orders", data.orders, place.folder)
        say(f"{len(data.orders)} orders wait in RabbitMQ, in random order of priority; now the gateway starts")
        commands_file = place.folder / "commands.out"
        subscriber = feed.mosquitto_subscribe(place.mosquitto, "plant/+/command", len(data.commands), commands_file)
        gateway = GatewayProcess(place)
        try:
            watch(place, gateway, connected, "connecting every job")
            say("feeding: mosquitto_pub (8 machines), amqp-publish, Kafka's console producer")
            with ThreadPoolExecutor() as pool:
                feeds = [
                    pool.submit(feed.mosquitto_publish, place.mosquitto, f"plant/{machine}/telemetry", rows)
                    for machine, rows in data.telemetry.items()
                ]
                feeds.append(pool.submit(feed.publish_lines, place.rabbitmq, "readings", data.readings))
                feeds.append(pool.submit(feed.kafka_produce_commands, place.kafka, "commands", data.commands))
                watch(place, gateway, moved(data), "moving every message")
                for future in feeds:
                    future.result()
            subscriber.wait(30)
            rows = place.jobs()
        finally:
            code = gateway.stop()
            subscriber.kill()
            subscriber.wait(10)
        say(f"gateway stopped with exit code {code}; reading back")
        commands_out = commands_file.read_text().splitlines()
        verdicts = judge(place, data, commands_out)
        show(verdicts)
        say("the status view, as any SQL client sees it: sqlite3 hub.db 'SELECT ... FROM MGW_JOBS'")
        for row in rows:
            moved_by = f"{row['PROPAGATED_MSGS']:>5} moved {row['EXCEPTIONQ_MSGS']:>3} bad"
            CONSOLE.print(f"    {row['JOB_NAME']:<20} {moved_by}   {row['GUARANTEE']}", markup=False)
        good = code == 0 and not any(entry.problem for entry in verdicts)
        fed = sum(entry.fed for entry in verdicts)
        words = "everything arrived, unaltered, once" if good else "something is wrong, see above"
        seconds = time.monotonic() - began
        say(f"[bold {'green' if good else 'red'}]{words}[/] ({fed} messages checked, {seconds:.0f} s)")
        if not keep.wanted():
            say(keep.HINT)
        elif good:
            keep.keep(place, data, say)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
