"""Bad input, through the real command and a real agent with real brokers: named plainly, and nothing is lost.

Every refusal names the object, the cause and the cure, without a traceback; every message is afterwards still at its
source, in the exception queue with its reason, or whole at its destination. Where each kind of bad input is tried:

=========================================  ==========================================================================
unknown keys in YAML                       here (a hub is left as it was); every kind and place: tests/cli/test_lint.py
two jobs on one queue source               here; against what a hub holds: tests/cli/test_apply.py
a destination with a wildcard              here; every pattern: tests/cli/test_lint.py
wrong password, wrong port                 here, for RabbitMQ, MQTT and Kafka
a queue that does not exist                here, for RabbitMQ, an exchange, and Kafka
a body the transformation does not expect  here, with and without an exception queue, inbound and outbound
a message of 20 MB                         here, whole through two brokers; too large for the third one's limit
a header name of 300 characters            here, from Kafka and from the command line
an MQTT payload with NUL bytes             here, as text and as bytes
a full disk for the hub                    here, with a file system that is really full
a hub database of a newer version          here, for every command that opens a hub
the same agent started twice               here; its states and signals: tests/conformance/test_supervisor.py
kill -9 during ``mgw apply``               tests/cli/test_apply.py, at seven places
a source that lost messages                here: a person must give them up
=========================================  ==========================================================================
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pika
import pytest
from kafka import TopicPartition
from kafka.errors import TopicAlreadyExistsError
from pika.adapters.blocking_connection import BlockingChannel

from tests.cli.conftest import Mgw, Result
from tests.support.brokers import Kafka, Mosquitto, RabbitMQ
from tests.support.kafka_clients import KafkaAdminClient, KafkaConsumer, KafkaProducer
from tests.support.ports import free_port
from tests.support.ready_made import Process, start_module
from tests.support.waiting import eventually

PASSWORD = "sesame-open-42"  # of nobody
BIG = 20 * 1024 * 1024
STEPS = 60.0  # seconds a scenario may take: brokers and tests share a slow machine


@pytest.fixture
def mgw(tmp_path: Path) -> Mgw:
    return Mgw(tmp_path, {"PYTHONWARNINGS": "default"})  # Kafka's client warns about itself


@pytest.fixture
def amqp(rabbitmq: RabbitMQ) -> Iterator[BlockingChannel]:
    """A client of our own beside the gateway."""
    connection = pika.BlockingConnection(pika.ConnectionParameters(rabbitmq.host, rabbitmq.port, heartbeat=0))
    try:
        yield connection.channel()
    finally:
        connection.close()


class Agent:
    """``mgw run`` as a process of its own; what it printed is in ``said``."""

    def __init__(self, mgw: Mgw, *words: str, prefix: Sequence[str] = ()) -> None:
        self.mgw = mgw
        self.output = mgw.folder / f"output-{uuid.uuid4().hex[:6]}.txt"
        self.process: Process
        if not prefix and type(mgw).command is Mgw.command:  # nothing depends on how it is started
            self.process = start_module(
                "mgw.gateway", "run", *words, log=self.output, environment=mgw.environment(), folder=mgw.folder
            )
            return
        with self.output.open("wb") as sink:
            self.process = subprocess.Popen(
                [*prefix, *mgw.command("run", *words)],
                cwd=mgw.folder,
                env=mgw.environment(),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
            )

    @property
    def said(self) -> str:
        return self.output.read_text(errors="replace")

    def job(self, name: str) -> dict[str, Any]:
        """The row of MGW_JOBS, read as anybody can."""
        assert self.process.poll() is None, f"the agent has ended:\n{self.said}"
        hub = self.mgw.folder / "hub.db"
        if not hub.exists():  # in a place that only the command can enter
            found: dict[str, Any] = json.loads(self.mgw.ok("jobs", "show", name, "--json"))
            return found
        with closing(sqlite3.connect(f"file:{hub}?mode=ro", uri=True, timeout=10)) as connection:
            connection.row_factory = sqlite3.Row
            row = connection.execute("SELECT * FROM MGW_JOBS WHERE JOB_NAME = upper(?)", (name,)).fetchone()
        return {column.lower(): row[column] for column in row.keys()}  # noqa: SIM118  (a Row iterates its values)

    def until(self, true: Callable[[], object], what: str) -> None:
        try:
            eventually(true, deadline=STEPS, what=what)
        except AssertionError:
            sys.stdout.write(self.said + self.mgw("status").out)
            raise

    def fails(self, job: str, *said: str) -> str:
        """Wait for the failure of a job; its error has all three parts and says this."""
        self.until(lambda: self.job(job)["status"] in ("RETRY", "FAILED"), f"failure of {job}")
        error = str(self.job(job)["last_error_msg"])
        for part in ("cause: ", "cure: ", *said):
            assert part in error
        assert self.mgw("status", "--check").out.replace("\n  ", " ").count(f"job {job.upper()} is")
        return error

    def counts(self, job: str, column: str, count: int) -> None:
        """Wait until a counter of a job has come so far."""
        self.until(lambda: self.job(job)[column] >= count, f"{column} of {job} = {count}")

    def moves(self, job: str, count: int = 1) -> None:
        """Try again at once, as an operator would, and wait until so many messages have moved."""
        self.mgw.ok("jobs", "reset", job)
        self.counts(job, "propagated_total", count)
        assert self.job(job)["status"] == "READY"


@contextmanager
def running(mgw: Mgw, *words: str, prefix: Sequence[str] = ()) -> Iterator[Agent]:
    agent = Agent(mgw, *words, prefix=prefix)
    try:
        agent.until(lambda: "up and running" in agent.said or agent.process.poll() is not None, "start of the agent")
        yield agent
        agent.process.send_signal(signal.SIGTERM)
        assert agent.process.wait(30) == 0, agent.said
        assert "Traceback" not in agent.said
        assert PASSWORD not in agent.said
    finally:
        if agent.process.poll() is None:
            agent.process.kill()
            agent.process.wait()


def unique(prefix: str) -> str:
    return f"{prefix}.{uuid.uuid4().hex[:8]}"


def rabbit_link(server: RabbitMQ, **changes: object) -> str:
    settings = {"type": "rabbitmq", "hostname": server.host, "port": server.port, "username": server.username}
    return "rabbit: " + json.dumps(settings | {"password": server.password} | changes)


def plant_link(server: Mosquitto, **changes: object) -> str:
    return "plant: " + json.dumps({"type": "mqtt", "hostname": server.host, "port": server.port} | changes)


def kafka_link(server: Kafka, **changes: object) -> str:
    return "kafka: " + json.dumps({"type": "kafka", "bootstrap_servers": server.bootstrap} | changes)


def declare(amqp: BlockingChannel, prefix: str) -> str:
    name = unique(prefix)
    amqp.queue_declare(name, durable=True)
    return name


def send(amqp: BlockingChannel, queue: str, *bodies: bytes) -> None:
    for body in bodies:
        amqp.basic_publish("", queue, body, pika.BasicProperties(delivery_mode=2, content_type="application/json"))


def depth(amqp: BlockingChannel, queue: str) -> int:
    return int(amqp.queue_declare(queue, passive=True).method.message_count)


def take(amqp: BlockingChannel, queue: str) -> tuple[dict[str, Any], bytes]:
    """One message with its headers; it must be there soon."""
    _, properties, body = eventually(
        lambda: (found := amqp.basic_get(queue, auto_ack=True))[0] and found, deadline=STEPS, what=f"message in {queue}"
    )
    return dict(properties.headers or {}), body


def record(server: Kafka, topic: str) -> Any:
    """The first record of a topic."""
    consumer = KafkaConsumer(
        bootstrap_servers=server.bootstrap, enable_auto_commit=False, max_partition_fetch_bytes=2 * BIG
    )
    try:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek_to_beginning(partition)
        found = eventually(lambda: consumer.poll(500).get(partition), deadline=STEPS, what=f"record in {topic}")
        return found[0]
    finally:
        consumer.close()


def produce(server: Kafka, topic: str, value: bytes, headers: Sequence[tuple[str, bytes]] = ()) -> None:
    producer = KafkaProducer(bootstrap_servers=server.bootstrap)
    try:
        producer.send(topic, value, headers=list(headers)).get(30)
    finally:
        producer.close()


def refused(result: Result, *said: str, code: int = 1) -> None:
    assert result.code == code, result
    for part in said:
        assert part in result.err
    assert "Traceback" not in result.out + result.err


# ---------------------------------------------------------------------------------------------------- configuration

SOUND = """\
links:
  rabbit: {type: rabbitmq, hostname: 127.0.0.1, username: gw, password: "${PASSWORD:-sesame-open-42}"}
  plant: {type: mqtt, hostname: 127.0.0.1}
foreign_queues:
  orders@rabbit: {domain: queue}
  all@plant: {provider_queue: plant/+/telemetry, domain: topic}
queues:
  ORDERS: {}
  MORE: {}
jobs:
  orders_in: {type: inbound, source: orders@rabbit, destination: ORDERS}
"""


BAD_LINES = {
    "unknown key": (
        "  more_in: {type: inbound, source: all@plant, destination: MORE, exeption_queue: x}",
        "exeption_queue",
        "unknown-key: key 'exeption_queue' is not known; did you mean 'exception_queue'?",
    ),
    "two jobs on one queue": (
        "  more_in: {type: inbound, source: ORDERS@rabbit, destination: MORE}",
        "source",
        "duplicate-source: job 'orders_in' reads 'ORDERS@rabbit' already, "
        "and a queue gives each message to one reader; let one job read it",
    ),
    "wildcard in a destination": (
        "  out: {type: outbound, source: MORE, destination: all@plant}",
        "destination",
        "wildcard-destination: foreign queue all@plant ('plant/+/telemetry') cannot be used: as destination, "
        "it holds a wildcard (+ or #); only a source may be a pattern; register the topic to publish to",
    ),
}


@pytest.mark.parametrize("case", BAD_LINES)
def test_bad_configuration_is_named_with_its_place_and_leaves_the_hub_as_it_was(mgw: Mgw, case: str) -> None:
    line, key, said = BAD_LINES[case]
    mgw.ok("apply", mgw.file(SOUND))
    before = mgw.ok("export")
    file = mgw.file(f"{SOUND}{line}\n")
    told = f"{file}:{SOUND.count(chr(10)) + 1}:{line.index(key) + 1}: error {said}"
    for command in ("lint", "plan", "apply"):
        result = mgw(command, file)
        assert result.code == 78
        assert (result.out + result.err).splitlines() == [told]
    with running(mgw, file) as agent:
        assert told in agent.said, "the agent runs without that job"
    assert mgw.ok("export") == before


# ------------------------------------------------------------------------------------------- brokers that say no


def test_wrong_password_of_rabbitmq_is_named_and_cured_while_the_agent_runs(
    mgw: Mgw, rabbitmq: RabbitMQ, amqp: BlockingChannel
) -> None:
    queue = declare(amqp, "orders")
    send(amqp, queue, b'{"order": 1}')
    file = mgw.file(
        f"links:\n  {rabbit_link(rabbitmq, password=PASSWORD)}\n"
        f"foreign_queues:\n  orders@rabbit: {{provider_queue: {queue}, domain: queue}}\n"
        "queues:\n  ORDERS: {}\n"
        "jobs:\n  orders_in: {type: inbound, source: orders@rabbit, destination: ORDERS}\n"
    )
    with running(mgw, file) as agent:
        error = agent.fails("orders_in", "rabbit", "password")
        assert PASSWORD not in error
        tested = mgw("links", "test", "rabbit")
        assert (tested.code, "FAIL credentials" in tested.out, PASSWORD in tested.out) == (1, True, False)
        assert depth(amqp, queue) == 1
        mgw.file(f"{rabbitmq.password}\n", "password")
        mgw.ok("links", "alter", "rabbit", "--password-file", "password")
        agent.moves("orders_in")
    assert mgw("links", "test", "rabbit").code == 0
    assert mgw.ok("aq", "dequeue", "ORDERS", "--body") == '{"order": 1}'


def test_wrong_password_and_port_of_mqtt_are_named_and_cured_while_the_agent_runs(mgw: Mgw) -> None:
    with Mosquitto(username="gw", password="right-one") as broker:
        file = mgw.file(
            f"links:\n  {plant_link(broker, username='gw', password=PASSWORD, port=free_port())}\n"
            "foreign_queues:\n  all@plant: {provider_queue: plant/+/telemetry, domain: topic}\n"
            "queues:\n  T: {}\n"
            "jobs:\n  t_in: {type: inbound, source: all@plant, destination: T}\n"
        )
        with running(mgw, file) as agent:
            agent.fails("t_in", "plant", "refused", "port")
            assert mgw("links", "test", "plant").code == 1
            mgw.ok("links", "alter", "plant", "--set", f"port={broker.port}")
            agent.until(lambda: "password" in str(agent.job("t_in")["last_error_msg"]), "the next error")
            assert PASSWORD not in agent.fails("t_in", "plant")
            tested = mgw("links", "test", "plant")
            assert (tested.code, "password" in tested.out, PASSWORD in tested.out) == (1, True, False)
            mgw.file("right-one\n", "password")
            mgw.ok("links", "alter", "plant", "--password-file", "password")
            agent.until(lambda: agent.job("t_in")["activity"] in ("IDLE", "RUNNING"), "connection")
            words = ["-h", broker.host, "-p", str(broker.port), "-u", "gw", "-P", "right-one", "-q", "1"]
            subprocess.run(["mosquitto_pub", *words, "-t", "plant/m1/telemetry", "-m", "21.5"], check=True, timeout=20)
            agent.moves("t_in")


@pytest.mark.parametrize("link", ["rabbit", "kafka"])
def test_wrong_port_is_named_and_the_messages_wait_in_the_hub(
    mgw: Mgw, rabbitmq: RabbitMQ, kafka: Kafka, amqp: BlockingChannel, link: str
) -> None:
    port = free_port()
    links = {
        "rabbit": rabbit_link(rabbitmq, port=port),
        "kafka": kafka_link(kafka, bootstrap_servers=f"127.0.0.1:{port}", options={"KAFKA_Bootstrap_timeout_ms": 1000}),
    }
    queue = declare(amqp, "orders")
    domain = ", domain: queue" if link == "rabbit" else ""
    file = mgw.file(
        f"links:\n  {links[link]}\nforeign_queues:\n  orders@{link}: {{provider_queue: {queue}{domain}}}\n"
        "queues:\n  ORDERS: {}\n"
        f"jobs:\n  orders_out: {{type: outbound, source: ORDERS, destination: orders@{link}}}\n"
    )
    mgw.ok("apply", file)
    mgw.ok("aq", "enqueue", "ORDERS", "wait for me")
    with running(mgw) as agent:
        agent.fails("orders_out", link, str(port))
        tested = mgw("links", "test", link)
        assert (tested.code, str(port) in tested.out, "FAIL" in tested.out) == (1, True, True)
        assert agent.job("orders_out")["backlog"] == 1
        assert mgw.ok("aq", "browse", "ORDERS", "--body") == "wait for me"
        right = str(rabbitmq.port if link == "rabbit" else kafka.port)
        if link == "kafka":
            kafka.create_topic(queue)
        mgw.ok("apply", mgw.file((mgw.folder / file).read_text().replace(str(port), right)))
        agent.counts("orders_out", "propagated_total", 1)
        if link == "rabbit":
            assert take(amqp, queue)[1] == b"wait for me"


def test_queues_that_do_not_exist_are_named_and_used_once_they_are_made(
    mgw: Mgw, rabbitmq: RabbitMQ, kafka: Kafka, amqp: BlockingChannel
) -> None:
    source, exchange, topic = unique("orders"), unique("news"), unique("topic")
    file = mgw.file(
        f"links:\n  {rabbit_link(rabbitmq)}\n  {kafka_link(kafka)}\n"
        "foreign_queues:\n"
        f"  orders@rabbit: {{provider_queue: {source}, domain: queue}}\n"
        f"  news@rabbit: {{provider_queue: {exchange}/all, domain: topic}}\n"
        f"  topic@kafka: {{provider_queue: {topic}}}\n"
        "queues:\n  ORDERS: {}\n  NEWS: {multiple_consumers: true}\n"
        "jobs:\n"
        "  orders_in: {type: inbound, source: orders@rabbit, destination: ORDERS}\n"
        "  news_out: {type: outbound, source: NEWS, destination: news@rabbit}\n"
        "  topic_out: {type: outbound, source: NEWS, destination: topic@kafka}\n"
    )
    mgw.ok("apply", file)
    mgw.ok("aq", "enqueue", "NEWS", "hello")
    with running(mgw) as agent:
        agent.fails("orders_in", source)
        agent.fails("news_out", exchange)
        agent.fails("topic_out", topic)
        amqp.queue_declare(source, durable=True)
        send(amqp, source, b"an order")
        amqp.exchange_declare(exchange, "topic", durable=True)
        readers = declare(amqp, "readers")
        amqp.queue_bind(readers, exchange, "#")
        kafka.create_topic(topic)
        for job in ("orders_in", "news_out", "topic_out"):
            agent.moves(job)
        assert take(amqp, readers)[1] == b"hello"
        assert record(kafka, topic).value == b"hello"
    assert mgw.ok("aq", "dequeue", "ORDERS", "--body") == "an order"


# ------------------------------------------------------------------------------------------------- bad messages

CELSIUS = 'celsius: {set: {body.celsius: "ROUND((tab.user_data.fahrenheit - 32) / 1.8, 1)"}}'


def test_inbound_body_that_the_transformation_does_not_expect_goes_to_the_exception_queue_untouched(
    mgw: Mgw, rabbitmq: RabbitMQ, amqp: BlockingChannel
) -> None:
    source, bad = declare(amqp, "readings"), declare(amqp, "bad")
    bodies = [b"<not json>", b'{"fahrenheit": "warm"}', b"\x00\xff\xfe", b""]
    send(amqp, source, b'{"fahrenheit": 212}', *bodies, b'{"fahrenheit": 32}')
    file = mgw.file(
        f"links:\n  {rabbit_link(rabbitmq)}\n"
        "foreign_queues:\n"
        f"  readings@rabbit: {{provider_queue: {source}, domain: queue}}\n"
        f"  bad@rabbit: {{provider_queue: {bad}, domain: queue}}\n"
        f"queues:\n  READINGS: {{}}\ntransformations:\n  {CELSIUS}\n"
        "jobs:\n  readings_in: {type: inbound, source: readings@rabbit, destination: READINGS, "
        "transformation: celsius, exception_queue: bad@rabbit}\n"
    )
    with running(mgw, file) as agent:
        agent.moves("readings_in", 2)
        assert agent.job("readings_in")["exceptionq_total"] == len(bodies)
    for body in bodies:
        headers, found = take(amqp, bad)
        assert found == body
        reason = next(str(value) for name, value in headers.items() if name.endswith("MGW_error"))
        for part in ("celsius", "cause: ", "cure: "):
            assert part in reason
    good = [json.loads(line)["celsius"] for line in _texts(mgw, "READINGS")]
    assert good == [100, 0]
    assert depth(amqp, source) == 0


def test_inbound_body_that_cannot_be_converted_stays_at_its_source_where_there_is_no_exception_queue(
    mgw: Mgw, rabbitmq: RabbitMQ, amqp: BlockingChannel
) -> None:
    source = declare(amqp, "readings")
    send(amqp, source, b"<not json>", b'{"fahrenheit": 32}')
    file = mgw.file(
        f"links:\n  {rabbit_link(rabbitmq)}\n"
        f"foreign_queues:\n  readings@rabbit: {{provider_queue: {source}, domain: queue}}\n"
        f"queues:\n  READINGS: {{}}\ntransformations:\n  {CELSIUS}\n"
        "jobs:\n  readings_in: {type: inbound, source: readings@rabbit, destination: READINGS, "
        "transformation: celsius}\n"
    )
    with running(mgw, file) as agent:
        agent.fails("readings_in", "celsius")
        assert agent.job("readings_in")["propagated_total"] == 0
    assert depth(amqp, source) == 2
    assert _texts(mgw, "READINGS") == []


def test_outbound_body_that_the_transformation_does_not_expect_waits_or_goes_to_a_queue_of_the_hub(
    mgw: Mgw, rabbitmq: RabbitMQ, amqp: BlockingChannel
) -> None:
    target = declare(amqp, "celsius")
    text = (
        f"links:\n  {rabbit_link(rabbitmq)}\n"
        f"foreign_queues:\n  out@rabbit: {{provider_queue: {target}, domain: queue}}\n"
        f"queues:\n  READINGS: {{}}\n  BAD: {{}}\ntransformations:\n  {CELSIUS}\n"
        "jobs:\n  out: {type: outbound, source: READINGS, destination: out@rabbit, transformation: celsius}\n"
    )
    mgw.ok("apply", mgw.file(text))
    mgw.ok("aq", "enqueue", "READINGS", "<not json>")
    mgw.ok("aq", "enqueue", "READINGS", '{"fahrenheit": 212}')
    with running(mgw) as agent:
        agent.fails("out", "celsius")
        assert agent.job("out")["backlog"] == 2
        mgw.ok("jobs", "alter", "out", "--exception-queue", "BAD")
        agent.moves("out")
        assert json.loads(take(amqp, target)[1])["celsius"] == 100
    (kept,) = (json.loads(line) for line in mgw.ok("aq", "dequeue", "BAD", "--json").splitlines())
    assert kept["text"] == "<not json>"
    assert "celsius" in next(value for name, _, value in kept["headers"] if name == "MGW_error")


def _texts(mgw: Mgw, queue: str) -> list[str]:
    result = mgw("aq", "browse", queue, "--json", "--count", "1000")
    return [json.loads(line)["text"] for line in result.out.splitlines()]


def test_message_of_20_mb_arrives_whole_or_is_put_aside_whole_with_the_limit_it_broke(
    mgw: Mgw, rabbitmq: RabbitMQ, kafka: Kafka, mosquitto: Mosquitto, amqp: BlockingChannel
) -> None:
    source, target, topic = declare(amqp, "big"), declare(amqp, "big"), unique("big")
    kafka.create_topic(topic, config={"max.message.bytes": "1000000"})
    body = random.Random(7).randbytes(BIG)
    received = mgw.folder / "received"
    file = mgw.file(
        f"links:\n  {rabbit_link(rabbitmq)}\n  {kafka_link(kafka)}\n  {plant_link(mosquitto)}\n"
        "foreign_queues:\n"
        f"  in@rabbit: {{provider_queue: {source}, domain: queue}}\n"
        f"  out@rabbit: {{provider_queue: {target}, domain: queue}}\n"
        f"  out@kafka: {{provider_queue: {topic}}}\n"
        f"  out@plant: {{provider_queue: {topic.replace('.', '/')}, domain: topic}}\n"
        "queues:\n  BIG: {multiple_consumers: true}\n  BAD: {}\n"
        "jobs:\n"
        "  to_rabbit: {type: outbound, source: BIG, destination: out@rabbit}\n"
        "  to_plant: {type: outbound, source: BIG, destination: out@plant}\n"
        "  to_kafka: {type: outbound, source: BIG, destination: out@kafka, exception_queue: BAD}\n"
        "  big_in: {type: inbound, source: in@rabbit, destination: BIG}\n"
    )
    words = ["-h", mosquitto.host, "-p", str(mosquitto.port), "-q", "1", "-N", "-C", "1", "-W", "90"]
    with received.open("wb") as sink:
        reader = subprocess.Popen(["mosquitto_sub", *words, "-t", topic.replace(".", "/")], stdout=sink)
    try:
        with running(mgw, file) as agent:
            amqp.basic_publish("", source, body, pika.BasicProperties(delivery_mode=2))
            for job in ("big_in", "to_rabbit", "to_plant"):
                agent.counts(job, "propagated_total", 1)
            agent.counts("to_kafka", "exceptionq_total", 1)
        assert reader.wait(90) == 0
    finally:
        reader.kill()
        reader.wait()
    digest = hashlib.sha256(body).digest()
    assert hashlib.sha256(take(amqp, target)[1]).digest() == digest
    assert hashlib.sha256(received.read_bytes()).digest() == digest
    (shown,) = (json.loads(line) for line in mgw.ok("aq", "browse", "BAD", "--json").splitlines())
    reason = next(value for name, _, value in shown["headers"] if name == "MGW_error")
    for part in (topic, "too large", "max.message.bytes"):
        assert part in reason
    done = subprocess.run(
        mgw.command("aq", "dequeue", "BAD", "--body"),
        cwd=mgw.folder,
        env=mgw.environment(),
        capture_output=True,
        check=True,
    )
    assert hashlib.sha256(done.stdout).digest() == digest


def test_header_name_of_300_characters_goes_to_the_exception_queue_or_stays_at_its_source(
    mgw: Mgw, kafka: Kafka
) -> None:
    name, source, bad = "n" * 300, unique("long"), unique("bad")
    kafka.create_topic(source)
    kafka.create_topic(bad)
    produce(kafka, source, b"first", [(name, b"v"), ("short", b"kept")])
    produce(kafka, source, b"second")
    text = (
        f"links:\n  {kafka_link(kafka)}\n"
        "foreign_queues:\n"
        f"  in@kafka: {{provider_queue: {source}, options: {{KAFKA_StartAt: earliest, KAFKA_ValueType: TEXT}}}}\n"
        f"  bad@kafka: {{provider_queue: {bad}}}\n"
        "queues:\n  H: {}\n"
        "jobs:\n  in: {type: inbound, source: in@kafka, destination: H}\n"
    )
    with running(mgw, mgw.file(text)) as agent:
        agent.fails("in", "300")
        assert _texts(mgw, "H") == []
        mgw.ok("jobs", "alter", "in", "--exception-queue", "bad@kafka")
        agent.moves("in")
    assert _texts(mgw, "H") == ["second"]
    found = record(kafka, bad)
    assert found.value == b"first"
    headers = {header: value.decode() for header, value in found.headers}
    assert any("300" in value for header, value in headers.items() if "MGW_error" in header)
    assert any(value == "kept" for value in headers.values())
    refused(mgw("aq", "enqueue", "H", "x", "-H", f"{name}=v"), "300", "mgw: error: ")
    assert _texts(mgw, "H") == ["second"]


@pytest.mark.parametrize("payload_type", ["TEXT", "RAW"])
def test_mqtt_payload_with_nul_bytes_arrives_byte_for_byte(
    mgw: Mgw, mosquitto: Mosquitto, kafka: Kafka, payload_type: str
) -> None:
    payload = b"\x00before\x00\x00after\x00" if payload_type == "TEXT" else b"\x00\xff\x00\xfe\x00"
    topic = unique("nul")
    kafka.create_topic(topic)
    (mgw.folder / "payload").write_bytes(payload)
    file = mgw.file(
        f"links:\n  {plant_link(mosquitto)}\n  {kafka_link(kafka)}\n"
        "foreign_queues:\n"
        f"  in@plant: {{provider_queue: {topic}, domain: topic, options: {{MQTT_PayloadType: {payload_type}}}}}\n"
        f"  out@kafka: {{provider_queue: {topic}}}\n"
        "queues:\n  H: {multiple_consumers: true}\n"
        "jobs:\n"
        "  out: {type: outbound, source: H, destination: out@kafka}\n"
        "  in: {type: inbound, source: in@plant, destination: H}\n"
    )
    with running(mgw, file) as agent:
        agent.until(lambda: agent.job("in")["activity"] in ("IDLE", "RUNNING"), "subscription")
        words = ["-h", mosquitto.host, "-p", str(mosquitto.port), "-q", "1", "-t", topic, "-f", "payload"]
        subprocess.run(["mosquitto_pub", *words], cwd=mgw.folder, check=True, timeout=20)
        agent.moves("in")
        agent.moves("out")
        assert record(kafka, topic).value == payload


def test_source_that_lost_messages_stops_the_job_until_a_person_gives_them_up(mgw: Mgw, kafka: Kafka) -> None:
    topic = unique("gone")
    kafka.create_topic(topic)
    produce(kafka, topic, b"read before")
    file = mgw.file(
        f"links:\n  {kafka_link(kafka)}\n"
        "foreign_queues:\n"
        f"  in@kafka: {{provider_queue: {topic}, options: {{KAFKA_StartAt: earliest, KAFKA_ValueType: TEXT}}}}\n"
        "queues:\n  H: {}\n"
        "jobs:\n  in: {type: inbound, source: in@kafka, destination: H}\n"
    )
    with running(mgw, file) as agent:
        agent.counts("in", "propagated_total", 1)
    with closing(KafkaAdminClient(bootstrap_servers=kafka.bootstrap)) as client:
        client.delete_topics([topic])
    eventually(lambda: _created(kafka, topic), deadline=STEPS, what="the topic again")
    produce(kafka, topic, b"in another topic of that name")
    with running(mgw) as agent:
        agent.until(lambda: agent.job("in")["status"] == "FAILED", "failure")
        error = str(agent.job("in")["last_error_msg"])
        for part in ("[415]", topic, "cause: ", "cure: ", "RESET_SUB_MISSING_MESSAGE"):
            assert part in error
        assert _texts(mgw, "H") == ["read before"]
        mgw.ok("agents", "cleanup", "RESET_SUB_MISSING_MESSAGE", "in")
        agent.counts("in", "propagated_total", 2)
    assert _texts(mgw, "H") == ["read before", "in another topic of that name"]


def _created(kafka: Kafka, topic: str) -> bool:
    try:
        kafka.create_topic(topic)
    except TopicAlreadyExistsError:
        return False
    return True


# ----------------------------------------------------------------------------------------------------- the hub


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[list[str]]:
    """Command words that enter a place where ``tmp_path/disk`` is a file system of 24 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    private = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
    script = f"mount -t tmpfs -o size=24m tmpfs {disk} && echo ready && exec cat"
    holder = subprocess.Popen([*private, "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdin is not None
    assert holder.stdout is not None
    with holder.stdin, holder.stdout:
        try:
            assert holder.stdout.readline() == b"ready\n", "no file system of its own (unshare, mount)"
            user = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
            yield ["nsenter", f"--target={holder.pid}", "--mount", *user, "--wdns=" + str(tmp_path)]
        finally:
            holder.kill()
            holder.wait()


def test_full_disk_is_named_and_every_message_arrives_once_there_is_room(
    mgw: Mgw, small_disk: list[str], rabbitmq: RabbitMQ, amqp: BlockingChannel
) -> None:
    class MgwThere(Mgw):
        def command(self, *words: str) -> list[str]:
            return [*small_disk, *super().command(*words)]

    disk = mgw.folder / "disk"
    there = MgwThere(mgw.folder, mgw.environ | {"MGW_HUB": f"sqlite:///{disk}/hub.db"})
    source, target = declare(amqp, "in"), declare(amqp, "out")
    bodies = [f"{number} ".encode() + bytes(200_000) for number in range(10)]
    file = there.file(
        f"links:\n  {rabbit_link(rabbitmq)}\n"
        "foreign_queues:\n"
        f"  in@rabbit: {{provider_queue: {source}, domain: queue}}\n"
        f"  out@rabbit: {{provider_queue: {target}, domain: queue}}\n"
        "queues:\n  H: {}\n"
        "jobs:\n  in: {type: inbound, source: in@rabbit, destination: H, batch_size: 1}\n"
        "  out: {type: outbound, source: H, destination: out@rabbit}\n"
    )
    there.ok("apply", file)
    with running(there) as agent:
        send(amqp, source, b"0 first")
        agent.until(lambda: depth(amqp, target) == 1, "the first message at its destination")
        fill = f"dd if=/dev/zero of={disk}/filler bs=4k 2>/dev/null; df --output=avail {disk}"
        free = subprocess.run([*small_disk, "sh", "-c", fill], capture_output=True, check=True, text=True).stdout
        assert free.split() == ["Avail", "0"]
        send(amqp, source, *bodies)
        agent.until(lambda: "is full" in agent.said, "the report of the full disk")
        assert agent.process.poll() is None
        said = next(line for line in agent.said.splitlines() if "is full" in line)
        for part in (f"{disk}/hub.db is full", "cause: ", "cure: free space on the disk"):
            assert part in said
        refused(there("aq", "enqueue", "H", "x" * 100_000), "hub.db is full", "cause: ", "cure: free space")
        assert there("status").code == 0
        assert "Traceback" not in agent.said
        subprocess.run([*small_disk, "rm", f"{disk}/filler"], check=True)
        there.ok("jobs", "reset", "in")
        agent.until(lambda: depth(amqp, target) == 1 + len(bodies), "all messages at their destination")
        agent.until(lambda: agent.job("out")["status"] == agent.job("in")["status"] == "READY", "recovery")
    assert [take(amqp, target)[1] for _ in range(1 + len(bodies))] == [b"0 first", *bodies]


def test_hub_of_a_newer_version_is_refused_by_every_command_and_left_untouched(mgw: Mgw) -> None:
    file = mgw.file(SOUND)
    mgw.ok("apply", file)
    connection = sqlite3.connect(mgw.folder / "hub.db")
    connection.execute("UPDATE aq_hub SET schema_version = 999")
    connection.commit()
    connection.close()
    before = (mgw.folder / "hub.db").read_bytes()
    commands = [
        ("apply", file),
        ("plan", file),
        ("run",),
        ("run", file),
        ("status",),
        ("export",),
        ("top",),
        ("events",),
    ]
    for words in [*commands, ("jobs", "list"), ("links", "test", "rabbit"), ("aq", "browse", "ORDERS")]:
        refused(mgw(*words), "hub.db was written by a newer release", "cause: ", "999", "cure: install the newer")
    assert (mgw.folder / "hub.db").read_bytes() == before


def test_same_agent_started_twice_is_refused_and_the_first_carries_on(
    mgw: Mgw, rabbitmq: RabbitMQ, amqp: BlockingChannel
) -> None:
    source = declare(amqp, "orders")
    file = mgw.file(
        f"links:\n  {rabbit_link(rabbitmq)}\n"
        f"foreign_queues:\n  orders@rabbit: {{provider_queue: {source}, domain: queue}}\n"
        "queues:\n  ORDERS: {}\n"
        "jobs:\n  orders_in: {type: inbound, source: orders@rabbit, destination: ORDERS}\n"
    )
    with running(mgw, file) as agent:
        send(amqp, source, b"one")
        agent.moves("orders_in", 1)
        second = mgw("run")
        refused(second, "agent DEFAULT_AGENT is already running", "cause: ", "cure: ", str(agent.process.pid))
        (shown,) = json.loads(mgw.ok("status", "--json"))["agents"]
        assert (shown["agent_status"], shown["agent_pid"]) == ("RUNNING", agent.process.pid)
        send(amqp, source, b"two")
        agent.moves("orders_in", 2)
    assert _texts(mgw, "ORDERS") == ["one", "two"]
