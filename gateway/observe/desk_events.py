"""What somebody did with the messages of exception queues: the audit of the exception desk."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import ClassVar

from mgw.gateway.observe.events import Event

__all__ = ["ExceptionEdited", "ExceptionsDiscarded", "ExceptionsReplayed"]


@dataclass(frozen=True, slots=True)
class ExceptionsReplayed(Event):
    """Somebody had messages of an exception queue tried again."""

    exception_queue: str
    target: str
    by: str
    messages: tuple[str, ...]

    def text(self) -> str:
        """The words for it."""
        return (
            f"job {self.object}: {len(self.messages)} message(s) replayed from {self.exception_queue} to {self.target} "
            f"by {self.by}: {', '.join(self.messages)}"
        )


@dataclass(frozen=True, slots=True)
class ExceptionsDiscarded(Event):
    """Somebody gave messages of an exception queue up."""

    level: ClassVar[int] = logging.WARNING
    exception_queue: str
    by: str
    messages: tuple[str, ...]

    def text(self) -> str:
        """The words for it."""
        return (
            f"job {self.object}: {len(self.messages)} message(s) of {self.exception_queue} discarded by {self.by}: "
            f"{', '.join(self.messages)}"
        )


@dataclass(frozen=True, slots=True)
class ExceptionEdited(Event):
    """Somebody changed a message in an exception queue."""

    exception_queue: str
    by: str
    message: str
    became: str
    what: str
    digest: str  # SHA-256 of the body before

    def text(self) -> str:
        """The words for it."""
        return (
            f"job {self.object}: message {self.message} of {self.exception_queue} edited by {self.by}, now "
            f"{self.became}: {self.what}; SHA-256 of the body before: {self.digest}"
        )
