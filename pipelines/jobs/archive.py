"""The job ``archive``: bridged Kafka topics, hub queues and the hub's history to Parquet, each message exactly once.

Rows are partitioned by source and by the day they were enqueued (UTC). Spark's own file sink would write them exactly
once as well, but nothing may touch its files afterwards, so they could never be compacted; here a manifest says what
belongs to the archive (:mod:`mgw.pipelines.jobs.archive_manifest`). Read it with :func:`read_archive`.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import Field, StringConstraints, model_validator

from mgw.pipelines.errors import PipelineFailed
from mgw.pipelines.files import Folder
from mgw.pipelines.jobs.archive_compact import CompactModel, compact
from mgw.pipelines.jobs.archive_manifest import Manifest, commit, latest, merged, remove_leftovers, write_files
from mgw.pipelines.jobs.archive_read import read_archive
from mgw.pipelines.kafka import KafkaTopics, stream_topics
from mgw.pipelines.query import query_id
from mgw.pipelines.registry import Context, Followed, JobSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Settings", "needs", "read_archive", "run", "transform", "uses_hub"]

_COMPACT_EVERY: Final = 3600.0  # seconds, for a pipeline that does not end
_NAMED: Final = ("source", "day")


class QueueModel(JobSettings):
    """Messages of a hub queue that nobody has consumed; the archive consumes them."""

    queue: str = Field(min_length=1, description="`[schema.]queue`.")
    consumer: str | None = Field(default=None, description="Subscriber of a multi-consumer queue.")
    stream: str | None = Field(
        default=None, description="Name of the stream in the hub. [default: pipeline and source]"
    )
    max_rows: int = Field(default=10_000, ge=1, description="Maximum rows per batch.")


class HistoryModel(JobSettings):
    """Messages of a hub queue that were consumed, as long as the queue retains them; they stay where they are."""

    queue: str = Field(min_length=1, description="`[schema.]queue`.")
    consumer: str | None = Field(default=None, description="Subscriber of a multi-consumer queue.")


class SourceModel(JobSettings):
    """One source: exactly one of the three."""

    kafka: KafkaTopics | None = Field(default=None, description="Bridged Kafka topics.")
    queue: QueueModel | None = Field(default=None, description="A hub queue, as a stream.")
    history: HistoryModel | None = Field(default=None, description="What was consumed of a hub queue.")

    @model_validator(mode="after")
    def _one(self) -> SourceModel:
        if sum(each is not None for each in (self.kafka, self.queue, self.history)) != 1:
            raise ValueError("give one of kafka, queue and history")
        return self


class Settings(JobSettings):
    """What is archived, and where."""

    path: str = Field(min_length=1, description="Folder of the archive, local or a URI that all executors can reach.")
    sources: dict[Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")], SourceModel] = Field(
        min_length=1, description="Name -> source; the name becomes the column source."
    )
    every: float | None = Field(
        default=None,
        gt=0,
        description="Seconds between two batches, until SIGTERM; null: archive what exists, then end.",
    )
    columns: dict[str, str] = Field(
        default_factory=dict, description="Further columns: name -> SQL expression on the others."
    )
    format: Literal["parquet", "delta"] = Field(default="parquet", description="delta needs the package of Delta Lake.")
    compact: CompactModel = Field(default_factory=CompactModel, description="How small files are put together.")


def needs(settings: Settings) -> list[str]:
    """Connectors that must be there."""
    kafka = any(source.kafka is not None for source in settings.sources.values())
    return ["kafka"] * kafka + ["delta"] * (settings.format == "delta")


def uses_hub(settings: Settings) -> bool:
    """Whether any source is in the hub."""
    return any(source.kafka is None for source in settings.sources.values())


def transform(messages: DataFrame, settings: Settings) -> DataFrame:
    """Messages with the day they belong to, and the further columns."""
    from pyspark.sql import functions as sf

    moment = sf.coalesce("enq_time", "origin.timestamp", "ready_at", sf.timestamp_seconds(sf.lit(0)))
    frame = messages.withColumn("day", sf.to_date(moment))
    for name, expression in settings.columns.items():
        if name in messages.columns or name in _NAMED:
            raise PipelineFailed(
                f"column {name} cannot be added", cause="the archive already has it", cure="give it another name"
            )
        frame = frame.withColumn(name, sf.expr(expression))
    return frame


def run(spark: SparkSession, settings: Settings, context: Context) -> int:
    """Archive what is there, or until it is stopped."""
    from mgw.pipelines.datasource import register

    register(spark)
    targets = {name: _target(spark, settings, context, name) for name in settings.sources}
    histories = {name: source.history for name, source in settings.sources.items() if source.history is not None}

    def consumed() -> None:
        for name, history in histories.items():
            targets[name].history(_read_history(spark, history, context))

    consumed()
    followed = [
        _start(spark, settings, context, name, target) for name, target in targets.items() if name not in histories
    ]
    again = consumed if histories and settings.every is not None else None
    context.follow(*followed, again=again, every=settings.every or 0.0)
    if not context.stopping.is_set():  # what was stopped may still be writing
        for name in settings.sources:
            _target(spark, settings, context, name).finish()
    return 0


def _target(spark: SparkSession, settings: Settings, context: Context, name: str) -> Any:
    if settings.format == "delta":
        from mgw.pipelines.jobs.archive_delta import DeltaTarget

        return DeltaTarget(spark, _absolute(settings.path), context, name, settings.compact.target_bytes)
    return ParquetTarget(spark, settings, context, name)


def _read_history(spark: SparkSession, history: HistoryModel, context: Context) -> DataFrame:
    options = {"url": context.hub, "queue": history.queue, "what": "history"}
    options |= {"consumer": history.consumer} if history.consumer else {}
    return spark.read.format("mgw").options(**options).load()


def _start(spark: SparkSession, settings: Settings, context: Context, name: str, target: Any) -> Followed:
    checkpoint, source = context.checkpoint(name), settings.sources[name]
    streams = []
    if source.kafka is not None:
        frame = stream_topics(spark, source.kafka)
    else:
        assert source.queue is not None  # noqa: S101  the model has one of three, and history is no stream
        queue = source.queue
        streams = [queue.stream or f"{context.name}.{name}"]
        options = {"url": context.hub, "queue": queue.queue, "stream": streams[0]}
        options |= {"maxRowsPerTrigger": str(queue.max_rows)} | ({"consumer": queue.consumer} if queue.consumer else {})
        frame = spark.readStream.format("mgw").options(**options).load()
    writer = transform(frame, settings).writeStream.queryName(name).option("checkpointLocation", checkpoint)
    if settings.every is None:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{round(settings.every * 1000)} milliseconds")
    return Followed(writer.foreachBatch(target.batch).start(), checkpoint, streams)


class ParquetTarget:
    """One source of an archive in Parquet; used by one thread."""

    def __init__(self, spark: SparkSession, settings: Settings, context: Context, name: str) -> None:
        self._spark, self._settings, self._context = spark, settings, context
        self._folder = Folder(spark, _absolute(settings.path))
        self._name = name
        self._manifest: Manifest = remove_leftovers(
            self._folder, latest(self._folder, name), settings.compact.keep_replaced
        )
        self._compacted = time.monotonic()

    def batch(self, frame: DataFrame, batch: int) -> None:
        """Write one batch of a streaming query, unless it is there already."""
        query = query_id(self._spark, self._context.checkpoint(self._name))
        known = self._manifest
        if known.number and known.query != query:
            raise self._foreign("another checkpoint wrote it" if known.query else "it holds history")
        if batch == known.batch:
            return
        if batch != known.batch + 1:
            raise self._foreign(f"it has the batches up to {known.batch}, and the checkpoint continues with {batch}")
        self._write(frame, f"{batch}", query=query, batch=batch)
        if time.monotonic() - self._compacted > _COMPACT_EVERY:
            self.finish()

    def history(self, frame: DataFrame) -> None:
        """Write what is not there yet of messages that were consumed."""
        from pyspark.sql import functions as sf

        if self._manifest.query:
            raise self._foreign("a stream wrote it")
        new = transform(frame, self._settings)
        if self._manifest.files:  # a hub that was made again numbers its messages from 1 again; msgid tells hubs apart
            key = ("msgid", sf.coalesce("consumer", sf.lit("")).alias("consumer_or_none"))
            there = read_archive(self._spark, self._folder.root, [self._name]).select(*key).distinct()
            new = new.withColumn("consumer_or_none", key[1])
            new = new.join(there, ["msgid", "consumer_or_none"], "left_anti").select(
                *frame.columns, "day", *(self._settings.columns)
            )
        files = self._write(new, f"h{self._manifest.number}")
        self._context.log(f"{self._context.name} {self._name}: {files} files of history")
        if time.monotonic() - self._compacted > _COMPACT_EVERY:
            self.finish()

    def finish(self) -> None:
        """Compact what is due."""
        self._manifest = compact(self._spark, self._folder, self._manifest, self._settings.compact)
        self._compacted = time.monotonic()

    def _write(self, frame: DataFrame, name: str, **progress: Any) -> int:
        from pyspark.sql.types import StructType

        fields = [each for each in frame.schema.fields if each.name != "day"]
        schema = merged(self._manifest.schema, StructType(fields), self._name)
        files = write_files(self._folder, frame, self._name, name)
        whole = self._manifest.files | files
        made = replace(self._manifest, schema=schema.json(), files=whole, **progress)
        self._manifest = commit(self._folder, made)
        return len(files)

    def _foreign(self, cause: str) -> PipelineFailed:
        return PipelineFailed(
            f"source {self._name} of the archive {self._folder.root} cannot be continued",
            cause=f"{cause}: continuing would lose or duplicate messages",
            cure="restore archive and checkpoint from the same time, or give the source another name",
        )


def _absolute(path: str) -> str:
    from pathlib import Path

    return path if "://" in path or path.startswith("file:") else str(Path(path).absolute())
