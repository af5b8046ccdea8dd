"""How many messages the next batch of a job may have: few while few wait, many under load.

A batch costs a transaction or two and a confirmation, however many messages are in it. So batches grow while messages
wait, from MsgBatchSize to the job's option max_batch_size, and shrink when fewer come.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from mgw.links.contract import BATCH_BYTES

__all__ = ["BATCH_BYTES", "Caution", "Sizing", "weight_of", "weights_of"]


@dataclass(frozen=True, slots=True)
class Sizing:
    """The size of the next batch, between ``least`` and ``most``.

    ``full``: the last one was as large as it could be, so more waits. ``weight``: bytes of a message in it, 0 as long
    as none came. For their bytes batches are made smaller than ``most``, never smaller than ``least``.
    """

    least: int
    most: int
    size: int
    full: bool = False
    weight: float = 0.0

    @classmethod
    def between(cls, least: int, most: int) -> Sizing:
        """What a job begins with."""
        return cls(least, max(least, most), least)

    def bounded(self, most: int | None) -> Sizing:
        """The same for a destination that takes no more than ``most``; None: it takes what comes."""
        if most is None or most >= self.most:
            return self
        most = max(self.least, most)
        return replace(self, most=most, size=min(self.size, most))

    def after(self, asked: int, came: int, weight: int) -> Sizing:
        """The next size, when ``came`` of ``asked`` messages came, with ``weight`` bytes together."""
        each = weight / came if came else self.weight
        full = came >= asked
        size = self.size
        if full:
            size = min(self.most, max(2 * size, came))  # several batches may have come at once
        elif 2 * came < size:
            size //= 2
        if each * size > BATCH_BYTES:
            size = int(BATCH_BYTES / each)
        return Sizing(self.least, self.most, max(self.least, size), full, each)

    def within(self, weight: int) -> int | None:
        """How many messages as heavy as the last ones have ``weight`` bytes together; None: nobody knows."""
        return int(weight / self.weight) if self.weight else None


class Caution:
    """The size of batches; after a conversion failure one message at a time, until a largest batch's worth passed."""

    def __init__(self, sizing: Sizing, *, cautious: bool) -> None:
        self.sizing = sizing
        self._left = sizing.most if cautious else 0

    def limit(self) -> int:
        """Messages that the next batch may have."""
        return 1 if self._left else self.sizing.size

    def bound(self, most: int | None) -> None:
        """The destination takes no larger batches; None: it takes what comes."""
        self.sizing = self.sizing.bounded(most)

    def prefers_more(self, room: int) -> bool:
        """Whether larger batches wait than there is room for, so that it costs less to wait until there is more."""
        return not self._left and self.sizing.full and room < self.sizing.size

    def came(self, asked: int, messages: int, weight: int) -> None:
        """So many of ``asked`` messages were there for a batch."""
        if not self._left:
            self.sizing = self.sizing.after(asked, messages, weight)

    def begin(self, messages: int) -> None:
        """One message at a time, until so many have passed, and at least the largest batch's worth."""
        self._left = max(self._left, messages, self.sizing.most)

    def passed(self, messages: int) -> None:
        """So many messages went through; 0: nothing waits any more."""
        self._left = max(0, self._left - messages) if messages else 0


def weight_of(bodies: Iterable[object]) -> int:
    """Bytes of bodies, about: characters count as bytes, fields and objects as little."""
    return sum(weights_of(bodies))


def weights_of(bodies: Iterable[object]) -> list[int]:
    """The bytes of each, in the same way; none for fields and objects."""
    return [len(body) for body in bodies if isinstance(body, (bytes, str))]
