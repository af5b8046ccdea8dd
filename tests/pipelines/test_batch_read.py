"""Batch reads of the data source ``mgw``, on both databases."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from mgw.gateway.aq.admin import QueueAdmin
from mgw.gateway.aq.hub import Hub
from mgw.gateway.aq.model import DequeueOptions
from mgw.gateway.aq.queues import transfer
from mgw.gateway.aq.store.statements import Db
from mgw.gateway.aq.upkeep import time_manager
from mgw.gateway.state.gateway_hub import open_hub
from mgw.pipelines.source import columns
from mgw.pipelines.source.options import What
from mgw.pipelines.source.pieces import address_of
from mgw.transforms.errors import AqError, ConfigInvalid
from mgw.transforms.message import Header, Message, ValueType
from tests.pipelines.hubs import ManualClock, database, make, put

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOW = 1_800_000_000.123456
HEADERS = (
    Header("MGW_KAFKA_topic", ValueType.TEXT, "orders"),
    Header("MGW_KAFKA_partition", ValueType.INTEGER, 3),
    Header("MGW_KAFKA_offset", ValueType.LONG, 2**40),
    Header("MGW_KAFKA_timestamp", ValueType.LONG, 1_700_000_000_123),
    Header('od"d\\, ["x",1,2]', ValueType.TEXT, '],["\u00e9\u4e2d'),
    Header("raw", ValueType.RAW, b"\x00\xff"),
    Header("yes", ValueType.BOOLEAN, True),
    Header("f", ValueType.FLOAT, float("inf")),
    Header("d", ValueType.DOUBLE, 5.0),
    Header("when", ValueType.DATE, 1700000000.25),
    Header("MGW_KAFKA_topic", ValueType.TEXT, "second"),
)
Load = Callable[..., "DataFrame"]


@pytest.fixture
def own(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database for one test."""
    return database(request, tmp_path_factory, f"own_{os.urandom(4).hex()}")


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    return database(request, tmp_path_factory, "batch_read")


@pytest.fixture(scope="module")
def clock(url: str) -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture(scope="module")
def hub(url: str, clock: ManualClock) -> Iterator[Hub]:
    with open_hub(url, create=True, clock=clock) as made:
        yield made


@pytest.fixture(scope="module")
def load(spark: SparkSession, url: str) -> Load:
    from mgw.pipelines.datasource import register

    register(spark)

    def loaded(queue: str, schema: str | None = None, **options: object) -> DataFrame:
        reader = spark.read.format("mgw").options(url=url, queue=queue)
        if schema:
            reader = reader.schema(schema)
        return reader.options(**{name: str(value) for name, value in options.items()}).load()

    return loaded


def test_every_column_says_what_the_hub_has(hub: Hub, load: Load) -> None:
    queue = make(hub, "columns")
    message = Message(
        "text \u00e9\u4e2d",
        HEADERS,
        priority=-3,
        correlation="c'1",
        delay=100,
        expiration=5.5,
        exception_queue="AQ$_COLUMNS_T_E",
        sender_name="S",
        user_property="p",
    )
    msgid, second = put(hub, queue, message, Message(b"\xff\x00", sender_protocol=3))
    (row,) = load(queue, partitions=1).where("priority = -3").collect()
    assert row.asDict(recursive=True) == {
        "queue": "columns",
        "msgid": bytearray(msgid),
        "id": int.from_bytes(msgid[8:], "big"),
        "seq": None,
        "state": "WAITING",
        "consumer": None,
        "priority": -3,
        "correlation": "c'1",
        "kind": "BASIC",
        "enq_time": datetime.fromtimestamp(NOW),
        "enq_user": None,
        "deq_time": None,
        "deq_user": None,
        "ready_at": datetime.fromtimestamp(NOW) + timedelta(seconds=100),
        "expires_at": datetime.fromtimestamp(NOW) + timedelta(seconds=105.5),
        "expiration": 5.5,
        "attempts": 0,
        "exception_queue": "AQ$_COLUMNS_T_E",
        "expiration_reason": None,
        "original_queue": None,
        "original_msgid": None,
        "sender_name": "S",
        "sender_address": None,
        "sender_protocol": None,
        "user_property": "p",
        "transaction_group": None,
        "headers": [
            {"name": "MGW_KAFKA_topic", "type": "TEXT", "value": "orders"},
            {"name": "MGW_KAFKA_partition", "type": "INTEGER", "value": "3"},
            {"name": "MGW_KAFKA_offset", "type": "LONG", "value": str(2**40)},
            {"name": "MGW_KAFKA_timestamp", "type": "LONG", "value": "1700000000123"},
            {"name": 'od"d\\, ["x",1,2]', "type": "TEXT", "value": '],["\u00e9\u4e2d'},
            {"name": "raw", "type": "RAW", "value": "AP8="},
            {"name": "yes", "type": "BOOLEAN", "value": "true"},
            {"name": "f", "type": "FLOAT", "value": "inf"},
            {"name": "d", "type": "DOUBLE", "value": "5.0"},
            {"name": "when", "type": "DATE", "value": "1700000000.25"},
            {"name": "MGW_KAFKA_topic", "type": "TEXT", "value": "second"},
        ],
        "body_type": "TEXT",
        "body": bytearray("text \u00e9\u4e2d".encode()),
        "text": "text \u00e9\u4e2d",
        "origin": {
            "system": "KAFKA",
            "name": "orders",
            "partition": 3,
            "offset": 2**40,
            "timestamp": datetime.fromtimestamp(1_700_000_000.123),
            "msgid": None,
        },
    }
    wanted = "body_type STRING, text STRING, body BINARY, headers " + columns.HEADERS + ", origin " + columns.ORIGIN
    (raw,) = load(queue, wanted + ", id BIGINT").where(f"id = {int.from_bytes(second[8:], 'big')}").collect()
    assert raw[:5] == ("RAW", None, bytearray(b"\xff\x00"), None, None)


def test_each_kind_of_reading_finds_its_messages(hub: Hub, load: Load, clock: ManualClock, url: str) -> None:
    queue = make(hub, "kinds", retention_time=-1)
    put(hub, queue, "done", Message("gone", expiration=5), Message("later", delay=999), *(f"m{n}" for n in range(5)))
    with hub.session() as session:
        session.dequeue(queue, DequeueOptions(wait=0))
        session.commit()
    clock.time += 6
    time_manager.run_once(hub)
    topic = make(hub, "kinds_of", "RED", "GREEN")
    put(hub, topic, "a", "b")
    with hub.session() as session:
        session.dequeue(topic, DequeueOptions("RED", wait=0))
        session.commit()
    wanted = "queue,original_queue,text,state,consumer,expiration_reason"
    frames = [
        load(queue, columns=wanted),
        load(queue, columns=wanted, what="ready"),
        load(queue, columns=wanted, what="history"),
        load(queue, columns=wanted, what="exceptions"),
        load("AQ$_KINDS_T_E", columns=wanted, what="exceptions"),
        load(topic, columns=wanted),
        load(topic, columns=wanted, consumer="red"),
        load(topic, columns=wanted, consumer="GREEN", what="ready"),
    ]
    from pyspark.sql import functions

    united = frames[0].withColumn("n", functions.lit(0))
    for number, frame in enumerate(frames[1:], 1):
        united = united.unionAll(frame.withColumn("n", functions.lit(number)))
    found: dict[int, set[tuple[Any, ...]]] = {}
    for row in united.collect():
        found.setdefault(row.n, set()).add((row.text, row.state))
        if row.state == "EXPIRED":
            assert row[:3] == ("AQ$_kinds_t_E", "kinds", "gone")
            assert row.expiration_reason
        assert row.consumer == {6: "red", 7: "GREEN"}.get(row.n)
    fresh = {(f"m{n}", "READY") for n in range(5)}
    assert found == {
        0: fresh | {("done", "PROCESSED"), ("later", "WAITING")},
        1: fresh,
        2: {("done", "PROCESSED")},
        3: {("gone", "EXPIRED")},
        4: {("gone", "EXPIRED")},
        5: {("a", "SPLIT"), ("b", "SPLIT")},
        6: {("a", "PROCESSED"), ("b", "READY")},
        7: {("a", "READY"), ("b", "READY")},
    }


def reader(url: str, queue: str, **options: object) -> Any:
    from pyspark.sql.types import LongType, StructType

    from mgw.pipelines.source.batch import QueueReader
    from mgw.pipelines.source.options import SourceOptions

    given = {"url": url, "queue": queue, **{name: str(value) for name, value in options.items()}}
    return QueueReader(SourceOptions.of(given), StructType().add("id", LongType(), False))


def test_ranges_cover_every_id_and_hold_as_many_messages_each(hub: Hub, url: str) -> None:
    crowd, queue = make(hub, "crowd"), make(hub, "sparse")
    ids = []
    for n in range(40):  # nine of ten messages of the hub are another queue's, and two of three are in the last third
        put(hub, crowd, *("x" for _ in range(9 if n < 20 else 2)))
        ids += put(hub, queue, *("y" for _ in range(1 if n < 20 else 2)))
    numbers = [int.from_bytes(each[8:], "big") for each in ids]
    ranges = [part.value for part in reader(url, queue, partitions=4).partitions()]
    assert [lower for lower, _ in ranges] == [0, *(upper for _, upper in ranges[:-1])]
    with hub.read() as conn:
        assert ranges[-1][1] == Db(conn).last_message_id()
    counts = [sum(lower < number <= upper for number in numbers) for lower, upper in ranges]
    assert counts == [15, 15, 15, 15]
    late = put(hub, queue, "after the plan")
    assert int.from_bytes(late[0][8:], "big") > ranges[-1][1]
    assert [part.value[0] for part in reader(url, make(hub, "empty"), partitions=4).partitions()] == [0]


@pytest.mark.parametrize("consumer", [None, "RED"])
@pytest.mark.parametrize("own", ["sqlite", "postgresql"], indirect=True)
def test_of_many_ids_some_are_looked_at(own: str, monkeypatch: pytest.MonkeyPatch, consumer: str | None) -> None:
    from mgw.pipelines.source import statements_read as sql

    monkeypatch.setattr(sql, "_STRETCHES", 8)
    monkeypatch.setattr(sql, "_PROBE", 10)
    with open_hub(own, create=True) as hub:
        crowd, queue = make(hub, "many"), make(hub, "some", *([consumer] if consumer else []))
        stored = put(hub, queue, *("y" for _ in range(80)))
        put(hub, crowd, *("x" for _ in range(160)))
        stored += put(hub, queue, *("y" for _ in range(80)))
        numbers = [int.from_bytes(each[8:], "big") for each in stored]
        more = {"consumer": consumer} if consumer else {}
        for enough in (80, 81):  # with fewer found than say anything, all are counted
            monkeypatch.setattr(sql, "_ENOUGH", enough)
            ranges = [part.value for part in reader(own, queue, partitions=4, **more).partitions()]
            counts = [sum(lower < number <= upper for number in numbers) for lower, upper in ranges]
            assert counts == [40, 40, 40, 40]
        with hub.read() as conn:
            db = Db(conn)
            found = sql.selection(db, transfer.resolve(conn, queue), consumer, What.MESSAGES)
            explained = f"EXPLAIN {'' if db.postgresql else 'QUERY PLAN'} {sql.probing(db, found, 1, 320)}"
            plan = str(db.rows(explained))
    if db.postgresql:
        assert f"using {'aq_entry' if consumer else 'aq_message'}_pkey" in plan
    else:
        assert ("USING PRIMARY KEY (message_id>" if consumer else "USING INTEGER PRIMARY KEY (rowid>") in plan


def test_a_user_reads_what_a_user_may_browse(hub: Hub, url: str) -> None:
    queue, topic = make(hub, "secret"), make(hub, "secrets", "RED")
    admin = QueueAdmin(hub)
    for name in (queue, topic):
        with pytest.raises(AqError, match=f"'{name}' does not exist for user SCOTT"):
            reader(url, name, user="SCOTT").partitions()
        admin.grant_queue_privilege("DEQUEUE", name, "SCOTT")
    assert reader(url, queue, user="SCOTT").partitions()
    assert reader(url, topic, user="SCOTT", consumer="RED").partitions()
    with pytest.raises(AqError, match="may not administer queue secrets"):
        reader(url, topic, user="SCOTT").partitions()
    exceptions = reader(url, queue, user="SCOTT", what="exceptions").partitions()
    assert "m.queue_id IN (NULL)" in exceptions[0].reading.chosen.where
    admin.grant_queue_privilege("DEQUEUE", "AQ$_SECRET_T_E", "SCOTT")
    exceptions = reader(url, queue, user="SCOTT", what="exceptions").partitions()
    assert "m.queue_id IN (NULL)" not in exceptions[0].reading.chosen.where


def test_a_password_is_not_shown() -> None:
    from mgw.pipelines.source.options import SourceOptions

    assert "hush" not in repr(SourceOptions.of({"url": "postgresql://a:hush@b/c", "queue": "q"}))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"queue": ""}, "option 'queue' is missing"),
        ({"what": "all"}, "option 'what' has the value 'all'.*one of messages, ready, history, exceptions"),
        ({"partitions": "0"}, "option 'partitions' has the value '0'.*whole number from 1"),
        ({"fetchsize": "1e3"}, "option 'fetchSize' has the value '1e3'"),
        ({"columns": "id, size"}, "column 'size' cannot be read.*no such column.*queue, msgid"),
        ({"columns": "id,id"}, "column 'id' cannot be read.*named twice"),
        ({"stream": "s"}, "option 'stream' is unknown"),
        ({"url": ""}, "no hub is given.*MGW_HUB"),
    ],
    ids=str,
)
def test_options_that_cannot_work_are_refused(
    options: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mgw.pipelines.source.options import SourceOptions

    monkeypatch.delenv("MGW_HUB", raising=False)
    with pytest.raises(ConfigInvalid, match=message):
        SourceOptions.of({"url": "sqlite:///x.db", "queue": "q"} | options)


def test_a_column_of_another_type_is_refused() -> None:
    from pyspark.sql.types import StringType, StructType

    from mgw.pipelines.source.batch import columns_of

    with pytest.raises(ConfigInvalid, match=r"column 'id' cannot be read as string.*has it as BIGINT"):
        columns_of(StructType().add("id", StringType()))


def test_large_bodies_come_in_small_pieces(hub: Hub, url: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Read in a process of its own, as an executor does: what brings its own SQLite shares no locks with this one."""
    queue = make(hub, "large")
    put(hub, queue, *("x" * 2**20 for _ in range(70)), *("small" for _ in range(100)))
    (part,) = reader(url, queue, partitions=1).partitions()
    file = tmp_path_factory.mktemp("pieces") / "part"
    file.write_bytes(pickle.dumps(part))
    code = (
        "import pickle, sys; from mgw.pipelines.source.pieces import pieces\n"
        "part = pickle.load(open(sys.argv[1], 'rb')); r = part.reading\n"
        "for p in pieces(r.address, r.chosen, ('id', 'body'), part.lower, part.upper, rows=64):\n"
        "    print(p.num_rows, p.get_total_buffer_size() >> 20)"
    )
    command = [sys.executable, "-c", code, str(file)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    read = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    assert sum(rows for rows, _ in read) == 170
    assert max(rows for rows, _ in read) <= 64
    assert max(size for _, size in read) <= 72  # MiB, of a limit of 32 and a row more


_HOLDER = """
import sqlite3, sys
conn = sqlite3.connect(sys.argv[1], isolation_level=None)
conn.execute("PRAGMA locking_mode=EXCLUSIVE")
conn.execute("BEGIN IMMEDIATE")
conn.execute("UPDATE aq_queue SET id = id")
print("held", flush=True)
sys.stdin.readline()
conn.execute("ROLLBACK")
"""


def test_a_reader_waits_for_who_has_the_file_for_himself(tmp_path: Path) -> None:
    """As the last one does who closes a file: he clears its log away. Tasks that begin in that moment must not fail."""
    url = f"sqlite:///{tmp_path}/hub.db"
    with Hub.open(url, create=True) as hub:
        queue = make(hub, "held")
        put(hub, queue, "m")
        (part,) = reader(url, queue, partitions=1).partitions()
    place = tmp_path / "part"
    place.write_bytes(pickle.dumps(part))
    code = (
        "import pickle, sys; from mgw.pipelines.source.pieces import pieces\n"
        "part = pickle.load(open(sys.argv[1], 'rb')); r = part.reading; print('reads', flush=True)\n"
        "print(sum(p.num_rows for p in pieces(r.address, r.chosen, ('id',), part.lower, part.upper, rows=64)))"
    )
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", _HOLDER, f"{tmp_path}/hub.db"], **pipes) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with subprocess.Popen([sys.executable, "-c", code, str(place)], **pipes, cwd=Path(__file__).parents[2]) as task:
            assert task.stdout is not None
            assert task.stdout.readline() == "reads\n"
            with pytest.raises(subprocess.TimeoutExpired):
                task.wait(1.0)
            holder.communicate("go\n")
            assert task.stdout.read() == "1\n"
        assert task.returncode == 0


def test_a_connection_to_postgresql_notices_that_nobody_answers() -> None:
    address = address_of(sa.make_url("postgresql+psycopg://me:secret@db:5433/hub?connect_timeout=3"), "mgw")
    assert address.startswith("postgresql://me:secret@db:5433/hub?")
    assert "options=-csearch_path%3D%22mgw%22" in address.split("&")
    assert {"connect_timeout=3", "keepalives_idle=30", "tcp_user_timeout=60000"} <= set(
        address.partition("?")[2].split("&")
    )
