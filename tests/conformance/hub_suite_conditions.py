"""Conditions that are long or deep: Python accepts them, so no database may fail on them. Run on both databases."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from mgw.gateway.aq.errors import NoMessage
from mgw.gateway.aq.model import DequeueMode, DequeueOptions
from mgw.gateway.aq.queues.condition_search import pushed
from mgw.transforms.language.compiler import compile_condition
from mgw.transforms.language.expression import MAX_EXPRESSION, Row
from mgw.transforms.message import Message
from tests.conformance.hub_suite import HubCase


def _deep(value: Any, levels: int) -> str:
    value = {"b": value}
    for _ in range(levels - 1):
        value = {"a": value}
    return json.dumps(value)


MESSAGES = [
    Message('{"amount": 7, "region": "EU"}', priority=3, correlation="one"),
    Message('{"amount": 12, "region": "US"}', priority=1, correlation="two"),
    *(Message(_deep(value, n), priority=5, correlation=f"{n}") for n in (5, 6, 7, 16, 17, 40) for value in (7, "8")),
    Message(None, priority=2),
]


def _nested(before: str, core: str, after: str, levels: int = 24) -> str:
    return before * levels + core + after * levels


def shapes() -> Iterator[str]:
    """Conditions of every shape that some database finds too deep, too long, or too many."""
    for levels in (5, 6, 7, 16, 17, 40, 1900):
        path = "tab.user_data" + ".a" * (levels - 1) + ".b"
        yield f"{path} = 7"
        if levels != 1900:
            yield f"{path} IS NOT NULL OR {path} = '8'"
    yield "priority" + " + priority" * 300 + " > 400"
    yield "priority" + " + priority" * 150 + " > 200"
    yield "priority" + " - priority" * 300 + " < -400"
    yield "priority" + " + 2 - priority" * 45 + " > 91"
    yield "corrid" + " || corrid" * 300 + " LIKE 'oneone%'"
    yield f"COALESCE(corrid{', corrid' * 450}, '-') = '-'"
    yield f"COALESCE(corrid{', corrid' * 150}, '-') = '-'"
    yield f"CONCAT(corrid{', corrid' * 450}) = ''"
    for name in ("priority", "tab.user_data.amount"):
        yield f"{name} IN ({', '.join(str(n) for n in range(3, 790))})"
        yield f"{name} NOT IN ({','.join(str(n % 7) for n in range(1900))})"
    for name in ("corrid", "tab.user_data.region"):
        yield f"{name} IN ({','.join(repr(word) for word in ('EU', 'two') * 300)})"
    yield f"delay IN ({','.join(f'{n}.5' for n in range(600))}, 0)"
    yield f"priority IN ({','.join(f'{n}.5' for n in range(600))}, 3)"
    yield f"priority IN (NULL{',3' * 1500})"
    for core in ("priority = 3", "tab.user_data.amount > 5", "tab.user_data.region = 'EU'"):
        yield _nested("(", core, ")")
        yield _nested("(", core, " AND priority = 3)")
        yield _nested("(", core, " OR priority = 1)")
        yield _nested("NOT (", core, ")")
        yield "priority = 1" + _nested(" OR (priority = 9", "", "") + f" AND {core}" + ")" * 24
        yield _nested("CASE WHEN priority = 1 THEN TRUE ELSE ", core, " END")
        yield _nested("(", f"({core})", " BETWEEN TRUE AND TRUE)", 23)
        yield _nested("(", f"({core})", " IN (TRUE, TRUE, TRUE))", 22)
    for core in ("priority", "LENGTH(tab.user_data.region)"):
        for before, after in [
            ("NULLIF(", ", 9)"), ("ABS(", ")"), ("MOD(", ", 7)"), ("(-(", "))"), ("CASE ", " WHEN 3 THEN 3 ELSE 2 END"),
            ("12 / (", ")"), ("COALESCE(", ", 1)"),
        ]:  # fmt: skip
            yield _nested(before, core, after, 11 if before == "(-(" else 23) + " = 3"
    for before, after in [("UPPER(", ")"), ("REPLACE(", ", 'x', 'yy')"), ("SUBSTR(", ", 1)"), ("NULLIF(", ", 'x')")]:
        yield _nested(before, "corrid", after) + " = 'ONE'"
        yield _nested(before, "tab.user_data.region", after) + " <> 'ONE'"
    yield " AND ".join(["priority <> 7"] * 200)
    yield " OR ".join(["priority = 3"] * 200)
    yield " OR ".join(f"tab.user_data.a{n} = 7" for n in range(120)) + " OR priority = 3"
    yield " AND ".join(f"tab.user_data.a{n} IS NULL" for n in range(110)) + " AND priority = 3"
    yield " OR ".join(f"corrid LIKE '%{n}'" for n in range(120))
    yield " AND ".join(f"user_data.amount BETWEEN {n % 7} AND 900" for n in range(80))


SHAPES = [text for text in shapes() if len(text) <= MAX_EXPRESSION]
_COLUMNS = {"priority": "msg_priority", "corrid": "corr_id", "delay": "retry_count"}


def of_the_view(text: str) -> str:
    """A condition over messages as a purge condition."""
    text = re.sub(r"(?<![\w.])(?:tab\.)?user_data", "qtview.user_data", text)
    return re.sub(r"(?<![\w.'])(priority|corrid|delay)\b", lambda found: f"qtview.{_COLUMNS[found[0]]}", text)


def expected(text: str) -> list[Message]:
    judge = compile_condition(text)
    return [message for message in MESSAGES if judge.holds(Row(message)) is True]


class LongConditionSuite(HubCase):
    def fill(self, queue: str) -> None:
        with self.hub.session() as session:
            session.enqueue_array(queue, MESSAGES)
            session.commit()

    def test_dequeue_conditions_of_any_shape_find_what_python_finds(self) -> None:
        self.queue()
        self.topic("RED")
        for name in ("orders", "events"):
            self.fill(name)
        chosen = 0
        for number, text in enumerate(SHAPES):
            wanted = [message.body for message in expected(text)]
            chosen += bool(wanted)
            for name, consumer in ((("orders", None), ("events", "RED"))[number % 2],):
                look = DequeueOptions(consumer, deq_condition=text, dequeue_mode=DequeueMode.BROWSE, wait=0)
                take = replace(look, dequeue_mode=DequeueMode.LOCKED)
                assert self.found(name, look, 1) == wanted[:1], text[:100]
                assert self.found(name, take, 100) == wanted, text[:100]
        assert chosen > len(SHAPES) / 2

    def found(self, queue: str, options: DequeueOptions, number: int) -> list[Any]:
        with self.hub.session() as session:
            try:
                return [each.message.body for each in session.dequeue_array(queue, options, number)]
            except NoMessage:
                return []
            finally:
                session.rollback()

    @pytest.mark.matrix  # the same shapes in another place
    def test_purge_conditions_of_any_shape_choose_what_python_chooses(self) -> None:
        self.queue()
        for text in SHAPES[::2]:
            if len(of_the_view(text)) > MAX_EXPRESSION:
                continue
            gone = {id(message) for message in expected(text)}
            self.fill("orders")
            assert self.admin.purge_queue_table("orders_t", of_the_view(text)).messages == len(gone), text[:100]
            left = [row["CORR_ID"] for row in self.view("orders_t")]
            assert left == [message.correlation for message in MESSAGES if id(message) not in gone], text[:100]
            self.admin.purge_queue_table("orders_t")

    @pytest.mark.matrix
    def test_rules_of_any_shape_route_as_python_does(self) -> None:
        self.topic("ALL")
        for number, text in enumerate(SHAPES):
            self.admin.add_subscriber("events", f"S{number}", rule=text)
        self.fill("events")
        rows = self.view("events_t")
        for number, text in enumerate(SHAPES):
            got = [row["CORR_ID"] for row in rows if row["CONSUMER_NAME"] == f"S{number}"]
            assert sorted(map(str, got)) == sorted(str(message.correlation) for message in expected(text)), text[:100]

    @pytest.mark.parametrize(
        "condition",
        [
            "tab.user_data.a.b.c.d.e.f.g = 7",
            "priority" + " + priority" * 90 + " > 7",
            f"priority IN ({','.join(map(str, range(900)))})",
            f"tab.user_data.amount IN ({','.join(map(str, range(900)))})",
            " OR ".join(["priority = 3"] * 200),
            "priority = 3 AND COALESCE(corrid" + ", corrid" * 300 + ") = 'one'",
        ],
    )
    def test_long_and_deep_conditions_are_still_a_matter_for_the_database(self, condition: str) -> None:
        found = pushed(condition, b"12345678", postgresql=self.hub.postgresql, entries=False, fields=False)
        assert found is not None
