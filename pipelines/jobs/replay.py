"""Archived messages, or messages of exception queues, back into a hub queue: chosen, at a chosen rate, exactly once.

A replay is known by its name. When it is run again it does nothing more; after a kill it continues where it stopped,
with the messages that were selected then.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from mgw.pipelines.registry import Context, JobSettings
from mgw.transforms.errors import ConfigInvalid

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from mgw.pipelines.sink.statements import Batch

__all__ = ["Settings", "needs", "run", "transform"]

_PLACE = re.compile(r"\(?line (\d+),? pos (\d+)\)?")
_BODY = ("body", "text", "body_type")
_SHOWN = ("enq_time", "queue", "original_queue", "expiration_reason", "correlation")


def _in_utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _identity(text: str) -> str:
    plain = text.upper().removeprefix("AQMSGID:")
    if not re.fullmatch(r"[0-9A-F]{32}", plain):
        raise ValueError(f"{text!r} is not a message id of 32 hexadecimal digits")
    return plain


Moment = Annotated[datetime, AfterValidator(_in_utc)]


class Settings(JobSettings):
    """What to replay, and where to."""

    name: str = Field(
        min_length=1, max_length=150, description="Name of this replay; under one name everything is replayed once."
    )
    archive: str | None = Field(
        default=None, min_length=1, description="Folder that the job archive wrote; path or URI."
    )
    format: Literal["archive", "delta", "parquet"] = Field(
        default="archive",
        description="What is in that folder: what the job archive writes, the same in Delta, or any Parquet files with "
        "columns of the data source mgw.",
    )
    sources: list[str] = Field(default_factory=list, description="Only these sources of the archive; none means all.")
    exceptions: str | None = Field(
        default=None, min_length=1, description="Exception queue, or the queue whose exception messages are replayed."
    )
    target: str = Field(min_length=1, description="Hub queue that gets the messages.")
    since: Moment | None = Field(default=None, description="From this time on (UTC unless it has an offset).")
    until: Moment | None = Field(default=None, description="Before this time.")
    time: str = Field(default="enq_time", min_length=1, description="Column for since, until and the order.")
    queues: list[str] = Field(default_factory=list, description="Only messages that are, or were, in these queues.")
    condition: str | None = Field(default=None, min_length=1, description="Spark SQL expression over the columns.")
    ids: list[Annotated[str, AfterValidator(_identity)]] = Field(
        default_factory=list, description="Only messages with these ids (32 hexadecimal digits), now or originally."
    )
    set: dict[str, str] = Field(
        default_factory=dict, description="Property of the message -> Spark SQL expression that replaces it."
    )
    rows_per_second: int | None = Field(default=None, ge=1, le=10_000_000, description="Maximum rate.")
    remove: bool = Field(default=False, description="Remove each exception message in the transaction that replays it.")
    dry_run: bool = Field(default=False, description="Only show what would be replayed.")
    show: int = Field(default=20, ge=0, le=1000, description="How many messages a dry run lists.")
    user: str | None = Field(default=None, min_length=1, description="User of the hub whose privileges are checked.")

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.archive is None) == (self.exceptions is None):
            raise ValueError("give either archive or exceptions")
        if self.remove and self.exceptions is None:
            raise ValueError("remove is for exceptions: what is in an archive stays there")
        if self.sources and (self.archive is None or self.format == "parquet"):
            raise ValueError("sources are those of an archive that the job archive wrote")
        return self


def needs(settings: Settings) -> tuple[str, ...]:
    """Delta is a package of its own."""
    return ("delta",) if settings.format == "delta" and settings.archive is not None else ()


def transform(df: DataFrame, settings: Settings) -> DataFrame:
    """The rows that are chosen, in order, with the columns that a write to a queue takes, and ``msgid``.

    Raises:
        ConfigInvalid: the condition or an expression is wrong (with its position), or needs a column that is not there.
    """
    from pyspark.sql import functions as f

    from mgw.pipelines.sink.layout import WRITTEN

    rows = select(df, settings)
    for name, text in settings.set.items():
        if name not in WRITTEN:
            raise ConfigInvalid(
                f"settings.set cannot set {name!r}",
                cause="a message has no such property that could be written",
                cure=f"there are {', '.join(WRITTEN)}",
            )
        rows = _with(rows, name, text)
    kept = [name for name in (*WRITTEN, "msgid") if name in rows.columns]
    if settings.set.keys() & {"body", "text"}:  # the others say what the body was before
        kept = [name for name in kept if name not in _BODY or name in settings.set]
    if "msgid" in rows.columns and "original_msgid" not in settings.set:
        first = f.coalesce(*(f.col(name) for name in ("original_msgid", "msgid") if name in rows.columns))
        rows = rows.withColumn("original_msgid", first)
        kept = list(dict.fromkeys([*kept, "original_msgid"]))
    order = [name for name in (settings.time, "id", "offset") if name in rows.columns]
    return (rows.orderBy(*order) if order else rows).select(*kept)


def select(df: DataFrame, settings: Settings) -> DataFrame:
    """The rows that are chosen, with all their columns; errors as :func:`transform`."""
    from pyspark.sql import functions as f

    rows = df
    by_day = settings.time == "enq_time" and "day" in df.columns  # an archive need not open the other days
    if settings.since is not None:
        rows = rows.where(_column(df, settings.time) >= f.lit(settings.since))
        rows = rows.where(df["day"] >= f.lit(settings.since.date())) if by_day else rows
    if settings.until is not None:
        rows = rows.where(_column(df, settings.time) < f.lit(settings.until))
        rows = rows.where(df["day"] <= f.lit(settings.until.date())) if by_day else rows
    if settings.queues:
        wanted = [name.upper() for name in settings.queues]
        rows = rows.where(_either(df, "queue", "original_queue", f.upper, wanted))
    if settings.ids:
        rows = rows.where(_either(df, "msgid", "original_msgid", f.hex, settings.ids))
    if settings.condition is not None:
        try:
            rows = rows.where(settings.condition)
        except Exception as error:
            raise _wrong("settings.condition", settings.condition, error) from error
    return rows


def _column(df: DataFrame, name: str) -> Column:
    if name not in df.columns:
        raise ConfigInvalid(
            f"column {name!r} is not there", cause=f"there are {', '.join(df.columns)}", cure="name one of them"
        )
    return df[name]


def _either(df: DataFrame, first: str, second: str, form: Any, wanted: Sequence[str]) -> Column:
    from pyspark.sql import functions as f

    matches: Column = form(_column(df, first)).isin(list(wanted))
    if second in df.columns:
        matches = f.coalesce(matches, f.lit(False)) | f.coalesce(form(df[second]).isin(list(wanted)), f.lit(False))
    return matches


def _with(rows: DataFrame, name: str, text: str) -> DataFrame:
    from pyspark.sql import functions as f

    try:
        return rows.withColumn(name, f.expr(text))
    except Exception as error:
        raise _wrong(f"settings.set.{name}", text, error) from error


def _wrong(what: str, text: str, error: Exception) -> ConfigInvalid:
    """What Spark says of an expression, with its place; columns count from 1."""
    said = " ".join(str(error).split("\n\n")[0].split("JVM stacktrace")[0].split("== SQL")[0].split(";\n")[0].split())
    found = _PLACE.search(str(error))
    place = f" at line {found[1]}, column {int(found[2]) + 1}" if found else ""
    return ConfigInvalid(
        f"{what} is wrong{place}: {text!r}",
        cause=_PLACE.sub("", said).strip()[:400],
        cure="it is a Spark SQL expression over the columns of the data source mgw, or of the archive",
    )


def run(spark: SparkSession, settings: Settings, context: Context) -> int:
    """Replay; 0 when all of it is in the queue."""
    from mgw.pipelines.datasource import register
    from mgw.pipelines.sink.options import WriteOptions
    from mgw.pipelines.sink.publish import record_of, resume

    register(spark)
    given = {"url": context.hub, "queue": settings.target, "query": f"replay {settings.name}"}
    given |= {"user": settings.user} if settings.user is not None else {}
    given |= {"maxRowsPerSecond": str(settings.rows_per_second)} if settings.rows_per_second is not None else {}
    options = WriteOptions.of(given)
    before = record_of(options)
    if settings.dry_run:
        _show(_read(spark, settings, context), settings, context, before)
        return 0
    if before is None:
        source = _read(spark, settings, context)
        frame = transform(source, settings)
        if select(source, settings).isEmpty():  # the name is still free then
            context.say(f"replay {settings.name}: nothing was selected, nothing is replayed")
            return 0
        if settings.remove:
            places = select(source, settings).select("queue").distinct().collect()
            given["removeFrom"] = ",".join(sorted(row.queue for row in places))
        frame.write.format("mgw").mode("append").options(**given).save()
    elif before.state == "DONE":
        context.say(f"replay {settings.name} was done before ({_summary(before, settings)}); nothing is left to do")
        return 0
    else:
        context.log(f"replay {settings.name} continues after {before.published + before.skipped:,} messages")
        resume(options)
    after = record_of(options)
    if after is not None:
        context.say(f"replay {settings.name}: {_summary(after, settings)}")
    return 0


def _read(spark: SparkSession, settings: Settings, context: Context) -> DataFrame:
    if settings.archive is not None:
        if settings.format == "parquet":
            return spark.read.option("mergeSchema", "true").parquet(settings.archive)
        from mgw.pipelines.jobs.archive_read import read_archive

        path = settings.archive
        return read_archive(spark, path if ":" in path else str(Path(path).absolute()), settings.sources)
    reader = spark.read.format("mgw").option("url", context.hub).option("what", "exceptions")
    if settings.user is not None:
        reader = reader.option("user", settings.user)
    return reader.option("queue", str(settings.exceptions)).load()


def _summary(record: Batch, settings: Settings) -> str:
    text = f"{record.published:,} of {record.rows:,} messages are in queue {settings.target}"
    if record.skipped:
        text += f"; {record.skipped:,} were no longer in the exception queue"
    return text


def _show(source: DataFrame, settings: Settings, context: Context, known: Batch | None) -> None:
    from pyspark.sql import functions as f

    transform(source, settings)  # says what is wrong with it
    rows = select(source, settings)
    places = [name for name in ("queue", "original_queue") if name in rows.columns]
    counted = rows.groupBy(*places).count().orderBy(*places).collect()
    context.say(f"{sum(row['count'] for row in counted):,} messages would go into queue {settings.target}")
    if known is not None:
        context.say(f"but replay {settings.name} is known already: {_summary(known, settings)}")
    for row in counted:
        where = ", before in ".join(str(row[name]) for name in places if row[name] is not None)
        context.say(f"  {row['count']:>12,}  {where}")
    if settings.show:
        shown = [f.hex("msgid").alias("msgid")] if "msgid" in rows.columns else []
        shown += [f.col(name) for name in _SHOWN if name in rows.columns]
        shown += [f.substring("text", 1, 60).alias("text")] if "text" in rows.columns else []
        order = [name for name in (settings.time, "id", "offset") if name in rows.columns]
        for row in rows.orderBy(*order).select(*shown).limit(settings.show).collect():
            context.say("  ".join(f"{name}={value}" for name, value in row.asDict().items() if value is not None))
