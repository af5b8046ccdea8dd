"""A link is altered while its jobs carry messages: another address of the same broker loses and repeats nothing."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mgw.links import registry
from tests.faults.ends.kafka import KafkaFeed, KafkaOutlet
from tests.faults.ends.mqtt import MqttFeed, MqttOutlet
from tests.faults.ends.rabbitmq import RabbitFeed, RabbitOutlet, declare
from tests.faults.verdict import LANES, Numbered
from tests.support.brokers import Kafka, Mosquitto, RabbitMQ
from tests.support.gateways import Gateway, gateway_on
from tests.support.proxy import TcpProxy
from tests.support.waiting import eventually

MOVES = 4
AT_EACH = 300  # messages carried between two changes
_LOG_QUEUE = {"x-queue-type": "classic", "x-max-length": 2}
_OUTLETS: Mapping[type, Any] = {RabbitMQ: RabbitOutlet, Kafka: KafkaOutlet, Mosquitto: MqttOutlet}
_FEEDS: Mapping[type, Any] = {RabbitMQ: RabbitFeed, Kafka: KafkaFeed, Mosquitto: MqttFeed}


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        yield gateway


class Line:
    """A queue of a broker, the hub, a queue of the same broker: two jobs on one link with its logs."""

    def __init__(self, gateway: Gateway, server: RabbitMQ | Kafka | Mosquitto) -> None:
        self.gateway = gateway
        self.name = name = f"a{uuid.uuid4().hex[:8]}"
        self.read, self.written = f"{name}_in", f"{name}_out"
        logs = self.prepare(server)
        kind = type(server).__name__.upper().replace("MOSQUITTO", "MQTT")
        where = {"username": server.username, "password": server.password} if kind == "RABBITMQ" else {}
        gateway.admin.create_msgsystem_link("moving", kind, address(server) | where, **logs)
        source = f"{name}_S/+" if kind == "MQTT" else f"{name}_S"
        options = {"KAFKA_StartAt": "earliest"} if kind == "KAFKA" else {}
        gateway.admin.register_foreign_queue("S", "moving", source, options=options)
        gateway.admin.register_foreign_queue("T", "moving", f"{name}_T")
        gateway.queue("H")
        gateway.admin.create_job(self.read, "INBOUND", "S@moving", "H", poll_interval=0.5)
        gateway.admin.create_job(self.written, "OUTBOUND", "H", "T@moving", poll_interval=0.5)

    def prepare(self, server: RabbitMQ | Kafka | Mosquitto) -> dict[str, Any]:
        """Queues, topics and logs of the line at a broker; the settings that name the logs."""
        name = self.name
        if isinstance(server, RabbitMQ):
            for queue in (f"{name}_S", f"{name}_T"):
                declare(server, queue, {"x-queue-type": "classic"})
            for log in (f"mgw.acks.{self.read}", f"mgw.sent.{self.written}"):
                declare(server, log, _LOG_QUEUE)
            return {"inbound_log_queue": "mgw.acks.{job}", "outbound_log_queue": "mgw.sent.{job}"}
        if isinstance(server, Kafka):
            for topic in (f"{name}_S", f"{name}_T"):
                server.create_topic(topic, LANES)
            server.create_topic(f"{name}_L", LANES, {"cleanup.policy": "compact"})
            return {"outbound_log_queue": f"{name}_L"}
        return {"outbound_log_queue": "mgw/sent/{job}"}

    def feed(self, server: RabbitMQ | Kafka | Mosquitto) -> Any:
        """What publishes to the source."""
        return _FEEDS[type(server)](server, f"{self.name}_S")

    def outlet(self, server: RabbitMQ | Kafka | Mosquitto) -> Any:
        """What takes everything from the target."""
        return _OUTLETS[type(server)](server, f"{self.name}_T")

    def carried(self, job: str) -> int:
        """Messages that a job has carried."""
        return int(self.gateway.job(job)["PROPAGATED_TOTAL"] or 0)

    def await_both(self, messages: int) -> None:
        """Wait until each job has carried so many more."""
        goals = {job: self.carried(job) + messages for job in (self.read, self.written)}

        def reached() -> bool:
            return all(self.carried(job) >= goal for job, goal in goals.items())

        eventually(reached, deadline=90, what=f"{messages} more messages by each job: {goals}, {self.trouble()}")

    def trouble(self) -> list[Any]:
        """What the jobs say last."""
        return [self.gateway.job(job)["LAST_ERROR_MSG"] for job in (self.read, self.written)]


def address(server: RabbitMQ | Kafka | Mosquitto) -> dict[str, Any]:
    """The attributes of a link that say where a broker is."""
    if isinstance(server, Kafka):
        return {"bootstrap_servers": server.bootstrap}
    return {"hostname": server.host, "port": server.port}


@contextmanager
def another_address(server: RabbitMQ | Kafka | Mosquitto) -> Iterator[dict[str, Any]]:
    """The same broker, reached through a proxy."""
    if isinstance(server, Kafka):
        with server.proxy():
            yield {"bootstrap_servers": server.proxied_bootstrap}
        return
    with TcpProxy(server.host, server.port) as proxy:
        yield {"hostname": proxy.host, "port": proxy.port}


class Flow:
    """Publishes to a feed on a thread until it is ended; ``published`` are the numbers that the broker has."""

    def __init__(self, feed: Any, start: int = 0) -> None:
        self.published: set[int] = set()
        self._feed, self._next = feed, start
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="flow", daemon=True)

    def __enter__(self) -> Flow:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(60)
        self._feed.close()

    def _run(self) -> None:
        while not self._over.wait(0.02):
            numbers = range(self._next, self._next + 30)
            self._next = numbers.stop
            self.published |= self._feed.publish([Numbered(at, at % LANES, b"%d" % at, str(at)) for at in numbers])


def arrived(outlet: Any, expected: set[int]) -> Counter[int]:
    """How often each number came, once all of them are there and nothing more comes."""
    numbers: Counter[int] = Counter()

    def everything() -> bool:
        numbers.update(int(copy.body) for copy in outlet.collect() if not copy.repeated)
        return expected <= numbers.keys()

    eventually(everything, deadline=90, what="everything at the target")
    while copies := outlet.collect():
        numbers.update(int(copy.body) for copy in copies if not copy.repeated)
    return numbers


@pytest.fixture(params=["rabbitmq", "kafka", "mosquitto"])
def server(request: pytest.FixtureRequest) -> RabbitMQ | Kafka | Mosquitto:
    found: RabbitMQ | Kafka | Mosquitto = request.getfixturevalue(request.param)
    return found


def test_another_address_of_the_same_broker_loses_and_repeats_nothing(
    gateway: Gateway, server: RabbitMQ | Kafka | Mosquitto
) -> None:
    line = Line(gateway, server)
    outlet = line.outlet(server)
    try:
        with another_address(server) as other, gateway.run():
            with Flow(line.feed(server)) as flow:
                for move in range(MOVES):
                    line.await_both(AT_EACH)
                    gateway.admin.alter_msgsystem_link("moving", address(server) if move % 2 else other)
                line.await_both(AT_EACH)
            numbers = arrived(outlet, flow.published)
            assert numbers == Counter(flow.published)
            assert {gateway.job(job)["STATUS"] for job in (line.read, line.written)} == {"READY"}
    finally:
        outlet.close()


@pytest.mark.parametrize("kind", ["RABBITMQ", "KAFKA", "MQTT"])
def test_every_attribute_and_option_of_a_link_can_be_altered(kind: str) -> None:
    spec = registry.spec(kind)
    assert [field.name for field in (*spec.attributes, *spec.options) if not field.alterable] == []
