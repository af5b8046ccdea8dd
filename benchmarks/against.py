"""Two checkouts in turns: ``python -m benchmarks.against PATH [ROUTE ...] [--rounds N] [--batch N ...]
[--other-batch N] [--client C]``.

What a message costs this checkout, as a ratio of what it costs the checkout at PATH (of an older commit, say: ``git
worktree add PATH COMMIT``). The figure is the CPU time of the agent process, which other processes disturb less than
the rate. All runs use the same brokers. Every round runs the other checkout, this one, and the other one again, in an
order that rotates. The second run of the other checkout is a control: its ratio would be 1 on a machine without noise,
and a difference that is not larger than the control's range means nothing. With two cores or more the agent has the
last one, and brokers and load have the others. ``--client confluent``: links to Kafka use that client in this checkout
alone; with ``.`` as PATH the two clients are compared. PATH is run with its own ``.venv`` where it has one. Each run is
told on standard error.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pika

from benchmarks import bare
from benchmarks.guarantees import LOG_ARGUMENTS, MOSQUITTO, SIZES, Stand
from benchmarks.measuring import body_of, machine
from tests.support.brokers import Kafka, Mosquitto, PostgreSQL, RabbitMQ

HERE = Path(__file__).resolve().parent.parent
BODY = 256
DATABASES = ("sqlite", "postgresql")
#: Of the server with the hub; what is synced stays as in the tests: everything.
POSTGRESQL = ("shared_buffers=512MB", "max_wal_size=4GB")
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Order:
    """What the link and the job of a run are, and how its source is filled."""

    kind: str
    place: Mapping[str, Any]
    name: str  # of the queue or topic
    inbound: bool
    fill: Callable[[Sequence[bytes]], object]
    link: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    end: Callable[[], object] = lambda: None


def rabbitmq(stand: Stand, number: int, *, inbound: bool, logged: bool) -> Order:
    """A classic queue."""
    broker: RabbitMQ = stand.broker("rabbitmq", RabbitMQ)
    names, log = [f"queue-{number}"], f"log-{number}"
    connection = pika.BlockingConnection(pika.URLParameters(broker.url))
    connection.channel().queue_declare(names[0], durable=True, arguments={"x-queue-type": "classic"})
    link: dict[str, Any] = {"username": broker.username, "password": broker.password}
    if logged:
        connection.channel().queue_declare(log, durable=True, arguments=LOG_ARGUMENTS)
        names.append(log)
        link["inbound_log_queue" if inbound else "outbound_log_queue"] = log
    connection.close()

    def fill(bodies: Sequence[bytes]) -> None:
        bare.amqp_publish(broker.url, names[0], bodies, window=4000)

    def end() -> None:
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))
        for name in names:
            connection.channel().queue_delete(name)
        connection.close()

    place = {"hostname": broker.host, "port": broker.port}
    return Order("RABBITMQ", place, names[0], inbound, fill, link, end=end)


def kafka(stand: Stand, number: int, *, inbound: bool, logged: bool) -> Order:
    """A topic with one partition."""
    broker: Kafka = stand.broker("kafka", Kafka)
    name, link = f"topic-{number}", {}
    broker.create_topic(name)
    if logged and not inbound:
        broker.create_topic(f"log-{number}", 1, {"cleanup.policy": "compact"})
        link["outbound_log_queue"] = f"log-{number}"

    def fill(bodies: Sequence[bytes]) -> None:
        bare.kafka_publish(broker.bootstrap, name, bodies)

    options = {"KAFKA_StartAt": "earliest"} if inbound else {}
    return Order("KAFKA", {"bootstrap_servers": broker.bootstrap}, name, inbound, fill, link, options)


def mqtt(stand: Stand, number: int, *, inbound: bool, logged: bool) -> Order:
    """A topic at QoS 1."""
    broker: Mosquitto = stand.broker("mosquitto", lambda: Mosquitto(config=MOSQUITTO))
    name = f"bench/{number}"
    link = {"outbound_log_queue": f"log/{number}"} if logged and not inbound else {}

    def fill(bodies: Sequence[bytes]) -> None:
        bare.mqtt_publish(broker.host, broker.port, name, bodies)

    place = {"hostname": broker.host, "port": broker.port}
    return Order("MQTT", place, name, inbound, fill, link)


BROKERS: dict[str, Callable[..., Order]] = {"rabbitmq": rabbitmq, "kafka": kafka, "mqtt": mqtt}
#: Route: broker, inbound, with a log.
ROUTES = {
    f"{broker}-{'in' if inbound else 'out'}{'-log' if logged else ''}": (broker, inbound, logged)
    for logged in (False, True)
    for broker in BROKERS
    for inbound in (True, False)
    if not (logged and inbound and broker != "rabbitmq")  # the others have one always
}
USUAL = [name for name, (_, _, logged) in ROUTES.items() if not logged]


class Checkout:
    """Runs jobs with the code of a folder."""

    def __init__(self, folder: Path, pinned: Sequence[str], client: str = "") -> None:
        self.folder = folder.resolve()
        self._client = {"client": client} if client else {}  # older checkouts do not know that attribute
        own = self.folder / ".venv" / "bin" / "python"
        self._python = str(own) if own.exists() else sys.executable
        self._pinned = pinned

    def commit(self) -> str:
        """What is measured."""
        command = ["git", "-C", str(self.folder), "describe", "--always", "--dirty", "--exclude", "*"]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "no commit"

    def run(self, stand: Stand, route: str, batch: int, size: int, database: str = "sqlite") -> dict[str, float]:
        """One run of as many messages as are usual for a MsgBatchSize of ``size``.

        Told are its rate, its CPU time for a message, and on PostgreSQL that of the server.
        """
        broker, inbound, logged = ROUTES[route]
        number = next(_numbers)
        order = BROKERS[broker](stand, number, inbound=inbound, logged=logged)
        total = len(stand.bodies(size))
        bodies = [body_of(BODY, each) for each in range(total)] if inbound else []
        told = {
            "folder": str(stand.folder / f"hub-{number}"),
            "kind": order.kind,
            "place": {**order.place, **(self._client if order.kind == "KAFKA" else {})},
            "name": order.name,
            "inbound": inbound,
            "link": order.link,
            "options": order.options,
            "batch": batch,
            "total": total,
            "body": BODY,
            "pinned": self._pinned,
        }
        server: PostgreSQL | None = None
        if database == "postgresql":
            server = stand.broker("postgresql", partial(PostgreSQL, settings=POSTGRESQL))
            told |= {"url": server.create_database(f"hub_{number}"), "server": server.pid}
        command = [self._python, "-P", str(HERE / "benchmarks" / "one_run.py"), json.dumps(told)]
        environment = os.environ | {"PYTHONPATH": str(self.folder)}
        with subprocess.Popen(
            command, cwd=self.folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            if process.stdin is None or process.stdout is None:
                raise RuntimeError("a run without pipes")
            if process.stdout.readline():  # the agent is connected and frozen
                if inbound:
                    order.fill(bodies)
                process.stdin.write("filled\n")
                process.stdin.flush()
            answer, _ = process.communicate()
        order.end()
        if server is not None:
            server.drop_database(f"hub_{number}")
        if process.returncode:
            raise SystemExit(f"{route}, batch {batch}: the run of {self.folder} failed, see above")
        result: dict[str, float] = json.loads(answer)
        return result


def pin() -> Sequence[str]:
    """Brokers and load leave the last core to the agent; the command that puts the agent there."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        return []
    os.sched_setaffinity(0, cores[:-1])
    return ["taskset", "-c", str(cores[-1])]


def _ratios(cost: Sequence[float], base: Sequence[float]) -> str:
    ratios = [one / other for one, other in zip(cost, base, strict=True)]
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def _line(route: str, batch: int, runs: Mapping[str, Sequence[dict[str, float]]]) -> str:
    cost = {name: [run["cpu"] for run in each] for name, each in runs.items()}
    rate = {name: [run["rate"] for run in each] for name, each in runs.items()}
    middle = {name: statistics.median(each) for name, each in cost.items()}
    least = min(cost["this"]) / min(*cost["other"], *cost["control"])
    return (
        f"| {route} | {batch} | {middle['other']:.1f} | {middle['this']:.1f} | {_ratios(cost['this'], cost['other'])} "
        f"| {_ratios(cost['control'], cost['other'])} | {least:.2f} | {_ratios(rate['this'], rate['other'])} |"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare the routes asked for, and print one line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path, metavar="PATH", help="the other checkout")
    parser.add_argument("routes", nargs="*", choices=[*ROUTES, []], help=f"default: {' '.join(USUAL)}")
    parser.add_argument("--rounds", type=int, default=5, help="default 5")
    parser.add_argument("--batch", type=int, nargs="+", choices=list(SIZES), default=list(SIZES), help="MsgBatchSize")
    parser.add_argument("--other-batch", type=int, choices=list(SIZES), help="MsgBatchSize of the other, if another")
    parser.add_argument("--database", choices=DATABASES, default="sqlite", help="of the hub; default sqlite")
    parser.add_argument("--messages", type=float, default=1.0, help="so many times the messages")
    parser.add_argument("--client", default="", help="of this checkout's links to Kafka: kafka-python or confluent")
    chosen: Any = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="mgw-bench-") as name, ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o755)
        pinned = pin()
        other, this = Checkout(chosen.other, pinned), Checkout(HERE, pinned, chosen.client)
        print(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {machine()}, load {os.getloadavg()[0]:.1f}")
        print(
            f"other: {other.commit()}, this: {this.commit()}; {chosen.database}, {chosen.rounds} rounds"
            f"{f'; this with client {chosen.client}' if chosen.client else ''}"
        )
        print(f"MsgBatchSize of the other: {chosen.other_batch or 'the same'}\n")
        print("| Route | Batch | CPU other, us/message | CPU this | this of other, CPU | control | least | rate |")
        print("|---|---|---|---|---|---|---|---|", flush=True)
        stand = Stand(folder, chosen.rounds, chosen.messages, stack)
        variants = {"other": other, "this": this, "control": other}
        for route, batch in itertools.product(chosen.routes or USUAL, chosen.batch):
            runs: dict[str, list[dict[str, float]]] = {each: [] for each in variants}
            batches = {each: batch if each == "this" else chosen.other_batch or batch for each in variants}
            for number in range(chosen.rounds):
                names = list(variants)
                for each in names[number % 3 :] + names[: number % 3]:
                    run = variants[each].run(stand, route, batches[each], max(batches.values()), chosen.database)
                    runs[each].append(run)
                    load = os.getloadavg()[0]
                    print(route, batch, number, each, json.dumps(run), f"load {load:.1f}", file=sys.stderr, flush=True)
            print(_line(route, batch, runs), flush=True)
        print(f"\nload at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
