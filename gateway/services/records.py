"""What happened: events of the gateway, for those who look through them in pages."""

from __future__ import annotations

from collections.abc import Sequence

from mgw.gateway.aq import Hub
from mgw.gateway.state import records
from mgw.gateway.state.status import EventRow

__all__ = ["EventRow", "some_events"]

_LEVELS = {"error": ("ERROR", "CRITICAL"), "warning": ("WARNING", "ERROR", "CRITICAL")}


def some_events(
    hub: Hub, *, before: int | None = None, limit: int = 100, level: str = "", text: str = ""
) -> Sequence[EventRow]:
    """Events with an id smaller than ``before``, newest first.

    Args:
        level: ``warning`` or ``error``: those and worse ones; else all.
        text: only those with this in their text or object.
    """
    with hub.read() as conn:
        return records.recent_events(
            conn, before=before, limit=limit, levels=_LEVELS.get(level.lower(), ()), text=text.replace("\0", "")
        )
