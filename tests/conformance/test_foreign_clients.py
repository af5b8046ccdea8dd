"""Messages that other programs write, carried from broker to broker, as those programs read them in the end.

RabbitMQ's client for Java and amqp-tools, Kafka's console tools, Mosquitto's clients: none of them shares code with the
gateway, and each says itself what it sees.
"""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pika
import pytest

from tests.support.amqp_client import amqp_client
from tests.support.brokers import Kafka, Mosquitto, RabbitMQ
from tests.support.gateways import Gateway, gateway_on
from tests.support.waiting import eventually

#: Headers that gateways add, and RabbitMQ's properties that they fill where nobody else does.
ADDED = ("MGW_", "content-", "message-id")
EVERYTHING = {"AQ_MsgProperties": "TRUE"}


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        yield gateway


class Line:
    """Brokers that messages pass one after the other, between two of them through the hub or in a job of its own."""

    def __init__(self, gateway: Gateway, *brokers: RabbitMQ | Kafka | Mosquitto, through: bool = False) -> None:
        self.gateway = gateway
        self.names = [f"f{uuid.uuid4().hex[:8]}" for _ in brokers]
        self.jobs: list[str] = []
        self._links: set[str] = set()
        places = [self._place(broker, name) for broker, name in zip(brokers, self.names, strict=True)]
        for number, (source, target) in enumerate(pairwise(places)):
            if through:
                self._job(f"through{number}", "THROUGH", source, target)
                continue
            gateway.queue(f"H{number}")
            self._job(f"in{number}", "INBOUND", source, f"H{number}")
            self._job(f"out{number}", "OUTBOUND", f"H{number}", target)

    def _job(self, name: str, kind: str, source: str, target: str) -> None:
        self.jobs.append(name)
        self.gateway.admin.create_job(name, kind, source, target, poll_interval=0.5, options=EVERYTHING)

    def _place(self, broker: RabbitMQ | Kafka | Mosquitto, name: str) -> str:
        options = {}
        if isinstance(broker, RabbitMQ):
            link = self._link("RABBITMQ", {"hostname": broker.host, "port": broker.port}, broker)
            with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
                connection.channel().queue_declare(name, durable=True)
        elif isinstance(broker, Kafka):
            link = self._link("KAFKA", {"bootstrap_servers": broker.bootstrap})
            broker.create_topic(name)
            options = {"KAFKA_StartAt": "earliest"}
        else:
            link = self._link("MQTT", {"hostname": broker.host, "port": broker.port, "protocol_version": 5})
        self.gateway.admin.register_foreign_queue(name, link, name, options=options)
        return f"{name}@{link}"

    def _link(self, kind: str, where: dict[str, object], login: RabbitMQ | None = None) -> str:
        if kind not in self._links:
            self._links.add(kind)
            more = {"username": login.username, "password": login.password} if login else {}
            self.gateway.admin.create_msgsystem_link(kind.lower(), kind, where, **more)
        return kind.lower()

    def ready(self) -> None:
        """Wait until all subscriptions are there: before that, MQTT has nobody to keep a message for."""
        for job in self.jobs:
            eventually(
                lambda job=job: self.gateway.job(job)["GUARANTEE"] and self.gateway.job(job)["ACTIVITY"] == "IDLE",
                deadline=60,
                what=f"job {job}: {self.gateway.job(job)['LAST_ERROR_MSG']}",
            )


def run(*command: str, given: bytes | None = None) -> str:
    done = subprocess.run(command, input=given, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, (command, done.stderr.decode(errors="replace")[-2000:])
    return done.stdout.decode(errors="replace")


def told(lines: str) -> dict[str, str]:
    """What the Java client says, without the headers that the gateway and its brokers add."""
    found = dict(line.split("\t", 1) for line in lines.splitlines())
    return {name: value for name, value in found.items() if not name.startswith("header MGW_")}


def as_java_reads_it(gateway: Gateway, line: Line, rabbitmq: RabbitMQ) -> None:
    with gateway.run():
        line.ready()
        sent = told(run(*amqp_client(rabbitmq.url, "publish", line.names[0])))
        found = told(run(*amqp_client(rabbitmq.url, "get", line.names[-1])))
    assert len(sent) > 35
    assert found == sent


def test_java_client_reads_every_type_of_header_as_it_sent_it_over_kafka(
    gateway: Gateway, rabbitmq: RabbitMQ, kafka: Kafka
) -> None:
    as_java_reads_it(gateway, Line(gateway, rabbitmq, kafka, rabbitmq), rabbitmq)


@pytest.mark.matrix
@pytest.mark.parametrize("through", [False, True])
@pytest.mark.parametrize("over", ["kafka", "mosquitto", "rabbitmq"])
def test_java_client_reads_what_it_sent_over_every_broker(
    gateway: Gateway, rabbitmq: RabbitMQ, request: pytest.FixtureRequest, over: str, through: bool
) -> None:
    line = Line(gateway, rabbitmq, request.getfixturevalue(over), rabbitmq, through=through)
    as_java_reads_it(gateway, line, rabbitmq)


# -- Kafka's console tools ---------------------------------------------------------------------------------------------

#: Headers, key, value; NULL is null in the console tools.
RECORDS = [
    "one:1,two:ü€,one:2,one:1,empty:\tkey ü\tvalue",
    "gone:NULL,here:x\tkey\tvalue of a null header",
    "why:deleted\tkey\tNULL",
    "h:no key\tNULL\tvalue",
    "h:NULL,h:1,h:NULL\tNULL\t42",
]


def records_of(kafka: Kafka, topic: str, count: int) -> list[tuple[list[str], str, str]]:
    """What the console consumer sees, without the headers that gateways and brokers add."""
    options = ["print.headers=true", "print.key=true", "null.literal=NULL"]
    options += ["headers.separator=<header>", "key.separator=<part>", "line.separator=<record>"]  # an id has any bytes
    more = [word for option in options for word in ("--formatter-property", option)]
    found = []
    text = run(*kafka.console_consumer(topic, "--from-beginning", "--max-messages", str(count), *more))
    for record in text.split("<record>")[:count]:
        headers, key, value = record.split("<part>")
        own = [each for each in headers.split("<header>") if not each.startswith(ADDED)]
        found.append((own, key, value))
    return found


@pytest.mark.matrix
@pytest.mark.parametrize("through", [False, True])
@pytest.mark.parametrize("over", ["rabbitmq", "mosquitto", "kafka"])
def test_console_consumer_sees_the_keys_nulls_and_headers_of_the_console_producer(
    gateway: Gateway, kafka: Kafka, request: pytest.FixtureRequest, over: str, through: bool
) -> None:
    line = Line(gateway, kafka, request.getfixturevalue(over), kafka, through=through)
    reader = ("parse.key=true", "parse.headers=true", "null.marker=NULL")
    options = [word for option in reader for word in ("--reader-property", option)]
    with gateway.run():
        line.ready()
        run(*kafka.console_producer(line.names[0], *options), given="".join(f"{each}\n" for each in RECORDS).encode())
        sent = records_of(kafka, line.names[0], len(RECORDS))
        found = records_of(kafka, line.names[-1], len(RECORDS))
    assert [("\t".join((",".join(headers), key, value))) for headers, key, value in sent] == RECORDS
    # A client of Python cannot write a null header: it is empty, and MGW_types tells the next gateway.
    assert found == [([each.replace(":NULL", ":") for each in headers], key, value) for headers, key, value in sent]


# -- Mosquitto's clients -----------------------------------------------------------------------------------------------

SHOWN = "%C|%D|%F|%R|%P|%X|%r|%E"  # content type, correlation, format, response topic, user properties, payload in hex
PUBLISHED = (
    *("content-type", "application/x-proof; a=ü", "correlation-data", "corr-€", "response-topic", "answers/1"),
    *("payload-format-indicator", "1", "message-expiry-interval", "100000"),
)


def published(broker: Mosquitto, topic: str, payload: str) -> None:
    words = ["-h", broker.host, "-p", str(broker.port), "-V", "5", "-q", "1", "-t", topic, "-m", payload]
    for name, value in zip(PUBLISHED[::2], PUBLISHED[1::2], strict=True):
        words += ["-D", "publish", name, value]
    for name, value in (("a", "1"), ("b", "ü€"), ("a", "2"), ("a", "1"), ("traceparent", "00-01")):
        words += ["-D", "publish", "user-property", name, value]
    run("mosquitto_pub", *words)


def as_mosquitto_reads_it(gateway: Gateway, line: Line, broker: Mosquitto) -> None:
    where = ["-h", broker.host, "-p", str(broker.port), "-V", "5", "-c", "-x", "600", "-q", "1"]
    ends = {name: [*where, "-i", f"reader-{name}", "-t", name] for name in (line.names[0], line.names[-1])}
    for words in ends.values():
        run("mosquitto_sub", *words, "-E")  # the session is there, and keeps what comes
    with gateway.run():
        line.ready()
        published(broker, line.names[0], "text ü")
        sent, found = (
            run("mosquitto_sub", *words, "-C", "1", "-W", "60", "-F", SHOWN).strip() for words in ends.values()
        )
    *shown, left = found.split("|")
    *wanted, all_of_it = sent.split("|")
    shown[4] = " ".join(each for each in shown[4].split(" ") if not each.startswith(ADDED))
    assert wanted[4] == "a:1 b:ü€ a:2 a:1 traceparent:00-01"
    assert shown == wanted
    assert abs(int(all_of_it) - int(left)) < 100, "of 100,000 seconds, whose count each broker rounds"


def test_mosquitto_sub_sees_the_properties_of_mosquitto_pub_over_rabbitmq(
    gateway: Gateway, rabbitmq: RabbitMQ, mosquitto: Mosquitto
) -> None:
    as_mosquitto_reads_it(gateway, Line(gateway, mosquitto, rabbitmq, mosquitto), mosquitto)


@pytest.mark.matrix
@pytest.mark.parametrize("through", [False, True])
@pytest.mark.parametrize("over", ["kafka", "mosquitto", "rabbitmq"])
def test_mosquitto_sub_sees_the_properties_of_mosquitto_pub_over_every_broker(
    gateway: Gateway, mosquitto: Mosquitto, request: pytest.FixtureRequest, over: str, through: bool
) -> None:
    line = Line(gateway, mosquitto, request.getfixturevalue(over), mosquitto, through=through)
    as_mosquitto_reads_it(gateway, line, mosquitto)


# -- amqp-tools --------------------------------------------------------------------------------------------------------


@pytest.mark.matrix
@pytest.mark.parametrize("through", [False, True])
@pytest.mark.parametrize("over", ["kafka", "mosquitto"])
def test_java_client_reads_what_amqp_publish_sent_over_every_broker(
    gateway: Gateway, rabbitmq: RabbitMQ, request: pytest.FixtureRequest, over: str, through: bool
) -> None:
    line = Line(gateway, rabbitmq, request.getfixturevalue(over), rabbitmq, through=through)
    beside = f"beside-{line.names[0]}"
    with pika.BlockingConnection(pika.URLParameters(rabbitmq.url)) as connection:
        connection.channel().queue_declare(beside, durable=True)
    words = ["--server", rabbitmq.host, "--port", str(rabbitmq.port)]
    words += ["--username", rabbitmq.username, "--password", rabbitmq.password, "-p"]
    words += ["-C", "text/plain", "-E", "utf-8", "-t", "answers", "-H", "one: ü", "-H", "two: 2", "-b", "text ü"]
    with gateway.run():
        line.ready()
        for queue in (line.names[0], beside):
            run("amqp-publish", *words, "-r", queue)
        sent, found = (told(run(*amqp_client(rabbitmq.url, "get", queue))) for queue in (beside, line.names[-1]))
    assert sent["header one"] == "text c3bc"
    # The gateway adds what the sender left out: its id, the time, and the priority that no priority is.
    added = ("message id", "timestamp", "priority")
    assert {name: value for name, value in found.items() if name not in added} == {
        name: value for name, value in sent.items() if name not in added
    }
