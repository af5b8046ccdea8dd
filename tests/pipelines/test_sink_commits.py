"""A batch becomes messages once: whoever comes again, too late, at the same time, or is killed in between."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

from mgw.gateway.aq.admin import QueueAdmin
from mgw.gateway.aq.errors import NoMessage, NotEnabledForDequeue, PrivilegeMissing, UnknownQueue
from mgw.gateway.aq.hub import Hub
from mgw.gateway.aq.model import NO_WAIT, DequeueMode, DequeueOptions
from mgw.gateway.aq.store.statements import Db
from mgw.gateway.state.gateway_hub import open_hub
from mgw.pipelines.sink import publish, staging
from mgw.pipelines.sink import statements as sql
from mgw.pipelines.sink.layout import Layout, layout_of
from mgw.pipelines.sink.options import WriteOptions
from mgw.pipelines.sink.publish import WriteInterrupted, WriteRefused, abort, commit, record_of, resume
from mgw.pipelines.sink.rows import RowRefused
from mgw.pipelines.sink.statements import Staged
from mgw.pipelines.sink.target import target_of
from mgw.transforms.errors import ConfigInvalid, GatewayError
from mgw.transforms.message import Message
from tests.pipelines.hubs import make, put
from tests.pipelines.test_sink import taken, url_of
from tests.support.brokers import PostgreSQL
from tests.support.waiting import eventually

SCHEMA = StructType([StructField("text", StringType()), StructField("priority", IntegerType())])
LAYOUT = layout_of(SCHEMA)
_BROWSE = DequeueOptions(dequeue_mode=DequeueMode.BROWSE, wait=NO_WAIT)


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def hub(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('commits')}/hub.db"
    else:
        server: PostgreSQL = request.getfixturevalue("postgresql")
        server.drop_database("commits")
        url = server.create_database("commits")
    with open_hub(url, create=True) as made:
        yield made


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "CHUNK_ROWS", 10)


_names = iter(range(10_000))


@pytest.fixture
def name(hub: Hub) -> str:
    """A queue of the test's own."""
    return make(hub, f"Q{next(_names)}")


def writing(hub: Hub, queue: str, query: str | None = None, **options: str) -> WriteOptions:
    given = {"url": url_of(hub), "queue": queue, "query": query or f"to {queue}", **options}
    return WriteOptions.of(given, streaming="batch" not in options)


def rows(texts: Sequence[str]) -> pa.RecordBatch:
    return pa.record_batch(
        [pa.array(texts, pa.string()), pa.array([None] * len(texts), pa.int32())], ["text", "priority"]
    )


def staged(options: WriteOptions, *texts: str, wanted: int | None = 0, layout: Layout = LAYOUT) -> Staged:
    return staging.stage(options, layout, wanted, [rows(texts)])


def bodies(hub: Hub, queue: str, consumer: str | None = None) -> list[Any]:
    return [each.body for each in taken(hub, queue, consumer)]


def left(hub: Hub) -> tuple[int, int]:
    """Stagings and chunks in the hub."""
    with hub.read() as conn:
        count = [conn.exec_driver_sql(f"SELECT count(*) FROM gw_sink_{each}").scalar() for each in ("staging", "chunk")]
    return count[0] or 0, count[1] or 0


def numbers(first: int, last: int) -> list[str]:
    return [str(number) for number in range(first, last)]


def test_the_order_is_that_of_partitions_then_rows(hub: Hub, name: str) -> None:
    options = writing(hub, name)
    second = staged(options, *numbers(25, 50))
    first = staged(options, *numbers(0, 25))
    empty = staged(options)
    assert bodies(hub, name) == []
    record = commit(options, 0, [first, empty, second], "o")
    assert (record.state, record.rows, record.published) == ("DONE", 50, 50)
    assert bodies(hub, name) == numbers(0, 50)
    assert left(hub) == (0, 0)


def test_what_is_sealed_wins_over_a_second_attempt(hub: Hub, name: str, caplog: pytest.LogCaptureFixture) -> None:
    options = writing(hub, name)
    commit(options, 0, [staged(options, "a", "b")], "o")
    with caplog.at_level(logging.WARNING):
        commit(options, 0, [staged(options, "b", "a")], "o")  # in another order, as after a shuffle
        assert not caplog.messages
        commit(options, 0, [staged(options, "x", "y", "z")], "o")
    assert caplog.messages == [
        f"batch 0 of query to {name} was sealed with 2 rows; the 3 that came now are different, and are dropped"
    ]
    assert bodies(hub, name) == ["a", "b"]
    assert left(hub) == (0, 0)


def test_only_the_attempts_that_spark_committed_count(hub: Hub, name: str) -> None:
    options = writing(hub, name)
    speculative, good = staged(options, "a", "b"), staged(options, "a", "b")
    commit(options, 0, [good], "o")
    assert left(hub) == (0, 0), "the other attempt was made for the same batch"
    zombie = staged(options, "a", "b")
    with pytest.raises(GatewayError, match=r"rows staged for .* are gone"):
        _goes_on(hub, options, speculative)
    assert bodies(hub, name) == ["a", "b"]
    commit(options, 1, [staged(options, "c", wanted=1)], "o")
    assert bodies(hub, name) == ["a", "b", "c"]
    assert left(hub) == (1, 1), "nobody can tell whether the zombie is still at work"
    _grow_old(hub, zombie)
    commit(options, 2, [], "o")
    assert left(hub) == (0, 0)


def _goes_on(hub: Hub, options: WriteOptions, found: Staged) -> None:
    """A task that began to stage before wants to add a chunk."""
    with hub.read() as conn:
        target = target_of(hub, conn, options)
    stager = staging._Stager(hub, options, target, 0)
    stager.staged, stager._chunks = found, 1
    for made in staging.Maker(target.queue, LAYOUT, None, lambda _: None, system=True).messages(rows(["more"]), 0):
        stager.add(made)
    stager.flush()


def _grow_old(hub: Hub, found: Staged) -> None:
    with hub.write() as conn:
        Db(conn).run("UPDATE gw_sink_staging SET touched = touched - 90000 WHERE id = ?", (found.id,))


def _seal(hub: Hub, options: WriteOptions, found: Staged, origin: str | None) -> None:
    """All that a driver did before it was killed."""
    with hub.read() as conn:
        target = target_of(hub, conn, options)
    with hub.write() as conn:
        publish._Write(hub, target, options, 0, origin).seal(Db(conn), [found])


def test_killed_between_seal_and_publish(hub: Hub, name: str) -> None:
    options = writing(hub, name)
    _seal(hub, options, staged(options, *numbers(0, 25)), "o")
    assert bodies(hub, name) == []
    abort(options, [Staged("unknown", 0, 0)])
    again = staged(options, "other")
    abort(options, [again])
    assert left(hub) == (1, 3), "what is sealed is not removed by an abort"
    commit(options, 0, [staged(options, "other")], "o")
    assert bodies(hub, name) == numbers(0, 25)
    assert left(hub) == (0, 0)


def test_a_seal_without_its_rows_is_refused(hub: Hub, name: str) -> None:
    options = writing(hub, name)
    gone = staged(options, "a")
    abort(options, [gone])
    with pytest.raises(WriteRefused, match="are gone"):
        commit(options, 0, [gone], "o")
    assert record_of(options) is None
    commit(options, 0, [staged(options, "a")], "o")
    assert bodies(hub, name) == ["a"]


def test_a_queue_stopped_in_the_middle(hub: Hub, name: str) -> None:
    admin = QueueAdmin(hub)
    options = writing(hub, name, batch="0", maxRowsPerSecond="20")

    def stop() -> None:
        eventually(lambda: (record_of(options) or (0, 0, 0))[2] > 0, what="the first chunk")
        admin.stop_queue(name, dequeue=False)

    found = staged(options, *numbers(0, 60))
    stopper = threading.Thread(target=stop)
    stopper.start()
    with pytest.raises(
        WriteInterrupted, match=r"after \d+ of 60 rows.*not enabled for enqueue.*with query='to"
    ) as told:
        commit(options, 0, [found], None)
    stopper.join()
    assert told.value.number == 25207
    published = bodies(hub, name)
    assert published == numbers(0, len(published))
    assert 0 < len(published) < 60
    with pytest.raises(GatewayError, match="not enabled for enqueue"):
        staged(options, *numbers(0, 60))
    admin.start_queue(name)
    commit(options, 0, [staged(options, *numbers(0, 60))], None)
    assert bodies(hub, name) == numbers(0, 60)
    assert left(hub) == (0, 0)


def test_two_publishers_of_one_batch(hub: Hub, name: str) -> None:
    options = writing(hub, name)
    _seal(hub, options, staged(options, *numbers(0, 300)), None)
    threads = [threading.Thread(target=resume, args=(options,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert bodies(hub, name) == numbers(0, 300)
    assert record_of(options) == resume(options)


def test_a_name_belongs_to_one_queue_and_one_checkpoint(hub: Hub, name: str) -> None:
    other = make(hub, f"{name}_OTHER")
    options = writing(hub, name)
    commit(options, 0, [staged(options, "a")], "o")
    wrong = writing(hub, other, options.query)
    with pytest.raises(WriteRefused, match=f"belongs to a query that writes to queue {name}"):
        commit(wrong, 1, [staged(wrong, "b")], "o")
    with pytest.raises(WriteRefused, match="another checkpoint"):
        commit(options, 0, [staged(options, "b")], "p")
    plain = writing(hub, name, "plain", batch="7")
    commit(plain, 7, [staged(plain, "c")], None)
    with pytest.raises(WriteRefused, match="not a stream"):
        commit(plain, 8, [staged(plain, "d")], "o")
    assert (bodies(hub, name), bodies(hub, other)) == (["a", "c"], [])
    abort(options, [Staged(each, 0, 0) for each in _stagings(hub)])


def _stagings(hub: Hub) -> list[str]:
    with hub.read() as conn:
        return list(conn.exec_driver_sql("SELECT id FROM gw_sink_staging").scalars())


def test_records_of_old_batches_are_pruned_and_stay_done(
    hub: Hub, name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(publish, "KEPT_BATCHES", 3)
    options = writing(hub, name)
    for batch in range(6):
        commit(options, batch, [staged(options, str(batch))], "o")
    with hub.read() as conn:
        known = conn.exec_driver_sql(f"SELECT batch FROM gw_sink_batch WHERE query = 'to {name}' ORDER BY batch")
        assert list(known.scalars()) == [3, 4, 5]
    commit(options, 1, [staged(options, "again")], "o")
    assert "was written before" in caplog.text
    assert bodies(hub, name) == numbers(0, 6)
    assert left(hub) == (0, 0)


def test_a_stream_writes_its_last_batch_again_or_the_next_one(
    hub: Hub, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publish, "KEPT_BATCHES", 3)
    options = writing(hub, name)

    def write(batch: int) -> None:
        rows = [staged(options, str(batch))]
        try:
            commit(options, batch, rows, "o", consecutive=True)
        except WriteRefused:
            abort(options, rows)  # as Spark does
            raise

    for batch in (*range(4, 10), 9):
        write(batch)
    for batch, why in ((8, "taken for those written before"), (5, "taken for those"), (11, "rows between are lost")):
        with pytest.raises(WriteRefused, match=f"batch {batch} of .*batch 9 was written last.*{why}"):
            write(batch)
    write(10)
    assert bodies(hub, name) == numbers(4, 11)
    assert left(hub) == (0, 0)


def test_subscribers_get_what_their_rules_say(hub: Hub, name: str) -> None:
    many = make(hub, f"{name}_MANY", "ALL")
    QueueAdmin(hub).add_subscriber(many, "URGENT", rule="priority < 5")
    options = writing(hub, many)
    batch = pa.record_batch([pa.array(numbers(0, 12)), pa.array(range(12), pa.int32())], ["text", "priority"])
    commit(options, 0, [staging.stage(options, LAYOUT, 0, [batch])], "o")
    assert bodies(hub, many, "ALL") == numbers(0, 12)
    assert bodies(hub, many, "URGENT") == numbers(0, 5)
    QueueAdmin(hub).remove_subscriber(many, "ALL")
    with pytest.raises(RowRefused, match=r"row 5 of its partition.*no subscriber of the queue has a rule that is true"):
        staging.stage(options, LAYOUT, 1, [batch])
    assert left(hub) == (0, 0)


def test_a_user_needs_the_privilege_and_is_recorded(hub: Hub, name: str) -> None:
    admin = QueueAdmin(hub)
    options = writing(hub, name, user="scott")
    with pytest.raises(UnknownQueue):
        staged(options, "a")
    admin.grant_queue_privilege("DEQUEUE", name, "scott")
    with pytest.raises(PrivilegeMissing):
        staged(options, "a")
    admin.grant_queue_privilege("ENQUEUE", name, "scott")
    commit(options, 0, [staged(options, "a")], "o")
    with hub.read() as conn:
        users = conn.exec_driver_sql("SELECT enq_user FROM aq_message WHERE enq_user IS NOT NULL").scalars()
        assert set(users) == {"scott"}


def test_exception_messages_are_moved(hub: Hub, name: str) -> None:
    admin = QueueAdmin(hub)
    dying = make(hub, f"{name}_DYING", max_retries=0)
    put(hub, dying, *(Message(text) for text in numbers(0, 25)))
    with hub.session() as session:
        session.dequeue_array(dying, DequeueOptions(wait=NO_WAIT), 25)
        session.rollback()
    exceptions = f"AQ$_{dying}_t_E"
    admin.start_queue(exceptions, enqueue=False)
    with hub.session() as session:
        found = session.dequeue_array(exceptions, _BROWSE, 100)
    assert len(found) == 25
    ids = [each.msgid for each in found]
    batch = pa.record_batch(
        [pa.array([each.message.body for each in found]), pa.array(ids, pa.binary())], ["text", "msgid"]
    )
    schema = StructType([StructField("text", StringType()), StructField("msgid", BinaryType())])
    with pytest.raises(ConfigInvalid, match="normal queue"):
        staging.stage(writing(hub, name, removeFrom=dying), LAYOUT, 0, [batch])
    options = writing(hub, name, removeFrom=exceptions)
    layout = layout_of(schema, removing=True)
    admin.stop_queue(exceptions, enqueue=False)
    with pytest.raises(NotEnabledForDequeue):
        staging.stage(options, layout, 0, [batch])
    admin.start_queue(exceptions, enqueue=False)
    ready = staging.stage(options, layout, 0, [batch, batch.slice(3, 2)])
    with hub.session() as session:
        session.dequeue(exceptions, DequeueOptions(msgid=ids[24], wait=NO_WAIT))
        session.commit()
    record = commit(options, 0, [ready], "o")
    assert (record.published, record.skipped) == (24, 3), "one was taken by somebody else, two came twice"
    assert bodies(hub, name) == [each.message.body for each in found[:24]]
    with hub.session() as session, pytest.raises(NoMessage):
        session.dequeue_array(exceptions, _BROWSE, 100)


def test_the_view_says_what_was_written(hub: Hub, name: str) -> None:
    options = writing(hub, name)
    commit(options, 0, [staged(options, "a", "b")], "o")
    with hub.read() as conn:
        sentence = (
            "SELECT queue, batch, state, row_count, published, skipped, sealed_time, time FROM MGW_PIPELINE_WRITES"
        )
        row = conn.exec_driver_sql(f"{sentence} WHERE query = 'to {name}'").one()
    assert row[:6] == (name, 0, "DONE", 2, 2, 0)
    assert row[6][:4] == row[7][:4]
    assert len(row[7]) == len("2026-01-01 00:00:00")


def test_writes_without_a_name_are_forgotten_after_a_week(hub: Hub, name: str) -> None:
    options = WriteOptions.of({"url": url_of(hub), "queue": name})
    commit(options, 0, [staged(options, "a")], None)
    with hub.write() as conn:
        db = Db(conn)
        db.run("UPDATE gw_sink_batch SET finished = finished - 700000 WHERE query = ?", (options.query,))
        assert sql.peek_batch(db, options.query, 0) is not None
    other = WriteOptions.of({"url": url_of(hub), "queue": name})
    commit(other, 0, [staged(other, "b")], None)
    assert record_of(options) is None
    assert record_of(other) is not None


def test_the_url_is_nowhere_to_be_seen(tmp_path: Path) -> None:
    options = WriteOptions.of({"url": "postgresql://u:s3cret@127.0.0.1:1/x", "queue": "Q"})
    assert "s3cret" not in repr(options)
    with pytest.raises(GatewayError) as failed:
        record_of(options)
    assert "s3cret" not in str(failed.value)
