"""A range of messages that a source no longer holds, although a job had not read them yet."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby

__all__ = ["Gap", "begins_again", "causes_of", "from_text", "named", "ranges_of", "to_text"]


@dataclass(frozen=True, slots=True)
class Gap:
    """What is missing in one partition, and where a job goes on behind it.

    Attributes:
        partition: as the receiving log names it; empty for a source that has none.
        first: first offset that is missing; None: nobody can tell.
        last: the last one, itself included; None: nobody can tell.
        cause: why it is missing, in plain words.
        next: offset at which a job goes on that gives the range up; None: at the oldest message that is left then.
        position: the same as the receiving log keeps it (:class:`mgw.links.contract.Position`); None: no position.
    """

    partition: str
    first: int | None
    last: int | None
    cause: str
    next: int | None = None
    position: str | None = None

    @property
    def count(self) -> int | None:
        """How many offsets are missing: at most so many messages; None: nobody can tell."""
        return None if self.first is None or self.last is None else self.last - self.first + 1


def begins_again(gap: Gap) -> bool:
    """Whether a job that gives the range up goes on at offsets that it may have read before."""
    return gap.next is None or gap.first is None or gap.next <= gap.first


def to_text(gap: Gap) -> str:
    """As the hub keeps it."""
    return json.dumps(asdict(gap))


def from_text(text: str) -> Gap:
    """What :func:`to_text` wrote.

    Raises:
        ValueError, TypeError: somebody else wrote it.
    """
    return Gap(**json.loads(text))


def _range(gap: Gap) -> str:
    if gap.first is None:
        return "which messages, nobody can tell"
    if gap.last is None:
        return f"offset {gap.first} and what followed it"
    if gap.count == 1:
        return f"offset {gap.first} (at most 1 message)"
    return f"offsets {gap.first} to {gap.last} (at most {gap.count} messages)"


def named(gap: Gap, what: str) -> str:
    """``what`` with the partition before it, where the source has partitions."""
    return f"partition {gap.partition}: {what}" if gap.partition else what


def ranges_of(gaps: Sequence[Gap]) -> str:
    """Every range with its partition and size, and all of them with their cause."""
    groups = groupby(sorted(gaps, key=lambda gap: gap.cause), key=lambda gap: gap.cause)
    return "; ".join(f"{', '.join(named(gap, _range(gap)) for gap in each)} ({cause})" for cause, each in groups)


def causes_of(gaps: Iterable[Gap]) -> str:
    """What happened to them, each cause once."""
    return "; ".join(dict.fromkeys(gap.cause for gap in gaps))
