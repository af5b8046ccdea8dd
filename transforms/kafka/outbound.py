"""A canonical message as a Kafka record; see :mod:`mgw.transforms.kafka` for the map."""

from __future__ import annotations

import base64
import json
from typing import Final

from mgw.transforms.errors import ConversionFailure
from mgw.transforms.kafka.common import (
    ANY_TIME,
    FOREIGN,
    KEY,
    NULL,
    OFFSET,
    PARTITION,
    PREFIX_LENGTH,
    TIMESTAMP,
    TIMESTAMP_TYPE,
    TOPIC,
    KeyFrom,
    Record,
    Rules,
    Window,
)
from mgw.transforms.kafka.properties import property_headers, wrong_type
from mgw.transforms.kafka.types import (
    LETTERS,
    MESSAGE_ID,
    ORIGINAL_TIMESTAMP,
    RESERVED,
    TYPES,
    reserved_bytes,
    to_bytes,
    types,
)
from mgw.transforms.message import Header, HeaderValue, Message, ValueType, check_headers
from mgw.transforms.objects import AnyData, ObjectValue, plain_body

__all__ = ["to_record"]

_OWN: Final = "MGW_KAFKA_"
_HOP: Final = frozenset((TOPIC, PARTITION, OFFSET, TIMESTAMP, TIMESTAMP_TYPE))
_ORIGIN: Final = frozenset((TOPIC, OFFSET, TIMESTAMP_TYPE))  # where a record came from; nothing to send
_RAW, _LONG = ValueType.RAW, ValueType.LONG


class _Draft:
    """A record in the making."""

    __slots__ = ("explicit", "headers", "key", "marks", "original", "partition", "timestamp")

    def __init__(self) -> None:
        self.headers: list[tuple[str, bytes]] = []
        self.marks: list[tuple[str, str]] = []  # (name, letter) of each header; no letter = as its reserved name says
        self.explicit: list[str] = []
        self.key: bytes | None = None
        self.partition: int | None = None
        self.timestamp: int | None = None
        self.original: int | None = None

    def add_all(self, headers: tuple[Header, ...], rules: Rules) -> None:
        """The header array."""
        for name, kind, value in headers:
            if rules.original and name in _HOP:
                self.add(name, kind, value)
            elif name.startswith(_OWN):
                self.add_own(name, kind, value, rules)
            else:
                self.add(name, kind, value)

    def add_properties(self, found: list[tuple[str, bytes]]) -> None:
        """Properties as headers, where no header says it already."""
        for name, text in found:
            if name not in self.explicit:
                self.headers.append((name, text))
                self.marks.append((name, ""))

    def add(self, name: str, kind: ValueType, value: HeaderValue) -> None:
        """One header of the header array that is not of the ``MGW_KAFKA_`` family."""
        if name == TYPES:
            raise ConversionFailure(
                f"header {TYPES} cannot be sent",
                cause="the gateway writes the types of the other headers into it",
                cure="rename it in a transformation",
            )
        self.explicit.append(name)
        known = RESERVED.get(name) is kind
        self.headers.append((name, reserved_bytes(value) if known else to_bytes(value)))
        self.marks.append((name, "" if known else LETTERS[kind]))

    def stamp(self, enqueue_time: float | None, window: Window | None) -> int | None:
        """The timestamp, and where it cannot be the right one, the header that keeps that."""
        wanted = self.timestamp if self.original is None else self.original
        if wanted is None and enqueue_time is not None:
            wanted = int(enqueue_time * 1000)
        if wanted is None:
            return None
        earliest, latest = ANY_TIME if window is None else window
        sent = min(max(wanted, earliest), latest)
        if wanted != sent or (window is None and self.original is not None):
            self.headers.append((ORIGINAL_TIMESTAMP, b"%d" % wanted))
            self.marks.append((ORIGINAL_TIMESTAMP, ""))
        return sent

    def add_own(self, name: str, kind: ValueType, value: HeaderValue, rules: Rules) -> None:
        """One header of the ``MGW_KAFKA_`` family."""
        if name.startswith(FOREIGN):
            wire = name[PREFIX_LENGTH:]
            self.headers.append((wire, to_bytes(value)))
            self.marks.append((wire, "r" if kind is _RAW else LETTERS[kind].lower()))
        elif name.startswith(NULL):
            self.headers.append((name[PREFIX_LENGTH:], b""))
            self.marks.append((name[PREFIX_LENGTH:], "n"))
        elif name == KEY:
            self.key = _key(value)
        elif name == PARTITION:
            self.partition = _whole(name, value) if rules.take_partition else None
        elif name == TIMESTAMP:
            self.timestamp = _integer(name, value)
        elif name == ORIGINAL_TIMESTAMP and kind is _LONG and self.original is None:
            self.original = int(value)
        elif name not in _ORIGIN:
            self.add(name, kind, value)


def to_record(message: Message, rules: Rules, now: float, window: Window | None = ANY_TIME) -> Record:
    """The record of a message.

    Args:
        now: epoch seconds, for the time left until the message expires.
        window: the timestamps that the topic takes. One outside becomes the nearest that it takes, and the header
            ``MGW_KAFKA_originalTimestamp`` keeps it. None: the topic writes its own (LogAppendTime), so any will do.

    Raises:
        ConversionFailure: a header too large or a reserved one of the wrong type, text that UTF-8 cannot hold.
    """
    try:
        return _to_record(message, rules, now, window)
    except UnicodeEncodeError as error:
        raise ConversionFailure(
            "text of the message cannot be written as UTF-8",
            cause=f"{error.object[error.start : error.end]!r} is an incomplete character",
            cure="send it as raw",
        ) from error


def _to_record(message: Message, rules: Rules, now: float, window: Window | None) -> Record:
    draft = _Draft()
    headers, marks = draft.headers, draft.marks
    if message.msgid is not None:
        headers.append((MESSAGE_ID, message.msgid))
        marks.append((MESSAGE_ID, ""))
    if message.headers:
        _check(message.headers, rules)
        draft.add_all(message.headers, rules)
    key, correlation = draft.key, message.correlation
    if key is None:
        key = _default_key(message, rules.key)
    if correlation is not None and rules.key is KeyFrom.CORRELATION and key == correlation.encode():
        correlation = None
    if rules.properties or correlation is not None:
        draft.add_properties(_properties(message, correlation, rules, now))
    timestamp = draft.stamp(message.enqueue_time, window)
    value = _value(message)
    if value is None and key is None:
        value = b""
        marks.append((TYPES, "n"))
    table = types(tuple(marks)) if marks else b""
    if table:
        headers.append((TYPES, table))
    return Record(value, key, headers, draft.partition, timestamp)


def _check(headers: tuple[Header, ...], rules: Rules) -> None:
    if not rules.original:
        check_headers(headers)


def _properties(message: Message, correlation: str | None, rules: Rules, now: float) -> list[tuple[str, bytes]]:
    found = property_headers(message, correlation, now, all_of_them=rules.properties)
    if rules.original:  # without what the original did not say
        found = [each for each in found if each != ("MGW_AQ_priority", b"1")]
    return found


def _default_key(message: Message, source: KeyFrom) -> bytes | None:
    if source is KeyFrom.CORRELATION and message.correlation is not None:
        return message.correlation.encode()
    return message.msgid if source is KeyFrom.MSGID else None


def _value(message: Message) -> bytes | None:
    body = message.body
    if isinstance(body, str):
        return body.encode()
    if isinstance(body, (ObjectValue, AnyData)):
        plain = plain_body(body)
        return plain.encode() if isinstance(plain, str) else plain
    return _fields(body) if isinstance(body, tuple) else body


def _fields(fields: tuple[Header, ...]) -> bytes:
    """Named fields as a JSON object; raw values in base64."""
    table = {name: base64.b64encode(v).decode("ascii") if isinstance(v, bytes) else v for name, _, v in fields}
    try:
        return json.dumps(table, allow_nan=False).encode()
    except ValueError as error:
        raise ConversionFailure(
            "a message of named fields cannot be written as JSON",
            cause="one of its numbers is not finite",
            cure="replace it in a transformation",
        ) from error


def _key(value: HeaderValue) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    raise wrong_type(KEY, value, "raw or text")


def _integer(name: str, value: HeaderValue) -> int:
    if type(value) is int:
        return value
    raise wrong_type(name, value, "a whole number")


def _whole(name: str, value: HeaderValue) -> int:
    if type(value) is int and value >= 0:
        return value
    raise wrong_type(name, value, "a whole number, 0 or larger")
