"""Kafka passes the suite of every link, and what is special about it."""

from __future__ import annotations

import gc
import itertools
import json
import logging
import os
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest
from kafka.admin import NewPartitions
from kafka.errors import InvalidReplicationFactorError

import mgw.links.kafka.destination
import mgw.links.kafka.python_client.consumer
from mgw.links.contract import Backlog, Direction, Domain, Endpoint, Guarantee, Link, LinkConfig
from mgw.links.kafka.link import SPEC, KafkaLink
from mgw.links.registry import open_link
from mgw.transforms.errors import (
    AdminError,
    ConfigInvalid,
    ConversionFailure,
    DeliveryRejected,
    LinkError,
    LinkRefused,
    LinkTimeout,
    PositionLost,
    QueueMissing,
)
from mgw.transforms.message import Header, Message, ValueType
from tests.conformance.link_suite import (
    SOON,
    LinkSuite,
    LinkTemplate,
    Pair,
    Reader,
    Wire,
    Writer,
    body_bytes,
    first_occurrences,
    numbered,
    numbers,
    reading,
    unique,
    use_of,
    wait_until,
    writing,
)
from tests.support.brokers import Kafka
from tests.support.kafka_clients import KafkaAdminClient, KafkaProducer
from tests.support.proxy import TcpProxy
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka

_CALM = {"KAFKA_Bootstrap_timeout_ms": "4000", "KAFKA_Metadata_max_age_ms": "500"}
_HASTY = {
    "KAFKA_Bootstrap_timeout_ms": "3000",
    "KAFKA_Request_timeout_ms": "3000",
    "KAFKA_Delivery_timeout_ms": "3000",
    "KAFKA_Metadata_max_age_ms": "500",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Kafka]:
    """A broker of our own, because it is stopped and restarted; one that creates topics when it is asked carelessly."""
    config = {"auto.create.topics.enable": "true", "log.retention.check.interval.ms": "500"}
    with Kafka(tls=True, username="mgw", password="s3cret-word", config=config) as server:
        yield server


def create(broker: Kafka, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
    """Create a topic and wait until the broker knows it; one that was frozen needs a moment to be let in again."""

    def created() -> bool:
        try:
            broker.create_topic(name, partitions, config)
        except InvalidReplicationFactorError:
            return False
        return True

    wait_until(created, "a broker that takes topics")
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        admin.wait_for_topics([name])
    finally:
        admin.close()


class KafkaWire:
    def __init__(self, proxy: TcpProxy) -> None:
        self._proxy = proxy

    def cut(self) -> None:
        self._proxy.cut()

    def stall(self) -> None:
        self._proxy.stall()

    def refuse(self) -> None:
        self._proxy.refuse()
        self._proxy.cut()

    def resume(self) -> None:
        self._proxy.resume()
        self._proxy.accept()


class KafkaTemplate(LinkTemplate):
    spec = SPEC

    def __init__(self, broker: Kafka, client: str = "kafka-python") -> None:
        self.broker = broker
        self.client = client

    def link(self, **options: str) -> KafkaLink:
        return self.link_to(self.broker.bootstrap, options={**_CALM, **options})

    def link_to(
        self,
        servers: str,
        *,
        attributes: Mapping[str, str] | None = None,
        options: Mapping[str, str] = _HASTY,
        **login: str,
    ) -> KafkaLink:
        given = {"bootstrap_servers": servers, "client": self.client, **(attributes or {})}
        link = open_link(LinkConfig("kf", "KAFKA", given, options, **login))
        assert isinstance(link, KafkaLink)
        return link

    def sasl(self, password: str, mechanism: str = "PLAIN") -> KafkaLink:
        servers = self.broker.sasl_bootstrap
        assert servers is not None
        attributes = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism}
        return self.link_to(servers, attributes=attributes, username="mgw", password=password)

    def tls(self, ca: str | None, servers: str | None = None) -> KafkaLink:
        attributes = {"security_protocol": "SSL"} | ({"tls_ca_file": ca} if ca else {})
        return self.link_to(servers or self.broker.tls_bootstrap or "", attributes=attributes)

    def pair(
        self, partitions: int = 1, config: Mapping[str, str] | None = None, options: Mapping[str, str] | None = None
    ) -> Pair:
        name = unique("topic")
        create(self.broker, name, partitions, config)
        return self.pair_of(name, options)

    def pair_of(self, name: str, options: Mapping[str, str] | None = None) -> Pair:
        return Pair(
            Endpoint("src", "kf", name, None, options or {}), Endpoint("dst", "kf", name, Domain.TOPIC, options or {})
        )

    def missing(self) -> Pair:
        return self.pair_of(unique("nowhere"))

    @contextmanager
    def disturbed(self) -> Iterator[tuple[Link, Wire]]:
        with self.broker.proxy() as proxy:
            yield self.link_to(self.broker.proxied_bootstrap), KafkaWire(proxy)

    def wrong_password(self) -> Link:
        return self.sasl("not-the-word")

    def wrong_port(self) -> Link:
        return self.link_to("127.0.0.1:1")

    def foreign_publish(self, pair: Pair, bodies: Sequence[bytes]) -> None:
        command = self.broker.console_producer(pair.destination.provider_queue)
        subprocess.run(command, input=b"".join(body + b"\n" for body in bodies), check=True, capture_output=True)

    def foreign_read(self, pair: Pair, count: int) -> list[bytes]:
        command = self.broker.console_consumer(
            pair.source.provider_queue, "--from-beginning", "--max-messages", str(count)
        )
        return subprocess.run(command, check=True, capture_output=True, timeout=60).stdout.splitlines()

    def foreign_long_header(self, pair: Pair, name: str, body: bytes) -> bool:
        self.send(pair, value=body, headers=[(name, b"v")])
        return True

    @contextmanager
    def producer(self, **config: Any) -> Iterator[KafkaProducer]:
        producer = KafkaProducer(bootstrap_servers=self.broker.bootstrap, **config)
        try:
            yield producer
        finally:
            producer.close(timeout=10)

    def send(self, pair: Pair, **record: Any) -> None:
        """Send one record with the bare client."""
        with self.producer() as producer:
            producer.send(pair.destination.provider_queue, **record).get(timeout=SOON)


#: Every promise is kept with each of them; a core of it is tested with the second one in every run.
CLIENTS = ("kafka-python", pytest.param("confluent", marks=pytest.mark.matrix))


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest) -> str:
    """The client library of the link."""
    return str(request.param)


@pytest.fixture
def template(broker: Kafka, client: str) -> KafkaTemplate:
    return KafkaTemplate(broker, client)


class BadKey(str):
    """A header name that the client writes as bytes that are not UTF-8."""

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        return b"\xff\xfe"


class TestKafkaLink(LinkSuite):
    """The client connects again by itself, so a cut wire is not even an error."""

    def test_wire_cut_while_reading_loses_nothing(self, template: KafkaTemplate) -> None:
        pair = template.pair()
        with template.disturbed() as (link, wire), reading(link, pair) as reader:
            with writing(template.link(), pair) as writer:
                writer.deliver(*numbered(300))
            found = reader.bodies(40, size=10)
            for _ in range(5):
                wire.cut()
                found += reader.bodies(20, size=10)
            assert found + reader.bodies(160) == numbers(300)

    def test_wire_cut_while_publishing_loses_nothing(self, template: KafkaTemplate) -> None:  # type: ignore[override]
        pair = template.pair()
        with reading(template.link(), pair) as reader, template.disturbed() as (link, wire):
            with writing(link, pair) as writer:
                for number in range(100):
                    writer.send(*numbered(10, number * 10))
                    if number % 25 == 5:
                        wire.cut()
                    writer.destination.confirmed(0.01)
                writer.confirm()
            # Idempotence: what was sent again by the client is there once, in order.
            assert reader.bodies(1000) == numbers(1000)

    def test_places_are_those_at_which_readers_find_the_records(self, template: KafkaTemplate) -> None:
        pair = template.pair(partitions=3)
        link = template.link()
        with reading(link, pair) as reader, writing(link, pair, located=True) as writer:
            sent = {writer.send(*numbered(60, start)): numbers(60, start) for start in (0, 60, 120)}
            writer.confirm()
            read = {body_bytes(each.message): each.origin for each in reader.collect(180)}
            for sequence, bodies in sent.items():
                placement = writer.destination.located(sequence)
                assert placement is not None
                assert placement.coordinates() == [read[body] for body in bodies]


class TestReading:
    def test_new_job_gets_only_what_comes_after_its_creation(self, template: KafkaTemplate) -> None:
        pair = template.pair()
        with writing(template.link(), pair) as writer:
            writer.deliver(*numbered(3))
            with reading(template.link(), pair) as reader:
                writer.deliver(*numbered(2, 3))
                assert reader.bodies(2) == numbers(2, 3)
                assert not reader.source.read(10, 0.3).deliveries

    def test_new_job_may_begin_at_the_first_message(self, template: KafkaTemplate) -> None:
        pair = template.pair(options={"KAFKA_StartAt": "earliest"})
        with writing(template.link(), pair) as writer:
            writer.deliver(*numbered(3))
            with reading(template.link(), pair) as reader:
                writer.deliver(*numbered(2, 3))
                assert reader.bodies(5) == numbers(5)

    def test_start_is_stored_before_the_first_message(self, template: KafkaTemplate) -> None:
        pair = template.pair(partitions=3)
        with reading(template.link(), pair) as reader:
            batch = reader.source.read(10, 60)
            assert not batch.deliveries
            assert [(partition, before) for partition, before, _ in batch.positions] == [
                ("0", None),
                ("1", None),
                ("2", None),
            ]
            reader.settle(batch)
        with writing(template.link(), pair) as writer:
            writer.deliver(*numbered(4))
        with reading(template.link(), pair) as again:
            again.source.close()
            again.positions = reader.positions
            again.connect()
            assert sorted(again.bodies(4)) == numbers(4)  # type: ignore[type-var]

    def test_start_is_kept_when_the_hub_could_not_store_it(self, template: KafkaTemplate) -> None:
        pair = template.pair()
        with reading(template.link(), pair) as reader, writing(template.link(), pair) as writer:
            reader.source.read(1, 0)
            writer.deliver(*numbered(2))
            reader.reconnect()
            assert reader.bodies(2) == numbers(2)

    def test_two_sources_at_one_position_read_the_same_with_the_same_positions(self, template: KafkaTemplate) -> None:
        """What makes the hub's compare-and-set refuse the second of two owners (K6)."""
        pair = template.pair()
        with reading(template.link(), pair) as one, writing(template.link(), pair) as writer:
            one.settle(one.source.read(1, 0))
            two = Reader(template.link(), use_of(pair.source))
            two.positions = dict(one.positions)
            two.connect()
            writer.deliver(*numbered(5))
            # How many records one poll returns is the client's affair.
            read = [reader.batches(5, settle=False) for reader in (one, two)]
            two.source.close()
            positions = [[position for batch in batches for position in batch.positions] for batches in read]
            steps = [(found[0].before, found[-1].after) for found in positions]
            assert steps[0] == steps[1]
            messages = [[delivery.message for batch in batches for delivery in batch.deliveries] for batches in read]
            assert messages[0] == messages[1]

    def test_order_is_kept_in_every_partition(self, template: KafkaTemplate) -> None:
        pair = template.pair(partitions=3)
        with reading(template.link(), pair) as reader, writing(template.link(), pair) as writer:
            for start in range(0, 3000, 100):
                writer.send(
                    *(replace(m, correlation=f"key {i % 7}") for i, m in enumerate(numbered(100, start), start))
                )
            writer.confirm()
            deliveries = reader.collect(3000, size=500)
        by_key: dict[str | None, list[int]] = {}
        partitions: dict[str | None, set[object]] = {}
        for delivery in deliveries:
            message = delivery.message
            by_key.setdefault(message.correlation, []).append(int(body_bytes(message) or b""))
            partitions.setdefault(message.correlation, set()).add(message.header("MGW_KAFKA_partition"))
        assert len(by_key) == 7
        for found in by_key.values():
            assert found == sorted(found)
        assert all(len(found) == 1 for found in partitions.values())
        assert sum(map(len, by_key.values())) == 3000

    def test_a_partition_without_messages_does_not_hold_up_the_others(self, template: KafkaTemplate) -> None:
        """A server answers one request at a time: one that waits for the silent partition must not keep others away."""
        pair, count = template.pair(partitions=2, options={"KAFKA_StartAt": "earliest"}), 20_000
        with template.producer() as producer:
            sent = [producer.send(pair.source.provider_queue, value=bytes(1000), partition=1) for _ in range(count)]
            for each in sent:
                each.get(timeout=SOON)
        with reading(template.link(), pair) as reader:
            begun = time.monotonic()
            assert len(reader.collect(count, size=200)) == count
            assert time.monotonic() - begun < 12, "it takes about a second, and twenty where every answer is waited for"

    def test_many_partitions_without_messages_are_no_outage(self, template: KafkaTemplate) -> None:
        pair = template.pair(partitions=12)
        with reading(template.link(), pair) as reader:
            reader.settle(reader.source.read(1, 0))
            for _ in range(2):
                assert not reader.source.read(1, 0.2).deliveries
                begun = time.monotonic()
                assert reader.source.backlog() == Backlog(0)
                assert time.monotonic() - begun < 6, "the partitions were asked for one after the other"

    def test_partition_added_later_is_read_from_its_beginning(self, template: KafkaTemplate) -> None:
        pair = template.pair()
        name = pair.source.provider_queue
        with reading(template.link(), pair) as reader:
            reader.settle(reader.source.read(1, 0))
            admin = KafkaAdminClient(bootstrap_servers=template.broker.bootstrap)
            admin.create_partitions({name: NewPartitions(2)})
            admin.close()
            with template.producer(metadata_max_age_ms=200) as producer:
                wait_until(lambda: len(_partitions(producer, name)) == 2, "second partition")
                for number in range(4):
                    producer.send(name, value=b"%d" % number, partition=1).get(timeout=SOON)
            assert reader.bodies(4) == numbers(4)
            positions = dict(reader.positions)
        again = Reader(template.link(), use_of(pair.source))
        again.positions = positions
        again.connect()
        assert not again.source.read(10, 0.3).deliveries
        again.source.close()

    def test_nothing_comes_twice_when_a_partition_is_added_while_messages_flow(self, template: KafkaTemplate) -> None:
        pair = template.pair()
        name, seen = pair.source.provider_queue, list[bytes]()
        found = threading.Event()

        def publish() -> None:
            with template.producer(metadata_max_age_ms=100) as producer:
                number = 0
                while not found.is_set():
                    producer.send(name, value=b"%d" % number, partition=0).get(timeout=SOON)
                    number += 1
                    if number == 50:
                        admin = KafkaAdminClient(bootstrap_servers=template.broker.bootstrap)
                        admin.create_partitions({name: NewPartitions(2)})
                        admin.close()
                    elif number > 50 and number % 50 == 0 and len(_partitions(producer, name)) == 2:
                        producer.send(name, value=b"second", partition=1).get(timeout=SOON)
                producer.send(name, value=b"end", partition=0).get(timeout=SOON)

        with reading(template.link(KAFKA_Metadata_max_age_ms="300"), pair) as reader:
            reader.settle(reader.source.read(1, 0))
            publisher = threading.Thread(target=publish)
            publisher.start()
            deadline = time.monotonic() + SOON
            while b"end" not in seen:
                assert time.monotonic() < deadline
                batch = reader.source.read(50, 0.5)
                reader.settle(batch)
                seen += [body_bytes(delivery.message) or b"" for delivery in batch.deliveries]
                if b"second" in seen:
                    found.set()
            publisher.join()
        first = [body for body in seen if body not in {b"second", b"end"}]
        assert first == [b"%d" % number for number in range(len(first))]

    def test_a_silent_topic_is_asked_for_seldom_and_left_at_once(
        self, template: KafkaTemplate, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An idle job costs hardly more than its requests; a record, or an end that is asked for, waits for none."""
        if template.client != "kafka-python":
            pytest.skip("librdkafka asks by itself")
        monkeypatch.setattr(mgw.links.kafka.python_client.consumer, "_BUSY_MS", 200)
        pair = template.pair()
        link = template.link(KAFKA_Metadata_max_age_ms="60000")
        with reading(link, pair) as reader, writing(template.link(), pair) as writer:
            reader.settle(reader.source.read(1, 0))
            consumer: Any = reader.source._consumer  # type: ignore[attr-defined]
            waits = consumer._consumer._fetcher.config
            begun = time.monotonic()
            while waits["fetch_max_wait_ms"] < 3000:
                assert reader.source.read(1, 1.0).deliveries == ()
                assert time.monotonic() - begun < 20
            asked: list[object] = []
            monkeypatch.setattr(consumer, "ends", asked.append)
            assert reader.source.backlog() == Backlog(0)
            assert asked == [], "the answer to the request for records tells, and would be waited for"
            writer.deliver(*numbered(1))
            assert len(reader.batches(1)) == 1
            assert waits["fetch_max_wait_ms"] == 200
            reader.source.read(1, 0)
            monkeypatch.setattr(mgw.links.kafka.python_client.consumer, "_BUSY_MS", 10_000)
            writer.deliver(*numbered(1))
            assert len(reader.batches(1)) == 1
            reader.source.read(1, 0)
            begun = time.monotonic()
            reader.source.close()
            assert time.monotonic() - begun < 5, "it waited for the answer of a server that has nothing"

    def test_what_waits_behind_an_answer_is_told(self, template: KafkaTemplate) -> None:
        """That the next request is under way already says nothing of what is there."""
        pair = template.pair()
        link = template.link(KAFKA_Max_partition_fetch_bytes="2000")
        with reading(link, pair) as reader, writing(template.link(), pair) as writer:
            reader.settle(reader.source.read(1, 0))
            for _ in range(40):  # a batch of records each, of which an answer has a few
                writer.deliver(*numbered(10))
            read = 0
            while read < 350:
                batch = reader.source.read(400, 1.0)
                reader.settle(batch)
                read += len(batch.deliveries)
                waiting = reader.source.backlog()
                assert waiting is not None
                assert waiting.messages >= 400 - read

    def test_a_pause_longer_than_a_timeout_is_no_outage(self, template: KafkaTemplate) -> None:
        pair = template.pair()
        link = template.link(KAFKA_Request_timeout_ms="2000")
        with reading(link, pair) as reader, writing(template.link(), pair) as writer:
            writer.deliver(*numbered(1))
            assert len(reader.batches(1)) == 1
            threading.Event().wait(4.0)  # the job works on what it has
            for _ in range(3):
                assert reader.source.backlog() is not None
                assert reader.source.read(1, 0.2).deliveries == ()
            writer.deliver(*numbered(1))
            assert len(reader.batches(1)) == 1

    @pytest.mark.parametrize("offset", [99, 2**40])
    def test_offset_behind_the_log_stops_with_an_alarm(self, template: KafkaTemplate, offset: int) -> None:
        pair = template.pair()
        with writing(template.link(), pair) as writer:
            writer.deliver(*numbered(5))
        reader = self._positioned(template, pair, offset)
        with pytest.raises(PositionLost) as raised:
            reader.connect()
        reader.source.close()
        error = raised.value
        assert error.number == 415
        assert not error.retriable
        for part in (pair.source.provider_queue, "partition 0", f"offset {offset}", "0 to 5"):
            assert part in str(error)
        assert error.cure

    def test_offset_overtaken_by_retention_stops_with_an_alarm(self, template: KafkaTemplate) -> None:
        pair = template.pair()
        name = pair.source.provider_queue
        with reading(template.link(), pair) as reader, writing(template.link(), pair) as writer:
            writer.deliver(*numbered(10))
            assert reader.bodies(3) == numbers(3)
            positions = dict(reader.positions)
            _delete_records(template, name, 7)
            again = Reader(template.link(), use_of(pair.source))
            again.positions = positions
            with pytest.raises(PositionLost, match="7 to 10"):
                again.connect()
            again.source.close()
            assert again.positions == positions

    def test_retention_that_overtakes_a_running_job_is_an_alarm(self, template: KafkaTemplate) -> None:
        pair = template.pair()
        size = 900 if template.client == "kafka-python" else 900_000  # librdkafka reads 16 MB ahead
        with reading(template.link(KAFKA_Max_partition_fetch_bytes="1024"), pair) as reader:
            with writing(template.link(), pair) as writer:
                for _ in range(50):
                    writer.deliver(Message(b"x" * size))
            reader.batches(1)
            _delete_records(template, pair.source.provider_queue, 50)
            with pytest.raises(LinkError, match=pair.source.provider_queue):
                reader.collect(49)
            with pytest.raises(PositionLost, match="50 to 50") as lost:  # as the hub knows where it stands
                reader.connect()
            (gap,) = lost.value.gaps
            position = json.loads(reader.positions["0"])
            assert (gap.first, gap.last, gap.next) == (position["offset"], 49, 50)
            assert json.loads(gap.position or "") == {**position, "offset": 50}

    def test_topic_created_again_is_noticed(self, template: KafkaTemplate) -> None:
        pair = template.pair()
        name = pair.source.provider_queue
        with reading(template.link(), pair) as reader, writing(template.link(), pair) as writer:
            writer.deliver(*numbered(5))
            assert reader.bodies(5) == numbers(5)
        _recreate(template, name)
        with writing(template.link(), pair) as writer:
            writer.deliver(*numbered(9, 100))
        with pytest.raises(PositionLost, match="created again"):
            reader.source.connect(reader.positions)
        reader.source.close()

    def test_topic_created_again_under_a_running_job_is_noticed(self, template: KafkaTemplate) -> None:
        pair = template.pair()
        with reading(template.link(), pair) as reader, writing(template.link(), pair) as writer:
            writer.deliver(*numbered(2))
            assert reader.bodies(2) == numbers(2)
            writer.destination.close()
            _recreate(template, pair.source.provider_queue)
            with pytest.raises(LinkError):
                _read_for(reader, SOON)
            with pytest.raises(PositionLost, match="created again") as lost:
                reader.connect()
            assert [(gap.first, gap.last, gap.next) for gap in lost.value.gaps] == [(2, None, 0)]

    def test_deleted_topic_is_an_error_not_silence(self, template: KafkaTemplate) -> None:
        pair = template.pair()
        with reading(template.link(), pair) as reader:
            _delete(template, pair.source.provider_queue)
            with pytest.raises(QueueMissing, match=pair.source.provider_queue):
                _read_for(reader, SOON)
            # The broker creates topics for whoever asks carelessly; we did not, however long we looked.
            with _admin(template) as admin:
                assert pair.source.provider_queue not in admin.list_topics()

    def test_position_of_another_cluster_is_refused(self, template: KafkaTemplate) -> None:
        pair = template.pair()
        reader = self._positioned(template, pair, 0, cluster="elsewhere")
        with pytest.raises(PositionLost, match="elsewhere"):
            reader.connect()

    def test_unreadable_position_is_refused(self, template: KafkaTemplate) -> None:
        reader = Reader(template.link(), use_of(template.pair().source))
        reader.positions = {"0": "seven"}
        with pytest.raises(PositionLost, match="seven"):
            reader.connect()

    @staticmethod
    def _positioned(template: KafkaTemplate, pair: Pair, offset: int, **changed: str) -> Reader:
        with reading(template.link(), pair) as reader:
            reader.settle(reader.source.read(1, 0))
        again = Reader(template.link(), use_of(pair.source))
        again.positions = {"0": json.dumps({**json.loads(reader.positions["0"]), "offset": offset, **changed})}
        return again

    def test_aborted_transactions_are_passed_over(self, template: KafkaTemplate) -> None:
        pair = template.pair()
        name = pair.source.provider_queue
        with reading(template.link(), pair) as reader:
            reader.settle(reader.source.read(1, 0))
            with template.producer(transactional_id=unique("tx")) as producer:
                producer.init_transactions()
                for number, commit in enumerate((True, False, True, False)):
                    producer.begin_transaction()
                    producer.send(name, value=b"%d" % number).get(timeout=SOON)
                    if commit:
                        producer.commit_transaction()
                    else:
                        producer.abort_transaction()
            assert reader.bodies(2) == [b"0", b"2"]
            # Eight offsets: four records, four markers; what is behind the last record counts as read.
            wait_until(lambda: _read_offset(reader) == 8, "position behind the last marker")
            backlog = reader.source.backlog()
            assert backlog is not None
            assert backlog.messages == 0

    def test_open_transaction_is_waited_for(self, template: KafkaTemplate) -> None:
        pair = template.pair()
        with (
            reading(template.link(), pair) as reader,
            template.producer(transactional_id=unique("tx")) as producer,
        ):
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(pair.source.provider_queue, value=b"later").get(timeout=SOON)
            reader.settle(reader.source.read(10, 0.5))
            assert not reader.source.read(10, 0.5).deliveries
            producer.commit_transaction()
            assert reader.bodies(1) == [b"later"]

    def test_silent_broker_is_an_error(self, template: KafkaTemplate) -> None:
        pair = template.pair()
        with reading(template.link_to(template.broker.bootstrap), pair) as reader:
            reader.source.read(1, 0)
            with _frozen(template.broker), pytest.raises(LinkError):
                _read_for(reader, SOON)
            reader.reconnect()
            with writing(template.link(), pair) as writer:
                writer.deliver(Message(b"back"))
            assert reader.bodies(1) == [b"back"]

    def test_connect_to_a_silent_broker_ends_soon(self, template: KafkaTemplate) -> None:
        pair = template.pair()
        certificates = template.broker.certificates
        assert certificates is not None
        for link in (template.link_to(template.broker.bootstrap), template.tls(str(certificates.ca))):
            source, destination = link.source(use_of(pair.source)), link.destination(use_of(pair.destination))
            with _frozen(template.broker):
                started = time.monotonic()
                with pytest.raises(LinkError):
                    source.connect({})
                with pytest.raises(LinkError):
                    destination.connect()
                assert not link.test()[-1].ok
                assert time.monotonic() - started < SOON
            source.close()
            destination.close()


def test_a_batch_that_is_alone_does_not_wait_for_more(broker: Kafka) -> None:
    """Of kafka-python; so a single message takes no longer for KAFKA_Linger_ms.

    A batch that is sent again waits as the client does, so the new topic has to be ready; and a batch is alone once the
    client has forgotten the one before it, which is a moment after that is confirmed.
    """
    template = KafkaTemplate(broker)
    pair = template.pair(options={"KAFKA_StartAt": "earliest"})
    with writing(template.link(), pair) as writer:
        accumulator: Any = writer.destination._producer._accumulator  # type: ignore[attr-defined]
        writer.deliver(Message(b"0"))
        accumulator.config["linger_ms"] = 10**12  # longer than any machine has run
        for batch in ((b"1", b"2"), (b"3",)):
            eventually(lambda: not accumulator.has_incomplete, what="nothing under way")
            writer.deliver(*(Message(body) for body in batch))
    with reading(template.link(), pair) as reader:
        assert reader.bodies(4) == numbers(4)


class TestRecords:
    def test_record_with_a_header_name_that_is_not_text_fails_alone(self, template: KafkaTemplate) -> None:
        """In the middle of one batch, so that seeking behind it would not do (K4)."""
        pair = template.pair()
        name = pair.source.provider_queue
        with reading(template.link(), pair) as reader:
            reader.settle(reader.source.read(1, 0))
            with template.producer(linger_ms=500) as producer:
                for number in range(9):
                    headers = [("good", b"1"), (BadKey("bad"), b"2")] if number in (3, 4) else [("good", b"1")]
                    producer.send(name, value=b"%d" % number, headers=headers)
                producer.flush(10)
            deliveries = reader.collect(9, size=2)
            assert [body_bytes(delivery.message) for delivery in deliveries] == numbers(9)
            assert [index for index, delivery in enumerate(deliveries) if delivery.failure] == [3, 4]
            assert "fffe" in repr(str(deliveries[3].failure)).replace("\\x", "").replace("\\", "")
            good = Header("good", ValueType.TEXT, "1")
            assert all(good in delivery.message.headers for delivery in deliveries)
            template.send(pair, value=b"next")
            assert reader.bodies(1) == [b"next"]

    def test_compressed_batches_are_read_over_too(self, template: KafkaTemplate) -> None:
        pair = template.pair()
        with reading(template.link(), pair) as reader:
            reader.settle(reader.source.read(1, 0))
            with template.producer(linger_ms=500, compression_type="gzip") as producer:
                for number in range(4):
                    headers = [(BadKey("bad"), b"2")] if number == 1 else []
                    producer.send(pair.source.provider_queue, value=b"%d" % number, headers=headers)
                producer.flush(10)
            assert [bool(delivery.failure) for delivery in reader.collect(4)] == [False, True, False, False]

    def test_foreign_record_arrives_with_all_it_has(self, template: KafkaTemplate) -> None:
        pair = template.pair(partitions=2)
        name = pair.source.provider_queue
        with reading(template.link(), pair) as reader:
            template.send(
                pair,
                value=b"v",
                key=b"k\xff",
                partition=1,
                timestamp_ms=1_700_000_000_123,
                headers=[("b", b"1"), ("a", b""), ("b", b"\xff")],
            )
            (delivery,) = reader.collect(1)
        assert delivery.failure is None
        assert delivery.origin == f"{name}/1@0"
        assert delivery.message.correlation is None
        assert delivery.message.headers == (
            Header("MGW_KAFKA_topic", ValueType.TEXT, name),
            Header("MGW_KAFKA_partition", ValueType.INTEGER, 1),
            Header("MGW_KAFKA_offset", ValueType.LONG, 0),
            Header("MGW_KAFKA_timestamp", ValueType.LONG, 1_700_000_000_123),
            Header("MGW_KAFKA_timestampType", ValueType.TEXT, "CreateTime"),
            Header("MGW_KAFKA_key", ValueType.RAW, b"k\xff"),
            Header("b", ValueType.TEXT, "1"),
            Header("a", ValueType.TEXT, ""),
            Header("b", ValueType.RAW, b"\xff"),
        )

    def test_headers_have_the_names_of_the_manual_where_the_link_says_so(self, template: KafkaTemplate) -> None:
        pair = template.pair()
        link = template.link_to(template.broker.bootstrap, attributes={"header_names": "documented"}, options=_CALM)
        with reading(link, pair) as reader:
            template.send(pair, value=b"x", headers=[("tenant", b"a")])
            assert reader.one().header("MGW_KAFKA_H_tenant") == b"a"

    def test_tombstone_travels_with_its_key(self, template: KafkaTemplate) -> None:
        pair = template.pair(config={"cleanup.policy": "compact"})
        with reading(template.link(), pair) as reader, writing(template.link(), pair) as writer:
            template.send(pair, key=b"k", value=None)
            tombstone = reader.one()
            assert (tombstone.body, tombstone.correlation) == (None, "k")
            writer.deliver(tombstone)
            assert (reader.one().body, tombstone.header("MGW_KAFKA_key")) == (None, b"k")

    def test_compacted_topic_takes_no_message_without_key(self, template: KafkaTemplate) -> None:
        pair = template.pair(config={"cleanup.policy": "compact"})
        with writing(template.link(), pair) as writer, pytest.raises(ConversionFailure, match="key"):
            writer.destination.encode(Message(b"x"))

    def test_null_header_is_not_lost_when_it_travels_on(self, template: KafkaTemplate) -> None:
        first, second = template.pair(), template.pair()
        null = Header("n", ValueType.JSON, "null")
        sent = Message(b"x", headers=(Header("a", ValueType.TEXT, "1"), null))
        with writing(template.link(), first) as writer, reading(template.link(), first) as reader:
            writer.deliver(sent)
            message = reader.one()
        assert [h for h in message.headers if h.name in ("a", "n")] == list(sent.headers)
        with writing(template.link(), second) as writer, reading(template.link(), second) as reader:
            writer.deliver(message)
            assert null in reader.one().headers

    def test_explicit_partition_is_used_and_checked(self, template: KafkaTemplate) -> None:
        pair = template.pair(partitions=3)
        with reading(template.link(), pair) as reader, writing(template.link(), pair) as writer:
            writer.deliver(Message(b"x", headers=(Header("MGW_KAFKA_partition", ValueType.INTEGER, 2),)))
            assert reader.one().header("MGW_KAFKA_partition") == 2
            with pytest.raises(ConversionFailure, match="partitions 0 to 2"):
                writer.destination.encode(Message(b"x", headers=(Header("MGW_KAFKA_partition", ValueType.INTEGER, 3),)))

    def test_properties_travel_with_the_job_option(self, template: KafkaTemplate) -> None:
        pair = template.pair()
        options = {"aq_msgproperties": "TRUE"}
        message = Message(b"x", priority=7, expiration=500, delay=1.5, exception_queue="E", sender_name="me")
        with (
            reading(template.link(), pair, options=options) as reader,
            writing(template.link(), pair, options=options) as writer,
        ):
            writer.deliver(message)
            found = reader.one()
        assert found.expiration is not None
        assert 400 < found.expiration <= 500
        assert replace(found, headers=(), expiration=500) == message

    def test_hub_message_id_travels_in_a_header(self, template: KafkaTemplate) -> None:
        pair = template.pair()
        with reading(template.link(), pair) as reader, writing(template.link(), pair) as writer:
            writer.deliver(Message(b"x", msgid=bytes(range(16))))
            assert reader.one().header("MGW_AQ_messageID") == bytes(range(16))


class TestPublishing:
    def test_topic_deleted_while_nothing_is_sent_is_told(self, template: KafkaTemplate) -> None:
        pair = template.pair()
        name = pair.destination.provider_queue
        with writing(template.link(), pair) as writer:
            writer.deliver(Message(b"x"))
            _delete(template, name)

            def idle() -> None:
                deadline = time.monotonic() + SOON
                while time.monotonic() < deadline:
                    writer.destination.confirmed(0.2)

            with pytest.raises(QueueMissing, match=name):
                idle()
            with _admin(template) as admin:
                assert name not in admin.list_topics(), "it was not made again by looking"

    def test_message_larger_than_the_topic_takes_fails_alone(self, template: KafkaTemplate) -> None:
        pair = template.pair(config={"max.message.bytes": "20000"})
        with reading(template.link(), pair) as reader, writing(template.link(), pair) as writer:
            with pytest.raises(ConversionFailure, match="20000"):
                writer.destination.encode(Message(b"x" * 20000))
            writer.deliver(Message(b"y" * 19000), *(Message(b"z" * 5000) for _ in range(40)))
            assert len(reader.collect(41)) == 41

    def test_limit_lowered_while_the_job_runs_rejects_the_batch_by_name(self, template: KafkaTemplate) -> None:
        pair = template.pair()
        name = pair.source.provider_queue
        with writing(template.link(), pair) as writer:
            writer.deliver(Message(b"x"))
            template.broker.configure_topic(name, {"max.message.bytes": "1000"})

            def until_refused() -> None:
                deadline = time.monotonic() + SOON
                while time.monotonic() < deadline:
                    writer.deliver(Message(b"x" * 2000))

            with pytest.raises(DeliveryRejected) as raised:
                until_refused()
        assert name in str(raised.value)
        assert "max.message.bytes" in str(raised.value)

    def test_large_message_is_carried_where_the_topic_takes_it(self, template: KafkaTemplate) -> None:
        pair = template.pair(config={"max.message.bytes": "22000000"})
        body = os.urandom(20_000_000)
        with reading(template.link(), pair) as reader, writing(template.link(), pair) as writer:
            writer.deliver(Message(body))
            assert reader.one().body == body

    def test_no_topic_is_ever_created(self, template: KafkaTemplate) -> None:
        """On a broker that creates topics for every client that asks."""
        pair = template.missing()
        for _ in range(2):
            with pytest.raises(QueueMissing):
                template.link().destination(use_of(pair.destination)).connect()
            with pytest.raises(QueueMissing):
                template.link().source(use_of(pair.source)).connect({})
        admin = KafkaAdminClient(bootstrap_servers=template.broker.bootstrap)
        try:
            assert pair.source.provider_queue not in admin.list_topics()
        finally:
            admin.close()

    def test_records_under_way_are_bounded_while_the_broker_is_silent(
        self, template: KafkaTemplate, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """K8."""
        monkeypatch.setattr(mgw.links.kafka.destination, "MAX_RECORDS", 500)
        pair = template.pair()
        link = template.link_to(template.broker.bootstrap)
        sent = 0
        with reading(template.link(), pair) as reader, writing(link, pair) as writer:
            writer.deliver(Message(b"first"))
            with _frozen(template.broker):

                def publish() -> None:
                    nonlocal sent
                    for start in range(0, 100_000, 100):
                        writer.send(*numbered(100, start))
                        sent += 100

                with pytest.raises(LinkTimeout, match="confirmed nothing"):
                    publish()
                assert sent == 500
                started = time.monotonic()
                writer.destination.close()
                assert time.monotonic() - started < 15
            reader.reconnect()
            assert reader.bodies(1) == [b"first"]

    def test_restart_of_the_broker_loses_nothing_and_keeps_the_order(self, template: KafkaTemplate) -> None:
        pair = template.pair(partitions=2)
        with reading(template.link(), pair) as reader:
            reader.settle(reader.source.read(1, 0))
            positions = dict(reader.positions)
        writer = Writer(template.link(), use_of(pair.destination)).connect()
        total, batch = 6000, 60
        done = confirmed = 0
        restart = itertools.count()
        try:
            while confirmed < total // batch:
                try:
                    if done < total // batch and done - confirmed < 20:
                        messages = numbered(batch, done * batch)
                        writer.destination.publish(
                            done + 1,
                            [
                                writer.destination.encode(replace(m, correlation=str(i % 5)))
                                for i, m in enumerate(messages, done * batch)
                            ],
                        )
                        done += 1
                        if done in (20, 60) and next(restart) < 2:
                            template.broker.restart()
                    confirmed = max(confirmed, writer.destination.confirmed(0.05) or 0)
                except LinkError:
                    _reconnect(writer)
                    done = confirmed
        finally:
            writer.destination.close()
        reader.positions = positions
        reader.reconnect()
        by_key: dict[str | None, list[bytes | None]] = {}
        deadline = time.monotonic() + SOON
        while sum(map(len, map(first_occurrences, by_key.values()))) < total:
            assert time.monotonic() < deadline
            batch_read = reader.source.read(1000, 0.5)
            reader.settle(batch_read)
            for delivery in batch_read.deliveries:
                by_key.setdefault(delivery.message.correlation, []).append(body_bytes(delivery.message))
        reader.source.close()
        for key, found in by_key.items():
            assert first_occurrences(found) == [b"%d" % n for n in range(total) if str(n % 5) == key]

    def test_killed_broker_is_an_error_and_nothing_confirmed_is_missing(self, template: KafkaTemplate) -> None:
        pair = template.pair()
        link = template.link_to(template.broker.bootstrap)
        with reading(template.link(), pair) as reader:
            reader.settle(reader.source.read(1, 0))
            positions = dict(reader.positions)
        with writing(link, pair) as writer:
            for start in range(0, 1000, 50):
                writer.send(*numbered(50, start))
            writer.confirm()
            template.broker.kill()
            try:
                with pytest.raises(LinkTimeout):
                    _publish_on(writer)
            finally:
                template.broker.start()
        again = Reader(template.link(), use_of(pair.source))
        again.positions = positions
        again.reconnect()
        assert again.bodies(1000) == numbers(1000)
        again.source.close()

    def test_closed_and_collected_destination_leaves_the_log_of_the_client_alone(
        self, template: KafkaTemplate, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """K7."""
        import kafka.producer.kafka as module

        pair = template.pair()
        gc.collect()
        monkeypatch.setattr(module, "log", logging.getLogger("kafka.producer.kafka"))
        with writing(template.link(), pair) as writer:
            writer.deliver(Message(b"x"))
        del writer
        gc.collect()
        with caplog.at_level(logging.WARNING, logger="kafka.producer.kafka"):
            module.log.warning("still heard")
        assert "still heard" in caplog.text


class TestChecks:
    def test_guarantees_are_declared(self, template: KafkaTemplate) -> None:
        link, pair = template.link(), template.pair()
        unclean = template.pair(config={"unclean.leader.election.enable": "true"})
        assert link.verify(use_of(pair.source), Direction.INBOUND).level is Guarantee.EXACT
        assert link.verify(use_of(pair.destination), Direction.OUTBOUND).level is Guarantee.AT_LEAST_ONCE
        report = link.verify(use_of(unclean.source), Direction.INBOUND)
        assert report.level is Guarantee.AT_MOST_ONCE
        assert "unclean" in report.note

    def test_tls_carries_messages(self, template: KafkaTemplate) -> None:
        certificates = template.broker.certificates
        assert certificates is not None
        link, pair = template.tls(str(certificates.ca)), template.pair()
        assert [check.name for check in link.test() if check.ok] == ["address", "tls", "login", "cluster", "servers"]
        with reading(link, pair) as reader, writing(link, pair) as writer:
            writer.deliver(Message(b"x"))
            assert reader.bodies(1) == [b"x"]

    def test_unknown_certificate_is_refused_at_once(self, template: KafkaTemplate) -> None:
        link, pair = template.tls(None), template.pair()
        with pytest.raises(LinkRefused, match=r"CERTIFICATE_VERIFY_FAILED|certificate verify failed"):
            link.source(use_of(pair.source)).connect({})
        check = link.test()[-1]
        assert (check.name, check.ok) == ("tls", False)
        assert "tls_ca_file" in check.cure

    def test_tls_to_a_plain_listener_is_told(self, template: KafkaTemplate) -> None:
        link, pair = template.tls(None, template.broker.bootstrap), template.pair()
        check = link.test()[-1]
        assert (check.name, check.ok) == ("tls", False)
        assert "security_protocol" in check.cure
        assert "tls_ca_file" not in check.cure
        with pytest.raises(LinkRefused) as failure:
            link.source(use_of(pair.source)).connect({})
        assert "security_protocol" in failure.value.cure

    def test_plain_to_a_tls_listener_is_told(self, template: KafkaTemplate) -> None:
        link = template.link_to(template.broker.tls_bootstrap or "")
        check = link.test()[-1]
        assert not check.ok
        assert "security_protocol" in check.cure

    def test_login_carries_messages(self, template: KafkaTemplate) -> None:
        link, pair = template.sasl("s3cret-word"), template.pair()
        assert "user mgw is accepted" in [check.detail for check in link.test()]
        with reading(link, pair) as reader, writing(link, pair) as writer:
            writer.deliver(Message(b"x"))
            assert reader.bodies(1) == [b"x"]

    def test_mechanism_the_listener_does_not_offer_is_told(self, template: KafkaTemplate) -> None:
        check = template.sasl("s3cret-word", "SCRAM-SHA-256").test()[-1]
        assert not check.ok
        assert "sasl_mechanism" in check.cure

    def test_wrong_password_is_found_at_once(self, template: KafkaTemplate) -> None:
        started = time.monotonic()
        with pytest.raises(LinkRefused):
            template.wrong_password().verify(use_of(template.pair().source), Direction.INBOUND)
        assert time.monotonic() - started < 5

    def test_password_is_shown_nowhere(self, template: KafkaTemplate, caplog: pytest.LogCaptureFixture) -> None:
        link, pair = template.sasl("s3cret-word"), template.pair()
        with caplog.at_level(logging.DEBUG), reading(link, pair) as reader, writing(link, pair) as writer:
            link.test()
            shown = repr((link.config, link._settings, vars(reader.source), vars(writer.destination)))
        assert "s3cret-word" not in shown
        assert "s3cret-word" not in caplog.text
        assert "sasl_plain_password" in caplog.text or template.client != "kafka-python"

    def test_unknown_host_is_told(self, template: KafkaTemplate) -> None:
        check = template.link_to("no-such-host.invalid:9092").test()[-1]
        assert not check.ok
        assert "no-such-host.invalid" in check.detail

    @pytest.mark.parametrize("name", ["plant.*", "a/b", "", ".", "x" * 250, "grün"])
    def test_impossible_topic_is_refused(self, template: KafkaTemplate, name: str) -> None:
        with pytest.raises(AdminError, match="name of a topic"):
            template.link().check_endpoint(Endpoint("t", "kf", name), None)

    def test_queue_domain_is_refused(self, template: KafkaTemplate) -> None:
        with pytest.raises(AdminError, match="QUEUE"):
            template.link().check_endpoint(Endpoint("t", "kf", "t", Domain.QUEUE), None)

    @pytest.mark.parametrize(
        ("attributes", "options", "match"),
        [
            ({}, {}, "bootstrap_servers"),
            ({"bootstrap_servers": "a b"}, {}, "host:port"),
            ({"bootstrap_servers": "a:1", "security_protocol": "SASL_SSL"}, {}, "username"),
            ({"bootstrap_servers": "a:1", "security_protocol": "SSL", "tls_ca_file": "/none"}, {}, "tls_ca_file"),
            ({"bootstrap_servers": "a:1"}, {"KAFKA_Acks": "0"}, "KAFKA_Acks"),
            ({"bootstrap_servers": "a:1"}, {"KAFKA_Linger_ms": "soon"}, "KAFKA_Linger_ms"),
        ],
    )
    def test_impossible_link_is_refused(
        self, attributes: Mapping[str, str], options: Mapping[str, str], match: str
    ) -> None:
        with pytest.raises(ConfigInvalid, match=match):
            open_link(LinkConfig("kf", "KAFKA", attributes, options))


@contextmanager
def _frozen(broker: Kafka) -> Iterator[None]:
    broker.freeze()
    try:
        yield
    finally:
        broker.thaw()


@contextmanager
def _admin(template: KafkaTemplate) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(bootstrap_servers=template.broker.bootstrap)
    try:
        yield admin
    finally:
        admin.close()


def _partitions(producer: KafkaProducer, name: str) -> set[int]:
    found: set[int] = producer.partitions_for(name)
    return found


def _delete(template: KafkaTemplate, name: str) -> None:
    with _admin(template) as admin:
        admin.delete_topics([name])
        wait_until(lambda: name not in admin.list_topics(), f"{name} is gone")


def _recreate(template: KafkaTemplate, name: str) -> None:
    _delete(template, name)
    create(template.broker, name)


def _delete_records(template: KafkaTemplate, name: str, before: int) -> None:
    from kafka import TopicPartition

    with _admin(template) as admin:
        admin.delete_records({TopicPartition(name, 0): before})


def _publish_on(writer: Writer) -> None:
    for start in range(1000, 100_000, 50):
        writer.send(*numbered(50, start))
        writer.destination.confirmed(0.2)


def _read_for(reader: Reader, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        reader.settle(reader.source.read(10, 0.2))


def _read_offset(reader: Reader) -> int:
    reader.settle(reader.source.read(1, 0.2))
    offset: int = json.loads(reader.positions["0"])["offset"]
    return offset


def _reconnect(writer: Writer) -> None:
    deadline = time.monotonic() + SOON
    while True:
        writer.destination.close()
        with suppress(LinkError):
            writer.destination.connect()
            return
        assert time.monotonic() < deadline
        time.sleep(0.1)
