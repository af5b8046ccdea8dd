"""Canonical messages to AMQP content: see :mod:`mgw.transforms.amqp` for the map."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
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
    FIELD_NAMES,
    HEADER_PREFIX,
    HEADER_TABLE,
    MAX_CACHE,
    MAX_EXPIRATION,
    MESSAGE_ID,
    PREFIX,
    PRIORITY,
    PROPERTIES,
    REPLY_TO,
    TIMESTAMP,
    TYPE_NAME,
    UNKNOWN,
    USER_ID,
    Content,
    Rules,
    charset_parameter,
    text_codec,
)
from mgw.transforms.amqp.nested import decimal_bytes, json_bytes
from mgw.transforms.errors import ConversionFailure
from mgw.transforms.message import Header, Message, ValueType, check_headers
from mgw.transforms.objects import AnyData, ObjectValue, plain_body

__all__ = ["encode"]

_TEXT, _RAW, _DATE = ValueType.TEXT, ValueType.RAW, ValueType.DATE

ROUTING_KEY = FIELD_NAMES[1]
#: Say something about the hop that is over: shown inbound, never sent.
_HOP_FIELDS = frozenset(PREFIX + name for name in ("exchange", "redelivered", "deliveryMode", "expiration")) | {
    EXPIRES_AT
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
_pack_ubyte, _pack_ushort, _pack_uint = struct.Struct(">cB").pack, struct.Struct(">cH").pack, struct.Struct(">cI").pack
_pack_float, _pack_double = struct.Struct(">cf").pack, struct.Struct(">cd").pack
_pack_time = struct.Struct(">cQ").pack
_MAX_LONG, _MAX_TIME = 2**63 - 1, 2**64 - 1


#: What an encoder raises for a value that AMQP cannot carry.
_UNFIT = (struct.error, AttributeError, TypeError, ValueError, ArithmeticError, RecursionError)


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
    ValueType.JSON: json_bytes,
    ValueType.DECIMAL: decimal_bytes,
    ValueType.UBYTE: lambda value: _pack_ubyte(b"B", value),
    ValueType.USHORT: lambda value: _pack_ushort(b"u", value),
    ValueType.UINT: lambda value: _pack_uint(b"i", value),
}


def _wider(kind: ValueType, value: Any) -> bytes | None:
    """A number that its type cannot hold in AMQP, as the next that can: it keeps its value, not its type."""
    if type(value) is int and kind in _WHOLE:
        return _pack_long(b"l", value) if -_MAX_LONG - 1 <= value <= _MAX_LONG else _encode_text(str(value))
    if isinstance(value, float) and math.isfinite(value) and kind in (ValueType.FLOAT, _DATE):
        return _pack_double(b"d", value)
    return None


_WHOLE = frozenset((ValueType.BYTE, ValueType.SHORT, ValueType.INTEGER, ValueType.LONG))
_OCTETS = b"\x18application/octet-stream"
_PLAIN_UTF8 = b"\x0atext/plain\x05utf-8"
#: What happens to a header name outbound: bytes = table key, int = property flag, None = not sent. Bounded.
_names: dict[str, bytes | int | None] = {}


def encode(  # noqa: C901, PLR0912, PLR0915 - one pass over the properties in wire order, kept flat for speed
    message: Message, now: float, rules: Rules
) -> Content:
    """The AMQP form of a message at time ``now`` (epoch seconds).

    A message that has already expired has one millisecond left; it is for the caller not to send it.

    Raises:
        ConversionFailure: a header or property AMQP cannot carry, a text its charset cannot, another user's id.
    """
    headers = message.headers
    if (rules.aq_properties or rules.preserve_id) and not rules.original:
        headers = (*headers, *_aq_headers(message, now, rules))
    if headers:
        table, fields = _split_original(headers, rules.user) if rules.original else _split(headers)
    else:
        table, fields = b"", _NO_FIELDS

    remaining = message.remaining(now)
    sent = fields.get(TIMESTAMP, message.enqueue_time)
    expiration = None
    if remaining is not None:
        remaining = max(0.001, remaining)
        table += _name_key(EXPIRES_AT) + _pack_long(b"l", min(_MAX_LONG, int((now + remaining) * 1000)))
        expiration = math.ceil(remaining * 1000)
        if expiration > MAX_EXPIRATION:  # the header tells it; to let it die earlier would lose it
            expiration = None

    flags = DELIVERY_MODE | PRIORITY
    body, flags, pieces = _body(message, fields, flags, bare=rules.original)
    if table:
        flags |= HEADER_TABLE
        pieces += _pack_u32(len(table)) + table
    top = rules.max_priority
    priority = message.priority
    pieces += b"\x02" + bytes((top if priority < 0 else 0 if priority > top else top - priority,))

    correlation = fields.get(CORRELATION_ID, message.correlation)
    if correlation is not None:
        flags |= CORRELATION_ID
        pieces += _short(correlation, CORRELATION_ID)
    if REPLY_TO in fields:
        flags |= REPLY_TO
        pieces += _short(fields[REPLY_TO], REPLY_TO)
    if expiration is not None:
        flags |= EXPIRATION
        pieces += _short(str(expiration), EXPIRATION)
    if MESSAGE_ID in fields:
        flags |= MESSAGE_ID
        pieces += _short(fields[MESSAGE_ID], MESSAGE_ID)
    elif message.msgid is not None:
        flags |= MESSAGE_ID
        pieces += b"\x28AQMSGID:" + message.msgid.hex().encode()
    if sent is not None:
        flags |= TIMESTAMP
        pieces += _time(sent)
    if fields:
        for flag in (TYPE_NAME, USER_ID):
            if flag in fields:
                flags |= flag
                pieces += _short(fields[flag], flag)
        if rules.user is not None and fields.get(USER_ID, rules.user) != rules.user:
            raise ConversionFailure(
                f"header {PREFIX}userId is {fields[USER_ID]!r}",
                cause=f"RabbitMQ accepts only the link's own user, {rules.user!r}",
                cure="remove the header in a transformation",
            )
    sender = fields.get(APP_ID, message.sender_name)
    if sender is not None:
        flags |= APP_ID
        pieces += _short(sender, APP_ID)
    if CLUSTER_ID in fields:
        flags |= CLUSTER_ID
        pieces += _short(fields[CLUSTER_ID], CLUSTER_ID)
    return Content(_pack_flags(flags) + pieces, body, fields.get(1))


_NO_FIELDS: dict[int, Any] = {}


def _body(message: Message, fields: dict[int, Any], flags: int, *, bare: bool) -> tuple[bytes, int, bytes]:
    """Body bytes, flags, and the first two properties. ``bare``: none that no header says."""
    body = message.body
    kind, coding = fields.get(CONTENT_TYPE), fields.get(CONTENT_ENCODING)
    if kind is None and coding is None and not bare:
        if type(body) is bytes:
            return body, flags | CONTENT_TYPE, _OCTETS
        if type(body) is str:
            return _charset_bytes(body, "utf-8"), flags | CONTENT_TYPE | CONTENT_ENCODING, _PLAIN_UTF8
    pieces = b""
    if isinstance(body, (tuple, ObjectValue, AnyData)):
        body, json_kind = _structured(body)
        kind = kind or json_kind
    if kind is None and body is not None and not bare:
        kind = "text/plain" if isinstance(body, str) else "application/octet-stream"
    if isinstance(body, str):
        data = _charset_bytes(body, _outbound_charset(kind, coding))
        coding = coding or (None if bare else "utf-8")
    else:
        data = body or b""
    if kind is not None:
        flags |= CONTENT_TYPE
        pieces = _short(kind, CONTENT_TYPE)
    if coding is not None:
        flags |= CONTENT_ENCODING
        pieces += _short(coding, CONTENT_ENCODING)
    return data, flags, pieces


def _structured(body: tuple[Header, ...] | ObjectValue | AnyData) -> tuple[str | bytes | None, str | None]:
    """Fields and objects as JSON text, with its content type; ANYDATA as what it wraps."""
    if isinstance(body, tuple):
        from mgw.transforms.payloads.fields import fields_to_json  # rare: only messages made of fields

        return fields_to_json(body)[0], "application/json"
    return plain_body(body), "application/json" if isinstance(body, ObjectValue) else None


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
    charset = charset_parameter(kind if isinstance(kind, str) else "") or coding or "utf-8"
    name = text_codec(charset if isinstance(charset, str) else "")
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
    return _wire(headers)


def _split_original(headers: tuple[Header, ...], user: str | None) -> tuple[bytes, dict[int, Any]]:
    """As :func:`_split` for an exception queue."""
    told = [header for header in headers if _is_of_the_hop(header, user)]
    table, fields = _wire(tuple(header for header in headers if not _is_of_the_hop(header, user)))
    told += [header for header in headers if header.name == ROUTING_KEY]
    return table + b"".join(_name_key(name) + _encoded(name, kind, value) for name, kind, value in told), fields


def _is_of_the_hop(header: Header, user: str | None) -> bool:
    """Whether it is about the hop that is over, or would do more on this one than be carried."""
    if header.name == FIELD_NAMES[USER_ID]:
        return user is not None and header.value != user
    plain = header.name.removeprefix(HEADER_PREFIX)
    return header.name in _HOP_FIELDS or plain in _HOP_HEADERS or plain in _SENDER_SELECTED


def _wire(headers: tuple[Header, ...]) -> tuple[bytes, dict[int, Any]]:
    pieces: list[bytes] = []
    fields = _NO_FIELDS
    for name, kind, value in headers:
        place = _names.get(name, UNKNOWN)
        if place is UNKNOWN:
            place = _place(name)
        if type(place) is bytes:
            try:
                pieces.append(place + _ENCODERS[kind](value))
            except _UNFIT as error:
                if (wider := _wider(kind, value)) is not None:
                    pieces.append(place + wider)
                    continue
                raise _no_value(name, kind, value) from error
        elif place is not None:
            if (kind is not _DATE) if place == TIMESTAMP else (kind is not _TEXT and kind is not _RAW):
                wanted = "DATE" if place == TIMESTAMP else "TEXT"
                raise ConversionFailure(
                    f"header {name!r} is {ValueType(kind).name}",
                    cause=f"it must be {wanted}",
                    cure="set the right type in a transformation",
                )
            if not fields:
                fields = {}
            fields.setdefault(int(place), value)
    return b"".join(pieces), fields


def _encoded(name: str, kind: ValueType, value: Any) -> bytes:
    try:
        return _ENCODERS[kind](value)
    except _UNFIT as error:
        raise _no_value(name, kind, value) from error


def _no_value(name: str, kind: ValueType, value: Any) -> ConversionFailure:
    return ConversionFailure(
        f"header {name!r} cannot be sent",
        cause=f"{value!r:.60} is not a {kind.name} that AMQP can carry",
        cure="change its type in a transformation",
    )


def _place(name: str) -> bytes | int | None:
    place: bytes | int | None
    if name in PROPERTIES:
        place = PROPERTIES[name]
    elif name in _HOP_FIELDS:
        place = None
    else:
        plain = name.removeprefix(HEADER_PREFIX)
        place = None if plain in _HOP_HEADERS else _name_key(plain)
    if len(_names) >= MAX_CACHE:
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
    return FIELD_NAMES.get(flag, "expiration")


def _time(value: float) -> bytes:
    try:
        return _pack_u64(min(_MAX_TIME, math.floor(value)))  # a float of the last seconds is rounded up beyond
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
