"""The plant: three brokers with their queues, and a gateway process between them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pika

from tests.support.brokers import Kafka, Mosquitto, RabbitMQ

__all__ = ["GatewayProcess", "Plant", "plant"]

CONFIGURATION = Path(__file__).parents[2] / "conf" / "quickstart.yaml"


@dataclass(frozen=True, slots=True)
class Plant:
    """The running brokers and a private folder."""

    rabbitmq: RabbitMQ
    kafka: Kafka
    mosquitto: Mosquitto
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """The variables of conf/quickstart.yaml, and the hub."""
        return os.environ | {
            "MGW_HUB": f"sqlite:///{self.hub}",
            "MQTT_HOST": self.mosquitto.host,
            "MQTT_PORT": str(self.mosquitto.port),
            "RABBIT_HOST": self.rabbitmq.host,
            "RABBIT_PORT": str(self.rabbitmq.port),
            "RABBIT_USER": self.rabbitmq.username,
            "RABBIT_PASSWORD": self.rabbitmq.password,
            "KAFKA_BOOTSTRAP": self.kafka.bootstrap,
        }

    @property
    def hub(self) -> Path:
        """The hub database file."""
        return self.folder / "hub.db"

    def mgw(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run one ``mgw`` command to its end."""
        command = [sys.executable, "-m", "gateway", *arguments]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=120, check=False)

    def make_queues(self) -> None:
        """What must exist before the gateway comes: it never creates foreign queues."""
        with contextlib.closing(self.amqp()) as connection:
            channel = connection.channel()
            channel.queue_declare("orders", durable=True, arguments={"x-max-priority": 9})
            channel.queue_declare("readings", durable=True)
            channel.queue_declare("readings.bad", durable=True)
            channel.exchange_declare("plant.alarms", "topic", durable=True)
            channel.queue_declare("alarms", durable=True)
            channel.queue_bind("alarms", "plant.alarms", "#")
        for topic in ("plant.telemetry", "orders", "readings"):
            self.kafka.create_topic(topic, partitions=1)
        self.kafka.create_topic("commands", partitions=2)

    def amqp(self) -> pika.BlockingConnection:
        """A connection to look at queues."""
        return pika.BlockingConnection(pika.URLParameters(self.rabbitmq.url))

    def depth(self, queue: str) -> int:
        """Messages ready in a RabbitMQ queue."""
        with contextlib.closing(self.amqp()) as connection:
            return int(connection.channel().queue_declare(queue, passive=True).method.message_count)

    def held(self, queue: str) -> int:
        """Messages in a RabbitMQ queue, also those that somebody has and has not acknowledged."""
        counts = dict(line.split("\t") for line in self.rabbitmq.ctl("list_queues", "name", "messages").splitlines())
        return int(counts[queue])

    def jobs(self) -> list[dict[str, Any]]:
        """The rows of MGW_JOBS, read with the sqlite3 command line client."""
        query = "SELECT * FROM MGW_JOBS ORDER BY JOB_NAME"
        command = ["sqlite3", "-readonly", "-json", "-cmd", ".timeout 5000", str(self.hub), query]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
        rows: list[dict[str, Any]] = json.loads(done.stdout or "[]")
        return rows


class GatewayProcess:
    """``mgw run`` as a child process."""

    def __init__(self, plant: Plant, *words: str) -> None:
        self.log = plant.folder / "gateway.log"
        with self.log.open("ab") as sink:
            command = [sys.executable, "-m", "gateway", "run", *words]
            self._process = subprocess.Popen(  # a group of its own: Ctrl-C is for the demonstration, which ends it
                command, env=plant.environment, stdout=sink, stderr=subprocess.STDOUT, process_group=0
            )

    def check(self) -> None:
        """Raise when the process has ended by itself."""
        if self._process.poll() is not None:
            tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-30:])
            raise RuntimeError(f"the gateway ended with exit code {self._process.returncode}:\n{tail}")

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait(10)


@contextlib.contextmanager
def plant(
    say: Callable[[str], None],
    *,
    plugins: Sequence[str] = ("rabbitmq_management",),
    mosquitto_config: Sequence[str] = (),
    make_queues: Callable[[Plant], None] = Plant.make_queues,
) -> Iterator[Plant]:
    """Start the three brokers on free loopback ports with private data; stop them by pid at the end.

    ``plugins`` are RabbitMQ's; ``make_queues`` makes what must be there before the gateway comes.
    """
    servers: Sequence[Any] = (RabbitMQ(plugins=plugins), Kafka(), Mosquitto(config=mosquitto_config))
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mgw-demo-")))
        for server in servers:
            stack.callback(server.close)
        started = time.monotonic()
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda server: server.start(), servers))
        say(f"RabbitMQ, Kafka and Mosquitto are up after {time.monotonic() - started:.0f} s")
        rabbitmq, kafka, mosquitto = servers
        place = Plant(rabbitmq, kafka, mosquitto, folder)
        make_queues(place)
        yield place
