"""Which Python the workers of Spark run: the driver's, unless somebody chose another one.

Spark itself takes ``python3`` from the path. A virtual environment that is not activated is not on it, so that workers
would not find what the driver imports.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import mgw

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SUBMITTED", "choose_python", "is_local", "prepare_workers", "worker_python"]

SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"  # in the environment: spark-submit has started the Java process already
_VARIABLE: Final = "PYSPARK_PYTHON"
_OPTION: Final = "spark.pyspark.python"
_ABOVE: Final = Path(mgw.__file__).absolute().parents[1]  # where workers find the import name mgw


def worker_python(conf: Mapping[str, str]) -> str:
    """The Python of the workers: what Spark's option says, then its variable, then the Python of this process.

    Args:
        conf: options of Spark.
    """
    return conf.get(_OPTION) or os.environ.get(_VARIABLE) or sys.executable


def prepare_workers(conf: Mapping[str, str]) -> None:
    """Before Spark starts: its workers run :func:`worker_python`, and import what this process imports."""
    os.environ[_VARIABLE] = worker_python(conf)
    paths = [str(_ABOVE), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(filter(None, paths)))


def choose_python(spark: SparkSession) -> None:
    """Let the workers of a session that somebody else made run :func:`worker_python`.

    What spark-submit has started on other machines keeps the Python that Spark chose: the driver's may not be there.
    """
    context = spark.sparkContext
    if SUBMITTED not in os.environ or is_local(context.master or ""):
        context.pythonExec = worker_python(dict(context.getConf().getAll()))


def is_local(master: str) -> bool:
    """Whether everything runs on this machine."""
    return master == "local" or master.startswith("local[")
