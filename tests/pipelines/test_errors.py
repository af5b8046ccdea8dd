"""What Spark's errors say to somebody who did not write the job: the reason, without plans, stacks and tracebacks."""

from __future__ import annotations

import pytest

from mgw.pipelines.errors import PipelineFailed, explained
from mgw.transforms.errors import ConfigInvalid, GatewayError

_WORKER = """[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted due to stage failure: Task 0 failed
Traceback (most recent call last):
  File "/somewhere/worker.py", line 1, in main
    process()
{last}

	at org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:1)
=== Streaming Query ===
"""


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ConfigInvalid("a", cause="b", cure="c"), "a; cause: b; cure: c"),
        (
            RuntimeError(
                _WORKER.format(last="mgw.gateway.aq.errors.QueueMissing: queue Q; cause: gone; cure: make it")
            ),
            "pipeline p failed: queue Q; cause: gone; cure: make it",
        ),
        (RuntimeError(_WORKER.format(last="KeyError: 'x'")), "pipeline p failed; cause: KeyError: 'x'"),
        (
            RuntimeError(
                _WORKER.format(
                    last="py4j.protocol.Py4JJavaError: An error occurred while calling o1.save.\n"
                    ": java.io.IOException: disk full\n\tat java.base/java.io.X"
                )
            ),
            "pipeline p failed; cause: Py4JJavaError: java.io.IOException: disk full",
        ),
        (
            ValueError("[TABLE_MISSING] no table\n=== SQL ===\nlong plan"),
            "pipeline p failed; cause: ValueError: [TABLE_MISSING] no table",
        ),
        (ValueError("KAFKA_DATA_SOURCE_NOT_ENABLED"), "Spark's connector for Kafka is not loaded"),
    ],
)
def test_an_error_is_said_in_a_line(error: Exception, said: str) -> None:
    found = explained(error, "p")
    assert isinstance(found, GatewayError)
    assert said in str(found)
    assert "\n" not in str(found)
    assert "Traceback" not in str(found)


def test_what_caused_an_error_is_looked_at_too() -> None:
    error = RuntimeError("[STREAM_FAILED]")
    error.__cause__ = PipelineFailed("the reason", cause="x", cure="y")
    assert "the reason" in str(explained(error, "p"))
