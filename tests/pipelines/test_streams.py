"""The plan behind a stream: what its reader does in the hub, without Spark; on both databases."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mgw.gateway.aq.admin import QueueAdmin
from mgw.gateway.aq.errors import QueueInUse
from mgw.gateway.aq.hub import Hub
from mgw.gateway.aq.model import DequeueOptions
from mgw.gateway.aq.queues import transfer
from mgw.gateway.aq.store.statements import Db
from mgw.gateway.aq.upkeep import time_manager
from mgw.gateway.cli.main import execute
from mgw.gateway.ledger import store as ledger
from mgw.pipelines.hub import open_hub
from mgw.pipelines.source import statements_stream as statements
from mgw.pipelines.source.errors import OffsetLost, StreamGone, StreamTaken
from mgw.pipelines.source.streams import consume, list_streams, release, settle_checkpoint
from mgw.transforms.errors import AqError, ConfigInvalid, HubError
from mgw.transforms.message import Message
from tests.pipelines.hubs import database, make, put

Reader = Callable[..., Any]


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    return database(request, tmp_path_factory, "streams")


@pytest.fixture(scope="module")
def hub(url: str) -> Iterator[Hub]:
    with Hub.open(url, create=True):
        pass
    with open_hub(url) as made:
        yield made


@pytest.fixture
def reader(hub: Hub, url: str) -> Iterator[Reader]:
    from pyspark.sql.types import LongType, StructType

    from mgw.pipelines.source.options import SourceOptions
    from mgw.pipelines.source.stream import StreamReader

    made: list[StreamReader] = []

    def begin(queue: str, stream: str = "", **options: object) -> StreamReader:
        given = {"url": url, "queue": queue, "stream": stream or queue, **{n: str(v) for n, v in options.items()}}
        made.append(StreamReader(SourceOptions.of(given, streaming=True), StructType().add("id", LongType(), False)))
        return made[-1]

    yield begin
    for each in made:
        each.stop()


def rows(limit: int) -> Any:
    from pyspark.sql.streaming.datasource import ReadMaxRows

    return ReadMaxRows(limit)


def everything() -> Any:
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    return ReadAllAvailable()


def states(hub: Hub, queue: str) -> str:
    """First letters of the states of the queue's messages, by id."""
    with hub.read() as conn:
        found = conn.exec_driver_sql(
            "SELECT m.state FROM aq_message m JOIN aq_queue q ON q.id = m.queue_id"
            f" WHERE q.name = '{queue}' ORDER BY m.id"
        )
        return "".join({0: "R", 1: "W", 2: "P", 8: "C"}[state] for (state,) in found)


def view(hub: Hub, stream: str) -> tuple[Any, ...]:
    with hub.read() as conn:
        row = conn.exec_driver_sql(
            "SELECT queue_name, consumer_name, allocated, settled, waiting, last_time FROM mgw_pipeline_streams"
            f" WHERE stream_name = '{stream.upper()}'"
        ).one()
        return tuple(row)


def plan_rows(hub: Hub) -> int:
    with hub.read() as conn:
        return int(conn.exec_driver_sql("SELECT count(*) FROM pl_plan").scalar_one())


def test_streams_are_listed_with_whole_headings(
    hub: Hub, reader: Reader, url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "stream_of_all_that_the_plant_has_to_tell_the_lake"
    stream = reader(make(hub, name))
    stream.latestOffset(stream.initialOffset(), rows(4))
    headings = ["STREAM", "QUEUE", "CONSUMER", "ALLOCATED", "SETTLED", "WAITING", "LAST", "(UTC)"]
    for width in ("80", ""):
        monkeypatch.setenv("COLUMNS", width)
        assert execute(["--hub", url, "pipeline", "streams"]) == 0
        shown = capsys.readouterr().out.splitlines()
        assert shown[0].split() == headings
        assert max(map(len, shown)) <= 80 or not width
    assert any(line.startswith(f"{name.upper()}  MGW.{name.upper()}  ") for line in shown), "a line for each row"


def test_what_is_before_the_start_is_consumed_and_what_is_after_is_claimed(hub: Hub, reader: Reader, url: str) -> None:
    queue = make(hub, "plain", retention_time=3600)
    put(hub, queue, *(str(n) for n in range(10)))
    stream = reader(queue)
    zero = stream.initialOffset()
    assert zero["seq"] == 0
    first = stream.latestOffset(zero, rows(4))
    assert (first["seq"], states(hub, queue)) == (4, "CCCCRRRRRR")
    assert stream.latestOffset(zero, rows(4)) == first  # what is planned and in no batch yet comes first
    second = stream.latestOffset(first, rows(4))
    assert (second["seq"], states(hub, queue)) == (8, "PPPPCCCCRR")
    assert view(hub, queue)[:5] == ("MGW.PLAIN", None, 8, 4, 2)
    (listed,) = (each for each in list_streams(url) if each["stream_name"] == "PLAIN")
    assert (listed["queue_name"], listed["allocated"], listed["settled"]) == ("MGW.PLAIN", 8, 4)
    last = stream.latestOffset(second, everything())
    assert (last["seq"], states(hub, queue)) == (10, "PPPPPPPPCC")
    assert stream.latestOffset(last, rows(4)) is last
    assert (states(hub, queue), plan_rows(hub)) == ("P" * 10, 0)
    with hub.read() as conn:
        times = conn.exec_driver_sql(
            "SELECT count(*) FROM aq_message WHERE deq_time IS NOT NULL AND state = 2"
        ).scalar()
    assert times == 10
    assert stream.latestOffset(last, rows(4)) is last


def test_a_restart_before_the_offset_log_goes_on_with_the_plan(hub: Hub, reader: Reader) -> None:
    queue = make(hub, "restart")
    put(hub, queue, "a", "b", "c")
    before = reader(queue)
    zero = before.initialOffset()
    planned = before.latestOffset(zero, rows(2))
    after = reader(queue)
    assert after.initialOffset() == zero
    assert after.latestOffset(zero, rows(3))["seq"] == 3  # the two, and one more
    assert [len(after.partitions(zero, planned)), after.partitions(zero, zero)] == [1, []]
    with pytest.raises(StreamTaken, match="another query started to read it"):
        before.latestOffset(planned, rows(2))
    with pytest.raises(StreamTaken):
        before.partitions(zero, planned)


def test_order_is_that_of_the_queue(hub: Hub, reader: Reader) -> None:
    queue = make(hub, "ordered", table={"sort_list": "PRIORITY,ENQ_TIME"})
    ids = put(hub, queue, Message("low", priority=9), Message("later", delay=3600), Message("high", priority=1))
    stream = reader(queue)
    stream.latestOffset(stream.initialOffset(), rows(10))
    with hub.read() as conn:
        planned = conn.exec_driver_sql(
            "SELECT p.message_id FROM pl_plan p JOIN pl_stream s ON s.id = p.stream_id"
            " WHERE s.name = 'ordered' ORDER BY seq"
        )
        assert [number for (number,) in planned] == [int.from_bytes(each[8:], "big") for each in (ids[2], ids[0])]
    with hub.write() as conn:
        conn.exec_driver_sql("UPDATE aq_message SET ready_at = ready_at - 3600 WHERE state = 1")
    time_manager.run_once(hub)
    assert stream.latestOffset({**stream.initialOffset(), "seq": 2}, rows(10))["seq"] == 3


def test_ids_that_were_rolled_back_leave_no_gap(hub: Hub, reader: Reader) -> None:
    queue = make(hub, "gaps")
    put(hub, queue, "a")
    with hub.write() as conn:
        transfer.put(conn, transfer.resolve(conn, queue), [Message("never")] * 3)
        conn.rollback()
    put(hub, queue, "b")
    stream = reader(queue)
    assert stream.latestOffset(stream.initialOffset(), rows(10))["seq"] == 2


def test_a_subscriber_is_read_beside_others(hub: Hub, reader: Reader) -> None:
    queue = make(hub, "topic", "SPARK", "OTHER")
    put(hub, queue, "a", "b", "c")
    with pytest.raises(AqError, match="no consumer given"):
        reader(queue, "none").initialOffset()
    stream = reader(queue, consumer="spark")
    zero = stream.initialOffset()
    two = stream.latestOffset(zero, rows(2))
    assert view(hub, queue)[:5] == ("MGW.TOPIC", "SPARK", 2, 0, 1)
    assert stream.latestOffset(two, rows(2))["seq"] == 3
    with hub.session() as session:
        found = session.dequeue_array(queue, DequeueOptions("OTHER", wait=0), 10)
        session.commit()
    assert [each.message.body for each in found] == ["a", "b", "c"]
    put(hub, queue, "d")
    QueueAdmin(hub).remove_subscriber(queue, "SPARK")
    three = {**zero, "seq": 3}
    with pytest.raises(StreamGone, match="subscriber spark of queue topic was removed"):
        stream.latestOffset(three, rows(2))
    assert view(hub, queue)[2:4] == (3, 3)


def test_checkpoints_that_do_not_fit_are_refused(hub: Hub, reader: Reader, url: str) -> None:
    queue = make(hub, "fit")
    put(hub, queue, "a", "b", "c")
    stream = reader(queue)
    zero = stream.initialOffset()
    stream.latestOffset({**zero, "seq": stream.latestOffset(zero, rows(2))["seq"]}, rows(2))
    with pytest.raises(OffsetLost, match=r"behind stream fit.*at 0, but the messages up to 2 are consumed"):
        reader(queue).latestOffset(zero, rows(2))
    with pytest.raises(OffsetLost, match=r"ahead of stream fit.*at 9, the hub only at 3.*restored"):
        reader(queue).latestOffset({**zero, "seq": 9}, rows(2))
    with pytest.raises(OffsetLost, match="not one of stream fit"):
        reader(queue).latestOffset({"stream": "0" * 16, "seq": 2}, rows(2))
    with pytest.raises(ConfigInvalid, match="another queue or consumer"):
        reader(make(hub, "unfit"), "fit").latestOffset(zero, rows(2))
    lenient = reader(queue, failOnDataLoss="false")
    assert lenient.latestOffset(zero, rows(2))["seq"] == 3
    assert [part.value for part in lenient.partitions(zero, {**zero, "seq": 3})] == [(2, 3)]
    assert release(url, "FIT") == 1
    assert states(hub, queue) == "R"
    with pytest.raises(StreamGone, match="stream fit does not exist"):
        lenient.latestOffset(zero, rows(2))
    again = reader(queue)
    assert again.initialOffset()["seq"] == 0
    with pytest.raises(OffsetLost, match="not one of stream fit"):
        again.latestOffset(zero, rows(2))
    with pytest.raises(StreamGone):
        release(url, "nobody")


def test_messages_that_somebody_purged_are_told(hub: Hub, reader: Reader) -> None:
    queue = make(hub, "purged")
    put(hub, queue, "a", "b", "c")
    stream = reader(queue)
    zero = stream.initialOffset()
    three = stream.latestOffset(zero, rows(3))
    with hub.write() as conn:
        conn.exec_driver_sql(
            "DELETE FROM aq_message WHERE body = %s" if hub.postgresql else "DELETE FROM aq_message WHERE body = ?",
            (b"b",),
        )
    with pytest.raises(OffsetLost, match=r"messages of stream purged are missing.*somebody purged queue purged"):
        stream.latestOffset(three, rows(3))
    assert states(hub, queue) == "CC"
    assert reader(queue, failOnDataLoss="false").latestOffset(three, rows(3)) == three
    assert states(hub, queue) == ""


def test_the_hub_leaves_a_stream_its_messages(hub: Hub, reader: Reader, url: str) -> None:
    queue = make(hub, "kept")
    put(hub, queue, "a", "b")
    stream = reader(queue)
    stream.latestOffset(stream.initialOffset(), rows(5))
    time_manager.run_once(hub)
    assert states(hub, queue) == "CC"
    admin = QueueAdmin(hub)
    with pytest.raises(QueueInUse, match=r"2 of its messages are .*streams of pipelines.*release the streams"):
        admin.stop_queue(queue, wait=False)
    with hub.read() as conn:
        ref = transfer.resolve(conn, queue)
        assert len(transfer.set_aside(conn, ref, None)) == 2

        class _Job:
            source = queue

        assert ledger.stranded(conn, _Job()) == set()  # type: ignore[arg-type]
    assert release(url, queue) == 2
    assert states(hub, queue) == "RR"
    admin.stop_queue(queue, wait=False)


def test_a_dropped_queue_takes_its_stream_along(hub: Hub, reader: Reader) -> None:
    queue = make(hub, "dropped")
    put(hub, queue, "a", "b")
    stream = reader(queue)
    zero = stream.initialOffset()
    two = stream.latestOffset(zero, rows(5))
    before = plan_rows(hub)
    QueueAdmin(hub).drop_queue_table("dropped_t", force=True)
    assert plan_rows(hub) == before - 2
    with pytest.raises(StreamGone, match="its queue was dropped"):
        stream.latestOffset(two, rows(5))
    with pytest.raises(AqError, match="does not exist"):
        reader(queue).initialOffset()


def test_a_stopped_queue_ends_the_stream_with_a_reason(hub: Hub, reader: Reader) -> None:
    queue = make(hub, "stopped")
    stream = reader(queue)
    zero = stream.initialOffset()
    assert stream.latestOffset(zero, rows(5)) == zero
    QueueAdmin(hub).stop_queue(queue)
    with hub.write() as conn:
        conn.exec_driver_sql("UPDATE aq_queue SET enqueue_enabled = 1 WHERE name = 'stopped'")
    put(hub, queue, "a")
    with pytest.raises(AqError, match="not enabled for dequeue"):
        stream.latestOffset(zero, rows(5))


def test_users_read_what_they_may_dequeue(hub: Hub, reader: Reader) -> None:
    queue = make(hub, "secret")
    put(hub, queue, "a")
    with pytest.raises(AqError, match="'secret' does not exist for user SCOTT"):
        reader(queue, user="SCOTT").initialOffset()
    QueueAdmin(hub).grant_queue_privilege("DEQUEUE", queue, "SCOTT")
    stream = reader(queue, user="SCOTT")
    assert stream.latestOffset(stream.initialOffset(), rows(5))["seq"] == 1


def test_what_is_available_now_has_an_end(hub: Hub, reader: Reader) -> None:
    queue = make(hub, "now")
    put(hub, queue, "a", "b", "c")
    stream = reader(queue)
    stream.prepareForTriggerAvailableNow()
    offset = stream.initialOffset()
    put(hub, queue, "d")
    seen = []
    while (following := stream.latestOffset(offset, rows(2))) != offset:
        seen.append(following["seq"])
        offset = following
    assert (seen, states(hub, queue)) == ([2, 3], "R")


def test_a_commit_log_proves_what_may_be_settled(hub: Hub, reader: Reader, url: str, tmp_path: Path) -> None:
    queue = make(hub, "proof")
    put(hub, queue, "a", "b", "c")
    stream = reader(queue)
    zero = stream.initialOffset()
    offset = stream.latestOffset(zero, rows(2))
    assert settle_checkpoint(url, queue, str(tmp_path)) == 0
    for folder, number, text in (
        ("offsets", 0, f'v1\n{{"batchWatermarkMs":0}}\n{json.dumps(offset)}'),
        ("offsets", 1, f"v1\n{{}}\n{json.dumps({**offset, 'seq': 3})}"),
        ("commits", 0, 'v1\n{"nextBatchWatermarkMs":0}'),
        ("commits", ".0.crc", "x"),
    ):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / str(number)).write_text(text)
    assert settle_checkpoint(url, "other", tmp_path.as_uri()) == 0
    assert settle_checkpoint(url, queue, tmp_path.as_uri()) == 2
    assert settle_checkpoint(url, queue, str(tmp_path)) == 0
    assert settle_checkpoint(url, queue, "hdfs://somewhere/else") == 0
    assert states(hub, queue) == "R"
    assert stream.latestOffset(offset, rows(2))["seq"] == 3


def test_a_hub_is_not_made_by_reading(tmp_path: Path) -> None:
    with pytest.raises(HubError, match="does not exist"):
        open_hub(f"sqlite:///{tmp_path / 'none.db'}")
    sqlite3.connect(tmp_path / "other.db").execute("CREATE TABLE x (y)").connection.close()
    with Hub.open(f"sqlite:///{tmp_path / 'hub.db'}", create=True):
        assert list_streams(f"sqlite:///{tmp_path / 'hub.db'}") == []
    with pytest.raises(HubError, match=r"does not exist.*other tables \(x\)"):
        open_hub(f"sqlite:///{tmp_path / 'other.db'}")


def test_messages_whose_ids_follow_each_other_share_a_row_of_the_plan(hub: Hub, reader: Reader, url: str) -> None:
    """A plan is as good in runs as message by message: read, cut, settled and given back at any place."""
    queue = make(hub, "runs", retention_time=3600)
    for start in (0, 40):  # two runs, and three messages that are in none
        put(hub, queue, *(str(n) for n in range(start, start + 40)))
        put(hub, make(hub, f"between{start}"), "other")
    for number in range(3):
        put(hub, queue, f"lone {number}")
        put(hub, "between0", "other")
    stream = reader(queue)
    before = plan_rows(hub)
    zero = stream.initialOffset()
    end = stream.latestOffset(zero, everything())
    assert (end["seq"], plan_rows(hub) - before) == (83, 5)
    with hub.read() as conn:
        ref = transfer.resolve(conn, queue)
        claimed = sorted(transfer.set_aside(conn, ref, None))
        assert sorted(transfer.set_aside_by_parts(conn, ref)) == claimed, "the view tells of every message"
    assert len(claimed) == 83

    def ids(lower: int, upper: int) -> list[int]:
        parts = stream.partitions({**zero, "seq": lower}, {**zero, "seq": upper})
        return [number for part in parts for piece in stream.read(part) for number in piece["id"].to_pylist()]

    if hub.postgresql:  # of SQLite a process has one library at a time: another test reads it in Spark's workers
        assert [ids(0, 83), ids(10, 50), ids(79, 82)] == [claimed, claimed[10:50], claimed[79:82]]
    assert settle(hub, queue, 25) == 25
    assert (plan_rows(hub) - before, states(hub, queue)) == (5, "P" * 25 + "C" * 58)
    assert settle(hub, queue, 40) == 15
    assert (plan_rows(hub) - before, states(hub, queue)) == (4, "P" * 40 + "C" * 43)
    if hub.postgresql:
        assert ids(45, 81) == claimed[45:81]
    with hub.read() as conn:
        assert sorted(transfer.set_aside_by_parts(conn, ref)) == claimed[40:]
    assert settle(hub, queue, 81) == 41
    assert release(url, queue) == 2
    assert (plan_rows(hub), states(hub, queue)) == (before, "P" * 81 + "RR")


def settle(hub: Hub, stream: str, upto: int) -> int:
    """Consume the messages of a stream up to a place; how many."""
    with hub.write() as conn:
        db = Db(conn)
        row = statements.find(db, stream, hold=True)
        assert row is not None
        settled = consume(conn, db, transfer.resolve(conn, stream), row, upto)
        statements.update(db, settled, now=0.0)
    return settled.settled - row.settled


def test_a_plan_of_an_earlier_release_goes_on(hub: Hub, reader: Reader) -> None:
    """It has a row for every message."""
    queue = make(hub, "earlier")
    put(hub, queue, *(str(n) for n in range(20)))
    stream = reader(queue)
    zero = stream.initialOffset()
    with hub.write() as conn:
        db = Db(conn)
        row = statements.find(db, queue)
        assert row is not None
        numbers = transfer.claim_numbers(conn, transfer.resolve(conn, queue), None, 12)
        for place, number in enumerate(numbers):  # one by one
            statements.append(db, row._replace(allocated=place), [number])
        statements.update(db, row._replace(allocated=12), now=0.0)
    end = stream.latestOffset(zero, everything())
    assert (end["seq"], states(hub, queue)) == (20, "C" * 20)
    with hub.read() as conn:
        row = statements.find(Db(conn), queue)
        assert row is not None
        assert statements.planned(Db(conn), row, 5, 20) == list(range(numbers[5], numbers[5] + 15))
    assert stream.latestOffset(end, everything()) is end
    assert states(hub, queue) == ""


def test_a_stretch_of_a_plan_without_messages_hides_nothing_behind_it(tmp_path: Path) -> None:
    """SQLite's windows of places; no hub is open when they are read."""
    from pyspark.sql.types import LongType, StructType

    from mgw.pipelines.source.options import SourceOptions
    from mgw.pipelines.source.stream import StreamReader

    url = f"sqlite:///{tmp_path / 'hub.db'}"
    with Hub.open(url, create=True) as hub:
        put(hub, make(hub, "holes"), *(str(n) for n in range(20)))
    given = {"url": url, "queue": "holes", "stream": "holes", "fetchSize": "4", "failOnDataLoss": "false"}
    stream = StreamReader(SourceOptions.of(given, streaming=True), StructType().add("id", LongType(), False))
    zero = stream.initialOffset()
    (part,) = stream.partitions(zero, stream.latestOffset(zero, everything()))
    stream.stop()
    with closing(sqlite3.connect(tmp_path / "hub.db")) as connection:
        ids = [number for (number,) in connection.execute("SELECT id FROM aq_message ORDER BY id")]
        connection.execute("DELETE FROM aq_message WHERE id BETWEEN ? AND ?", (ids[3], ids[13]))
        connection.commit()
    assert [number for piece in stream.read(part) for number in piece["id"].to_pylist()] == ids[:3] + ids[14:]


def test_the_next_task_of_a_process_reads_on_the_same_connection(hub: Hub, reader: Reader) -> None:
    """To connect takes the Arrow driver of PostgreSQL longer than to read thousands of messages."""
    if not hub.postgresql:
        pytest.skip("SQLite has no server")
    queue = make(hub, "again")
    ids = put(hub, queue, *(str(n) for n in range(10)))
    stream = reader(queue)
    zero = stream.initialOffset()
    ten = stream.latestOffset(zero, everything())
    (part,) = stream.partitions(zero, ten)

    def read() -> int:
        return sum(piece.num_rows for piece in stream.read(part))

    def begun() -> list[int]:
        """Sessions of the server that were the last to read a plan."""
        with hub.read() as conn:
            found = conn.exec_driver_sql(
                "SELECT pid FROM pg_stat_activity WHERE query LIKE '%%pl_plan%%' AND query LIKE 'COPY%%'"
                " AND datname = current_database()"
            )
            return [pid for (pid,) in found]

    assert read() == len(ids)
    (first,) = begun()
    assert read() == len(ids)
    assert begun() == [first]
    with hub.write() as conn:
        conn.exec_driver_sql(f"SELECT pg_terminate_backend({first}, 10000)")
    assert read() == len(ids), "a connection that was lost is made again"
    (second,) = begun()
    assert second != first
    given_up = stream.read(part)
    next(given_up)
    given_up.close()  # type: ignore[attr-defined]
    assert read() == len(ids)
    assert second not in begun(), "nobody knows what it still sends"
