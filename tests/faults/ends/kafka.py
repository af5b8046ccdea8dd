"""Kafka topics, through kafka-python."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any

from kafka import TopicPartition
from kafka.errors import KafkaError

from tests.faults.verdict import IDENTITY, Copy, Numbered, identity_in
from tests.support.brokers import Kafka
from tests.support.kafka_clients import KafkaConsumer, KafkaProducer

__all__ = ["KafkaFeed", "KafkaOutlet"]


class KafkaFeed:
    """Records with acks=all, sent once each: a record without answer is in doubt and is not repeated."""

    def __init__(self, server: Kafka, topic: str) -> None:
        self._server = server
        self._topic = topic
        self._producer: Any = None
        assert self.reopen(), "Kafka is not there"

    def publish(self, messages: Sequence[Numbered]) -> set[int]:
        taken: set[int] = set()
        try:
            sent = [(message.number, self._send(message)) for message in messages]
            self._producer.flush(10)
        except KafkaError:
            return taken
        for number, future in sent:
            if future.is_done and future.succeeded():
                taken.add(number)
        return taken

    def _send(self, message: Numbered) -> Any:
        return self._producer.send(
            self._topic,
            message.body,
            key=f"lane{message.lane}".encode(),
            headers=[] if message.identity is None else [(IDENTITY, message.identity.encode())],
            partition=message.lane,
        )

    def reopen(self) -> bool:
        self.close()
        try:
            self._producer = KafkaProducer(
                bootstrap_servers=self._server.bootstrap,
                acks="all",
                retries=0,
                enable_idempotence=False,
                max_in_flight_requests_per_connection=1,
                linger_ms=5,
                request_timeout_ms=5000,
                delivery_timeout_ms=8000,
                max_block_ms=5000,
            )
            if not self._producer.partitions_for(self._topic):
                return False
        except KafkaError:
            return False
        return True

    def close(self) -> None:
        if self._producer is not None:
            self._producer.close(timeout=1)
            self._producer = None
            gc.collect()  # sockets of refused attempts go now, not in the middle of somebody else's test


class KafkaOutlet:
    """A topic, read from its beginning after the faults."""

    def __init__(self, server: Kafka, topic: str) -> None:
        self._server = server
        self._topic = topic
        self._consumer: Any = None

    def collect(self) -> list[Copy]:
        if self._consumer is None:
            self._consumer = consumer = KafkaConsumer(
                bootstrap_servers=self._server.bootstrap,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                isolation_level="read_committed",
                request_timeout_ms=5000,
            )
            partitions = [TopicPartition(self._topic, number) for number in consumer.partitions_for_topic(self._topic)]
            consumer.assign(partitions)
            consumer.seek_to_beginning(*partitions)
        copies: list[Copy] = []
        while polled := self._consumer.poll(timeout_ms=500, max_records=5000):
            for records in polled.values():
                copies.extend(_copy(record) for record in records)
        return copies

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None


def _copy(record: Any) -> Copy:
    return Copy(record.value, identity_in(record.headers))
