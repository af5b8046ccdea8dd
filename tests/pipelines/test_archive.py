"""The archive: each message once whatever is cut off, small files made large, columns that come later."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from pyspark.sql.types import StructType

from mgw.gateway.aq.admin import QueueAdmin
from mgw.gateway.aq.model import NO_WAIT, DequeueOptions
from mgw.pipelines.errors import PipelineFailed
from mgw.pipelines.files import Folder
from mgw.pipelines.jobs import archive
from mgw.pipelines.jobs.archive import Settings, read_archive, run
from mgw.pipelines.jobs.archive_compact import CompactModel, due
from mgw.pipelines.jobs.archive_manifest import latest, merged
from mgw.pipelines.registry import Context, Followed
from mgw.transforms.message import Message
from tests.support.brokers import Kafka
from tests.support.gateways import gateway_on
from tests.support.kafka_clients import KafkaProducer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DAY = 86_400


class Cut(Exception):
    """The process ends here."""


def _silent(_: str) -> None:
    """Progress that nobody reads."""


def _send(kafka: Kafka, topic: str, numbers: range, moment: float) -> None:
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap)
    try:
        for number in numbers:
            producer.send(topic, b"%d" % number, b"key", timestamp_ms=int(moment * 1000), partition=number % 2)
    finally:
        producer.close()


def _texts(spark: SparkSession, path: Path) -> list[int]:
    return sorted(int(row.text) for row in read_archive(spark, str(path)).select("text").collect())


def test_topics_are_archived_once_compacted_and_take_new_columns(
    spark: SparkSession, kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.create_topic("archived", 2)
    now = time.time()
    _send(kafka, "archived", range(20), now - 2 * DAY)
    _send(kafka, "archived", range(20, 30), now)
    path = tmp_path / "archive"
    topics = {"bootstrap_servers": kafka.bootstrap, "topics": ["archived"], "max_rows": 20}
    context = Context("arch", "", str(tmp_path / "state"), log=_silent)

    def go(**columns: str) -> None:
        given = {"path": str(path), "sources": {"orders": {"kafka": topics}}, "columns": columns}
        assert run(spark, Settings.model_validate(given), context) == 0

    def cut(before: bool) -> Callable[..., Any]:
        real = archive.commit

        def commit(*arguments: Any) -> None:
            if not before:
                real(*arguments)
            raise Cut("cut off")

        return commit

    with monkeypatch.context() as patch:
        patch.setattr(archive, "commit", cut(before=True))
        with pytest.raises(PipelineFailed, match="cut off"):
            go()
    assert list(path.rglob("source=orders/*/*.parquet"))
    with pytest.raises(PipelineFailed, match="there is no archive"):
        read_archive(spark, str(path))
    with monkeypatch.context() as patch:
        patch.setattr(archive, "commit", cut(before=False))
        with pytest.raises(PipelineFailed, match="cut off"):
            go()
    first = _texts(spark, path)
    assert 0 < len(first) <= 20
    go()
    assert _texts(spark, path) == list(range(30))
    old_day = time.strftime("day=%Y-%m-%d", time.gmtime(now - 2 * DAY))
    folder = Folder(spark, str(path))
    manifest = latest(folder, "orders")
    assert sum(old_day in name for name in manifest.files) == 1
    assert set(manifest.replaced) | set(manifest.files) == {each.path for each in folder.walk("source=orders")}

    _send(kafka, "archived", range(30, 35), now - 2 * DAY)
    go(size="length(body)")
    rows = read_archive(spark, str(path), ["orders"]).where(f"day = '{old_day[4:]}'").collect()
    assert sorted((int(row.text), row["size"]) for row in rows) == [
        *((number, None) for number in range(20)),
        *((number, 2) for number in range(30, 35)),
    ]
    assert {row.source for row in rows} == {"orders"}
    assert {bytes(row.body).decode() for row in rows} == {row.text for row in rows}
    _send(kafka, "archived", range(35, 36), now)
    with pytest.raises(PipelineFailed, match=r"column size of source orders cannot become string.*as int"):
        go(size="'much'")
    (tmp_path / "state").rename(tmp_path / "lost")
    with pytest.raises(PipelineFailed, match="cannot be continued; cause: another checkpoint wrote it"):
        go()
    assert _texts(spark, path) == list(range(35))


def test_history_of_a_queue_is_archived_once(spark: SparkSession, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/hub.db"
    with gateway_on(url) as gateway:
        gateway.queue("H")
        QueueAdmin(gateway.hub).alter_queue("H", retention_time=3600)
        gateway.enqueue("H", [Message(f"{number}") for number in range(6)])
        given = {"path": str(tmp_path / "archive"), "sources": {"done": {"history": {"queue": "H"}}}}
        settings, context = (
            Settings.model_validate(given),
            Context("h", url, str(tmp_path / "s"), log=_silent),
        )
        for count in (2, 3):
            with gateway.hub.session() as session:
                session.dequeue_array("H", DequeueOptions(wait=NO_WAIT), count)
                session.commit()
            assert run(spark, settings, context) == 0
    rows = read_archive(spark, str(tmp_path / "archive")).collect()
    assert sorted(row.text for row in rows) == ["0", "1", "2", "3", "4"]
    assert {row.state for row in rows} == {"PROCESSED"}


def test_history_is_archived_as_it_grows_until_the_pipeline_is_stopped(spark: SparkSession, tmp_path: Path) -> None:
    url, told = f"sqlite:///{tmp_path}/hub.db", []
    with gateway_on(url) as gateway:
        gateway.queue("H")
        QueueAdmin(gateway.hub).alter_queue("H", retention_time=3600)
        gateway.enqueue("H", [Message(f"{number}") for number in range(6)])

        def consume(count: int) -> None:
            with gateway.hub.session() as session:
                session.dequeue_array("H", DequeueOptions(wait=NO_WAIT), count)
                session.commit()

        def log(text: str) -> None:
            told.append(text)
            if len(told) == 1:
                consume(3)
            elif len(told) == 2:
                context.stopping.set()

        given = {"path": str(tmp_path / "archive"), "every": 0.2, "sources": {"done": {"history": {"queue": "H"}}}}
        context = Context("h", url, str(tmp_path / "s"), log=log)
        consume(2)
        assert run(spark, Settings.model_validate(given), context) == 0
    assert [text.endswith("files of history") for text in told[:2]] == [True, True]
    assert _texts(spark, tmp_path / "archive") == [0, 1, 2, 3, 4]


def test_messages_of_a_hub_that_was_made_anew_are_not_taken_for_those_archived(
    spark: SparkSession, tmp_path: Path
) -> None:
    given = {"path": str(tmp_path / "archive"), "sources": {"done": {"history": {"queue": "H"}}}}
    for place in ("old", "new"):
        url = f"sqlite:///{tmp_path}/{place}.db"
        with gateway_on(url) as gateway:
            gateway.queue("H")
            QueueAdmin(gateway.hub).alter_queue("H", retention_time=3600)
            gateway.enqueue("H", [Message("1" if place == "old" else "2")])
            with gateway.hub.session() as session:
                session.dequeue_array("H", DequeueOptions(wait=NO_WAIT), 1)
                session.commit()
            context = Context("h", url, str(tmp_path / "s"), log=_silent)
            assert run(spark, Settings.model_validate(given), context) == 0
    assert _texts(spark, tmp_path / "archive") == [1, 2]


def test_a_query_that_fails_while_it_is_stopped_has_failed(spark: SparkSession, tmp_path: Path) -> None:
    context = Context("q", "", str(tmp_path / "s"), log=_silent)

    def refuse(_frame: DataFrame, _batch: int) -> None:
        context.stopping.set()
        time.sleep(1)  # the pipeline is waiting for this batch to end by now
        raise ValueError("the batch is refused")

    checkpoint = context.checkpoint("q")
    writer = spark.readStream.format("rate").load().writeStream.option("checkpointLocation", checkpoint)
    with pytest.raises(PipelineFailed, match="the batch is refused"):
        context.follow(Followed(writer.foreachBatch(refuse).start(), checkpoint))


def test_small_files_of_past_days_are_compacted_and_large_ones_left_alone() -> None:
    files = {"s/day=1/a": 10, "s/day=1/b": 10, "s/day=1/large": 60, "s/day=2/a": 10, "s/day=3/a": 1, "s/day=3/b": 1}
    settings = CompactModel(target_bytes=100, files_today=3)
    assert due(files, settings, "day=3") == {"day=1": ["s/day=1/a", "s/day=1/b"]}
    assert due(files | {"s/day=3/c": 1}, settings, "day=3")["day=3"] == ["s/day=3/a", "s/day=3/b", "s/day=3/c"]


def test_a_schema_grows_and_keeps_its_types() -> None:
    def of(ddl: str) -> StructType:
        return StructType.fromDDL(ddl)

    old = of("a INT, s STRUCT<x: INT>, l ARRAY<STRUCT<n: STRING>>")
    new = of("s STRUCT<y: INT>, l ARRAY<STRUCT<m: INT>>, b STRING")
    both = merged(json.dumps(old.jsonValue()), new, "q")
    assert both.simpleString() == "struct<a:int,s:struct<x:int,y:int>,l:array<struct<n:string,m:int>>,b:string>"
    with pytest.raises(PipelineFailed, match=r"column s.x of source q cannot become string.*archive has it as int"):
        merged(old.json(), of("s STRUCT<x: STRING>"), "q")


def test_a_queue_is_consumed_into_the_archive(spark: SparkSession, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/hub.db"
    given = {"path": str(tmp_path / "archive"), "sources": {"all": {"queue": {"queue": "H", "max_rows": 100}}}}
    told: list[str] = []
    context = Context("q", url, str(tmp_path / "s"), log=told.append)
    with gateway_on(url) as gateway:
        gateway.queue("H")
        gateway.enqueue("H", [Message(f"{number}") for number in range(150)])
        assert run(spark, Settings.model_validate(given), context) == 0
        assert gateway.browse("H") == []
        with gateway.hub.read() as conn:
            assert conn.execute(sa.text("SELECT count(*) FROM aq_message")).scalar() == 0
    assert _texts(spark, tmp_path / "archive") == list(range(150))
    assert any("batch 1, 50 rows" in line for line in told)
    assert any("messages of stream q.all are consumed" in line for line in told)
