"""Errors of the pipelines, and what Spark's errors mean to somebody who did not write the job."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from mgw.transforms.errors import GatewayError

__all__ = ["PipelineFailed", "explained", "missing_extra"]

# The last line of a Python traceback that a worker sent: the error as Python prints it.
_RAISED: Final = re.compile(r"(?m)^(?:[A-Za-z_]\w*\.)*([A-Z]\w*): (?:An error occurred while calling \S+\n: )?(.+)$")
_CONNECTOR: Final = (
    "Spark's connector for Kafka is not loaded",
    "add to spark-submit: --packages org.apache.spark:spark-sql-kafka-0-10_2.13:VERSION, with the version of this "
    "Spark",
)
_KNOWN: Final = (  # what stands in Spark's text, cause, cure
    ("KAFKA_DATA_SOURCE_NOT_ENABLED", *_CONNECTOR),
    ("Failed to find data source: kafka", *_CONNECTOR),
    (
        "Timed out waiting for a node assignment",
        "Kafka does not answer",
        "check bootstrap_servers, and that the addresses Kafka advertises can be reached from here and the executors",
    ),
    (
        "java.lang.NoSuchMethodError",
        "a package or jar was made for another version of Spark than the one that runs",
        "set the matching one in spark.packages or spark.jars",
    ),
    ("JAVA_GATEWAY_EXITED", "Java did not start", "Spark needs Java 17 or 21; read its output above"),
)
_LONGEST: Final = 1000  # characters of somebody else's explanation


class PipelineFailed(GatewayError):
    """A pipeline could not do its work."""


def missing_extra(error: ModuleNotFoundError) -> PipelineFailed:
    """What a missing package means: the extra is not installed."""
    return PipelineFailed(
        "pipelines need Spark, which is not installed",
        cause=f"there is no module {error.name}",
        cure="pip install 'messaging-gateway[spark]'",
    )


def explained(error: BaseException, name: str) -> GatewayError:
    """An error of the gateway for whatever a job, Spark or a worker raised.

    ``name`` is the pipeline's. What a Python worker raised is found in Spark's text, and said without its traceback.
    """
    if isinstance(error, GatewayError):
        return error
    if isinstance(error, ModuleNotFoundError) and str(error.name).split(".")[0] in {"pyspark", "pyarrow", "pandas"}:
        return missing_extra(error)
    text = "\n".join(_texts(error))
    what = f"pipeline {name} failed"
    for mark, cause, cure in _KNOWN:
        if mark in text:
            return PipelineFailed(what, cause=cause, cure=cure)
    raised = _RAISED.findall(text) if "Traceback (most recent call last)" in text else []
    if not raised:
        return PipelineFailed(what, cause=f"{type(error).__name__}: {_short(text)}")
    kind, reason = raised[-1]
    if "; cause: " in reason or "; cure: " in reason:
        return PipelineFailed(f"{what}: {reason}")
    return PipelineFailed(what, cause=f"{kind}: {_short(reason)}")


def _texts(error: BaseException | None) -> Iterator[str]:
    """What an error says, then what caused it, in Python and in Java."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield str(error)
        error = getattr(error, "_cause", None) or error.__cause__


def _short(text: str) -> str:
    """The first paragraph that says something: Spark prints plans and stacks below it."""
    parts = re.split(r"\n\s*(?:at |===[^\n]*|JVM stacktrace|\n)|;\n", text.strip())
    first = next((part for part in parts if part.strip() and "Identifier: " not in part), text)
    return " ".join(first.split())[:_LONGEST]
