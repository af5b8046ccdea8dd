"""What a queue's reader remembers of messages that the hub has and the broker may deliver again: decisions only.

AMQP acknowledgements are not answered, so after a crash nobody can tell from the messages alone which of several equal
ones is known. Two things make it decidable:

* The hub stores, with every batch, a digest of each of its messages. Two marks, ``p0`` and ``p1``, take turns, each
  ``<sequence>:<digests>``: a batch is stored only when the broker has committed the last but one.
* The broker stores, in the transaction that acknowledges the batch, a record with the same sequence. It is in the
  broker if and only if the acknowledgements are.

At a connect the batches that the record proves acknowledged are forgotten; the digests of the others are what may come
again. Only a message that comes with the broker's *redelivered* flag is compared with them, and each of them suppresses
one message of this connection. A suppressed message belongs to the batch it came with like any other, so it is known
again after the next crash. What has not come again yet is carried over (mark ``epoch``).

The position ``seq`` holds ``<sequence of the last batch>:<record that the broker has committed before it is stored>``.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Mapping, Sequence

from mgw.links.contract import Mark, Position
from mgw.transforms.amqp.identity import DIGEST_SIZE

__all__ = ["LogAhead", "LogBehind", "ReceivingLog"]

_SEQUENCE, _EPOCH = "seq", "epoch"
_SLOTS = ("p0", "p1")


class LogAhead(ValueError):
    """The broker's record is newer than anything the hub stored."""


class LogBehind(ValueError):
    """The broker's record is older than the hub has seen it, or gone."""


class ReceivingLog:
    """The log of one job, from one connect to the next.

    Args:
        stored: what the hub has, partition -> value.
        acknowledged: the broker's record, None when there is none.
        sure: the broker has not been restarted since; otherwise it may have kept acknowledgements without their record,
            and a digest of a message that is gone could suppress an equal one: rather stored twice than lost.

    Raises:
        LogAhead, LogBehind: the two logs do not belong together any more.
        ValueError: the stored log is not one that this class wrote.
    """

    def __init__(self, stored: Mapping[str, str], acknowledged: int | None, *, sure: bool = True) -> None:
        self._stored = stored.get(_SEQUENCE)
        self._record = acknowledged or 0
        if self._stored is None:
            self.sequence = self._record  # a new log, or one that an operator reset: the broker's is taken as it is
        else:
            last, _, seen = self._stored.partition(":")
            self.sequence = int(last)
            if self._record > self.sequence:
                raise LogAhead(f"{self._record} > {self.sequence}")
            if self._record < int(seen):
                raise LogBehind(f"{self._record} < {seen}")
        self._epoch: Counter[bytes] = Counter(_digests(stored.get(_EPOCH, "")))
        self._obsolete = {name for name in _SLOTS if name in stored}
        for name in self._obsolete:
            number, _, digests = stored[name].partition(":")
            if int(number) > self._record:
                self._epoch.update(_digests(digests))
        if not sure:
            self._epoch.clear()
        self._proven = self._record
        self._began = self.sequence
        self._changed = bool(self._epoch) or _EPOCH in stored  # what is carried over must be stored again

    @property
    def awaited(self) -> int:
        """How many messages may come again."""
        return self._epoch.total()

    def knows(self, digest: bytes) -> bool:
        """Whether the hub has this redelivered message; says so once for each copy it has."""
        if not self._epoch.get(digest):
            return False
        self._epoch[digest] -= 1
        self._changed = True
        return True

    def batch(self, digests: Sequence[bytes]) -> tuple[Sequence[Position], Sequence[Mark]]:
        """The next batch, suppressed messages included: what the hub must store together with it."""
        self.sequence += 1
        # Batches are read ahead. When this one is stored, the last but one of this connection is committed.
        committed = self.sequence - len(_SLOTS)
        seen = committed if committed > self._began else self._proven
        after = f"{self.sequence}:{max(seen, self._proven)}"
        position = Position(_SEQUENCE, self._stored, after)
        self._stored = after
        slot = _SLOTS[self.sequence % 2]
        marks = [Mark(slot, f"{self.sequence}:{b64encode(b''.join(digests)).decode()}")]
        if self._obsolete:  # carried over or proven; the first batch of a connection
            marks += [Mark(name, None) for name in self._obsolete if name != slot]
            self._obsolete = set()
        if self._changed:
            self._changed = False
            self._epoch = +self._epoch
            carried = b64encode(b"".join(self._epoch.elements())).decode()
            marks.append(Mark(_EPOCH, carried or None))
        return (position,), marks

    def acknowledged(self, sequence: int) -> None:
        """The broker has committed the acknowledgements and the record of a batch."""
        self._proven = sequence


def _digests(text: str) -> list[bytes]:
    data = b64decode(text, validate=True)
    if len(data) % DIGEST_SIZE:
        raise ValueError(f"{len(data)} bytes of digests")
    return [data[at : at + DIGEST_SIZE] for at in range(0, len(data), DIGEST_SIZE)]
