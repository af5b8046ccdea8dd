"""The log queues of RabbitMQ jobs: what they prove, what is refused, and who is shut out."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pika
import pytest

from mgw.links.attempt import Attempt
from mgw.links.contract import (
    RESUME,
    AnswersSettled,
    Batch,
    Destination,
    Direction,
    Endpoint,
    Guarantee,
    JobUse,
    Recovered,
    Source,
)
from mgw.links.rabbitmq.connection import Session
from mgw.links.rabbitmq.link import RabbitLink
from mgw.links.rabbitmq.log_queue import LogQueue, Record
from mgw.links.rabbitmq.logged_destination import LoggedDestination
from mgw.links.rabbitmq.logged_source import LoggedSource
from mgw.transforms.errors import DeliveryRejected, LinkRefused, LinkUnavailable, PositionLost, QueueMissing
from mgw.transforms.message import Message
from tests.conformance.link_suite import body_bytes, unique, use_of
from tests.conformance.test_rabbitmq_link import RabbitTemplate
from tests.support.brokers import RabbitMQ
from tests.support.proxy import TcpProxy
from tests.support.rabbitmq_kills import LOG_ARGUMENTS
from tests.support.waiting import eventually

pytestmark = pytest.mark.rabbitmq

LOGS = {"inbound_log_queue": "mgw.acks.{job}", "outbound_log_queue": "mgw.sent.{job}"}


class Bench:
    """A queue, a job, and its log queues."""

    def __init__(self, template: RabbitTemplate) -> None:
        self.template = template
        self.channel = template.channel
        self.link: RabbitLink = template.link(**LOGS)

    def use(self, queue: str, *, logs: bool = True, **options: Any) -> JobUse:
        use = use_of(Endpoint("f", "rmq", queue, options=options))
        if logs:
            for name in ("acks", "sent"):
                self.channel.queue_declare(f"mgw.{name}.{use.job}", durable=True, arguments=LOG_ARGUMENTS)
        return use

    def fill(self, queue: str, *bodies: bytes, **properties: Any) -> None:
        for body in bodies:
            self.channel.basic_publish("", queue, body, pika.BasicProperties(delivery_mode=2, **properties))

    def count(self, queue: str) -> int:
        found: int = self.channel.queue_declare(queue, passive=True).method.message_count
        return found

    def record(self, use: JobUse, name: str = "sent") -> Any:
        method, _, body = self.channel.basic_get(f"mgw.{name}.{use.job}")
        if method is None:
            return None
        self.channel.basic_nack(method.delivery_tag, requeue=True)
        return json.loads(body)


@pytest.fixture
def bench(rabbitmq: RabbitMQ) -> Iterator[Bench]:
    template = RabbitTemplate(rabbitmq)
    yield Bench(template)
    template.close()


class Hub:
    """The receiving log as the hub stores it, and the rows."""

    def __init__(self) -> None:
        self.log: dict[str, str] = {}
        self.rows: list[bytes | None] = []
        self.suppressed = 0

    def store(self, batch: Batch) -> None:
        for partition, before, after in batch.positions:
            assert self.log.get(partition) == before
            self.log[partition] = after
        for partition, value in batch.marks:
            if value is None:
                self.log.pop(partition, None)
            else:
                self.log[partition] = value
        self.rows += [body_bytes(delivery.message) for delivery in batch.deliveries if not delivery.duplicate]
        self.suppressed += sum(delivery.duplicate for delivery in batch.deliveries)


@contextmanager
def connected(source: Source, hub: Hub) -> Iterator[Source]:
    """As the engine connects: again and again while the broker still knows the connection before."""
    try:

        def connect() -> bool:
            source.close()
            source.connect(dict(hub.log))
            return True

        eventually(connect, tolerate=(LinkUnavailable,))
        yield source
    finally:
        source.close()


def carry(source: Source, hub: Hub, count: int, *, size: int = 10, settle: bool = True) -> None:
    """Read ``count`` messages into the hub."""
    done = 0
    while done < count:
        batch = source.read(min(size, count - done), 5.0)
        assert batch.deliveries, f"{done} of {count} messages came"
        hub.store(batch)
        done += len(batch.deliveries)
        if settle:
            source.settle(batch)


@contextmanager
def publishing(destination: Destination) -> Iterator[Destination]:
    """A connected destination."""
    try:
        destination.connect()
        yield destination
    finally:
        destination.close()


def send(destination: Destination, sequence: int, *bodies: bytes) -> None:
    """Publish a batch and wait until it is stored."""
    destination.publish(sequence, [destination.encode(Message(body)) for body in bodies])
    eventually(lambda: destination.confirmed(0.5) == sequence, what=f"sequence {sequence} confirmed")


# -- inbound ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["classic", "quorum", "priority"])
def test_stored_and_unacknowledged_messages_are_not_stored_again(bench: Bench, kind: str) -> None:
    bench.template.queue_type = "quorum" if kind == "quorum" else "classic"
    queue = bench.template.queue(**{"x-max-priority": 9} if kind == "priority" else {})
    use, hub = bench.use(queue), Hub()
    for number in range(40):
        headers = {"z": number % 2, "a": "text", "flag": True, "ratio": 2**40}
        bench.fill(queue, b"even" if number % 2 else b"odd", priority=number % 3, headers=headers)
    with connected(bench.link.source(use), hub) as source:
        carry(source, hub, 10)
        carry(source, hub, 15, settle=False)
    with connected(bench.link.source(use), hub) as source:
        carry(source, hub, 5, size=5, settle=False)
    with connected(bench.link.source(use), hub) as source:
        carry(source, hub, 30)
    assert sorted(body or b"" for body in hub.rows) == [b"even"] * 20 + [b"odd"] * 20
    assert hub.suppressed == 20
    eventually(lambda: bench.count(queue) == 0)


def test_receiving_log_shuts_other_readers_out(bench: Bench) -> None:
    queue = bench.template.queue()
    use, other = bench.use(queue), bench.use(queue)
    with connected(bench.link.source(use), Hub()):
        second = bench.link.source(use)
        assert isinstance(second, LoggedSource)
        second.fence.patience = 0.0
        with pytest.raises(LinkUnavailable, match="another process of this job"):
            second.connect({})
        with pytest.raises(LinkUnavailable, match="locked"):
            bench.link.source(other).connect({})


def test_backlog_may_be_asked_while_the_broker_commits(bench: Bench) -> None:
    queue = bench.template.queue()
    use, hub = bench.use(queue), Hub()
    bench.fill(queue, *[b"m"] * 100)
    with connected(bench.link.source(use), hub) as source:
        for _ in range(100):
            carry(source, hub, 1)
            assert source.backlog() is not None
        eventually(lambda: source.backlog() == (0, None))
    assert len(hub.rows) == 100


def test_record_is_whole_for_a_job_while_the_logs_are_cleaned(bench: Bench) -> None:
    """Both look at it at the start of an agent, and looking takes it out of the queue for a moment."""
    use = bench.use(bench.template.queue())
    log = LogQueue("mgw.acks.{job}", use, bench.link._knowledge)
    done = threading.Event()

    def clean() -> None:
        while not done.is_set():
            assert bench.link.clean_logs(use.hub_id, [(use, Direction.INBOUND)], (), lambda _: True) == []

    session = Session(bench.link._settings, "look")
    cleaner = threading.Thread(target=clean)
    try:
        log.write(session, Record(5))
        cleaner.start()
        assert {log._look(session) for _ in range(300)} == {Record(5)}
    finally:
        done.set()
        cleaner.join()
        session.close()


def test_an_interruption_does_not_end_the_wait_for_a_commit(bench: Bench) -> None:
    """A job is interrupted when it is stopped. What the hub has stored is acknowledged all the same."""
    queue = bench.template.queue()
    use, hub = bench.use(queue), Hub()
    bench.fill(queue, b"1", b"2")
    server = bench.template.server
    with TcpProxy(server.host, server.port) as proxy:
        link = bench.template.link(attributes={"hostname": proxy.host, "port": proxy.port}, **LOGS)
        with connected(link.source(use), hub) as source:
            first, second = source.read(1, 5.0), source.read(1, 5.0)
            hub.store(first)
            proxy.stall(requests=False)
            source.settle(first)
            hub.store(second)
            answers = threading.Timer(0.2, proxy.resume)
            answers.start()
            source.interrupt()
            source.settle(second)  # waits for the first commit
            answers.join()
    assert hub.rows == [b"1", b"2"]
    eventually(lambda: bench.record(use, "acks")["sequence"] == 2, what="the record of the second batch")
    assert bench.count(queue) == 0


@pytest.mark.parametrize("logs", [True, False], ids=["log-queue", "plain"])
def test_what_was_settled_is_at_the_broker_before_the_source_is_closed(bench: Bench, logs: bool) -> None:
    """The broker may take longer than the connection waits for its goodbye."""
    queue = bench.template.queue()
    use, hub = bench.use(queue, logs=logs), Hub()
    bench.fill(queue, b"1")
    server = bench.template.server
    with TcpProxy(server.host, server.port) as proxy:
        link = bench.template.link(attributes={"hostname": proxy.host, "port": proxy.port}, **(LOGS if logs else {}))
        with connected(link.source(use), hub) as source:
            assert isinstance(source, AnswersSettled)
            batch = source.read(1, 5.0)
            hub.store(batch)
            proxy.stall()
            source.settle(batch)
            flows = threading.Timer(0.2, proxy.resume)
            flows.start()
            source.interrupt()
            source.await_settled(30.0)
            flows.join()
            proxy.cut()
    eventually(lambda: bench.count(queue) == 0, what="an empty queue")
    bench.channel.queue_delete(queue, if_empty=True)


def test_hub_restored_from_a_backup_is_noticed(bench: Bench) -> None:
    queue = bench.template.queue()
    use, hub = bench.use(queue), Hub()
    bench.fill(queue, *[b"m"] * 30)
    with connected(bench.link.source(use), hub) as source:
        carry(source, hub, 10)
        backup = dict(hub.log)
        carry(source, hub, 20)
    hub.log = backup
    with pytest.raises(PositionLost, match="restored") as caught, connected(bench.link.source(use), hub):
        pass
    assert caught.value.number == 416


def test_purged_acknowledgement_record_is_noticed(bench: Bench) -> None:
    queue = bench.template.queue()
    use, hub = bench.use(queue), Hub()
    bench.fill(queue, *[b"m"] * 30)
    with connected(bench.link.source(use), hub) as source:
        carry(source, hub, 30)
    bench.channel.queue_purge(f"mgw.acks.{use.job}")
    with pytest.raises(PositionLost, match="purged") as caught, connected(bench.link.source(use), hub):
        pass
    assert caught.value.number == 417
    with connected(bench.link.source(use), Hub()) as source:  # after RESET_SUB_MISSING_LOG_REC
        bench.fill(queue, b"next")
        carry(source, fresh := Hub(), 1)
    assert fresh.rows == [b"next"]


@pytest.mark.parametrize("what", ["purged", "re-created", "read by somebody else"])
def test_messages_gone_behind_the_gateways_back_are_noticed(bench: Bench, what: str) -> None:
    queue = bench.template.queue()
    use, hub = bench.use(queue), Hub()
    bench.fill(queue, *[b"m"] * 10)
    with connected(bench.link.source(use), hub) as source:
        carry(source, hub, 5, settle=False)
    eventually(lambda: bench.count(queue) == 10, what="the messages back in the queue")
    if what == "purged":
        bench.channel.queue_purge(queue)
    elif what == "re-created":
        bench.channel.queue_delete(queue)
        bench.channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "classic"})
        bench.fill(queue, *[b"m"] * 4)
    else:
        for _ in range(6):
            method, _, _ = bench.channel.basic_get(queue)
            bench.channel.basic_ack(method.delivery_tag)
    hasty = bench.template.link(**LOGS, options={"AMQP_AnswerTimeout": "3"})
    stored = dict(hub.log)
    with pytest.raises(PositionLost, match="are gone") as caught, connected(hasty.source(use), hub):
        pass
    assert caught.value.number == 415
    assert hub.log == stored
    assert len(hub.rows) == 5
    hub.log = {RESUME: "earliest"}  # after RESET_SUB_MISSING_MESSAGE
    bench.fill(queue, b"next")
    left = bench.count(queue)
    with connected(hasty.source(use), hub) as source:
        carry(source, hub, left)
    assert hub.rows[-1] == b"next"


def test_missing_log_queue_is_named_with_its_declaration(bench: Bench) -> None:
    use = bench.use(bench.template.queue(), logs=False)
    for direction, name in ((Direction.INBOUND, "acks"), (Direction.OUTBOUND, "sent")):
        with pytest.raises(QueueMissing, match=rf"mgw\.{name}\.{use.job}") as caught:
            bench.link.verify(use, direction)
        assert '"x-max-length":2' in caught.value.cure


def test_what_a_quorum_queue_refuses_is_not_taken_for_stored(bench: Bench) -> None:
    """RabbitMQ commits a transaction of which a quorum queue refused messages: without a word they are gone."""
    bench.template.queue_type = "quorum"
    queue = bench.template.queue(**{"x-max-length": 50, "x-overflow": "reject-publish"})
    use = bench.use(queue)
    with pytest.raises(LinkUnavailable, match="cannot be written to in transactions"):
        bench.link.destination(replace(use, attempt=Attempt())).connect()
    assert bench.link.verify(use, Direction.OUTBOUND).level is Guarantee.AT_LEAST_ONCE
    confirmed = []

    def fill(destination: Destination) -> None:
        for sequence in range(1, 10):
            send(destination, sequence, *[b"m"] * 40)
            confirmed.append(40)

    with publishing(bench.link.destination(use)) as destination:
        assert destination.recovered() is None
        with pytest.raises(DeliveryRejected):
            fill(destination)
    assert 0 < sum(confirmed) <= bench.count(queue)


def test_a_queue_made_again_as_a_quorum_queue_gets_no_transaction(bench: Bench) -> None:
    queue = bench.template.queue()
    use = bench.use(queue)
    assert bench.link.verify(use, Direction.OUTBOUND).level is Guarantee.EXACT_UNLESS_BROKER_CRASH
    with publishing(bench.link.destination(use)) as destination:
        send(destination, 1, b"m")
        bench.channel.queue_delete(queue)
        bench.channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "quorum"})
        bench.link.verify(use, Direction.OUTBOUND)  # as every minute
        with pytest.raises(LinkUnavailable, match="cannot be written to in transactions"):
            send(destination, 2, b"m")
    with publishing(bench.link.destination(use)) as destination:
        send(destination, 2, b"m")
    assert bench.count(queue) == 1


@pytest.mark.parametrize("arguments", [{}, {"x-max-length": 1}, {"x-max-length": 2, "x-queue-type": "quorum"}])
def test_log_queue_that_keeps_more_or_less_is_refused(bench: Bench, arguments: dict[str, object]) -> None:
    use = bench.use(bench.template.queue(), logs=False)
    bench.channel.queue_declare(f"mgw.acks.{use.job}", durable=True, arguments=arguments)
    with pytest.raises(LinkRefused, match="cannot be its log queue"):
        bench.link.verify(use, Direction.INBOUND)


def test_log_queue_of_another_job_is_refused(bench: Bench) -> None:
    queue = unique("shared")
    bench.channel.queue_declare(queue, durable=True, arguments=LOG_ARGUMENTS)
    link = bench.template.link(outbound_log_queue=queue)
    target = bench.template.queue()
    first, second = bench.use(target, logs=False), bench.use(target, logs=False)
    with publishing(link.destination(first)) as destination:
        send(destination, 1, b"m")
    with pytest.raises(LinkRefused, match=f"record is of job {first.job}"):
        link.destination(second).connect()
    link.forget(first, Direction.OUTBOUND)
    with publishing(link.destination(second)) as destination:
        assert destination.recovered() == Recovered(None)


def test_levels_say_what_they_rest_on(bench: Bench) -> None:
    queue = bench.template.queue()
    plain = bench.template.link()
    declared = {"AMQP_UniqueIds": "TRUE"}
    levels = {
        (plain, ()): Guarantee.AT_LEAST_ONCE,
        (plain, (("AMQP_UniqueIds", "TRUE"),)): Guarantee.EXACT,
        (bench.link, ()): Guarantee.EXACT_UNLESS_BROKER_CRASH,
        (bench.link, (("AMQP_DeadLetters", "TRUE"),)): Guarantee.AT_LEAST_ONCE,
        (bench.link, (("AMQP_DeadLetters", "TRUE"), *declared.items())): Guarantee.EXACT,
    }
    for (link, options), level in levels.items():
        values: dict[str, Any] = dict(options)
        report = link.verify(bench.use(queue, **values), Direction.INBOUND)
        assert (report.level, bool(report.note)) == (level, True), options
    assert bench.link.verify(bench.use(queue), Direction.OUTBOUND).level is Guarantee.EXACT_UNLESS_BROKER_CRASH
    assert plain.verify(bench.use(queue), Direction.OUTBOUND).level is Guarantee.AT_LEAST_ONCE


def test_message_ids_are_keys_of_the_batch(bench: Bench) -> None:
    queue = bench.template.queue()
    bench.fill(queue, b"a", message_id="one")
    bench.fill(queue, b"b")
    with connected(bench.link.source(bench.use(queue, AMQP_UniqueIds="TRUE")), Hub()) as source:
        found: list[str | None] = []
        while len(found) < 2:
            found += source.read(2, 5.0).ids
    assert found == ["one", None]


def test_stream_is_resumed_at_its_first_message(bench: Bench) -> None:
    bench.template.queue_type = "stream"
    queue = bench.template.queue()
    bench.fill(queue, b"first")
    use = bench.use(queue, AMQP_StreamOffset="next")
    hub = Hub()
    hub.log[RESUME] = "earliest"
    with connected(bench.link.source(use), hub) as source:
        carry(source, hub, 1)
    assert hub.rows == [b"first"]


# -- outbound ---------------------------------------------------------------------------------------------------------


def test_record_tells_after_a_reconnect_what_is_stored(bench: Bench) -> None:
    queue = bench.template.queue()
    use = bench.use(queue)
    with publishing(bench.link.destination(use)) as destination:
        assert destination.recovered() == Recovered(None)
        for sequence in range(1, 30):
            destination.publish(sequence, [destination.encode(Message(b"m"))] * 3)
        eventually(lambda: destination.confirmed(0.5) == 29)
    assert bench.count(queue) == 87
    with publishing(bench.link.destination(use)) as destination:
        assert destination.recovered() == Recovered(29)
        send(destination, 30, b"m")
    assert bench.count(queue) == 88
    assert bench.count(f"mgw.sent.{use.job}") == 2


def test_second_publisher_of_a_job_is_shut_out(bench: Bench) -> None:
    use = bench.use(bench.template.queue())
    with publishing(bench.link.destination(use)) as first:
        second = bench.link.destination(use)
        assert isinstance(second, LoggedDestination)
        second.fence.patience = 0.0
        with pytest.raises(LinkUnavailable, match="another process of this job"):
            second.connect()
        send(first, 1, b"m")


def test_transaction_that_a_full_queue_refuses_in_part_ends_the_job(bench: Bench) -> None:
    queue = bench.template.queue(**{"x-max-length": 1, "x-overflow": "reject-publish"})
    use = bench.use(queue)
    with publishing(bench.link.destination(use)) as destination:
        with pytest.raises(DeliveryRejected, match="stored only part") as caught:
            send(destination, 1, b"a", b"b", b"c")
        assert caught.value.number == 417
    assert bench.record(use)["partial"] == 1
    with pytest.raises(DeliveryRejected, match="stored only part") as caught:
        bench.link.destination(use).connect()
    assert caught.value.number == 417
    bench.channel.queue_purge(f"mgw.sent.{use.job}")
    with publishing(bench.link.destination(use)) as destination:
        assert destination.recovered() == Recovered(None)


def test_message_without_a_route_is_not_taken_for_sent(bench: Bench) -> None:
    queue = bench.template.queue()
    use = bench.use(queue)
    with publishing(bench.link.destination(use)) as destination:
        send(destination, 1, b"a")
        bench.channel.queue_delete(queue)
        with pytest.raises(DeliveryRejected, match="could not route") as caught:
            send(destination, 2, b"b")
        assert caught.value.number == 417
    assert bench.record(use)["partial"] == 2


def test_exception_messages_stay_out_of_the_sending_log(bench: Bench) -> None:
    queue = bench.template.queue()
    use = use_of(Endpoint("f", "rmq", queue), logged=False)
    with publishing(bench.link.destination(use)) as destination:
        assert destination.recovered() is None
        send(destination, 1, b"refused")
    assert bench.count(queue) == 1
