"""Keys whose messages wait behind one that cannot be delivered."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import ClassVar

from mgw.gateway.observe.events import Event

__all__ = ["KeyGivenUp", "KeyHastened", "KeyParked", "KeyReleased"]


@dataclass(frozen=True, slots=True)
class KeyParked(Event):
    """A message cannot be delivered; those of its key wait behind it."""

    level: ClassVar[int] = logging.WARNING
    key: str
    reason: str

    def text(self) -> str:
        """The words for it."""
        return f"job {self.object}: the messages with key {self.key!r} are parked behind one that failed: {self.reason}"


@dataclass(frozen=True, slots=True)
class KeyReleased(Event):
    """The first message of a parked key is done with; the others follow."""

    key: str
    messages: int

    def text(self) -> str:
        """The words for it."""
        return f"job {self.object}: key {self.key!r} is not parked any more; {self.messages} message(s) follow"


@dataclass(frozen=True, slots=True)
class KeyHastened(Event):
    """Somebody had the first message of parked keys tried at once."""

    by: str
    keys: tuple[str, ...]

    def text(self) -> str:
        """The words for it."""
        return f"job {self.object}: {len(self.keys)} parked key(s) tried at once by {self.by}: {', '.join(self.keys)}"


@dataclass(frozen=True, slots=True)
class KeyGivenUp(Event):
    """Somebody gave the first message of parked keys up: it goes to the exception queue, the others follow."""

    level: ClassVar[int] = logging.WARNING
    by: str
    keys: tuple[str, ...]

    def text(self) -> str:
        """The words for it."""
        return (
            f"job {self.object}: the first message of {len(self.keys)} parked key(s) given up by {self.by}: "
            f"{', '.join(self.keys)}"
        )
