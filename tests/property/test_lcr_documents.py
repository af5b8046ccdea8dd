"""Any change record comes back from its XML document as it was, and no document makes the reader crash."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from mgw.gateway.aq.payloads.anydata import wrap
from mgw.transforms.errors import ConversionFailure
from mgw.transforms.lcr import DDL_LCR, ROW, ROW_LCR, lcr_to_xml, xml_to_lcr
from mgw.transforms.objects import AnyData
from mgw.transforms.payloads.sql_types import load_text

# What XML can hold; a carriage return is read as a line feed unless it is escaped, which the writer does.
TEXT = st.text(
    st.characters(codec="utf-8", exclude_characters="\x7f", exclude_categories=("Cc", "Cs", "Cn"))
    | st.just("\n")
    | st.just("\r"),
    max_size=30,
)
NAME = st.text(st.characters(categories=("Lu", "Nd")), min_size=1, max_size=20)
PLAIN = datetime(1, 1, 1), datetime(9999, 12, 31)
VALUES = st.one_of(
    TEXT.map(wrap),
    TEXT.map(lambda text: wrap(text, "NVARCHAR2")),
    st.binary(max_size=40).map(wrap),
    st.integers(-(10**38), 10**38).map(wrap),
    st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-(10**20), max_value=10**20).map(wrap),
    st.floats(allow_nan=False).map(lambda number: wrap(number, "BINARY_DOUBLE")),
    st.datetimes(*PLAIN).map(wrap),
    st.datetimes(*PLAIN).map(lambda moment: wrap(moment.replace(microsecond=0), "DATE")),
    st.datetimes(*PLAIN, timezones=st.just(UTC)).map(wrap),
    st.timedeltas().map(wrap),
    st.integers(-(10**9), 10**9).map(lambda months: wrap(months, "INTERVAL YEAR TO MONTH")),
    st.just(AnyData("SYS.CHAR", None)),
)
UNITS = st.lists(st.fixed_dictionaries({"column_name": NAME, "data": st.none() | VALUES}), min_size=1, max_size=4)
RECORDS = st.fixed_dictionaries(
    {
        "source_database_name": NAME,
        "command_type": st.just("UPDATE"),
        "object_owner": NAME,
        "object_name": NAME,
        "tag": st.none() | st.binary(min_size=1, max_size=10),
        "scn": st.none() | st.integers(0, 2**63),
        "old_values": UNITS,
        "new_values": UNITS,
    }
)


@given(RECORDS)
def test_record_comes_back(record: dict[str, Any]) -> None:
    value = wrap(record, ROW)
    text = lcr_to_xml(value)
    assert xml_to_lcr(text) == value
    assert load_text(ROW_LCR, ROW_LCR.dump(value.value)) == value.value  # its form in the hub


@given(st.text() | st.binary(), st.integers(0, 2000), st.integers(0, 40))
@example("<ROW_LCR><old_values><x/></old_values></ROW_LCR>", 0, 0)
def test_reader_takes_whatever_comes(piece: str | bytes, at: int, gone: int) -> None:
    whole = lcr_to_xml(
        wrap(
            {
                "source_database_name": "S",
                "command_type": "DELETE",
                "object_owner": "O",
                "object_name": "N",
                "old_values": [{"column_name": "C", "data": wrap(datetime(2026, 1, 1))}],
            },
            ROW,
        )
    )
    part = piece if isinstance(piece, str) else piece.decode("latin-1")
    for text in (piece, whole[:at] + part + whole[at + gone :]):
        with contextlib.suppress(ConversionFailure):
            found = xml_to_lcr(text)
            assert found.value.type_name in (ROW_LCR.name, DDL_LCR.name)
