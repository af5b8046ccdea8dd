"""What happened: events of the gateway, and what administration removed."""

from __future__ import annotations

from collections.abc import Sequence

from mgw.gateway.aq import Hub
from mgw.gateway.state import records
from mgw.gateway.state.records import AuditRow
from mgw.gateway.state.status import EventRow

__all__ = ["AuditRow", "EventRow", "removals", "some_events"]

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


def removals(hub: Hub, *, before: int | None = None, limit: int = 100) -> Sequence[AuditRow]:
    """What somebody purged, dropped or gave up, with an id smaller than ``before``, newest first."""
    with hub.read() as conn:
        return records.audit(conn, before=before, limit=limit)
