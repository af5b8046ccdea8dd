"""Savepoints of a session: names for places in its transaction that it can go back to."""

from __future__ import annotations

from typing import Generic, TypeVar

from mgw.gateway.aq.errors import SavepointMissing
from mgw.gateway.aq.model import QueueRef

__all__ = ["Held", "Savepoints", "after", "cut", "lengths"]

Mark = TypeVar("Mark")
Held = dict[tuple[QueueRef, int], list[int]]  # queue and consumer -> message ids


class Savepoints(Generic[Mark]):
    """Marks by name, in the order they were set. Names compare case-insensitively; a name set again moves."""

    def __init__(self) -> None:
        self._marks: dict[str, Mark] = {}

    def set(self, name: str, mark: Mark) -> None:
        """Remember the present state under a name."""
        self._marks.pop(name.upper(), None)
        self._marks[name.upper()] = mark

    def back_to(self, name: str) -> Mark:
        """The mark of a name; later ones are forgotten, this one stays.

        Raises:
            SavepointMissing: there is none, or not any more.
        """
        mark = self._find(name)
        for later in list(self._marks)[list(self._marks).index(name.upper()) + 1 :]:
            del self._marks[later]
        return mark

    def release(self, name: str) -> Mark:
        """The mark of a name; it and later ones are forgotten.

        Raises:
            SavepointMissing: there is none, or not any more.
        """
        mark = self.back_to(name)
        del self._marks[name.upper()]
        return mark

    def clear(self) -> None:
        """The transaction ended."""
        self._marks.clear()

    def _find(self, name: str) -> Mark:
        try:
            return self._marks[name.upper()]
        except KeyError:
            raise SavepointMissing(
                f"savepoint {name!r} does not exist",
                cause="it was never set in this transaction, or was released or rolled back",
                cure="set it with savepoint before you roll back to it",
            ) from None


def lengths(held: Held) -> dict[tuple[QueueRef, int], int]:
    """How many messages were taken so far, for :func:`after` and :func:`cut`."""
    return {key: len(ids) for key, ids in held.items()}


def after(held: Held, mark: dict[tuple[QueueRef, int], int]) -> Held:
    """What was taken after a mark."""
    return {key: ids[mark.get(key, 0) :] for key, ids in held.items() if len(ids) > mark.get(key, 0)}


def cut(held: Held, mark: dict[tuple[QueueRef, int], int]) -> Held:
    """Remove, and return, what was taken after a mark."""
    removed = after(held, mark)
    for key in removed:
        del held[key][mark.get(key, 0) :]
    return removed
