"""Canonical messages as AMQP 0-9-1 content, and back: pure functions on bytes, no connection.

Properties are handled in their wire form (the property flags and values of a content header frame), because that is
what both ends need and because client libraries lose types on the way (floats arrive as integers, or cannot be sent).

=====================  ==========================================  ==================================================
AMQP                   outbound                                    inbound
=====================  ==========================================  ==================================================
priority               AQ p: < 0 -> P, > P -> 0, else P - p        P - min(v, P), absent: P. P is AMQP_MaxPriority
expiration             seconds left, in ms                         ms less age by timestamp, rounded up, >= 1 s
correlation-id         MGW_AMQP_correlationId, else correlation    correlation; over 128 characters: the header
message-id             MGW_AMQP_messageId, else AQMSGID: + hex     MGW_AMQP_messageId
timestamp              MGW_AMQP_timestamp, else enqueue time;      MGW_AMQP_timestamp
                       with an expiration: the time of sending
app-id                 MGW_AMQP_appId, else sender name            MGW_AMQP_appId
type, reply-to         MGW_AMQP_type, MGW_AMQP_replyTo             the same
user-id                MGW_AMQP_userId, must be the link's user    MGW_AMQP_userId
content-type           MGW_AMQP_contentType, else text/plain or    MGW_AMQP_contentType
                       application/octet-stream; none: no body
content-encoding       MGW_AMQP_contentEncoding, else utf-8        MGW_AMQP_contentEncoding
delivery-mode          2                                           MGW_AMQP_deliveryMode
exchange, routing key  MGW_AMQP_routingKey where it is left open   MGW_AMQP_exchange (not the default), _routingKey
redelivered            --                                          MGW_AMQP_redelivered, when true
header x               x, or MGW_AMQP_H_x                          MGW_AMQP_H_x
header MGW_y           MGW_y                                       MGW_y
=====================  ==========================================  ==================================================

Header types map one to one; unsigned integers widen; decimals become doubles (exact only as far as a double goes);
arrays, tables and void become JSON text (void: ``null``); text that is not UTF-8 becomes RAW. What the broker itself
writes about one hop (``x-death``, ``x-delivery-count`` and the like) is shown inbound and not sent on. AMQP times have
whole seconds.
"""

from __future__ import annotations

import base64
import codecs
import json
import math
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from transforms.errors import ConversionFailure
from transforms.message import (
    MAX_CORRELATION,
    MAX_HEADER_NAME,
    Header,
    HeaderValue,
    Message,
    PayloadKind,
    ValueType,
    check_headers,
    new_message,
)

__all__ = ["HEADER_PREFIX", "PREFIX", "Content", "Rules", "decode", "decode_table", "encode"]

PREFIX = "MGW_AMQP_"
HEADER_PREFIX = "MGW_AMQP_H_"
_EXPIRES_AT = (
    "MGW_AQ_expires_at"  # epoch milliseconds; says when a message expires whose timestamp is not the sending time
)

_TEXT, _RAW, _DATE = ValueType.TEXT, ValueType.RAW, ValueType.DATE
_BASIC = PayloadKind.BASIC


@dataclass(frozen=True, slots=True)
class Rules:
    """How one job maps.

    Attributes:
        max_priority: P of the priority rule, 0..255 (foreign queue option AMQP_MaxPriority).
        user: user name of the link; a message that claims another user is refused. None: not checked.
        aq_properties: job option AQ_MsgProperties: AQ properties travel as ``MGW_AQ_*`` headers.
        preserve_id: job option PreserveMessageID: the hub's id travels as ``MGW_AQ_messageID`` too.
    """

    max_priority: int = 9
    user: str | None = None
    aq_properties: bool = False
    preserve_id: bool = False


class Content(NamedTuple):
    """An AMQP message without its envelope: properties in wire form, body, and the routing key it asks for."""

    properties: bytes
    body: bytes
    routing_key: str | None = None


# -- outbound ---------------------------------------------------------------------------------------------------------

# Property flags, in the order of the fields on the wire.
_CONTENT_TYPE, _CONTENT_ENCODING, _HEADERS, _DELIVERY_MODE, _PRIORITY = 0x8000, 0x4000, 0x2000, 0x1000, 0x0800
_CORRELATION_ID, _REPLY_TO, _EXPIRATION, _MESSAGE_ID, _TIMESTAMP = 0x0400, 0x0200, 0x0100, 0x0080, 0x0040
_TYPE, _USER_ID, _APP_ID, _CLUSTER_ID = 0x0020, 0x0010, 0x0008, 0x0004

_FIELDS = {  # property headers a message may carry: header name -> (flag, types it may have)
    "MGW_AMQP_contentType": _CONTENT_TYPE,
    "MGW_AMQP_contentEncoding": _CONTENT_ENCODING,
    "MGW_AMQP_correlationId": _CORRELATION_ID,
    "MGW_AMQP_replyTo": _REPLY_TO,
    "MGW_AMQP_messageId": _MESSAGE_ID,
    "MGW_AMQP_timestamp": _TIMESTAMP,
    "MGW_AMQP_type": _TYPE,
    "MGW_AMQP_userId": _USER_ID,
    "MGW_AMQP_appId": _APP_ID,
    "MGW_AMQP_clusterId": _CLUSTER_ID,
    "MGW_AMQP_routingKey": 1,  # no property: the envelope
}
_FIELD_NAMES = {flag: name for name, flag in _FIELDS.items()}
#: Say something about the hop that is over: shown inbound, never sent.
_HOP_FIELDS = frozenset(PREFIX + name for name in ("exchange", "redelivered", "deliveryMode", "expiration")) | {
    _EXPIRES_AT
}
_HOP_HEADERS = frozenset(
    (
        "x-death",
        "x-first-death-exchange",
        "x-first-death-queue",
        "x-first-death-reason",
        "x-last-death-exchange",
        "x-last-death-queue",
        "x-last-death-reason",
        "x-delivery-count",
        "x-acquired-count",
        "x-stream-offset",
    )
)
_SENDER_SELECTED = frozenset(
    ("CC", "BCC")
)  # the broker takes these as routing keys and closes the channel on plain text

_pack_u32 = struct.Struct(">I").pack
_pack_flags = struct.Struct(">H").pack
_pack_u64 = struct.Struct(">Q").pack
_pack_byte, _pack_short = struct.Struct(">cb").pack, struct.Struct(">ch").pack
_pack_int, _pack_long = struct.Struct(">ci").pack, struct.Struct(">cq").pack
_pack_float, _pack_double = struct.Struct(">cf").pack, struct.Struct(">cd").pack
_pack_time = struct.Struct(">cQ").pack


def _encode_text(value: Any) -> bytes:
    data: bytes = value.encode()
    return b"S" + _pack_u32(len(data)) + data


def _encode_raw(value: Any) -> bytes:
    return b"x" + _pack_u32(len(value)) + bytes(value)


def _finite(value: Any) -> Any:
    if not math.isfinite(value):  # RabbitMQ cannot read it and ends the connection
        raise ValueError
    return value


_ENCODERS: dict[int, Callable[[Any], bytes]] = {
    ValueType.TEXT: _encode_text,
    ValueType.RAW: _encode_raw,
    ValueType.BOOLEAN: lambda value: b"t\x01" if value else b"t\x00",
    ValueType.BYTE: lambda value: _pack_byte(b"b", value),
    ValueType.SHORT: lambda value: _pack_short(b"s", value),
    ValueType.INTEGER: lambda value: _pack_int(b"I", value),
    ValueType.LONG: lambda value: _pack_long(b"l", value),
    ValueType.FLOAT: lambda value: _pack_float(b"f", _finite(value)),
    ValueType.DOUBLE: lambda value: _pack_double(b"d", _finite(value)),
    ValueType.DATE: lambda value: _pack_time(b"T", math.floor(value)),
}

_OCTETS = b"\x18application/octet-stream"
_PLAIN_UTF8 = b"\x0atext/plain\x05utf-8"
#: What becomes of a header name outbound: bytes = table key, int = property flag, None = not sent. Bounded.
_names: dict[str, bytes | int | None] = {}
_MAX_CACHE = 4096
_UNKNOWN: Any = object()


def encode(  # noqa: C901, PLR0912, PLR0915 - one pass over the properties in wire order, kept flat for speed
    message: Message, now: float, rules: Rules
) -> Content:
    """The AMQP form of a message at time ``now`` (epoch seconds).

    A message that has already expired gets expiration 0: the broker drops it unless somebody waits for it.

    Raises:
        ConversionFailure: a header or property AMQP cannot carry, a text its charset cannot, another user's id.
    """
    headers = message.headers
    if rules.aq_properties or rules.preserve_id:
        headers = (*headers, *_aq_headers(message, now, rules))
    if headers:
        table, fields = _split(headers)
    else:
        table, fields = b"", _NO_FIELDS

    remaining = message.remaining(now)
    sent = fields.get(_TIMESTAMP, message.enqueue_time)
    if remaining is not None:
        if _TIMESTAMP in fields:
            table += _name_key(_EXPIRES_AT) + _pack_long(b"l", int((now + remaining) * 1000))
        else:
            sent = now

    flags = _DELIVERY_MODE | _PRIORITY
    body, flags, pieces = _body(message, fields, flags)
    if table:
        flags |= _HEADERS
        pieces += _pack_u32(len(table)) + table
    top = rules.max_priority
    priority = message.priority
    pieces += b"\x02" + bytes((top if priority < 0 else 0 if priority > top else top - priority,))

    correlation = fields.get(_CORRELATION_ID, message.correlation)
    if correlation is not None:
        flags |= _CORRELATION_ID
        pieces += _short(correlation, _CORRELATION_ID)
    if _REPLY_TO in fields:
        flags |= _REPLY_TO
        pieces += _short(fields[_REPLY_TO], _REPLY_TO)
    if remaining is not None:
        flags |= _EXPIRATION
        pieces += _short(str(max(0, math.ceil(remaining * 1000))), _EXPIRATION)
    if _MESSAGE_ID in fields:
        flags |= _MESSAGE_ID
        pieces += _short(fields[_MESSAGE_ID], _MESSAGE_ID)
    elif message.msgid is not None:
        flags |= _MESSAGE_ID
        pieces += b"\x28AQMSGID:" + message.msgid.hex().encode()
    if sent is not None:
        flags |= _TIMESTAMP
        pieces += _time(sent)
    if fields:
        for flag in (_TYPE, _USER_ID):
            if flag in fields:
                flags |= flag
                pieces += _short(fields[flag], flag)
        if rules.user is not None and fields.get(_USER_ID, rules.user) != rules.user:
            raise ConversionFailure(
                f"header {PREFIX}userId is {fields[_USER_ID]!r}",
                cause=f"RabbitMQ accepts only the link's own user, {rules.user!r}",
                cure="remove the header in a transformation",
            )
    sender = fields.get(_APP_ID, message.sender_name)
    if sender is not None:
        flags |= _APP_ID
        pieces += _short(sender, _APP_ID)
    if _CLUSTER_ID in fields:
        flags |= _CLUSTER_ID
        pieces += _short(fields[_CLUSTER_ID], _CLUSTER_ID)
    return Content(_pack_flags(flags) + pieces, body, fields.get(1))


_NO_FIELDS: dict[int, Any] = {}


def _body(message: Message, fields: dict[int, Any], flags: int) -> tuple[bytes, int, bytes]:
    """Body bytes, flags, and the first two properties."""
    body = message.body
    kind, coding = fields.get(_CONTENT_TYPE), fields.get(_CONTENT_ENCODING)
    if kind is None and coding is None:
        if type(body) is bytes:
            return body, flags | _CONTENT_TYPE, _OCTETS
        if type(body) is str:
            return _charset_bytes(body, "utf-8"), flags | _CONTENT_TYPE | _CONTENT_ENCODING, _PLAIN_UTF8
    pieces = b""
    if isinstance(body, tuple):
        from transforms.convert import fields_to_json  # rare: only messages made of fields

        body = fields_to_json(body)[0]
        kind = kind or "application/json"
    if kind is None and body is not None:
        kind = "text/plain" if isinstance(body, str) else "application/octet-stream"
    if isinstance(body, str):
        data = _charset_bytes(body, _outbound_charset(kind, coding))
        coding = coding or "utf-8"
    else:
        data = body or b""
    if kind is not None:
        flags |= _CONTENT_TYPE
        pieces = _short(kind, _CONTENT_TYPE)
    if coding is not None:
        flags |= _CONTENT_ENCODING
        pieces += _short(coding, _CONTENT_ENCODING)
    return data, flags, pieces


def _charset_bytes(text: str, charset: str) -> bytes:
    try:
        return text.encode(charset)
    except UnicodeEncodeError as error:
        raise ConversionFailure(
            "the text body cannot be sent",
            cause=f"character {text[error.start]!r} at {error.start} does not exist in {charset}",
            cure="send the body as bytes, or with another MGW_AMQP_contentEncoding",
        ) from error


def _outbound_charset(kind: Any, coding: Any) -> str:
    charset = _charset_parameter(kind if isinstance(kind, str) else "") or coding or "utf-8"
    name = _text_codec(charset if isinstance(charset, str) else "")
    if name is None:
        raise ConversionFailure(
            f"a text body cannot be sent with content encoding {charset!r}",
            cause="it is not the name of a character set",
            cure="send the body as bytes, or correct MGW_AMQP_contentEncoding in a transformation",
        )
    return name


def _split(headers: tuple[Header, ...]) -> tuple[bytes, dict[int, Any]]:
    """The headers table in wire form (without its length), and the fields that are properties."""
    check_headers(headers)
    pieces: list[bytes] = []
    fields = _NO_FIELDS
    for name, kind, value in headers:
        place = _names.get(name, _UNKNOWN)
        if place is _UNKNOWN:
            place = _place(name)
        if type(place) is bytes:
            try:
                pieces.append(place + _ENCODERS[kind](value))
            except (struct.error, AttributeError, TypeError, ValueError, OverflowError) as error:
                raise ConversionFailure(
                    f"header {name!r} cannot be sent",
                    cause=f"{value!r:.60} is not a {kind.name} that AMQP can carry",
                    cure="give it another type in a transformation",
                ) from error
        elif place is not None:
            if (kind is not _DATE) if place == _TIMESTAMP else (kind is not _TEXT and kind is not _RAW):
                wanted = "DATE" if place == _TIMESTAMP else "TEXT"
                raise ConversionFailure(
                    f"header {name!r} is {ValueType(kind).name}",
                    cause=f"it must be {wanted}",
                    cure="give it the right type in a transformation",
                )
            if not fields:
                fields = {}
            fields.setdefault(int(place), value)
    return b"".join(pieces), fields


def _place(name: str) -> bytes | int | None:
    place: bytes | int | None
    if name in _FIELDS:
        place = _FIELDS[name]
    elif name in _HOP_FIELDS:
        place = None
    else:
        plain = name.removeprefix(HEADER_PREFIX)
        place = None if plain in _HOP_HEADERS else _name_key(plain)
    if len(_names) >= _MAX_CACHE:
        _names.clear()
    _names[name] = place
    return place


def _name_key(name: str) -> bytes:
    if name in _SENDER_SELECTED:
        raise ConversionFailure(
            f"header {name!r} cannot be sent",
            cause="RabbitMQ reads it as a list of further routing keys and refuses anything else",
            cure="rename or remove it in a transformation",
        )
    try:
        data = name.encode()
    except UnicodeEncodeError as error:
        raise ConversionFailure(f"header name {name!a:.60} is not valid Unicode", cause=str(error)) from error
    if not data or len(data) > 255:
        raise ConversionFailure(
            f"header name {name[:40]!r} has {len(data)} bytes",
            cause="AMQP names have 1 to 255 bytes of UTF-8",
            cure="change the name in a transformation",
        )
    return bytes((len(data),)) + data


def _short(value: Any, flag: int) -> bytes:
    try:
        data: bytes = value if type(value) is bytes else value.encode()
    except UnicodeEncodeError as error:
        raise ConversionFailure(f"{_property(flag)} is not valid Unicode", cause=str(error)) from error
    if len(data) > 255:
        raise ConversionFailure(
            f"{_property(flag)} has {len(data)} bytes",
            cause="this AMQP property holds at most 255",
            cure="shorten it at the sender or in a transformation",
        )
    return bytes((len(data),)) + data


def _property(flag: int) -> str:
    return _FIELD_NAMES.get(flag, "expiration")


def _time(value: float) -> bytes:
    try:
        return _pack_u64(math.floor(value))
    except (struct.error, ValueError, OverflowError) as error:
        raise ConversionFailure(
            f"timestamp {value!r} cannot be sent",
            cause="AMQP timestamps start at 1970-01-01",
            cure="correct the header",
        ) from error


def _aq_headers(message: Message, now: float, rules: Rules) -> list[Header]:
    """AQ properties as headers (job options AQ_MsgProperties and PreserveMessageID); explicit headers win."""
    made: list[Header] = []
    if rules.aq_properties:
        remaining = message.remaining(now)
        made = [
            Header("MGW_AQ_priority", ValueType.INTEGER, message.priority),
            Header("MGW_AQ_expiration", ValueType.INTEGER, -1 if remaining is None else max(0, math.ceil(remaining))),
            Header("MGW_AQ_delay", ValueType.INTEGER, 0),
        ]
        if message.correlation is not None:
            made.append(Header("MGW_AQ_correlation", _TEXT, message.correlation))
        if message.exception_queue is not None:
            made.append(Header("MGW_AQ_exception_queue", _TEXT, message.exception_queue))
        if message.enqueue_time is not None:
            made.append(Header("MGW_AQ_enqueue_time", _DATE, message.enqueue_time))
        if message.original_msgid is not None:
            made.append(Header("MGW_AQ_original_msgid", _RAW, message.original_msgid))
    if rules.preserve_id and message.msgid is not None:
        made.append(Header("MGW_AQ_messageID", _RAW, message.msgid))
    present = {header.name for header in message.headers}
    return [header for header in made if header.name not in present]


# -- inbound ----------------------------------------------------------------------------------------------------------

_u16, _u32, _u64 = struct.Struct(">H").unpack_from, struct.Struct(">I").unpack_from, struct.Struct(">Q").unpack_from
_i16, _i32, _i64 = struct.Struct(">h").unpack_from, struct.Struct(">i").unpack_from, struct.Struct(">q").unpack_from
_f32, _f64 = struct.Struct(">f").unpack_from, struct.Struct(">d").unpack_from

_make = tuple.__new__  # a named tuple without the cost of its constructor
_REDELIVERED = Header(PREFIX + "redelivered", ValueType.BOOLEAN, True)
_MODES = tuple(Header(PREFIX + "deliveryMode", ValueType.INTEGER, mode) for mode in range(256))
_header_names: dict[bytes, str] = {}
_charsets: dict[tuple[bytes, bytes], str | None] = {}
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
        return _decode(properties, body, exchange, routing_key, redelivered, now, rules, headers), None
    except ConversionFailure as error:
        failure = error
    except (struct.error, IndexError, ValueError, RecursionError) as error:
        failure = ConversionFailure(
            "the AMQP properties of the message cannot be read",
            cause=f"they are not well-formed ({error})",
            cure="look at the sender; the body is kept as it came",
        )
    return Message(body, tuple(headers)), failure


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
    timestamp: int | None = None
    priority = 0
    if flags & 1:
        raise ValueError("further property flags")
    if flags & _CONTENT_TYPE:
        end = at + 1 + data[at]
        kind = data[at + 1 : end]
        headers.append(_field("MGW_AMQP_contentType", kind))
        at = end
    if flags & _CONTENT_ENCODING:
        end = at + 1 + data[at]
        coding = data[at + 1 : end]
        headers.append(_field("MGW_AMQP_contentEncoding", coding))
        at = end
    if flags & _HEADERS:
        end = at + 4 + _u32(data, at)[0]
        if end > len(data):
            raise ValueError("the headers table is longer than the properties")
        table = decode_table(data, at + 4, end)
        at = end
    if flags & _DELIVERY_MODE:
        headers.append(_MODES[data[at]])
        at += 1
    if flags & _PRIORITY:
        priority = data[at]
        at += 1
    if flags & _CORRELATION_ID:
        end = at + 1 + data[at]
        raw = data[at + 1 : end]
        at = end
        with suppress(UnicodeDecodeError):
            correlation = raw.decode()
        if correlation is None or len(correlation) > MAX_CORRELATION:
            correlation = None
            headers.append(_fresh("MGW_AMQP_correlationId", raw))
    if flags & _REPLY_TO:
        end = at + 1 + data[at]
        headers.append(_field("MGW_AMQP_replyTo", data[at + 1 : end]))
        at = end
    if flags & _EXPIRATION:
        end = at + 1 + data[at]
        raw = data[at + 1 : end]
        at = end
        if raw.isdigit():
            expiration = int(raw) / 1000
        else:
            headers.append(_fresh("MGW_AMQP_expiration", raw))
    if flags & _MESSAGE_ID:
        end = at + 1 + data[at]
        headers.append(_fresh("MGW_AMQP_messageId", data[at + 1 : end]))
        at = end
    if flags & _TIMESTAMP:
        (timestamp,) = _u64(data, at)
        headers.append(_make(Header, ("MGW_AMQP_timestamp", _DATE, float(timestamp))))
        at += 8
    if flags & 0x3C:
        for flag in (_TYPE, _USER_ID, _APP_ID, _CLUSTER_ID):
            if flags & flag:
                end = at + 1 + data[at]
                headers.append(_field(_FIELD_NAMES[flag], data[at + 1 : end]))
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
        if _EXPIRES_AT in (names := [header[0] for header in table]):
            place = names.index(_EXPIRES_AT)
            value = table[place].value
            if type(value) is int:
                expires_at = value / 1000
                headers.remove(table[place])
        check_headers(tuple(headers))
    if expiration is not None:
        if expires_at is not None:
            expiration = expires_at - now
        elif timestamp is not None:
            expiration -= max(0.0, now - timestamp)
        expiration = max(1, math.ceil(expiration))
    top = rules.max_priority
    content: bytes | str | None = body
    if kind:
        charset = _charsets.get((kind, coding), _UNKNOWN)
        if charset is _UNKNOWN:
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
        content, tuple(headers), _BASIC, rank, correlation, 0, expiration, None, None, None, 0, None, None, None, None
    )
    return _with_aq_properties(message) if rules.aq_properties else message


def _field(name: str, raw: bytes) -> Header:
    header = _headers.get((name, raw))
    if header is None:
        if len(_headers) >= _MAX_CACHE:
            _headers.clear()
        header = _headers[(name, raw)] = _fresh(name, raw)
    return header


def _fresh(name: str, raw: bytes) -> Header:
    try:
        return _make(Header, (name, _TEXT, raw.decode()))
    except UnicodeDecodeError:
        return Header(name, _RAW, raw)


def decode_table(data: bytes, at: int, end: int) -> list[Header]:
    """Headers of a field table in wire form, from ``at`` (after its length) to ``end``; repeated names stay repeated.

    Raises:
        ValueError, IndexError, struct.error: not well-formed.
    """
    found: list[Header] = []
    while at < end:
        stop = at + 1 + data[at]
        key = data[at + 1 : stop]
        name = _header_names.get(key) or _header_name(key)
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


def _header_name(key: bytes) -> str:
    text = key.decode()
    name = text if text.startswith("MGW_") else HEADER_PREFIX + text
    if len(_header_names) >= _MAX_CACHE:
        _header_names.clear()
    if len(name) <= MAX_HEADER_NAME:
        _header_names[key] = name
    return name


_SCALARS: dict[int, tuple[ValueType, Callable[[bytes, int], tuple[Any, ...]], int]] = {
    ord("t"): (ValueType.BOOLEAN, struct.Struct(">?").unpack_from, 1),
    ord("b"): (ValueType.BYTE, struct.Struct(">b").unpack_from, 1),
    ord("B"): (ValueType.SHORT, struct.Struct(">B").unpack_from, 1),
    ord("s"): (ValueType.SHORT, _i16, 2),
    ord("U"): (ValueType.SHORT, _i16, 2),
    ord("u"): (ValueType.INTEGER, _u16, 2),
    ord("I"): (ValueType.INTEGER, _i32, 4),
    ord("i"): (ValueType.LONG, _u32, 4),
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
        return ValueType.DOUBLE, _i32(data, at + 1)[0] / 10.0 ** data[at], at + 5
    value, at = _nested(data, code, at)
    return _TEXT, json.dumps(value, separators=(",", ":"), ensure_ascii=False), at


def _nested(data: bytes, code: int, at: int) -> tuple[Any, int]:
    """A value inside an array or table, as something JSON can hold: times as epoch seconds, bytes in base64."""
    if code == 86:  # V
        return None, at
    if code == 65:  # A
        end = at + 4 + _u32(data, at)[0]
        at += 4
        items = []
        while at < end:
            item, at = _nested(data, data[at], at + 1)
            items.append(item)
        return items, at
    if code == 70:  # F
        end = at + 4 + _u32(data, at)[0]
        at += 4
        table = {}
        while at < end:
            stop = at + 1 + data[at]
            name = data[at + 1 : stop].decode(errors="backslashreplace")
            table[name], at = _nested(data, data[stop], stop + 1)
        return table, at
    if code == 83:  # S
        end = at + 4 + _u32(data, at)[0]
        raw = data[at + 4 : end]
        try:
            return raw.decode(), end
        except UnicodeDecodeError:
            return base64.b64encode(raw).decode("ascii"), end
    if code not in _SCALARS and code not in (68, 84, 120):
        raise ValueError(f"unknown field type {code}")
    _, value, at = _value(data, code, at)
    return (base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else value), at


def _inbound_charset(kind: bytes, coding: bytes) -> str | None:
    """Name of the codec that reads a body of this content type and encoding; None: leave it raw."""
    charset: str | None = None
    try:
        full = kind.decode("ascii")
        media = full.split(";", 1)[0].strip().lower()
        if media.startswith("text/") or media.endswith(("/json", "/xml", "+json", "+xml")):
            encoding = _text_codec(coding.decode("ascii")) if coding else "utf-8"
            parameter = _charset_parameter(full)
            if encoding is not None:
                charset = _text_codec(parameter) if parameter else encoding
    except UnicodeDecodeError:
        pass
    if len(_charsets) >= _MAX_CACHE:
        _charsets.clear()
    _charsets[(kind, coding)] = charset
    return charset


def _charset_parameter(content_type: str) -> str | None:
    for part in content_type.split(";")[1:]:
        name, _, value = part.partition("=")
        if name.strip().lower() == "charset":
            return value.strip().strip('"') or None
    return None


def _text_codec(name: str) -> str | None:
    """Canonical name of a character set, None if it is none (``gzip``)."""
    try:
        info = codecs.lookup(name)
    except (LookupError, ValueError):
        return None
    return info.name if getattr(info, "_is_text_encoding", True) else None


_AQ_FIELDS: dict[str, tuple[str, ValueType]] = {
    "MGW_AQ_priority": ("priority", ValueType.INTEGER),
    "MGW_AQ_expiration": ("expiration", ValueType.INTEGER),
    "MGW_AQ_delay": ("delay", ValueType.INTEGER),
    "MGW_AQ_correlation": ("correlation", ValueType.TEXT),
    "MGW_AQ_exception_queue": ("exception_queue", ValueType.TEXT),
}


def _with_aq_properties(message: Message) -> Message:
    """AQ properties from reserved headers (job option AQ_MsgProperties): the first of a name wins."""
    changes: dict[str, Any] = {}
    for name, kind, value in message.headers:
        field = _AQ_FIELDS.get(name)
        if field is None or field[0] in changes:
            continue
        if kind is not field[1]:
            raise ConversionFailure(
                f"header {name!r} is {kind.name}",
                cause=f"with AQ_MsgProperties it must be {field[1].name}",
                cure="correct the sender or set AQ_MsgProperties to FALSE",
            )
        changes[field[0]] = None if name == "MGW_AQ_expiration" and value == -1 else value
    correlation = changes.get("correlation")
    if correlation is not None and len(correlation) > MAX_CORRELATION:
        raise ConversionFailure(
            f"header 'MGW_AQ_correlation' has {len(correlation)} characters",
            cause=f"a correlation holds at most {MAX_CORRELATION}",
            cure="correct the sender or set AQ_MsgProperties to FALSE",
        )
    return replace(message, **changes) if changes else message
