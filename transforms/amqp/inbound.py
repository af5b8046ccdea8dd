"""AMQP content to canonical messages: see :mod:`mgw.transforms.amqp` for the map."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from mgw.transforms.amqp.common import (
    APP_ID,
    CLUSTER_ID,
    CONTENT_ENCODING,
    CONTENT_TYPE,
    CORRELATION_ID,
    DELIVERY_MODE,
    EXPIRATION,
    EXPIRES_AT,
    HEADER_PREFIX,
    HEADER_TABLE,
    MAX_CACHE,
    MESSAGE_ID,
    PREFIX,
    PRIORITY,
    REPLY_TO,
    TIMESTAMP,
    TYPE_NAME,
    UNKNOWN,
    USER_ID,
    Rules,
    charset_parameter,
    text_codec,
)
from mgw.transforms.amqp.nested import decimal_text, json_text
from mgw.transforms.amqp.properties import with_aq_properties
from mgw.transforms.amqp.table import ESCAPE, FIELD_NAMES, KEPT
from mgw.transforms.errors import ConversionFailure, unforeseen
from mgw.transforms.message import (
    MAX_CORRELATION,
    MAX_HEADER_NAME,
    MAX_SECONDS,
    Header,
    HeaderValue,
    Message,
    PayloadKind,
    ValueType,
    check_headers,
    new_message,
)

__all__ = ["decode", "decode_table"]

_TEXT, _RAW, _DATE = ValueType.TEXT, ValueType.RAW, ValueType.DATE
_BASIC = PayloadKind.BASIC

_u16, _u32, _u64 = struct.Struct(">H").unpack_from, struct.Struct(">I").unpack_from, struct.Struct(">Q").unpack_from
_i16, _i32, _i64 = struct.Struct(">h").unpack_from, struct.Struct(">i").unpack_from, struct.Struct(">q").unpack_from
_f32, _f64 = struct.Struct(">f").unpack_from, struct.Struct(">d").unpack_from

_make = tuple.__new__  # a named tuple without the cost of its constructor
_REDELIVERED = Header(PREFIX + "redelivered", ValueType.BOOLEAN, True)
_MODES = tuple(Header(PREFIX + "deliveryMode", ValueType.INTEGER, mode) for mode in range(256))
#: Names in the hub, as an application gave them and as documented.
_header_names: tuple[dict[bytes, str], dict[bytes, str]] = ({}, {})
_charsets: dict[tuple[bytes, bytes], str | None] = {}
#: Header arrays of messages that differ in their bodies only, with the priority and the character set (None: bytes).
#: Such messages have the same array, so that it is stored as text once for a batch. Bounded.
_arrays: dict[tuple[bytes, bytes, bytes, bool], tuple[tuple[Header, ...], int, str | None, bool]] = {}
_MAX_REMEMBERED = 512  # bytes of the properties and the routing key
_OWN_HIGH, _OWN_LOW = 0x27, 0xC1  # flags of what a message has for itself: table, correlation, expiration; id, time
#: Headers made from property and envelope texts that repeat from message to message. Bounded.
_headers: dict[tuple[str, bytes], Header] = {}


def decode(  # noqa: PLR0917
    properties: bytes,
    body: bytes,
    exchange: bytes,
    routing_key: bytes,
    redelivered: bool,
    now: float,
    rules: Rules,
) -> tuple[Message, ConversionFailure | None]:
    """The canonical form of a delivered message at time ``now`` (epoch seconds).

    Never raises: what cannot be converted comes with its reason, the untouched body and the headers that could be read.
    """
    headers: list[Header] = []
    try:
        if len(properties) > 1 and not (properties[0] & _OWN_HIGH or properties[1] & _OWN_LOW):
            return _decode_common(properties, body, exchange, routing_key, redelivered, now, rules, headers), None
        return _decode(properties, body, exchange, routing_key, redelivered, now, rules, headers), None
    except (struct.error, IndexError, ValueError, RecursionError) as error:
        failure = ConversionFailure(
            "the AMQP properties of the message cannot be read",
            cause=f"they are not well-formed ({error})",
            cure="check the sender; the body is kept as it came",
        )
    except Exception as error:
        failure = unforeseen(error)
        with suppress(Exception):  # else what was read until then
            whole = replace(rules, aq_properties=False, original=True)
            message = _decode(properties, body, exchange, routing_key, redelivered, now, whole, [])
            return replace(message, body=body or None), failure
    return Message(body, tuple(headers)), failure


def _decode_common(  # noqa: PLR0917
    data: bytes,
    body: bytes,
    exchange: bytes,
    routing_key: bytes,
    redelivered: bool,
    now: float,
    rules: Rules,
    headers: list[Header],
) -> Message:
    """As :func:`_decode`, of properties that other messages have, too."""
    known = _arrays.get((data, exchange, routing_key, redelivered))
    if known is None:
        message = _decode(data, body, exchange, routing_key, redelivered, now, rules, headers)
        if len(data) + len(routing_key) < _MAX_REMEMBERED:
            _remember((data, exchange, routing_key, redelivered), message.headers)
        return message
    array, priority, charset, typed = known
    content: bytes | str | None = body
    if charset is not None:
        try:
            content = body.decode(charset)
        except ValueError:
            content = body
    elif not (body or typed):
        content = None
    top = rules.max_priority
    rank = top - (priority if priority < top else top)  # noqa: FURB136
    return new_message(
        content, array, _BASIC, rank, None, 0, None, None, None, None, 0, None, None, None, None, None, 0
    )


def _remember(key: tuple[bytes, bytes, bytes, bool], array: tuple[Header, ...]) -> None:
    data = key[0]
    (flags,) = _u16(data, 0)
    at, texts = 2, [b"", b""]
    for place, flag in enumerate((CONTENT_TYPE, CONTENT_ENCODING)):
        if flags & flag:
            texts[place] = data[at + 1 : at + 1 + data[at]]
            at += 1 + data[at]
    if flags & DELIVERY_MODE:
        at += 1
    if len(_arrays) >= MAX_CACHE:
        _arrays.clear()
    kind, coding = texts
    charset = _inbound_charset(kind, coding) if kind else None
    _arrays[key] = array, data[at] if flags & PRIORITY else 0, charset, bool(kind)


def _decode(  # noqa: C901, PLR0912, PLR0915, PLR0917 - one pass over the fourteen properties, kept flat for speed
    data: bytes,
    body: bytes,
    exchange: bytes,
    routing_key: bytes,
    redelivered: bool,
    now: float,
    rules: Rules,
    headers: list[Header],
) -> Message:
    (flags,) = _u16(data, 0)
    at = 2
    kind = coding = b""
    table: list[Header] | None = None
    correlation: str | None = None
    expiration: float | None = None
    priority = 0
    if flags & 1:
        raise ValueError("further property flags")
    if flags & CONTENT_TYPE:
        end = at + 1 + data[at]
        kind = data[at + 1 : end]
        headers.append(_field("MGW_AMQP_contentType", kind))
        at = end
    if flags & CONTENT_ENCODING:
        end = at + 1 + data[at]
        coding = data[at + 1 : end]
        headers.append(_field("MGW_AMQP_contentEncoding", coding))
        at = end
    if flags & HEADER_TABLE:
        end = at + 4 + _u32(data, at)[0]
        if end > len(data):
            raise ValueError("the headers table is longer than the properties")
        table = decode_table(data, at + 4, end, documented=rules.documented)
        at = end
    if flags & DELIVERY_MODE:
        headers.append(_MODES[data[at]])
        at += 1
    if flags & PRIORITY:
        priority = data[at]
        at += 1
    if flags & CORRELATION_ID:
        end = at + 1 + data[at]
        raw = data[at + 1 : end]
        at = end
        with suppress(UnicodeDecodeError):
            correlation = raw.decode()
        if correlation is None or len(correlation) > MAX_CORRELATION:
            correlation = None
            headers.append(_fresh("MGW_AMQP_correlationId", raw))
    if flags & REPLY_TO:
        end = at + 1 + data[at]
        headers.append(_field("MGW_AMQP_replyTo", data[at + 1 : end]))
        at = end
    if flags & EXPIRATION:
        end = at + 1 + data[at]
        raw = data[at + 1 : end]
        at = end
        if raw.isdigit():
            expiration = int(raw) / 1000
        else:
            headers.append(_fresh("MGW_AMQP_expiration", raw))
    if flags & MESSAGE_ID:
        end = at + 1 + data[at]
        headers.append(_fresh("MGW_AMQP_messageId", data[at + 1 : end]))
        at = end
    if flags & TIMESTAMP:
        headers.append(_make(Header, ("MGW_AMQP_timestamp", _DATE, float(_u64(data, at)[0]))))
        at += 8
    if flags & 0x3C:
        for flag in (TYPE_NAME, USER_ID, APP_ID, CLUSTER_ID):
            if flags & flag:
                end = at + 1 + data[at]
                headers.append(_field(FIELD_NAMES[flag], data[at + 1 : end]))
                at = end
    if at > len(data):
        raise ValueError("the properties end too early")
    if exchange:
        headers.append(_field("MGW_AMQP_exchange", exchange))
    headers.append(_field("MGW_AMQP_routingKey", routing_key))
    if redelivered:
        headers.append(_REDELIVERED)

    expires_at: float | None = None
    if table:
        headers += table
        if EXPIRES_AT in (names := [header[0] for header in table]):
            place = names.index(EXPIRES_AT)
            value = table[place].value
            if type(value) is int:
                expires_at = value / 1000
                headers.remove(table[place])
        if not rules.original:
            check_headers(tuple(headers))
    if expires_at is not None:
        left = expires_at - now
        expiration = left if expiration is None else min(expiration, left)
    if expiration is not None:
        expiration = max(1, math.ceil(expiration))
        if expiration >= MAX_SECONDS:
            expiration = None
    top = rules.max_priority
    content: bytes | str | None = body
    if kind:
        charset = _charsets.get((kind, coding), UNKNOWN)
        if charset is UNKNOWN:
            charset = _inbound_charset(kind, coding)
        if charset is not None:
            try:
                content = body.decode(charset)
            except ValueError:
                content = body
    elif not body:
        content = None
    rank = top - (priority if priority < top else top)  # noqa: FURB136 - the hot loop
    message = new_message(
        content,
        tuple(headers),
        _BASIC,
        rank,
        correlation,
        0,
        expiration,
        None,
        None,
        None,
        0,
        None,
        None,
        None,
        None,
        None,
        0,
    )
    return with_aq_properties(message, expires=expires_at is not None) if rules.aq_properties else message


def _field(name: str, raw: bytes) -> Header:
    header = _headers.get((name, raw))
    if header is None:
        if len(_headers) >= MAX_CACHE:
            _headers.clear()
        header = _headers[(name, raw)] = _fresh(name, raw)
    return header


def _fresh(name: str, raw: bytes) -> Header:
    try:
        return _make(Header, (name, _TEXT, raw.decode()))
    except UnicodeDecodeError:
        return Header(name, _RAW, raw)


def decode_table(data: bytes, at: int, end: int, *, documented: bool = False) -> list[Header]:
    """Headers of a field table in wire form, from ``at`` (after its length) to ``end``; repeated names stay repeated.

    Raises:
        ValueError, IndexError, struct.error: not well-formed.
    """
    found: list[Header] = []
    names = _header_names[documented]
    while at < end:
        stop = at + 1 + data[at]
        key = data[at + 1 : stop]
        name = names.get(key) or _header_name(key, documented=documented)
        code = data[stop]
        at = stop + 1
        if code == 83:  # S
            stop = at + 4 + _u32(data, at)[0]
            raw = data[at + 4 : stop]
            try:
                found.append(_make(Header, (name, _TEXT, raw.decode())))
            except UnicodeDecodeError:
                found.append(Header(name, _RAW, raw))
            at = stop
        else:
            kind, value, at = _value(data, code, at)
            found.append(_make(Header, (name, kind, value)))
        if at > end:
            raise ValueError("a header is longer than its table")
    return found


def _header_name(key: bytes, *, documented: bool) -> str:
    text = key.decode()
    if text.startswith(ESCAPE) and not documented and text[len(ESCAPE) :] in KEPT:
        name = text[len(ESCAPE) :]
    elif text.startswith("MGW_") or not (documented or text in KEPT or not text):
        name = text
    else:
        name = HEADER_PREFIX + text
    if len(_header_names[documented]) >= MAX_CACHE:
        _header_names[documented].clear()
    if len(name) <= MAX_HEADER_NAME:
        _header_names[documented][key] = name
    return name


_SCALARS: dict[int, tuple[ValueType, Callable[[bytes, int], tuple[Any, ...]], int]] = {
    ord("t"): (ValueType.BOOLEAN, struct.Struct(">?").unpack_from, 1),
    ord("b"): (ValueType.BYTE, struct.Struct(">b").unpack_from, 1),
    ord("B"): (ValueType.UBYTE, struct.Struct(">B").unpack_from, 1),
    ord("s"): (ValueType.SHORT, _i16, 2),
    ord("U"): (ValueType.SHORT, _i16, 2),
    ord("u"): (ValueType.USHORT, _u16, 2),
    ord("I"): (ValueType.INTEGER, _i32, 4),
    ord("i"): (ValueType.UINT, _u32, 4),
    ord("l"): (ValueType.LONG, _i64, 8),
    ord("L"): (ValueType.LONG, _i64, 8),
    ord("f"): (ValueType.FLOAT, _f32, 4),
    ord("d"): (ValueType.DOUBLE, _f64, 8),
}


def _value(data: bytes, code: int, at: int) -> tuple[ValueType, HeaderValue, int]:
    """Type, value and the place after it."""
    scalar = _SCALARS.get(code)
    if scalar is not None:
        kind, unpack, size = scalar
        return kind, unpack(data, at)[0], at + size
    if code == 84:  # T
        return _DATE, float(_u64(data, at)[0]), at + 8
    if code == 120:  # x
        end = at + 4 + _u32(data, at)[0]
        return _RAW, data[at + 4 : end], end
    if code == 68:  # D
        return ValueType.DECIMAL, decimal_text(data, at), at + 5
    text, at = json_text(data, code, at)
    return ValueType.JSON, text, at


def _inbound_charset(kind: bytes, coding: bytes) -> str | None:
    """Name of the codec that reads a body of this content type and encoding; None: leave it raw."""
    charset: str | None = None
    try:
        full = kind.decode("ascii")
        media = full.split(";", 1)[0].strip().lower()
        if media.startswith("text/") or media.endswith(("/json", "/xml", "+json", "+xml")):
            encoding = text_codec(coding.decode("ascii")) if coding else "utf-8"
            parameter = charset_parameter(full)
            if encoding is not None:
                charset = text_codec(parameter) if parameter else encoding
    except UnicodeDecodeError:
        pass
    if len(_charsets) >= MAX_CACHE:
        _charsets.clear()
    _charsets[(kind, coding)] = charset
    return charset
