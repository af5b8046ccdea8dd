"""Messages that are ready to be stored, as the modules of their way into a queue hand them on."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from mgw.gateway.aq.model import QueueRef
from mgw.gateway.aq.store.statements import Row

__all__ = ["Deviation", "Prepared"]

_NOTHING: Mapping[int, int] = MappingProxyType({})


class Deviation(NamedTuple):
    """Where a message goes: ahead of the message with this number, or of all (None)."""

    reference: int | None


class Prepared(NamedTuple):
    """Messages checked, numbered and addressed, ready to be stored."""

    queue: QueueRef
    rows: list[Row]
    entries: list[Row]
    msgids: list[bytes | None]
    discarded: list[int]
    ready: bool  # some can be taken at once: waiters are to be woken
    seconds: float = 0  # what it took to prepare them
    rule_seconds: float = 0  # of that: the subscribers' rules
    numbered: bool = True  # False: the one row gets its id where it is stored, and its message id then
    deviation: Deviation | None = None  # they go ahead of others
    group: int | None = None  # the transaction group they belong to
    left_out: Mapping[int, int] = _NOTHING  # messages that the rule of a subscriber refused, by consumer
