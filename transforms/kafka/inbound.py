"""A Kafka record as a canonical message; see :mod:`mgw.transforms.kafka` for the map."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, cast

from mgw.transforms.errors import ConversionFailure, unforeseen
from mgw.transforms.header_table import is_clean
from mgw.transforms.kafka.common import (
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
    Received,
    Rules,
)
from mgw.transforms.kafka.properties import checked, set_properties
from mgw.transforms.kafka.types import (
    MESSAGE_ID,
    PROPERTIES,
    RESERVED,
    TYPES,
    collides,
    from_bytes,
    guessed,
    kind_of,
    read_types,
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

__all__ = ["from_record", "origin_headers"]

# A record within these cannot break the limits of a header array, so nothing needs to be looked at closely.
_FEW, _SHORT, _SMALL = MAX_HEADERS - 10, MAX_HEADER_NAME - PREFIX_LENGTH, MAX_HEADER_RAW
_TEXT, _RAW, _LONG = ValueType.TEXT, ValueType.RAW, ValueType.LONG
_BASIC = PayloadKind.BASIC
_LOG_APPEND_TIME: Final = 1
#: A header from a tuple of its three parts, in less than half the time that ``Header(...)`` takes.
_header: Final = cast("Callable[[tuple[str, ValueType, HeaderValue]], Header]", partial(tuple.__new__, Header))
_TIMESTAMP_TYPES: Final = {
    0: Header(TIMESTAMP_TYPE, _TEXT, "CreateTime"),
    _LOG_APPEND_TIME: Header(TIMESTAMP_TYPE, _TEXT, "LogAppendTime"),
}


def origin_headers(topic: str, partition: int) -> tuple[Header, Header]:
    """The headers that all records of a partition share; made once per partition."""
    return Header(TOPIC, _TEXT, topic), Header(PARTITION, ValueType.INTEGER, partition)


def from_record(
    record: Received, origin: tuple[Header, Header], rules: Rules, now: float
) -> tuple[Message, ConversionFailure | None]:
    """The message of a record, and why it could not be converted (it then carries the untouched value).

    A message that has expired already has an expiration of 0 or less.

    Args:
        origin: :func:`origin_headers` of topic and partition.
        now: epoch seconds, for the time left until the message expires.
    """
    headers = [*origin, _header((OFFSET, _LONG, record.offset))]
    key, value, timestamp = record.key, record.value, record.timestamp
    if timestamp >= 0:
        headers.append(_header((TIMESTAMP, _LONG, timestamp)))
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
    except Exception as error:
        failure = unforeseen(error)
        return _original(record, origin, rules, now), failure
    if fields:
        fields.setdefault("correlation", correlation)
        return Message(body, tuple(headers), PayloadKind.BASIC, **fields), None
    return new_message(
        body, tuple(headers), _BASIC, 1, correlation, 0, None, None, None, None, 0, None, None, None, None, None, 0
    ), None


def _original(record: Received, origin: tuple[Header, Header], rules: Rules, now: float) -> Message:
    """A record that cannot be converted: the value untouched, and all headers whatever their size."""
    headers = [*origin, Header(OFFSET, _LONG, record.offset)]
    if record.timestamp >= 0:
        headers.append(Header(TIMESTAMP, _LONG, record.timestamp))
        if record.timestamp_type in _TIMESTAMP_TYPES:
            headers.append(_TIMESTAMP_TYPES[record.timestamp_type])
    if record.key is not None:
        headers.append(Header(KEY, _RAW, record.key))
    found: list[Header] = []
    try:
        null_body = _read_headers(record, found, {}, replace(rules, properties=False, original=True), now)
    except Exception:  # the very reason of the failure: all of them as bytes
        null_body = False
        found = [Header(_shown(str(name), rules), _RAW, value or b"") for name, value in record.headers]
    headers += found
    return Message(None if null_body and not record.value else record.value, tuple(headers), PayloadKind.BASIC)


def _key_header(key: bytes) -> Header:
    if len(key) > MAX_HEADER_RAW:
        raise ConversionFailure(
            f"key has {len(key)} bytes",
            cause=f"a header value holds at most {MAX_HEADER_RAW} bytes",
            cure="use shorter keys",
        )
    return _header((KEY, _RAW, key))


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


def _read_headers(  # noqa: C901, PLR0912 - one pass over the headers, kept flat for speed
    record: Received, headers: list[Header], fields: dict[str, Any], rules: Rules, now: float
) -> bool:
    """Append the record's headers to ``headers``, put properties into ``fields``; True for a marked null value."""
    found = record.headers
    if (
        len(found) == 1 and found[0][0] == MESSAGE_ID and found[0][1] and len(found[0][1]) <= _SMALL
    ):  # all that a gateway sends in most cases
        headers.append(_header((MESSAGE_ID, _RAW, found[0][1])))
        return False
    place, table = _find_types(found)
    counts: dict[str, int] = {}
    properties: dict[str, HeaderValue] = {}
    bad: str | None = None
    guess = rules.guess_headers and not (table or rules.documented or rules.text_headers)
    for index, (name, value) in enumerate(found):
        if index == place:
            continue
        if guess and value is not None and name[:4] != "MGW_" and name and type(name) is str:
            try:
                text = value.decode()
            except UnicodeDecodeError:
                headers.append(_header((name, _RAW, value)))
            else:
                plain = text.isprintable() or is_clean(text)
                headers.append(_header((name, _TEXT, text) if plain else (name, _RAW, value)))
            continue
        letter = _letter(table, counts, name) if table else ""
        if type(name) is not str:
            bad = name
            headers.append(Header(FOREIGN + str(name), _RAW, value or b""))
        elif value is None or letter in ("n", "N"):
            headers.append(_null(name, letter, documented=rules.documented))
        else:
            header = _read_header(name, value, letter, rules)
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
            sent = name[PREFIX_LENGTH:] if name.startswith((FOREIGN, NULL)) else name
            raise ConversionFailure(
                f"a header name has {len(sent)} characters",
                cause=f"the hub allows {MAX_HEADER_NAME}, including the prefix that a name may need there",
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


def _null(name: str, letter: str, *, documented: bool) -> Header:
    """A header with a null value."""
    if documented:
        return Header(NULL + name, _TEXT, "")
    foreign = not letter.isupper() and (collides(name) or (letter != "" and name in RESERVED))
    return Header(FOREIGN + name if foreign else name, ValueType.JSON, "null")


def _shown(name: str, rules: Rules) -> str:
    """The name in the hub of a header that no gateway wrote."""
    return FOREIGN + name if rules.documented or collides(name) else name


def _read_header(name: str, value: bytes, letter: str, rules: Rules) -> Header:
    """One header; what cannot be what its letter says stays raw, so nothing is lost."""
    kind: ValueType
    if letter:
        foreign = letter.islower() and (rules.documented or collides(name) or name in RESERVED)
        full, kind = FOREIGN + name if foreign else name, kind_of(letter)
    elif name in RESERVED:
        full, kind = name, RESERVED[name]
    else:
        full = _shown(name, rules)
        if rules.text_headers:
            kind = _TEXT
        elif rules.documented or not rules.guess_headers:
            kind = _RAW
        else:
            return _header((full, *guessed(value)))
    content = from_bytes(kind, value)
    return _header((full, _RAW, value) if content is None else (full, kind, content))
