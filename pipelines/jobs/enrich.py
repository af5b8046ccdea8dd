"""An example of a job of your own: a bridged stream joined with a reference table, and the result published.

Messages of a hub queue are JSON. Each is joined with a row of a reference table (CSV or Parquet), and either goes on
with what is known about it, or is counted and measured in windows of time. The result goes into another hub queue,
whose outbound job carries it to another broker. From queue to queue everything happens exactly once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, Field

from mgw.pipelines.registry import Context, Followed, JobSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Reference", "Settings", "Window", "run", "transform"]

UNREADABLE = "unreadable"  # member of the result with a body that is not JSON of the schema; base64 if it is no text


def _some(expressions: dict[str, str]) -> dict[str, str]:
    if not expressions:
        raise ValueError("name at least one result")
    return expressions


class Reference(JobSettings):
    """The reference table."""

    path: str = Field(min_length=1, description="File or folder; path or URI that all executors can reach.")
    format: Literal["csv", "parquet"] = Field(default="csv", description="CSV files start with a line of column names.")
    key: str = Field(min_length=1, description="Its unique column, compared with the key of a message.")


class Window(JobSettings):
    """Aggregation in windows of time; a window is published once, when no message of it is expected any more."""

    time: str = Field(default="enq_time", min_length=1, description="Timestamp of a message: a column, or a field.")
    length: str = Field(default="1 minute", min_length=1, description="Length of a window.")
    late: str = Field(default="1 minute", min_length=1, description="How late a message may arrive.")
    by: list[str] = Field(default_factory=list, description="Columns to group by, in addition to the window.")
    results: Annotated[dict[str, str], AfterValidator(_some)] = Field(
        description="Name -> aggregate expression in Spark SQL, such as max(temperature)."
    )


class Settings(JobSettings):
    """What to read, how to understand it, what to do with it, where to publish it."""

    source: str = Field(min_length=1, description="Hub queue that is read.")
    consumer: str | None = Field(default=None, min_length=1, description="Subscriber, if the queue has several.")
    body: str = Field(min_length=1, description="Fields of the JSON bodies, as DDL: sensor STRING, temperature DOUBLE.")
    key: str = Field(
        min_length=1, description="Spark SQL expression for the key of a message, compared with the key of a row."
    )
    reference: Reference
    window: Window | None = Field(default=None, description="If not set, every message is published, enriched.")
    target: str = Field(min_length=1, description="Hub queue that gets the results.")
    rows_per_batch: int = Field(default=10_000, ge=1, le=10_000_000, description="Maximum messages per micro-batch.")
    every: float | None = Field(
        default=None,
        gt=0,
        description="Seconds between two batches, until SIGTERM; null: process what exists, then end.",
    )


def transform(messages: DataFrame, reference: DataFrame, settings: Settings) -> DataFrame:
    """The messages to publish. What cannot be read goes on as it is, and is counted: nothing vanishes here."""
    from pyspark.sql import functions as f

    options = {"columnNameOfCorruptRecord": UNREADABLE}
    text = f.coalesce("text", f.try_validate_utf8(f.col("body").cast("string")))  # from Kafka and MQTT come bytes
    fields = f.from_json(text, f"{settings.body}, {UNREADABLE} STRING", options)
    no_text = f.when(text.isNull(), f.coalesce(f.base64("body"), f.lit("")))
    read = messages.withColumn("_fields", fields).select("*", "_fields.*")
    read = read.withColumn(UNREADABLE, f.coalesce(UNREADABLE, no_text)).withColumn("_key", f.expr(settings.key))
    known = reference.withColumnRenamed(settings.reference.key, "_reference_key")
    joined = read.join(f.broadcast(known), f.col("_key") == f.col("_reference_key").cast("string"), "left")
    added = [name for name in known.columns if name != "_reference_key"]
    if settings.window is not None:
        return _aggregated(joined, settings.window)
    names = [*read.select("_fields.*").columns, *added]
    return joined.select(
        f.to_json(f.struct(*names)).alias("text"),
        "headers",
        "priority",
        "correlation",
        f.coalesce("original_msgid", "msgid").alias("original_msgid"),
    )


def _aggregated(joined: DataFrame, window: Window) -> DataFrame:
    from pyspark.sql import functions as f

    results = [f.expr(text).alias(name) for name, text in window.results.items()]
    results.append(f.count(UNREADABLE).alias(UNREADABLE))
    groups = (
        joined.withWatermark(window.time, window.late)
        .groupBy(f.window(window.time, window.length), *window.by)
        .agg(*results)
        .select(
            f.col("window.start").alias("from"),
            f.col("window.end").alias("to"),
            *window.by,
            *window.results,
            UNREADABLE,
        )
    )
    return groups.selectExpr("to_json(struct(*)) AS text", *_named(window))


def _named(window: Window) -> list[str]:
    """Results are distinguished by what they are grouped by."""
    return [f"CAST({window.by[0]} AS STRING) AS correlation"] if window.by else []


def run(spark: SparkSession, settings: Settings, context: Context) -> int:
    """Stream until the pipeline is stopped, or until the queue is empty."""
    from mgw.pipelines.datasource import register

    register(spark)
    place = settings.reference
    reference = spark.read.options(header="true", inferSchema="true").format(place.format).load(place.path)
    options = {"url": context.hub, "queue": settings.source, "stream": context.name}
    options |= {"consumer": settings.consumer} if settings.consumer is not None else {}
    messages = spark.readStream.format("mgw").options(**options, maxRowsPerTrigger=settings.rows_per_batch).load()
    checkpoint = context.checkpoint("enrich")
    writer = transform(messages, reference, settings).writeStream.format("mgw").queryName(context.name)
    writer = writer.options(url=context.hub, queue=settings.target, query=context.name, checkpointLocation=checkpoint)
    every = settings.every
    writer = writer.trigger(availableNow=True) if every is None else writer.trigger(processingTime=f"{every} seconds")
    context.follow(Followed(writer.start(), checkpoint, [context.name]))
    return 0
