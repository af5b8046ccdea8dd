"""Compaction of an archive: the small files of a day become large ones, and readers see either these or those."""

from __future__ import annotations

import json
import math
import posixpath
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pydantic import Field

from mgw.pipelines.errors import PipelineFailed
from mgw.pipelines.jobs.archive_manifest import Manifest, commit, write_files
from mgw.pipelines.registry import JobSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from mgw.pipelines.files import Folder

__all__ = ["CompactModel", "compact", "due"]


class CompactModel(JobSettings):
    """When small files are put together."""

    target_bytes: int = Field(
        default=128 * 1024 * 1024,
        ge=1,
        description="Size of compacted files; files of at least half this size are left alone.",
    )
    files_today: int = Field(
        default=200,
        ge=2,
        description="Number of small files from which a day that is not over yet is also compacted.",
    )
    keep_replaced: float = Field(default=3600, ge=0, description="Seconds that replaced files are kept for readers.")


def due(files: Mapping[str, int], settings: CompactModel, today: str) -> dict[str, list[str]]:
    """Day -> files to put together. ``files``: path -> bytes; ``today``: the folder ``day=...`` that is not over."""
    small: dict[str, list[str]] = {}
    for path, size in files.items():
        if size < settings.target_bytes / 2:
            small.setdefault(posixpath.basename(posixpath.dirname(path)), []).append(path)
    least = {today: settings.files_today}
    return {day: paths for day, paths in small.items() if len(paths) >= least.get(day, 2)}


def compact(spark: SparkSession, folder: Folder, manifest: Manifest, settings: CompactModel) -> Manifest:
    """Compact what is due of a source; the manifest after that. Only for the one who writes the source."""
    from pyspark.sql import functions as sf
    from pyspark.sql.types import StructType

    today = f"day={datetime.now(UTC):%Y-%m-%d}"
    for day, paths in due(manifest.files, settings, today).items():
        schema = StructType.fromJson(json.loads(manifest.schema))
        small = spark.read.schema(schema).parquet(*(folder.uri(path) for path in paths))
        number = math.ceil(sum(manifest.files[path] for path in paths) / settings.target_bytes)
        rows = small.coalesce(number).withColumn("day", sf.lit(day.removeprefix("day=")).cast("date"))
        made = write_files(folder, rows, manifest.source, "compact")
        before, after = small.count(), spark.read.parquet(*(folder.uri(path) for path in made)).count()
        if before != after:
            raise PipelineFailed(
                f"{day} of source {manifest.source} was not compacted",
                cause=f"{before} rows became {after}",
                cure="check the disk; nothing was replaced, so the archive is as it was",
            )
        files = {path: size for path, size in manifest.files.items() if path not in paths} | made
        gone = manifest.replaced | dict.fromkeys(paths, time.time())
        manifest = commit(folder, replace(manifest, files=files, replaced=gone))
    return manifest
