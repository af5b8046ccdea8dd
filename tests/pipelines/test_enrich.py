"""The job enrich: joined, aggregated, nothing lost on the way."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mgw.gateway.state.gateway_hub import open_hub
from mgw.pipelines.jobs import enrich
from mgw.pipelines.jobs.enrich import Settings
from mgw.pipelines.registry import Context
from mgw.transforms.message import Header, Message, ValueType
from tests.pipelines.hubs import make, put
from tests.pipelines.test_sink import taken

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SENSORS = [("s1", "north"), ("s2", "south")]
_COMMON: dict[str, Any] = {
    "source": "IN", "target": "OUT", "body": "sensor STRING, temperature DOUBLE", "key": "sensor",
    "reference": {"path": "sensors.csv", "key": "name"},
}  # fmt: skip


@pytest.fixture
def frames(spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    bodies = [
        (0, '{"sensor": "s1", "temperature": 20.5}'),
        (10, '{"sensor": "s1", "temperature": 30}'),
        (70, '{"sensor": "s2", "temperature": 5}'),
        (75, '{"sensor": "s9", "temperature": 1}'),
        (80, "no JSON"),
    ]
    start = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [
        (bytes([number] * 16), None, text, text.encode(), None, 3, f"c{number}", start + timedelta(seconds=second))
        for number, (second, text) in enumerate(bodies)
    ]
    headers = "headers ARRAY<STRUCT<name: STRING, type: STRING, value: STRING>>"
    columns = (
        f"msgid BINARY, original_msgid BINARY, text STRING, body BINARY, {headers}, priority BIGINT, correlation STRING"
    )
    messages = spark.createDataFrame(rows, f"{columns}, enq_time TIMESTAMP")
    return messages, spark.createDataFrame(_SENSORS, "name STRING, hall STRING")


def test_every_message_goes_on_with_what_is_known_of_it(frames: tuple[DataFrame, DataFrame]) -> None:
    out = enrich.transform(*frames, Settings(**_COMMON)).orderBy("correlation").collect()
    assert [json.loads(row.text) for row in out] == [
        {"sensor": "s1", "temperature": 20.5, "hall": "north"},
        {"sensor": "s1", "temperature": 30.0, "hall": "north"},
        {"sensor": "s2", "temperature": 5.0, "hall": "south"},
        {"sensor": "s9", "temperature": 1.0},
        {"unreadable": "no JSON"},
    ]
    assert [(row.priority, bytes(row.original_msgid)) for row in out] == [(3, bytes([n] * 16)) for n in range(5)]


def test_bodies_of_bytes_are_read_as_text_and_kept_where_they_are_none(spark: SparkSession) -> None:
    bodies = [b'{"sensor": "s1", "temperature": 2}', b"\xff\x00", None, b"words"]
    rows = [(bytes([n] * 16), None, None, body, None, 1, f"{n}") for n, body in enumerate(bodies)]
    headers = "headers ARRAY<STRUCT<name: STRING, type: STRING, value: STRING>>"
    columns = f"msgid BINARY, original_msgid BINARY, text STRING, body BINARY, {headers}, priority BIGINT"
    messages = spark.createDataFrame(rows, f"{columns}, correlation STRING")
    out = enrich.transform(messages, spark.createDataFrame(_SENSORS, "name STRING, hall STRING"), Settings(**_COMMON))
    assert [json.loads(row.text) for row in out.orderBy("correlation").collect()] == [
        {"sensor": "s1", "temperature": 2.0, "hall": "north"},
        {"unreadable": "/wA="},
        {"unreadable": ""},
        {"unreadable": "words"},
    ]


def test_windows_count_what_cannot_be_read_too(frames: tuple[DataFrame, DataFrame]) -> None:
    window = {"by": ["hall"], "results": {"readings": "count(temperature)", "hottest": "max(temperature)"}}
    out = enrich.transform(*frames, Settings(**_COMMON, window=window)).collect()
    found = [json.loads(row.text) for row in out]
    told = {
        (row["from"][14:16], row.get("hall")): (row["readings"], row["hottest"], row["unreadable"]) for row in found
    }
    assert told == {("00", "north"): (2, 30.0, 0), ("01", None): (1, 1.0, 1), ("01", "south"): (1, 5.0, 0)}
    assert {row.correlation for row in out} == {"north", "south", None}


def test_a_stream_is_joined_and_published(spark: SparkSession, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/hub.db"
    table = tmp_path / "sensors.csv"
    table.write_text("name,hall\ns1,north\n")
    reference = {"path": str(table), "key": "name"}
    settings = Settings(**{**_COMMON, "consumer": "SPARK", "reference": reference})
    with open_hub(url, create=True) as hub:
        make(hub, "IN", "SPARK", "OTHER")
        make(hub, "OUT")
        headers = (Header("n", ValueType.LONG, 1),)
        ids = put(hub, "IN", Message('{"sensor": "s1"}', headers, correlation="a"), Message("no JSON", headers))
        said: list[str] = []
        context = Context("enrich", url, str(tmp_path / "state"), say=said.append, log=said.append)
        assert enrich.run(spark, settings, context) == 0
        found = taken(hub, "OUT")
        assert [json.loads(str(each.body)) for each in found] == [
            {"sensor": "s1", "hall": "north"},
            {"unreadable": "no JSON"},
        ]
        assert [(each.correlation, each.headers, each.original_msgid) for each in found] == [
            ("a", headers, ids[0]),
            (None, headers, ids[1]),
        ]
        assert taken(hub, "IN", "SPARK") == []
        assert len(taken(hub, "IN", "OTHER")) == 2
    assert any("messages of stream enrich are consumed" in line for line in said)
