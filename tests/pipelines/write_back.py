"""A pipeline for the fault tests, in a process of its own: a hub queue, changed, into another queue of the hub.

``python -m tests.pipelines.write_back '{"url": ..., "checkpoint": ..., "rows": ...}'``; runs until it is killed.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

ROOT = Path(__file__).resolve().parents[2]


def begin(spark: SparkSession, url: str, checkpoint: str, rows: int, *, once: bool = False) -> StreamingQuery:
    """Start the query; ``rows`` in a micro-batch. ``once``: it ends when nothing is left to do."""
    from mgw.pipelines.datasource import register

    register(spark)
    options = {"queue": "SOURCE", "stream": "back", "maxRowsPerTrigger": str(rows), "partitions": "2"}
    frame = spark.readStream.format("mgw").options(url=url, **options).load()
    changed = frame.selectExpr("concat(text, ' seen') AS text", "headers", "correlation", "msgid AS original_msgid")
    writer = changed.writeStream.format("mgw").options(url=url, queue="TARGET", query="back")
    writer = writer.option("checkpointLocation", checkpoint)
    return (writer.trigger(availableNow=True) if once else writer.trigger(processingTime="0 seconds")).start()


def main() -> None:
    given = json.loads(sys.argv[1])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "512m")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")  # it starts sooner
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.local.dir", given["folder"])
        .config("spark.sql.warehouse.dir", given["folder"] + "/warehouse")
        .getOrCreate()
    )
    begin(spark, given["url"], given["checkpoint"], given["rows"]).awaitTermination()


if __name__ == "__main__":
    main()
