"""Parameters of routes that several resources have."""

from __future__ import annotations

import base64
import binascii
import json
from datetime import datetime
from typing import Annotated, Any

from fastapi import Path, Query
from pydantic import AfterValidator, AwareDatetime, Field

from mgw.gateway.http.problems import Problem

__all__ = [
    "Condition",
    "Correlation",
    "Cursor",
    "EntryPath",
    "JobPath",
    "Limit",
    "MessagePath",
    "Moment",
    "QueuePath",
    "Word",
    "cursor_of",
    "message_id",
    "seconds",
    "storable",
    "whence",
]


def storable(text: str) -> str:
    """Text that every database can hold: no NUL character, and no half of a surrogate pair.

    Raises:
        ValueError: it is none.
    """
    if "\0" in text:
        raise ValueError("it holds a NUL character")
    text.encode()
    return text


#: Text that can be looked for and stored, on every database.
Word = Annotated[str, Field(max_length=4000), AfterValidator(storable)]
Moment = AwareDatetime

QueuePath = Annotated[
    str, Path(alias="queue", max_length=300, description="Name of a queue of the hub, `[schema.]name`."),
    AfterValidator(storable),
]  # fmt: skip
JobPath = Annotated[str, Path(alias="job", max_length=300, description="Name of a job."), AfterValidator(storable)]
MessagePath = Annotated[
    str,
    Path(
        alias="message",
        min_length=32,
        max_length=40,
        pattern="^(AQMSGID:)?[0-9A-Fa-f]{32}$",
        description="Message id: 32 hexadecimal digits, with or without `AQMSGID:`.",
    ),
]
EntryPath = Annotated[
    str,
    Path(alias="entry", max_length=200, description="Id of a message, as the list shows it."),
    AfterValidator(storable),
]
Limit = Annotated[int, Query(ge=1, le=1000, description="Maximum number of entries.")]
Cursor = Annotated[
    str | None,
    Query(max_length=1000, description="`next` of the page before; the other parameters must be the same."),
]
Condition = Annotated[
    Word | None,
    Query(description="Only messages for which this is true, in the rule language: `tab.priority > 3`."),
]
Correlation = Annotated[
    Word | None, Query(max_length=128, description="Only this correlation; `%` and `_` are wildcards.")
]


def message_id(text: str) -> bytes:
    """The message id that a path names."""
    return bytes.fromhex(text[-32:])


def seconds(moment: datetime | None) -> float | None:
    """A moment as epoch seconds."""
    return None if moment is None else moment.timestamp()


def cursor_of(value: Any) -> str:
    """A place in a list, as the next request names it."""
    return base64.urlsafe_b64encode(json.dumps(value, separators=(",", ":")).encode()).decode().rstrip("=")


def whence(cursor: str | None, size: int) -> list[float]:
    """The numbers that a cursor holds; none without a cursor.

    Raises:
        Problem: it is none of that list.
    """
    if cursor is None:
        return []
    try:
        found = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        if not isinstance(found, list) or len(found) > size or not found:
            raise ValueError("it has another form")
        numbers = [each if type(each) is int else float(each) for each in found]
        if any(not -(2**63) <= each < 2**63 for each in numbers):
            raise ValueError("it has another form")
    except (ValueError, TypeError, binascii.Error, RecursionError, OverflowError):
        raise Problem(422, "the cursor is none of this list", "begin without a cursor") from None
    return numbers
