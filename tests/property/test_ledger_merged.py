"""Whatever records of batches say, they come back from a merged row as they were."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mgw.gateway.ledger.merged import Row, expanded, merged
from mgw.gateway.ledger.record import decode, packed

times = st.floats(0, 4e9, allow_subnormal=False)
numbers = st.integers(0, 2**63 - 1)
words = st.text(st.sampled_from('ab/@#."\\{}\u00e9\ud800\n\x01 0123456789'), max_size=30) | st.text(max_size=10)
details = st.lists(words, max_size=4).map("\n".join)


@st.composite
def batches(draw: st.DrawFn) -> list[Row]:
    outbound = draw(st.booleans())
    rows = []
    for number in range(draw(st.integers(1, 5)), draw(st.integers(6, 9))):
        size = draw(st.integers(0, 4))
        planned = draw(st.lists(numbers, min_size=size, max_size=size))
        ids = b"".join(each.to_bytes(8) for each in planned) if outbound else None
        detail = packed(draw(st.dictionaries(words, numbers | words, max_size=3)), draw(details))
        ends = (min(planned), max(planned)) if planned else (None, None)
        head = (7, number, "COMPLETED" if outbound else "RECEIVED", draw(numbers) if outbound else None)
        sums = (draw(numbers), size, 0, draw(st.integers(0, 3)), 0)
        last = (ids, draw(st.none() | st.just(detail)), 0)
        row = Row._make((*head, draw(st.none() | times), draw(times), size, *sums, *ends, *last))
        rows.append(row._replace(digest=row.checksum))
    return rows


@given(batches())
def test_rows_come_back_as_they_were(rows: list[Row]) -> None:
    row = merged(rows)
    back = list(expanded(row))
    assert [decode(each) for each in back] == [decode(each) for each in rows]
    columns = [each._replace(detail=None, digest=0) for each in rows]
    assert [each._replace(detail=None, digest=0) for each in back] == columns
    assert [each.checksum for each in back] == [each.digest for each in back]
    assert (row.number, row.messages) == (rows[-1].number, sum(each.messages for each in rows))


@given(batches(), st.data())
def test_no_byte_of_a_merged_row_can_be_another(rows: list[Row], data: st.DataObject) -> None:
    row = merged(rows)
    assert row.detail is not None
    at = data.draw(st.integers(1, len(row.detail) - 1))
    other = row.detail[:at] + bytes([row.detail[at] ^ data.draw(st.integers(1, 255))]) + row.detail[at + 1 :]
    (back,) = expanded(row._replace(detail=other))
    assert decode(back).faults
