"""Types of Kafka headers: names, letters, values as bytes. What they are for is described in
:mod:`mgw.transforms.kafka`."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Final

from mgw.transforms.header_table import clean_text
from mgw.transforms.message import TRAIL, HeaderValue, ValueType

__all__ = [
    "LETTERS",
    "MESSAGE_ID",
    "ORIGINAL_TIMESTAMP",
    "PROPERTIES",
    "RESERVED",
    "TYPES",
    "collides",
    "from_bytes",
    "guessed",
    "kind_of",
    "number",
    "read_types",
    "reserved_bytes",
    "to_bytes",
    "types",
]

#: Header with the 16-byte message id of the hub.
MESSAGE_ID: Final = "MGW_AQ_messageID"
#: Header with the timestamp (epoch milliseconds) that a message should have had, where its topic does not take it.
ORIGINAL_TIMESTAMP: Final = "MGW_KAFKA_originalTimestamp"
#: Header that keeps the types of the other headers.
TYPES: Final = "MGW_types"

_TEXT, _RAW = ValueType.TEXT, ValueType.RAW
_TEXTS = frozenset((_TEXT, ValueType.JSON, ValueType.DECIMAL))
_SIGNED = (ValueType.BYTE, ValueType.SHORT, ValueType.INTEGER, ValueType.LONG)
_INTEGERS = frozenset((*_SIGNED, ValueType.UBYTE, ValueType.USHORT, ValueType.UINT))
#: The letter of each type in ``MGW_types``.
LETTERS: Final = {
    ValueType.TEXT: "T",
    ValueType.RAW: "R",
    ValueType.BOOLEAN: "B",
    ValueType.BYTE: "Y",
    ValueType.SHORT: "S",
    ValueType.INTEGER: "I",
    ValueType.LONG: "L",
    ValueType.FLOAT: "F",
    ValueType.DOUBLE: "D",
    ValueType.DATE: "A",
    ValueType.JSON: "J",
    ValueType.DECIMAL: "C",
    ValueType.UBYTE: "W",
    ValueType.USHORT: "V",
    ValueType.UINT: "U",
}
_KINDS: Final = {letter: kind for kind, letter in LETTERS.items()}
#: What the reserved names hold when nothing else is said.
RESERVED: Final = {
    MESSAGE_ID: _RAW,
    "MGW_AQ_priority": ValueType.INTEGER,
    "MGW_AQ_delay": ValueType.DOUBLE,
    "MGW_AQ_expiration": ValueType.DOUBLE,
    "MGW_AQ_expires_at": ValueType.LONG,
    "MGW_AQ_correlation": _TEXT,
    "MGW_AQ_exception_queue": _TEXT,
    "MGW_AQ_enqueue_time": ValueType.DATE,
    "MGW_AQ_original_msgid": _RAW,
    "MGW_AQ_sender": _TEXT,
    "MGW_error": _TEXT,
    ORIGINAL_TIMESTAMP: ValueType.LONG,
    TRAIL: _TEXT,
}
#: Those that become properties of the message with AQ_MsgProperties.
PROPERTIES: Final = frozenset(RESERVED) - {MESSAGE_ID, "MGW_AQ_enqueue_time", "MGW_error", ORIGINAL_TIMESTAMP, TRAIL}


def kind_of(letter: str) -> ValueType:
    """The type of a letter of either case; RAW for one that this release does not know."""
    return _KINDS.get(letter.upper(), _RAW)


def number(value: float) -> bytes:
    """A number as decimal text, without a fraction where it has none."""
    return b"%d" % int(value) if value == int(value) else repr(value).encode()


def to_bytes(value: HeaderValue) -> bytes:
    """A header value as Kafka carries it."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bool):
        return b"true" if value else b"false"
    return repr(value).encode()


def reserved_bytes(value: HeaderValue) -> bytes:
    """As :func:`to_bytes` where the name tells the type: whole seconds without a fraction, as programs write."""
    plain = isinstance(value, float) and value.is_integer() and abs(value) < 1e15
    return b"%d" % int(value) if plain else to_bytes(value)


def collides(name: str) -> bool:
    """Whether a header of this name has the prefix ``MGW_KAFKA_H_`` in the hub where no gateway wrote it."""
    return not name or (name.startswith("MGW_") and name not in RESERVED)


def guessed(value: bytes) -> tuple[ValueType, str | bytes]:
    """Type and value of a header of which nothing is told: text if it is UTF-8 without control characters."""
    text = clean_text(value)
    return (_RAW, value) if text is None else (_TEXT, text)


def from_bytes(kind: ValueType, value: bytes) -> HeaderValue | None:
    """A header value of a type from its bytes; None when they cannot be that."""
    if kind is _RAW:
        return value
    try:
        text = value.decode()
        if kind in _TEXTS:
            return text
        if kind is ValueType.BOOLEAN:
            return {"true": True, "false": False}.get(text)
        return int(text) if kind in _INTEGERS else float(text)
    except ValueError:
        return None


@lru_cache(4096)
def types(marks: tuple[tuple[str, str], ...]) -> bytes:
    """Text of ``MGW_types`` for (name, letter) of all headers in order; empty when there is nothing to tell.

    A letter is empty where the reserved name tells it, and follows ``=`` where a reader finds it without being told.
    """
    letters: dict[str, list[str]] = {}
    for name, letter in marks:
        letters.setdefault(name, []).append(letter or "=" + LETTERS[RESERVED[name]])
    table = {}
    for name, found in letters.items():
        if any(letter[0] != "=" for letter in found):
            told = [letter[-1] for letter in found]
            table[name] = told[0] if len(set(told)) == 1 else "".join(told)
    return json.dumps(table, separators=(",", ":")).encode() if table else b""


@lru_cache(4096)
def read_types(value: bytes) -> dict[str, str] | None:
    """The table of a ``MGW_types`` header, or None when it was not written by a gateway."""
    try:
        table = json.loads(value)
    except (ValueError, RecursionError):
        return None
    if not isinstance(table, dict) or not all(isinstance(v, str) and v for v in table.values()):
        return None
    return table
