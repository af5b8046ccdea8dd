"""Moments as answers have them: ISO 8601 in UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import overload

__all__ = ["moment"]

_BEGIN = datetime.fromtimestamp(0, UTC)


@overload
def moment(seconds: float) -> datetime: ...
@overload
def moment(seconds: None) -> None: ...
@overload
def moment(seconds: float | None) -> datetime | None: ...
def moment(seconds: float | None) -> datetime | None:
    """Epoch seconds as a moment, to the microsecond that has begun: it is never later than what it stands for."""
    if seconds is None:
        return None
    above, below = seconds.as_integer_ratio()
    return _BEGIN + timedelta(microseconds=above * 1_000_000 // below)
