"""Changes of who may use the web face."""

from __future__ import annotations

from dataclasses import dataclass

from mgw.gateway.observe.events import Event

__all__ = ["UserChanged"]


@dataclass(frozen=True, slots=True)
class UserChanged(Event):
    """Somebody created, changed or removed a user or a token of the web face."""

    what: str
    by: str

    def text(self) -> str:
        """The words for it."""
        return f"user {self.object} {self.what}; by {self.by}"
