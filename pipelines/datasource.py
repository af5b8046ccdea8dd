"""The data source ``mgw``: ``register(spark)`` once, then ``spark.read.format("mgw")`` and its three sisters."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING, ClassVar

from pyspark.sql.datasource import DataSource

from mgw.pipelines.source.columns import chosen, ddl
from mgw.pipelines.source.options import SourceOptions
from mgw.pipelines.workers import choose_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

__all__ = ["MgwDataSource", "register"]

_PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"


class MgwDataSource(DataSource):
    """Queues of a hub as data frames and streams (docs/how-to/spark.md).

    Attributes:
        parallelism: partitions of a read that does not say how many.
    """

    parallelism: ClassVar[int] = 2

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.options = options

    @classmethod
    def name(cls) -> str:
        """What ``format`` takes."""
        return "mgw"

    def schema(self) -> str:
        """Every column, or those of option ``columns``."""
        names = [name.strip() for name in self.options.get("columns", "").split(",") if name.strip()]
        return ddl(chosen(names)) if names else ddl()

    def reader(self, schema: StructType) -> DataSourceReader:
        """Batch read."""
        from mgw.pipelines.source.batch import QueueReader

        return QueueReader(SourceOptions.of(self.options, partitions=self.parallelism), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  (Spark's name)
        """Stream read."""
        from mgw.pipelines.source.stream import StreamReader

        return StreamReader(SourceOptions.of(self.options, streaming=True, partitions=self.parallelism), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Batch write."""
        from mgw.pipelines.sink.writer import batch_writer

        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802  (Spark's name)
        """Stream write."""
        from mgw.pipelines.sink.writer import stream_writer

        return stream_writer(self.options, schema, overwrite)


def register(spark: SparkSession) -> None:
    """Make ``format("mgw")`` known to a session, and let Spark hand conditions down to data sources in Python.

    Its workers run the Python of this process from now on, unless ``spark.pyspark.python`` or ``PYSPARK_PYTHON`` say
    another one.
    """

    class Registered(MgwDataSource):
        parallelism = max(2, spark.sparkContext.defaultParallelism)

    choose_python(spark)
    spark.conf.set(_PUSH_DOWN, "true")
    spark.dataSource.register(Registered)
