"""Messages that real brokers refuse, and numbers that they do not take: nothing stops, is lost or comes twice."""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pika
import pytest
from kafka import TopicPartition, errors

import mgw.links.kafka.python_client.client
import mgw.transforms.amqp.outbound
from mgw.gateway.runtime import retry
from mgw.gateway.runtime.retry import decide
from mgw.links.kafka.timestamps import Timestamps
from mgw.transforms.message import Header, Message, ValueType
from tests.support.brokers import Kafka, Mosquitto, RabbitMQ
from tests.support.gateways import Gateway, gateway_on
from tests.support.kafka_clients import KafkaConsumer
from tests.support.waiting import eventually

HOUR = 3_600_000  # milliseconds
ORIGINAL = "MGW_KAFKA_originalTimestamp"
COUNT = 60


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        gateway.queue("H")
        gateway.queue("BAD")
        yield gateway


def numbered(bad: Collection[int], header: Header, *, count: int = COUNT) -> list[Message]:
    return [Message(b"%d" % n, (header,) if n in bad else ()) for n in range(count)]


def calm(gateway: Gateway, job: str) -> None:
    """No attempt of the job has failed."""
    assert not [text for text in gateway.events() if f"job {job}: failure" in text]


class TestKafka:
    pytestmark = pytest.mark.kafka

    @pytest.fixture(params=["at-least-once", "exact"])
    def topic(self, request: pytest.FixtureRequest, gateway: Gateway, kafka: Kafka) -> str:
        """A topic for a job ``out`` from H.

        At least once it has one partition: a batch to a second one may be on its way when the first refuses, and what
        has no key goes to any of them when it is sent again.
        """
        topic, link = f"refused-{uuid.uuid4().hex}", dict[str, Any]()
        kafka.create_topic(topic, 2 if request.param == "exact" else 1)
        if request.param == "exact":
            link["outbound_log_queue"] = f"{topic}-log"
            kafka.create_topic(link["outbound_log_queue"], 1, {"cleanup.policy": "compact"})
        gateway.admin.create_msgsystem_link("kf", "KAFKA", {"bootstrap_servers": kafka.bootstrap}, **link)
        gateway.admin.register_foreign_queue("TO", "kf", topic)
        return topic

    @staticmethod
    def job(gateway: Gateway, *, exceptions: str | None = "BAD") -> None:
        gateway.admin.create_job(
            "out", "OUTBOUND", "H", "TO@kf", exception_queue=exceptions, options={"MsgBatchSize": "10"}
        )

    @staticmethod
    def records(kafka: Kafka, topic: str, count: int) -> list[Any]:
        """What a reader of what is committed finds, by partition."""
        consumer = KafkaConsumer(bootstrap_servers=kafka.bootstrap, group_id=None, isolation_level="read_committed")
        try:
            places = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
            consumer.assign(places)
            consumer.seek_to_beginning(*places)
            found: dict[int, list[Any]] = {place.partition: [] for place in places}

            def enough() -> bool:
                for place, records in consumer.poll(timeout_ms=200).items():
                    found[place.partition] += records
                return sum(map(len, found.values())) >= count

            eventually(enough, what=f"{count} records in {topic}")
            for records in found.values():
                bodies = [int(record.value) for record in records]
                assert bodies == sorted(bodies), "order"
            return [record for records in found.values() for record in records]
        finally:
            consumer.close()

    def check(self, gateway: Gateway, kafka: Kafka, topic: str, bad: Collection[int] = ()) -> list[Any]:
        """Everything else arrives once and in order."""
        eventually(lambda: gateway.job("out")["EXCEPTIONQ_TOTAL"] == len(bad), what="set aside")
        eventually(lambda: gateway.job("out")["PROPAGATED_TOTAL"] == COUNT - len(bad), what="carried")
        found = self.records(kafka, topic, COUNT - len(bad))
        assert sorted(int(record.value) for record in found) == [n for n in range(COUNT) if n not in bad]
        assert [int(message.body) for message in gateway.browse("BAD")] == sorted(bad)  # type: ignore[arg-type]
        calm(gateway, "out")
        return found

    @pytest.mark.parametrize("exceptions", ["BAD", None])
    def test_a_timestamp_that_lies_ahead_is_moved_and_kept(
        self, gateway: Gateway, kafka: Kafka, topic: str, exceptions: str | None
    ) -> None:
        ahead = int(time.time() * 1000) + 48 * HOUR
        gateway.enqueue("H", numbered((0, 7, 33, 59), Header("MGW_KAFKA_timestamp", ValueType.LONG, ahead)))
        self.job(gateway, exceptions=exceptions)
        with gateway.run():
            found = {int(record.value): record for record in self.check(gateway, kafka, topic)}
            for number in (0, 7, 33, 59):
                assert dict(found[number].headers)[ORIGINAL] == b"%d" % ahead
                assert found[number].timestamp < int(time.time() * 1000) + HOUR
            assert ORIGINAL not in dict(found[1].headers)
            gateway.queue("BACK")
            gateway.admin.register_foreign_queue("FROM", "kf", topic, options={"KAFKA_StartAt": "earliest"})
            gateway.admin.create_job("into", "INBOUND", "FROM@kf", "BACK")
            eventually(lambda: gateway.job("into")["PROPAGATED_TOTAL"] == COUNT, what="all back")
        back = {int(message.body): message for message in gateway.browse("BACK")}  # type: ignore[arg-type]
        assert [header for header in back[7].headers if header.name == ORIGINAL] == [
            Header(ORIGINAL, ValueType.LONG, ahead)
        ]

    def test_limits_that_change_while_the_job_runs_are_learnt_from_the_refusal(
        self, gateway: Gateway, kafka: Kafka, topic: str
    ) -> None:
        kafka.configure_topic(topic, {"message.timestamp.after.max.ms": str(100 * HOUR)})
        self.job(gateway)
        now = int(time.time() * 1000)
        with gateway.run():
            far = Header("MGW_KAFKA_timestamp", ValueType.LONG, now + 48 * HOUR)
            gateway.enqueue("H", [Message(b"0", (far,))])
            eventually(lambda: gateway.job("out")["PROPAGATED_TOTAL"] == 1, what="as it was")
            limits = {"message.timestamp.after.max.ms": str(HOUR), "message.timestamp.before.max.ms": str(HOUR)}
            kafka.configure_topic(topic, limits)
            old = Header("MGW_KAFKA_timestamp", ValueType.LONG, now - 48 * HOUR)
            more = [Message(b"%d" % n, (far,) if n % 9 == 4 else (old,) if n % 9 == 7 else ()) for n in range(1, COUNT)]
            gateway.enqueue("H", more)
            found = {int(record.value): record for record in self.check(gateway, kafka, topic)}
        assert found[0].timestamp == now + 48 * HOUR
        assert dict(found[4].headers)[ORIGINAL] == b"%d" % (now + 48 * HOUR)
        assert dict(found[7].headers)[ORIGINAL] == b"%d" % (now - 48 * HOUR)

    def test_limits_that_may_not_be_read_are_learnt_from_the_refusal(
        self, gateway: Gateway, kafka: Kafka, topic: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = mgw.links.kafka.python_client.client._read_config
        monkeypatch.setattr(
            mgw.links.kafka.python_client.client,
            "_read_config",
            lambda admin, name: None if name == topic else real(admin, name),
        )
        ahead = int(time.time() * 1000) + 48 * HOUR
        gateway.enqueue("H", numbered((7, 8, 33), Header("MGW_KAFKA_timestamp", ValueType.LONG, ahead)))
        self.job(gateway)
        with gateway.run():
            self.check(gateway, kafka, topic)

    def test_a_topic_that_writes_its_own_timestamps_takes_any(self, gateway: Gateway, kafka: Kafka, topic: str) -> None:
        kafka.configure_topic(topic, {"message.timestamp.type": "LogAppendTime"})
        gateway.enqueue("H", numbered((7,), Header("MGW_KAFKA_timestamp", ValueType.LONG, 2**62)))
        self.job(gateway)
        with gateway.run():
            found = self.check(gateway, kafka, topic)
        assert all(ORIGINAL not in dict(record.headers) for record in found)

    @pytest.mark.parametrize("code", [None, 999], ids=["invalid record", "a code that nobody knows"])
    def test_a_record_that_is_refused_for_another_reason_is_set_aside(
        self, gateway: Gateway, kafka: Kafka, topic: str, monkeypatch: pytest.MonkeyPatch, code: int | None
    ) -> None:
        """The topic begins to ask for keys while the job runs."""
        if code is not None:
            answers = errors.for_code

            def for_code(number: int) -> Any:
                return answers(code if number == 87 else number)

            monkeypatch.setattr(errors, "for_code", for_code)
        self.job(gateway)
        with gateway.run():
            gateway.enqueue("H", [Message(b"0", correlation="k")])
            eventually(lambda: gateway.job("out")["PROPAGATED_TOTAL"] == 1, what="connected")
            monkeypatch.setattr("mgw.links.kafka.target.Target.learn", lambda *_: None)
            kafka.configure_topic(topic, {"cleanup.policy": "compact"})
            bad = (5, 6, 23, 41)
            gateway.enqueue("H", [Message(b"%d" % n, correlation=None if n in bad else "k") for n in range(1, COUNT)])
            self.check(gateway, kafka, topic, bad)
        assert all(message.header("MGW_error") for message in gateway.browse("BAD"))


def test_clocks_that_differ_are_told_apart_from_a_message() -> None:
    """A release of Kafka that does not say what it takes, and refuses even the time of now."""
    timestamps, refusal = Timestamps(), errors.InvalidTimestampError("One or more records have been rejected")
    timestamps.learn({"message.timestamp.after.max.ms": str(HOUR)})
    assert timestamps.refused(refusal, 1e9)
    window = timestamps.window(1e9)
    assert window is not None
    assert window.latest == 10**12
    assert not timestamps.refused(refusal, 1e9)


class TestRabbitMQ:
    pytestmark = pytest.mark.rabbitmq

    @pytest.fixture(params=["at-least-once", "logged"])
    def queue(self, request: pytest.FixtureRequest, gateway: Gateway, rabbitmq: RabbitMQ) -> Iterator[Any]:
        """A channel and the name of a queue, to which job ``out`` writes."""
        name, link = f"refused-{uuid.uuid4().hex}", dict[str, Any]()
        connection = pika.BlockingConnection(pika.URLParameters(rabbitmq.url))
        channel = connection.channel()
        channel.queue_declare(name, durable=True)
        if request.param == "logged":
            link["outbound_log_queue"] = f"{name}.log"
            arguments = {"x-max-length": 2, "x-queue-type": "classic"}
            channel.queue_declare(link["outbound_log_queue"], durable=True, arguments=arguments)
        place = {"hostname": rabbitmq.host, "port": rabbitmq.port, "virtual_host": rabbitmq.vhost}
        gateway.admin.create_msgsystem_link(
            "rb", "RABBITMQ", place, username=rabbitmq.username, password=rabbitmq.password, **link
        )
        gateway.admin.register_foreign_queue("TO", "rb", name)
        gateway.admin.create_job("out", "OUTBOUND", "H", "TO@rb", exception_queue="BAD", options={"MsgBatchSize": "10"})
        yield channel, name
        connection.close()

    @staticmethod
    def taken(channel: Any, name: str, count: int) -> list[tuple[Any, bytes]]:
        found: list[tuple[Any, bytes]] = []

        def enough() -> bool:
            while True:
                method, properties, body = channel.basic_get(name, auto_ack=True)
                if method is None:
                    return len(found) >= count
                found.append((properties, body))

        eventually(enough, what=f"{count} messages in {name}")
        return found

    def test_an_expiry_that_rabbitmq_cannot_count_travels_in_a_header(self, gateway: Gateway, queue: Any) -> None:
        channel, name = queue
        # Time passes on the way: ten minutes above the limit (unit tests know it to the millisecond).
        ages = [60.0, 4_294_967.0, 4_295_567.0, 315_360_001.0, 2.0**32 - 1, 2.0**40 - 1]
        gateway.enqueue("H", [Message(b"%d" % n, expiration=age) for n, age in enumerate(ages)])
        with gateway.run():
            found = self.taken(channel, name, len(ages))
        assert [body for _, body in found] == [b"%d" % n for n in range(len(ages))]
        assert [properties.expiration is not None for properties, _ in found] == [True, True, *[False] * 4]
        now = time.time()
        for (properties, _), age in list(zip(found, ages, strict=True))[2:]:
            assert properties.headers["MGW_AQ_expires_at"] / 1000 == pytest.approx(now + age, abs=60)
        assert gateway.browse("BAD") == []
        calm(gateway, "out")

    def test_a_message_for_which_the_channel_is_closed_is_set_aside(
        self, gateway: Gateway, queue: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The gateway of before sent what the broker answers with 406."""
        monkeypatch.setattr(mgw.transforms.amqp.outbound, "MAX_EXPIRATION", 2**62)
        channel, name = queue
        bad = (0, 7, 8, 33)
        gateway.enqueue("H", [Message(b"%d" % n, expiration=2.0**32 if n in bad else None) for n in range(COUNT)])
        with gateway.run():
            eventually(lambda: gateway.job("out")["EXCEPTIONQ_TOTAL"] == len(bad), what="set aside")
            eventually(lambda: gateway.job("out")["PROPAGATED_TOTAL"] == COUNT - len(bad), what="carried")
            found = [int(body) for _, body in self.taken(channel, name, COUNT - len(bad))]
        calm(gateway, "out")
        first = list(dict.fromkeys(found))
        assert first == [n for n in range(COUNT) if n not in bad]
        if gateway.job("out")["GUARANTEE"] != "at-least-once":
            assert found == first, "nothing twice"
        set_aside = gateway.browse("BAD")
        assert [int(message.body) for message in set_aside] == list(bad)  # type: ignore[arg-type]
        assert all("invalid expiration" in str(message.header("MGW_error")) for message in set_aside)

    @pytest.mark.parametrize("queue", ["at-least-once"], indirect=True)
    def test_a_full_queue_is_waited_for(self, gateway: Gateway, queue: Any) -> None:
        channel, name = queue
        channel.queue_delete(name)
        channel.queue_declare(name, durable=True, arguments={"x-max-length": 5, "x-overflow": "reject-publish"})
        gateway.enqueue("H", [Message(b"%d" % n) for n in range(20)])
        with gateway.run():
            eventually(lambda: any("nack" in text for text in gateway.events()), what="refused")
            assert gateway.browse("BAD") == []
            assert gateway.job("out")["EXCEPTIONQ_TOTAL"] == 0

    @pytest.mark.parametrize("queue", ["at-least-once"], indirect=True)
    def test_a_queue_that_holds_less_than_a_batch_gets_everything_as_it_is_read(
        self, gateway: Gateway, queue: Any
    ) -> None:
        channel, name = queue
        channel.queue_delete(name)
        channel.queue_declare(name, durable=True, arguments={"x-max-length": 8, "x-overflow": "reject-publish"})
        gateway.enqueue("H", [Message(b"%d" % n) for n in range(20)])
        found: list[int] = []
        with gateway.run():
            for _ in range(8):
                eventually(lambda: channel.queue_declare(name, passive=True).method.message_count > 0, what="filled")
                found += [int(body) for _, body in self.taken(channel, name, 1)]
                if len(set(found)) == 20:
                    break
            assert sorted(set(found)) == list(range(20))
            eventually(lambda: gateway.job("out")["PROPAGATED_TOTAL"] == 20, what="completed")
        assert sorted(found) == list(range(20)), "what the broker confirmed is not sent again"
        assert gateway.browse("BAD") == []


class TestMqtt:
    pytestmark = pytest.mark.mosquitto

    @staticmethod
    def reader(port: int, topic: str) -> tuple[Any, list[bytes]]:
        from paho.mqtt import client

        found: list[bytes] = []
        ready: list[bool] = []
        reader = client.Client(client.CallbackAPIVersion.VERSION2, protocol=client.MQTTv5)
        reader.on_message = lambda _c, _u, message: found.append(message.payload)
        reader.on_subscribe = lambda *_: ready.append(True)
        reader.connect("127.0.0.1", port)
        reader.loop_start()
        reader.subscribe(topic, 1)
        eventually(lambda: bool(ready), what="subscribed")
        return reader, found

    @staticmethod
    def job(gateway: Gateway, port: int, **attributes: Any) -> None:
        gateway.admin.create_msgsystem_link("mq", "MQTT", {"hostname": "127.0.0.1", "port": port} | attributes)
        gateway.admin.register_foreign_queue("TO", "mq", "refused/t")
        gateway.admin.create_job("out", "OUTBOUND", "H", "TO@mq", exception_queue="BAD", options={"MsgBatchSize": "10"})

    def test_messages_that_the_broker_answers_with_an_error_are_set_aside(self, gateway: Gateway) -> None:
        """It closes the connection behind its answer, which is lost when much is on its way."""
        bad = (0, 7, 33)
        with Mosquitto(config=("message_size_limit 1000",)) as broker:
            reader, found = self.reader(broker.port, "refused/t")
            try:
                self.job(gateway, broker.port)
                bodies = [b"%d" % n + (b"." * 2000 if n in bad else b"") for n in range(COUNT)]
                gateway.enqueue("H", [Message(body) for body in bodies])
                with gateway.run():
                    eventually(lambda: gateway.job("out")["EXCEPTIONQ_TOTAL"] == len(bad), what="set aside")
                    eventually(lambda: gateway.job("out")["PROPAGATED_TOTAL"] == COUNT - len(bad), what="carried")
                    eventually(lambda: len(found) >= COUNT - len(bad), what="arrived")
            finally:
                reader.loop_stop()
                reader.disconnect()
        first = list(dict.fromkeys(found))  # a lost connection may double what was on its way
        assert sorted(first, key=int) == [body for n, body in enumerate(bodies) if n not in bad]
        assert [message.body for message in gateway.browse("BAD")] == [bodies[n] for n in bad]

    def test_a_message_over_which_the_broker_ends_the_connection_without_a_word_is_set_aside(
        self, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """MQTT 3.1.1 has no answer for it, and no way to tell the limit."""
        monkeypatch.setattr(retry, "decide", lambda *given, **more: replace(decide(*given, **more), delay=0.01))
        bad = (7, 8, 33)
        with Mosquitto(config=("max_packet_size 1000",)) as broker:
            reader, found = self.reader(broker.port, "refused/t")
            try:
                self.job(gateway, broker.port, protocol_version=4)
                bodies = [b"%d" % n + (b"." * 2000 if n in bad else b"") for n in range(COUNT)]
                gateway.enqueue("H", [Message(body) for body in bodies])
                with gateway.run():
                    eventually(lambda: gateway.job("out")["EXCEPTIONQ_TOTAL"] == len(bad), what="set aside")
                    eventually(lambda: gateway.job("out")["PROPAGATED_TOTAL"] == COUNT - len(bad), what="carried")
                    eventually(lambda: len(found) >= COUNT - len(bad), what="arrived")
            finally:
                reader.loop_stop()
                reader.disconnect()
        first = list(dict.fromkeys(found))  # a lost connection may double what was on its way
        assert first == [body for n, body in enumerate(bodies) if n not in bad]
        set_aside = gateway.browse("BAD")
        assert [message.body for message in set_aside] == [bodies[n] for n in bad]
        assert all("when this message was sent alone" in str(message.header("MGW_error")) for message in set_aside)

    def test_each_expiry_is_taken(self, gateway: Gateway, mosquitto: Mosquitto) -> None:
        reader, found = self.reader(mosquitto.port, "refused/t")
        try:
            self.job(gateway, mosquitto.port)
            ages = [0.001, 60.0, 2.0**32 - 2, 2.0**32 - 1, 2.0**32, 2.0**40 - 1]
            gateway.enqueue("H", [Message(b"%d" % n, expiration=age) for n, age in enumerate(ages) if n])
            with gateway.run():
                eventually(lambda: len(found) == len(ages) - 1, what="arrived")
        finally:
            reader.loop_stop()
            reader.disconnect()
        assert found == [b"%d" % n for n in range(1, len(ages))]
        calm(gateway, "out")
