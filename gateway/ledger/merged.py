"""Several rows of the ledger in one: the stored form of records of small batches, and back.

A small batch says little, and a row for each costs more than what it says. A merged row holds the rows of batches that
follow each other, of one job and one kind, column by column, each value as its difference from the one before. Its own
columns say what is true of all: the number and the sequence of the last, when the first began and the last ended, sums,
the smallest and the largest message number, and one checksum over everything, times included. The rows come back as
they were, except that a detail is never compressed.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, islice
from operator import attrgetter
from struct import pack, unpack
from typing import Any, NamedTuple

from mgw.gateway.ledger.record import MERGED, Sums, digest, text_of

__all__ = ["Row", "expanded", "merged"]

_LEVEL = 6  # of zlib: 9 takes three times as long for 2 % less
_NUMBER = re.compile(r"(?<![0-9A-Za-z])(0|[1-9][0-9]{0,17})(?![0-9A-Za-z])")


class Row(NamedTuple):
    """A row of the table, as it is stored for one batch or for several."""

    job_id: int
    number: int
    kind: str
    sequence: int | None
    started: float | None
    finished: float
    messages: int
    propagated: int
    exceptioned: int
    filtered: int
    discarded: int
    suppressed: int
    first_id: int | None
    last_id: int | None
    message_ids: bytes | None
    detail: bytes | None
    digest: int

    @property
    def sums(self) -> Sums:
        """What the counters say."""
        return self.propagated, self.exceptioned, self.filtered, self.discarded, self.suppressed

    @property
    def checksum(self) -> int:
        """What :attr:`digest` must be."""
        head = (self.job_id, self.kind, self.sequence, self.messages)
        return digest(head, self.sums, bytes(self.message_ids or b""), bytes(self.detail or b""))


_COLUMNS = ("sequence", "messages", "first_id", "last_id")
_SUMS = ("propagated", "exceptioned", "filtered", "discarded", "suppressed")


def merged(rows: Sequence[Row]) -> Row:
    """The row that says what ``rows`` say: one job, one kind (not BREAK), numbers without gaps, none merged before."""
    first, last = rows[0], rows[-1]
    columns: dict[str, Any] = {name: _deltas(map(attrgetter(name), rows)) for name in (*_COLUMNS, *_SUMS)}
    ends = [_bits(row.finished) for row in rows]
    columns["finished"] = _deltas(ends)
    columns["started"] = [
        None if row.started is None else _bits(row.started) - end for row, end in zip(rows, ends, strict=True)
    ]
    ids = [row.message_ids and bytes(row.message_ids) for row in rows]
    columns["ids"] = _deltas(chain.from_iterable(_unpacked_ids(each) for each in ids))
    columns["planned"] = [None if each is None else len(each) // 8 for each in ids]
    columns["details"] = _Texts().shortened(rows)
    text = json.dumps({"first": first.number} | columns, separators=(",", ":"), check_circular=False)
    detail = MERGED + zlib.compress(text.encode(), _LEVEL)
    numbers = [each for row in rows for each in (row.first_id, row.last_id) if each is not None]
    began = min(row.finished if row.started is None else min(row.started, row.finished) for row in rows)
    ended = max(row.finished for row in rows)
    head = (first.job_id, last.number, first.kind, last.sequence, began, ended)
    sums = (sum(getattr(row, name) for row in rows) for name in ("messages", *_SUMS))
    row = Row._make((*head, *sums, min(numbers, default=None), max(numbers, default=None), None, detail, 0))
    return row._replace(digest=row.checksum)


def expanded(stored: Any) -> Iterator[Row]:
    """The rows of single batches that a row of the table holds: itself, or those that were merged into it.

    A merged row that was changed gives itself: what is in it cannot be trusted, and it does not fit its checksum.
    """
    row = Row(*stored)
    if row.detail is None or bytes(row.detail[:1]) != MERGED:
        yield row
        return
    rows = _intact(row)
    if rows is None:
        yield row
    else:
        yield from rows


def _intact(row: Row) -> list[Row] | None:
    if row.digest != row.checksum or row.detail is None:
        return None
    try:
        rows = _rows(row, json.loads(zlib.decompress(bytes(row.detail[1:]))))
    except (ValueError, KeyError, TypeError, zlib.error):
        return None
    if not rows or rows[-1].number != row.number or sum(each.messages for each in rows) != row.messages:
        return None
    return rows


def _rows(row: Row, columns: dict[str, Any]) -> list[Row]:
    ends = _values(columns["finished"])
    starts = [None if ago is None else end + ago for ago, end in zip(columns["started"], ends, strict=True)]
    numbers = iter(_values(columns["ids"]))
    plans = [None if count is None else list(islice(numbers, count)) for count in columns["planned"]]
    single = zip(
        *(_values(columns[name]) for name in _COLUMNS),
        zip(*(_values(columns[name]) for name in _SUMS), strict=True),
        starts,
        ends,
        plans,
        _Texts().restored(columns["details"]),
        strict=True,
    )
    found = []
    for at, (sequence, messages, first_id, last_id, sums, start, end, plan, detail) in enumerate(single):
        ids = None if plan is None else pack(f">{len(plan)}q", *plan)
        times = None if start is None else _time(start), _time(end)
        head = (row.job_id, columns["first"] + at, row.kind, sequence, *times, messages)
        each = Row._make((*head, *sums, first_id, last_id, ids, detail, 0))
        found.append(each._replace(digest=each.checksum))
    return found


# ------------------------------------------------------------------------------------------------------------- columns


def _deltas(values: Iterable[int | None]) -> list[int | None]:
    before, found = 0, list[int | None]()
    for value in values:
        if value is None:
            found.append(None)
        else:
            found.append(value - before)
            before = value
    return found


def _values(deltas: Sequence[int | None]) -> list[Any]:
    reached = accumulate(delta for delta in deltas if delta is not None)
    return [None if delta is None else next(reached) for delta in deltas]


def _bits(time: float) -> int:
    """A time as a whole number, without loss; times after 1970 keep their order."""
    return int(unpack(">q", pack(">d", time))[0])


def _time(bits: int) -> float:
    return float(unpack(">d", pack(">q", bits))[0])


def _unpacked_ids(ids: bytes | None) -> tuple[int, ...]:
    return unpack(f">{len(ids) // 8}q", ids) if ids else ()


class _Texts:
    """Details with each number as its difference from the last one that stood between the same words."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], int] = {}

    def shortened(self, rows: Iterable[Row]) -> list[list[str | int] | None]:
        """Words and numbers in turns."""
        found: list[list[str | int] | None] = []
        for row in rows:
            parts: list[str | int] | None = None
            if row.detail is not None:
                parts = list(_NUMBER.split(text_of(bytes(row.detail))))
                for at, place in _places(parts):
                    number = int(parts[at])
                    parts[at] = number - self._last.get(place, 0)
                    self._last[place] = number
            found.append(parts)
        return found

    def restored(self, shortened: Iterable[list[Any] | None]) -> Iterator[bytes | None]:
        """The details, none of them compressed."""
        for parts in shortened:
            if parts is None:
                yield None
                continue
            for at, place in _places(parts):
                number = self._last[place] = self._last.get(place, 0) + parts[at]
                parts[at] = str(number)
            yield "".join(parts).encode(errors="surrogatepass")


def _places(parts: Sequence[Any]) -> Iterator[tuple[int, tuple[str, str]]]:
    """Where numbers are, and between which words."""
    return ((at, (parts[at - 1], parts[at - 3] if at > 1 else "")) for at in range(1, len(parts), 2))
