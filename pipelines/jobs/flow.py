"""The job ``flow``: rates, latency, backlog and late messages of every job and link, in windows of time.

It reads the ledger (:mod:`pipelines.jobs.flow_ledger`) as a stream and writes windows to a table of the hub, which the
view ``MGW_PIPELINE_FLOW`` shows, and to Parquet. A window is written again whenever more of it is known, in the place
of what was written before, so that it can be read at once and is right in the end.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from pydantic import Field

from mgw.pipelines.jobs.statements_flow import backlogs, forget, last_batch, note_batch, put_windows
from mgw.pipelines.registry import Context, Followed, JobSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

__all__ = ["Settings", "read_flow", "run", "transform"]

_WINDOW = (
    "job STRING, link STRING, direction STRING, window_start DOUBLE, window_end DOUBLE, messages BIGINT, "
    "set_aside BIGINT, late BIGINT, latency_p50 DOUBLE, latency_p95 DOUBLE, latency_p99 DOUBLE, latency_max DOUBLE, "
    "backlog BIGINT"
)


class Settings(JobSettings):
    """How it is measured, and where it goes."""

    window: float = Field(default=60, gt=0, description="Seconds of a window.")
    watermark: float = Field(
        default=600, ge=0, description="Seconds after which a window is closed; later records do not count."
    )
    late_after: float = Field(default=60, ge=0, description="Seconds; a message that takes longer counts as late.")
    path: str | None = Field(default=None, min_length=1, description="Folder for Parquet; null: only the hub's table.")
    every: float | None = Field(
        default=None,
        gt=0,
        description="Seconds between two batches, until SIGTERM; null: process what exists, then end.",
    )
    max_batches: int = Field(default=5000, ge=1, description="Maximum rows of the ledger per batch.")
    keep_days: float = Field(default=30, gt=0, description="Days that windows stay in the hub's table.")


def transform(arrivals: DataFrame, settings: Settings) -> DataFrame:
    """Windows of :data:`mgw.pipelines.jobs.flow_ledger.ARRIVALS`; the percentiles are exact."""
    from pyspark.sql import functions as sf

    late = sf.when(sf.col("latency") > settings.late_after, sf.col("messages")).otherwise(0)
    shares = sf.array(*(sf.lit(share) for share in (0.5, 0.95, 0.99)))
    windows = (
        arrivals.withWatermark("time", _interval(settings.watermark))
        .groupBy(sf.window("time", _interval(settings.window)), "job", "link", "direction")
        .agg(
            sf.sum("messages").alias("messages"),
            sf.sum("set_aside").alias("set_aside"),
            sf.sum(late).alias("late"),
            sf.percentile("latency", shares, sf.col("messages")).alias("shares"),
            sf.max(sf.when(sf.col("messages") > 0, sf.col("latency"))).alias("latency_max"),
        )
    )
    return windows.select(
        "job",
        "link",
        "direction",
        sf.col("window.start").alias("window_start"),
        sf.col("window.end").alias("window_end"),
        "messages",
        "set_aside",
        "late",
        *(sf.get("shares", sf.lit(at)).alias(f"latency_p{share}") for at, share in enumerate((50, 95, 99))),
        "latency_max",
    )


def _interval(seconds: float) -> str:
    return f"{round(seconds * 1000)} milliseconds"


def read_flow(spark: SparkSession, path: str) -> DataFrame:
    """Windows as the job wrote them to Parquet, each as it was written last."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sf

    latest = Window.partitionBy("job", "window_start").orderBy(sf.desc("written"), sf.desc("batch"))
    rows = spark.read.option("basePath", path).parquet(path).withColumn("place", sf.row_number().over(latest))
    return rows.where("place = 1").drop("place", "query", "batch", "written")


def run(spark: SparkSession, settings: Settings, context: Context) -> int:
    """Measure what is there, or until it is stopped."""
    from mgw.pipelines.jobs.flow_ledger import LedgerSource

    spark.dataSource.register(LedgerSource)
    checkpoint = context.checkpoint("windows")
    source = spark.readStream.format("mgw_ledger").option("url", context.hub)
    frame = transform(source.option("maxRowsPerTrigger", settings.max_batches).load(), settings)
    writer = frame.writeStream.queryName("windows").outputMode("update").option("checkpointLocation", checkpoint)
    if settings.every is None:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=_interval(settings.every))
    target = _Target(spark, settings, context, checkpoint)
    context.follow(Followed(writer.foreachBatch(target.batch).start(), checkpoint))
    context.log(f"{context.name}: {target.windows} windows written")
    return 0


class _Target:
    """The hub's table, and Parquet."""

    def __init__(self, spark: SparkSession, settings: Settings, context: Context, checkpoint: str) -> None:
        self._spark, self._settings, self._context, self._checkpoint = spark, settings, context, checkpoint
        self.windows = 0

    def batch(self, frame: DataFrame, batch: int) -> None:
        """Write the windows of one batch, once by (query, batch): again is the same again, or nothing."""
        from mgw.pipelines.hub import open_hub
        from mgw.pipelines.query import query_id

        query = query_id(self._spark, self._checkpoint)
        rows = frame.collect()
        hub = open_hub(self._context.hub)
        try:
            with hub.read() as conn:
                waiting = backlogs(conn)
            found = _with_backlogs(rows, waiting)
            if self._settings.path is not None:
                self._write_parquet(found, query, batch)
            with hub.write() as conn:
                known = last_batch(conn, self._context.name)
                if known is None or known[0] != query or known[1] < batch:
                    put_windows(conn, self._context.name, found)
                    forget(conn, self._context.name, time.time() - self._settings.keep_days * 86_400)
                    note_batch(conn, self._context.name, query, batch)
        finally:
            hub.close()
        self.windows += len(found)

    def _write_parquet(self, rows: list[dict[str, Any]], query: str, batch: int) -> None:
        if not rows:
            return
        from pyspark.sql import functions as sf

        frame = self._spark.createDataFrame([tuple(row.values()) for row in rows], _WINDOW).coalesce(1)
        folder = f"{self._settings.path}/query={query[:8]}/batch={batch:010d}"
        moments = {name: sf.timestamp_seconds(name) for name in ("window_start", "window_end")}
        frame.withColumns(moments | {"written": sf.lit(time.time())}).write.mode("overwrite").parquet(folder)


def _with_backlogs(rows: list[Row], waiting: dict[str, int]) -> list[dict[str, Any]]:
    """Windows as stored; what waits now belongs to the last window of its job."""
    latest: dict[str, Any] = {}
    for row in rows:
        latest[row.job] = max(row.window_start, latest.get(row.job, row.window_start))
    found = []
    for row in rows:
        values = row.asDict()
        backlog = waiting.get(row.job) if row.window_start == latest[row.job] else None
        moments = {name: values[name].timestamp() for name in ("window_start", "window_end")}
        found.append(values | moments | {"backlog": backlog})
    return found
