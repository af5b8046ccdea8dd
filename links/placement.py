"""Where the messages of a batch are at their destination: coordinates, kept as ranges."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import NamedTuple, TypeVar

__all__ = ["NOWHERE", "Placement", "placed", "runs_of"]

NOWHERE = -1  # number of a message that the system gave none

P = TypeVar("P", int, bytes, str)


class Placement(NamedTuple):
    """Where the messages of one batch are, in the order in which they were published.

    ``places``: what coordinates begin with, sign included, as in :attr:`links.contract.Delivery.origin`: "orders/0@"
    for numbers that name a message forever, "orders#" for those of one connection. ``runs``: for each place, numbers
    in ranges: first, count, first, count, ... ``order``: index into ``places`` for each message; empty with one place.
    """

    places: Sequence[str]
    runs: Sequence[Sequence[int]]
    order: Sequence[int] = ()

    def coordinates(self) -> list[str]:
        """One text per message ("orders/0@4711"); without sign and number where the system gave none."""
        if len(self.places) == 1:
            return _spelled(self.places[0], self.runs[0])
        spelled = [iter(_spelled(place, runs)) for place, runs in zip(self.places, self.runs, strict=True)]
        return [next(spelled[index]) for index in self.order]


def _spelled(place: str, runs: Sequence[int]) -> list[str]:
    found: list[str] = []
    for first, count in zip(runs[::2], runs[1::2], strict=True):
        if first < 0:
            found.extend(repeat(place[:-1], count))
        else:
            found.extend([f"{place}{number}" for number in range(first, first + count)])
    return found


def runs_of(numbers: Sequence[int]) -> list[int]:
    """Numbers as ranges: first, count, first, count, ... Ascending numbers without gaps are one range."""
    count = len(numbers)
    if count and numbers[-1] - numbers[0] == count - 1 and numbers[0] >= 0:
        # Given in ascending order by every system, so the ends tell the whole.
        return [numbers[0], count]
    runs: list[int] = []
    following = None
    for number in numbers:
        if number == following or (runs and number == runs[-2] == NOWHERE):
            runs[-1] += 1
        else:
            runs += (number, 1)
        following = number + 1 if number >= 0 else None
    return runs


def placed(keys: Sequence[P], numbers: Sequence[int], names: dict[P, str]) -> Placement:
    """Numbers given in several places: ``keys`` says in which each, ``names`` what its coordinates begin with."""
    known = list(dict.fromkeys(keys))
    if len(known) == 1:
        return Placement([names[known[0]]], [runs_of(numbers)])
    index = {key: at for at, key in enumerate(known)}
    order = [index[key] for key in keys]
    runs = [runs_of([number for at, number in zip(order, numbers, strict=True) if at == one]) for one in index.values()]
    return Placement([names[key] for key in known], runs, order)
