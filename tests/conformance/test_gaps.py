"""Messages that are gone at a source before a job has read them: what is reported, and where the job goes on."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pika
import pika.exceptions
import pytest
import sqlalchemy as sa
from kafka import KafkaAdminClient, TopicPartition
from kafka.errors import TopicAlreadyExistsError

from mgw.gateway.ledger import check
from mgw.links.memory.broker import MemoryBroker
from mgw.transforms.errors import PositionLost
from mgw.transforms.gap import Gap
from mgw.transforms.message import Message
from tests.conformance.link_suite import unique
from tests.conformance.test_mqtt_link import mosquitto_pub
from tests.support.brokers import Kafka, Mosquitto, RabbitMQ
from tests.support.gateways import Gateway, gateway_on
from tests.support.kafka_clients import KafkaProducer
from tests.support.waiting import eventually

PATIENCE = 60.0
ACCEPT = "RESET_SUB_MISSING_MESSAGE"


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        gateway.queue("H")
        yield gateway


def missing(gateway: Gateway) -> list[str]:
    """Texts of the events that tell of a gap, oldest first."""
    with gateway.hub.read() as conn:
        query = sa.text("SELECT text FROM gw_event WHERE name = 'MessagesMissing' ORDER BY id")
        return [row[0] for row in conn.execute(query)]


def proof(gateway: Gateway, job: str) -> check.Proof:
    found = gateway.admin.get_job(job)
    assert found is not None
    with gateway.hub.read() as conn:
        return check.reconcile(conn, found, gateway.hub.hub_id)


class Topic:
    """A topic of Kafka with two partitions, read by job J into queue H."""

    def __init__(self, server: Kafka, gateway: Gateway, client: str = "kafka-python", **job: Any) -> None:
        self.server, self.gateway = server, gateway
        self.name = unique("gaps")
        self.server.create_topic(self.name, 2)
        self.put([f"{number}-{at}" for number in (0, 1) for at in range(5)])
        place = {"bootstrap_servers": server.bootstrap, "client": client}
        gateway.admin.create_msgsystem_link("kf", "KAFKA", place)
        gateway.admin.register_foreign_queue(
            "T", "kf", self.name, options={"KAFKA_StartAt": "earliest", "KAFKA_ValueType": "TEXT"}
        )
        gateway.admin.create_job("J", "INBOUND", "T@kf", "H", poll_interval=0.2, **job)

    def put(self, bodies: Sequence[str]) -> None:
        """``<partition>-<number>``."""
        with closing(KafkaProducer(bootstrap_servers=self.server.bootstrap)) as producer:
            for body in bodies:
                producer.send(self.name, body.encode(), partition=int(body[0])).get(30)

    def cut(self, before: Mapping[int, int]) -> None:
        """Delete what is before an offset, by partition."""
        with closing(KafkaAdminClient(bootstrap_servers=self.server.bootstrap)) as admin:
            admin.delete_records({TopicPartition(self.name, number): offset for number, offset in before.items()})

    def came(self, partition: int) -> list[str]:
        """What came of a partition, in order."""
        found = [str(message.body) for message in self.gateway.browse("H")]
        return [body for body in found if body.startswith(str(partition))]

    def first_part(self) -> None:
        """What is there is carried; then ten more come into each partition, while no agent runs."""
        with self.gateway.run():
            eventually(lambda: len(self.gateway.browse("H")) == 10, deadline=PATIENCE, what="the first ten")
        self.put([f"{number}-{at}" for number in (0, 1) for at in range(5, 15)])


def offsets(partition: int, *ranges: range) -> list[str]:
    return [f"{partition}-{at}" for each in ranges for at in each]


def failed(gateway: Gateway) -> bool:
    return bool(gateway.job("J")["STATUS"] == "FAILED")


CLIENTS = ["kafka-python", pytest.param("confluent", marks=pytest.mark.matrix)]


@pytest.mark.kafka
def test_only_the_partition_with_a_gap_is_moved_and_a_restart_forgets_nothing(kafka: Kafka, gateway: Gateway) -> None:
    topic = Topic(kafka, gateway)
    topic.first_part()
    topic.cut({0: 12})
    for _ in range(2):  # the agent is started again between the failure and what the operator decides
        with gateway.run():
            eventually(lambda: failed(gateway), deadline=PATIENCE, what="a job that stopped")
    (told,) = missing(gateway)
    for part in ("job J", "T@kf", "partition 0: offsets 5 to 11 (at most 7 messages)", "retention", "the job stopped"):
        assert part in told
    assert "partition 1" not in told
    with gateway.run():
        eventually(lambda: failed(gateway), deadline=PATIENCE, what="a job that stopped")
        gateway.admin.cleanup_gateway(ACCEPT, "J")
        eventually(lambda: len(gateway.browse("H")) >= 23, deadline=PATIENCE, what="all that is left")
        topic.put(["0-15", "1-15"])
        eventually(lambda: len(gateway.browse("H")) >= 25, deadline=PATIENCE, what="what comes later")
    assert topic.came(0) == offsets(0, range(5), range(12, 16))
    assert topic.came(1) == offsets(1, range(16)), "nothing twice, nothing missing"
    assert len(missing(gateway)) == 2
    accepted = missing(gateway)[-1]
    for part in ("offsets 5 to 11", "an operator accepted the loss", "partition 0: offset 12"):
        assert part in accepted
    proven = proof(gateway, "J")
    assert (proven.offences, proven.messages) == ([], 25)
    assert gateway.job("J")["STATUS"] == "READY"


@pytest.mark.kafka
@pytest.mark.parametrize("client", CLIENTS)
def test_a_job_that_may_goes_on_without_an_operator(kafka: Kafka, gateway: Gateway, client: str) -> None:
    topic = Topic(kafka, gateway, client, options={"on_missing": "continue"})
    topic.first_part()
    topic.cut({0: 12, 1: 6})
    with gateway.run():
        eventually(lambda: len(gateway.browse("H")) >= 22, deadline=PATIENCE, what="all that is left")
    assert topic.came(0) == offsets(0, range(5), range(12, 15))
    assert topic.came(1) == offsets(1, range(5), range(6, 15))
    (told,) = missing(gateway)
    for part in (
        "partition 0: offsets 5 to 11 (at most 7 messages)",
        "partition 1: offset 5 (at most 1 message)",
        "on_missing is continue",
        "goes on at partition 0: offset 12, partition 1: offset 6",
    ):
        assert part in told
    proven = proof(gateway, "J")
    assert (proven.offences, proven.messages) == ([], 22)
    assert not any("FAILED" in text for text in gateway.events())


@pytest.mark.kafka
def test_what_is_cut_after_the_operator_was_told_is_told_as_well(kafka: Kafka, gateway: Gateway) -> None:
    topic = Topic(kafka, gateway)
    topic.first_part()
    topic.cut({0: 8})
    with gateway.run():
        eventually(lambda: failed(gateway), deadline=PATIENCE, what="a job that stopped")
        topic.cut({0: 10})
        gateway.admin.cleanup_gateway(ACCEPT, "J")
        eventually(lambda: len(missing(gateway)) == 3, deadline=PATIENCE, what="another range")
        assert "partition 0: offsets 8 to 9 (at most 2 messages)" in missing(gateway)[-1]
        eventually(lambda: failed(gateway), deadline=PATIENCE, what="a job that stopped again")
        gateway.admin.cleanup_gateway(ACCEPT, "J")
        eventually(lambda: len(gateway.browse("H")) >= 25, deadline=PATIENCE, what="all that is left")
    assert topic.came(0) == offsets(0, range(5), range(10, 15))
    assert topic.came(1) == offsets(1, range(15))


@pytest.mark.kafka
@pytest.mark.matrix
@pytest.mark.parametrize("client", ["kafka-python", "confluent"])
def test_a_topic_created_again_with_fewer_partitions_is_read_from_its_beginning(
    kafka: Kafka, gateway: Gateway, client: str
) -> None:
    topic = Topic(kafka, gateway, client, options={"on_missing": "continue"})
    topic.first_part()
    with closing(KafkaAdminClient(bootstrap_servers=kafka.bootstrap)) as admin:
        admin.delete_topics([topic.name])
    eventually(lambda: created(topic), what="the topic again")
    topic.put(["0-100", "0-101"])
    with gateway.run():
        eventually(lambda: len(gateway.browse("H")) >= 12, deadline=PATIENCE, what="the new topic")
        topic.put(["0-102"])
        eventually(lambda: len(gateway.browse("H")) >= 13, deadline=PATIENCE, what="what comes later")
    assert topic.came(0)[5:] == ["0-100", "0-101", "0-102"]
    (told,) = missing(gateway)
    assert "partition 0: offset 5 and what followed it, partition 1: offset 5 and what followed it" in told
    assert "deleted and created again" in told


def created(topic: Topic) -> bool:
    try:
        topic.server.create_topic(topic.name, 1)
    except TopicAlreadyExistsError:
        return False
    return True


@pytest.mark.kafka
@pytest.mark.matrix
@pytest.mark.parametrize("client", ["kafka-python", "confluent"])
def test_a_log_that_ends_before_the_position_is_read_again_in_that_partition(
    kafka: Kafka, gateway: Gateway, client: str
) -> None:
    """As after an election of a server that lacked the last records."""
    topic = Topic(kafka, gateway, client, options={"on_missing": "continue"})
    topic.first_part()
    with gateway.hub.write() as conn:
        change = "UPDATE gw_position SET value = replace(value, '\"offset\": 5', '\"offset\": 40') WHERE part = '1'"
        assert conn.execute(sa.text(change)).rowcount == 1
    with gateway.run():
        eventually(lambda: len(gateway.browse("H")) >= 35, deadline=PATIENCE, what="one partition again")
    assert topic.came(0) == offsets(0, range(15))
    assert topic.came(1) == offsets(1, range(5), range(15))
    (told,) = missing(gateway)
    for part in ("partition 1: which messages, nobody can tell", "offset 40 is beyond the end of the log, 15", "twice"):
        assert part in told
    assert "partition 0" not in told


@pytest.mark.kafka
@pytest.mark.matrix
def test_records_deleted_under_a_job_that_carries_from_topic_to_topic(kafka: Kafka, gateway: Gateway) -> None:
    """The job reads while its log is cut, again and again; what it does not carry is what the events say.

    With kafka-python: librdkafka has read all of it ahead.
    """
    topic = Topic(kafka, gateway)
    target = unique("to")
    kafka.create_topic(target, 2)
    gateway.admin.register_foreign_queue("TO", "kf", target)
    gateway.admin.alter_msgsystem_link("kf", options={"KAFKA_Max_partition_fetch_bytes": "2000"})
    gateway.admin.create_job(
        "T", "THROUGH", "T@kf", "TO@kf", poll_interval=0.2, options={"on_missing": "continue", "MsgBatchSize": "10"}
    )
    gateway.admin.disable_job("J")
    count = 3000
    with closing(KafkaProducer(bootstrap_servers=kafka.bootstrap)) as producer:
        for number in range(count):
            producer.send(topic.name, f"{number:04d}".encode() + b"x" * 200, partition=0)
        producer.flush()
    with gateway.run():
        eventually(lambda: gateway.job("T")["PROPAGATED_TOTAL"] > 20, deadline=PATIENCE, what="a job on its way")
        for _ in range(2):
            before = min(stored(gateway) + 1000, count)
            topic.cut({0: before})
            eventually(lambda: stored(gateway) >= before, deadline=PATIENCE, what="a job behind what was cut")  # noqa: B023
        eventually(lambda: stored(gateway) == count + 5, deadline=PATIENCE, what="a job at the end")
    lost = sum(int(n) for text in missing(gateway) for n in re.findall(r"at most (\d+) messages?\)", text))
    job = gateway.job("T")
    assert missing(gateway)
    assert job["PROPAGATED_TOTAL"] + lost == count + 10
    proven = proof(gateway, "T")
    assert proven.offences == []


def stored(gateway: Gateway) -> int:
    """The position of job T in partition 0."""
    job = gateway.admin.get_job("T")
    assert job is not None
    with gateway.hub.read() as conn:
        query = sa.text("SELECT value FROM gw_position WHERE job_id = :job AND part = '0'")
        text = conn.execute(query, {"job": job.id}).scalar()
    return int(json.loads(text)["offset"]) if text else 0


# ------------------------------------------------------------------------------------------------------ any other log


@pytest.fixture
def log(gateway: Gateway) -> Iterator[MemoryBroker]:
    broker = MemoryBroker.get(uuid.uuid4().hex)
    broker.log("L")
    gateway.admin.create_msgsystem_link("mem", "MEMORY", {"broker": broker.name})
    gateway.admin.register_foreign_queue("L", "mem")
    yield broker
    MemoryBroker.drop(broker.name)


def put(broker: MemoryBroker, *numbers: int) -> None:
    broker.put("L", *(Message(body=f"{number}") for number in numbers))


def bodies(gateway: Gateway) -> list[str]:
    return [str(message.body) for message in gateway.browse("H")]


def carry_and_lose(gateway: Gateway, broker: MemoryBroker, before: int) -> None:
    """Three messages are carried, seven come, and those before an offset are gone."""
    put(broker, 0, 1, 2)
    with gateway.run():
        eventually(lambda: len(bodies(gateway)) == 3, what="the first three")
    put(broker, *range(3, 10))
    broker.log("L").discard_before(before)


def test_a_gap_that_grows_while_the_job_is_stopped_is_told_again_and_one_that_does_not_is_told_once(
    gateway: Gateway, log: MemoryBroker
) -> None:
    gateway.admin.create_job("J", "INBOUND", "L@mem", "H", poll_interval=0.2)
    carry_and_lose(gateway, log, 5)
    for before, told in ((5, 1), (5, 1), (7, 2)):
        log.log("L").discard_before(before)
        with gateway.run():
            eventually(lambda: failed(gateway), what="a job that stopped")
        assert len(missing(gateway)) == told
    assert "offsets 3 to 6 (at most 4 messages)" in missing(gateway)[-1]
    assert gateway.job("J")["FAILURES"] == 1


def test_a_gap_that_was_closed_is_not_given_up_later(gateway: Gateway, log: MemoryBroker) -> None:
    """The messages are there again when the job tries again; then something else stops it."""
    gateway.admin.create_job("J", "INBOUND", "L@mem", "H", poll_interval=0.2)
    carry_and_lose(gateway, log, 5)
    store = log.log("L")
    with gateway.run():
        eventually(lambda: failed(gateway), what="a job that stopped")
    store.first = 3  # put back by hand
    with gateway.hub.read() as conn:
        assert conn.execute(sa.text("SELECT count(*) FROM gw_position WHERE part LIKE '!gap:%'")).scalar() == 1
    with gateway.run():
        eventually(lambda: len(bodies(gateway)) == 8, what="all that is there")
        eventually(lambda: gateway.job("J")["STATUS"] == "READY", what="a job that works")
    with gateway.hub.read() as conn:
        assert conn.execute(sa.text("SELECT count(*) FROM gw_position WHERE part LIKE '!gap:%'")).scalar() == 0


@pytest.mark.parametrize("kind", ["INBOUND", "THROUGH"])
def test_a_log_that_lost_its_end_is_read_from_its_beginning(gateway: Gateway, log: MemoryBroker, kind: str) -> None:
    out = log.queue("OUT")
    gateway.admin.register_foreign_queue("OUT", "mem")
    target = "H" if kind == "INBOUND" else "OUT@mem"

    def came() -> list[str]:
        return bodies(gateway) if kind == "INBOUND" else [str(message.body) for message in out.messages]

    gateway.admin.create_job("J", kind, "L@mem", target, poll_interval=0.2, options={"on_missing": "continue"})
    put(log, *range(5))
    with gateway.run():
        eventually(lambda: len(came()) == 5, what="the first five")
    log.delete("L")
    log.log("L")
    put(log, 100, 101)
    with gateway.run():
        eventually(lambda: len(came()) == 7, what="what the new log has")
        put(log, 102)
        eventually(lambda: len(came()) == 8, what="what comes later")
    assert came()[5:] == ["100", "101", "102"]
    (told,) = missing(gateway)
    assert "it lost its end" in told
    assert "the oldest message that is left" in told


def test_a_job_that_finds_gaps_again_and_again_waits_between_its_attempts(gateway: Gateway, log: MemoryBroker) -> None:
    gateway.admin.create_job("J", "INBOUND", "L@mem", "H", poll_interval=0.2, options={"on_missing": "continue"})
    lost = PositionLost("gone", operation="connect", number=415).missing(Gap("0", 3, 4, "somebody cut it", 5, "4"))
    log.fail_next("connect", lost, times=1000)
    with gateway.run():
        eventually(lambda: len(missing(gateway)) == 3, what="three attempts")
        gateway.admin.disable_job("J")
        eventually(lambda: gateway.job("J")["ACTIVITY"] == "STOPPED", what="a job that stops while it waits")
    assert len(missing(gateway)) <= 4


def test_an_error_without_a_range_is_told_with_its_cause(gateway: Gateway, log: MemoryBroker) -> None:
    gateway.admin.create_job("J", "INBOUND", "L@mem", "H", poll_interval=0.2, options={"on_missing": "continue"})
    log.fail_next("connect", PositionLost("gone", operation="connect", number=415, cause="it was purged"))
    with gateway.run():
        eventually(lambda: failed(gateway), what="a job that stopped, as nobody can tell behind what it would go on")
    (told,) = missing(gateway)
    assert "which messages, nobody can tell (it was purged); the job stopped" in told


# ------------------------------------------------------------------------------------------------- streams of RabbitMQ


@pytest.mark.rabbitmq
@pytest.mark.parametrize("choice", ["continue", pytest.param("stop", marks=pytest.mark.matrix)])
def test_a_stream_that_forgot_its_beginning_is_read_on_behind_the_gap(
    rabbitmq: RabbitMQ, gateway: Gateway, choice: str
) -> None:
    stream = unique("forgetful")
    arguments = {"x-queue-type": "stream", "x-max-length-bytes": 20_000, "x-stream-max-segment-size-bytes": 10_000}
    with closing(pika.BlockingConnection(pika.ConnectionParameters(rabbitmq.host, rabbitmq.port))) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare(stream, durable=True, arguments=arguments)

        def send(start: int, stop: int, filling: str = "") -> None:
            for number in range(start, stop):
                body = f"{number}{filling}".encode()
                channel.basic_publish("", stream, body, pika.BasicProperties(delivery_mode=2))

        place = {"hostname": rabbitmq.host, "port": rabbitmq.port}
        place |= {"username": rabbitmq.username, "password": rabbitmq.password}
        gateway.admin.create_msgsystem_link("rmq", "RABBITMQ", place)
        gateway.admin.register_foreign_queue("S", "rmq", stream, options={"AMQP_StreamOffset": "first"})
        gateway.admin.create_job("J", "INBOUND", "S@rmq", "H", poll_interval=0.2, options={"on_missing": choice})
        send(0, 3)
        with gateway.run():
            eventually(lambda: len(gateway.browse("H")) == 3, deadline=PATIENCE, what="the first three")
        count = 3

        def forgotten() -> bool:
            nonlocal count
            send(count, count + 100, " " * 1000)
            count += 100
            return first_offset(connection, stream) > 10

        eventually(forgotten, deadline=PATIENCE, what="a stream without its beginning")
        with gateway.run():
            if choice == "stop":
                eventually(lambda: failed(gateway), deadline=PATIENCE, what="a job that stopped")
                gateway.admin.cleanup_gateway(ACCEPT, "J")
            eventually(lambda: numbers_of(gateway)[-1:] == [count - 1], deadline=PATIENCE, what="all that is left")
            send(count, count + 1)
            eventually(lambda: numbers_of(gateway)[-1:] == [count], deadline=PATIENCE, what="what comes later")
    came = numbers_of(gateway)
    oldest = came[3]
    assert came == [0, 1, 2, *range(oldest, count + 1)], "in order, once, and nothing left out behind the gap"
    told = missing(gateway)
    assert len(told) == (2 if choice == "stop" else 1)
    found = re.search(r"partition 0: offsets 3 to (\d+) \(at most (\d+) messages\)", told[-1])
    assert found is not None
    last, size = map(int, found.groups())
    assert size == last - 2 >= oldest - 3, "entries of the broker itself have offsets, too"
    assert f"goes on at partition 0: offset {last + 1}" in told[-1]
    proven = proof(gateway, "J")
    assert (proven.offences, proven.messages) == ([], len(came))


class Stream:
    """A stream of RabbitMQ, read by job J into queue H; it is said to lack its end after four seconds."""

    def __init__(self, server: RabbitMQ, gateway: Gateway, choice: str) -> None:
        self.gateway, self.name = gateway, unique("again")
        credentials = pika.PlainCredentials(server.username, server.password)
        self.where = pika.ConnectionParameters(server.host, server.port, credentials=credentials)
        self.connect()
        self.create()
        place = {"hostname": server.host, "port": server.port}
        place |= {"username": server.username, "password": server.password}
        gateway.admin.create_msgsystem_link("rmq", "RABBITMQ", place, options={"AMQP_AnswerTimeout": "1"})
        gateway.admin.register_foreign_queue("S", "rmq", self.name, options={"AMQP_StreamOffset": "first"})
        gateway.admin.create_job("J", "INBOUND", "S@rmq", "H", poll_interval=0.2, options={"on_missing": choice})

    def connect(self) -> None:
        self.connection = pika.BlockingConnection(self.where)
        self.channel = self.connection.channel()
        self.channel.confirm_delivery()

    def create(self) -> None:
        self.channel.queue_declare(self.name, durable=True, arguments={"x-queue-type": "stream"})

    def recreate(self, *numbers: int) -> None:
        self.channel.queue_delete(self.name)
        self.create()
        self.send(*numbers)

    def send(self, *numbers: int) -> None:
        for number in numbers:
            self.channel.basic_publish("", self.name, b"%d" % number, pika.BasicProperties(delivery_mode=2))

    def came(self, *numbers: int) -> None:
        """All of these are in the queue, in order, and none twice."""
        wanted = list(numbers)
        eventually(lambda: len(numbers_of(self.gateway)) >= len(wanted), deadline=PATIENCE, what=f"{wanted}")
        assert numbers_of(self.gateway) == wanted


def error_of(gateway: Gateway) -> str:
    return str(gateway.job("J")["LAST_ERROR_MSG"] or "")


@pytest.mark.rabbitmq
@pytest.mark.parametrize("choice", ["continue", pytest.param("stop", marks=pytest.mark.matrix)])
@pytest.mark.parametrize(
    "again",
    [
        pytest.param((100, 101), id="shorter"),
        pytest.param((), id="empty", marks=pytest.mark.matrix),
        pytest.param((100, 101, 102, 103, 104), id="same length", marks=pytest.mark.matrix),
        pytest.param((100, 101, 102, 103, 104, 105, 106), id="longer", marks=pytest.mark.matrix),
    ],
)
def test_a_stream_deleted_and_made_again_is_read_from_its_beginning(
    rabbitmq: RabbitMQ, gateway: Gateway, choice: str, again: tuple[int, ...]
) -> None:
    stream = Stream(rabbitmq, gateway, choice)
    with closing(stream.connection):
        stream.send(*range(5))
        with gateway.run():
            stream.came(*range(5))
        stream.recreate(*again)
        if choice == "stop":
            for _ in range(2):  # the agent is started again between the failure and what the operator decides
                with gateway.run():
                    eventually(lambda: failed(gateway), deadline=PATIENCE, what="a job that stopped")
            assert len(missing(gateway)) == 1
        with gateway.run():
            if choice == "stop":
                eventually(lambda: failed(gateway), deadline=PATIENCE, what="a job that stopped")
                gateway.admin.cleanup_gateway(ACCEPT, "J")
            eventually(
                lambda: any("goes on" in told for told in missing(gateway)),
                deadline=PATIENCE,
                what="a job that goes on",
            )
            stream.came(*range(5), *again)
        stream.send(200, 201)
        with gateway.run():
            stream.came(*range(5), *again, 200, 201)
        with gateway.run():
            stream.send(202)
            stream.came(*range(5), *again, 200, 201, 202)
    told = missing(gateway)
    assert len(told) == (2 if choice == "stop" else 1)
    for part in ("job J", "S@rmq", "partition 0: offset 5 and what followed it", "re-created", "the oldest message"):
        assert part in told[-1]
    proven = proof(gateway, "J")
    assert (proven.offences, proven.messages) == ([], 8 + len(again))


@pytest.mark.rabbitmq
def test_a_stream_that_grows_below_the_stored_offset_is_not_taken_for_a_new_one_at_once(
    rabbitmq: RabbitMQ, gateway: Gateway
) -> None:
    """As on a node that was away and catches up. What the job knows of it meanwhile, its error says."""
    stream = Stream(rabbitmq, gateway, "stop")
    with closing(stream.connection):
        stream.send(*range(50))
        with gateway.run():
            stream.came(*range(50))
        stream.recreate(100)
        seen: list[str] = []
        with gateway.run():
            for number in range(101, 105):
                eventually(lambda: error_of(gateway) not in ["", *seen], deadline=PATIENCE, what="another look")
                seen.append(error_of(gateway))
                stream.send(number)
            assert missing(gateway) == []
            for text in seen:
                for part in ("S@rmq", "does not reach offset 49", "it ends at offset", "re-created", "reports"):
                    assert part in text
            eventually(lambda: failed(gateway), deadline=PATIENCE, what="a job that stopped")
        (told,) = missing(gateway)
        assert "offset 50 and what followed it" in told


@pytest.mark.rabbitmq
def test_a_stream_that_is_idle_or_whose_broker_was_away_lacks_nothing(gateway: Gateway) -> None:
    def at_rest() -> None:
        def seen() -> bool:
            job = gateway.job("J")
            assert (job["STATUS"], job["ACTIVITY"]) == ("READY", "IDLE"), job["LAST_ERROR_MSG"]
            return True

        eventually(seen, deadline=PATIENCE, what="a job at rest")

    with RabbitMQ() as server:
        stream = Stream(server, gateway, "stop")
        stream.send(*range(5))
        with gateway.run():
            stream.came(*range(5))
        with gateway.run():
            at_rest()
            assert gateway.job("J")["FAILURES"] == 0, "the stream ends at what is stored"
            stream.connection.close()
            server.stop()
            eventually(lambda: gateway.job("J")["STATUS"] == "RETRY", deadline=PATIENCE, what="a job without broker")
            server.start()
            at_rest()
            stream.connect()
            eventually(lambda: sent(stream, 5), deadline=PATIENCE, what="a stream that has a leader again")
            eventually(lambda: numbers_of(gateway)[-1] == 5, deadline=PATIENCE, what="what comes later")
        stream.connection.close()
    assert missing(gateway) == []


def sent(stream: Stream, number: int) -> bool:
    try:
        stream.send(number)
    except pika.exceptions.AMQPError:
        with suppress(pika.exceptions.AMQPError):
            stream.connection.close()
        stream.connect()
        return False
    return True


def first_offset(connection: pika.BlockingConnection, stream: str) -> int:
    channel = connection.channel()
    channel.basic_qos(prefetch_count=1)
    try:
        arguments = {"x-stream-offset": "first"}
        for _method, properties, _ in channel.consume(stream, arguments=arguments, inactivity_timeout=5):
            return int(properties.headers["x-stream-offset"]) if properties else -1
    finally:
        channel.close()
    return -1


def numbers_of(gateway: Gateway) -> list[int]:
    return [int(message.body.strip()) for message in gateway.browse("H")]  # type: ignore[union-attr]


# --------------------------------------------------------------------------------------------------- sessions of MQTT


@pytest.mark.mosquitto
@pytest.mark.parametrize(
    "config",
    [
        pytest.param((), id="packet ids are logged"),
        pytest.param(("sys_interval 0",), id="packet ids may be anything", marks=pytest.mark.matrix),
    ],
)
def test_a_session_that_the_broker_lost_is_told_with_what_is_known_of_it(
    gateway: Gateway, config: tuple[str, ...]
) -> None:
    with Mosquitto(config=config) as broker:
        where = {"hostname": broker.host, "port": broker.port}
        gateway.admin.create_msgsystem_link("plant", "MQTT", where)
        gateway.admin.register_foreign_queue("T", "plant", "t")
        gateway.admin.create_job("J", "INBOUND", "T@plant", "H", poll_interval=0.2)

        def connected() -> bool:
            return bool(gateway.job("J")["ACTIVITY"] == "IDLE" and gateway.job("J")["STATUS"] == "READY")

        def wiped() -> None:
            broker.stop()
            for path in (broker.folder / "data").iterdir():
                path.unlink()
            broker.start()

        for _ in range(2):  # the first connect, and one to a session that is there
            with gateway.run():
                eventually(connected, deadline=PATIENCE, what="a job that is connected")
        assert missing(gateway) == []
        wiped()  # before the first message
        with gateway.run():
            eventually(lambda: len(missing(gateway)) == 1, deadline=PATIENCE, what="the event")
            eventually(connected, deadline=PATIENCE, what="a job that is connected")
            mosquitto_pub(broker.port, "t", b"one")
            eventually(lambda: len(gateway.browse("H")) == 1, deadline=PATIENCE, what="a message")
            wiped()  # under a job that is connected
            eventually(lambda: len(missing(gateway)) == 2, deadline=PATIENCE, what="the event")
            eventually(connected, deadline=PATIENCE, what="a job that is connected")
            mosquitto_pub(broker.port, "t", b"two")
            eventually(lambda: len(gateway.browse("H")) == 2, deadline=PATIENCE, what="another message")
        with gateway.run():
            eventually(connected, deadline=PATIENCE, what="a job that is connected")
        for told in missing(gateway):
            for part in ("T@plant", "no longer has the session", "the hub last heard of it 20", "the job goes on"):
                assert part in told
        assert len(missing(gateway)) == 2
