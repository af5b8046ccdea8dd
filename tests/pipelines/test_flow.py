"""The job ``flow``: windows of what the ledger says, once, whatever is repeated."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from struct import pack
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from pyspark.sql.streaming.datasource import ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from mgw.gateway.ledger.record import packed
from mgw.gateway.ledger.upkeep import SPAN
from mgw.pipelines.errors import PipelineFailed
from mgw.pipelines.hub import open_hub
from mgw.pipelines.jobs import flow
from mgw.pipelines.jobs.flow import Settings, read_flow, run, transform
from mgw.pipelines.jobs.flow_ledger import ARRIVALS, LedgerSource, arrivals
from mgw.pipelines.jobs.statements_flow import Batch, backlogs, forget, last_batch, note_batch, put_windows
from mgw.pipelines.registry import Context
from mgw.transforms.message import Message
from tests.support.brokers import Kafka, PostgreSQL
from tests.support.gateways import Gateway, gateway_on
from tests.support.kafka_clients import KafkaProducer
from tests.support.merged_ledgers import merge_all
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

T = datetime(2026, 11, 22, 10, 0, tzinfo=UTC)


def _silent(_: str) -> None:
    """Progress that nobody reads."""


def test_windows_of_arrivals(spark: SparkSession) -> None:
    rows = [
        ("A", "L", "INBOUND", T, 1.0, 98, 0),
        ("A", "L", "INBOUND", T + timedelta(seconds=59), 70.0, 1, 3),
        ("A", "L", "INBOUND", T + timedelta(seconds=59.9), 100.0, 1, 0),
        ("A", "L", "INBOUND", T + timedelta(seconds=60), 2.0, 5, 0),
        ("B", "M", "OUTBOUND", T, 7.0, 0, 2),
    ]
    windows = transform(spark.createDataFrame(rows, ARRIVALS), Settings(window=60, late_after=60))
    found = {(row.job, row.window_start.timestamp()): row for row in windows.collect()}
    first = found["A", T.timestamp()]
    assert (first.messages, first.set_aside, first.late, first.latency_max) == (100, 3, 2, 100.0)
    assert (first.latency_p50, first.latency_p95) == (1.0, 1.0)
    assert 69 < first.latency_p99 <= 100
    assert found["A", T.timestamp() + 60].messages == 5
    empty = found["B", T.timestamp()]
    assert (empty.messages, empty.set_aside, empty.latency_p50, empty.latency_max) == (0, 2, None, None)
    assert len(found) == 3


def test_latency_counts_from_where_the_message_was_read() -> None:
    detail = packed({"t": (50.0, 52.0), "f": [4], "x": {"5": "bad"}})
    batch = Batch(1, "COMPLETED", 40.0, 53.0, 5, 3, 0, pack(">5q", 1, 2, 3, 4, 5), detail)
    assert list(arrivals(batch, {1: 10.0, 2: 10.0})) == [(52.0, 42.0, 2, 2), (52.0, 12.0, 1, 0)]
    proven = Batch(2, "COMPLETED", 40.0, 53.0, 1, 1, 0, pack(">q", 9), b"")
    assert list(arrivals(proven, {})) == [(53.0, 13.0, 1, 0)]
    received = Batch(3, "RECEIVED", 40.0, 41.5, 10, 7, 1, None, None)
    assert list(arrivals(received, {})) == [(41.5, 1.5, 7, 2)]


def _view(gateway: Gateway) -> dict[str, dict[str, Any]]:
    """What the view says of each job, all windows together."""
    query = (
        "SELECT JOB_NAME, max(LINK_NAME) AS LINK, sum(MESSAGES) AS MESSAGES, sum(MESSAGES) / sum(RATE * 0 + 1) AS N, "
        "max(BACKLOG) AS BACKLOG, min(LATENCY_P50) AS P50, max(LATENCY_MAX) AS MOST, count(*) AS WINDOWS "
        "FROM MGW_PIPELINE_FLOW GROUP BY JOB_NAME"
    )
    with gateway.hub.read() as conn:
        return {row["JOB_NAME"]: dict(row) for row in conn.execute(sa.text(query)).mappings()}


def _read_in_steps(gateway: Gateway) -> dict[str, int]:
    """Messages by direction, three rows of the ledger at a time, with what Spark would do between the steps."""
    found = {"INBOUND": 0, "OUTBOUND": 0}
    reader = LedgerSource({"url": gateway.url}).streamReader(StructType())
    assert isinstance(reader, SupportsTriggerAvailableNow)
    reader.prepareForTriggerAvailableNow()
    start, moment = reader.initialOffset(), 0.0
    while (end := reader.latestOffset(start, ReadMaxRows(3))) != start:
        rows: list[Any] = [row for piece in reader.partitions(start, end) for row in reader.read(piece)]
        assert len(rows) > 0
        assert max(row[3].timestamp() for row in rows) >= moment - 1
        moment = max(row[3].timestamp() for row in rows)
        for row in rows:
            found[row[2]] += row[5]
        start = end
    with pytest.raises(PipelineFailed, match="another hub"):
        reader.latestOffset(start | {"hub": "00"}, ReadMaxRows(3))
    with pytest.raises(PipelineFailed, match="the hub was restored"):
        reader.latestOffset(dict.fromkeys(start, 10_000) | {"hub": start["hub"]}, ReadMaxRows(3))
    return found


@pytest.mark.kafka
def test_what_was_bridged_is_measured_once(
    spark: SparkSession, kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.create_topic("flow.from", 2)
    kafka.create_topic("flow.to", 2)
    settings = Settings(window=3600, path=str(tmp_path / "flow"), max_batches=1000)
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        context = Context("flow", gateway.url, str(tmp_path / "state"), log=_silent)
        gateway.admin.create_msgsystem_link("kf", "KAFKA", {"bootstrap_servers": kafka.bootstrap})
        gateway.admin.register_foreign_queue("FROM", "kf", "flow.from", options={"KAFKA_StartAt": "earliest"})
        gateway.admin.register_foreign_queue("TO", "kf", "flow.to")
        gateway.queue("H")
        gateway.admin.create_job("into", "INBOUND", "FROM@kf", "H")
        gateway.admin.create_job("out", "OUTBOUND", "H", "TO@kf")

        def carry(count: int, total: int) -> None:
            producer = KafkaProducer(bootstrap_servers=kafka.bootstrap)
            try:
                for number in range(count):
                    producer.send("flow.from", b"%d" % number)
            finally:
                producer.close()
            with gateway.run():
                eventually(lambda: gateway.job("out")["PROPAGATED_TOTAL"] == total, deadline=120)

        began = time.time()
        carry(200, 200)
        assert _read_in_steps(gateway) == {"INBOUND": 200, "OUTBOUND": 200}
        open_hub(gateway.url).close()  # makes the tables
        real = flow.note_batch

        def cut(*arguments: Any) -> None:
            real(*arguments)
            raise KeyError("cut off")

        with monkeypatch.context() as patch:
            patch.setattr(flow, "note_batch", cut)
            with pytest.raises(PipelineFailed, match="cut off"):
                run(spark, settings, context)
        assert _view(gateway) == {}
        assert run(spark, settings, context) == 0
        seen = _view(gateway)
        assert {job: (row["LINK"], row["MESSAGES"]) for job, row in seen.items()} == {
            "INTO": ("KF", 200),
            "OUT": ("KF", 200),
        }
        assert 0 < seen["OUT"]["P50"] <= seen["OUT"]["MOST"] <= time.time() - began
        assert seen["OUT"]["BACKLOG"] == 0

        carry(50, 250)
        gateway.enqueue("H", [Message("waits")])
        assert merge_all(gateway.hub, now=time.time() + 2 * SPAN), "with the place that was read up to inside of a row"
        assert _read_in_steps(gateway) == {"INBOUND": 250, "OUTBOUND": 250}
        assert run(spark, settings, context) == 0
        seen = _view(gateway)
        assert {job: row["MESSAGES"] for job, row in seen.items()} == {"INTO": 250, "OUT": 250}
        assert seen["OUT"]["BACKLOG"] == 1
    rows = read_flow(spark, str(tmp_path / "flow")).groupBy("job").sum("messages").collect()
    assert {row.job: row[1] for row in rows} == {"INTO": 250, "OUT": 250}


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_windows_are_replaced_in_the_hub(request: pytest.FixtureRequest, tmp_path: Path, database: str) -> None:
    url = f"sqlite:///{tmp_path}/hub.db"
    if database == "postgresql":
        server: PostgreSQL = request.getfixturevalue("postgresql")
        url = server.create_database("flow_windows")
    with gateway_on(url), open_hub(url) as hub:
        window = {"job": "A", "link": "L", "direction": "INBOUND", "window_start": 600.0, "window_end": 660.0}
        window |= {"messages": 30, "set_aside": 1, "late": 2, "latency_max": 4.0, "backlog": 7}
        window |= {f"latency_p{share}": share / 100 for share in (50, 95, 99)}
        with hub.write() as conn:
            put_windows(conn, "flow", [window])
            note_batch(conn, "flow", "q", 3)
        with hub.write() as conn:
            put_windows(conn, "flow", [window | {"messages": 90, "backlog": None}])
            put_windows(conn, "other", [window])
            forget(conn, "other", 601.0)
        with hub.read() as conn:
            assert last_batch(conn, "flow") == ("q", 3)
            assert last_batch(conn, "other") is None
            assert backlogs(conn) == {}
            rows = conn.execute(sa.text("SELECT * FROM MGW_PIPELINE_FLOW")).mappings().all()
        assert [{name.upper(): value for name, value in row.items()} for row in rows] == [
            {
                "PIPELINE": "flow",
                "JOB_NAME": "A",
                "LINK_NAME": "L",
                "DIRECTION": "INBOUND",
                "WINDOW_START": "1970-01-01 00:10:00",
                "WINDOW_END": "1970-01-01 00:11:00",
                "MESSAGES": 90,
                "RATE": 1.5,
                "LATENCY_P50": 0.5,
                "LATENCY_P95": 0.95,
                "LATENCY_P99": 0.99,
                "LATENCY_MAX": 4.0,
                "LATE": 2,
                "SET_ASIDE": 1,
                "BACKLOG": 7,
            }
        ]
