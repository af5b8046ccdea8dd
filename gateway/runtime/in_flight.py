"""What becomes of the messages of an outbound plan that is on its way."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from gateway.aq.transfer import Claimed
from gateway.ledger_record import Completed
from links.placement import Placement

__all__ = ["Flight"]


@dataclass(slots=True)
class Flight:
    """A plan on its way: what becomes of its messages when it is confirmed."""

    sequence: int
    ids: tuple[int, ...]
    sent: int = 0
    consumed: list[int] = field(default_factory=list)
    filtered: list[int] = field(default_factory=list)
    refused: list[Claimed] = field(default_factory=list)
    reasons: dict[int, str] = field(default_factory=dict)  # why they were refused
    expired: dict[int, str] = field(default_factory=dict)  # not sent, for their time was over; with a remark or ""
    sent_before: bool = False  # the sending log proves that the destination has it
    parts: dict[int, int] = field(default_factory=dict)  # how many messages one became, where not one
    sent_at: float = 0.0  # epoch seconds
    confirmed_at: float = 0.0
    placement: Placement | None = None

    @property
    def ends(self) -> bool:
        """Whether the plan is done with some of its messages, whatever becomes of those that were refused."""
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
        )
