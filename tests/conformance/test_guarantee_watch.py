"""A condition that is lost while a job runs: noticed beside the flow, shown, and the job that requires it stops."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pika
import pytest

from mgw.gateway.runtime.job_setup import JobSetup
from mgw.links.contract import GuaranteeReport
from mgw.links.memory.broker import MemoryBroker
from mgw.transforms.errors import AdminError, LinkRefused, LinkUnavailable, QueueMissing
from mgw.transforms.message import Message
from tests.conformance.link_suite import unique
from tests.support.brokers import Kafka, Mosquitto, RabbitMQ
from tests.support.gateways import Gateway, RunningAgent, gateway_on
from tests.support.rabbitmq_kills import LOG_ARGUMENTS
from tests.support.waiting import eventually

_PATIENCE = 60.0


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        gateway.queue("H")
        yield gateway


@contextmanager
def watching(gateway: Gateway, every: float = 0.1) -> Iterator[RunningAgent]:
    """An agent that verifies its jobs more often than once a minute."""
    running = gateway.run()
    running.agent.verify_seconds = every
    with running:
        yield running


def shows(gateway: Gateway, level: str, note: str = "", job: str = "J") -> bool:
    row = gateway.job(job)
    assert row["GUARANTEE"] == level, row
    assert note in (row["GUARANTEE_NOTE"] or ""), row
    return True


def stopped_for(gateway: Gateway, cause: str, job: str = "J") -> bool:
    row = gateway.job(job)
    assert row["STATUS"] == "RETRY", row
    assert "requires" in row["LAST_ERROR_MSG"], row
    assert cause in row["LAST_ERROR_MSG"], row
    return True


def await_(condition: Any, *arguments: Any) -> None:
    eventually(lambda: condition(*arguments), deadline=_PATIENCE, what=condition.__name__)


# ---------------------------------------------------------------------------------------- what the answers lead to


@pytest.fixture
def memory(gateway: Gateway) -> Iterator[MemoryBroker]:
    broker = MemoryBroker.get(uuid.uuid4().hex)
    broker.log("LOG")
    gateway.admin.create_msgsystem_link("mem", "MEMORY", {"broker": broker.name})
    gateway.admin.register_foreign_queue("LOG", "mem")
    yield broker
    MemoryBroker.drop(broker.name)


def carries_on(gateway: Gateway, broker: MemoryBroker, text: str) -> None:
    broker.put("LOG", Message(body=text))
    eventually(lambda: text in [message.body for message in gateway.browse("H")], what="a message carried")


def test_a_broker_that_does_not_answer_the_question_stops_nobody(
    gateway: Gateway, memory: MemoryBroker, caplog: pytest.LogCaptureFixture
) -> None:
    gateway.admin.create_job("J", "INBOUND", "LOG@mem", "H", require_guarantee="exact", poll_interval=0.2)
    with watching(gateway):
        carries_on(gateway, memory, "one")
        memory.fail_next("verify", LinkUnavailable("no answer", operation="verify"), times=3)
        eventually(lambda: "could not be verified again" in caplog.text, what="the complaint")
        carries_on(gateway, memory, "two")
        assert gateway.job("J")["STATUS"] == "READY"
    assert caplog.text.count("could not be verified again") == 1


def test_something_that_is_gone_ends_the_attempt(gateway: Gateway, memory: MemoryBroker) -> None:
    gateway.admin.create_job("J", "INBOUND", "LOG@mem", "H", poll_interval=0.2)
    with watching(gateway):
        carries_on(gateway, memory, "one")
        memory.fail_next("verify", QueueMissing("its log queue is gone", operation="verify"))
        eventually(lambda: "its log queue is gone" in (gateway.job("J")["LAST_ERROR_MSG"] or ""), what="the failure")
        gateway.admin.reset_job("J")
        carries_on(gateway, memory, "two")


@pytest.mark.parametrize("required", [None, "exact"])
def test_a_refused_question_stops_only_a_job_that_requires_the_answer(
    gateway: Gateway, memory: MemoryBroker, caplog: pytest.LogCaptureFixture, required: str | None
) -> None:
    gateway.admin.create_job("J", "INBOUND", "LOG@mem", "H", require_guarantee=required, poll_interval=0.2)
    with watching(gateway):
        carries_on(gateway, memory, "one")
        memory.fail_next("verify", LinkRefused("the password has expired", operation="verify"))
        if required is None:
            eventually(lambda: "the password has expired" in caplog.text, what="the complaint")
            assert gateway.job("J")["STATUS"] == "READY"
        else:
            eventually(lambda: "password" in (gateway.job("J")["LAST_ERROR_MSG"] or ""), what="the failure")
            gateway.admin.reset_job("J")
        carries_on(gateway, memory, "two")


def test_a_question_that_is_not_answered_holds_nothing_up(gateway: Gateway, memory: MemoryBroker) -> None:
    """The broker here answers no question for a while, yet hands out messages."""
    import threading

    from mgw.links.memory.link import MemoryLink

    gateway.admin.create_job("J", "INBOUND", "LOG@mem", "H", poll_interval=0.2)
    asked, go = threading.Event(), threading.Event()
    verify = MemoryLink.verify

    def slow(self: MemoryLink, *arguments: Any) -> Any:
        if threading.current_thread().name == "verify-J":
            asked.set()
            assert go.wait(_PATIENCE)
        return verify(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryLink, "verify", slow)
        with watching(gateway):
            assert asked.wait(_PATIENCE)
            for number in range(20):
                carries_on(gateway, memory, f"message {number}")
            assert not go.is_set()
            go.set()


# --------------------------------------------------------------------------------------------------------- at RabbitMQ


@pytest.fixture(scope="module")
def managed() -> Iterator[RabbitMQ]:
    with RabbitMQ(plugins=("rabbitmq_management",)) as server:
        yield server


class RabbitJob:
    """A job J between the hub and a queue, with log queues."""

    def __init__(self, gateway: Gateway, server: RabbitMQ, direction: str, required: str | None) -> None:
        self.server = server
        self.queue = unique("watched")
        self.connection = pika.BlockingConnection(pika.ConnectionParameters(server.host, server.port, heartbeat=0))
        self.channel = self.connection.channel()
        self.channel.confirm_delivery()
        self.channel.queue_declare(self.queue, durable=True)
        self.log = unique("mgw.log")
        self.channel.queue_declare(self.log, durable=True, arguments=LOG_ARGUMENTS)
        key = "inbound_log_queue" if direction == "INBOUND" else "outbound_log_queue"
        properties: dict[str, Any] = {"hostname": server.host, "port": server.port, key: self.log}
        properties |= {"username": server.username, "password": server.password}
        address = f"http://{server.host}:{server.management_port}"
        gateway.admin.create_msgsystem_link("rmq", "RABBITMQ", properties, options={"AMQP_ManagementURL": address})
        gateway.admin.register_foreign_queue("Q", "rmq", self.queue)
        ends = ("Q@rmq", "H") if direction == "INBOUND" else ("H", "Q@rmq")
        gateway.admin.create_job("J", direction, *ends, require_guarantee=required, poll_interval=0.2)

    def policy(self, definition: str) -> None:
        self.server.ctl("set_policy", self.queue, f"^{self.queue}$", definition, "--apply-to", "queues")

    def no_policy(self) -> None:
        self.server.ctl("clear_policy", self.queue)

    def put(self, body: bytes) -> None:
        self.channel.basic_publish("", self.queue, body, pika.BasicProperties(delivery_mode=2))

    def waiting(self) -> int:
        count: int = self.channel.queue_declare(self.queue, passive=True).method.message_count
        return count


@contextmanager
def rabbit_job(gateway: Gateway, server: RabbitMQ, direction: str, required: str | None) -> Iterator[RabbitJob]:
    job = RabbitJob(gateway, server, direction, required)
    try:
        yield job
    finally:
        job.connection.close()


LEVEL = "exact-unless-broker-crash"


@pytest.mark.rabbitmq
def test_a_policy_that_takes_messages_away_stops_a_reading_job_that_requires_more(
    gateway: Gateway, managed: RabbitMQ
) -> None:
    with rabbit_job(gateway, managed, "INBOUND", LEVEL) as job, watching(gateway):
        job.put(b"one")
        await_(shows, gateway, LEVEL)
        eventually(lambda: len(gateway.browse("H")) == 1, deadline=_PATIENCE)
        job.policy('{"dead-letter-exchange": "amq.fanout"}')
        await_(stopped_for, gateway, "dead-letter-exchange (by policy")
        shows(gateway, "at-least-once", "dead-letter-exchange")
        job.put(b"two")
        assert len(gateway.browse("H")) == 1, "a stopped job stores nothing"
        job.no_policy()
        gateway.admin.reset_job("J")
        await_(shows, gateway, LEVEL)
        eventually(lambda: len(gateway.browse("H")) == 2, deadline=_PATIENCE)


@pytest.mark.rabbitmq
def test_a_policy_that_drops_messages_stops_a_writing_job_that_requires_more(
    gateway: Gateway, managed: RabbitMQ
) -> None:
    with rabbit_job(gateway, managed, "OUTBOUND", LEVEL) as job, watching(gateway):
        await_(shows, gateway, LEVEL)
        gateway.enqueue("H", [Message(body=b"one")])
        eventually(lambda: job.waiting() == 1, deadline=_PATIENCE)
        job.policy('{"max-length": 100}')
        await_(stopped_for, gateway, "max-length (by policy")
        shows(gateway, "at-most-once", "max-length")
        gateway.enqueue("H", [Message(body=b"two")])
        assert job.waiting() == 1
        assert [message.body for message in gateway.browse("H")] == [b"two"]


@pytest.mark.rabbitmq
def test_the_view_follows_a_level_that_nobody_requires(gateway: Gateway, managed: RabbitMQ) -> None:
    with rabbit_job(gateway, managed, "INBOUND", None) as job, watching(gateway):
        await_(shows, gateway, LEVEL)
        job.policy('{"message-ttl": 3600000}')
        await_(shows, gateway, "at-least-once", "message-ttl")
        job.put(b"goes on")
        eventually(lambda: len(gateway.browse("H")) == 1, deadline=_PATIENCE, what="a job that goes on")
        job.no_policy()
        await_(shows, gateway, LEVEL)
    assert any(f"promised {LEVEL}, now it can promise at-least-once" in text for text in gateway.events())
    assert gateway.job("J")["FAILURES"] in {0, None}


@pytest.mark.rabbitmq
@pytest.mark.parametrize("direction", ["INBOUND", "OUTBOUND"])
def test_a_log_queue_that_is_deleted_ends_the_job(gateway: Gateway, managed: RabbitMQ, direction: str) -> None:
    with rabbit_job(gateway, managed, direction, None) as job, watching(gateway):
        await_(shows, gateway, LEVEL)
        job.channel.queue_delete(job.log)
        eventually(
            lambda: f"log queue '{job.log}' does not exist" in (gateway.job("J")["LAST_ERROR_MSG"] or ""),
            deadline=_PATIENCE,
            what="the failure",
        )


@pytest.mark.rabbitmq
def test_a_job_promises_no_more_than_its_exception_queue_keeps(
    gateway: Gateway, managed: RabbitMQ, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[GuaranteeReport] = []
    ask = JobSetup.promised

    def asked(self: JobSetup, *links: Any) -> GuaranteeReport:
        answers.append(ask(self, *links))
        return answers[-1]

    monkeypatch.setattr(JobSetup, "promised", asked)
    with rabbit_job(gateway, managed, "INBOUND", None) as job:
        bad = f"{job.queue}.bad"
        job.channel.queue_declare(bad, durable=False)
        gateway.admin.register_foreign_queue("BAD", "rmq", bad)
        gateway.admin.alter_job("J", exception_queue="BAD@rmq")
        with pytest.raises(AdminError, match="cannot promise at-least-once") as refused:
            gateway.admin.alter_job("J", require_guarantee="at-least-once")
        said = f"exception queue BAD@rmq may lose refused messages: queue {bad} is not durable"
        assert said in str(refused.value)
        gateway.admin.alter_job("J", exception_queue=None, require_guarantee="at-least-once")
        with pytest.raises(AdminError, match="cannot promise at-least-once"):
            gateway.admin.alter_job("J", exception_queue="BAD@rmq")
        gateway.admin.alter_job("J", exception_queue="BAD@rmq", require_guarantee=None)
        with watching(gateway):
            await_(shows, gateway, "at-most-once", said)
            shows(gateway, "at-most-once", "(change that, or give the job another exception queue)")
            job.channel.queue_delete(bad)  # nothing new is known of it, and the job does not need it now
            before = len(answers)
            eventually(lambda: len(answers) > before + 1, deadline=_PATIENCE, what="a question that began after that")
            job.put(b"goes on")
            eventually(lambda: len(gateway.browse("H")) == 1, deadline=_PATIENCE, what="a job that goes on")
            shows(gateway, "at-most-once", "BAD@rmq")
            job.channel.queue_declare(bad, durable=True)
            await_(shows, gateway, LEVEL)  # whose own guarantee at least once costs the job nothing
        assert gateway.job("J")["FAILURES"] in {0, None}


@pytest.mark.mosquitto
def test_a_through_job_promises_no_more_than_its_exception_queue_keeps(
    gateway: Gateway, memory: MemoryBroker, mosquitto: Mosquitto
) -> None:
    memory.queue("DST")
    gateway.admin.register_foreign_queue("DST", "mem")
    gateway.admin.create_msgsystem_link("plant", "MQTT", {"hostname": mosquitto.host, "port": mosquitto.port})
    gateway.admin.register_foreign_queue("IN", "plant", unique("in"))
    gateway.admin.register_foreign_queue("BAD", "plant", unique("bad"), options={"MQTT_Qos": "0"})
    given = "THROUGH", "IN@plant", "DST@mem"
    said = "exception queue BAD@plant may lose refused messages: QoS 0 was chosen"
    with pytest.raises(AdminError, match=said):
        gateway.admin.create_job("J", *given, exception_queue="BAD@plant", require_guarantee="at-least-once")
    gateway.admin.create_job("J", *given, exception_queue="BAD@plant")
    with gateway.run():
        await_(shows, gateway, "at-most-once", said)
        gateway.admin.alter_job("J", exception_queue=None)
        await_(shows, gateway, "at-least-once", "DST@mem: ")


# ------------------------------------------------------------------------------------------------------------ at Kafka


class KafkaJob:
    """A job J between the hub and a topic, exactly once."""

    def __init__(self, gateway: Gateway, broker: Kafka, direction: str, required: str | None) -> None:
        self.broker = broker
        self.topic, self.log = unique("watched"), unique("watchedlog")
        broker.create_topic(self.topic)
        broker.create_topic(self.log, 1, {"cleanup.policy": "compact"})
        properties = {"bootstrap_servers": broker.bootstrap, "outbound_log_queue": self.log}
        gateway.admin.create_msgsystem_link("kf", "KAFKA", properties)
        gateway.admin.register_foreign_queue("T", "kf", self.topic, options={"KAFKA_StartAt": "earliest"})
        ends = ("T@kf", "H") if direction == "INBOUND" else ("H", "T@kf")
        gateway.admin.create_job("J", direction, *ends, require_guarantee=required, poll_interval=0.2)

    def configure(self, topic: str, **config: str) -> None:
        self.broker.configure_topic(topic, {name.replace("_", "."): value for name, value in config.items()})


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("direction", "which", "config", "level"),
    [
        ("OUTBOUND", "log", {"cleanup_policy": "delete"}, "at-least-once"),
        ("OUTBOUND", "log", {"cleanup_policy": "compact", "unclean_leader_election_enable": "true"}, "at-least-once"),
        ("OUTBOUND", "topic", {"unclean_leader_election_enable": "true"}, "at-least-once"),
        ("INBOUND", "topic", {"unclean_leader_election_enable": "true"}, "at-most-once"),
    ],
)
def test_a_topic_setting_that_is_changed_stops_a_job_that_requires_exact(  # noqa: PLR0917 - one for each column
    gateway: Gateway, kafka: Kafka, direction: str, which: str, config: dict[str, str], level: str
) -> None:
    job = KafkaJob(gateway, kafka, direction, "exact")
    with watching(gateway, 0.5):
        await_(shows, gateway, "exact")
        job.configure(getattr(job, which), **config)
        await_(stopped_for, gateway, ".".join(list(config)[-1].split("_")))
        shows(gateway, level)


@pytest.mark.kafka
def test_the_view_follows_a_topic_setting_that_nobody_requires(gateway: Gateway, kafka: Kafka) -> None:
    job = KafkaJob(gateway, kafka, "OUTBOUND", None)
    with watching(gateway, 0.5):
        await_(shows, gateway, "exact")
        job.configure(job.log, cleanup_policy="delete")
        await_(shows, gateway, "at-least-once", "cleanup.policy")
        gateway.enqueue("H", [Message(body=b"goes on")])
        eventually(lambda: not gateway.browse("H") and not gateway.plans("J"), deadline=_PATIENCE, what="carried")
        job.configure(job.log, cleanup_policy="compact")
        await_(shows, gateway, "exact")
