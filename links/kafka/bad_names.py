"""Header names that are not UTF-8."""

from __future__ import annotations

__all__ = ["BadName"]


class BadName(str):
    """A header name that is not UTF-8: readable as far as it goes, the bytes are in ``raw``."""

    raw: bytes

    def __new__(cls, raw: bytes) -> BadName:
        """The name with U+FFFD in the places that are not UTF-8."""
        name = super().__new__(cls, raw.decode(errors="replace"))
        name.raw = raw
        return name
