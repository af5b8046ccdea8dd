"""The expression language against the laws of three-valued logic, a reference LIKE, and SQLite."""

from __future__ import annotations

import contextlib
import functools
import json
import math
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given
from hypothesis import strategies as st
from sqlglot import exp

from mgw.transforms.errors import ExpressionFailed, ExpressionInvalid
from mgw.transforms.language.compiler import analyse, compile_condition, compile_expression
from mgw.transforms.language.expression import Expression, Row
from mgw.transforms.language.parser import Compiler
from mgw.transforms.language.text import canonical_text
from mgw.transforms.language.values import like_matcher
from mgw.transforms.message import Message
from tests.support.examples import looks_at

TRUTH = st.sampled_from([True, False, None])


def truth(text: str, **names: bool | None) -> bool | None:
    message = Message(body=json.dumps(names))
    return compile_condition(text.replace("$", "tab.user_data.")).holds(Row(message))


@given(a=TRUTH, b=TRUTH, c=TRUTH)
def test_three_valued_logic_keeps_its_laws(a: bool | None, b: bool | None, c: bool | None) -> None:
    names = {"a": a, "b": b, "c": c}

    def same(left: str, right: str) -> None:
        assert truth(left, **names) is truth(right, **names), (left, right)

    same("$a AND $b", "$b AND $a")
    same("$a OR $b", "$b OR $a")
    same("($a AND $b) AND $c", "$a AND ($b AND $c)")
    same("($a OR $b) OR $c", "$a OR ($b OR $c)")
    same("NOT ($a AND $b)", "NOT $a OR NOT $b")
    same("NOT ($a OR $b)", "NOT $a AND NOT $b")
    same("NOT (NOT $a)", "$a")
    same("$a AND ($b OR $c)", "($a AND $b) OR ($a AND $c)")
    same("$a OR ($b AND $c)", "($a OR $b) AND ($a OR $c)")
    same("$a OR ($a AND $b)", "$a")
    order = {False: 0, None: 1, True: 2}
    assert order[truth("$a AND $b", **names)] == min(order[a], order[b])
    assert order[truth("$a OR $b", **names)] == max(order[a], order[b])
    assert truth("$a IS NULL", **names) is (a is None)
    assert truth("$a = $b", **names) is (None if a is None or b is None else a == b)
    assert truth("CASE WHEN $a THEN $b ELSE $c END", **names) is (b if a is True else c)


# -- LIKE

LIKE_TEXT = st.text(alphabet="ab%_!\\.*\n", max_size=12)


def reference_like(text: str, pattern: str, escape: str | None) -> bool:
    """LIKE as the standard defines it, character by character."""
    items: list[tuple[str, str]] = []
    position = 0
    while position < len(pattern):
        character = pattern[position]
        if character == escape:
            position += 1
            items.append(("is", pattern[position]))
        else:
            items.append(("any" if character == "%" else "one" if character == "_" else "is", character))
        position += 1

    @functools.cache
    def matches(at: int, item: int) -> bool:
        if item == len(items):
            return at == len(text)
        kind, character = items[item]
        if kind == "any":
            return any(matches(rest, item + 1) for rest in range(at, len(text) + 1))
        return at < len(text) and (kind == "one" or text[at] == character) and matches(at + 1, item + 1)

    return matches(0, 0)


@looks_at(500)
@given(text=LIKE_TEXT, pattern=LIKE_TEXT, escape=st.sampled_from([None, "!", "\\"]))
def test_like_is_what_the_standard_says(text: str, pattern: str, escape: str | None) -> None:
    if escape is not None:
        cleaned = pattern.replace(escape * 2, "")
        for special in (escape + "%", escape + "_"):
            cleaned = cleaned.replace(special, "")
        assume(escape not in cleaned)
        rest = pattern
        while (at := rest.find(escape)) >= 0:
            assume(rest[at + 1 : at + 2] in ("%", "_", escape) and rest[at + 1 : at + 2])
            rest = rest[at + 2 :]
    assert like_matcher(pattern, escape)(text) is reference_like(text, pattern, escape)
    quoted = f"tab.user_data LIKE '{pattern}'" + (f" ESCAPE '{escape}'" if escape else "")
    assert compile_condition(quoted).holds(Row(Message(body=text))) is reference_like(text, pattern, escape)


# -- SQLite

NUMBER_COLUMNS, TEXT_COLUMNS = ("n1", "n2", "n3"), ("t1", "t2", "t3")

NUMBERS = st.one_of(
    st.none(),
    st.integers(-20, 20),
    st.integers(-(2**40), 2**40),
    st.sampled_from([0.5, -0.5, 1.5, 2.25, -7.75, 1024.125]),  # exact in binary: no rounding differences
)
TEXTS = st.one_of(st.none(), st.text(alphabet="abAB%_' 01", max_size=6))
ROWS = st.fixed_dictionaries({**dict.fromkeys(NUMBER_COLUMNS, NUMBERS), **dict.fromkeys(TEXT_COLUMNS, TEXTS)})


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _numbers(inner: Any) -> Any:
    number, text, condition = inner
    return st.one_of(
        st.builds("({} {} {})".format, number, st.sampled_from(["+", "-", "*"]), number),
        st.builds("(-{})".format, number),
        st.builds("ABS({})".format, number),
        st.builds("LENGTH({})".format, text),
        st.builds("INSTR({}, {})".format, text, st.sampled_from(["'a'", "'ab'", "'%'"])),
        st.builds("FLOOR({})".format, number),
        st.builds("CEIL({})".format, number),
        st.builds("COALESCE({}, {})".format, number, number),
        st.builds("NULLIF({}, {})".format, number, number),
        st.builds("CASE WHEN {} THEN {} ELSE {} END".format, condition, number, number),
        st.builds("CASE {} WHEN {} THEN {} WHEN {} THEN {} END".format, text, text, number, text, number),
    )


def _texts(inner: Any) -> Any:
    number, text, condition = inner
    del number
    return st.one_of(
        st.builds("({} || {})".format, text, text),
        st.builds("UPPER({})".format, text),
        st.builds("LOWER({})".format, text),
        st.builds("TRIM({})".format, text),
        st.builds("LTRIM({})".format, text),
        st.builds("SUBSTR({}, {})".format, text, st.integers(1, 5)),
        st.builds("SUBSTR({}, {}, {})".format, text, st.integers(1, 5), st.integers(0, 4)),
        st.builds("REPLACE({}, {}, {})".format, text, st.sampled_from(["'a'", "'ab'"]), text),
        st.builds("COALESCE({}, {})".format, text, text),
        st.builds("NULLIF({}, {})".format, text, text),
        st.builds("CASE WHEN {} THEN {} END".format, condition, text),
    )


def _conditions(inner: Any) -> Any:
    number, text, condition = inner
    compare = st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">="])
    negation = st.sampled_from(["", "NOT "])
    listing = st.sampled_from(["{}, {}", "{}, {}, NULL"])
    return st.one_of(
        st.builds("({} {} {})".format, number, compare, number),
        st.builds("({} {} {})".format, text, compare, text),
        st.builds("({} {}BETWEEN {} AND {})".format, number, negation, number, number),
        st.builds("({} {}BETWEEN {} AND {})".format, text, negation, text, text),
        st.builds(lambda a, n, li, b, c: f"({a} {n}IN ({li.format(b, c)}))", number, negation, listing, number, number),
        st.builds(lambda a, n, li, b, c: f"({a} {n}IN ({li.format(b, c)}))", text, negation, listing, text, text),
        st.builds("({} {}LIKE {})".format, text, negation, text),
        st.builds("({} {}LIKE {} ESCAPE '!')".format, text, negation, st.sampled_from(["'a!%%'", "'%!_%'", "'a_'"])),
        st.builds("({} IS {}NULL)".format, st.one_of(number, text), negation),
        st.builds("({} IS {}{})".format, condition, negation, st.sampled_from(["TRUE", "FALSE"])),
        st.builds("({} {} {})".format, condition, st.sampled_from(["AND", "OR"]), condition),
        st.builds("(NOT {})".format, condition),
    )


NUMBER_LEAF = st.one_of(
    st.sampled_from([f"user_data.{name}" for name in NUMBER_COLUMNS]),
    st.sampled_from(["NULL", "0", "1", "2", "2.5", "(-3)", "20"]),
)
TEXT_LEAF = st.one_of(
    st.sampled_from([f"user_data.{name}" for name in TEXT_COLUMNS]),
    st.sampled_from(["NULL", "''", "'a'", "'ab'", "'%b'", "'_'", "'a%'", "'it''s'"]),
)
CONDITION_LEAF = st.sampled_from(["(1 = 1)", "(1 = 2)", "(NULL = 1)", "(user_data.n1 < user_data.n2)"])


def _grow(depth: int) -> tuple[Any, Any, Any]:
    """Strategies for numbers, texts and conditions at most ``depth`` operators deep."""
    if depth == 0:
        return NUMBER_LEAF, TEXT_LEAF, CONDITION_LEAF
    inner = _grow(depth - 1)
    return (
        st.one_of(inner[0], _numbers(inner)),
        st.one_of(inner[1], _texts(inner)),
        st.one_of(inner[2], _conditions(inner)),
    )


EXPRESSIONS = st.one_of(*_grow(3))


@pytest.fixture(scope="module")
def database() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("PRAGMA case_sensitive_like = ON")
        columns = ", ".join(
            [*(f"{name} NUMERIC" for name in NUMBER_COLUMNS), *(f"{name} TEXT" for name in TEXT_COLUMNS)]
        )
        connection.execute(f"CREATE TABLE user_data ({columns})")
        yield connection


def in_sqlite(database: sqlite3.Connection, text: str, row: dict[str, Any]) -> Any:
    database.execute("DELETE FROM user_data")
    names = [*NUMBER_COLUMNS, *TEXT_COLUMNS]
    database.execute(f"INSERT INTO user_data VALUES ({', '.join('?' * len(names))})", [row[name] for name in names])
    return database.execute(f"SELECT {text} FROM user_data").fetchone()[0]


def in_python(expression: Expression, row: dict[str, Any]) -> Any:
    value = expression.value(Row(Message(body=json.dumps(row))))
    return int(value) if isinstance(value, bool) else value  # SQLite has no booleans


@looks_at(1500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(text=EXPRESSIONS, rows=st.lists(ROWS, min_size=1, max_size=4))
def test_expressions_have_the_values_that_sqlite_gives_them(
    database: sqlite3.Connection, text: str, rows: list[dict[str, Any]]
) -> None:
    assume(len(text) <= 4000)
    expression = compile_expression(text)
    for row in rows:
        try:
            expected = in_sqlite(database, text, row)
        except sqlite3.OperationalError as error:
            if "overflow" not in str(error):
                raise
            continue  # integers of SQLite end at 64 bits
        value = in_python(expression, row)
        if isinstance(expected, float) and isinstance(value, (int, float)):
            assert math.isclose(value, expected, rel_tol=1e-12), (text, row)
        else:
            assert value == expected, (text, row)


# -- whatever is written

_SCRAPS = r"""
( ) , . ' " || + - * / = <> < AND OR NOT LIKE ESCAPE IN BETWEEN IS NULL CASE WHEN THEN ELSE END 1 2.5 'a' priority
corrid tab.user_data.a HEADER('K') UPPER( SUBSTR( TRIM( SELECT FROM ; -- /* :x ? [ ] { } @ # $ % ^ & ~ ` \ q'[
CAST( DATE INTERVAL EXISTS ROWNUM LEVEL PRIOR (+) DISTINCT ALL ANY ü 0x1 1e5 :: -> => := LATERAL OVER
"""
SCRAPS = st.sampled_from(_SCRAPS.split())


@looks_at(1000, deadline=None)
@given(
    text=st.one_of(
        st.lists(SCRAPS, max_size=12).map(" ".join), st.lists(SCRAPS, max_size=6).map("\n".join), st.text(max_size=40)
    )
)
def test_whatever_is_written_either_compiles_or_is_refused_with_a_position(text: str) -> None:
    refused: ExpressionInvalid | None = None
    expression: Expression | None = None
    try:
        expression = compile_expression(text)
    except ExpressionInvalid as error:
        refused = error
    if refused is not None:
        lines = text.split("\n")
        assert 1 <= refused.line <= len(lines)
        assert 1 <= refused.column <= len(lines[refused.line - 1]) + 1
        assert refused.cause
        assert refused.cure
    elif expression is not None:
        with contextlib.suppress(ExpressionFailed):  # a value or a named failure, nothing else
            expression.value(Row(Message(body='{"a": 1}', correlation="c")))


# -- text -> tree -> text


@looks_at(300, deadline=None)
@given(text=EXPRESSIONS)
def test_an_expression_written_out_again_is_the_same_expression(text: str) -> None:
    assume(len(text) <= 2000)
    first = _analysed(text)
    written = canonical_text(first)
    second = _analysed(written)
    assert canonical_text(second) == written
    assert _shape(second) == _shape(first)


@given(text=st.lists(SCRAPS, max_size=8).map(" ".join))
def test_whatever_compiles_can_be_written_out_again(text: str) -> None:
    try:
        first = _analysed(text)
    except ExpressionInvalid:
        return
    assert canonical_text(_analysed(canonical_text(first))) == canonical_text(first)


def _analysed(text: str) -> Compiler:
    compiler = analyse(text, condition=False)
    assert compiler.tree is not None
    return compiler


def _shape(analysis: Compiler) -> list[str]:
    """The nodes of a tree, names apart: these are written in one way only."""
    return [
        type(node).__name__
        for node in analysis.tree.walk()
        if not isinstance(node, (exp.Column, exp.Dot, exp.Identifier))
    ]
