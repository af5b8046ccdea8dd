"""The AMQP form of messages that differ from one before in their body, id and time of enqueue only.

Messages of one flow mostly have the same header array, as one object. Their properties are made once
(:mod:`mgw.transforms.amqp.outbound`); for the next ones only the id and the time are put in.
"""

from __future__ import annotations

import struct
from math import floor
from typing import Any, NamedTuple

from mgw.transforms.amqp.common import (
    CONTENT_ENCODING,
    CONTENT_TYPE,
    CORRELATION_ID,
    DELIVERY_MODE,
    EXPIRATION,
    HEADER_TABLE,
    MESSAGE_ID,
    PRIORITY,
    REPLY_TO,
    TIMESTAMP,
    Content,
    Rules,
)
from mgw.transforms.amqp.header_split import BORROWED_TEXT, is_split, split
from mgw.transforms.amqp.outbound import borrowed_charset, encode, text_charset
from mgw.transforms.message import Header, Message

__all__ = ["encode_known"]

_REMEMBERED = 256

_pack_flags = struct.Struct(">H").pack
_pack_u64 = struct.Struct(">Q").pack
_make = tuple.__new__


class _Form(NamedTuple):
    """The properties of messages with one header array, kind of body and priority."""

    headers: tuple[Header, ...]  # kept, so that its identity remains its own
    rules: Rules
    charset: str
    flags: int  # without those of an id and a time that are the message's own
    head: bytes  # up to the id
    ident: bytes | None  # None: the message's own
    time: bytes | None
    tail: bytes
    routing_key: Any


_Key = tuple[int, int, type, int]
_forms: dict[_Key, _Form] = {}


def encode_known(message: Message, rules: Rules) -> Content | None:
    """As :func:`~mgw.transforms.amqp.outbound.encode`, which the caller asks where this is None.

    Raises:
        ConversionFailure: as there.
    """
    headers, body = message.headers, message.body
    kind = body.__class__
    if (kind is not bytes and kind is not str) or (
        message.correlation is not None
        or message.expiration is not None
        or message.expires_at is not None
        or message.sender_name is not None
    ):
        return None
    place = id(headers), id(rules), kind, message.priority
    form = _forms.get(place)
    if form is None or form[0] is not headers or form[1] is not rules:
        return _learn(place, message, rules) if is_split(headers, rules.documented) else None
    _, _, charset, flags, head, ident, time, tail, key = form
    try:
        data: Any = body if kind is bytes else body.encode(charset)  # type: ignore[union-attr]
        if ident is None:
            msgid = message.msgid
            ident = b""
            if msgid is not None:
                flags |= MESSAGE_ID
                ident = b"\x28AQMSGID:" + msgid.hex().encode()
        if time is None:
            moment = message.enqueue_time
            time = b""
            if moment is not None:
                flags |= TIMESTAMP
                time = _pack_u64(floor(moment))
    except (ValueError, OverflowError, struct.error):  # it has its own words for what cannot be sent
        return None
    return _make(Content, (_pack_flags(flags) + head + ident + time + tail, data, key))


def _learn(place: _Key, message: Message, rules: Rules) -> Content | None:
    """The second message with a header array: there may be more."""
    if rules.aq_properties or rules.preserve_id or rules.original:
        return None
    content = encode(message, 0.0, rules)  # it does not expire
    data, fields = content.properties, split(message.headers, rules.documented)[1]
    flags = int.from_bytes(data[:2])
    start = _behind(data, flags, 2, CONTENT_TYPE | CONTENT_ENCODING | HEADER_TABLE | DELIVERY_MODE | PRIORITY)
    start = _behind(data, flags, start, CORRELATION_ID | REPLY_TO | EXPIRATION)
    middle = _behind(data, flags, start, MESSAGE_ID)
    end = _behind(data, flags, middle, TIMESTAMP)
    ident = data[start:middle] if MESSAGE_ID in fields else None
    time = data[middle:end] if TIMESTAMP in fields else None
    if ident is None:
        flags &= ~MESSAGE_ID
    if time is None:
        flags &= ~TIMESTAMP
    charset = ""
    if type(message.body) is str:
        charset_of = borrowed_charset if BORROWED_TEXT in fields else text_charset
        charset = charset_of(fields.get(CONTENT_TYPE), fields.get(CONTENT_ENCODING))
    key = content.routing_key
    if len(_forms) >= _REMEMBERED:
        _forms.clear()
    _forms[place] = _Form(message.headers, rules, charset, flags, data[2:start], ident, time, data[end:], key)
    return content


def _behind(data: bytes, flags: int, at: int, fields: int) -> int:
    """Where those of the properties end that are ``fields``, which begin at ``at``."""
    there = flags & fields
    for flag in (CONTENT_TYPE, CONTENT_ENCODING, CORRELATION_ID, REPLY_TO, EXPIRATION, MESSAGE_ID):
        if flag == CORRELATION_ID:
            if there & HEADER_TABLE:
                at += 4 + int.from_bytes(data[at : at + 4])
            at += bool(there & DELIVERY_MODE) + bool(there & PRIORITY)
        if there & flag:
            at += 1 + data[at]
    return at + (8 if there & TIMESTAMP else 0)
