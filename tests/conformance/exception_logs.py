"""A job whose exception queue is a log: a topic of Kafka, read with each client, or a stream of RabbitMQ."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

import pika
from kafka import KafkaAdminClient, TopicPartition

from mgw.gateway.services.exceptions import EVERYTHING, Desk, Outcome, Pace, Which, desk_of
from tests.support.brokers import Kafka, RabbitMQ
from tests.support.gateways import Gateway
from tests.support.kafka_clients import KafkaConsumer, KafkaProducer
from tests.support.waiting import eventually

__all__ = ["Logs", "Sent", "StreamLogs", "TopicLogs", "listed", "replayed"]

TRANSFORMATION = {"set": {"body.c": "tab.user_data.f - 32"}}


class Sent(NamedTuple):
    """A message as another program reads it."""

    body: bytes
    headers: Sequence[tuple[str, Any]]
    key: Any
    part: int = 0
    timestamp: int | None = None


class Logs(ABC):
    """Job ``in`` from SRC@l to H, which cannot convert what it reads, with the exception queue BAD@l; and OTHER@l."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.names = {name: f"{name}.{uuid.uuid4().hex}" for name in ("SRC", "BAD", "OTHER")}
        gateway.queue("H")
        self.make()
        gateway.admin.create_transformation("f", "BASIC", "BASIC", TRANSFORMATION)
        gateway.admin.create_job("in", "INBOUND", "SRC@l", "H", transformation="f", exception_queue="BAD@l")

    @abstractmethod
    def make(self) -> None:
        """The link, the logs and their registrations."""

    @abstractmethod
    def make_again(self, name: str) -> None:
        """Delete a log and create it again under its name."""

    @abstractmethod
    def put(self, name: str, bodies: Sequence[str]) -> None:
        """Messages of another program, with a header ``n`` and a key of their own."""

    @abstractmethod
    def taken(self, name: str) -> list[Sent]:
        """All messages of a log, by partition."""

    @contextmanager
    def running(self) -> Iterator[None]:
        with self.gateway.run():
            yield

    def fail(self, count: int = 3) -> list[Sent]:
        """So many messages of SRC get into BAD by the job, which has stopped then; as they are in SRC."""
        before = int(self.gateway.job("in")["EXCEPTIONQ_TOTAL"])
        self.put("SRC", [f"hot {number}" for number in range(count)])
        with self.running():
            eventually(lambda: self.gateway.job("in")["EXCEPTIONQ_TOTAL"] == before + count, deadline=60)
        return self.taken("SRC")

    def bodies(self, name: str) -> list[str]:
        return [sent.body.decode() for sent in self.taken(name)]

    def desk(self, **to: str) -> Desk:
        return desk_of(self.gateway.admin, "in", **to)  # type: ignore[arg-type]


class TopicLogs(Logs):
    """Topics; SRC and BAD have several partitions."""

    def __init__(self, gateway: Gateway, server: Kafka, client: str, partitions: int = 3) -> None:
        self.server, self.client, self.partitions = server, client, partitions
        super().__init__(gateway)

    def make(self) -> None:
        place = {"bootstrap_servers": self.server.bootstrap, "client": self.client}
        self.gateway.admin.create_msgsystem_link("l", "KAFKA", place)
        for name, real in self.names.items():
            self.server.create_topic(real, self.partitions)
            options = {"KAFKA_StartAt": "earliest"}
            self.gateway.admin.register_foreign_queue(name, "l", real, options=options)

    def make_again(self, name: str) -> None:
        real = self.names[name]
        with closing(KafkaAdminClient(bootstrap_servers=self.server.bootstrap)) as admin:
            admin.delete_topics([real])
            eventually(lambda: real not in admin.list_topics(), what="a topic that is deleted")
        self.server.create_topic(real, self.partitions)

    def cut(self, name: str, before: dict[int, int]) -> None:
        """Delete what is before an offset, by partition."""
        with closing(KafkaAdminClient(bootstrap_servers=self.server.bootstrap)) as admin:
            admin.delete_records({TopicPartition(self.names[name], part): at for part, at in before.items()})

    def put(self, name: str, bodies: Sequence[str], part: int | None = None, **producer: Any) -> None:
        with closing(KafkaProducer(bootstrap_servers=self.server.bootstrap, **producer)) as sender:
            for number, body in enumerate(bodies):
                at = number % self.partitions if part is None else part
                headers = [("n", b"%d" % number), ("raw", b"\xff\x00"), ("n", b"again")]
                moment = 1_700_000_000_000 + number
                key = b"k%d" % number
                sender.send(self.names[name], body.encode(), key, headers, partition=at, timestamp_ms=moment).get(30)

    def taken(self, name: str) -> list[Sent]:
        real = self.names[name]
        places = [TopicPartition(real, part) for part in range(self.partitions)]
        found: list[Sent] = []
        with closing(
            KafkaConsumer(bootstrap_servers=self.server.bootstrap, isolation_level="read_committed")
        ) as consumer:
            consumer.assign(places)
            consumer.seek_to_beginning(*places)
            ends = consumer.end_offsets(places)

            def read() -> bool:
                for records in consumer.poll(timeout_ms=200).values():
                    found.extend(
                        Sent(each.value, each.headers, each.key, each.partition, each.timestamp) for each in records
                    )
                return all(consumer.position(place) >= ends[place] for place in places)

            eventually(read, deadline=60, what="the end of the topic")
        return sorted(found, key=lambda sent: sent.part)  # which keeps the order within each


class StreamLogs(Logs):
    """BAD is a stream, SRC and OTHER are classic queues."""

    def __init__(self, gateway: Gateway, server: RabbitMQ, channel: Any) -> None:
        self.server, self.channel = server, channel
        super().__init__(gateway)

    def make(self) -> None:
        place = {"hostname": self.server.host, "port": self.server.port}
        user = {"username": self.server.username, "password": self.server.password}
        self.gateway.admin.create_msgsystem_link("l", "RABBITMQ", place, **user)
        for name, real in self.names.items():
            self._declare(name)
            self.gateway.admin.register_foreign_queue(name, "l", real, domain="QUEUE")

    def _declare(self, name: str) -> None:
        arguments = {"x-queue-type": "stream"} if name == "BAD" else {}
        self.channel.queue_declare(self.names[name], durable=True, arguments=arguments)

    def make_again(self, name: str) -> None:
        self.channel.queue_delete(self.names[name])
        self._declare(name)

    def put(self, name: str, bodies: Sequence[str]) -> None:
        for number, body in enumerate(bodies):
            properties = pika.BasicProperties(headers={"n": number}, correlation_id=f"k{number}")
            self.channel.basic_publish("", self.names[name], body.encode(), properties)

    def taken(self, name: str) -> list[Sent]:
        """Of the queues, which are empty then; nobody needs those of the stream."""
        found = []
        while (got := self.channel.basic_get(self.names[name], auto_ack=True))[0] is not None:
            headers = {each: value for each, value in (got[1].headers or {}).items() if each != "MGW_AQ_expires_at"}
            found.append(Sent(got[2], sorted(headers.items()), got[1].correlation_id))
        return found

    def fail(self, count: int = 3) -> list[Sent]:
        """See :meth:`Logs.fail`; they left SRC."""
        super().fail(count)
        return [Sent(b"hot %d" % number, [("n", number)], f"k{number}") for number in range(count)]


def listed(desk: Desk, which: Which = EVERYTHING, limit: int | None = None) -> list[str]:
    return [entry.id for entry in desk.entries(which, limit, whole=False)]


def replayed(desk: Desk, which: Which = EVERYTHING, limit: int | None = None, *, dry: bool = False) -> Outcome:
    return desk.replay(which, by="me", limit=limit, pace=Pace(None), dry=dry)
