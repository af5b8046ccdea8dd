"""The job ``reconcile``: reads both ends of a flow and reports what is missing, doubled, altered or reordered.

``transform`` is the whole comparison; how ends are read is described in :mod:`pipelines.jobs.reconcile_sides`. Exit
code 0 when nothing is found, 1 when something is. Nothing is collected but the counts and the findings that are shown.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, model_validator

from mgw.pipelines.jobs.reconcile_compare import IN_FLIGHT, Rules, compare, findings, totals
from mgw.pipelines.jobs.reconcile_report import Report, render
from mgw.pipelines.jobs.reconcile_sides import HubSide, KafkaSide, LedgerSide, Side, read_side, side_frame
from mgw.pipelines.registry import Context, JobSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Settings", "needs", "run", "transform", "uses_hub"]


class ReportModel(JobSettings):
    """Where the findings are written."""

    path: str = Field(min_length=1, description="Folder; each run creates a subfolder named by its time (UTC).")
    format: Literal["parquet", "csv", "json"] = Field(default="parquet", description="Format of the files.")


class Settings(JobSettings):
    """Both ends, and how strictly they are compared."""

    source: Side = Field(description="Where the messages come from.")
    destination: Side = Field(description="Where they should be; the same kinds of ends as for the source.")
    unique: bool = Field(
        default=True,
        description="An id means one message: a second copy at either end is a finding. false: an id may repeat, and "
        "the destination must have as many copies as the source.",
    )
    ordered: bool = Field(default=True, description="Compare the order, where both sides have `part` and `position`.")
    grace: float = Field(
        default=0,
        ge=0,
        description="Seconds: messages that are younger than this when the run starts and exist on one side only are "
        "in flight, not findings.",
    )
    at_least: int = Field(
        default=1, ge=0, description="Messages that the source must have; fewer is a failure: nothing was proved."
    )
    show: int = Field(default=20, ge=0, le=10_000, description="Number of findings to print.")
    report: ReportModel | None = Field(default=None, description="Folder to which all findings are also written.")

    @model_validator(mode="after")
    def _comparable(self) -> Settings:
        for name, side in (("source", self.source), ("destination", self.destination)):
            if side.id is None and not side.digest:
                raise ValueError(f"{name} has neither id nor digest, so nothing of it can be compared; give one")
        if self.source.digest and self.destination.digest and len(self.source.digest) != len(self.destination.digest):
            raise ValueError("the digests of source and destination have different numbers of values")
        return self


def needs(settings: Settings) -> tuple[str, ...]:
    """Kafka's connector, Delta's package, where a side needs them."""
    sides = (settings.source, settings.destination)
    found = ["kafka"] if any(isinstance(side, KafkaSide) for side in sides) else []
    return (*found, *(["delta"] if any(getattr(side, "format", "") == "delta" for side in sides) else []))


def uses_hub(settings: Settings) -> bool:
    """Whether executors read the hub."""
    sides = (settings.source, settings.destination)
    return any(isinstance(side, HubSide | LedgerSide) or side.ledger is not None for side in sides)


def transform(source: DataFrame, destination: DataFrame, settings: Settings) -> DataFrame:
    """The findings (``reconcile_compare.FINDING``) between two ends as :func:`read_side` reads them."""
    there, here = side_frame(source, settings.source), side_frame(destination, settings.destination)
    return findings(compare(there, here, Rules(settings.unique, settings.ordered)))


def run(spark: SparkSession, settings: Settings, context: Context) -> int:
    """Compare and report."""
    report = judge(spark, settings, context, time.time())
    context.say(render(report, context.name, settings))
    return 0 if report.clean else 1


def judge(spark: SparkSession, settings: Settings, context: Context, began: float) -> Report:
    """Read both ends once; totals, counts by kind, the findings to show, and the report where one is wanted.

    ``began``: now, epoch seconds; ``grace`` counts back from it.
    """
    from pyspark import StorageLevel
    from pyspark.sql import functions as sf

    rules = Rules(settings.unique, settings.ordered, began - settings.grace if settings.grace else None)
    source, destination = _end(spark, settings.source, context.hub), _end(spark, settings.destination, context.hub)
    compared = compare(source, destination, rules).persist(StorageLevel.DISK_ONLY)
    try:
        sums = totals(compared).collect()[0]
        found = findings(compared)
        counted = found.groupBy("kind", "side").agg(sf.sum("messages").alias("messages")).collect()
        counts = {(row.kind, row.side): int(row.messages) for row in counted}
        shown: list[dict[str, Any]] = []
        if counts and settings.show:
            first = found.where(sf.col("kind") != IN_FLIGHT).orderBy(
                "kind", "time", "source_place", "destination_place"
            )
            shown = [row.asDict() for row in first.limit(settings.show).collect()]
        written = None
        if settings.report is not None:
            written = f"{settings.report.path.rstrip('/')}/{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(began))}"
            _write(found, written, settings.report.format)
    finally:
        compared.unpersist()
    seconds = time.time() - began
    return Report(sums.source, sums.destination, sums.equal, counts, shown, written, seconds, settings.at_least)


def _end(spark: SparkSession, side: Side, hub: str) -> DataFrame:
    """One end, read and made comparable."""
    from mgw.pipelines.jobs.reconcile_ledger import read_ledger

    ledger = None if side.ledger is None else read_ledger(spark, getattr(side, "url", None) or hub, side.ledger)
    return side_frame(read_side(spark, side, hub), side, ledger)


def _write(found: DataFrame, path: str, form: str) -> None:
    """The findings as files: one where people read them, as many as it takes otherwise."""
    whole = found if form == "parquet" else found.coalesce(1)
    whole.write.mode("errorifexists").option("header", "true").format(form).save(path)
