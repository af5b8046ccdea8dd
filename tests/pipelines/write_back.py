"""A pipeline for the fault tests, in a process of its own: a hub queue, changed, into another queue of the hub.

``python -m tests.pipelines.write_back '{"url": ..., "checkpoint": ...}'``; runs until it is killed, or, with ``once``,
until nothing is left to do.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    given = json.loads(sys.argv[1])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    from pipelines.source.datasource import register

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
    register(spark)
    rows = (
        spark.readStream.format("mgw")
        .options(url=given["url"], queue="SOURCE", stream="back", maxRowsPerTrigger=given["rows"], partitions=2)
        .load()
    )
    changed = rows.selectExpr("concat(text, ' seen') AS text", "headers", "correlation", "msgid AS original_msgid")
    writer = changed.writeStream.format("mgw").options(url=given["url"], queue="TARGET", query="back")
    writer = writer.option("checkpointLocation", given["checkpoint"])
    writer = writer.trigger(availableNow=True) if given["once"] else writer.trigger(processingTime="0 seconds")
    writer.start().awaitTermination()


if __name__ == "__main__":
    main()
