"""How important an event is."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["LEVELS", "at_least"]

#: From the least to the most important.
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


def at_least(level: str | None) -> Sequence[str]:
    """Those of that importance and more; none for None: all are."""
    return () if level is None else LEVELS[LEVELS.index(level) :]
