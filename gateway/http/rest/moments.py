"""Moments as answers have them: ISO 8601 in UTC."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import overload

__all__ = ["moment"]


@overload
def moment(seconds: float) -> datetime: ...
@overload
def moment(seconds: None) -> None: ...
@overload
def moment(seconds: float | None) -> datetime | None: ...
def moment(seconds: float | None) -> datetime | None:
    """Epoch seconds as a moment."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
