"""How fast Spark reads a hub queue: the data source mgw beside JDBC and beside Spark's own Kafka source.

``python -m benchmarks.spark`` measures rates, ``python -m benchmarks.spark streams`` only those of streams, after a
read of each source that warms up; ``python -m benchmarks.spark memory`` what a queue of 5,000,000 takes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from benchmarks.measuring import machine
from benchmarks.recorded import Recorder
from mgw.gateway.aq.admin import QueueAdmin
from mgw.gateway.aq.hub import Hub
from mgw.gateway.aq.queues import transfer
from mgw.transforms.message import Header, Message, ValueType
from tests.support.brokers import Kafka, PostgreSQL
from tests.support.maven import jar_folder
from tests.support.spark_jars import spark_jars

__all__ = ["main"]

COLUMNS = ("id", "priority", "correlation", "enq_time", "body")
BODY = 200  # bytes
BATCH = 5_000
POM = Path(__file__).resolve().parent / "spark_jdbc/pom.xml"


def message(number: int) -> Message:
    """What is read: some text, and the headers of what was bridged from Kafka."""
    headers = (
        Header("MGW_KAFKA_topic", ValueType.TEXT, "bench"),
        Header("MGW_KAFKA_partition", ValueType.INTEGER, 0),
        Header("MGW_KAFKA_offset", ValueType.LONG, number),
        Header("MGW_KAFKA_timestamp", ValueType.LONG, 1_800_000_000_000 + number),
    )
    return Message(f"{number:012d}".ljust(BODY, "x"), headers, correlation=f"key {number}")


@contextmanager
def filled(url: str, rows: int) -> Iterator[Hub]:
    """A hub with a queue BENCH of so many messages."""
    with Hub.open(url, create=True) as hub:
        admin = QueueAdmin(hub)
        admin.create_queue_table("bench_t")
        admin.create_queue("BENCH", "bench_t")
        admin.start_queue("BENCH")
        fill(hub, rows)
        yield hub


def fill(hub: Hub, rows: int) -> None:
    """Enqueue so many messages."""
    for start in range(0, rows, BATCH):
        with hub.write() as conn:
            found = [message(number) for number in range(start, min(start + BATCH, rows))]
            transfer.put(conn, transfer.resolve(conn, "BENCH"), found)


def multiply(hub: Hub, rows: int) -> None:
    """Repeat the first message of the queue, in SQL: for more messages than anybody wants to wait for."""
    with hub.write() as conn:
        names = [
            each["name"] for each in sa.inspect(conn).get_columns("aq_message") if each["name"] not in ("id", "k3")
        ]
        have, last, first = conn.exec_driver_sql("SELECT count(*), max(id), min(id) FROM aq_message").one()
        numbers = (
            f"generate_series({last + 1}, {last + rows - have}) n"
            if hub.postgresql
            else f"(WITH RECURSIVE t(n) AS (SELECT {last + 1} UNION ALL SELECT n + 1 FROM t"
            f" WHERE n < {last + rows - have}) SELECT n FROM t)"
        )
        more = ", ".join(f"m.{name}" for name in names)
        conn.exec_driver_sql(
            f"INSERT INTO aq_message (id, k3, {', '.join(names)}) SELECT n, n, {more} FROM {numbers}"
            f" CROSS JOIN aq_message m WHERE m.id = {first}"
        )
        conn.exec_driver_sql(
            f"SELECT setval('aq_message_id', {last + rows})"
            if hub.postgresql
            else f"UPDATE aq_counter SET value = {last + rows} WHERE name = 'message'"
        )


def jdbc(url: str) -> dict[str, str]:
    """Options of a JDBC read of what is in the queue, as it is stored."""
    address = sa.make_url(url)
    queue = "(SELECT id FROM aq_queue WHERE name = 'BENCH')"
    query = f"SELECT {', '.join(COLUMNS)} FROM aq_message WHERE queue_id = {queue}"
    if address.get_backend_name() == "sqlite":
        where = {"url": f"jdbc:sqlite:{address.database}", "driver": "org.sqlite.JDBC"}
    else:
        where = {
            "url": f"jdbc:postgresql://{address.host}:{address.port}/{address.database}",
            "driver": "org.postgresql.Driver",
            "user": address.username or "",
            "password": address.password or "",
        }
    return {**where, "dbtable": f"({query}) q", "fetchsize": "8192"}


def reading(format_: str, options: dict[str, str], rows: int, *, streams: bool = False) -> dict[str, Any]:
    """What the other process is to read."""
    return {"format": format_, "options": options, "rows": rows, "streams": streams}


def measured(readings: dict[str, dict[str, Any]], cores: int, rounds: int) -> tuple[list[float], int]:
    """Rows in a second of each (the best round), and megabytes at most."""
    jars = [str(spark_jars()), str(jar_folder(POM, "spark-jdbc", "1"))]
    what = {
        "readings": [{"label": label, **each} for label, each in readings.items()],
        "cores": cores,
        "rounds": rounds,
        "jars": jars,
    }
    command = [sys.executable, "-m", "benchmarks.spark_reading", json.dumps(what)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    return found["rates"], found["mb"]


def rates(rows: int, rounds: int, stack: ExitStack, *, streams: bool = False) -> None:
    """The table of rates: on one core, on two; ``streams``: of streams, and of what warms them up."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    server, broker = stack.enter_context(PostgreSQL()), stack.enter_context(Kafka())
    urls = {"SQLite": f"sqlite:///{folder / 'hub.db'}", "PostgreSQL": server.create_database("bench")}
    broker.create_topic("bench", 2)
    produce(broker.bootstrap, rows)
    for url in urls.values():
        with filled(url, rows):
            pass
    recorder = Recorder("spark", rows=rows, rounds=rounds)
    found: dict[str, list[float]] = {}
    for cores in (1, 2):
        chosen = _readings(urls, broker.bootstrap, rows, cores)
        if streams:
            chosen = {label: each for label, each in chosen.items() if "JDBC" not in label and "typed" not in label}
        for label, rate in zip(chosen, measured(chosen, cores, rounds)[0], strict=True):
            found.setdefault(label, []).append(rate)
            recorder.add(f"{cores} cores", label, "rows", rate)
        recorder.part().write()
        for url in urls.values():
            with Hub.open(url) as hub:  # what the stream took is there again
                fill(hub, rows)
    for label, each in found.items():
        print(f"| {label} | {' | '.join(f'{rate:,.0f}' for rate in each)} |", flush=True)


def _readings(urls: dict[str, str], bootstrap: str, rows: int, cores: int) -> dict[str, dict[str, Any]]:
    """Everything that is read, by its label; streams come last, for they consume."""
    found: dict[str, dict[str, Any]] = {}
    batch = str(max(rows // 6, 1))
    for database, url in urls.items():
        with Hub.open(url) as hub, hub.read() as conn:
            first, last = conn.exec_driver_sql("SELECT min(id), max(id) FROM aq_message").one()
        split = {"partitionColumn": "id", "lowerBound": str(first), "upperBound": str(last), "numPartitions": "2"}
        given = {"url": url, "queue": "BENCH", "partitions": str(cores)}
        for label, columns in (("the same columns", COLUMNS), ("with typed headers", (*COLUMNS, "headers"))):
            more = {"columns": ",".join(columns)}
            found[f"{database}: mgw, {label}"] = reading("mgw", given | more, rows)
        found[f"{database}: JDBC"] = reading("jdbc", jdbc(url) | (split if cores == 2 else {}), rows)
    kafka = {"kafka.bootstrap.servers": bootstrap, "subscribe": "bench", "includeHeaders": "true"}
    found["Kafka's own source"] = reading("kafka", kafka | {"startingOffsets": "earliest"}, rows)
    more = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": batch}
    found["Kafka's own source, stream"] = reading("kafka", kafka | more, rows, streams=True)
    for database, url in urls.items():
        given = {"url": url, "queue": "BENCH", "partitions": str(cores), "columns": ",".join(COLUMNS)}
        given |= {"stream": f"bench{cores}", "maxRowsPerTrigger": batch}
        found[f"{database}: mgw, stream, which consumes them"] = reading("mgw", given, rows, streams=True)
    return found


def produce(bootstrap: str, rows: int) -> None:
    """The same messages in a topic of Kafka."""
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap, linger_ms=50, batch_size=256 * 1024)
    for number in range(rows):
        one = message(number)
        headers = [(header.name, str(header.value).encode()) for header in one.headers]
        producer.send("bench", key=(one.correlation or "").encode(), value=str(one.body).encode(), headers=headers)
    producer.flush()
    producer.close()


def memory(rows: int, stack: ExitStack) -> None:
    """What reading a tenth of the messages takes, and all of them, with one partition and two; and the rates."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    server = stack.enter_context(PostgreSQL())
    for database, url in {
        "SQLite": f"sqlite:///{folder / 'hub.db'}",
        "PostgreSQL": server.create_database("bench"),
    }.items():
        with filled(url, BATCH) as hub:
            for count, cores in ((rows // 10, 2), (rows, 1), (rows, 2)):
                with hub.read() as conn:
                    there = conn.exec_driver_sql("SELECT count(*) FROM aq_message").scalar_one()
                if there < count:
                    multiply(hub, count)
                for columns in (COLUMNS, (*COLUMNS, "headers")):
                    given = {"url": url, "queue": "BENCH", "partitions": str(cores), "columns": ",".join(columns)}
                    (rate,), megabytes = measured({database: reading("mgw", given, count)}, cores, 0)
                    told = (database, str(len(columns)), f"{count:,}", str(cores), f"{megabytes:,} MB", f"{rate:,.0f}")
                    print(f"| {' | '.join(told)} |", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=("rates", "streams", "memory"), default="rates")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args(arguments)
    print(machine(), flush=True)
    with ExitStack() as stack:
        if given.what == "memory":
            memory(given.rows or 5_000_000, stack)
        else:
            rates(given.rows or 300_000, given.rounds, stack, streams=given.what == "streams")


if __name__ == "__main__":
    main()
