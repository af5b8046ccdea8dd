"""Record batches as the link builds them, at a real broker: other programs read them, and the client divides them."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kafka import TopicPartition, codec

from mgw.links.kafka.client import Sendable
from mgw.links.kafka.python_client.producer import Producer, PythonFlight
from mgw.links.kafka.python_client.sent import Sent
from mgw.transforms.kafka import Record
from tests.conformance.link_suite import unique
from tests.support.brokers import Kafka
from tests.support.kafka_clients import KafkaConsumer
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka

TIME = 1_700_000_000_000
RECORDS = [
    Record(b"plain", None, [], None, TIME),
    Record(None, b"gone", [], None, TIME + 1),
    Record(b"", b"", [("empty", b"")], None, TIME + 2),
    Record(
        b"headers", b"k", [("a", b"1"), ("a", b"2"), ("\N{EURO SIGN}", "\N{EURO SIGN}".encode())], None, TIME - 5000
    ),
    Record(b"x" * 100_000, b"k" * 300, [("h" * 300, b"v" * 9000)], None, TIME + 3_000_000),
    *(Record(b"%d" % number, None, [], None, TIME + 7 * number) for number in range(500)),
]
CODECS = [None, "gzip", *(name for name in ("snappy", "lz4", "zstd") if getattr(codec, f"has_{name}")())]


@contextmanager
def producing(kafka: Kafka, **options: Any) -> Iterator[Producer]:
    producer = Producer(
        bootstrap_servers=kafka.bootstrap, acks="all", enable_idempotence=True, max_request_size=2**20, **options
    )
    try:
        yield producer
    finally:
        producer.close(timeout=10)


def published(producer: Producer, topic: str, records: list[Record]) -> PythonFlight:
    return producer.publish(topic, 1, [Sendable(record, 0) for record in records], 0)


def stored(*flights: PythonFlight) -> list[Sent]:
    sent = [each for flight in flights for each in flight.futures]
    eventually(lambda: all(each.is_done for each in sent), what="the outcome of all records")
    for flight in flights:
        flight.look()
        assert flight.looked == flight.count
        assert sorted(flight.stored(0)) == list(range(flight.count))
    return sent


def line(record: Record) -> str:
    headers = ",".join(f"{name}:{value.decode()}" for name, value in record.headers) or "NO_HEADERS"
    key, value = ("null" if each is None else each.decode() for each in (record.key, record.value))
    return f"CreateTime:{record.timestamp}\t{headers}\t{key}\t{value}"


def test_kafkas_own_consumer_reads_what_was_written(kafka: Kafka) -> None:
    topic = unique("batches")
    kafka.create_topic(topic)
    for compression in CODECS:
        with producing(kafka, compression_type=compression, batch_size=16_384) as producer:
            stored(published(producer, topic, RECORDS))
    shown = [f"print.{what}=true" for what in ("timestamp", "headers", "key")]
    options = [each for one in shown for each in ("--formatter-property", one)]
    total = len(RECORDS) * len(CODECS)
    command = kafka.console_consumer(topic, "--from-beginning", "--max-messages", str(total), *options)
    read = subprocess.run(command, check=True, capture_output=True, timeout=120).stdout.decode().splitlines()
    assert read == [line(record) for record in RECORDS] * len(CODECS)


@pytest.mark.parametrize("transactional", [False, True])
def test_a_batch_that_the_server_finds_too_large_is_divided(kafka: Kafka, transactional: bool) -> None:
    """As where the limit of the topic was lowered since the job connected."""
    topic = unique("divided")
    kafka.create_topic(topic, 2, {"max.message.bytes": "2000"})
    records = [Record(b"%d " % number + b"x" * 300, None, [], number % 2, TIME + number) for number in range(240)]
    identity = {"transactional_id": unique("divides")} if transactional else {}
    with producing(kafka, batch_size=16_384, linger_ms=200, **identity) as producer:
        if transactional:
            producer.init_transactions()
            producer.begin_transaction()
        flights = [published(producer, topic, records[start : start + 80]) for start in range(0, 240, 80)]
        seen = threading.Semaphore(0)
        for flight in flights:
            for each in flight.futures:
                each.add_both(lambda _: seen.release())
        sent = stored(*flights)
        assert max(len(each.runs) for each in sent) > 1, "a batch was divided"
        if transactional:
            producer.commit_transaction()
        assert [seen.acquire(timeout=10) for _ in sent] == [True] * len(sent)
        assert not seen.acquire(blocking=False), "each was told once"
    consumer = KafkaConsumer(bootstrap_servers=kafka.bootstrap, isolation_level="read_committed")
    places = [TopicPartition(topic, number) for number in (0, 1)]
    consumer.assign(places)
    consumer.seek_to_beginning()
    found: list[Any] = []
    eventually(lambda: found.extend(_polled(consumer)) or len(found) >= 240, what="all records")
    consumer.close()
    spots = {record.value: f"{topic}/{record.partition}@{record.offset}" for record in found}
    for partition in (0, 1):
        assert [each.value for each in found if each.partition == partition] == [
            record.value for record in records if record.partition == partition
        ]
    for flight, start in zip(flights, range(0, 240, 80), strict=True):
        for begin, end in ((0, 80), (10, 50)):
            placement = flight.placement(begin, end)
            assert placement is not None
            found_there = [spots[record.value] for record in records[start + begin : start + end]]
            assert placement.coordinates() == found_there


def _polled(consumer: KafkaConsumer) -> list[Any]:
    return [record for records in consumer.poll(timeout_ms=200).values() for record in records]
