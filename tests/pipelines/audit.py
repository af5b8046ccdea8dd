"""The auditor as a judge of tests: two sides of a flow, compared by id and digest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mgw.pipelines.jobs.reconcile_compare import Rules, compare, findings, totals

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["nothing_is_wrong"]


def nothing_is_wrong(source: DataFrame, destination: DataFrame, number: int) -> None:
    """Both sides, frames of ``id`` and ``body``, have the same ``number`` of messages, each once and unaltered."""
    from pyspark.sql import functions as sf

    sides = [
        side.select(sf.hex("id").alias("id"), sf.unhex(sf.sha2("body", 256)).alias("digest"))
        for side in (source, destination)
    ]
    compared = compare(*sides, Rules(ordered=False))
    assert [row.asDict() for row in findings(compared).limit(20).collect()] == []
    assert totals(compared).collect()[0].asDict() == {"source": number, "destination": number, "equal": number}
