"""The audit of what was really bridged: topic to hub to topic, compared in three ways, then disturbed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mgw.pipelines.jobs import reconcile
from mgw.pipelines.jobs.reconcile import Settings
from mgw.pipelines.registry import Context
from tests.support.brokers import Kafka
from tests.support.gateways import Gateway, gateway_on
from tests.support.kafka_clients import KafkaProducer
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.kafka

SENT, LEFT_OUT = 400, 40  # every tenth is left out by the rule of the inbound job


def bridge(gateway: Gateway, kafka: Kafka) -> None:
    """Messages in two partitions of one topic, through the hub, into three partitions of another."""
    kafka.create_topic("audit-from", 2)
    kafka.create_topic("audit-to", 3)
    gateway.admin.create_msgsystem_link("kf", "KAFKA", {"bootstrap_servers": kafka.bootstrap})
    gateway.admin.register_foreign_queue("FROM", "kf", "audit-from", options={"KAFKA_StartAt": "earliest"})
    gateway.admin.register_foreign_queue("TO", "kf", "audit-to")
    gateway.queues.create_queue_table("H_QT", queue_payload_type="BASIC")
    gateway.queues.create_queue("H", "H_QT", max_retries=100, retention_time=3600)
    gateway.queues.start_queue("H")
    gateway.admin.create_job("audit_in", "INBOUND", "FROM@kf", "H", rule="tab.corrid <> 'skip'")
    gateway.admin.create_job("audit_out", "OUTBOUND", "H", "TO@kf")
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap)
    for number in range(SENT):
        key = b"skip" if number % 10 == 0 else b"key %d" % (number % 7)
        producer.send("audit-from", b"message %d" % number, key, partition=number % 2)
    producer.flush()
    producer.close()
    with gateway.run():
        eventually(
            lambda: gateway.job("audit_out")["PROPAGATED_MSGS"] == SENT - LEFT_OUT, deadline=60, what="every message"
        )


def test_a_bridged_topic_is_audited_from_end_to_end(spark: SparkSession, kafka: Kafka, tmp_path: Path) -> None:
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        bridge(gateway, kafka)
        url = gateway.url
    topic = {"read": "kafka", "bootstrap_servers": kafka.bootstrap}
    ends: dict[str, Any] = {
        "origin": topic | {"topic": "audit-from", "ledger": "AUDIT_IN"},
        "hub": {"read": "hub", "queue": "H", "what": "history"},
        "ledger": {"read": "ledger", "job": "audit_out"},
    }
    destination = topic | {"topic": "audit-to"}

    def audited(end: str, **more: Any) -> tuple[int, str]:
        said: list[str] = []
        settings = Settings.model_validate({"source": ends[end], "destination": destination} | more)
        return reconcile.run(spark, settings, Context("audit", url, str(tmp_path), said.append)), said[0]

    for end in ends:
        code, text = audited(end)
        assert code == 0, text
        assert text.splitlines()[2].split()[:4] == ["360", "360", "360", "0"], text

    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap)
    with gateway_on(url) as gateway:
        number = gateway.hub.hub_id + (1).to_bytes(8)
    producer.send("audit-to", b"disturbed", headers=[("MGW_AQ_messageID", number)], partition=0)
    producer.send("audit-to", b"invented", headers=[("MGW_AQ_messageID", bytes(16))], partition=1)
    producer.flush()
    producer.close()
    code, text = audited("hub")
    assert (code, text.splitlines()[-1]) == (1, "3 findings"), text
    for kind, identity in (("altered", number), ("doubled", number), ("unexpected", bytes(16))):
        assert any(line.startswith(kind) and identity.hex() in line for line in text.splitlines()), text
