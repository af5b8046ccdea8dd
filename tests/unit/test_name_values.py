"""Header arrays in programs: the array helpers of DBMS_MGWMSG (PL/SQL packages' reference; AQ guide 12.2 §20.1)."""

from __future__ import annotations

from typing import Any

import pytest

import mgw
from mgw import CASE_INSENSITIVE, CASE_SENSITIVE, ArgumentInvalid, ConversionFailure, Header, ValueType, name_value

#: The documented codes of the types, and a value of each.
DOCUMENTED = {
    ValueType.TEXT: (1, "t"),
    ValueType.RAW: (2, b"\x00"),
    ValueType.BOOLEAN: (3, True),
    ValueType.BYTE: (4, -128),
    ValueType.SHORT: (5, 32767),
    ValueType.INTEGER: (6, -(2**31)),
    ValueType.LONG: (7, 2**63 - 1),
    ValueType.FLOAT: (8, 0.5),
    ValueType.DOUBLE: (9, 0.1),
    ValueType.DATE: (10, 1_700_000_000.0),
}
ARRAY = (
    name_value("tenant", ValueType.TEXT, "acme"),
    name_value("Tenant", ValueType.INTEGER, 7),
    name_value("tenant", ValueType.INTEGER, 8),
)


def getter(kind: ValueType) -> Any:
    return getattr(mgw, f"nvarray_get_{kind.name.lower()}")


@pytest.mark.parametrize("kind", DOCUMENTED)
def test_each_type_has_its_code_and_a_getter_that_gives_no_other_type(kind: ValueType) -> None:
    code, value = DOCUMENTED[kind]
    assert kind == code
    array = mgw.nvarray_add(None, name_value("x", kind, value))
    for asked in DOCUMENTED:
        assert getter(asked)(array, "x") == (value if asked is kind else None)
    assert getter(kind)(array, "y") is None
    assert getter(kind)(None, "x") is None


def test_adding_makes_an_array_adds_at_the_end_and_leaves_the_given_one() -> None:
    first = mgw.nvarray_add(None, ARRAY[0])
    assert first == (ARRAY[0],)
    assert mgw.nvarray_add(first, ARRAY[1]) == ARRAY[:2]
    assert first == (ARRAY[0],)
    assert mgw.nvarray_add(first, None) == first
    assert mgw.nvarray_add(None, None) == ()


def test_places_count_from_one_and_zero_is_absent() -> None:
    assert mgw.nvarray_find_name(ARRAY, "tenant") == 1
    assert mgw.nvarray_find_name(ARRAY, "Tenant") == 2
    assert mgw.nvarray_find_name(ARRAY, "TENANT") == 0
    assert mgw.nvarray_find_name(ARRAY, "TENANT", CASE_INSENSITIVE) == 1
    assert mgw.nvarray_find_name(None, "tenant") == 0


def test_name_and_type_are_searched_together_and_another_type_is_minus_one() -> None:
    assert mgw.nvarray_find_name_type(ARRAY, "tenant", ValueType.INTEGER) == 3
    assert mgw.nvarray_find_name_type(ARRAY, "TENANT", ValueType.INTEGER, CASE_INSENSITIVE) == 2
    assert mgw.nvarray_find_name_type(ARRAY, "tenant", ValueType.DATE) == -1
    assert mgw.nvarray_find_name_type(ARRAY, "TENANT", ValueType.TEXT, CASE_SENSITIVE) == 0
    assert mgw.nvarray_get_integer(ARRAY, "tenant") == 8
    assert mgw.nvarray_get(ARRAY, "tenant") == ARRAY[0]
    assert mgw.nvarray_get(ARRAY, "nobody") is None


@pytest.mark.parametrize(
    ("name", "kind", "value"),
    [
        ("", ValueType.TEXT, "x"),
        ("n" * 251, ValueType.TEXT, "x"),
        ("n", ValueType.TEXT, "x" * 4001),
        ("n", ValueType.RAW, bytes(2001)),
        ("n", ValueType.TEXT, b"x"),
        ("n", ValueType.BYTE, 128),
        ("n", ValueType.SHORT, -32769),
        ("n", ValueType.INTEGER, 2**31),
        ("n", ValueType.LONG, 2**63),
        ("n", 99, "x"),
    ],
)
def test_what_a_header_cannot_hold_is_refused(name: str, kind: Any, value: Any) -> None:
    with pytest.raises(ConversionFailure) as caught:
        name_value(name, kind, value)
    assert caught.value.cause
    assert caught.value.cure


def test_limits_hold_what_they_name() -> None:
    name_value("n" * 250, ValueType.TEXT, "x" * 4000)
    name_value("n", ValueType.RAW, bytes(2000))
    full = ARRAY[:1] * 1024
    assert mgw.nvarray_add(full[:-1], ARRAY[0]) == full
    with pytest.raises(ConversionFailure, match="1025 headers"):
        mgw.nvarray_add(full, ARRAY[0])
    with pytest.raises(ConversionFailure):
        mgw.nvarray_add(None, Header("x", ValueType.TEXT, 1))


def test_another_way_to_compare_is_refused() -> None:
    with pytest.raises(ArgumentInvalid, match="CASE_SENSITIVE"):
        mgw.nvarray_find_name(ARRAY, "tenant", 2)  # type: ignore[arg-type]


@pytest.mark.parametrize("compare", [CASE_SENSITIVE, CASE_INSENSITIVE])
def test_no_name_is_the_name_of_no_element(compare: Any) -> None:
    assert mgw.nvarray_find_name(ARRAY, None, compare) == 0
    assert mgw.nvarray_find_name_type(ARRAY, None, ValueType.TEXT, compare) == 0
    assert mgw.nvarray_get(ARRAY, None, compare) is None
    assert mgw.nvarray_get_text(ARRAY, None, compare) is None


def test_a_type_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ArgumentInvalid, match="type 99 cannot be found"):
        mgw.nvarray_find_name_type(ARRAY, "tenant", 99)  # type: ignore[arg-type]
    assert mgw.nvarray_find_name_type(ARRAY, "tenant", 6) == 3  # type: ignore[arg-type]  # the code of INTEGER
