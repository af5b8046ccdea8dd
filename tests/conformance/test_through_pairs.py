"""Jobs from link to link between every pair of messaging systems, on real brokers."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from mgw.gateway.ledger import check
from mgw.links.contract import Guarantee
from mgw.links.memory.broker import MemoryBroker
from mgw.transforms.message import Header, Message, ValueType
from tests.faults.ends.kafka import KafkaFeed, KafkaOutlet
from tests.faults.ends.mqtt import MqttFeed, MqttOutlet
from tests.faults.ends.rabbitmq import RabbitFeed, RabbitOutlet, declare
from tests.faults.stage import Brokers
from tests.faults.verdict import IDENTITY, LANES, Copy, Numbered
from tests.support.gateways import Gateway, gateway_on
from tests.support.waiting import eventually

COUNT = 500
SYSTEMS = ("rabbitmq", "kafka", "mqtt", "memory")
_QUICK = {("kafka", "kafka"), ("rabbitmq", "mqtt"), ("mqtt", "rabbitmq"), ("memory", "kafka"), ("rabbitmq", "memory")}
_LOG_QUEUE = {"x-queue-type": "classic", "x-max-length": 2}


@pytest.fixture(scope="module")
def brokers() -> Iterator[Brokers]:
    made = Brokers()
    yield made
    made.close()


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        yield gateway


class MemoryEnd:
    """A queue of the broker inside the process, to be written to and to be read."""

    def __init__(self, broker: MemoryBroker, name: str) -> None:
        self._broker = broker
        self._name = name

    def publish(self, messages: list[Numbered]) -> set[int]:
        for each in messages:
            self._broker.put(
                self._name, Message(each.body, headers=(Header(IDENTITY, ValueType.TEXT, each.identity or ""),))
            )
        return {each.number for each in messages}

    def collect(self) -> list[Copy]:
        taken = self._broker.queue(self._name).take(1000)
        return [Copy(_bytes(item.message.body), _identity(item.message)) for item in taken]

    def close(self) -> None:
        """Nothing is open."""


def _bytes(body: Any) -> bytes:
    return body.encode() if isinstance(body, str) else bytes(body)


def _identity(message: Message) -> str | None:
    """The property of the publisher, which names of some systems' headers have a prefix before."""
    value = next((header.value for header in message.headers if header.name.endswith(IDENTITY)), None)
    return value.decode() if isinstance(value, bytes) else value if value is None else str(value)


class Bench:
    """One hub, and a job between two ends of real systems."""

    def __init__(self, gateway: Gateway, brokers: Brokers, memory: MemoryBroker, *, logged: bool) -> None:
        self.gateway = gateway
        self.name = f"p{uuid.uuid4().hex[:8]}"
        self._brokers = brokers
        self._memory = memory
        self._logged = logged
        self._links: set[str] = set()
        self._named: set[str] = set()

    def end(self, system: str, *, source: bool) -> tuple[str, Any]:
        """``queue@link``, and what writes to a source or reads a target."""
        self._link(system)
        name = f"{self.name}_{'S' if source else 'T'}"
        provider, options = name, {}
        if system == "rabbitmq":
            declare(self._brokers.rabbitmq, name, {"x-queue-type": "classic"})
            if self._logged:
                declare(self._brokers.rabbitmq, f"mgw.{'acks' if source else 'sent'}.{self.name}", _LOG_QUEUE)
        elif system == "kafka":
            # A record keeps its partition, and what has no key goes to any.
            self._brokers.kafka.create_topic(name, LANES if source or "kafka_S" in self._named else 1)
            self._named.add(f"kafka_{'S' if source else 'T'}")
            options = {"KAFKA_StartAt": "earliest", "KAFKA_HeaderType": "TEXT"} if source else {}
        elif system == "mqtt":
            provider = f"{name}/+" if source else name
        else:
            self._memory.queue(name)
        self.gateway.admin.register_foreign_queue(name, system, provider, options=options)
        made: dict[str, Callable[[], Any]] = {
            "rabbitmq": lambda: (RabbitFeed if source else RabbitOutlet)(self._brokers.rabbitmq, name),
            "kafka": lambda: (KafkaFeed if source else KafkaOutlet)(self._brokers.kafka, name),
            "mqtt": lambda: (MqttFeed if source else MqttOutlet)(self._brokers.mqtt, name),
            "memory": lambda: MemoryEnd(self._memory, name),
        }
        return f"{name}@{system}", made[system]()

    def _link(self, system: str) -> None:
        if system in self._links:
            return
        self._links.add(system)
        more: dict[str, Any] = {}
        if system == "rabbitmq":
            server = self._brokers.rabbitmq
            where: dict[str, Any] = {"hostname": server.host, "port": server.port}
            more = {"username": server.username, "password": server.password}
            if self._logged:
                more |= {"inbound_log_queue": "mgw.acks.{job}", "outbound_log_queue": "mgw.sent.{job}"}
        elif system == "kafka":
            where = {"bootstrap_servers": self._brokers.kafka.bootstrap}
            if self._logged:
                log = f"log{uuid.uuid4().hex[:8]}"
                self._brokers.kafka.create_topic(log, LANES, {"cleanup.policy": "compact"})
                more = {"outbound_log_queue": log}
        elif system == "mqtt":
            where = {"hostname": self._brokers.mqtt.host, "port": self._brokers.mqtt.port}
        else:
            where = {"broker": self._memory.name}
        self.gateway.admin.create_msgsystem_link(system, system.upper(), where, **more)


def numbered(count: int) -> list[Numbered]:
    return [Numbered(at, at % LANES, f"number {at}".encode(), f"number {at}") for at in range(count)]


def _carry(bench: Bench, source: str, target: str, **job: Any) -> list[Copy]:
    """Run a job until everything that was published has arrived; what came out."""
    read, feed = bench.end(source, source=True)
    written, outlet = bench.end(target, source=False)
    gateway = bench.gateway
    gateway.admin.create_job(bench.name, "THROUGH", read, written, poll_interval=0.5, **job)
    copies: list[Copy] = []
    try:
        with gateway.run():
            eventually(lambda: gateway.job(bench.name)["GUARANTEE"], deadline=60, what="the job's first connection")
            for start in range(0, COUNT, 100):
                assert len(feed.publish(numbered(COUNT)[start : start + 100])) == 100
            eventually(
                lambda: gateway.job(bench.name)["PROPAGATED_MSGS"] == COUNT, deadline=60, what="everything carried"
            )

            def everything() -> bool:
                copies.extend(outlet.collect())
                return len(copies) >= COUNT

            eventually(everything, deadline=60, what="everything at the destination")
        copies.extend(outlet.collect())
    finally:
        feed.close()
        outlet.close()
    return copies


@pytest.mark.parametrize(
    ("source", "target"),
    [
        pytest.param(*pair, id=f"{pair[0]}-{pair[1]}", marks=[] if pair in _QUICK else [pytest.mark.matrix])
        for pair in product(SYSTEMS, SYSTEMS)
    ],
)
def test_every_pair_of_systems_carries_bodies_properties_and_order(
    gateway: Gateway, brokers: Brokers, broker: MemoryBroker, source: str, target: str
) -> None:
    bench = Bench(gateway, brokers, broker, logged=False)
    copies = _carry(bench, source, target)
    by_lane: dict[int, list[int]] = {}
    for copy in copies:
        number = int(copy.body.split()[1])
        assert copy.identity == f"number {number}"
        by_lane.setdefault(number % LANES, []).append(number)
    assert sorted(number for lane in by_lane.values() for number in lane) == list(range(COUNT))
    assert all(lane == sorted(lane) for lane in by_lane.values())
    found = gateway.admin.get_job(bench.name)
    assert found is not None
    with gateway.hub.read() as conn:
        proof = check.reconcile(conn, found, gateway.hub.hub_id)
        assert conn.exec_driver_sql("SELECT count(*) FROM aq_message").scalar() == 0
    assert proof.offences == []
    assert proof.messages == COUNT


@pytest.mark.parametrize(
    ("source", "target", "level"),
    [
        pytest.param("kafka", "kafka", Guarantee.EXACT, id="kafka-kafka"),
        pytest.param(
            "kafka", "rabbitmq", Guarantee.EXACT_UNLESS_BROKER_CRASH, id="kafka-rabbitmq", marks=pytest.mark.matrix
        ),
        pytest.param(
            "rabbitmq", "kafka", Guarantee.EXACT_UNLESS_BROKER_CRASH, id="rabbitmq-kafka", marks=pytest.mark.matrix
        ),
        pytest.param("kafka", "mqtt", Guarantee.AT_LEAST_ONCE, id="kafka-mqtt", marks=pytest.mark.matrix),
        pytest.param("mqtt", "kafka", Guarantee.EXACT_UNLESS_BROKER_CRASH, id="mqtt-kafka"),
    ],
)
def test_with_its_logs_a_job_promises_what_the_weaker_end_does(
    gateway: Gateway, brokers: Brokers, source: str, target: str, level: Guarantee
) -> None:
    bench = Bench(gateway, brokers, MemoryBroker.get("none"), logged=True)
    copies = _carry(bench, source, target)
    assert len(copies) == COUNT
    row = gateway.job(bench.name)
    assert row["GUARANTEE"] == level
    if level is not Guarantee.EXACT:
        assert f"{bench.name}_" in row["GUARANTEE_NOTE"], "it says which end is the weaker one"
