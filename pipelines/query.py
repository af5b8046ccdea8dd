"""What identifies a streaming query: the id that its checkpoint keeps."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from mgw.pipelines.files import Folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["query_id"]


def query_id(spark: SparkSession, checkpoint: str) -> str:
    """Id of the query that uses a checkpoint folder; the same after every restart."""
    return str(json.loads(Folder(spark, checkpoint).read("metadata"))["id"])
