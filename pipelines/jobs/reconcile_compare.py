"""Two sides of a flow compared, message by message: pure functions of data frames.

A side has a row per copy of a message, with the columns of :data:`SIDE`. What is compared are the copies of one *key*:
the id, or, for a message without one, its digest (equal bodies without ids are then a multiset: only their number
counts). Both sides are put under each other and grouped by key, so there is one shuffle of narrow rows, which Spark
spills to disk where memory ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["FINDING", "IN_FLIGHT", "SIDE", "Finding", "Rules", "compare", "findings", "totals"]

#: Columns of a side. ``id`` and ``digest`` may be NULL, ``digest``, ``part`` and ``position`` may be left out: without
#: digests nothing is found altered, without positions nothing reordered.
SIDE = "id STRING, digest BINARY, part STRING, position BIGINT, time TIMESTAMP"

#: Columns of a finding.
FINDING = (
    "kind STRING, side STRING, id STRING, messages BIGINT, source_copies BIGINT, destination_copies BIGINT, "
    "source_digest STRING, destination_digest STRING, source_place STRING, destination_place STRING, time TIMESTAMP, "
    "detail STRING"
)


class Finding(StrEnum):
    """What can be wrong with a message."""

    MISSING = "missing"  # the source has it, the destination does not
    UNEXPECTED = "unexpected"  # the destination has it, the source does not
    DOUBLED = "doubled"  # a side has more copies than it should
    ALTERED = "altered"  # both have the id, with different content
    REORDERED = "reordered"  # it stands before one that the source has before it
    UNIDENTIFIED = "unidentified"  # neither id nor digest: it cannot be compared


#: Kind of a row of the findings that is none: missing or unexpected, but too young to be judged.
IN_FLIGHT = "in flight"

_SOURCE, _DESTINATION = "source", "destination"


@dataclass(frozen=True, slots=True)
class Rules:
    """How strictly sides are compared.

    Attributes:
        unique: an id means one message, so a second copy at the source is a finding, and one copy at the destination is
            enough. False: ids may repeat; the destination must have as many copies as the source.
        ordered: compare the order, within each pair of a source part and a destination part.
        judged_until: messages from this time on (epoch seconds) that the other side does not have are in flight, not
            missing or unexpected. None: there is nothing in flight.
    """

    unique: bool = True
    ordered: bool = True
    judged_until: float | None = None


def compare(source: DataFrame, destination: DataFrame, rules: Rules) -> DataFrame:
    """One row per key: ``s`` and ``d`` copies on the sides, ``equal`` of them in both, and what is ``wrong``.

    Rows with which nothing is wrong have nothing else, so that a cache of this frame is small.
    """
    from pyspark.sql import functions as sf

    counted = _counted(source, destination)
    marked = _with_predecessor(counted) if rules.ordered else counted.withColumn("behind", sf.lit(None).cast("string"))
    judged = marked.withColumn("wrong", _wrong(rules))
    bad = sf.size("wrong") > 0
    known = ("key", "by_digest", "source_digest", "destination_digest", "source", "destination", "behind")
    return judged.select("s", "d", "equal", "wrong", *(sf.when(bad, sf.col(name)).alias(name) for name in known))


def totals(compared: DataFrame) -> DataFrame:
    """One row: copies at the ``source``, at the ``destination``, and ``equal`` on both."""
    from pyspark.sql import functions as sf

    sums = {"source": "s", "destination": "d", "equal": "equal"}
    return compared.agg(*(sf.coalesce(sf.sum(of), sf.lit(0)).alias(name) for name, of in sums.items()))


def _counted(source: DataFrame, destination: DataFrame) -> DataFrame:
    """One row per key: how many copies each side has, how many of them are equal, and where the first ones are."""
    from pyspark.sql import functions as sf

    digests = "digest" in source.columns and "digest" in destination.columns
    both = _side(source, 0, digests=digests).unionByName(_side(destination, 1, digests=digests))
    there = sf.col("side") == 1
    place = sf.struct("position", "part", "time")  # the smallest is the first
    counted = [
        sf.count_if(~there).alias("s"),
        sf.count_if(there).alias("d"),
        sf.min(sf.when(~there, place)).alias("source"),
        sf.min(sf.when(there, place)).alias("destination"),
    ]
    key = ["by_digest", "key"]
    contents = both.repartition(*key).groupBy(*key, "digest").agg(*counted)
    s, d, digest = sf.col("s"), sf.col("d"), sf.col("digest")
    strange = (d > 0) & (s == 0)
    return contents.groupBy(*key).agg(
        sf.sum(s).alias("s"),
        sf.sum(d).alias("d"),
        sf.sum(sf.least(s, d)).alias("equal"),
        sf.sum(sf.when(strange, d).otherwise(0)).alias("strange"),
        sf.min(sf.when(s > 0, digest)).alias("source_digest"),
        sf.coalesce(sf.min(sf.when(strange, digest)), sf.min(sf.when(d > 0, digest))).alias("destination_digest"),
        sf.min("source").alias("source"),
        sf.min("destination").alias("destination"),
    )


def _side(frame: DataFrame, side: int, *, digests: bool) -> DataFrame:
    """A side with its key, and with every column."""
    from pyspark.sql import functions as sf

    digest = sf.col("digest") if digests else sf.lit(None).cast("binary")
    by_digest = sf.col("id").isNull()
    return frame.select(
        sf.lit(side).alias("side"),
        by_digest.alias("by_digest"),
        sf.when(by_digest, sf.lower(sf.hex(digest))).otherwise(sf.col("id")).alias("key"),
        digest.alias("digest"),
        *(
            sf.col(name).alias(name) if name in frame.columns else sf.lit(None).cast(kind).alias(name)
            for name, kind in (("part", "string"), ("position", "bigint"), ("time", "timestamp"))
        ),
    )


def findings(compared: DataFrame) -> DataFrame:
    """What :func:`compare` says is wrong, one row per finding (:data:`FINDING`)."""
    from pyspark.sql import functions as sf

    told = compared.where(sf.size("wrong") > 0).withColumn("wrong", sf.explode("wrong"))
    reordered = sf.col("wrong.kind") == Finding.REORDERED.value
    return told.select(
        sf.col("wrong.kind").alias("kind"),
        sf.col("wrong.side").alias("side"),
        sf.when(~sf.col("by_digest"), sf.col("key")).alias("id"),
        sf.col("wrong.messages").alias("messages"),
        sf.col("s").alias("source_copies"),
        sf.col("d").alias("destination_copies"),
        sf.lower(sf.hex("source_digest")).alias("source_digest"),
        sf.lower(sf.hex("destination_digest")).alias("destination_digest"),
        _place("source").alias("source_place"),
        _place("destination").alias("destination_place"),
        sf.coalesce("source.time", "destination.time").alias("time"),
        sf.when(reordered, sf.concat(sf.lit("stands before "), sf.col("behind"))).alias("detail"),
    )


def _wrong(rules: Rules) -> Column:
    """An array of what is wrong with a key: kind, side, number of messages."""
    from pyspark.sql import functions as sf

    s, d = sf.col("s"), sf.col("d")
    once = ~sf.col("by_digest") if rules.unique else sf.lit(False)
    expected = sf.when(once, sf.least(s, sf.lit(1))).otherwise(s)
    known, none = sf.col("key").isNotNull(), sf.lit(0)
    cells = [
        (sf.lit(Finding.UNIDENTIFIED.value), _SOURCE, sf.when(~known, s)),
        (sf.lit(Finding.UNIDENTIFIED.value), _DESTINATION, sf.when(~known, d)),
        (_unless_young(Finding.MISSING, "source", rules), _DESTINATION, sf.when(known, expected - d)),
        (_unless_young(Finding.UNEXPECTED, "destination", rules), _DESTINATION, sf.when(known & (s == 0), d)),
        (sf.lit(Finding.DOUBLED.value), _SOURCE, sf.when(known, s - expected)),
        (sf.lit(Finding.DOUBLED.value), _DESTINATION, sf.when(known & (s > 0), d - expected)),
        (
            sf.lit(Finding.ALTERED.value),
            _DESTINATION,
            sf.when(known & (s > 0) & (d > 0), sf.greatest(sf.col("strange"), sf.least(s, d) - sf.col("equal"))),
        ),
        (sf.lit(Finding.REORDERED.value), _DESTINATION, sf.when(known & sf.col("behind").isNotNull(), sf.lit(1))),
    ]
    parts = [
        sf.struct(
            kind.alias("kind"), sf.lit(side).alias("side"), sf.coalesce(count, none).cast("bigint").alias("messages")
        )
        for kind, side, count in cells
    ]
    return sf.filter(sf.array(*parts), lambda part: part["messages"] > 0)


def _unless_young(kind: Finding, side: str, rules: Rules) -> Column:
    """The kind of a finding on one side only, or in flight where the message is too young to be judged."""
    from pyspark.sql import functions as sf

    if rules.judged_until is None:
        return sf.lit(kind.value)
    young = sf.col(f"{side}.time") >= sf.lit(rules.judged_until).cast("timestamp")  # of seconds, whatever the zone
    return sf.when(young, sf.lit(IN_FLIGHT)).otherwise(sf.lit(kind.value))


def _with_predecessor(compared: DataFrame) -> DataFrame:
    """Adds ``behind``: the key that the source has before this one and the destination after it, else NULL.

    An order is broken somewhere exactly if a neighbour is: so each message is compared with the one before it only.
    Copies of equal content without ids cannot be distinguished and are left out.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as sf

    single = (sf.col("s") == 1) & (sf.col("d") == 1)
    placed = sf.col("source.position").isNotNull() & sf.col("destination.position").isNotNull()
    taking_part = sf.col("key").isNotNull() & placed & (~sf.col("by_digest") | single)
    order = Window.partitionBy("compared", sf.col("source.part"), sf.col("destination.part")).orderBy(
        "source.position", "destination.position"
    )
    before = sf.lag(sf.struct("destination.position", "key")).over(order)
    marked = compared.withColumn("compared", sf.coalesce(taking_part, sf.lit(False))).withColumn("before", before)
    behind = sf.col("compared") & (sf.col("before.position") > sf.col("destination.position"))
    return marked.withColumn("behind", sf.when(behind, sf.col("before.key"))).drop("compared", "before")


def _place(side: str) -> Column:
    """``part@position`` as the ledger writes coordinates; only the part where there is no position."""
    from pyspark.sql import functions as sf

    return sf.concat_ws("@", sf.col(f"{side}.part"), sf.col(f"{side}.position").cast("string"))
