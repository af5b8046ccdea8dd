"""Bridged Kafka topics: the columns are what the gateway itself would make of the records."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from mgw.pipelines.kafka import KafkaTopics, messages, read_topics, stream_topics
from mgw.pipelines.source.columns import NAMES, ddl
from mgw.transforms.kafka import Record, Rules, from_record, origin_headers, to_record
from mgw.transforms.message import Header, Message, ValueType
from tests.support.brokers import Kafka
from tests.support.gateways import gateway_on
from tests.support.kafka_clients import KafkaProducer
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

NOW = 1_790_000_000.0
_COORDINATES = {"topic", "partition", "offset", "timestamp", "timestampType"}
_TYPED = (
    Header("text", ValueType.TEXT, "grün, \"quoted\" 'and' more"),
    Header("raw", ValueType.RAW, bytes(range(256))),
    Header("yes", ValueType.BOOLEAN, True),
    Header("byte", ValueType.BYTE, -1),
    Header("long", ValueType.LONG, 2**62),
    Header("double", ValueType.DOUBLE, -1.5e-9),
    Header("date", ValueType.DATE, 1_700_000_000.25),
    Header("twice", ValueType.TEXT, "first"),
    Header("twice", ValueType.INTEGER, 2),
    Header("twice", ValueType.TEXT, "third"),
    Header("MGW_KAFKA_H_theirs", ValueType.TEXT, "x"),
    Header("MGW_KAFKA_H_bytes", ValueType.RAW, b"\xff"),
    Header("MGW_KAFKA_N_none", ValueType.TEXT, ""),
    Header("MGW_AMQP_routingKey", ValueType.TEXT, "a.b"),
)
_SENT = [
    Message("plain text"),
    Message(b"\xff\x00", msgid=b"0123456789abcdef", enqueue_time=NOW - 5),
    Message(None, correlation="order 7"),
    Message(None),
    Message(b"", _TYPED, correlation="a key"),
    Message("k", (Header("MGW_KAFKA_key", ValueType.RAW, b"\xfe\xff"),), correlation="not the key"),
    Message(
        "p",
        priority=-7,
        correlation="c",
        delay=2.5,
        expiration=60,
        exception_queue="EXC",
        original_msgid=b"f" * 16,
        sender_name="agent",
        sender_address="Q@link",
        enqueue_time=NOW - 5,
        msgid=b"A" * 16,
    ),
]
_FOREIGN = [
    Record(b"v", b"key", [], None, None),
    Record(
        b"v", b"x" * 200, [("a", b"1"), ("a", b"\xff"), ("MGW_error", b"why"), ("MGW_AQ_sender", b"plain")], None, None
    ),
    Record(b"v", None, [("MGW_types", b"no table"), ("n", b"5"), ("MGW_AQ_priority", b"4")], None, None),
    Record(
        b"v", None, [("MGW_types", b'{"n":"I","m":"q","b":"B"}'), ("n", b"x"), ("m", b"5"), ("b", b"maybe")], None, None
    ),
]


def _expected(record: Record, place: int) -> dict[str, Any]:
    """What an inbound job makes of the record."""
    received = SimpleNamespace(
        offset=place,
        timestamp=_moment(record),
        timestamp_type=0,
        key=record.key,
        value=record.value,
        headers=record.headers,
    )
    message, failure = from_record(received, origin_headers("t", 1), Rules(properties=True), NOW)
    assert failure is None
    headers = [
        (name, kind.name, _shown(value))
        for name, kind, value in message.headers
        if name.removeprefix("MGW_KAFKA_") not in _COORDINATES
    ]
    expires = None if message.expiration is None else round(NOW + message.expiration, 3)
    names = ("priority", "correlation", "exception_queue", "original_msgid", "sender_name", "sender_address", "body")
    return {name: getattr(message, name) for name in names} | {"headers": headers, "expires_at": expires}


def _moment(record: Record) -> int:
    return record.timestamp if record.timestamp is not None else int(NOW * 1000)


def _shown(value: Any) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else repr(value)


def test_every_record_becomes_what_the_gateway_makes_of_it(spark: SparkSession) -> None:
    records = [to_record(message, Rules(properties=True), NOW) for message in _SENT] + _FOREIGN
    rows = [
        (
            None if record.key is None else bytearray(record.key),
            None if record.value is None else bytearray(record.value),
            "t",
            1,
            place,
            datetime.fromtimestamp(_moment(record) / 1000, UTC),
            0,
            [(name, bytearray(value)) for name, value in record.headers] or None,
        )
        for place, record in enumerate(records)
    ]
    schema = (
        "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT, "
        "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
    )
    frame = messages(spark.createDataFrame(rows, schema))
    assert tuple(frame.columns) == NAMES
    assert frame.schema.simpleString() == spark.createDataFrame([], ddl()).schema.simpleString()
    found = frame.orderBy("id").collect()
    for place, (record, row) in enumerate(zip(records, found, strict=True)):
        shown = {
            "headers": [tuple(each) for each in row.headers or ()],
            "expires_at": None if row.expires_at is None else row.expires_at.timestamp(),
            "body": None if row.body is None else bytes(row.body),
            "original_msgid": None if row.original_msgid is None else bytes(row.original_msgid),
        }
        expected = _expected(record, place)
        assert {name: shown.get(name, row[name]) for name in expected} == expected, place
        assert (row.origin.system, row.origin.name, row.origin.partition, row.origin.offset) == ("KAFKA", "t", 1, place)
    assert [row.text for row in found[:4]] == ["plain text", None, None, None]
    assert [row.body_type for row in found[:4]] == ["RAW", "RAW", "NONE", "NONE"]
    assert bytes(found[1].msgid) == bytes(found[1].origin.msgid) == b"0123456789abcdef"
    assert found[1].enq_time.timestamp() == NOW - 5
    assert found[6].ready_at.timestamp() == NOW - 5 + 2.5


@pytest.mark.kafka
def test_what_a_gateway_carried_is_read_in_batches_and_as_a_stream(
    spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    kafka.create_topic("spark.from", 2)
    kafka.create_topic("spark.to", 3)
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        gateway.admin.create_msgsystem_link("kf", "KAFKA", {"bootstrap_servers": kafka.bootstrap})
        gateway.admin.register_foreign_queue("FROM", "kf", "spark.from", options={"KAFKA_StartAt": "earliest"})
        gateway.admin.register_foreign_queue("TO", "kf", "spark.to")
        gateway.queue("H")
        gateway.admin.create_job("into", "INBOUND", "FROM@kf", "H")
        gateway.admin.create_job("out", "OUTBOUND", "H", "TO@kf", options={"AQ_MsgProperties": "true"})
        producer = KafkaProducer(bootstrap_servers=kafka.bootstrap)
        try:
            for number in range(20):
                producer.send("spark.from", b"%d" % number, b"key %d" % number, headers=[("unit", b"mm")])
        finally:
            producer.close()
        own = gateway.enqueue("H", [Message("mine", (Header("n", ValueType.INTEGER, 5),), priority=3)])
        with gateway.run():
            eventually(lambda: gateway.job("out")["PROPAGATED_TOTAL"] == 21, deadline=120)
        topics = KafkaTopics(bootstrap_servers=kafka.bootstrap, topics=("spark.to",), max_rows=10)
        batch = {bytes(row.msgid): row for row in read_topics(spark, topics).collect()}
        assert len(batch) == 21
        mine = batch[bytes(own[0])]
        assert (mine.text, mine.priority, mine.correlation) == ("mine", 3, None)
        assert ("n", "INTEGER", "5") in [tuple(each) for each in mine.headers]
        bridged = [row for row in batch.values() if row.text != "mine"]
        assert {(row.text, row.correlation) for row in bridged} == {(str(n), f"key {n}") for n in range(20)}
        assert {bytes(row.msgid)[:8] for row in bridged} == {gateway.hub.hub_id}
        assert all(("unit", "TEXT", "mm") in [tuple(each) for each in row.headers] for row in bridged)
    target, checkpoint = str(tmp_path / "out"), str(tmp_path / "checkpoint")
    stream = stream_topics(spark, topics).writeStream.format("parquet").option("checkpointLocation", checkpoint)
    query = stream.trigger(availableNow=True).start(target)
    assert query.awaitTermination(120)
    assert len(query.recentProgress) >= 2
    assert {bytes(row.msgid) for row in spark.read.parquet(target).collect()} == set(batch)
