"""Canonical message <-> Kafka record, as pure functions (no client, no I/O).

===============================  =====================================================================================
canonical                        record
===============================  =====================================================================================
correlation                      key in UTF-8 (:attr:`KeyFrom.CORRELATION`, the default); inbound if UTF-8 and at most
                                 128 characters. Where the key is something else: header ``MGW_AQ_correlation``
``MGW_KAFKA_key``                key; wins over everything else
``MGW_KAFKA_topic``              inbound only
``MGW_KAFKA_partition``          partition; without it the key decides
``MGW_KAFKA_offset``             inbound only
enqueue time                     timestamp, outbound; header ``MGW_KAFKA_timestamp`` (milliseconds) wins
``MGW_KAFKA_originalTimestamp``  the timestamp that the record should have had, where the topic takes only a nearer
                                 one: sent instead of ``MGW_KAFKA_timestamp`` where it can be, else kept
``MGW_KAFKA_timestampType``      inbound only: CreateTime or LogAppendTime
message id                       header ``MGW_AQ_messageID`` (16 bytes), always and first: a stable key for receivers
                                 that drop repeats. Inbound it is a header like any other
priority, delay, expiration,     headers ``MGW_AQ_*`` with the job option AQ_MsgProperties, both directions. Inbound
exception queue, original id,    they become properties and leave the header array, because a header would win over
sender                           the property when the message travels on
``MGW_KAFKA_H_x``                header ``x`` of a foreign system
``MGW_KAFKA_N_x``                header ``x`` with a null value
any other header                 header of the same name
body                             value: text as UTF-8, fields as JSON; none is a null value (tombstone)
===============================  =====================================================================================

Nothing is lost and nothing loses its type. Kafka header values are bytes, so numbers and booleans travel as decimal
text, which other programs can read, and one more header, ``MGW_types``, tells the next gateway what they were: JSON,
header name -> one letter for each occurrence of the name (``transforms.kafka.types.LETTERS``; small letters for headers
that a foreign system named; one letter stands for all if they are the same). Headers that come in as they would without
it (raw headers of foreign systems, the reserved ``MGW_AQ_*`` names) are left out, so a message without typed headers
does not have it. Two things the client library cannot send are marked in it too: null header values (sent empty, letter
``n``) and a null value without a key (sent empty, letter ``n`` under the name ``MGW_types``).

Sources: AQ guide 12.2 §20.1 (canonical types), §20.3 (reserved names); Kafka protocol, record format v2.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, NamedTuple, Protocol

from mgw.transforms.errors import ConversionFailure
from mgw.transforms.kafka.properties import checked, property_headers, set_properties, wrong_type
from mgw.transforms.kafka.types import (
    LETTERS,
    MESSAGE_ID,
    ORIGINAL_TIMESTAMP,
    PROPERTIES,
    RESERVED,
    TYPES,
    from_bytes,
    kind_of,
    read_types,
    reserved_bytes,
    to_bytes,
    types,
)
from mgw.transforms.message import (
    MAX_CORRELATION,
    MAX_HEADER_NAME,
    MAX_HEADER_RAW,
    MAX_HEADERS,
    Header,
    HeaderValue,
    Message,
    PayloadKind,
    ValueType,
    check_headers,
    new_message,
)
from mgw.transforms.objects import AnyData, ObjectValue, plain_body

__all__ = [
    "MESSAGE_ID",
    "TYPES",
    "KeyFrom",
    "Received",
    "Record",
    "Rules",
    "Window",
    "from_record",
    "origin_headers",
    "to_record",
]

_KEY: Final = "MGW_KAFKA_key"
_TOPIC: Final = "MGW_KAFKA_topic"
_PARTITION: Final = "MGW_KAFKA_partition"
_OFFSET: Final = "MGW_KAFKA_offset"
_TIMESTAMP: Final = "MGW_KAFKA_timestamp"
_TIMESTAMP_TYPE: Final = "MGW_KAFKA_timestampType"
_OWN: Final = "MGW_KAFKA_"
_FOREIGN: Final = "MGW_KAFKA_H_"
_NULL: Final = "MGW_KAFKA_N_"
_PREFIX_LENGTH: Final = len(_FOREIGN)
# A record within these cannot break the limits of a header array, so nothing needs to be looked at closely.
_FEW, _SHORT, _SMALL = MAX_HEADERS - 10, MAX_HEADER_NAME - _PREFIX_LENGTH, MAX_HEADER_RAW
_HOP: Final = frozenset((_TOPIC, _PARTITION, _OFFSET, _TIMESTAMP, _TIMESTAMP_TYPE))
_ORIGIN: Final = frozenset((_TOPIC, _OFFSET, _TIMESTAMP_TYPE))  # where a record came from; nothing to send
_TEXT, _RAW, _LONG = ValueType.TEXT, ValueType.RAW, ValueType.LONG
_BASIC = PayloadKind.BASIC
_LOG_APPEND_TIME: Final = 1
_TIMESTAMP_TYPES: Final = {
    0: Header(_TIMESTAMP_TYPE, _TEXT, "CreateTime"),
    _LOG_APPEND_TIME: Header(_TIMESTAMP_TYPE, _TEXT, "LogAppendTime"),
}


class KeyFrom(StrEnum):
    """What becomes the record's key when no ``MGW_KAFKA_key`` header says it (queue option KAFKA_Key)."""

    CORRELATION = "CORRELATION"
    MSGID = "MSGID"
    NONE = "NONE"
    HEADER = "HEADER"  # only the header


class Record(NamedTuple):
    """A record ready to send: what the client's ``send`` takes."""

    value: bytes | None
    key: bytes | None
    headers: list[tuple[str, bytes]]
    partition: int | None  # None: the key decides, without a key the client
    timestamp: int | None  # milliseconds; None: now


class Received(Protocol):
    """A record as the client hands it out."""

    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int:
        """Milliseconds; negative where the record has none."""
        ...

    @property
    def timestamp_type(self) -> int:
        """0 CreateTime, 1 LogAppendTime."""
        ...

    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]:
        """In order. A name that was not UTF-8 is not a plain ``str`` but a subclass with the attribute ``raw``."""
        ...


@dataclass(frozen=True, slots=True)
class Rules:
    """Options of the foreign queue and the job that change the map."""

    key: KeyFrom = KeyFrom.CORRELATION
    text_value: bool = False  # KAFKA_ValueType = TEXT
    text_headers: bool = False  # KAFKA_HeaderType = TEXT
    take_partition: bool = True  # KAFKA_Partition = HEADER
    properties: bool = False  # AQ_MsgProperties
    original: bool = False  # an exception queue: nothing is limited, and what is about the hop travels as a header


class Window(NamedTuple):
    """The timestamps that a topic takes, in epoch milliseconds, both ends included."""

    earliest: int = 0
    latest: int = 2**63 - 1


ANY_TIME: Final = Window()


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
        if name.startswith(_FOREIGN):
            wire = name[_PREFIX_LENGTH:]
            self.headers.append((wire, to_bytes(value)))
            self.marks.append((wire, "r" if kind is _RAW else LETTERS[kind].lower()))
        elif name.startswith(_NULL):
            self.headers.append((name[_PREFIX_LENGTH:], b""))
            self.marks.append((name[_PREFIX_LENGTH:], "n"))
        elif name == _KEY:
            self.key = _key(value)
        elif name == _PARTITION:
            self.partition = _whole(name, value) if rules.take_partition else None
        elif name == _TIMESTAMP:
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
    raise wrong_type(_KEY, value, "raw or text")


def _integer(name: str, value: HeaderValue) -> int:
    if type(value) is int:
        return value
    raise wrong_type(name, value, "a whole number")


def _whole(name: str, value: HeaderValue) -> int:
    if type(value) is int and value >= 0:
        return value
    raise wrong_type(name, value, "a whole number, 0 or larger")


def origin_headers(topic: str, partition: int) -> tuple[Header, Header]:
    """The headers that all records of a partition share; made once per partition."""
    return Header(_TOPIC, _TEXT, topic), Header(_PARTITION, ValueType.INTEGER, partition)


def from_record(
    record: Received, origin: tuple[Header, Header], rules: Rules, now: float
) -> tuple[Message, ConversionFailure | None]:
    """The message of a record, and why it could not be converted (it then carries the untouched value).

    A message that has expired already has an expiration of 0 or less.

    Args:
        origin: :func:`origin_headers` of topic and partition.
        now: epoch seconds, for the time left until the message expires.
    """
    headers = [*origin, Header(_OFFSET, _LONG, record.offset)]
    key, value, timestamp = record.key, record.value, record.timestamp
    if timestamp >= 0:
        headers.append(Header(_TIMESTAMP, _LONG, timestamp))
        kind = _TIMESTAMP_TYPES.get(record.timestamp_type)
        if kind is not None:
            headers.append(kind)
    correlation: str | None = None
    fields: dict[str, Any] = {}
    body: bytes | str | None = value
    try:
        if key is not None:
            headers.append(_key_header(key))
            if rules.key is KeyFrom.CORRELATION:
                correlation = _correlation(key)
        if record.headers:
            null_body = _read_headers(record, headers, fields, rules, now)
            if null_body and not value:
                body = None
        if rules.text_value and isinstance(body, bytes):
            body = _text(body)
    except ConversionFailure as failure:
        return _original(record, origin, rules, now), failure
    if fields:
        fields.setdefault("correlation", correlation)
        return Message(body, tuple(headers), PayloadKind.BASIC, **fields), None
    return new_message(
        body, tuple(headers), _BASIC, 1, correlation, 0, None, None, None, None, 0, None, None, None, None, None, 0
    ), None


def _original(record: Received, origin: tuple[Header, Header], rules: Rules, now: float) -> Message:
    """A record that cannot be converted: the value untouched, and all headers whatever their size."""
    headers = [*origin, Header(_OFFSET, _LONG, record.offset)]
    if record.timestamp >= 0:
        headers.append(Header(_TIMESTAMP, _LONG, record.timestamp))
        if record.timestamp_type in _TIMESTAMP_TYPES:
            headers.append(_TIMESTAMP_TYPES[record.timestamp_type])
    if record.key is not None:
        headers.append(Header(_KEY, _RAW, record.key))
    null_body = _read_headers(record, headers, {}, replace(rules, properties=False, original=True), now)
    return Message(None if null_body and not record.value else record.value, tuple(headers), PayloadKind.BASIC)


def _key_header(key: bytes) -> Header:
    if len(key) > MAX_HEADER_RAW:
        raise ConversionFailure(
            f"key has {len(key)} bytes",
            cause=f"a header value holds at most {MAX_HEADER_RAW} bytes",
            cure="use shorter keys",
        )
    return Header(_KEY, _RAW, key)


def _correlation(key: bytes) -> str | None:
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return None
    return text if len(text) <= MAX_CORRELATION else None


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise ConversionFailure(
            "value is not text",
            cause=f"byte {error.start} is not UTF-8, and the foreign queue says KAFKA_ValueType = TEXT",
            cure="register the queue with KAFKA_ValueType = RAW",
        ) from error


def _read_headers(record: Received, headers: list[Header], fields: dict[str, Any], rules: Rules, now: float) -> bool:
    """Append the record's headers to ``headers``, put properties into ``fields``; True for a marked null value."""
    found = record.headers
    if (
        len(found) == 1 and found[0][0] == MESSAGE_ID and found[0][1] and len(found[0][1]) <= _SMALL
    ):  # all that a gateway sends in most cases
        headers.append(Header(MESSAGE_ID, _RAW, found[0][1]))
        return False
    place, table = _find_types(found)
    counts: dict[str, int] = {}
    properties: dict[str, HeaderValue] = {}
    bad: str | None = None
    for index, (name, value) in enumerate(found):
        if index == place:
            continue
        letter = _letter(table, counts, name) if table else ""
        if type(name) is not str:
            bad = name
            headers.append(Header(_FOREIGN + str(name), _RAW, value or b""))
        elif value is None or letter == "n":
            headers.append(Header(_NULL + name, _TEXT, ""))
        else:
            header = _read_header(name, value, letter, rules.text_headers)
            if rules.properties and header.name in PROPERTIES:
                properties.setdefault(header.name, checked(header))
            else:
                headers.append(header)
    if bad is not None and not rules.original:
        raise ConversionFailure(
            f"a header name is not text: {getattr(bad, 'raw', b'')!r}",
            cause="Kafka header names are UTF-8",
            cure="correct the sender",
        )
    if properties:
        appended = record.timestamp if record.timestamp_type == _LOG_APPEND_TIME else -1
        set_properties(properties, fields, appended, now)
    if len(found) > _FEW or any(len(name) > _SHORT or len(value or b"") > _SMALL for name, value in found):
        _check_names(headers, rules)
    return table.get(TYPES, "").endswith("n")


def _letter(table: dict[str, str], counts: dict[str, int], name: str) -> str:
    """The letter of this occurrence of a name, which ``counts`` counts; empty where the table does not have it."""
    letters = table.get(name)
    if not letters:
        return ""
    seen = counts.get(name, 0)
    counts[name] = seen + 1
    return letters[min(seen, len(letters) - 1)]


def _check_names(headers: list[Header], rules: Rules) -> None:
    """Refuse what breaks the limits of a header array; name the length that the sender knows, without our prefix."""
    if rules.original:
        return
    for name, _, _ in headers:
        if len(name) > MAX_HEADER_NAME:
            sent = name[_PREFIX_LENGTH:] if name.startswith((_FOREIGN, _NULL)) else name
            raise ConversionFailure(
                f"a header name has {len(sent)} characters",
                cause=f"at most {MAX_HEADER_NAME} are allowed, including the prefix {_FOREIGN} for headers of a "
                "foreign system",
                cure="shorten the name at the sender",
            )
    check_headers(tuple(headers))


def _find_types(headers: Sequence[tuple[str, bytes | None]]) -> tuple[int, dict[str, str]]:
    """Place and content of the last ``MGW_types`` that a gateway wrote; (-1, {}) without one."""
    for place in range(len(headers) - 1, -1, -1):
        name, value = headers[place]
        if name == TYPES and value is not None:
            table = read_types(value)
            if table is not None:
                return place, table
    return -1, {}


def _read_header(name: str, value: bytes, letter: str, text_headers: bool) -> Header:
    """One header; what cannot be what its letter says stays raw, so nothing is lost."""
    if letter:
        full = _FOREIGN + name if letter.islower() else name
        kind = kind_of(letter)
    elif name in RESERVED:
        full, kind = name, RESERVED[name]
    else:
        full, kind = _FOREIGN + name, _TEXT if text_headers else _RAW
    content = from_bytes(kind, value)
    return Header(full, _RAW, value) if content is None else Header(full, kind, content)
