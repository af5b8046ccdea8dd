"""Lists in pages: how many objects at once, and where the next ones begin."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated

from fastapi import Query

from mgw.gateway.http.problems import Problem
from mgw.gateway.services.exceptions import LONGEST_PLACE

__all__ = ["Cursor", "Limit", "cursor_of", "place_of"]

Limit = Annotated[int, Query(ge=1, le=1000, description="How many at most.")]
_LONGEST = (LONGEST_PLACE * 4 + 2) // 3  # of a place, as a cursor writes it
Cursor = Annotated[
    str | None,
    Query(max_length=_LONGEST, description="`cursor` of the page before; the other parameters stay the same."),
]


def cursor_of(place: str | None) -> str | None:
    """The cursor for what comes behind a place; None where nothing does."""
    return None if place is None else base64.urlsafe_b64encode(place.encode()).decode().rstrip("=")


def place_of(cursor: str | None) -> str | None:
    """The place that a cursor means.

    Raises:
        Problem: it is none that was given here.
    """
    if cursor is None:
        return None
    try:
        return base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
    except (ValueError, binascii.Error):
        raise Problem(422, "the cursor is none of this list", "begin without a cursor") from None
