"""The comparison of two sides, on small data frames: every fault, alone and together, and none where there is none."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from mgw.pipelines.jobs.reconcile_compare import FINDING, IN_FLIGHT, SIDE, Rules, compare, findings, totals

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOON = datetime(2026, 11, 22, 12)


class Copy(NamedTuple):
    """A row of a side."""

    id: str | None
    digest: bytes | None
    part: str | None
    position: int | None
    time: datetime | None


def copies(text: str, *, part: str = "t/0", ids: bool = True, minutes: int = 0) -> list[Copy]:
    """``a b b'``: one copy per word, in this order; the id is the letter, the content the whole word."""
    return [
        Copy(word[0] if ids else None, sha256(word.encode()).digest(), part, at, NOON + timedelta(minutes=minutes))
        for at, word in enumerate(text.split())
    ]


def side(spark: SparkSession, rows: Iterable[Copy]) -> DataFrame:
    return spark.createDataFrame(list(rows), SIDE)


def within(case: str, rows: Iterable[Copy]) -> list[Copy]:
    """The rows with a mark of the case, so that many cases can be judged by one query."""
    return [
        row._replace(
            id=row.id and f"{case}:{row.id}",
            digest=row.digest and sha256(case.encode() + row.digest).digest(),
            part=f"{case}:{row.part}",
        )
        for row in rows
    ]


Ends = tuple[Sequence[Copy], Sequence[Copy]]


def judge(spark: SparkSession, cases: Mapping[str, Ends], rules: Rules | None = None) -> dict[str, list[str]]:
    """Per case the findings as ``kind id(messages)``, sorted; ``kind at source`` where that is its side."""
    rules = rules or Rules()
    source = side(spark, [row for case, ends in cases.items() for row in within(case, ends[0])])
    destination = side(spark, [row for case, ends in cases.items() for row in within(case, ends[1])])
    result: dict[str, list[str]] = {case: [] for case in cases}
    for row in findings(compare(source, destination, rules)).collect():
        case = (row.source_place or row.destination_place).partition(":")[0]
        name = row.id.partition(":")[2] if row.id else "-"
        result[case].append(f"{row.kind}{' at source' if row.side == 'source' else ''} {name}({row.messages})")
    return {case: sorted(found) for case, found in result.items()}


# source, destination, what is found
CASES = {
    "equal": ("a b c", "a b c", []),
    "both empty": ("", "", []),
    "missing": ("a b c", "a c", ["missing b(1)"]),
    "destination empty": ("a b", "", ["missing a(1)", "missing b(1)"]),
    "unexpected": ("a b", "a x b", ["unexpected x(1)"]),
    "source empty": ("", "a a", ["unexpected a(2)"]),
    "doubled": ("a b", "a b b b", ["doubled b(2)"]),
    "doubled at the source": ("a b b", "a b", ["doubled at source b(1)"]),
    "doubled on both sides": ("a b b", "a b b", ["doubled at source b(1)", "doubled b(1)"]),
    "altered": ("a b c", "a b' c", ["altered b(1)"]),
    "altered and doubled": ("a b", "a b' b'", ["altered b(2)", "doubled b(1)"]),
    "one of two copies altered": ("a b", "a b b'", ["altered b(1)", "doubled b(1)"]),
    "first one late": ("a b c d", "b c d a", ["reordered b(1)"]),
    "last one early": ("a b c d", "d a b c", ["reordered d(1)"]),
    "neighbours exchanged": ("a b c d", "a c b d", ["reordered c(1)"]),
    "backwards": ("a b c", "c b a", ["reordered b(1)", "reordered c(1)"]),
    "a copy comes again later": ("a b c", "a b c a", ["doubled a(1)"]),
    "everything at once": (
        "a b c d e",
        "b a c' d d x",
        ["altered c(1)", "doubled d(1)", "missing e(1)", "reordered b(1)", "unexpected x(1)"],
    ),
    "missing ones break no order": ("a b c d e", "b d", ["missing a(1)", "missing c(1)", "missing e(1)"]),
}


def test_each_fault_is_found_and_named(spark: SparkSession) -> None:
    ends = {case: (copies(source), copies(destination)) for case, (source, destination, _) in CASES.items()}
    assert judge(spark, ends) == {case: expected for case, (_, _, expected) in CASES.items()}


def test_a_finding_says_where_and_what(spark: SparkSession) -> None:
    rules = Rules()
    found = findings(compare(side(spark, copies("a b")), side(spark, copies("b' a", part="u/3")), rules))
    assert found.schema.simpleString() == spark.createDataFrame([], FINDING).schema.simpleString()
    rows = {row.kind: row.asDict() for row in found.collect()}
    assert rows["altered"] == {
        "kind": "altered",
        "side": "destination",
        "id": "b",
        "messages": 1,
        "source_copies": 1,
        "destination_copies": 1,
        "source_digest": sha256(b"b").hexdigest(),
        "destination_digest": sha256(b"b'").hexdigest(),
        "source_place": "t/0@1",
        "destination_place": "u/3@0",
        "time": NOON,
        "detail": None,
    }
    assert (rows["reordered"]["id"], rows["reordered"]["detail"]) == ("b", "stands before a")


def test_order_is_compared_within_pairs_of_parts_only(spark: SparkSession) -> None:
    one, two = copies("a b c", part="t/0"), copies("d e f", part="t/1")
    swapped = [row._replace(part="u/0", position=10 - at) for at, row in enumerate(two)]
    straight = [row._replace(part="u/0", position=20 + at) for at, row in enumerate(one)]
    apart = [row._replace(part=f"u/{at}", position=-at) for at, row in enumerate(one)]
    backwards = [row._replace(position=-at) for at, row in enumerate(one)]
    nowhere = [row._replace(position=None) for row in backwards]
    found = judge(
        spark,
        {
            "two into one": ([*one, *two], [*straight, *swapped]),
            "spread": (one, apart),
            "without positions": (one, nowhere),
        },
    )
    assert found == {"two into one": ["reordered e(1)", "reordered f(1)"], "spread": [], "without positions": []}
    assert judge(spark, {"any order": (one, backwards)}, Rules(ordered=False)) == {"any order": []}


def test_without_ids_equal_contents_are_counted(spark: SparkSession) -> None:
    source, single = copies("a a b c c c", ids=False), copies("a b", ids=False)
    mixed = [*copies("a b"), *copies("c c", ids=False)]
    found = judge(
        spark,
        {
            "the same": (source, copies("c a c b a c", ids=False)),
            "other numbers": (source, copies("a b c c c c x", ids=False)),
            "order of single ones": (single, copies("b a", ids=False)),
            "some with ids": (mixed, mixed),
            "some with ids missing": (mixed, mixed[1:-1]),
        },
    )
    assert found == {
        "the same": [],
        "other numbers": ["doubled -(1)", "missing -(1)", "unexpected -(1)"],
        "order of single ones": ["reordered -(1)"],
        "some with ids": [],
        "some with ids missing": ["missing -(1)", "missing a(1)"],
    }
    nothing = [row._replace(digest=None) for row in single]
    assert judge(spark, {"x": (nothing, nothing[:1])}) == {"x": ["unidentified -(1)", "unidentified at source -(2)"]}


def test_ids_that_repeat_are_counted_with_their_contents(spark: SparkSession) -> None:
    source = copies("a a b b'")
    ends = {"the same": copies("b' a b a"), "other content": copies("a b b"), "more": copies("a a a b b'")}
    found = judge(spark, {case: (source, out) for case, out in ends.items()}, Rules(unique=False, ordered=False))
    assert found == {"the same": [], "other content": ["altered b(1)", "missing a(1)"], "more": ["doubled a(1)"]}


def test_without_digests_nothing_is_altered(spark: SparkSession) -> None:
    rules = Rules()
    source = side(spark, copies("a b c"))
    for destination in (side(spark, copies("a b' c'")).drop("digest"), source.select("id")):
        assert findings(compare(source, destination, rules)).count() == 0
    found = findings(compare(source.select("id"), side(spark, copies("a d")), rules))
    assert sorted((row.kind, row.id) for row in found.collect()) == [
        ("missing", "b"),
        ("missing", "c"),
        ("unexpected", "d"),
    ]


def test_what_is_too_young_is_in_flight(spark: SparkSession) -> None:
    rules = Rules(judged_until=(NOON + timedelta(minutes=5)).timestamp())
    source = [*copies("a b"), *copies("c d e", part="t/1", minutes=5)]
    destination = [*copies("a"), *copies("d e' x", part="t/1", minutes=9)]
    expected = ["altered e(1)", f"{IN_FLIGHT} c(1)", f"{IN_FLIGHT} x(1)", "missing b(1)"]
    assert judge(spark, {"young": (source, destination)}, rules) == {"young": expected}


def test_any_mixture_of_faults_is_found_exactly(spark: SparkSession) -> None:
    chance = random.Random(20261122)
    ids = [f"m{number:05d}" for number in range(5000)]
    source = [
        Copy(name, sha256(name.encode()).digest(), f"t/{number % 3}", number, NOON) for number, name in enumerate(ids)
    ]
    fates = {name: chance.choices(("kept", "missing", "doubled", "altered"), (90, 3, 4, 3))[0] for name in ids}
    out: list[Copy] = []
    for row in source:
        fate = fates[str(row.id)]
        if fate == "altered":
            out.append(row._replace(digest=sha256(b"other").digest()))
        elif fate != "missing":
            out += [row] * (2 if fate == "doubled" else 1)
    out += [Copy(f"x{number}", b"x", "t/0", 9000 + number, NOON) for number in range(7)]
    destination = [row._replace(position=at) for at, row in enumerate(out)]
    expected = Counter(fate for fate in fates.values() if fate != "kept") + Counter({"unexpected": 7})
    chance.shuffle(source)
    chance.shuffle(destination)
    rules = Rules()
    compared = compare(side(spark, source).repartition(3), side(spark, destination), rules)
    found = findings(compared).collect()
    equal = len(ids) - sum(fate in ("missing", "altered") for fate in fates.values())
    assert totals(compared).first().asDict() == {"source": len(source), "destination": len(out), "equal": equal}
    assert Counter(row.kind for row in found) == expected
    assert all(fates[row.id] == row.kind for row in found if row.kind != "unexpected")
