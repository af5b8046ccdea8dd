"""The job replay: what is chosen comes back into a queue once, as it was."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from mgw.gateway.aq.admin import QueueAdmin
from mgw.gateway.aq.hub import Hub
from mgw.gateway.aq.model import NO_WAIT, DequeueMode, DequeueOptions
from mgw.gateway.state.gateway_hub import open_hub
from mgw.pipelines.config import read_pipeline
from mgw.pipelines.datasource import register
from mgw.pipelines.jobs import replay
from mgw.pipelines.jobs.replay import Settings
from mgw.pipelines.registry import Context
from mgw.transforms.errors import ConfigInvalid
from mgw.transforms.message import Header, Message, ValueType
from tests.docs.test_documentation import Block, blocks
from tests.pipelines.hubs import make, put
from tests.pipelines.test_sink import taken, url_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PAGE = Path(__file__).resolve().parents[2] / "docs/how-to/spark-replay.md"
_HEADERS = (Header("shift", ValueType.BYTE, 3), Header("key", ValueType.RAW, b"\x00\xff"))
_BROWSE = DequeueOptions(dequeue_mode=DequeueMode.BROWSE, wait=NO_WAIT)


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with open_hub(f"sqlite:///{tmp_path_factory.mktemp('replay')}/hub.db", create=True) as made:
        yield made


class Told(list[str]):
    """What a job said."""

    @property
    def text(self) -> str:
        return "\n".join(self)


def run(spark: SparkSession, hub: Hub, **settings: Any) -> str:
    told = Told()
    context = Context("again", url_of(hub), "/nowhere", say=told.append, log=told.append)
    assert replay.run(spark, Settings(**settings), context) == 0
    return told.text


def test_an_archive_comes_back_once_as_it_was(spark: SparkSession, hub: Hub, tmp_path: Path) -> None:
    register(spark)
    orders, again = make(hub, "ORDERS", retention_time=-1), make(hub, "AGAIN")
    ids = put(
        hub,
        orders,
        *(
            Message(f"order {number}", _HEADERS, priority=number % 7, correlation=f"c{number}", expiration=900.5)
            for number in range(60)
        ),
    )
    archive = str(tmp_path / "archive")
    read = spark.read.format("mgw").options(url=url_of(hub), queue=orders, partitions=2)
    read.load().write.parquet(archive)
    whole: dict[str, Any] = {"archive": archive, "format": "parquet", "target": again}
    chosen = {**whole, "queues": ["orders"], "condition": "priority = 3 AND text <> 'order 3'"}
    assert "8 of 8 messages are in queue AGAIN" in run(spark, hub, name="first", since=datetime(2020, 1, 1), **chosen)
    assert "done before (8 of 8" in run(spark, hub, name="first", **chosen)
    found = taken(hub, again, commit=True)
    assert [each.body for each in found] == [f"order {number}" for number in range(10, 60, 7)]
    for each, number in zip(found, range(10, 60, 7), strict=True):
        assert (each.headers, each.priority, each.correlation) == (_HEADERS, 3, f"c{number}")
        assert (each.expiration, each.original_msgid) == (900.5, ids[number])
    wanted = [ids[5].hex(), f"AQMSGID:{ids[2].hex()}"]
    run(spark, hub, name="by id", ids=wanted, set={"text": "concat(text, ' (again)')", "priority": "9"}, **whole)
    assert [(each.body, each.priority) for each in taken(hub, again)] == [
        ("order 2 (again)", 9),
        ("order 5 (again)", 9),
    ]


def test_exception_messages_leave_their_queue_as_they_are_replayed(spark: SparkSession, hub: Hub) -> None:
    dying, target = make(hub, "DYING", max_retries=0), make(hub, "TARGET")
    ids = put(hub, dying, *(Message(f"m{number}", _HEADERS, correlation="x") for number in range(12)))
    with hub.session() as session:
        session.dequeue_array(dying, DequeueOptions(wait=NO_WAIT), 12)
        session.rollback()
    exceptions = "AQ$_DYING_t_E"
    QueueAdmin(hub).start_queue(exceptions, enqueue=False)
    chosen: dict[str, Any] = {"name": "repair", "exceptions": dying, "target": target, "remove": True}
    chosen |= {"rows_per_second": 10, "condition": "text <> 'm0'"}
    shown = run(spark, hub, dry_run=True, show=3, **chosen)
    assert "11 messages would go into queue TARGET" in shown
    assert f"{exceptions}, before in DYING" in shown
    assert f"msgid={ids[1].hex().upper()}" in shown
    assert "m4" not in shown
    assert taken(hub, target) == []
    said = run(spark, hub, **chosen)
    assert "11 of 11 messages are in queue TARGET" in said
    found = taken(hub, target)
    assert [(each.body, each.original_msgid, each.headers) for each in found] == [
        (f"m{number}", ids[number], _HEADERS) for number in range(1, 12)
    ]
    with hub.session() as session:
        assert [each.message.body for each in session.dequeue_array(exceptions, _BROWSE, 100)] == ["m0"]
    assert "nothing is left to do" in run(spark, hub, **chosen)


@pytest.fixture
def frame(spark: SparkSession) -> DataFrame:
    columns = (
        "queue STRING, id BIGINT, msgid BINARY, enq_time TIMESTAMP, priority BIGINT, text STRING, body_type STRING"
    )
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    return spark.createDataFrame([("Q", 1, b"\x01" * 16, moment, 5, "t", "TEXT")], columns)


def test_what_replay_writes_is_what_a_queue_takes(frame: DataFrame) -> None:
    settings = Settings(name="n", archive="a", target="Q")
    assert replay.transform(frame, settings).columns == [
        "text", "body_type", "priority", "msgid", "original_msgid"
    ]  # fmt: skip
    changed = settings.model_copy(update={"set": {"body": "encode(text, 'UTF-8')"}})
    assert "text" not in replay.transform(frame, changed).columns


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"condition": "priority = 3 ANDD x"}, r"settings.condition is wrong at line 1, column 19.*'x'"),
        ({"condition": "colour = 'red'"}, r"settings.condition is wrong at line 1, column 1: .*colour"),
        ({"condition": "priority + 1"}, r"settings.condition is wrong.*BOOLEAN"),
        ({"set": {"text": "upper("}}, r"settings.set.text is wrong at line 1, column 7"),
        ({"set": {"color": "'red'"}}, "no such property"),
        ({"time": "moment", "since": datetime(2026, 1, 1)}, "column 'moment' is not there"),
    ],
)
def test_a_wrong_expression_is_refused_with_its_place(frame: DataFrame, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigInvalid, match=f"(?s){said}") as refused:
        replay.transform(frame, Settings(name="n", archive="a", target="Q", **settings))
    assert "JVM" not in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"archive": "a", "exceptions": "Q"},
        {"archive": "a", "remove": True},
        {"archive": "a", "ids": ["12"]},
        {"archive": "a", "rows_per_second": 0},
        {"archive": "a", "rate": 5},
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Settings(name="n", target="Q", **settings)


@pytest.mark.parametrize("block", [each for each in blocks(_PAGE) if "pipeline" in each.words], ids=str)
def test_the_pipelines_of_the_page_are_accepted(block: Block, tmp_path: Path) -> None:
    path = tmp_path / "shown.yaml"
    path.write_text(block.text)
    pipeline = read_pipeline("shown", path, {})
    assert pipeline.job.name in ("replay", "enrich")
