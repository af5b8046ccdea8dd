"""What an operator sees of a job whose messages do not move: STUCK, BLOCKED, DRAINING, with the reason, and healed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from mgw.gateway.services.health import assess, read
from mgw.gateway.services.verdict import word_of
from mgw.links.memory.broker import MemoryBroker
from mgw.transforms.message import Message
from tests.conformance.link_suite import unique
from tests.conformance.test_engine import inbound
from tests.support.brokers import Kafka, Mosquitto, RabbitMQ
from tests.support.brokers.server import Server
from tests.support.gateways import Gateway, gateway_on
from tests.support.proxy import TcpProxy
from tests.support.waiting import eventually

PATIENCE = 90  # seconds for what takes a moment, on a busy machine
STUCK_AFTER = {"stuck_after": 1, "retry_max_delay": 2}


@dataclass(frozen=True, slots=True)
class Scene:
    gateway: Gateway
    server: Server
    proxy: TcpProxy
    target: str  # of the job "out", in the messaging system

    def shows(self, word: str, job: str = "out") -> None:
        """Wait until the hub says so of the job."""

        def said() -> bool:
            row = self.gateway.job(job)
            assert word_of(row["STATUS"], row["ACTIVITY"], row["ENABLED"] == "TRUE") == word, row
            return True

        eventually(said, deadline=PATIENCE, what=word)

    def reason(self, job: str = "out") -> str:
        return str(self.gateway.job(job)["ACTIVITY_REASON"])

    def send(self) -> None:
        self.gateway.enqueue("H", [Message(body="x")])


@contextmanager
def amqp(server: RabbitMQ) -> Iterator[BlockingChannel]:
    with pika.BlockingConnection(pika.ConnectionParameters(server.host, server.port)) as connection:
        yield connection.channel()


@contextmanager
def scene(server: Server, tmp_path: Path) -> Iterator[Scene]:
    """A hub queue, and a job to a new place of the broker, behind a proxy."""
    name = unique("q")
    with ExitStack() as stack:
        gateway = stack.enter_context(gateway_on(f"sqlite:///{tmp_path}/hub.db"))
        if isinstance(server, Kafka):
            proxy = stack.enter_context(server.proxy())
            server.create_topic(name)
            where = {"bootstrap_servers": server.proxied_bootstrap}
            gateway.admin.create_msgsystem_link("L", "KAFKA", where)
        else:
            proxy = stack.enter_context(TcpProxy(server.host, server.port))
            kind = "RABBITMQ" if isinstance(server, RabbitMQ) else "MQTT"
            gateway.admin.create_msgsystem_link("L", kind, {"hostname": proxy.host, "port": proxy.port})
            if isinstance(server, RabbitMQ):
                with amqp(server) as channel:
                    channel.queue_declare(name, durable=True)
        gateway.admin.register_foreign_queue("Q", "L", name)
        gateway.queue("H")
        gateway.admin.create_job("out", "OUTBOUND", "H", "Q@L", options=STUCK_AFTER)
        stack.enter_context(gateway.run())
        seen = Scene(gateway, server, proxy, name)
        seen.send()
        eventually(lambda: gateway.job("out")["PROPAGATED_MSGS"] == 1, deadline=PATIENCE, what="a first message")
        seen.shows("IDLE")
        yield seen


def _is_stuck_and_heals(seen: Scene, stop: Callable[[], None], go_on: Callable[[], None]) -> None:
    moved = seen.gateway.job("out")["PROPAGATED_MSGS"]
    stop()
    try:
        seen.send()
        seen.shows("STUCK")
        assert "not confirmed" in seen.reason() or "blocked in the client" in seen.reason()
        assert seen.gateway.job("out")["NOT_WORKING_SINCE"] is not None
        (entry,) = assess(seen.gateway.hub, max_age=PATIENCE).jobs
        assert (entry.state, entry.healthy) == ("STUCK", True)
        assert entry.since is not None
        assert not assess(seen.gateway.hub, max_age=0).healthy
        (line,) = read(seen.gateway.hub).troubles
        assert line.startswith("job OUT is STUCK since ")
    finally:
        go_on()
    seen.shows("IDLE")
    row = seen.gateway.job("out")
    assert (row["PROPAGATED_MSGS"], row["ACTIVITY_REASON"], row["NOT_WORKING_SINCE"]) == (moved + 1, None, None)


@pytest.mark.parametrize(
    "broker",
    [
        pytest.param("rabbitmq", marks=pytest.mark.rabbitmq),
        pytest.param("kafka", marks=[pytest.mark.kafka, pytest.mark.matrix]),
        pytest.param("mosquitto", marks=pytest.mark.mosquitto),
    ],
)
def test_a_broker_and_a_wire_that_stand_still_are_seen_and_heal(
    request: pytest.FixtureRequest, tmp_path: Path, broker: str
) -> None:
    server: Server = request.getfixturevalue(broker)
    with scene(server, tmp_path) as seen:
        _is_stuck_and_heals(seen, server.freeze, server.thaw)
        _is_stuck_and_heals(seen, seen.proxy.stall, seen.proxy.resume)


@pytest.mark.mosquitto
def test_a_job_that_stops_while_messages_are_in_flight_is_draining(mosquitto: Mosquitto, tmp_path: Path) -> None:
    with scene(mosquitto, tmp_path) as seen:
        seen.proxy.stall(requests=False)
        seen.send()
        seen.shows("STUCK")
        seen.gateway.admin.disable_job("out")
        seen.shows("DRAINING")
        seen.shows("DISABLED")


@pytest.mark.rabbitmq
def test_limits_of_rabbitmq_block_a_job_and_are_named(rabbitmq: RabbitMQ, tmp_path: Path) -> None:
    with scene(rabbitmq, tmp_path) as seen:
        rabbitmq.set_memory_alarm()
        try:
            seen.send()
            seen.shows("BLOCKED")
            assert seen.reason().startswith("alarm of RabbitMQ: ")
        finally:
            rabbitmq.set_memory_alarm(False)
        seen.shows("IDLE")
        with amqp(rabbitmq) as channel:
            channel.queue_delete(seen.target)
            limits = {"x-max-length": 1, "x-overflow": "reject-publish"}
            channel.queue_declare(seen.target, durable=True, arguments=limits)
            seen.send()
            eventually(lambda: seen.gateway.job("out")["PROPAGATED_MSGS"] == 3, deadline=PATIENCE, what="the last")
            seen.send()
            seen.shows("BLOCKED")
            assert seen.reason().startswith("the destination is full: ")
            (entry,) = assess(seen.gateway.hub).jobs
            assert (entry.state, entry.healthy) == ("BLOCKED", True)
            channel.queue_purge(seen.target)
        seen.shows("IDLE")
        assert seen.gateway.job("out")["PROPAGATED_MSGS"] == 4


def test_a_job_without_a_connection_names_the_limit_of_its_link(tmp_path: Path) -> None:
    broker = MemoryBroker.get("progress")
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        gateway.admin.create_msgsystem_link("mem", "MEMORY", {"broker": broker.name}, max_connections=1)
        inbound(gateway, broker)
        broker.queue("OTHER")
        gateway.admin.register_foreign_queue("OTHER", "mem", "OTHER")
        gateway.admin.create_job("late", "INBOUND", "OTHER@mem", "H")
        with gateway.run():
            eventually(
                lambda: sorted(gateway.job(name)["ACTIVITY"] for name in ("inj", "late")) == ["BLOCKED", "IDLE"],
                deadline=PATIENCE,
                what="one of them without a connection",
            )
            waits = "late" if gateway.job("late")["ACTIVITY"] == "BLOCKED" else "inj"
            assert "max_connections is 1" in gateway.job(waits)["ACTIVITY_REASON"]
            gateway.admin.disable_job("inj" if waits == "late" else "late")
            eventually(lambda: gateway.job(waits)["ACTIVITY"] == "IDLE", deadline=PATIENCE, what="its turn")
    MemoryBroker.drop("progress")


@pytest.mark.rabbitmq
def test_messages_that_wait_and_are_not_delivered_are_seen(rabbitmq: RabbitMQ, tmp_path: Path) -> None:
    with amqp(rabbitmq) as channel, gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        name = unique("held")
        channel.queue_declare(name, durable=True, arguments={"x-single-active-consumer": True})
        channel.basic_qos(prefetch_count=1)
        channel.basic_consume(name, lambda *_: None)  # it gets the messages, and settles none
        for body in (b"one", b"two"):
            channel.basic_publish("", name, body)
        gateway.admin.create_msgsystem_link("L", "RABBITMQ", {"hostname": rabbitmq.host, "port": rabbitmq.port})
        gateway.admin.register_foreign_queue("Q", "L", name)
        gateway.queue("H")
        gateway.admin.create_job("inj", "INBOUND", "Q@L", "H", options=STUCK_AFTER)
        with gateway.run():
            eventually(lambda: gateway.job("inj")["ACTIVITY"] == "STUCK", deadline=PATIENCE, what="STUCK")
            assert gateway.job("inj")["ACTIVITY_REASON"] == "1 messages wait at Q@L, but none is delivered"
            channel.connection.close()
            eventually(lambda: gateway.job("inj")["PROPAGATED_MSGS"] == 2, deadline=PATIENCE, what="both")
            eventually(lambda: gateway.job("inj")["ACTIVITY"] == "IDLE", deadline=PATIENCE, what="rest")


@pytest.mark.kafka
def test_a_quota_of_kafka_blocks_a_job_and_is_named(kafka: Kafka, tmp_path: Path) -> None:
    with scene(kafka, tmp_path) as seen:
        kafka.set_producer_quota(2_000)
        sent = 1
        try:

            def blocked() -> bool:
                """A quota is over what came in the last seconds: on a slow machine the first message is forgotten."""
                nonlocal sent
                if seen.gateway.job("out")["PROPAGATED_MSGS"] == sent:
                    seen.gateway.enqueue("H", [Message(body="x" * 26_000)])
                    sent += 1
                return bool(seen.gateway.job("out")["ACTIVITY"] == "BLOCKED")

            eventually(blocked, deadline=PATIENCE, what="BLOCKED")
            seen.shows("BLOCKED")
            assert seen.reason().startswith("quota of the Kafka cluster")
        finally:
            kafka.set_producer_quota(None)
        seen.shows("IDLE")
        assert seen.gateway.job("out")["PROPAGATED_MSGS"] == sent
