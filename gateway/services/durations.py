"""Durations as people write them: ``90s``, ``15m``, ``3h``, ``7d``."""

from __future__ import annotations

__all__ = ["PATTERN", "seconds_of"]

PATTERN = r"^[0-9]{1,7}[smhd]$"

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds_of(text: str) -> float | None:
    """Seconds of a duration; None: the text is none."""
    number, unit = text[:-1], text[-1:]
    if not (number.isascii() and number.isdecimal() and len(number) <= 7 and unit in _UNITS):
        return None
    return float(int(number) * _UNITS[unit])
