"""An archive as a Delta table: Delta Lake keeps what belongs to it, its schema, and which batches it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mgw.pipelines.errors import PipelineFailed
from mgw.pipelines.files import Folder
from mgw.pipelines.query import query_id

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from mgw.pipelines.registry import Context

__all__ = ["DeltaTarget"]


class DeltaTarget:
    """One source of an archive in Delta."""

    def __init__(self, spark: SparkSession, path: str, context: Context, name: str, target_bytes: int) -> None:
        self._spark, self._path, self._context, self._name = spark, path, context, name
        self._target_bytes = target_bytes

    def batch(self, frame: DataFrame, batch: int) -> None:
        """Write one batch of a streaming query; Delta skips it if the table has it."""
        query = query_id(self._spark, self._context.checkpoint(self._name))
        from pyspark.sql import functions as sf

        writer = frame.withColumn("source", sf.lit(self._name)).write.format("delta").mode("append")
        writer = writer.partitionBy("source", "day").option("mergeSchema", "true")
        writer.option("txnAppId", query).option("txnVersion", batch).save(self._path)

    def history(self, frame: DataFrame) -> None:  # noqa: ARG002  as for Parquet
        """Refused: what is new cannot be distinguished and written in one transaction."""
        raise PipelineFailed(
            f"source {self._name} is history, which cannot be archived to Delta",
            cause="a table that several sources write cannot show which rows of one source are new",
            cure="archive history with format: parquet",
        )

    def finish(self) -> None:
        """Compact what Delta finds worth it, if there is a table yet."""
        if not Folder(self._spark, self._path).entries("_delta_log"):
            return
        self._spark.conf.set("spark.databricks.delta.optimize.maxFileSize", self._target_bytes)
        self._spark.sql(f"OPTIMIZE delta.`{self._path}` WHERE source = '{self._name}'")
