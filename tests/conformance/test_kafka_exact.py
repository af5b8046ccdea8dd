"""Kafka as a destination that has every message exactly once: transactions, fencing and the sending log.

Readers here read what is committed (``read_committed``) unless a test says otherwise. The broker is a real one; it is
frozen, killed and cut off while transactions run.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.admin import NewPartitions
from kafka.producer.transaction_manager import TransactionManager

import mgw.links.kafka.transactional
from mgw.gateway.config.forms import link_config as file_link_config
from mgw.gateway.config.models import LinkModel
from mgw.links.contract import Direction, Guarantee, GuaranteeReport, JobUse, LinkConfig, Recovered
from mgw.links.kafka.link import KafkaLink
from mgw.links.kafka.logged_destination import KafkaExactDestination
from mgw.links.kafka.python_client.sent import Sent
from mgw.links.registry import open_link
from mgw.transforms.errors import (
    AdminError,
    ConfigInvalid,
    DeliveryRejected,
    LinkError,
    LinkRefused,
    LinkUnavailable,
    QueueMissing,
)
from mgw.transforms.kafka import Record
from mgw.transforms.message import Message
from tests.conformance import test_kafka_link
from tests.conformance.link_suite import SOON, Pair, numbered, reading, unique, use_of, wait_until, writing
from tests.conformance.test_kafka_link import KafkaTemplate, create
from tests.support.brokers import Kafka
from tests.support.kafka_clients import KafkaAdminClient, KafkaConsumer
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka
client = test_kafka_link.client  # the fixture

#: Tests that reach into that client: what its guards are for.
ONLY_KAFKA_PYTHON = pytest.mark.parametrize("client", ["kafka-python"], indirect=True)
_COMPACT = {"cleanup.policy": "compact"}
_CALM = {"KAFKA_Metadata_max_age_ms": "500"}
_HASTY = {
    "KAFKA_Bootstrap_timeout_ms": "3000",
    "KAFKA_Request_timeout_ms": "3000",
    "KAFKA_Delivery_timeout_ms": "3000",
    "KAFKA_Metadata_max_age_ms": "500",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Kafka]:
    """A broker of our own, because it is frozen and killed."""
    with Kafka(tls=True, username="mgw", password="s3cret-word") as server:
        yield server


class ExactTemplate(KafkaTemplate):
    """Every link has a log topic of its own."""

    def link_to(
        self,
        servers: str,
        *,
        attributes: Mapping[str, str] | None = None,
        options: Mapping[str, str] = _HASTY,
        log: str | None = None,
        **login: str,
    ) -> KafkaLink:
        if log is None:
            log = unique("log")
            create(self.broker, log, 4, _COMPACT)
        given = {"bootstrap_servers": servers, "client": self.client, **(attributes or {})}
        link = open_link(LinkConfig("kf", "KAFKA", given, options, outbound_log_queue=log, **login))
        assert isinstance(link, KafkaLink)
        return link

    def exact(self, log: str | None = None, **options: str) -> KafkaLink:
        """A link that gives a slow machine time."""
        return self.link_to(self.broker.bootstrap, options=_CALM | options, log=log)

    def log_topic(self, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        name = unique("log")
        create(self.broker, name, partitions, _COMPACT if config is None else config)
        return name


@pytest.fixture
def template(broker: Kafka, client: str) -> ExactTemplate:
    return ExactTemplate(broker, client)


class TestExactKafkaLink(test_kafka_link.TestKafkaLink):
    """What every destination owes holds for the transactional one, too."""

    def test_backlog_counts_what_is_not_yet_read(self, template: KafkaTemplate) -> None:
        """The end of a transaction takes an offset, too; nothing is left once all was read."""
        pair = template.pair()
        with reading(template.link(), pair) as reader, writing(template.link(), pair) as writer:
            writer.deliver(*numbered(10))

            def waiting() -> int:
                backlog = reader.source.backlog()
                assert backlog is not None
                return backlog.messages

            wait_until(lambda: 10 <= waiting() <= 11, "backlog of 10")
            reader.collect(10)

            def left() -> int:
                reader.settle(reader.source.read(1, 0.2))  # librdkafka tells of the end with the next answer
                return waiting()

            wait_until(lambda: left() == 0, "no backlog")


class Sender:
    """A destination with what the hub knows: plans that are not completed, sent again when the log has them not."""

    def __init__(self, link: KafkaLink, use: JobUse) -> None:
        self.destination = link.destination(use)
        self.plans: dict[int, list[Message]] = {}
        self.sequence = 0
        self.spared = 0
        self.failures = 0

    def connect(self) -> Recovered:
        self.destination.connect()
        recovered = self.destination.recovered()
        assert recovered is not None
        return recovered

    def plan(self, messages: list[Message]) -> None:
        self.sequence += 1
        self.plans[self.sequence] = messages

    def send(self, *sequences: int) -> None:
        for sequence in sequences:
            self.destination.publish(sequence, [self.destination.encode(m) for m in self.plans[sequence]])

    def confirm(self, seconds: float = SOON) -> None:
        """Wait until all is confirmed."""
        deadline = time.monotonic() + seconds
        while self.plans:
            assert time.monotonic() < deadline
            self._complete(self.destination.confirmed(0.2) or 0)

    def finish(self, sequence: int) -> None:
        """Send and confirm one plan."""
        self.send(sequence)
        self.confirm()

    def _complete(self, upto: int) -> int:
        done = [sequence for sequence in self.plans if sequence <= upto]
        for sequence in done:
            del self.plans[sequence]
        return len(done)

    def deliver(self, *batches: list[Message]) -> None:
        """Get plans there, whatever happens on the way."""
        for batch in batches:
            self.plan(batch)
        deadline = time.monotonic() + 60
        fresh = True
        while self.plans:
            assert time.monotonic() < deadline, f"not delivered: {list(self.plans)}"
            try:
                if not fresh:
                    self.destination.close()
                    self.spared += self._complete(self.connect().sequence or 0)
                fresh = False
                self.send(*self.plans)
                self.confirm()
            except LinkError:
                self.failures += 1


def committed(broker: Kafka, topic: str, level: str = "read_committed") -> list[bytes]:
    """Everything a reader sees, partition by partition in order; waits for open transactions to end."""
    plain = KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=None)
    try:
        places = [TopicPartition(topic, number) for number in sorted(plain.partitions_for_topic(topic) or ())]
        ends = plain.end_offsets(places)
    finally:
        plain.close()
    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap, group_id=None, isolation_level=level, auto_offset_reset="earliest"
    )
    found: dict[Any, list[bytes]] = {place: [] for place in places}
    try:
        consumer.assign(places)
        consumer.seek_to_beginning(*places)
        deadline = time.monotonic() + 90
        while any(consumer.position(place) < ends[place] for place in places):
            assert time.monotonic() < deadline, "a transaction stays open"
            for place, records in consumer.poll(timeout_ms=200).items():
                found[place] += [record.value for record in records]
    finally:
        consumer.close()
    return [value for place in places for value in found[place]]


def bodies(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]


@contextmanager
def sending(link: KafkaLink, pair: Pair, **settings: Any) -> Iterator[Sender]:
    sender = Sender(link, use_of(pair.destination, **settings))
    sender.connect()
    try:
        yield sender
    finally:
        sender.destination.close()


@contextmanager
def frozen(broker: Kafka) -> Iterator[None]:
    broker.freeze()
    try:
        yield
    finally:
        broker.thaw()


class TestTransactions:
    def test_many_batches_become_few_transactions_and_arrive_in_order(self, template: ExactTemplate) -> None:
        pair = template.pair()
        log = template.log_topic()
        link = template.exact(log)
        with sending(link, pair) as sender:
            sender.deliver(*(list(numbered(20, start)) for start in range(0, 4000, 20)))
        assert committed(template.broker, pair.destination.provider_queue) == bodies(4000)
        records = [json.loads(value) for value in committed(template.broker, log)]
        assert records[0]["sequence"] is None, "the claim"
        assert records[-1]["sequence"] == 200
        assert sum(record["count"] for record in records) == 4000
        assert len(records) < 100

    def test_messages_that_fail_take_their_transaction_with_them(self, template: ExactTemplate) -> None:
        pair = template.pair(config={"max.message.bytes": "100000"})
        name = pair.destination.provider_queue
        link = template.exact()
        with sending(link, pair) as sender:
            sender.deliver(list(numbered(3)))
            template.broker.configure_topic(name, {"max.message.bytes": "20000"})
            sender.plan([*numbered(5, 3), Message(body=b"x" * 50_000)])
            with pytest.raises(DeliveryRejected):
                sender.finish(2)
            sender.destination.close()
            assert sender.connect() == Recovered(1)
            sender.plans = {2: list(numbered(5, 3))}
            sender.send(2)
            sender.confirm()
        assert committed(template.broker, name) == bodies(8)

    def test_aborted_batches_are_there_for_careless_readers_only(self, template: ExactTemplate) -> None:
        pair = template.pair(partitions=2, config={"max.message.bytes": "100000"})
        name = pair.destination.provider_queue
        with sending(template.exact(), pair) as sender:
            template.broker.configure_topic(name, {"max.message.bytes": "20000"})
            good = [_to_partition(0, message) for message in numbered(5)]
            sender.plan([*good, _to_partition(1, Message(body=b"x" * 50_000))])
            with pytest.raises(DeliveryRejected):
                sender.finish(1)
        assert committed(template.broker, name) == []
        assert committed(template.broker, name, "read_uncommitted") == bodies(5)

    @ONLY_KAFKA_PYTHON
    def test_an_epoch_that_changes_in_a_transaction_is_no_success(self, template: ExactTemplate) -> None:
        """K3: the client itself would take the commit for done without sending it."""
        pair = template.pair(partitions=2)
        name = pair.destination.provider_queue
        with sending(template.exact(), pair) as sender:
            sender.deliver([_to_partition(n % 2, m) for n, m in enumerate(numbered(4))])
            destination = sender.destination
            assert isinstance(destination, KafkaExactDestination)
            assert destination._transactions is not None
            manager = destination._transactions.producer._transaction_manager
            manager.increment_sequence_number(TopicPartition(name, 1), 7)
            sender.plan([_to_partition(n % 2, m) for n, m in enumerate(numbered(4, 4))])
            with pytest.raises(LinkError):
                sender.finish(2)
            destination.close()
            assert sender.connect() == Recovered(1)
            sender.send(2)
            sender.confirm()
        assert sorted(committed(template.broker, name)) == bodies(8)

    def test_close_aborts_and_holds_no_reader_back(self, template: ExactTemplate) -> None:
        pair = template.pair()
        name = pair.destination.provider_queue
        sender = Sender(template.exact(), use_of(pair.destination))
        sender.connect()
        confirmed: set[int] = set()
        for round_number in range(10):
            sender.plan(list(numbered(200, round_number * 200)))
            sender.send(sender.sequence)
            started = time.monotonic()
            sender.destination.close()
            assert time.monotonic() - started < 15
            stored = sender.connect().sequence or 0
            confirmed |= {sequence for sequence in sender.plans if sequence <= stored}
            sender._complete(stored)
            sender.send(*sender.plans)
            sender.confirm()
        sender.destination.close()
        assert committed(template.broker, name) == bodies(2000)


class TestFencing:
    def test_a_second_publisher_of_the_job_shuts_the_first_out(self, template: ExactTemplate) -> None:
        pair = template.pair()
        link = template.exact()
        use = use_of(pair.destination)
        first, second = Sender(link, use), Sender(link, use)
        try:
            first.connect()
            first.deliver(list(numbered(10)))
            assert second.connect() == Recovered(1)
            first.plan(list(numbered(10, 10)))
            with pytest.raises(LinkError, match=r"(?i)fenced|epoch"):
                first.finish(2)
            second.sequence, second.plans = 2, dict(first.plans)
            second.send(2)
            second.confirm()
        finally:
            first.destination.close()
            second.destination.close()
        assert committed(template.broker, pair.destination.provider_queue) == bodies(20)

    @ONLY_KAFKA_PYTHON
    def test_a_publisher_shut_out_in_the_middle_of_a_transaction_leaves_the_next_alone(
        self, template: ExactTemplate, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its server tells it with the answer to a record, not to a transaction's request; the client would answer that
        by a new epoch, which could shut the next publisher out in its turn."""
        pair = template.pair()
        link, use = template.exact(), use_of(pair.destination)
        first, second = Sender(link, use), Sender(link, use)
        try:
            first.connect()
            first.deliver(list(numbered(10)))
            destination = first.destination
            assert isinstance(destination, KafkaExactDestination)
            assert destination._transactions is not None
            producer = destination._transactions.producer
            send_all, sent = producer.send_all, []

            def slowly(topic: str, records: Sequence[Record], into: list[Sent], first: int = 0) -> None:
                for number, record in enumerate(records, first):
                    if len(sent) == 5:
                        wait_until(lambda: sent[-1].is_done, "the server's answer: the transaction is open there")
                        assert sent[-1].exception is None
                        assert second.connect() == Recovered(1)
                    if len(sent) == 6:
                        wait_until(lambda: sent[-1].is_done, "the server's answer to a record")
                    send_all(topic, [record], into, number)
                    sent.append(into[-1])

            monkeypatch.setattr(producer, "send_all", slowly)
            first.plan(list(numbered(10, 10)))
            with pytest.raises(LinkError, match=r"fenced by another"):
                first.finish(2)
            assert len(sent) >= 6
            second.sequence, second.plans = 2, dict(first.plans)
            second.finish(2)
            second.deliver(list(numbered(5, 20)))
            assert second.failures == 0
        finally:
            first.destination.close()
            second.destination.close()
        assert committed(template.broker, pair.destination.provider_queue) == bodies(25)

    def test_what_a_stalled_publisher_left_open_is_gone_when_the_next_has_read_the_log(
        self, template: ExactTemplate
    ) -> None:
        pair = template.pair()
        name = pair.destination.provider_queue
        use = use_of(pair.destination)
        log = template.log_topic()
        with template.broker.proxy() as proxy:
            first = Sender(template.link_to(template.broker.proxied_bootstrap, log=log), use)
            first.connect()
            first.deliver(list(numbered(5)))
            proxy.delay(0.05)
            first.plan(list(numbered(5, 5)))
            first.send(2)
            wait_until(lambda: _end(template, name) > 6, "the records of an open transaction")
            proxy.stall()
            second = Sender(template.exact(log), use)
            recovered = second.connect()
            proxy.resume()
            proxy.delay(0)
            second.sequence, second.plans = 2, dict(first.plans)
            second._complete(recovered.sequence or 0)
            second.send(*second.plans)
            second.confirm()
            with suppress(LinkError):
                first.confirm()
            first.destination.close()
            second.destination.close()
        assert committed(template.broker, name) == bodies(10)


class TestForgottenMarkers:
    """A server that dies after it has answered a commit may call the transaction complete without having marked all.

    Here records never become part of the transaction that the server knows; to it and to readers that is the same.
    """

    @pytest.fixture
    def careless(self, broker: Kafka) -> Iterator[None]:
        """The server takes records of transactions it does not know."""
        option = "transaction.partition.verification.enable"
        broker.configure_broker(option, "false")
        yield
        broker.configure_broker(option, "true")

    @staticmethod
    def forget(sender: Sender, topics: Collection[str]) -> None:
        destination = sender.destination
        assert isinstance(destination, KafkaExactDestination)
        assert destination._transactions is not None
        manager = destination._transactions._manager
        add = manager.maybe_add_partition_to_transaction

        def only_here(place: TopicPartition) -> None:
            if place.topic not in topics:
                add(place)
                return
            manager._partitions_in_transaction.add(place)
            manager._transaction_started = True

        manager.maybe_add_partition_to_transaction = only_here

    @ONLY_KAFKA_PYTHON
    @pytest.mark.usefixtures("careless")
    @pytest.mark.parametrize("forgotten", ["all", "log", "target"])
    def test_they_are_not_confirmed_and_there_once_after_the_next_connect(
        self, template: ExactTemplate, forgotten: str
    ) -> None:
        pair = template.pair()
        name = pair.destination.provider_queue
        link = template.link_to(template.broker.bootstrap)
        with sending(link, pair) as sender:
            sender.deliver(list(numbered(5)))
            destination = sender.destination
            assert isinstance(destination, KafkaExactDestination)
            parts = {"target": {name}, "log": {destination._log._topic}}
            self.forget(sender, parts.get(forgotten) or set().union(*parts.values()))
            sender.plan(list(numbered(5, 5)))
            sender.send(2)
            with pytest.raises(LinkError, match="confirmed nothing in time"):
                sender.confirm()
            sender.destination.close()
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(TransactionManager, "is_partition_added", lambda *_: False)
                with pytest.raises(LinkError, match="confirmed nothing in time"):
                    sender.connect()
            sender.destination.close()
            assert sender.connect() == Recovered(2), "what was committed stands, also where ending it was cut off"
            sender._complete(2)
            sender.deliver(list(numbered(5, 10)))
        assert committed(template.broker, name) == bodies(15)

    @ONLY_KAFKA_PYTHON
    @pytest.mark.usefixtures("careless")
    @pytest.mark.parametrize("forgotten", ["all", "log", "target"])
    def test_librdkafka_lets_what_was_committed_stand_too(self, template: ExactTemplate, forgotten: str) -> None:
        """It cannot ask for transactions, so kafka-python does before it makes its producer."""
        pair = template.pair()
        name = pair.destination.provider_queue
        log = template.log_topic()
        use = use_of(pair.destination)
        with sending(template.link_to(template.broker.bootstrap, log=log), pair, job=use.job) as sender:
            sender.deliver(list(numbered(5)))
            parts = {"target": {name}, "log": {log}}
            self.forget(sender, parts.get(forgotten) or {name, log})
            sender.plan(list(numbered(5, 5)))
            sender.send(2)
            with pytest.raises(LinkError, match="confirmed nothing in time"):
                sender.confirm()
        other = ExactTemplate(template.broker, "confluent").link_to(template.broker.bootstrap, log=log)
        with sending(other, pair, job=use.job) as sender:
            assert sender.destination.recovered() == Recovered(2)
            sender.sequence = 2
            sender.deliver(list(numbered(5, 10)))
        assert committed(template.broker, name) == bodies(15)


class TestFaults:
    """After every fault the sender does what the engine does: connect, read the log, send what it has not."""

    def test_a_broker_frozen_at_any_moment_leads_to_each_message_once(self, template: ExactTemplate) -> None:
        pair = template.pair()
        with sending(template.link_to(template.broker.bootstrap), pair) as sender:
            for round_number in range(3):
                with _later(random.uniform(0, 0.02), template.broker.freeze):
                    thaw = threading.Timer(6, template.broker.thaw)
                    thaw.start()
                    start = round_number * 2000
                    sender.deliver(*(list(numbered(100, n)) for n in range(start, start + 2000, 100)))
                    thaw.join()
            assert sender.failures, "a freeze longer than the timeouts was met"
        assert committed(template.broker, pair.destination.provider_queue) == bodies(6000)

    def test_a_wire_cut_and_refused_at_any_moment_leads_to_each_message_once(self, template: ExactTemplate) -> None:
        """K2: the client forgets a commit whose coordinator cannot be reached just then."""
        pair = template.pair()
        with template.broker.proxy() as proxy:
            link = template.link_to(template.broker.proxied_bootstrap)
            with sending(link, pair) as sender:
                for round_number in range(6):

                    def cut() -> None:
                        proxy.refuse()
                        proxy.cut()

                    with _later(random.uniform(0, 0.05), cut):
                        mend = threading.Timer(0.8, proxy.accept)
                        mend.start()
                        start = round_number * 1000
                        sender.deliver(*(list(numbered(50, n)) for n in range(start, start + 1000, 50)))
                        mend.join()
        assert committed(template.broker, pair.destination.provider_queue) == bodies(6000)

    def test_a_broker_killed_at_any_moment_leads_to_each_message_once(self, template: ExactTemplate) -> None:
        pair = template.pair()
        with sending(template.link_to(template.broker.bootstrap), pair) as sender:
            for round_number in range(2):

                def crash() -> None:
                    template.broker.kill()
                    template.broker.start()

                with _later(random.uniform(0, 0.04), crash):
                    start = round_number * 2000
                    sender.deliver(*(list(numbered(50, n)) for n in range(start, start + 2000, 50)))
        assert committed(template.broker, pair.destination.provider_queue) == bodies(4000)

    @pytest.mark.matrix  # what it adds to the tests above is a longer pause, and both faults together
    @pytest.mark.parametrize("fault", ["kill", "pause", "pause and kill"])
    def test_a_coordinator_lost_for_longer_than_a_transaction_may_take(
        self, template: ExactTemplate, monkeypatch: pytest.MonkeyPatch, fault: str
    ) -> None:
        monkeypatch.setattr(mgw.links.kafka.transactional, "_MIN_OPEN", 4000)
        pair = template.pair(partitions=3)

        def lose() -> None:
            if fault == "kill":
                template.broker.kill()
                template.broker.start()
                return
            template.broker.freeze()
            time.sleep(8)  # the fault itself: the transaction is too old when the server goes on after 6 s
            template.broker.thaw()
            if fault == "pause and kill":
                template.broker.kill()
                template.broker.start()

        with sending(template.link_to(template.broker.bootstrap), pair) as sender:
            sender.deliver(list(numbered(50)))
            with _later(random.uniform(0, 0.03), lose):
                sender.deliver(*(list(numbered(50, n)) for n in range(50, 2050, 50)))
        assert sorted(committed(template.broker, pair.destination.provider_queue), key=int) == bodies(2050)

    @ONLY_KAFKA_PYTHON
    def test_an_unanswered_commit_ends_in_time_and_the_log_decides(self, template: ExactTemplate) -> None:
        pair = template.pair()
        with sending(template.link_to(template.broker.bootstrap), pair) as sender:
            destination = sender.destination
            assert isinstance(destination, KafkaExactDestination)
            transactions = destination._transactions
            assert transactions is not None
            check = transactions._check_epoch

            def check_and_freeze() -> None:
                check()
                template.broker.freeze()

            transactions._check_epoch = check_and_freeze  # type: ignore[method-assign]
            sender.plan(list(numbered(10)))
            try:
                sender.send(1)
                with pytest.raises(LinkError):
                    sender.confirm(10)
                started = time.monotonic()
                destination.close()
                assert time.monotonic() - started < 8
            finally:
                template.broker.thaw()
            recovered = eventually(lambda: _connected(sender), deadline=SOON, what="a connection")
            assert recovered is not None
            sender._complete(recovered.sequence or 0)
            sender.send(*sender.plans)
            sender.confirm()
        assert committed(template.broker, pair.destination.provider_queue) == bodies(10)


class TestLog:
    def test_the_log_tells_the_last_sequence_after_a_restart(self, template: ExactTemplate) -> None:
        pair = template.pair()
        log = template.log_topic(3)
        link, use = template.exact(log), use_of(pair.destination)
        sender = Sender(link, use)
        assert sender.connect() == Recovered(None)
        sender.deliver(*([message] for message in numbered(7)))
        sender.destination.close()
        again = Sender(template.exact(log), use)
        assert again.connect() == Recovered(7)
        again.destination.close()

    def test_each_job_gets_a_partition_and_one_too_many_is_refused_with_the_cure(self, template: ExactTemplate) -> None:
        pair = template.pair()
        log = template.log_topic(2)
        link = template.exact(log)
        senders = [Sender(link, use_of(pair.destination)) for _ in range(3)]
        for sender in senders[:2]:
            sender.connect()
            sender.deliver([Message(body=b"1")])
        places = {sender.destination._log.partition for sender in senders[:2]}  # type: ignore[attr-defined]
        assert places == {0, 1}
        with pytest.raises(LinkRefused) as refused:
            senders[2].connect()
        assert log in str(refused.value)
        assert "add partitions" in refused.value.cure
        admin = KafkaAdminClient(bootstrap_servers=template.broker.bootstrap)
        admin.create_partitions({log: NewPartitions(3)})
        admin.close()
        recovered = eventually(lambda: _connected(senders[2]), tolerate=(LinkError,), what="the third partition")
        assert recovered == Recovered(None)
        for sender in senders[:2]:
            sender.destination.close()
            assert sender.connect() == Recovered(1), "a record stays where it is"
        for sender in senders:
            sender.destination.close()

    def test_jobs_that_start_together_do_not_share_a_partition(self, template: ExactTemplate) -> None:
        pair = template.pair()
        link = template.exact(template.log_topic(4))
        senders = [Sender(link, use_of(pair.destination)) for _ in range(4)]
        failed: list[BaseException] = []

        def connect(sender: Sender) -> None:
            try:
                _insist(sender)
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=connect, args=(sender,)) for sender in senders]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failed
        places = [sender.destination._log.partition for sender in senders]  # type: ignore[attr-defined]
        for sender in senders:
            sender.destination.close()
        assert sorted(places) == [0, 1, 2, 3]

    def test_a_job_that_was_removed_gives_its_partition_free(self, template: ExactTemplate) -> None:
        pair = template.pair()
        link = template.exact(template.log_topic())
        use = use_of(pair.destination)
        with sending(link, pair, job=use.job) as sender:
            sender.deliver([Message(body=b"1")])
        link.forget(use, Direction.INBOUND)
        with sending(link, pair, job=use.job) as sender:
            assert sender.destination.recovered() == Recovered(1)
        link.forget(use, Direction.OUTBOUND)
        with sending(link, pair) as other:
            assert other.destination.recovered() == Recovered(None)
            other.deliver([Message(body=b"2")])

    def test_the_record_is_found_before_thousands_of_others(self, template: ExactTemplate) -> None:
        pair = template.pair()
        log = template.log_topic()
        use = use_of(pair.destination)
        with sending(template.exact(log), pair, job=use.job) as sender:
            sender.deliver([Message(body=b"1")])
        with template.producer() as producer:
            for number in range(7000):
                producer.send(log, value=b"{}", key=b"%d" % number)
        with sending(template.exact(log), pair, job=use.job) as sender:
            assert sender.destination.recovered() == Recovered(1)

    def test_a_record_that_is_not_ours_is_refused(self, template: ExactTemplate) -> None:
        pair = template.pair()
        log = template.log_topic()
        use = use_of(pair.destination)
        link = template.exact(log)
        with template.producer() as producer:
            producer.send(log, value=b"hello", key=f"{use.hub_id}/{use.job}".encode()).get(timeout=SOON)
        sender = Sender(link, use)
        with pytest.raises(LinkRefused) as refused:
            sender.connect()
        assert refused.value.number == 417
        assert "CLEAN_LOG_QUEUES" in refused.value.cure
        uses = [(use, Direction.OUTBOUND)]
        assert link.clean_logs(use.hub_id, uses, (), lambda _: True) == [], "nobody asked for it"
        (removed,) = link.clean_logs(use.hub_id, uses, {use.job}, lambda _: True)
        assert "cannot be read" in removed
        assert sender.connect() == Recovered(None)
        sender.destination.close()

    def test_what_is_left_of_jobs_that_do_not_exist_is_removed_and_nothing_else(self, template: ExactTemplate) -> None:
        """The log topic is that of another link of the hub, too."""
        pair = template.pair()
        link = template.exact(template.log_topic(4))
        living, elsewhere, removed, other = (use_of(pair.destination) for _ in range(4))
        other = replace(other, hub_id="0123456789abcdef")
        for use in (living, elsewhere, removed, other):
            sender = Sender(link, use)
            sender.connect()
            sender.deliver([Message(body=b"1")])
            sender.destination.close()
        uses, jobs = [(living, Direction.OUTBOUND)], {living.job, elsewhere.job}
        (told,) = link.clean_logs(living.hub_id, uses, (), jobs.__contains__)
        assert removed.job in told
        assert link.clean_logs(living.hub_id, uses, (), jobs.__contains__) == []
        for use, recovered in ((living, 1), (elsewhere, 1), (removed, None), (other, 1)):
            sender = Sender(link, use)
            assert sender.connect() == Recovered(recovered)
            sender.destination.close()

    def test_another_open_transaction_on_the_partition_is_named(self, template: ExactTemplate) -> None:
        pair = template.pair()
        log = template.log_topic()
        link = template.exact(log, KAFKA_Delivery_timeout_ms="2000")
        with template.producer(transactional_id=unique("tx")) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(log, value=b"{}", key=b"other").get(timeout=SOON)
            sender = Sender(link, use_of(pair.destination))
            with pytest.raises(LinkError, match="open transaction"):
                sender.connect()
            sender.destination.close()
            producer.abort_transaction()
        assert sender.connect() == Recovered(None)
        sender.destination.close()


class TestSettings:
    def test_a_missing_log_topic_is_named_with_the_command_that_makes_it(self, template: ExactTemplate) -> None:
        pair = template.pair()
        name = unique("nolog")
        link = template.link_to(template.broker.bootstrap, log=name)
        sender = Sender(link, use_of(pair.destination))
        for call in (sender.connect, lambda: link.verify(use_of(pair.destination), Direction.OUTBOUND)):
            with pytest.raises(QueueMissing, match="outbound_log_queue") as missing:
                call()
            assert f"--topic {name}" in missing.value.cure
            assert "cleanup.policy=compact" in missing.value.cure
        sender.destination.close()

    @pytest.mark.parametrize(
        ("topic", "log", "note"),
        [
            ({}, _COMPACT, ""),
            ({}, {"cleanup.policy": "delete"}, "cleanup.policy"),
            ({}, {"cleanup.policy": "compact,delete"}, "cleanup.policy"),
            ({}, {**_COMPACT, "unclean.leader.election.enable": "true"}, "unclean.leader.election"),
            ({"unclean.leader.election.enable": "true"}, _COMPACT, "unclean.leader.election"),
        ],
    )
    def test_the_guarantee_names_the_first_condition_that_fails(
        self, template: ExactTemplate, topic: dict[str, str], log: dict[str, str], note: str
    ) -> None:
        pair = template.pair(config=topic)
        link = template.exact(template.log_topic(config=log))
        report = link.verify(use_of(pair.destination), Direction.OUTBOUND)
        if note:
            assert report.level is Guarantee.AT_LEAST_ONCE
            assert note in report.note
        elif template.client == "confluent":
            assert report.level is Guarantee.EXACT_UNLESS_BROKER_CRASH
            assert "cannot ask a server" in report.note
        else:
            assert report == GuaranteeReport(Guarantee.EXACT, "for read_committed readers")

    def test_a_single_replica_that_must_be_in_sync_is_not_enough_of_two(self, template: ExactTemplate) -> None:
        from dataclasses import replace

        from mgw.links.kafka.connection import describe
        from mgw.links.kafka.guarantee import report_outbound, transaction_state

        name = template.pair().destination.provider_queue
        link = template.exact()
        with sending(link, template.pair_of(name)) as sender:
            sender.deliver([Message(body=b"1")])
        topic = describe(link._settings, name, "verify", Direction.OUTBOUND)
        log = describe(link._settings, link._settings.log_topic or "", "verify", Direction.OUTBOUND)
        assert report_outbound(topic, log).level is Guarantee.EXACT
        report = report_outbound(replace(topic, replicas=2), log)
        assert report.level is Guarantee.AT_LEAST_ONCE
        assert "min.insync.replicas" in report.note
        assert report_outbound(topic, replace(log, config=None)).level is Guarantee.AT_LEAST_ONCE
        state = transaction_state(link._settings)
        assert state is not None
        assert report_outbound(topic, log, state).level is Guarantee.EXACT
        safe = {"min.insync.replicas": "2", **_COMPACT}
        topic, log = replace(topic, replicas=3, config=safe), replace(log, replicas=3, config=safe)
        report = report_outbound(topic, log, state)
        assert report.level is Guarantee.AT_LEAST_ONCE
        assert "__transaction_state" in report.note
        assert report_outbound(topic, log, replace(state, replicas=3)).note.startswith("min.insync.replicas")

    def test_a_cluster_that_does_not_answer_says_nothing_of_its_transactions(self, template: ExactTemplate) -> None:
        from mgw.links.kafka.connection import describe
        from mgw.links.kafka.guarantee import transaction_state

        settings = template.link_to("127.0.0.1:1")._settings
        with pytest.raises(LinkUnavailable):
            describe(settings, "t", "verify", None)
        with pytest.raises(LinkUnavailable):
            transaction_state(settings)

    def test_a_test_of_the_link_looks_at_the_log_topic(self, template: ExactTemplate) -> None:
        good = template.exact().test()[-1]
        assert (good.name, good.ok) == ("sending log", True)
        assert "4 job(s)" in good.detail
        plain = template.log_topic(config={"cleanup.policy": "delete"})
        for log in (unique("nolog"), plain):
            bad = template.exact(log).test()[-1]
            assert (bad.name, bad.ok) == ("sending log", False)
            assert bad.cure

    def test_an_inbound_log_is_refused_with_the_reason(self) -> None:
        with pytest.raises(ConfigInvalid, match="inbound_log_queue") as refused:
            open_link(LinkConfig("kf", "KAFKA", {"bootstrap_servers": "h"}, inbound_log_queue="log"))
        assert "kept in the hub" in refused.value.cause
        with pytest.raises(ConfigInvalid, match="outbound_log_queue"):
            open_link(LinkConfig("kf", "KAFKA", {"bootstrap_servers": "h"}, outbound_log_queue="a b"))

    def test_a_configuration_file_hands_both_log_queues_to_the_link(self) -> None:
        model = LinkModel(type="kafka", attributes={"bootstrap_servers": "h"}, outbound_log_queue="out")
        assert file_link_config("kf", model).outbound_log_queue == "out"
        model = LinkModel(type="kafka", attributes={"bootstrap_servers": "h"}, inbound_log_queue="in")
        with pytest.raises(ConfigInvalid, match="inbound_log_queue"):
            open_link(file_link_config("kf", model))

    def test_the_log_topic_is_no_destination(self, template: ExactTemplate) -> None:
        link = template.link_to("127.0.0.1:1", log="sending-log")
        pair = template.pair_of("sending-log")
        link.check_endpoint(pair.source, Direction.INBOUND)
        with pytest.raises(AdminError, match="refused"):
            link.check_endpoint(pair.destination, Direction.OUTBOUND)


def _to_partition(number: int, message: Message) -> Message:
    from dataclasses import replace

    from mgw.transforms.message import Header, ValueType

    return replace(message, headers=(Header("MGW_KAFKA_partition", ValueType.INTEGER, number),))


def _end(template: ExactTemplate, name: str) -> int:
    consumer = KafkaConsumer(bootstrap_servers=template.broker.bootstrap, group_id=None)
    try:
        place = TopicPartition(name, 0)
        end: int = consumer.end_offsets([place])[place]
        return end
    finally:
        consumer.close()


def _connected(sender: Sender) -> Recovered | None:
    sender.destination.close()
    try:
        return sender.connect()
    except LinkError:
        return None


def _insist(sender: Sender) -> Recovered:
    """Connect as often as it takes, as the engine does."""
    recovered = eventually(lambda: _connected(sender), deadline=60, what="a connection")
    assert recovered is not None
    return recovered


@contextmanager
def _later(seconds: float, action: Any) -> Iterator[None]:
    timer = threading.Timer(seconds, action)
    timer.start()
    try:
        yield
    finally:
        timer.join()
