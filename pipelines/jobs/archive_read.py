"""Reads an archive: exactly the rows that its manifests name, whatever is being written or compacted meanwhile."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mgw.pipelines.errors import PipelineFailed
from mgw.pipelines.files import Folder
from mgw.pipelines.jobs.archive_manifest import latest, sources, union

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["read_archive"]


def read_archive(spark: SparkSession, path: str, names: Sequence[str] = ()) -> DataFrame:
    """The rows of an archive: the columns of the data source ``mgw``, those the job added, ``source`` and ``day``.

    Columns that an old file does not have are NULL. A condition on ``source`` or ``day`` opens only the files it needs.

    Args:
        path: folder of the archive.
        names: sources to read; none means all.

    Raises:
        PipelineFailed: there is no archive, or it has no such source.
    """
    from pyspark.sql.types import DateType, StringType, StructType

    folder = Folder(spark, path)
    if folder.entries("_delta_log"):
        found = spark.read.format("delta").load(path)
        return found.where(found.source.isin(list(names))) if names else found
    known = sources(folder)
    missing = [name for name in names if name not in known]
    if missing or not known:
        raise PipelineFailed(
            f"the archive {path} has no source {', '.join(missing)}" if known else f"there is no archive in {path}",
            cause=f"it has {', '.join(known)}" if known else "the folder has no manifest",
            cure="run the job archive first, or correct the path",
        )
    text, files = union(folder, [latest(folder, name) for name in names or known])
    schema = StructType.fromJson(json.loads(text)) if text else StructType()
    schema = schema.add("source", StringType()).add("day", DateType())
    if not files:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).option("basePath", folder.root).parquet(*files)
