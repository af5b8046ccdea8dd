"""Where a page of an exception queue ends, so that the next one begins there although messages have gone meanwhile.

A queue gives its messages no names and no numbers that last: there is their content and their order. Messages leave it
anywhere and come at its end only. So a place tells how many messages were before it, with a sum over all of them, and
knows some of them again: the first one behind it, and those before it at distances of 0, 1, 3, 7 and so on. What cannot
be known again, because identical messages may be in the queue, counts by the sum alone.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

from mgw.gateway.services.exceptions.contract import NoSuchPlace

__all__ = ["LogMark", "Mark", "Trail"]

_MOST_BYTES = 1 << 20  # of the offsets of a place, which come from a caller
_LETTERS = 10  # of digests and sums in a place: of 10,000 messages no two are likely to share them


class _Anchor(NamedTuple):
    """A message before a place: how many are before it, itself included, a sum over them, and its digest or ""."""

    rank: int
    sum: str
    digest: str


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a queue; ``next`` is the digest of the first message behind it, or "". The latest anchor comes first.

    The text of one is ``q COUNT NEXT RANK.SUM.DIGEST ...``.
    """

    count: int
    next: str
    anchors: Sequence[_Anchor]

    @classmethod
    def read(cls, text: str) -> Mark:
        """The place that :meth:`__str__` gave.

        Raises:
            NoSuchPlace: it is none.
        """
        kind, *parts = text.split(" ")
        try:
            if kind == "q":
                count, behind, *anchors = parts
                split = [each.split(".") for each in anchors]
                return cls(_number(count), behind, [_Anchor(_number(rank), *both) for rank, *both in split])
        except (ValueError, TypeError):
            pass
        raise NoSuchPlace(text)

    def __str__(self) -> str:
        anchors = [f"{each.rank}.{each.sum}.{each.digest}" for each in self.anchors]
        return " ".join(["q", str(self.count), self.next, *anchors])


class Trail:
    """The messages of a queue as far as they were read, in their order."""

    def __init__(self) -> None:
        self._digests: list[str] = []
        self._sums = [b""]
        self._known: list[bool] = []

    def __len__(self) -> int:
        return len(self._digests)

    def add(self, digest: str, *, single: bool) -> None:
        """The next message; ``single``: its content says which one it is, so that no other one has the same."""
        self._digests.append(digest[:_LETTERS])
        self._sums.append(blake2b(self._sums[-1] + digest.encode(), digest_size=16).digest())
        self._known.append(single)

    def mark(self, count: int) -> Mark:
        """The place behind the first so many messages."""
        times = Counter(self._digests)
        known = [
            digest if single and times[digest] == 1 else ""
            for digest, single in zip(self._digests, self._known, strict=True)
        ]
        ranks, step = [], 1
        while count > 0:
            ranks.append(count)
            count, step = count - step, 2 * step
        anchors = [_Anchor(rank, self._sum(rank), known[rank - 1]) for rank in ranks]
        first = ranks[0] if ranks else 0
        return Mark(first, known[first] if first < len(known) else "", anchors)

    def _sum(self, rank: int) -> str:
        return self._sums[rank].hex()[:_LETTERS]

    def begin(self, mark: Mark) -> int:
        """How many of the messages are before a place now: none of the others was. Where what is known of the place has
        gone, some that were before it count as behind it."""
        same = next((each.rank for each in mark.anchors if each.rank <= len(self) and self._is_same(each)), 0)
        if same == mark.count:
            return same
        now = self._digests[: mark.count + 1]  # no message goes back in a queue
        if mark.next in now:
            return max(same, now.index(mark.next))
        for each in mark.anchors:
            if each.digest in now[: each.rank]:
                return max(same, now.index(each.digest) + 1)
        return same

    def _is_same(self, anchor: _Anchor) -> bool:
        return self._sum(anchor.rank) == anchor.sum


@dataclass(frozen=True, slots=True)
class LogMark:
    """A place in a log: which offset is the next of each partition, in the log of that identity.

    Attributes:
        offsets: partitions and offsets, by partition.

    The text of one is ``l IDENTITY PACKED``. It is part of an address, and a topic may have a thousand partitions. So
    what is packed names a partition only where one is left out before it: ``OFFSET PARTITION.OFFSET OFFSET ...``.
    """

    identity: str
    offsets: Sequence[tuple[int, int]]

    @classmethod
    def read(cls, text: str) -> LogMark:
        """The place that :meth:`__str__` gave.

        Raises:
            NoSuchPlace: it is none.
        """
        kind, *parts = text.split(" ")
        try:
            if kind == "l":
                identity, packed = parts
                return cls(identity, list(_offsets(_unpacked(packed))))
        except ValueError:
            pass
        raise NoSuchPlace(text)

    @staticmethod
    def named(identity: str) -> str:
        """How a place names the identity of a log."""
        return blake2b(identity.encode(), digest_size=6).hexdigest()

    def __str__(self) -> str:
        words, expected = [], 0
        for part, offset in self.offsets:
            words.append(f"{offset}" if part == expected else f"{part}.{offset}")
            expected = part + 1
        packed = base64.urlsafe_b64encode(zlib.compress(" ".join(words).encode(), 9))
        return f"l {self.identity} {packed.decode().rstrip('=')}"


def _unpacked(text: str) -> str:
    """The words that :class:`LogMark` packed.

    Raises:
        ValueError: it is nothing that was packed.
    """
    try:
        packed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        inflater = zlib.decompressobj()
        words = inflater.decompress(packed, _MOST_BYTES)
    except (binascii.Error, zlib.error):
        raise ValueError(text) from None
    if not inflater.eof or inflater.unused_data:
        raise ValueError(text)
    return words.decode("ascii")


def _offsets(words: str) -> Iterator[tuple[int, int]]:
    expected = 0
    for word in words.split():
        part, _, offset = word.rpartition(".")
        found = _number(part) if part else expected
        if found < expected:
            raise ValueError(word)
        yield found, _number(offset)
        expected = found + 1


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise ValueError(text)
    return int(text)
