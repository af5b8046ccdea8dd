"""The ledger beside what a foreign reader finds: Kafka to hub to Kafka, exactly once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import TopicPartition

from mgw.gateway.ledger import check, history
from mgw.gateway.ledger.record import Outcome
from tests.support.brokers import Kafka
from tests.support.gateways import Gateway, gateway_on
from tests.support.kafka_clients import KafkaConsumer, KafkaProducer
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka

COUNT = 300


@pytest.fixture(scope="module")
def broker() -> Iterator[Kafka]:
    with Kafka() as server:
        yield server


@pytest.fixture
def gateway(tmp_path: Path, broker: Kafka) -> Iterator[Gateway]:
    broker.create_topic("from", 2)
    broker.create_topic("to", 3)
    broker.create_topic("log", 1, {"cleanup.policy": "compact"})
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        place = {"bootstrap_servers": broker.bootstrap}
        gateway.admin.create_msgsystem_link("kf", "KAFKA", place, outbound_log_queue="log")
        gateway.admin.register_foreign_queue("FROM", "kf", "from", options={"KAFKA_StartAt": "earliest"})
        gateway.admin.register_foreign_queue("TO", "kf", "to")
        gateway.queue("H")
        gateway.admin.create_job("into", "INBOUND", "FROM@kf", "H")
        gateway.admin.create_job("out", "OUTBOUND", "H", "TO@kf")
        yield gateway


def identities(broker: Kafka, topic: str, partitions: int) -> dict[str, str]:
    """Coordinates of what a reader sees, and the hub's id of each message."""
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id=None, isolation_level="read_committed")
    try:
        places = [TopicPartition(topic, number) for number in range(partitions)]
        consumer.assign(places)
        consumer.seek_to_beginning(*places)
        found: dict[str, str] = {}

        def everything() -> bool:
            for place, records in consumer.poll(timeout_ms=500).items():
                for record in records:
                    found[f"{topic}/{place.partition}@{record.offset}"] = dict(record.headers)["MGW_AQ_messageID"].hex()
            return len(found) >= COUNT

        eventually(everything, deadline=60, what="every message at the destination")
        return found
    finally:
        consumer.close()


def test_a_foreign_reader_finds_every_message_where_the_ledger_says(gateway: Gateway, broker: Kafka) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    try:
        sent = [producer.send("from", b"%d" % number).get(30) for number in range(COUNT)]
    finally:
        producer.close()
    with gateway.run():
        eventually(lambda: gateway.job("out")["PROPAGATED_TOTAL"] == COUNT, deadline=120)
    into, out = gateway.admin.get_job("into"), gateway.admin.get_job("out")
    assert into is not None
    assert out is not None
    hub_id = gateway.hub.hub_id
    with gateway.hub.read() as conn:
        recorded = {each.places[0]: each.messages[0] for each in history.sights(conn, out, hub_id, history.EVERYTHING)}
        assert recorded == identities(broker, "to", 3)
        for job in (into, out):
            proof = check.reconcile(conn, job, hub_id)
            assert (proof.offences, proof.messages) == ([], COUNT)
        first = sent[0]
        received, completed = history.trace(conn, into, hub_id, f"from/{first.partition}@{first.offset}").sights
        assert (received.outcome, completed.outcome) == (Outcome.STORED, Outcome.SENT)
        assert recorded[completed.places[0]] == received.messages[0]
