"""The pages about Spark are true: examples run in the order in which they stand, configurations are accepted."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mgw.gateway.state.gateway_hub import open_hub
from mgw.pipelines.config import read_pipeline
from mgw.pipelines.reference import READ_OPTIONS, STREAM_OPTIONS, WRITE_OPTIONS, spark_page
from mgw.pipelines.sink import options as sink_options
from mgw.pipelines.source import options as source_options
from mgw.pipelines.source.streams import settle_checkpoint
from mgw.transforms.message import Message
from tests.cli.conftest import Mgw
from tests.docs.test_documentation import Block, blocks
from tests.pipelines.hubs import put
from tests.support.brokers import Kafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
PAGE, JOBS = ROOT / "docs/how-to/spark.md", ROOT / "docs/how-to/spark-jobs.md"
CONFIGURATIONS = [
    *(block for page in (PAGE, JOBS) for block in blocks(page) if "pipeline" in block.words),
    *sorted((ROOT / "conf/pipelines").glob("*.yaml")),
]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the hub that the page configures, and some orders in it."""
    mgw = Mgw(tmp_path)
    (configuration,) = (block for block in blocks(PAGE) if "hub" in block.words)
    mgw.ok("apply", mgw.file(configuration.text))
    url = mgw.environment()["MGW_HUB"]
    hub = open_hub(url)
    put(hub, "ORDERS", *(Message(f'{{"order": {at}, "part": "bracket"}}', priority=at % 3) for at in range(6)))
    hub.close()
    monkeypatch.setenv("MGW_HUB", url)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_the_examples_run_in_their_order(spark: SparkSession, place: Path, kafka: Kafka) -> None:
    from pyspark.sql import functions as sf

    names: dict[str, Any] = {"spark": spark, "frame": spark.createDataFrame([("of the README",)], "text STRING")}
    for block in (*blocks(ROOT / "README.md"), *blocks(PAGE)):
        if block.language != "python" or not {"spark", "kafka"} & set(block.words):
            continue
        # A reader's Spark begins in his folder, with MGW_HUB set; the one of the tests began before.
        text = block.text.replace('.option("queue",', f'.option("url", "{os.environ["MGW_HUB"]}").option("queue",')
        text = text.replace('"lake/', f'"{place}/lake/').replace('"state/', f'"{place}/state/')
        if "kafka" in block.words:
            kafka.create_topic("plant.telemetry")
            text = text.replace("broker:9092", kafka.bootstrap)
        exec(compile(text, str(block), "exec"), names)  # noqa: S102  the page's own code
    assert [row.priority for row in names["urgent"].select("priority").distinct().collect()]
    lake = spark.read.parquet(str(place / "lake/orders"))
    assert lake.select("text").distinct().count() == lake.count() == 6
    settle_checkpoint(os.environ["MGW_HUB"], "orders-lake", str(place / "state/orders"))
    assert [(row.state, row["count"]) for row in names["orders"].groupBy("state").count().collect()] == [
        ("PROCESSED", 6)
    ]
    shipped = spark.read.format("mgw").option("url", os.environ["MGW_HUB"]).option("queue", "SHIPPED").load()
    assert shipped.select(sf.sum("priority")).first()[0] == 1 + 6


def test_a_job_of_ones_own_runs(spark: SparkSession, place: Path) -> None:
    from mgw.pipelines.runner import run_pipeline

    for block in blocks(JOBS):
        for word in block.words:
            if word.startswith("job="):
                path = place / word.removeprefix("job=")
                path.parent.mkdir()
                path.write_text(block.text)
        if "job: company." in block.text:
            (place / "own.yaml").write_text(block.text.replace("path: table", f"path: {place}/table"))
    pipeline = read_pipeline("own", place / "own.yaml", {})
    assert run_pipeline(pipeline, f"sqlite:///{next(place.glob('*.db'))}", spark=spark) == 0
    assert sorted(map(tuple, spark.read.parquet(str(place / "table")).collect())) == [(0, 2), (1, 2), (2, 2)]


@pytest.mark.parametrize("shown", CONFIGURATIONS, ids=lambda each: each.name if isinstance(each, Path) else str(each))
def test_every_pipeline_that_is_shown_is_accepted(shown: Block | Path, tmp_path: Path) -> None:
    if isinstance(shown, Block):
        if "job: company." in shown.text:
            return  # the test before this one runs it
        path = tmp_path / "shown.yaml"
        path.write_text(shown.text)
    else:
        path = shown
    job = re.search(r"^job: (\S+)", path.read_text(), re.MULTILINE)
    name = job[1] if job else path.stem
    assert read_pipeline(name, path, {}).job.name == name


def test_the_reference_is_fresh() -> None:
    page = ROOT / "docs/reference/spark.md"
    assert page.read_text("utf-8") == spark_page(), "write it anew: python -m mgw.pipelines.reference"


def test_every_option_is_explained_and_nothing_else() -> None:
    assert set(READ_OPTIONS) == set(source_options._KNOWN)
    assert set(READ_OPTIONS | STREAM_OPTIONS) == set(source_options._KNOWN_STREAM)
    assert set(WRITE_OPTIONS) == {*sink_options._KNOWN, "batch"}
