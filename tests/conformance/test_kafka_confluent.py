"""The core of what a Kafka link owes, on librdkafka; make test-all runs every test of Kafka links with both clients."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from mgw.links.contract import Delivery, Recovered
from mgw.links.kafka.client import Topic
from mgw.links.kafka.confluent_client.connection import Admin
from mgw.links.kafka.confluent_client.topics import cluster_of, extend
from mgw.transforms.errors import ConversionFailure, LinkError, LinkRefused, LinkUnavailable, QueueMissing
from mgw.transforms.kafka.common import TIMESTAMP
from mgw.transforms.message import Header, Message, ValueType
from tests.conformance.link_suite import body_bytes, numbered, numbers, reading, use_of, wait_until, writing
from tests.conformance.test_kafka_exact import ExactTemplate, Sender, bodies, committed
from tests.conformance.test_kafka_link import BadKey, KafkaTemplate
from tests.property.test_kafka_fetched import emptied, first_format, plain
from tests.support.brokers import Kafka

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def broker() -> Iterator[Kafka]:
    with Kafka(tls=True, username="mgw", password="s3cret-word") as server:
        yield server


@pytest.fixture
def template(broker: Kafka) -> KafkaTemplate:
    return KafkaTemplate(broker, "confluent")


def test_messages_travel_in_order_with_their_headers_and_places(template: KafkaTemplate) -> None:
    pair = template.pair()
    headers = (
        Header("n", ValueType.LONG, 7),
        Header("text", ValueType.TEXT, "é"),
        Header("raw", ValueType.RAW, b"\x00"),
    )
    with reading(template.link(), pair) as reader, writing(template.link(), pair, located=True) as writer:
        writer.deliver(Message(body=b"first", headers=headers, correlation="key"))
        sequence = writer.send(*numbered(2000))
        writer.confirm()
        found = reader.collect(2001)
        assert [body_bytes(each.message) for each in found] == [b"first", *numbers(2000)]
        assert {name: found[0].message.header(name) for name in ("n", "text", "raw")} == {
            "n": 7,
            "text": "é",
            "raw": b"\x00",
        }
        assert found[0].message.correlation == "key"
        placement = writer.destination.located(sequence)
        assert placement is not None
        assert placement.coordinates() == [each.origin for each in found[1:]]


def test_a_key_goes_to_the_partition_where_kafkas_own_clients_send_it(template: KafkaTemplate) -> None:
    """Murmur2, as kafka-python has it, so that a job keeps the order of a key when its client changes."""
    pair = template.pair(partitions=7)
    messages = [Message(body=b"%d" % number, correlation=f"key {number}") for number in range(40)]
    with reading(template.link(), pair) as reader:
        for client in ("confluent", "kafka-python"):
            template.client = client
            with writing(template.link(), pair) as writer:
                writer.deliver(*messages)
        found = reader.collect(80)
    places: dict[bytes, set[str]] = {}
    for each in found:
        places.setdefault(body_bytes(each.message), set()).add(each.origin.partition("@")[0])
    assert [len(where) for where in places.values()] == [1] * 40


def test_a_client_that_reads_nothing_although_records_are_there_begins_again(template: KafkaTemplate) -> None:
    """As librdkafka does once in a while where its only server listed no server for a moment; a pause is as silent."""
    pair = template.pair()
    hasty = template.link(KAFKA_Request_timeout_ms="1000")
    with reading(hasty, pair) as reader, writing(template.link(), pair) as writer:
        writer.deliver(Message(b"before"))
        assert reader.bodies(1) == [b"before"]
        consumer: Any = reader.source._consumer  # type: ignore[attr-defined]
        consumer._reading.consumer.pause([TopicPartition(pair.source.provider_queue, 0)])
        writer.deliver(Message(b"after"))
        found: list[Delivery] = []

        def read() -> bool:
            reader.source.backlog()
            batch = reader.source.read(10, 0.1)
            reader.settle(batch)
            found.extend(batch.deliveries)
            return bool(found)

        wait_until(read, "a record after the pause")
    assert [body_bytes(each.message) for each in found] == [b"after"]


def test_a_backlog_that_nobody_tells_is_asked_for_by_a_new_instance(template: KafkaTemplate) -> None:
    """One that was asked what partitions there are is given up with it, and asked again."""
    pair = template.pair()
    hasty = template.link(KAFKA_Request_timeout_ms="1000", KAFKA_Metadata_max_age_ms="1000")
    with reading(hasty, pair) as reader, writing(template.link(), pair) as writer:
        consumer: Any = reader.source._consumer  # type: ignore[attr-defined]
        consumer._admin.client = AdminClient({"bootstrap.servers": "127.0.0.1:1"})
        consumer._asked_at -= 2.0
        consumer.partitions()
        assert consumer._asked is not None
        writer.deliver(Message(b"1"))
        with pytest.raises(TimeoutError):
            consumer.ends((0,))
        assert consumer.ends((0,)) == {0: 1}
        extend(Admin(hasty._fresh(), "test"), pair.source.provider_queue, 2)
        wait_until(lambda: consumer.partitions() == {0, 1}, "the new partition")


def test_an_open_transaction_that_cannot_be_looked_for_is_an_error_of_the_link(template: KafkaTemplate) -> None:
    settings, name = template.link()._fresh(), template.pair().destination.provider_queue
    topic = Topic(name, "", "", (7,), None)  # a partition that no server leads
    with pytest.raises(LinkError, match="connect of topic"):
        settings.client.may_be_left_open(settings, [topic])


def test_positions_of_one_client_are_read_on_by_the_other(template: KafkaTemplate) -> None:
    pair = template.pair(options={"KAFKA_StartAt": "earliest"})
    with writing(template.link(), pair) as writer:
        writer.deliver(*numbered(30))
    positions: dict[str, str] = {}
    found: list[bytes] = []
    for client in ("confluent", "kafka-python", "confluent"):
        template.client = client
        source = template.link().source(use_of(pair.source))
        source.connect(positions)
        try:
            wanted = len(found) + 10
            while len(found) < wanted:
                batch = source.read(wanted - len(found), 5)
                found += [body_bytes(each.message) for each in batch.deliveries]
                positions |= {each.partition: each.after for each in batch.positions}
        finally:
            source.close()
    assert found == numbers(30)


def test_what_kafka_does_not_write_any_more_is_read_by_both_clients(template: KafkaTemplate) -> None:
    """The log of a partition as old servers and a log cleaner leave it: messages of the first format, which have no
    timestamp, and the batch that ended a transaction without its marker."""
    broker, pair = template.broker, template.pair(options={"KAFKA_StartAt": "earliest"})
    try:
        _ask_while_it_lists_no_server(template)
    finally:
        broker.kill()
        try:
            _write_log_anew(broker, pair.source.provider_queue)
        finally:
            broker.start()
    for client in ("kafka-python", "confluent"):
        template.client = client
        with reading(template.link(), pair) as reader:
            found = reader.collect(5)
        assert [body_bytes(each.message) for each in found] == [b"old 0", b"old 1", b"new 2", b"new 3", b"new 5"]
        assert [each.message.header(TIMESTAMP) for each in found] == [None, None, 1, 1, 1]
        assert [each.origin.rpartition("@")[2] for each in found] == ["0", "1", "2", "3", "5"]


def _write_log_anew(broker: Kafka, topic: str) -> None:
    (log,) = Path(broker.folder, "data").glob(f"{topic}-0/*.log")
    for file in log.parent.glob("0*"):
        file.unlink()
    log.write_bytes(
        first_format(0, b"key", b"old 0")
        + first_format(1, None, b"old 1")
        + plain(2, b"new 2", b"new 3")
        + emptied(4, 7)
        + plain(5, b"new 5")
    )


def _ask_while_it_lists_no_server(template: KafkaTemplate) -> None:
    """Put the broker out of its cluster, until it starts again: a question then must not end this process.

    A broker answers the same for a moment when it starts, and after a pause; librdkafka has an assertion against it.
    """
    admin = Admin(template.link()._fresh(), "test")
    try:
        cluster = cluster_of(admin)
        assert [server.number for server in cluster.servers] == [1]
        template.broker.unregister()
        wait_until(lambda: not cluster_of(admin).servers, "a broker that lists no server")
        for _ in range(30):  # now and then the library asks nobody any more after such an answer
            found = cluster_of(admin)
            assert not found.servers
            assert found.cluster_id == cluster.cluster_id != ""
    finally:
        admin.close()


def test_a_header_name_that_is_not_text_stops_nothing(template: KafkaTemplate) -> None:
    pair = template.pair()
    with reading(template.link(), pair) as reader:
        template.send(pair, value=b"bad", headers=[(BadKey("x"), b"v")])
        template.send(pair, value=b"good", headers=[("x", b"v")])
        bad, good = reader.collect(2)
    assert isinstance(bad.failure, ConversionFailure)
    assert body_bytes(bad.message) == b"bad"
    assert good.failure is None


def test_links_that_cannot_work_say_why(template: KafkaTemplate) -> None:
    with pytest.raises(LinkUnavailable, match="no Kafka server answers") as refused:
        template.wrong_port().source(use_of(template.missing().source)).connect({})
    assert "connection refused" in refused.value.cause
    with pytest.raises(LinkRefused, match="password"):
        template.wrong_password().source(use_of(template.missing().source)).connect({})
    with pytest.raises(QueueMissing, match="does not exist"):
        template.link().destination(use_of(template.missing().destination)).connect()
    assert template.broker.certificates is not None
    with pytest.raises(LinkRefused, match="tls_ca_file"):
        template.tls(None).source(use_of(template.missing().source)).connect({})


def test_links_test_finds_the_cluster_over_tls_and_with_a_login(template: KafkaTemplate) -> None:
    assert template.broker.certificates is not None
    for link in (
        template.link(),
        template.tls(str(template.broker.certificates.ca)),
        template.sasl("s3cret-word"),
    ):
        checks = link.test()
        assert all(check.ok for check in checks), checks
        assert "1 server(s)" in next(check.detail for check in checks if check.name == "cluster")


def test_every_message_is_there_once_and_earlier_producers_are_shut_out(broker: Kafka) -> None:
    exact = ExactTemplate(broker, "confluent")
    pair, link = exact.pair(partitions=2), exact.exact()
    use = use_of(pair.destination)
    first, second = Sender(link, use), Sender(link, use)
    try:
        first.connect()
        first.deliver(*(list(numbered(20, start)) for start in range(0, 400, 20)))
        assert second.connect() == Recovered(20)
        first.plan(list(numbered(10, 400)))
        with pytest.raises(Exception, match=r"(?i)fenced|epoch"):
            first.finish(21)
        second.sequence, second.plans = 21, dict(first.plans)
        second.send(21)
        second.confirm()
    finally:
        first.destination.close()
        second.destination.close()
    assert sorted(committed(broker, pair.destination.provider_queue), key=int) == bodies(410)


@pytest.mark.parametrize(("client", "other"), [("confluent", "kafka"), ("kafka-python", "confluent_kafka")])
def test_only_the_client_of_the_link_is_imported(broker: Kafka, client: str, other: str) -> None:
    """Also not when it sends exactly once, where the other client has its guards."""
    broker.create_topic("alone-" + client)
    broker.create_topic("alone-log-" + client, 1, {"cleanup.policy": "compact"})
    script = textwrap.dedent(f"""
        import sys
        from mgw.links.contract import Endpoint, JobUse, LinkConfig
        from mgw.links.registry import open_link
        from mgw.transforms.message import Message
        given = {{"bootstrap_servers": "{broker.bootstrap}", "client": "{client}"}}
        link = open_link(LinkConfig("kf", "KAFKA", given, outbound_log_queue="alone-log-{client}"))
        destination = link.destination(JobUse(Endpoint("t", "kf", "alone-{client}"), "J"))
        destination.connect()
        destination.publish(1, [destination.encode(Message(body=b"1"))])
        while destination.confirmed(5) != 1: pass
        destination.close()
        assert all(check.ok for check in link.test())
        print("{other}" in sys.modules)
    """)
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (said.stdout, said.stderr) == ("False\n", ""), said
