"""Data frames and streams into hub queues, exactly once by (query, batch)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mgw.gateway.aq.admin import QueueAdmin
from mgw.gateway.aq.errors import NoMessage
from mgw.gateway.aq.hub import Hub
from mgw.gateway.aq.model import NO_WAIT, DequeueOptions
from mgw.gateway.state.gateway_hub import open_hub
from mgw.transforms.message import Message
from tests.support.brokers import PostgreSQL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def hub(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Hub]:
    """A hub on one of the databases; what does not need Spark is tested on both in test_sink_commits."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/hub.db"
    else:
        server: PostgreSQL = request.getfixturevalue("postgresql")
        server.drop_database("sink")
        url = server.create_database("sink")
    with open_hub(url, create=True) as made:
        yield made


def queue(hub: Hub, name: str, payload_type: str = "BASIC", **options: Any) -> QueueAdmin:
    admin = QueueAdmin(hub)
    admin.create_queue_table(f"{name}_T", payload_type, **options)
    admin.create_queue(name, f"{name}_T")
    admin.start_queue(name)
    return admin


def url_of(hub: Hub) -> str:
    return hub.engine.url.render_as_string(hide_password=False)


def write(frame: DataFrame, hub: Hub, name: str, **options: Any) -> None:
    frame.write.format("mgw").mode("append").options(url=url_of(hub), queue=name, **options).save()


def taken(hub: Hub, name: str, consumer: str | None = None, *, commit: bool = False) -> list[Message]:
    """Every message of a queue, in the order in which a consumer gets it; ``commit``: they are gone then."""
    found: list[Message] = []
    with hub.session() as session:
        with suppress(NoMessage):
            while True:
                batch = session.dequeue_array(name, DequeueOptions(consumer, wait=NO_WAIT), 5000)
                found += [each.message for each in batch]
        if commit:
            session.commit()
    return found


@pytest.fixture
def mgw(spark: SparkSession) -> SparkSession:
    from mgw.pipelines.datasource import register

    register(spark)
    return spark


@pytest.mark.parametrize("hub", ["sqlite"], indirect=True)
def test_a_frame_becomes_messages_once(mgw: SparkSession, hub: Hub) -> None:
    queue(hub, "Q")
    frame = mgw.range(10_000, numPartitions=3).selectExpr("CAST(id AS STRING) AS text", "id AS priority")
    write(frame, hub, "Q", query="load")
    write(frame, hub, "Q", query="load")
    found = taken(hub, "Q")
    assert [each.body for each in found] == [str(number) for number in range(10_000)]


@pytest.mark.parametrize("hub", ["postgresql"], indirect=True)
def test_a_stream_is_written_once_by_query_and_checkpoint(mgw: SparkSession, hub: Hub, tmp_path: Path) -> None:
    queue(hub, "Q")
    source = tmp_path / "in"
    frame = mgw.range(1000).selectExpr("CAST(id AS STRING) AS text")
    frame.write.parquet(str(source))

    def run(query: str, checkpoint: str) -> None:
        stream = mgw.readStream.schema(frame.schema).parquet(str(source))
        writer = stream.writeStream.format("mgw").options(url=url_of(hub), queue="Q", query=query)
        started = writer.option("checkpointLocation", str(tmp_path / checkpoint)).trigger(availableNow=True).start()
        started.awaitTermination()

    run("flow", "one")
    frame.write.mode("append").parquet(str(source))
    run("flow", "one")
    with pytest.raises(Exception, match="cannot continue with this checkpoint"):
        run("flow", "two")
    found = taken(hub, "Q")
    assert len(found) == 2000
