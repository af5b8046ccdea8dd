"""Rows that SQLite gets in few statements are stored as those it gets one by one."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Sequence
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy.dialects import sqlite

from mgw.gateway.aq.store import tables
from mgw.gateway.aq.store.columns import NEW_ENTRY, NEW_MESSAGE, NEW_TYPED_MESSAGE, Columns
from mgw.gateway.aq.store.insert_sql import insertion, insertions

_WHOLE = st.integers(-(2**63), 2**63 - 1)
_SMALL = st.integers(-1, 11) | st.booleans()
_NUMBER = _SMALL | st.floats() | _WHOLE
_TEXT = st.text(max_size=5)
_VALUES: dict[str, Any] = {"int2": _SMALL, "int4": _SMALL, "int8": _WHOLE | _SMALL, "float8": _NUMBER}
_VALUES |= {"text": _TEXT | st.just("BASIC"), "bytea": st.binary(max_size=5)}
_CHECKED: dict[str, Any] = {"state": st.sampled_from((0, 1, 2, 3, 8)), "body_type": st.sampled_from((0, 1, 2, 3, 4))}
_REQUIRED = {
    "queue_id", "state", "k1", "k2", "k3", "priority", "ready_at", "enq_time", "attempts", "kind", "body_type",
    "consumer_id",
}  # fmt: skip


@st.composite
def _batches(draw: st.DrawFn, columns: Columns) -> list[tuple[Any, ...]]:
    """Rows with columns in which all values are the same, few are, or none."""
    size = draw(st.integers(1, 47))
    values = []
    for place, (name, kind) in enumerate(zip(columns.names, columns.texts, strict=True)):
        if place == 0:
            values.append(list(range(1, size + 1)))
            continue
        one = _CHECKED.get(name, _VALUES[kind])
        if name not in _REQUIRED:
            one |= st.none()
        if kind == "float8":
            one = one.filter(lambda value: value is None or not math.isnan(value))  # NaN is NULL to SQLite
        if draw(st.booleans()):
            values.append([draw(one)] * size)
        else:
            some = draw(st.lists(one, min_size=1, max_size=3))
            values.append([some[number % len(some)] for number in range(size)])
    return list(zip(*values, strict=True))


def _stored(table: sa.Table, statements: Sequence[tuple[str, Sequence[Any]]]) -> list[Any]:
    connection = sqlite3.connect(":memory:")
    connection.execute(str(sa.schema.CreateTable(table).compile(dialect=sqlite.dialect())))
    for statement, parameters in statements:
        connection.executemany(statement, parameters)
    names = [column.name for column in table.columns]
    shown = ", ".join(f"{name}, typeof({name})" for name in names)
    return connection.execute(f"SELECT {shown} FROM {table.name} ORDER BY rowid").fetchall()


@pytest.mark.parametrize("columns", [NEW_MESSAGE, NEW_TYPED_MESSAGE], ids=["plain", "typed"])
@given(data=st.data())
@settings(max_examples=60)
def test_rows_are_stored_as_one_by_one(columns: Columns, data: st.DataObject) -> None:
    rows = data.draw(_batches(columns))
    one_by_one = [(insertion("aq_message", columns.names), rows)]
    assert _stored(tables.message, list(insertions("aq_message", columns.names, rows))) == _stored(
        tables.message, one_by_one
    )


def test_what_is_left_out_has_no_default() -> None:
    """A column that is not named gets its default."""
    for table, columns in ((tables.message, NEW_TYPED_MESSAGE), (tables.entry, NEW_ENTRY)):
        for name in columns.names:
            assert table.c[name].server_default is None, f"{table.name}.{name}"


def test_few_statements() -> None:
    """What is the same in all rows is not bound, and not for every row."""
    rows = [(number, None, 3, b"x", 10) for number in range(1, 48)]
    found = list(insertions("t", ("a", "b", "c", "d", "e"), rows))
    assert [len(parameters) for _, parameters in found] == [2, 1, 2]
    assert found[-1][1][0] == [46, b"x", 10]
    assert found[-1][0] == "INSERT INTO t (a, c, d, e) VALUES (?, 3, ?, ?)"
