"""Batches in the log, at the trace levels: what costs nothing while nobody asks for it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from mgw.gateway.observe.levels import TRACE_DEBUG_HIGH, TRACE_HIGH, TRACE_LITE

if TYPE_CHECKING:
    from mgw.links.contract import Batch

__all__ = ["trace_begin", "trace_flight", "trace_left", "trace_read", "trace_settled"]

_LOGGER = logging.getLogger("mgw.engine")


class Traced(Protocol):
    """A batch on its way."""

    sequence: int

    @property
    def size(self) -> int:
        """Messages in it."""
        ...

    @property
    def ids(self) -> Sequence[object]:
        """What names each of them."""
        ...


def trace_begin(job: str, positions: object) -> None:
    """An inbound job connects its source."""
    _LOGGER.log(TRACE_LITE, "job %s begins at %s", job, positions or "the position that its source starts at")


def trace_read(job: str, batch: Batch) -> None:
    """An inbound batch was read."""
    if not _LOGGER.isEnabledFor(logging.DEBUG):
        return
    again = sum(delivery.redelivered for delivery in batch.deliveries)
    _LOGGER.debug("job %s read %d messages, %d of them delivered again", job, len(batch.deliveries), again)
    if _LOGGER.isEnabledFor(TRACE_DEBUG_HIGH):
        for delivery in batch.deliveries:
            size = len(delivery.message.body or "") if isinstance(delivery.message.body, str | bytes | None) else "?"
            _LOGGER.log(TRACE_DEBUG_HIGH, "job %s: message %s, body of %s", job, delivery.origin or "?", size)


def trace_settled(job: str) -> None:
    """An inbound batch is in the hub, and settled at its source."""
    _LOGGER.debug("job %s: the batch is stored, and settled at the source", job)


def trace_left(job: str, left: int, again: int) -> None:
    """An outbound job found plans of its predecessor."""
    if left:
        _LOGGER.log(TRACE_LITE, "job %s found %d batches in flight, %d of them are sent again", job, left, again)


def trace_flight(job: str, flight: Traced, what: str) -> None:
    """Something happened to a batch on its way to a link."""
    _LOGGER.log(TRACE_HIGH, "job %s: batch %d of %d messages %s", job, flight.sequence, flight.size, what)
    if _LOGGER.isEnabledFor(TRACE_DEBUG_HIGH):
        ids = ", ".join(map(str, flight.ids))
        _LOGGER.log(TRACE_DEBUG_HIGH, "job %s: batch %d has the messages %s", job, flight.sequence, ids)
