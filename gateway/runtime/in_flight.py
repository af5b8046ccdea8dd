"""What happens to the messages of a batch that is on its way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from mgw.gateway.aq import Claimed, PutResult
from mgw.gateway.ledger.record import Completed
from mgw.links.placement import Placement
from mgw.transforms.errors import ConversionFailure
from mgw.transforms.message import Message

__all__ = ["Flight", "Parked"]


class Parked(NamedTuple):
    """A message that waits: for another attempt after ``failure``, or (None) behind another one of its key."""

    key: str
    failure: ConversionFailure | None


@dataclass(slots=True)
class Flight:
    """A plan on its way: what happens to its messages when it is confirmed. ``unrouted`` are consumed, too."""

    sequence: int
    ids: tuple[int, ...]
    sent: int = 0
    consumed: list[int] = field(default_factory=list)
    filtered: list[int] = field(default_factory=list)
    refused: list[Claimed] = field(default_factory=list)
    reasons: dict[int, str] = field(default_factory=dict)  # why they were refused
    expired: dict[int, str] = field(default_factory=dict)  # not sent, for their time was over; with a remark or ""
    parked: dict[int, Parked] = field(default_factory=dict)  # not sent: they wait, alone or behind one of their key
    sent_before: bool = False  # the sending log proves that the destination has it
    parts: dict[int, int] = field(default_factory=dict)  # how many messages one became, where not one
    sent_at: float = 0.0  # epoch seconds
    confirmed_at: float = 0.0
    planned_at: float = 0.0
    origin: float = 0.0  # when the first of its messages began its way
    placement: Placement | None = None
    messages: list[Message] = field(default_factory=list)  # to be put into a queue of the hub
    claimed: Sequence[Claimed] = ()  # what they were made of
    unrouted: list[int] = field(default_factory=list)  # dropped: no subscriber of the queue wants them

    @property
    def size(self) -> int:
        """Messages in the plan."""
        return len(self.ids)

    def outgoing(self) -> Sequence[Message]:
        """Messages to be put into a queue of the hub."""
        return self.messages

    def was_put(self, put: PutResult) -> None:
        """The queue has them, in the transaction that is open."""
        left = {self.owner(index) for index in put.discarded}
        if left:
            left -= {self.owner(index) for index, msgid in enumerate(put.msgids) if msgid is not None}
        self.unrouted = sorted(left)

    def owner(self, index: int) -> int:
        """Number of the message that the outgoing message with that index was made of."""
        filtered, at = set(self.filtered), 0
        for message_id in self.consumed:
            at += 0 if message_id in filtered else self.parts.get(message_id, 1)
            if index < at:
                return message_id
        raise IndexError(index)

    def leave_out(self, message_id: int) -> None:
        """A message is not put into the queue after all."""
        filtered, start = set(self.filtered), 0
        for each in self.consumed:
            count = 0 if each in filtered else self.parts.get(each, 1)
            if each == message_id:
                del self.messages[start : start + count]
                break
            start += count
        self.consumed.remove(message_id)
        self.parts.pop(message_id, None)
        self.sent = len(self.messages)

    @property
    def ends(self) -> bool:
        """Whether the plan is done with some of its messages, whatever happens to those that were refused."""
        return bool(self.consumed or self.expired)

    def without_refused(self) -> Flight:
        """What is complete although the exception queue does not take the rest."""
        ids = tuple(number for number in self.ids if number not in self.reasons)
        return replace(self, ids=ids, refused=[], reasons={})

    def ended(self) -> Completed:
        """For the ledger."""
        return Completed(
            self.sequence,
            self.ids,
            self.filtered,
            self.reasons,
            self.sent_before,
            self.sent_at,
            self.confirmed_at,
            self.placement,
            self.parts,
            self.expired,
            self.unrouted,
        )
