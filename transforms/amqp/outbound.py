"""Canonical messages to AMQP content: see :mod:`mgw.transforms.amqp` for the map."""

from __future__ import annotations

import math
import struct
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
    HEADER_TABLE,
    MAX_EXPIRATION,
    MESSAGE_ID,
    MODES,
    PREFIX,
    PRIORITY,
    REPLY_TO,
    ROUTING_KEY,
    TIMESTAMP,
    TYPE_NAME,
    USER_ID,
    Content,
    Rules,
    charset_parameter,
    text_codec,
)
from mgw.transforms.amqp.header_split import (
    BORROWED_CORRELATION,
    BORROWED_TEXT,
    NO_FIELDS,
    name_key,
    split,
    split_original,
)
from mgw.transforms.amqp.table import FIELD_NAMES
from mgw.transforms.aq_properties import MESSAGE_ID as MESSAGE_ID_HEADER
from mgw.transforms.aq_properties import property_headers
from mgw.transforms.errors import ConversionFailure
from mgw.transforms.message import Header, Message, ValueType
from mgw.transforms.objects import AnyData, ObjectValue, plain_body

__all__ = ["borrowed_charset", "encode", "text_charset"]

_RAW = ValueType.RAW

_make = tuple.__new__  # a named tuple without the cost of its constructor
_pack_u32 = struct.Struct(">I").pack
_pack_flags = struct.Struct(">H").pack
_pack_u64 = struct.Struct(">Q").pack
_pack_long = struct.Struct(">cq").pack
_MAX_LONG, _MAX_TIME = 2**63 - 1, 2**64 - 1
_OCTETS = b"\x18application/octet-stream"
_PLAIN_UTF8 = b"\x0atext/plain\x05utf-8"


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
        if rules.original:
            table, fields = split_original(headers, rules.user, documented=rules.documented)
        else:
            table, fields = split(headers, rules.documented)
    else:
        table, fields = b"", NO_FIELDS

    remaining = message.remaining(now)
    sent = fields.get(TIMESTAMP, message.enqueue_time)
    expiration = None
    if remaining is not None:
        remaining = max(0.001, remaining)
        table += name_key(EXPIRES_AT) + _pack_long(b"l", min(_MAX_LONG, int((now + remaining) * 1000)))
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
    mode = rules.delivery_mode or _mode_of(headers)
    pieces += bytes((mode, top if priority < 0 else 0 if priority > top else top - priority))

    correlation = fields.get(CORRELATION_ID, message.correlation)
    if correlation is None and fields:
        correlation = fields.get(BORROWED_CORRELATION)
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
        if TYPE_NAME in fields:
            flags |= TYPE_NAME
            pieces += _short(fields[TYPE_NAME], TYPE_NAME)
        if USER_ID in fields:
            flags |= USER_ID
            pieces += _short(fields[USER_ID], USER_ID)
            if rules.user is not None and fields[USER_ID] != rules.user:
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
    return _make(Content, (_pack_flags(flags) + pieces, body, fields.get(ROUTING_KEY)))


def _mode_of(headers: tuple[Header, ...]) -> int:
    """The delivery mode that a message had: 1, or 2."""
    found = {name: value for name, _, value in reversed(headers) if name in MODES}
    return next((1 if found[name] == 1 else 2 for name in MODES if name in found), 2)


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
        borrowed = BORROWED_TEXT in fields
        data = _charset_bytes(body, (borrowed_charset if borrowed else text_charset)(kind, coding))
        coding = "utf-8" if coding is None and not bare else coding
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


def borrowed_charset(kind: Any, coding: Any) -> str:
    """As :func:`text_charset` where another broker tells them: UTF-8, in which it had the text, if they tell none."""
    try:
        return text_charset(kind, coding)
    except ConversionFailure:
        return "utf-8"


def text_charset(kind: Any, coding: Any) -> str:
    """The codec that writes a text body of this content type and encoding.

    Raises:
        ConversionFailure: it is not the name of a character set.
    """
    charset = charset_parameter(kind if isinstance(kind, str) else "") or coding or "utf-8"
    name = text_codec(charset if isinstance(charset, str) else "")
    if name is None:
        raise ConversionFailure(
            f"a text body cannot be sent with content encoding {charset!r}",
            cause="it is not the name of a character set",
            cure="send the body as bytes, or correct MGW_AMQP_contentEncoding in a transformation",
        )
    return name


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
    made = property_headers(message, message.remaining(now)) if rules.aq_properties else []
    if rules.preserve_id and message.msgid is not None:
        made.append(Header(MESSAGE_ID_HEADER, _RAW, message.msgid))
    present = {header.name for header in message.headers}
    return [header for header in made if header.name not in present]
