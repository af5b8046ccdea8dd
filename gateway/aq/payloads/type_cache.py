"""Definitions of types that a process has read; what an id means never changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from threading import Lock

from mgw.transforms.payloads.sql_types import SqlType

__all__ = ["TypeCache"]


class TypeCache:
    """Types by id, those used last. Any thread may ask and add.

    There are two generations. When the young one is full it becomes the old one, which is forgotten; what is asked for
    meanwhile moves into the young one. So a reader that finds a type here still finds it while ``limit`` others are
    added.

    Args:
        fixed: types that are never forgotten.
        limit: how many of the others a generation holds, at least one batch of them.
    """

    def __init__(self, fixed: Mapping[int, SqlType], limit: int) -> None:
        self._fixed = dict(fixed)
        self._limit = limit
        self._young: dict[int, SqlType] = {}
        self._old: dict[int, SqlType] = {}
        self._lock = Lock()

    def get(self, type_id: int) -> SqlType | None:
        """The type with this id, or None."""
        return self._fixed.get(type_id) or self._young.get(type_id) or self._old.get(type_id)

    def missing(self, ids: Iterable[int]) -> list[int]:
        """Those of the ids that are not here; the others are kept for a while."""
        lacking = []
        for each in ids:
            if each in self._fixed or each in self._young:
                continue
            known = self._old.get(each)
            if known is None:
                lacking.append(each)
            else:
                self.add({each: known})
        return lacking

    def add(self, found: Mapping[int, SqlType]) -> None:
        """Remember types."""
        with self._lock:
            if len(self._young) >= self._limit:
                self._old, self._young = self._young, {}
            self._young.update(found)

    def forget(self) -> None:
        """Forget all but the fixed ones."""
        with self._lock:
            self._young, self._old = {}, {}
