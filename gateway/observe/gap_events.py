"""What an agent reports when messages of a source are gone that a job had not read yet."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from mgw.gateway.observe.events import Event
from mgw.gateway.observe.moments import at
from mgw.transforms.gap import Gap, named, ranges_of

__all__ = ["MISSED", "MessagesMissing", "stopped", "unbounded", "went_on"]

MISSED = "the job goes on with what comes from now on"  # what a job did that had nothing to decide


@dataclass(frozen=True, slots=True)
class MessagesMissing(Event):
    """The source of a job no longer holds messages that the job had not read: which ones, and what the job did."""

    level: ClassVar[int] = logging.ERROR
    source: str
    gaps: tuple[Gap, ...]
    done: str

    def text(self) -> str:
        """The words for it."""
        return f"job {self.object}: messages of {self.source} are missing: {ranges_of(self.gaps)}; {self.done}"


def stopped(job: str) -> str:
    """What a job did that waits for an operator."""
    return f"the job stopped; to go on behind what is missing: mgw agents cleanup RESET_SUB_MISSING_MESSAGE {job}"


def went_on(gaps: Sequence[Gap], why: str) -> str:
    """Where a job goes on, partition by partition. ``why``: who decided that."""
    places = [named(gap, _place(gap)) for gap in gaps]
    return f"{why}: the job goes on at {', '.join(places)}; what else it reads goes on where it was"


def unbounded(gap: Gap, heard: float | None, now: float) -> Gap:
    """A gap without a range, with the moment (epoch seconds) since which messages may be missing."""
    known = "the hub had nothing of it" if heard is None else f"the hub last heard of it {at(heard, now)}"
    return replace(gap, cause=f"{gap.cause}; {known}, what was sent since then may be missing")


def _place(gap: Gap) -> str:
    return "the oldest message that is left" if gap.next is None else f"offset {gap.next}"
