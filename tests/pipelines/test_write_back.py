"""A stream from one queue through Spark into another, killed again and again: nothing is lost, nothing is doubled."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mgw.gateway.aq.hub import Hub
from mgw.gateway.state.gateway_hub import open_hub
from mgw.transforms.message import Header, Message, ValueType
from tests.pipelines.audit import nothing_is_wrong
from tests.pipelines.hubs import make, put
from tests.pipelines.write_back import ROOT, begin
from tests.support.brokers import PostgreSQL
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 100  # in a micro-batch, so that there are many


class Pipeline:
    """The pipeline in a process group of its own; as a context it ends with it."""

    def __init__(self, url: str, place: Path) -> None:
        self._log = place / "log"
        given = {"url": url, "checkpoint": f"{place}/checkpoint", "folder": f"{place}/spark", "rows": ROWS}
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "tests.pipelines.write_back", json.dumps(given)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True
            )

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """The driver and its Java process at once; Python workers of tasks may go on for a moment."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def told(self) -> str:
        return self._log.read_text()[-3000:]


def count(hub: Hub, queue: str) -> int:
    """Messages of a queue, in plain SQL."""
    statement = "SELECT count(*) FROM aq_message m JOIN aq_queue q ON q.id = m.queue_id WHERE q.name = '{}'"
    with hub.read() as conn:
        return int(conn.exec_driver_sql(statement.format(queue)).scalar() or 0)


def judge(spark: SparkSession, hub: Hub, ids: list[bytes]) -> None:
    """Every message of the source is in the target once, changed, with its headers; no other is there."""
    statement = (
        "SELECT m.original_msgid, m.body, m.headers FROM aq_message m JOIN aq_queue q ON q.id = m.queue_id "
        "WHERE q.name = 'TARGET' ORDER BY m.id"
    )
    with hub.read() as conn:
        rows = conn.exec_driver_sql(statement).all()
        states = conn.exec_driver_sql("SELECT state, sum(row_count) FROM gw_sink_batch GROUP BY state").all()
        left = conn.exec_driver_sql("SELECT count(*) FROM gw_sink_chunk").scalar()
    assert len(rows) == len(ids)
    assert {bytes(row[0]) for row in rows} == set(ids)
    assert sorted(bytes(row[1]).decode() for row in rows) == sorted(f"m{number} seen" for number in range(len(ids)))
    assert {row[2] for row in rows} == {'[["n",7,1]]'}
    assert [tuple(state) for state in states] == [("DONE", len(ids))]
    assert left == 0, "what was staged by tasks that were killed is removed"
    sent = [(bytearray(msgid), bytearray(f"m{number} seen".encode())) for number, msgid in enumerate(ids)]
    came = [(bytearray(row[0]), bytearray(row[1])) for row in rows]
    sides = [spark.createDataFrame(side, "id BINARY, body BINARY") for side in (sent, came)]
    nothing_is_wrong(*sides, len(ids))


def killed_and_judged(spark: SparkSession, url: str, place: Path, kills: int, seed: int) -> None:
    from mgw.pipelines.source.streams import settle_checkpoint

    random_delay = random.Random(seed)
    with open_hub(url, create=True) as hub:
        make(hub, "SOURCE")
        make(hub, "TARGET")
        total = ROWS * (kills + 1) * 4
        headers = (Header("n", ValueType.LONG, 1),)
        ids = put(hub, "SOURCE", *(Message(f"m{number}", headers) for number in range(total)))
        for _ in range(kills):
            before = count(hub, "TARGET")
            with Pipeline(url, place) as pipeline:

                def moved(pipeline: Pipeline = pipeline, before: int = before) -> bool:
                    assert pipeline.running(), pipeline.told()
                    return count(hub, "TARGET") > before

                eventually(moved, deadline=400, what="a message in the target", tolerate=())
                time.sleep(random_delay.uniform(0, 2))
        begin(spark, url, f"{place}/checkpoint", 5000, once=True).awaitTermination()
        settle_checkpoint(url, "back", f"{place}/checkpoint")
        judge(spark, hub, ids)
        assert count(hub, "SOURCE") == 0


@pytest.fixture
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of a hub that does not exist yet, on the database that a test names."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/hub.db"
    server: PostgreSQL = request.getfixturevalue("postgresql")
    server.drop_database("write_back")
    return server.create_database("write_back")


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("address", ["sqlite", pytest.param("postgresql", marks=pytest.mark.matrix)], indirect=True)
def test_a_stream_that_is_killed(spark: SparkSession, address: str, tmp_path: Path) -> None:
    killed_and_judged(spark, address, tmp_path, 1, 1)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("address", ["sqlite", "postgresql"], indirect=True)
def test_a_stream_killed_twenty_times(spark: SparkSession, address: str, tmp_path: Path) -> None:
    killed_and_judged(spark, address, tmp_path, 20, int.from_bytes(os.urandom(4), "big"))
