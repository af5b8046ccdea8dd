"""Queries of Spark on streams of the hub: when they settle, what they read again, how they are told what is wrong."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mgw.gateway.aq.hub import Hub
from mgw.gateway.state.gateway_hub import open_hub
from mgw.pipelines.source.streams import release
from mgw.transforms.message import Message
from tests.pipelines.hubs import database, make, put

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Load = Callable[..., "DataFrame"]


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    return database(request, tmp_path_factory, "stream_read")


@pytest.fixture(scope="module")
def hub(url: str) -> Iterator[Hub]:
    with open_hub(url, create=True) as made:
        yield made


@pytest.fixture(scope="module")
def stream(spark: SparkSession, url: str) -> Load:
    from mgw.pipelines.datasource import register

    register(spark)

    def loaded(queue: str, **options: object) -> DataFrame:
        reader = spark.readStream.format("mgw").options(url=url, queue=queue, stream=queue)
        return reader.options(**{name: str(value) for name, value in options.items()}).load()

    return loaded


def run(frame: DataFrame, checkpoint: Path, sink: Callable[[Any, int], None]) -> None:
    """Hand every batch of what is available now to ``sink``; waits for the end."""
    writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()


def states(hub: Hub, queue: str) -> dict[int, int]:
    with hub.read() as conn:
        found = conn.exec_driver_sql(
            "SELECT m.state, count(*) FROM aq_message m JOIN aq_queue q ON q.id = m.queue_id"
            f" WHERE q.name = '{queue}' GROUP BY m.state"
        )
        return {row[0]: row[1] for row in found}


def test_a_batch_that_failed_comes_again_exactly_and_every_message_once(
    hub: Hub, url: str, stream: Load, tmp_path: Path
) -> None:
    queue = make(hub, "once", table={"sort_list": "PRIORITY,ENQ_TIME"}, retention_time=-1)
    ids = put(hub, queue, *(Message(f"m{n}", correlation=str(n)) for n in range(700)))
    wanted = "seq,msgid,text,correlation,queue,state"
    frame = stream(queue, maxRowsPerTrigger=300, partitions=2, columns=wanted)
    checkpoint = tmp_path / "checkpoint"
    batches: list[tuple[int, list[Any]]] = []

    def sink(batch: Any, number: int) -> None:
        batches.append((number, sorted(batch.collect())))
        if len(batches) == 2:
            raise ZeroDivisionError

    with pytest.raises(Exception, match="ZeroDivisionError"):
        run(frame, checkpoint, sink)
    assert states(hub, queue) == {2: 300, 8: 300, 0: 100}  # the second batch is in no commit log
    ids += put(hub, queue, Message("first of all", priority=0))
    shutil.copytree(checkpoint, tmp_path / "copy")
    run(frame, checkpoint, sink)
    assert [(number, len(rows)) for number, rows in batches] == [(0, 300), (1, 300), (1, 300), (2, 101)]
    assert batches[1] == batches[2]
    rows = [row for _, rows in batches[1:] for row in rows]
    assert [row.seq for row in rows] == list(range(301, 601)) + list(range(301, 702))
    seen = [bytes(row.msgid) for number in (0, 1, 3) for row in batches[number][1]]
    assert seen == [*ids[:600], ids[700], *ids[600:700]]
    assert rows[0].asDict() == {
        "seq": 301,
        "msgid": ids[300],
        "text": "m300",
        "correlation": "300",
        "queue": queue,
        "state": "CLAIMED",
    }
    assert states(hub, queue) == {2: 701}

    with pytest.raises(
        Exception, match="checkpoint is behind stream once; cause: it is at 300, but the messages up to 701"
    ):
        run(frame, tmp_path / "copy", sink)
    release(url, queue)
    with pytest.raises(Exception, match="stream once does not exist; cause: it was released"):
        run(frame, checkpoint, sink)


def test_the_next_batch_is_asked_for_when_the_last_one_is_in_the_commit_log(
    spark: SparkSession, hub: Hub, url: str, tmp_path: Path
) -> None:
    """What the exactly-once of streams rests on, seen in Spark itself."""
    from mgw.pipelines.datasource import MgwDataSource

    queue = make(hub, "asked")
    put(hub, queue, *(f"m{n}" for n in range(6)))
    notes, checkpoint = str(tmp_path / "notes"), str(tmp_path / "checkpoint")

    class Noting(MgwDataSource):
        @classmethod
        def name(cls) -> str:
            return "noting"

        def streamReader(self, schema: Any) -> Any:  # noqa: N802
            import os

            made = super().streamReader(schema)
            ask = made.latestOffset

            def latest(start: dict[str, Any], limit: Any) -> dict[str, Any]:
                logs = [
                    sorted(int(each) for each in os.listdir(f"{checkpoint}/{log}") if each.isdigit())
                    if os.path.isdir(f"{checkpoint}/{log}")
                    else []
                    for log in ("offsets", "commits")
                ]
                with open(notes, "a") as file:
                    file.write(json.dumps([start["seq"], *logs]) + "\n")
                return ask(start, limit)

            made.latestOffset = latest
            return made

    spark.dataSource.register(Noting)
    options = {"url": url, "queue": queue, "stream": queue, "maxRowsPerTrigger": "2", "columns": "id"}
    frame = spark.readStream.format("noting").options(**options).load()
    run(frame, tmp_path / "checkpoint", lambda *_: None)
    put(hub, queue, "more")
    run(frame, tmp_path / "checkpoint", lambda *_: None)
    asked = [json.loads(line) for line in Path(notes).read_text().splitlines()]
    for start, offsets, commits in asked:
        ends = {batch: 2 * (batch + 1) if batch < 3 else 7 for batch in offsets}
        assert start in (0, *(ends[batch] for batch in commits))
        assert offsets == commits
    assert {start for start, _, _ in asked} == {0, 2, 4, 6, 7}


@pytest.mark.parametrize("consumer", [None, "RED"])
def test_a_plan_that_nothing_is_known_of_is_read_by_message_ids(hub: Hub, url: str, consumer: str | None) -> None:
    """A plan is new when it is read; a search among all that are claimed, for each of them, took the square of them."""
    if not hub.postgresql:
        pytest.skip("SQLite reads the tables in the order they are named in")
    from mgw.gateway.aq.queues import consumers_sql, transfer
    from mgw.gateway.aq.store.statements import Db
    from mgw.pipelines.hub import open_hub as open_for_pipelines
    from mgw.pipelines.source import statements_stream as statements
    from mgw.pipelines.source.statements_read import BY_INDEX

    open_for_pipelines(url).close()  # makes the tables of streams
    name = f"NEW_{consumer or 'PLAN'}"
    make(hub, name, *([consumer] if consumer else []))
    put(hub, name, *(f"m{number}" for number in range(1000)))
    with hub.write() as conn:
        db = Db(conn)
        queue = transfer.resolve(conn, name)
        target = consumers_sql.require_consumer(db, queue, consumer) if consumer else 0
        statements.insert(db, name, queue, consumer, now=0.0)
        found = statements.find(db, name)
        assert found is not None
        statements.append(db, found, transfer.claim_numbers(conn, queue, consumer, 1000))
        statement = statements.selection(db, found, target).rows(("id", "body"), 0, 1000)
        conn.exec_driver_sql(BY_INDEX.replace("false", "true"))
        plan = "\n".join(row[0] for row in conn.exec_driver_sql(f"EXPLAIN {statement}"))
    for table, index in (("pl_plan", "pl_plan_pkey"), ("aq_message", "aq_message_pkey")):
        assert f"{index} on {table}" in plan, plan
    assert "_claimed" not in plan, plan
