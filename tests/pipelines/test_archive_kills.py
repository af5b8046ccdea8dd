"""A streaming query from a hub queue to the archive, killed whole at random points: nothing is lost, nothing twice.

The judges are the hub's history, counted in plain SQL, the message ids in the archive, and the auditor.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mgw.gateway.aq.hub import Hub
from mgw.pipelines.config import read_pipeline
from mgw.pipelines.datasource import register
from mgw.pipelines.hub import open_hub
from mgw.pipelines.runner import run_pipeline
from mgw.transforms.message import Message
from tests.pipelines.audit import nothing_is_wrong
from tests.pipelines.conftest import QUICK_START
from tests.pipelines.hubs import database, make, put
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 100  # of a batch
PATIENCE = 500.0  # seconds until a query that was started moves something, on however busy a machine


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    return database(request, tmp_path_factory, f"kills_{os.urandom(4).hex()}")


def configuration(folder: Path, rows: int = ROWS) -> Path:
    """The pipeline, with so many rows in a batch."""
    config = folder / "archive.yaml"
    config.write_text(f"""
version: 1
hub: ${{MGW_HUB}}
checkpoints: {folder / "checkpoints"}
spark: {{master: "local[2]", conf: {{spark.ui.enabled: "false", spark.driver.extraJavaOptions: "{QUICK_START}"}}}}
settings:
  path: {folder / "archive"}
  sources: {{q: {{queue: {{queue: KILLED, stream: KILLED, max_rows: {rows}}}}}}}
""")
    return config


def started(url: str, folder: Path) -> subprocess.Popen[bytes]:
    """The job ``archive`` in a process group of its own: Python, Java and the workers of Spark."""
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "pipelines", "archive", "--config", str(configuration(folder))],
            env={**os.environ, "MGW_HUB": url},
            cwd=Path(__file__).parents[2],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def settled(hub: Hub) -> int:
    with hub.read() as conn:
        return int(conn.exec_driver_sql("SELECT coalesce(max(settled), 0) FROM pl_stream").scalar_one())


def judge(spark: SparkSession, hub: Hub, url: str, folder: Path, times: int) -> None:
    chance = random.Random(times)
    make(hub, "KILLED", retention_time=-1)
    ids: list[bytes] = []
    for kill_number in range(times):
        ids += put(hub, "KILLED", *(Message(f"{kill_number} {n}") for n in range(4 * ROWS)))
        process = started(url, folder)
        try:
            goal = settled(hub) + chance.randint(1, 2) * ROWS

            def reached(goal: int = goal, process: subprocess.Popen[bytes] = process) -> bool:
                assert process.poll() is None, (folder / "log").read_text()[-3000:]
                return settled(hub) >= goal

            eventually(reached, deadline=PATIENCE, what="progress of the stream", tolerate=())
            with suppress(subprocess.TimeoutExpired):
                process.wait(chance.uniform(0, 0.6))
        finally:
            kill(process)
    last = read_pipeline("archive", configuration(folder, 5000), {"MGW_HUB": url})
    assert run_pipeline(last, url, spark=spark) == 0

    with hub.read() as conn:
        states = conn.exec_driver_sql("SELECT state, count(*) FROM aq_message GROUP BY state").fetchall()
        assert [tuple(row) for row in states] == [(2, len(ids))]
        assert conn.exec_driver_sql("SELECT count(*) FROM pl_plan").scalar_one() == 0

    from mgw.pipelines.jobs.archive import read_archive

    archived = Counter(
        bytes(row.msgid) for row in read_archive(spark, str(folder / "archive")).select("msgid").collect()
    )
    assert archived == Counter(ids)
    register(spark)
    history = spark.read.format("mgw").options(url=url, queue="KILLED", what="history").load()
    kept = read_archive(spark, str(folder / "archive"))
    nothing_is_wrong(*(side.selectExpr("msgid AS id", "body") for side in (history, kept)), len(ids))


@pytest.mark.timeout(2400)
@pytest.mark.parametrize("url", ["postgresql", pytest.param("sqlite", marks=pytest.mark.matrix)], indirect=True)
def test_a_query_that_is_killed_loses_and_doubles_nothing(spark: SparkSession, url: str, tmp_path: Path) -> None:
    with Hub.open(url, create=True):
        pass
    with open_hub(url) as hub:
        judge(spark, hub, url, tmp_path, 1)


@pytest.mark.long
@pytest.mark.timeout(14400)
def test_a_query_killed_twenty_times_loses_and_doubles_nothing(spark: SparkSession, url: str, tmp_path: Path) -> None:
    with Hub.open(url, create=True):
        pass
    with open_hub(url) as hub:
        judge(spark, hub, url, tmp_path, 20)
