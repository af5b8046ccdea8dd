"""Objects and ANYDATA of any type come back as they were, with their types."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.gateway.aq.admin import QueueAdmin
from mgw.gateway.aq.hub import Hub
from mgw.gateway.aq.model import DequeueOptions
from mgw.gateway.aq.payloads.anydata import AnyData, wrap
from mgw.transforms.message import Message
from mgw.transforms.objects import ObjectValue
from mgw.transforms.payloads.sql_types import ObjectType, load_text
from mgw.transforms.payloads.sql_types_parser import from_definition
from tests.support.examples import looks_at

EXAMPLES = int(os.environ.get("MGW_PROPERTY_EXAMPLES", "60"))
TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=10)
NAIVE = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29))
ZONES = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
NUMBERS = st.builds(
    lambda digits, places: Decimal((digits < 0, tuple(map(int, str(abs(digits)))), -places)),
    st.integers(-(10**30), 10**30),
    st.integers(-20, 40),
)


def _number(value: Decimal) -> int | Decimal:
    return int(value) if value == value.to_integral_value() else value


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
).filter(lambda value: value is not None)

#: Declared type to values that such an attribute gives back exactly as they are.
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "VARCHAR2(10)": TEXTS,
    "VARCHAR2(40 BYTE)": TEXTS,
    "NVARCHAR2(10)": TEXTS,
    "CLOB": TEXTS,
    "NUMBER": NUMBERS.map(_number),
    "NUMBER(10)": st.integers(-(10**10) + 1, 10**10 - 1),
    "NUMBER(12,4)": st.integers(-(10**12) + 1, 10**12 - 1).map(lambda n: Decimal(n).scaleb(-4)),
    "FLOAT": st.floats(allow_nan=False, allow_infinity=False),
    "BINARY_DOUBLE": st.floats(allow_nan=False),
    "DATE": NAIVE.map(lambda moment: moment.replace(microsecond=0)),
    "TIMESTAMP": NAIVE,
    "TIMESTAMP(3)": NAIVE.map(lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000)),
    "TIMESTAMP WITH TIME ZONE": st.builds(lambda moment, zone: moment.replace(tzinfo=zone), NAIVE, ZONES),
    "TIMESTAMP WITH LOCAL TIME ZONE": NAIVE.map(lambda moment: moment.replace(tzinfo=UTC)),
    "INTERVAL DAY TO SECOND": st.timedeltas(),
    "INTERVAL YEAR TO MONTH": st.integers(-(10**6), 10**6),
    "RAW(10)": st.binary(max_size=10),
    "BLOB": st.binary(max_size=50),
    "BOOLEAN": st.booleans(),
    "JSON": JSON,
    "XMLTYPE": st.sampled_from(["<a/>", "<a b='ü'>&lt;</a>"]),
}
WRAPPABLE = {
    name.partition("(")[0].strip(): values
    for name, values in SCALARS.items()
    if "TIMESTAMP(3)" not in name and "," not in name
} | {"NUMBER": SCALARS["NUMBER"]}


@st.composite
def types_and_values(draw: st.DrawFn, depth: int = 2) -> tuple[Any, Any]:
    """The definition of a type, and a value of it."""
    shape = draw(st.sampled_from(["scalar"] * 4 + ["array", "object"] * (depth > 0)))
    if shape == "scalar":
        declared = draw(st.sampled_from(sorted(SCALARS)))
        return declared, draw(st.none() | SCALARS[declared])
    if shape == "array":
        definition, first = draw(types_and_values(depth - 1))
        return {"varray": 3, "of": definition}, (first,) * draw(st.integers(0, 3))
    return draw(objects(depth - 1))


@st.composite
def objects(draw: st.DrawFn, depth: int = 2) -> tuple[Any, Any]:
    names = draw(st.lists(st.sampled_from(["a", "B", "cC", "größe", "n$1", "_x"]), min_size=1, max_size=4, unique=True))
    parts = [(name, *draw(types_and_values(depth))) for name in names]
    name = f"S.T{draw(st.integers(0, 99))}"
    definition = {"name": name, "attributes": [[each, declared] for each, declared, _ in parts]}
    return definition, ObjectValue(name, {each: value for each, _, value in parts})


def same(left: Any, right: Any) -> bool:
    """Equal in value and in type, all the way down."""
    if isinstance(left, ObjectValue):
        return (
            isinstance(right, ObjectValue)
            and left.type_name == right.type_name
            and list(left) == list(right)
            and all(same(left[name], right[name]) for name in left)
        )
    if type(left) is tuple:
        return type(right) is tuple and len(left) == len(right) and all(map(same, left, right))
    if type(left) is float and type(right) is float:
        return left == right and math.copysign(1, left) == math.copysign(1, right)
    if isinstance(left, datetime) and isinstance(right, datetime):
        return left == right and left.utcoffset() == right.utcoffset()
    return type(left) is type(right) and bool(left == right)


@looks_at(EXAMPLES * 5, deadline=None)
@given(made=objects())
def test_an_object_of_any_type_survives_storage(made: tuple[Any, ObjectValue]) -> None:
    definition, value = made
    declared = from_definition(definition)
    assert isinstance(declared, ObjectType)
    assert from_definition(declared.definition()) == declared
    fitted = declared.fit(value)
    assert same(fitted, value)
    text = declared.dump(fitted)
    assert same(load_text(declared, text.encode()), value)


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with (
        tempfile.TemporaryDirectory() as folder,
        Hub.open(f"sqlite:///{folder}/hub.db", create=True, durability="fast") as opened,
    ):
        admin = QueueAdmin(opened)
        admin.create_queue_table("t", "ANYDATA")
        admin.create_queue("q", "t")
        admin.start_queue("q")
        yield opened


@looks_at(EXAMPLES, deadline=None)
@given(data=st.data())
def test_anydata_of_any_type_comes_out_of_a_queue_as_it_went_in(hub: Hub, data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(set(WRAPPABLE) - {"XMLTYPE"})), min_size=1, max_size=4))
    given_ = [wrap(data.draw(st.none() | WRAPPABLE[name]), name) for name in names]
    with hub.session() as session:
        session.enqueue_array("q", [Message(each) for each in given_])
        session.commit()
        found = session.dequeue_array("q", DequeueOptions(wait=0), 10)
        session.commit()
    for sent, received in zip(given_, found, strict=True):
        assert isinstance(received.message.body, AnyData)
        assert received.message.body.type_name == sent.type_name
        assert same(received.message.body.value, sent.value)
