"""Conditions that Spark hands down: SQL finds what Spark would find, on both databases; the rest is left to Spark."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from mgw.gateway.aq.hub import Hub
from mgw.gateway.aq.queues import transfer
from mgw.gateway.aq.store.statements import Db
from mgw.pipelines.source.columns import READ
from mgw.pipelines.source.options import What
from mgw.pipelines.source.statements_read import selection
from mgw.transforms.message import Message
from tests.pipelines.hubs import ManualClock, database, make, put

spark = pytest.importorskip("pyspark.sql.datasource")

NOW = 1_800_000_000.123456


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def hub(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    url = database(request, tmp_path_factory, "filters")
    with Hub.open(url, create=True, clock=ManualClock(NOW)) as made:
        make(made, "f")
        put(
            made,
            "f",
            Message("a", correlation="abc", priority=1, user_property="100%_x"),
            Message("b", correlation="ABC", priority=-5, delay=60),
            Message("c", correlation="\u00e4bc' OR 1=1 --", expiration=1.5),
            Message("d", correlation="Zoo", user_property="ab\U0001f600"),
            Message(b"e", priority=2**62),
        )
        yield made


def found(hub: Hub, condition: object) -> tuple[str, bool] | None:
    """Bodies that the SQL finds, and whether Spark need not look again; None: it is left to Spark."""
    from mgw.pipelines.source.filters import Target, push

    pushed = push(condition, Target(hub.postgresql, "m", hub.hub_id))  # type: ignore[arg-type]
    if pushed is None:
        return None
    with hub.read() as conn:
        chosen = selection(Db(conn), transfer.resolve(conn, "f"), None, What.MESSAGES).having([f"({pushed.sql})"])
        where = " AND ".join(chosen.where)
        rows = Db(conn).rows(f"SELECT {READ['body']} FROM {chosen.source} WHERE {where} ORDER BY m.id")
    return "".join(bytes(body).decode() for (body,) in rows), pushed.exact


C = ("correlation",)
MOMENT = datetime.fromtimestamp(NOW, UTC)


@pytest.mark.parametrize(
    ("condition", "bodies"),
    [
        (spark.EqualTo(C, "abc"), "a"),
        (spark.EqualTo(C, "\u00e4bc' OR 1=1 --"), "c"),
        (spark.Not(spark.EqualTo(C, "abc")), "bcd"),
        (spark.EqualNullSafe(C, "abc"), "a"),
        (spark.Not(spark.EqualNullSafe(C, "abc")), "bcde"),
        (spark.EqualNullSafe(C, None), "e"),
        (spark.In(C, ("abc", "Zoo", "x")), "ad"),
        (spark.Not(spark.In(C, ("abc", "Zoo"))), "bc"),
        (spark.IsNull(C), "e"),
        (spark.IsNotNull(C), "abcd"),
        (spark.GreaterThan(C, "Zoo"), "ac"),  # bytes decide, not a dictionary
        (spark.LessThanOrEqual(C, "Zoo"), "bd"),
        (spark.StringStartsWith(C, "\u00e4b"), "c"),
        (spark.StringStartsWith(C, "ab"), "a"),
        (spark.StringContains(C, "' OR"), "c"),
        (spark.StringContains(("user_property",), "%_"), "a"),
        (spark.Not(spark.StringStartsWith(C, "a")), "bcd"),
        (spark.EqualTo(("priority",), -5), "b"),
        (spark.GreaterThanOrEqual(("priority",), 2**62), "e"),
        (spark.LessThan(("priority",), 1), "b"),
        (spark.EqualTo(("expiration",), 1.5), "c"),
        (spark.GreaterThan(("expiration",), 1.25), "c"),
        (spark.EqualTo(("state",), "WAITING"), "b"),
        (spark.Not(spark.EqualTo(("state",), "no state")), "abcde"),
        (spark.In(("body_type",), ("RAW", "NONE")), "e"),
        (spark.EqualTo(("body",), b"e"), "e"),
        (spark.IsNull(("msgid",)), ""),
        (spark.IsNotNull(("deq_time",)), ""),
    ],
    ids=repr,
)
def test_sql_finds_what_spark_would(hub: Hub, condition: object, bodies: str) -> None:
    assert found(hub, condition) == (bodies, True)


def test_the_end_of_a_text_is_left_to_spark_on_sqlite(hub: Hub) -> None:
    assert found(hub, spark.StringEndsWith(("user_property",), "\U0001f600")) == (
        ("d", True) if hub.postgresql else None
    )


def test_message_ids_are_found_by_their_number(hub: Hub) -> None:
    with hub.read() as conn:
        first = min(number for (number,) in Db(conn).rows("SELECT id FROM aq_message"))
    own, other = hub.hub_id + first.to_bytes(8, "big"), b"12345678" + first.to_bytes(8, "big")
    assert found(hub, spark.EqualTo(("msgid",), own)) == ("a", True)
    assert found(hub, spark.EqualTo(("msgid",), other)) == ("", True)
    assert found(hub, spark.In(("msgid",), (own, other, b"short"))) == ("a", True)
    assert found(hub, spark.EqualTo(("id",), first)) == ("a", True)


@pytest.mark.parametrize(
    ("condition", "bodies"),
    [
        (spark.EqualTo(("enq_time",), MOMENT), "abcde"),
        (spark.GreaterThan(("enq_time",), MOMENT), "abcde"),  # as near as a microsecond: Spark looks again
        (spark.GreaterThan(("ready_at",), MOMENT.replace(microsecond=999999)), "b"),
        (spark.LessThan(("expires_at",), datetime(9999, 12, 31, tzinfo=UTC)), "c"),
        (spark.LessThan(("enq_time",), MOMENT.replace(microsecond=0)), ""),
    ],
    ids=repr,
)
def test_moments_are_only_narrowed_down(hub: Hub, condition: object, bodies: str) -> None:
    assert found(hub, condition) == (bodies, False)
    assert found(hub, spark.Not(condition)) is None


@pytest.mark.parametrize(
    "condition",
    [
        spark.EqualTo(C, None),
        spark.EqualTo(C, "a\0b"),
        spark.In(C, ("a", None)),
        spark.EqualTo(("expiration",), float("nan")),
        spark.EqualTo(("enq_time",), datetime(2026, 1, 1)),
        spark.GreaterThan(("state",), "A"),
        spark.GreaterThan(("body",), b"a"),
        spark.EqualTo(("text",), "a"),
        spark.EqualTo(("origin", "name"), "a"),
        spark.IsNull(("headers",)),
        spark.EqualTo(("queue",), "f"),
        spark.EqualTo(("seq",), 1),
        spark.StringStartsWith(C, ""),
    ],
    ids=repr,
)
def test_the_rest_is_left_to_spark(hub: Hub, condition: object) -> None:
    assert found(hub, condition) is None
