"""``mgw links prepare``: one call raises the jobs of a link that runs, and touches nothing that is there."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pika
import pytest

from mgw.links.log_preparation import LogVerb
from mgw.transforms.errors import AdminError, LinkRefused
from mgw.transforms.message import Message
from tests.faults.ends.rabbitmq import declare
from tests.support.brokers import Kafka, Mosquitto, RabbitMQ
from tests.support.gateways import Gateway, gateway_on
from tests.support.kafka_clients import KafkaAdminClient
from tests.support.waiting import eventually

MESSAGES = 40


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        yield gateway


class Line:
    """Two jobs on one link: from a queue of the broker into the hub, and from there to another queue."""

    def __init__(self, gateway: Gateway, kind: str, address: Mapping[str, Any], **source: Any) -> None:
        self.gateway = gateway
        self.name = name = f"p{uuid.uuid4().hex[:8]}"
        self.read, self.written = f"{name}_IN", f"{name}_OUT"
        gateway.admin.create_msgsystem_link("l", kind, address)
        slash = "/" if kind == "MQTT" else "_"
        gateway.admin.register_foreign_queue("S", "l", f"{name}{slash}S", options=source)
        gateway.admin.register_foreign_queue("T", "l", f"{name}{slash}T")
        gateway.queue("H")
        gateway.queue("O")

    def jobs(self) -> None:
        """Create them."""
        self.gateway.admin.create_job(self.read, "INBOUND", "S@l", "H", poll_interval=0.2)
        self.gateway.admin.create_job(self.written, "OUTBOUND", "O", "T@l", poll_interval=0.2)

    def await_level(self, job: str, level: str) -> str:
        """Wait until a job has a guarantee; its note."""

        def reached() -> bool:
            row = self.gateway.job(job)
            assert row["GUARANTEE"] == level, dict(row)
            return True

        eventually(reached, deadline=60)
        return str(self.gateway.job(job)["GUARANTEE_NOTE"])

    def send(self) -> None:
        """Let the outbound job carry messages."""
        before = int(self.gateway.job(self.written)["PROPAGATED_TOTAL"] or 0)
        self.gateway.enqueue("O", [Message(b"%d" % number) for number in range(MESSAGES)])
        eventually(
            lambda: int(self.gateway.job(self.written)["PROPAGATED_TOTAL"] or 0) == before + MESSAGES, deadline=60
        )


def _rabbit(gateway: Gateway, server: RabbitMQ, **source: Any) -> Line:
    address = {"hostname": server.host, "port": server.port, "username": server.username, "password": server.password}
    line = Line(gateway, "RABBITMQ", address, **source)
    for queue in ("S", "T"):
        declare(server, f"{line.name}_{queue}", {"x-queue-type": "classic"})
    return line


def exists(server: RabbitMQ, queue: str) -> bool:
    """Whether a broker has a queue."""
    where = pika.ConnectionParameters(
        server.host, server.port, credentials=pika.PlainCredentials(server.username, server.password)
    )
    with pika.BlockingConnection(where) as connection:
        try:
            connection.channel().queue_declare(queue, passive=True)
        except pika.exceptions.ChannelClosedByBroker:
            return False
        return True


@pytest.mark.rabbitmq
def test_the_jobs_of_a_running_link_are_raised(gateway: Gateway, rabbitmq: RabbitMQ) -> None:
    line = _rabbit(gateway, rabbitmq)
    line.jobs()
    with gateway.run():
        for job in (line.read, line.written):
            assert "mgw links prepare l" in line.await_level(job, "at-least-once")
        line.send()
        dry = gateway.admin.prepare_msgsystem_link("l", dry_run=True)
        assert not exists(rabbitmq, f"mgw.acks.{line.read}")
        assert gateway.admin.get_link("l").inbound_log_queue is None  # type: ignore[union-attr]
        done = gateway.admin.prepare_msgsystem_link("L")
        assert done == dry
        form = "durable, x-queue-type=classic, x-max-length=2"
        assert done.lines == [
            f"create queue mgw.acks.{line.read} ({form}): log of job {line.read}",
            f"create queue mgw.sent.{line.written} ({form}): log of job {line.written}",
            "set    inbound_log_queue of link l to mgw.acks.{job}",
            "set    outbound_log_queue of link l to mgw.sent.{job}",
        ]
        for job in (line.read, line.written):
            assert "mgw links prepare" not in line.await_level(job, "exact-unless-broker-crash")
        line.send()
        again = gateway.admin.prepare_msgsystem_link("l")
        assert not again.lines
        assert [step.verb for step in again.steps] == [LogVerb.NONE, LogVerb.NONE]
        assert not [event for event in gateway.events() if "is now at" in event]


@pytest.mark.rabbitmq
def test_a_job_that_comes_later_gets_its_log_from_another_call(gateway: Gateway, rabbitmq: RabbitMQ) -> None:
    line = _rabbit(gateway, rabbitmq)
    first = gateway.admin.prepare_msgsystem_link("l")
    assert not first.steps
    line.jobs()
    with gateway.run():
        eventually(lambda: "mgw links prepare l" in str(gateway.job(line.written)["LAST_ERROR_MSG"]), deadline=60)
        assert len(gateway.admin.prepare_msgsystem_link("l").lines) == 2
        line.await_level(line.written, "exact-unless-broker-crash")
        line.send()


@pytest.mark.rabbitmq
def test_a_queue_with_other_arguments_is_refused_before_anything_is_made(gateway: Gateway, rabbitmq: RabbitMQ) -> None:
    line = _rabbit(gateway, rabbitmq)
    line.jobs()
    declare(rabbitmq, f"mgw.sent.{line.written}", {"x-queue-type": "classic", "x-max-length": 7})
    with pytest.raises(LinkRefused) as refused:
        gateway.admin.prepare_msgsystem_link("l")
    text = str(refused.value)
    assert f"queue 'mgw.sent.{line.written}' cannot be its log queue" in text
    assert "x-max-length" in text
    assert "mgw links prepare l" in text
    assert not exists(rabbitmq, f"mgw.acks.{line.read}")
    assert gateway.admin.get_link("l").outbound_log_queue is None  # type: ignore[union-attr]


@pytest.mark.rabbitmq
def test_jobs_that_need_no_log_get_none(gateway: Gateway, rabbitmq: RabbitMQ) -> None:
    line = _rabbit(gateway, rabbitmq, AMQP_UniqueIds="TRUE")
    declare(rabbitmq, f"{line.name}_stream", {"x-queue-type": "stream"})
    gateway.admin.register_foreign_queue("ST", "l", f"{line.name}_stream")
    gateway.queue("H2")
    gateway.admin.create_job(f"{line.name}_ST", "INBOUND", "ST@l", "H2")
    line.jobs()
    logs = [step.log for step in gateway.admin.prepare_msgsystem_link("l", dry_run=True).steps]
    assert logs == [f"queue mgw.sent.{line.written}"]


@pytest.mark.kafka
def test_the_log_topic_of_kafka_is_made_and_grows(gateway: Gateway, kafka: Kafka) -> None:
    line = Line(gateway, "KAFKA", {"bootstrap_servers": kafka.bootstrap})
    gateway.admin.alter_msgsystem_link("l", {"outbound_log_queue": f"{line.name}_L"})
    kafka.create_topic(f"{line.name}_S")
    kafka.create_topic(f"{line.name}_T")
    line.jobs()
    dry = gateway.admin.prepare_msgsystem_link("l", dry_run=True)
    assert dry.lines == [
        f"create topic {line.name}_L (12 partitions, 1 replica, cleanup.policy=compact, "
        f"unclean.leader.election.enable=false): log of job {line.written}"
    ]
    assert gateway.admin.prepare_msgsystem_link("l") == dry
    with gateway.run():
        line.await_level(line.written, "exact")
        line.send()
        assert not gateway.admin.prepare_msgsystem_link("l").lines
    admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap)
    try:
        admin.create_topics({f"{line.name}_L2": {"num_partitions": 1, "configs": {"cleanup.policy": "compact"}}})
        admin.create_topics({f"{line.name}_L3": {"num_partitions": 1}})
    finally:
        admin.close()
    gateway.admin.create_msgsystem_link("l2", "KAFKA", {"bootstrap_servers": kafka.bootstrap})
    gateway.admin.alter_msgsystem_link("l2", {"outbound_log_queue": f"{line.name}_L2"})
    for number in range(2):
        gateway.queue(f"Q{number}")
        gateway.admin.register_foreign_queue(f"T{number}", "l2", f"{line.name}_T")
        gateway.admin.create_job(f"{line.name}_O{number}", "OUTBOUND", f"Q{number}", f"T{number}@l2")
    extended = f"extend topic {line.name}_L2 (from 1 to 2 partitions): log of job {line.name}_O0, {line.name}_O1"
    assert gateway.admin.prepare_msgsystem_link("l2").lines == [extended]
    eventually(lambda: not gateway.admin.prepare_msgsystem_link("l2", dry_run=True).lines)
    gateway.admin.create_msgsystem_link("l3", "KAFKA", {"bootstrap_servers": kafka.bootstrap})
    gateway.admin.alter_msgsystem_link("l3", {"outbound_log_queue": f"{line.name}_L3"})
    with pytest.raises(LinkRefused, match=r"cannot be its sending log.*cleanup.policy.*kafka-configs.sh"):
        gateway.admin.prepare_msgsystem_link("l3")


@pytest.mark.mosquitto
def test_a_link_of_mqtt_needs_nothing_made(gateway: Gateway, mosquitto: Mosquitto) -> None:
    line = Line(gateway, "MQTT", {"hostname": mosquitto.host, "port": mosquitto.port})
    line.jobs()
    with gateway.run():
        assert "mgw links prepare l" in line.await_level(line.written, "at-least-once")
        done = gateway.admin.prepare_msgsystem_link("l")
        assert done.lines == ["set    outbound_log_queue of link l to mgw/sent/{job}"]
        assert "nothing to create" in str(done.steps[0])
        line.await_level(line.written, "exact-unless-broker-crash")
        line.send()


@pytest.mark.mosquitto
def test_mqtt_3_says_why_it_cannot(gateway: Gateway, mosquitto: Mosquitto) -> None:
    line = Line(gateway, "MQTT", {"hostname": mosquitto.host, "port": mosquitto.port, "protocol_version": 4})
    line.jobs()
    with pytest.raises(LinkRefused, match=f"sending log of job {line.written}.*MQTT 3.1.1"):
        gateway.admin.prepare_msgsystem_link("l")


def test_a_type_without_logs_says_so(gateway: Gateway) -> None:
    gateway.admin.create_msgsystem_link("l", "MEMORY")
    with pytest.raises(AdminError, match="MEMORY keep no logs"):
        gateway.admin.prepare_msgsystem_link("l")
