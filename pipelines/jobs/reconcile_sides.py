"""The two sides of a reconciliation: where their messages are read, and what of them is compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["ArchiveSide", "FilesSide", "HubSide", "KafkaSide", "LedgerSide", "Side", "read_side", "side_frame"]

_KAFKA_ID = "lower(hex(get(filter(headers, h -> h.key = 'MGW_AQ_messageID'), 0).value))"


class _Side(BaseModel):
    """What every side has. The texts are SQL expressions on the columns that are read."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    where: str | None = Field(default=None, min_length=1, description="Condition: only these messages are compared.")
    id: str | None = Field(
        default=None, min_length=1, description="Identity of a message on both sides; null: only its content."
    )
    digest: list[str] = Field(
        default_factory=list,
        description="What must be equal on both sides, in the same order there; empty: content is not compared.",
    )
    part: str | None = Field(default=None, min_length=1, description="Messages with the same value here have an order.")
    position: str | None = Field(default=None, min_length=1, description="Position in that order, a whole number.")
    time: str | None = Field(default=None, min_length=1, description="When it arrived; used by `grace`.")
    ledger: str | None = Field(
        default=None,
        min_length=1,
        description="Inbound job whose ledger names the hub message that each `part@position` of this side became; "
        "what the job filtered, suppressed, discarded or moved to its exception queue is then not expected.",
    )

    default_source: ClassVar[str] = ""


class HubSide(_Side):
    """A queue of the hub (data source `mgw`)."""

    read: Literal["hub"]
    url: str | None = Field(default=None, description="Another hub than the pipeline's, an SQLAlchemy URL.", repr=False)
    queue: str = Field(min_length=1, description="`[schema.]queue`.")
    consumer: str | None = Field(default=None, description="Subscriber of a multi-consumer queue.")
    what: Literal["messages", "ready", "history", "exceptions"] = Field(
        default="messages", description="Everything in the queue, or a part of it, as in the data source."
    )
    id: str | None = "lower(hex(msgid))"
    digest: list[str] = ["body"]
    part: str | None = "queue"
    position: str | None = "id"
    time: str | None = "enq_time"


class KafkaSide(_Side):
    """Kafka topics, from their first record to their last; of transactions only what was committed."""

    read: Literal["kafka"]
    bootstrap_servers: str = Field(min_length=1, description="`host:port`, several with commas.")
    topic: str = Field(min_length=1, description="Topic, several with commas.")
    options: dict[str, str] = Field(
        default_factory=dict, description="Further options of Spark's Kafka source, as `kafka.security.protocol`."
    )
    id: str | None = _KAFKA_ID
    digest: list[str] = ["value"]
    part: str | None = "concat_ws('/', topic, partition)"
    position: str | None = "offset"
    time: str | None = "timestamp"


class ArchiveSide(_Side):
    """What the job `archive` wrote, in Parquet or Delta."""

    read: Literal["archive"]
    path: str = Field(min_length=1, description="Folder of the archive.")
    sources: list[str] = Field(default_factory=list, description="Sources of the archive; none means all.")
    id: str | None = "lower(hex(msgid))"
    digest: list[str] = ["body"]
    part: str | None = "coalesce(concat_ws('/', origin.name, origin.partition), queue)"
    position: str | None = "coalesce(origin.offset, id)"
    time: str | None = "enq_time"


class FilesSide(_Side):
    """Files of any kind that Spark reads."""

    read: Literal["files"]
    path: str = Field(min_length=1, description="Folder or file, local or a URI that all executors can reach.")
    format: str = Field(default="parquet", min_length=1, description="`parquet`, `delta`, `json`, `csv`, `orc`, ...")
    columns: str | None = Field(
        default=None, description="Schema as DDL, where the format has none or it is slow to find."
    )
    options: dict[str, str] = Field(default_factory=dict, description="Options of that format.")


class LedgerSide(_Side):
    """The ledger of a job: what the gateway itself says it did. It knows ids and places, no contents."""

    read: Literal["ledger"]
    url: str | None = Field(default=None, description="Another hub than the pipeline's, an SQLAlchemy URL.", repr=False)
    job: str = Field(min_length=1, description="The job.")
    where: str | None = "outcome IN ('STORED', 'SENT', 'PROVEN')"
    id: str | None = "msgid"
    part: str | None = "part"
    position: str | None = "position"
    time: str | None = "finished"


Side = Annotated[HubSide | KafkaSide | ArchiveSide | FilesSide | LedgerSide, Field(discriminator="read")]


def read_side(spark: SparkSession, side: Side, hub: str) -> DataFrame:
    """The messages of a side as its source gives them. ``hub``: URL of the pipeline's hub."""
    if isinstance(side, HubSide):
        options = {"url": side.url or hub, "queue": side.queue, "what": side.what}
        if side.consumer is not None:
            options["consumer"] = side.consumer
        from mgw.pipelines.datasource import register

        register(spark)
        return spark.read.format("mgw").options(**options).load()
    if isinstance(side, KafkaSide):
        options = {
            "kafka.bootstrap.servers": side.bootstrap_servers,
            "subscribe": side.topic,
            "startingOffsets": "earliest",
            "endingOffsets": "latest",
            "includeHeaders": "true",
            "kafka.isolation.level": "read_committed",
        }
        return spark.read.format("kafka").options(**options | side.options).load()
    if isinstance(side, LedgerSide):
        from mgw.pipelines.jobs.reconcile_ledger import read_ledger

        return read_ledger(spark, side.url or hub, side.job)
    if isinstance(side, ArchiveSide):
        from mgw.pipelines.jobs.archive_read import read_archive

        return read_archive(spark, side.path, side.sources)
    reader = spark.read.format(side.format).options(**side.options)
    return (reader.schema(side.columns) if side.columns else reader).load(side.path)


def side_frame(frame: DataFrame, side: Side, ledger: DataFrame | None = None) -> DataFrame:
    """What is compared of a side, as ``pipelines.jobs.reconcile_compare.SIDE``; ``ledger``: that of ``side.ledger``."""
    from pyspark.sql import functions as sf

    def made(text: str | None, kind: str) -> Column:
        return (sf.expr(text) if text else sf.lit(None)).cast(kind)

    chosen = frame.where(side.where) if side.where else frame
    columns = [
        made(side.id, "string").alias("id"),
        made(side.part, "string").alias("part"),
        made(side.position, "bigint").alias("position"),
        made(side.time, "timestamp").alias("time"),
    ]
    if side.digest:
        columns.append(_digest(chosen, side.digest).alias("digest"))
    result = chosen.select(*columns)
    return result if ledger is None else _through(result, ledger)


def _digest(frame: DataFrame, texts: list[str]) -> Column:
    """SHA-256 of the one value, or of the SHA-256 of each; that of NULL is 32 zero bytes, so it equals no value."""
    from pyspark.sql import functions as sf

    kinds = frame.select(*(sf.expr(text).alias(f"c{at}") for at, text in enumerate(texts))).schema.fields
    parts = []
    for text, field in zip(texts, kinds, strict=True):
        value, kind = sf.expr(text), field.dataType.typeName()
        if kind in ("array", "map", "struct"):
            value = sf.to_json(value)
        data = value if kind == "binary" else value.cast("string").cast("binary")
        parts.append(sf.coalesce(sf.unhex(sf.sha2(data, 256)), sf.lit(bytes(32))))
    return parts[0] if len(parts) == 1 else sf.unhex(sf.sha2(sf.concat(*parts), 256))


def _through(side: DataFrame, ledger: DataFrame) -> DataFrame:
    """The side with the ids that the hub gave its messages.

    A message that the ledger does not know keeps its coordinates as id, and so is found missing.
    """
    from pyspark.sql import functions as sf

    stored = ledger.outcome == "STORED"
    known = ledger.where(ledger.position.isNotNull() & (ledger.outcome != "DUPLICATE")).select(
        ledger.part.alias("l_part"),
        ledger.position.alias("l_position"),
        sf.when(stored, ledger.msgid).alias("l_id"),
        (~stored).alias("l_gone"),
    )
    joined = side.join(known, (side.part == known.l_part) & (side.position == known.l_position), "left")
    place = sf.concat_ws("@", "part", sf.col("position").cast("string"))
    expected = joined.where(~sf.coalesce(sf.col("l_gone"), sf.lit(False)))
    return expected.withColumn("id", sf.coalesce("l_id", place)).drop("l_part", "l_position", "l_id", "l_gone")
