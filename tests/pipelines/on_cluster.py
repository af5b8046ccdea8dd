"""What a program of a Spark cluster does with the hub: a batch read, a batch written, a stream into another queue.

``python -m tests.pipelines.on_cluster '{"master": ..., "url": ..., "folder": ...}'``; prints what it found as JSON.
"""

from __future__ import annotations

import json
import os
import sys

_OPTIONS = {"partitions": "2", "queue": "SOURCE"}


def main() -> None:
    given = json.loads(sys.argv[1])
    url, folder = given["url"], given["folder"]
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as sf

    from mgw.pipelines.datasource import register

    spark = (
        SparkSession.builder.master(given["master"])
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "512m")
        .config("spark.executor.memory", "700m")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.local.dir", f"{folder}/spark")
        .config("spark.sql.warehouse.dir", f"{folder}/warehouse")
        .getOrCreate()
    )
    register(spark)
    rows = spark.read.format("mgw").options(url=url, **_OPTIONS).load()
    driver = os.getpid()
    place = sf.udf(os.getppid, "int")  # the daemon of an executor's Python workers
    found = {
        "read": rows.count(),
        "executors": [row[0] for row in rows.select(place().alias("pid")).distinct().collect()],
        "driver": driver,
    }
    changed = rows.selectExpr("concat(text, ' seen') AS text", "correlation")
    changed.write.format("mgw").mode("append").options(url=url, queue="WRITTEN").save()
    stream = spark.readStream.format("mgw").options(url=url, stream="cluster", maxRowsPerTrigger=100, **_OPTIONS).load()
    writer = stream.select("text", "correlation").writeStream.format("mgw").options(url=url, queue="STREAMED")
    writer = writer.option("query", "cluster").option("checkpointLocation", f"{folder}/checkpoint")
    writer.trigger(availableNow=True).start().awaitTermination()
    print(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main()
