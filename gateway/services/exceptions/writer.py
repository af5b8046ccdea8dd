"""Writes messages of a desk to a foreign queue."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from mgw.links.contract import Destination, Encoded
from mgw.transforms.message import Message

__all__ = ["Writer"]


class Writer:
    """A destination that is connected when the first message is written."""

    def __init__(self, destination: Destination) -> None:
        self._destination = destination
        self._connected = False
        self._sequence = 0

    def connect(self) -> None:
        """Connect, unless it is."""
        if not self._connected:
            self._destination.connect()
            self._connected = True

    def encode(self, message: Message) -> Encoded:
        """See :meth:`mgw.links.contract.Destination.encode`."""
        return self._destination.encode(message)

    def write(self, encoded: Sequence[Encoded]) -> None:
        """Returns when all of them are confirmed."""
        self._sequence += 1
        self._destination.publish(self._sequence, encoded)
        while (self._destination.confirmed(1.0) or 0) < self._sequence:
            pass  # it gives up by itself: see Destination.confirmed

    def stored(self, count: int) -> Collection[int]:
        """After an error: which of the last batch are confirmed."""
        return self._destination.stored(self._sequence, count)

    def keep(self) -> None:
        """Keep the connection alive."""
        if self._connected:
            self._destination.confirmed(0)

    def close(self) -> None:
        """Disconnect."""
        self._destination.close()
