"""Which Python the workers of Spark run: the driver's, and what an operator chose wins."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mgw.pipelines.datasource import register
from mgw.pipelines.workers import SUBMITTED, choose_python, prepare_workers
from mgw.transforms.message import Message
from tests.support.gateways import gateway_on

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def elsewhere(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkSession]:
    """A session whose workers run the ``python3`` of the path, as Spark itself chooses: not one of ours."""
    context = spark.sparkContext
    before = context.pythonExec
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    context.pythonExec = "/no/such/python3"
    yield spark
    context.pythonExec = before


def test_a_session_of_ones_own_runs_the_python_of_the_program(elsewhere: SparkSession, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/hub.db"
    with gateway_on(url) as gateway:
        gateway.queue("ORDERS")
        gateway.enqueue("ORDERS", [Message(body="1"), Message(body="2")])
        register(elsewhere)
        assert elsewhere.read.format("mgw").options(url=url, queue="ORDERS").load().count() == 2
    assert elsewhere.sparkContext.pythonExec == sys.executable


def test_the_variable_of_an_operator_wins(elsewhere: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python/bin/python3")
    choose_python(elsewhere)
    assert elsewhere.sparkContext.pythonExec == "/opt/python/bin/python3"


def test_what_spark_submit_started_on_other_machines_keeps_what_spark_chose(
    elsewhere: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SUBMITTED, "12345")
    monkeypatch.setattr(elsewhere.sparkContext, "master", "yarn")
    choose_python(elsewhere)
    assert elsewhere.sparkContext.pythonExec == "/no/such/python3"


@pytest.mark.parametrize(
    ("variable", "option", "chosen"),
    [
        (None, None, sys.executable),
        ("/a/python", None, "/a/python"),
        (None, "/b/python", "/b/python"),
        ("/a/python", "/b/python", "/b/python"),
    ],
)
def test_a_pipeline_runs_the_python_that_was_chosen(
    monkeypatch: pytest.MonkeyPatch, variable: str | None, option: str | None, chosen: str
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setenv("PYTHONPATH", "/x")
    if variable is not None:
        monkeypatch.setenv("PYSPARK_PYTHON", variable)
    prepare_workers({} if option is None else {"spark.pyspark.python": option})
    assert os.environ["PYSPARK_PYTHON"] == chosen
    assert os.environ["PYTHONPATH"].endswith(f"{os.pathsep}/x")
