"""Many rows in few statements of SQLite, where every parameter and every statement costs more than the row itself.

What all rows of a batch have in common is not bound again for every row: a column in which all are NULL is left out (no
table of the hub has defaults), and a small number is part of the statement. What differs is bound for several rows at
once. Stored is the same as with one statement a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

__all__ = ["FEW", "insertion", "insertions"]

FEW = 4  # rows, below which it does not pay to look at them
_SIZES = (20, 5, 1)  # rows in one statement
_PARAMETERS = 999  # every build of SQLite takes so many
_LITERALS = range(10)
_BOUND = -1


@lru_cache(maxsize=64)
def insertion(table: str, columns: tuple[str, ...]) -> str:
    """The statement for one row."""
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


def insertions(table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Iterator[tuple[str, list[Any]]]:
    """Statements that store the rows in their order, each with the lists of parameters it is to be run with."""
    number = len(rows)
    common: list[int | None] = []
    differing = []
    for values in zip(*rows, strict=True):
        first = values[0]
        if (first is None or (type(first) is int and first in _LITERALS)) and values.count(first) == number:
            common.append(first)
        else:
            common.append(_BOUND)
            differing.append(values)
    if not differing:
        yield insertion(table, tuple(columns)), list(rows)
        return
    width = len(differing)
    flat = list(chain.from_iterable(zip(*differing, strict=True)))
    start = 0
    for size in _SIZES:
        step = size * width
        if step > _PARAMETERS and size > 1:
            continue
        if end := (len(flat) - start) // step * step:
            parameters = [flat[at : at + step] for at in range(start, start + end, step)]
            yield _insertion(table, tuple(columns), tuple(common), size), parameters
            start += end


@lru_cache(maxsize=256)
def _insertion(table: str, columns: tuple[str, ...], common: tuple[int | None, ...], size: int) -> str:
    """``common``: None for a column that is left out, ``_BOUND`` for one that is bound, else its value."""
    there = [(name, value) for name, value in zip(columns, common, strict=True) if value is not None]
    row = ", ".join("?" if value == _BOUND else str(value) for _, value in there)
    return f"INSERT INTO {table} ({', '.join(name for name, _ in there)}) VALUES {', '.join([f'({row})'] * size)}"
