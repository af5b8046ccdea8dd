"""What ``make demo-spark`` promises without its brokers: damage to the archive is found, and the chart is drawn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mgw.pipelines.config import read_pipeline
from mgw.pipelines.runner import run_pipeline
from tests.demo_spark.bridge import CONFIGURATION
from tests.demo_spark.data import make_data, write_fed
from tests.demo_spark.spark import PIPELINES
from tests.demo_spark.tamper import FAULTS, tamper
from tests.support.brokers import Kafka
from tests.support.kafka_clients import KafkaProducer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MESSAGES = 60


def send(kafka: Kafka, topic: str, bodies: list[bytes]) -> None:
    """As the gateway would: under a message id."""
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap)
    for number, body in enumerate(bodies):
        producer.send(topic, body, headers=[("MGW_AQ_messageID", f"{topic[:8]:8}".encode() + number.to_bytes(8))])
    producer.flush()
    producer.close()


def test_damage_to_the_archive_is_found(
    spark: SparkSession, kafka: Kafka, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fed = make_data(MESSAGES)
    assert fed.messages == MESSAGES
    topics = ("demo.telemetry", "demo.readings")
    for topic in topics:
        kafka.create_topic(topic)
    send(kafka, topics[0], [line.encode() for lines in fed.telemetry.values() for line in lines])
    send(kafka, topics[1], [f"{line}\n".encode() for line in fed.readings])
    write_fed(fed, tmp_path / "fed.parquet")
    environment = {
        "DEMO_FOLDER": str(tmp_path),
        "DEMO_MESSAGES": str(MESSAGES),
        "KAFKA_BOOTSTRAP": kafka.bootstrap,
        "SPARK_JARS": "/nowhere",
    }

    def ran(name: str) -> int:
        path = tmp_path / f"{name}.yaml"
        text = (PIPELINES / f"{name}.yaml").read_text()
        text = text.replace("plant.telemetry", topics[0]).replace("[readings]", f"[{topics[1]}]")
        path.write_text(text.replace(",readings", f",{topics[1]}"))
        return run_pipeline(read_pipeline(name, path, environment), "sqlite:///nowhere.db", spark=spark)

    assert ran("archive") == 0
    capsys.readouterr()
    assert (ran("audit_bridge"), ran("audit_archive")) == (0, 0), capsys.readouterr().out
    before = {path: path.read_bytes() for path in (tmp_path / "archive").rglob("*.parquet")}
    for fault, finding in zip(FAULTS, ("missing", "altered"), strict=True):
        for path, content in before.items():
            path.write_bytes(content)
        tamper(tmp_path / "archive", fault)
        capsys.readouterr()
        assert ran("audit_archive") == 1
        said = capsys.readouterr().out.splitlines()
        assert said[-1] == "1 findings"
        assert any(line.startswith(finding) for line in said), said


def test_its_configuration_has_no_findings() -> None:
    from mgw.gateway.config.lint import lint

    assert [str(finding) for finding in lint([CONFIGURATION], {})] == []
