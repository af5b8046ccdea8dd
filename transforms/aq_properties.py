"""The reserved names ``MGW_AQ_*`` of AQ message properties: one table for the maps of all brokers and the reference.

The names, and which of them are read, are those of AQ guide 12.2 §20.3; the job options AQ_MsgProperties and
PreserveMessageID (the id) have them sent. A reserved header of the wrong type, or out of its range, is a conversion
failure; one that is missing leaves the default.
"""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

from mgw.transforms.errors import ConversionFailure
from mgw.transforms.message import (
    MAX_CORRELATION,
    MAX_HEADER_TEXT,
    MAX_SECONDS,
    Header,
    HeaderValue,
    Message,
    ValueType,
)

__all__ = ["AQ_PROPERTIES", "BY_NAME", "MESSAGE_ID", "AqProperty", "property_headers", "property_value"]

MESSAGE_ID: Final = "MGW_AQ_messageID"
_WHOLE: Final = frozenset(
    (
        *(ValueType.BYTE, ValueType.SHORT, ValueType.INTEGER, ValueType.LONG),
        *(ValueType.UBYTE, ValueType.USHORT, ValueType.UINT),
    )
)
_NUMBER: Final = _WHOLE | {ValueType.FLOAT, ValueType.DOUBLE}


class AqProperty(NamedTuple):
    """A property of a message under its reserved name.

    Attributes:
        name: of the header.
        field: of :class:`mgw.transforms.message.Message`.
        kind: what is written; a larger whole-number type where the value needs it.
        range: of the values, in words.
        kinds: what is read.
        read: whether an inbound job sets the property from it; else it stays a header.
        meaning: in words.
    """

    name: str
    field: str
    kind: ValueType
    range: str
    kinds: frozenset[ValueType]
    read: bool
    meaning: str


_TEXT: Final = frozenset((ValueType.TEXT,))
AQ_PROPERTIES: Final = (
    AqProperty("MGW_AQ_priority", "priority", ValueType.INTEGER, "64 bits", _WHOLE, True, "smaller is more important"),
    AqProperty(
        "MGW_AQ_expiration",
        "expiration",
        ValueType.INTEGER,
        "-1 (never), 0 to 2^40",
        _NUMBER,
        True,
        "seconds left; 2^40 and more, and less than 0, are never",
    ),
    AqProperty("MGW_AQ_delay", "delay", ValueType.INTEGER, "0 to 2^40", _NUMBER, True, "seconds; out: what is left, 0"),
    AqProperty("MGW_AQ_correlation", "correlation", ValueType.TEXT, f"{MAX_CORRELATION} characters", _TEXT, True, ""),
    AqProperty(
        "MGW_AQ_exception_queue",
        "exception_queue",
        ValueType.TEXT,
        f"{MAX_HEADER_TEXT} characters",
        _TEXT,
        True,
        "`[schema.]queue` of the hub that reads it",
    ),
    AqProperty("MGW_AQ_enqueue_time", "enqueue_time", ValueType.DATE, "", frozenset(), False, "UTC"),
    AqProperty(
        "MGW_AQ_original_msgid",
        "original_msgid",
        ValueType.RAW,
        "16 bytes",
        frozenset(),
        False,
        "id in the queue from which the hub's queue got the message",
    ),
    AqProperty(MESSAGE_ID, "msgid", ValueType.RAW, "16 bytes", frozenset(), False, "id in the hub"),
)
#: Those that are read, by name.
BY_NAME: Final = {each.name: each for each in AQ_PROPERTIES if each.read}


def property_headers(message: Message, remaining: float | None) -> list[Header]:
    """What the job option AQ_MsgProperties sends of a message, in the order of the table; not its id.

    Args:
        remaining: seconds left until it expires, rounded up; None: never.
    """
    found = []
    for name, field, of_table, *_ in AQ_PROPERTIES:
        kind = of_table
        value: Any = getattr(message, field)
        if field == "expiration":
            value = -1 if remaining is None else max(0, math.ceil(remaining))
        elif field == "delay" and isinstance(value, float):
            kind, value = (kind, int(value)) if value.is_integer() else (ValueType.DOUBLE, value)
        if value is not None and name != MESSAGE_ID:
            found.append(Header(name, kind, value))
    return found


def property_value(name: str, kind: ValueType, value: HeaderValue, *, texts: bool = False) -> Any:
    """The property of a message that a header of a reserved name (:data:`BY_NAME`) sets.

    Args:
        texts: the broker has text only, so text that is a number is one.

    Raises:
        ConversionFailure: the header has another type, or the value is out of its range.
    """
    known = BY_NAME[name]
    if kind not in known.kinds:
        if not (texts and kind is ValueType.TEXT):
            raise _wrong(name, f"it is {kind.name}, with AQ_MsgProperties it must be {known.kind.name}")
        value = _number(name, str(value), whole=known.kinds is _WHOLE)
    problem = _problem(known, value)
    if problem:
        raise _wrong(name, problem)
    if known.field == "expiration":
        return float(value) if 0 <= value < MAX_SECONDS else None  # type: ignore[operator]
    return value


def _number(name: str, text: str, *, whole: bool) -> int | float:
    try:
        return int(text) if whole else float(text)
    except ValueError:
        raise _wrong(name, f"it is {text[:60]!r}, not a {'whole number' if whole else 'number'}") from None


def _problem(known: AqProperty, value: Any) -> str:
    """What is wrong with the value; empty: nothing."""
    if known.kinds is _TEXT:
        limit = MAX_CORRELATION if known.field == "correlation" else MAX_HEADER_TEXT
        return f"it has {len(value)} characters, at most {limit} are allowed" if len(value) > limit else ""
    if math.isnan(value):
        return "it is not a number"
    if known.field == "priority" and not -(2**63) <= value < 2**63:
        return "it does not fit in 64 bits"
    if known.field == "delay" and not 0 <= value < MAX_SECONDS:
        return f"it is {value:.15g} s, not 0 to {MAX_SECONDS} s"
    return ""


def _wrong(name: str, cause: str) -> ConversionFailure:
    return ConversionFailure(
        f"header {name!r} cannot be used", cause=cause, cure="correct the sender or set AQ_MsgProperties to FALSE"
    )
