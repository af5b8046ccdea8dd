"""Between canonical messages and what hub queues and brokers can hold (AQ guide 12.2 §20.1, §20.2).

Everything here is a pure function. A message that cannot be converted raises ``ConversionFailure`` with one of the
engine numbers:

====  ==================================================================================================
720   outbound: the payload cannot be sent as it is (unknown payload type, fields that JSON cannot hold)
722   the transformation failed (``TransformFailed``)
724   inbound: the payload does not fit the payload type of the hub queue
725   inbound: a text message for a RAW queue
726   the body is larger than the queue table allows
728   inbound: more than three raw fields over 2000 bytes
729   inbound: more than three text fields over 4000 characters
====  ==================================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from mgw.transforms.errors import ConversionFailure
from mgw.transforms.message import (
    MAX_HEADER_RAW,
    MAX_HEADER_TEXT,
    Body,
    Header,
    HeaderValue,
    Message,
    PayloadKind,
    find_header,
)
from mgw.transforms.objects import AnyData, ObjectValue, plain_body
from mgw.transforms.payloads.fields import FIELD_TYPES_HEADER, brief, fields_to_json, json_to_fields, misfit
from mgw.transforms.payloads.jms import JMS_NAMES, from_jms, is_jms, to_jms
from mgw.transforms.payloads.json_text import parse_exact, parse_json
from mgw.transforms.payloads.sql_types import Misfit, ObjectType
from mgw.transforms.payloads.xml_text import check_xml

__all__ = ["Fit", "fit_into", "fit_out_of", "from_payload", "sendable", "to_payload"]

Fit = Callable[[Message], Message]


def to_payload(
    message: Message,
    payload_type: str,
    max_payload: int | None = None,
    *,
    declared: ObjectType | None = None,
    preserve: bool = False,
) -> Message:
    """A canonical message as a hub queue of ``payload_type`` stores it; headers and properties stay as they are.

    ===========  =====================================================================================
    RAW          bytes; text is refused [725]
    BASIC        bytes, text or nothing
    TEXT         text; bytes have to be UTF-8
    JSON         text that is JSON; fields become an object
    FIELDS       fields; a JSON object becomes fields
    XMLTYPE      text that is well-formed XML
    OBJECT       an object of the type ``declared``; a JSON object becomes one
    ANYDATA      ANYDATA; text becomes SYS.VARCHAR2, bytes SYS.RAW
    SYS.AQ$_JMS  a JMS message (:mod:`mgw.transforms.payloads.jms`)
    ===========  =====================================================================================

    A message without body (None) fits every type but FIELDS. ``max_payload``: largest body in bytes, None = no limit.
    Objects are measured when they are stored. ``preserve``: the id that a JMS message came with is kept.

    Raises:
        ConversionFailure: [724] to [729], as listed at the top of this module.
    """
    if payload_type in JMS_NAMES:
        return to_jms(message, payload_type, preserve=preserve)
    convert = _INBOUND.get(payload_type)
    if payload_type == "OBJECT" and declared is not None:
        convert = partial(_to_object, declared)
    if convert is None:
        raise misfit(payload_type, "the gateway has no canonical form for this payload type")
    kind, body = convert(message)
    if max_payload is not None:
        _check_size(body, max_payload)
    if body is message.body and kind is message.kind:
        return message
    return replace(message, body=body, kind=kind)


def fit_into(
    payload_type: str, *, max_payload: int | None = None, declared: ObjectType | None = None, preserve: bool = False
) -> Fit:
    """:func:`to_payload` for one queue: a function of a message. What fits as it is costs next to nothing."""
    general = partial(
        to_payload, payload_type=payload_type, max_payload=max_payload, declared=declared, preserve=preserve
    )
    if payload_type != "BASIC":
        return general
    limit = math.inf if max_payload is None else max_payload

    def fit(message: Message) -> Message:
        body = message.body
        plain = body.__class__ is bytes or (body.__class__ is str and body.isascii())
        if plain and message.kind is PayloadKind.BASIC and len(body) <= limit:  # type: ignore[arg-type]
            return message
        return general(message)

    return fit


def fit_out_of(payload_type: str, *, typed: bool = False, preserve: bool = False) -> Fit:
    """:func:`from_payload` for one queue: a function of a message."""
    general = partial(from_payload, payload_type=payload_type, typed=typed, preserve=preserve)
    if payload_type not in _OUTBOUND:
        return general

    def fit(message: Message) -> Message:
        kind = message.body.__class__
        return message if kind is bytes or kind is str else general(message)

    return fit


def _plain(message: Message) -> bytes | str | tuple[Header, ...] | None:
    body = message.body
    return _untyped(body) if isinstance(body, (ObjectValue, AnyData)) else body


def _untyped(body: ObjectValue | AnyData) -> str | bytes | None:
    try:
        return plain_body(body)
    except ValueError:
        raise ConversionFailure(
            f"a value of type {body.type_name} has no form in JSON",
            cause="a number in it is NaN or infinite",
            cure="give the job a transformation that replaces such numbers",
            number=720,
        ) from None


def _to_raw(message: Message) -> tuple[PayloadKind, Body]:
    body = _plain(message)
    if isinstance(body, str):
        raise ConversionFailure(
            "a text message cannot go to a queue of payload type RAW",
            cause="RAW queues hold bytes only",
            cure="use a queue of payload type BASIC or TEXT",
            number=725,
        )
    if isinstance(body, tuple):
        raise misfit("RAW", "it is a message of named fields")
    return PayloadKind.RAW, body


def _to_basic(message: Message) -> tuple[PayloadKind, Body]:
    body = _plain(message)
    if isinstance(body, tuple):
        raise misfit("BASIC", "it is a message of named fields")
    return PayloadKind.BASIC, body


def _to_text(message: Message) -> tuple[PayloadKind, Body]:
    body = _plain(message)
    if isinstance(body, bytes):
        try:
            return PayloadKind.BASIC, body.decode()
        except UnicodeDecodeError as error:
            raise misfit("TEXT", f"it is not UTF-8 text (byte {error.start} of {len(body)})") from None
    if isinstance(body, tuple):
        raise misfit("TEXT", "it is a message of named fields")
    return PayloadKind.BASIC, body


def _to_json(message: Message) -> tuple[PayloadKind, Body]:
    body = _plain(message)
    if body is None:
        return PayloadKind.BASIC, None
    if isinstance(body, tuple):
        try:
            return PayloadKind.BASIC, fields_to_json(body)[0]
        except ConversionFailure as error:
            raise misfit("JSON", f"{error.what}: {error.cause}") from None
    try:
        parse_json(body)
    except ValueError as error:
        raise misfit("JSON", f"it is not JSON text ({brief(error)})") from None
    return PayloadKind.BASIC, body if isinstance(body, str) else body.decode()


def _to_fields(message: Message) -> tuple[PayloadKind, Body]:
    body = _plain(message)
    if body is None:
        raise misfit("FIELDS", "there is no body")
    if not isinstance(body, tuple):
        types = find_header(message.headers, FIELD_TYPES_HEADER)
        body = json_to_fields(body, str(types.value) if types else None)
    for kind, limit, what, number in _LARGE:
        large = sum(1 for field in body if type(field.value) is kind and len(field.value) > limit)
        if large > MAX_LARGE_FIELDS:
            raise ConversionFailure(
                f"the message has {large} {what} fields over {limit}",
                cause=f"a message of named fields may have at most {MAX_LARGE_FIELDS} of them",
                cure="use a queue of payload type JSON, or fewer large fields",
                number=number,
            )
    return PayloadKind.FIELDS, body


def _to_xml(message: Message) -> tuple[PayloadKind, Body]:
    _, body = _to_text(message)
    try:
        if isinstance(body, str):
            check_xml(body)
    except ValueError as error:
        raise misfit("XMLTYPE", f"it is not well-formed XML ({brief(error)})") from None
    return PayloadKind.BASIC, body


def _to_object(declared: ObjectType, message: Message) -> tuple[PayloadKind, Body]:
    body: Any = message.body
    try:
        if isinstance(body, tuple):
            body = fields_to_json(body)[0]
        if isinstance(body, (str, bytes)):
            body = parse_exact(body)
        return PayloadKind.OBJECT, None if body is None else declared.fit(body)
    except Misfit as problem:
        where = f"attribute {problem.path}: " if problem.path else ""
        raise misfit(declared.name, where + problem.cause) from None
    except ValueError as error:
        raise misfit(declared.name, f"it is not JSON text ({brief(error)})") from None


def _to_any(message: Message) -> tuple[PayloadKind, Body]:
    body = message.body
    if isinstance(body, str):
        return PayloadKind.ANYDATA, AnyData("SYS.VARCHAR2", body)
    if isinstance(body, bytes):
        return PayloadKind.ANYDATA, AnyData("SYS.RAW", body)
    if isinstance(body, tuple):
        raise misfit("ANYDATA", "it is a message of named fields")
    return PayloadKind.ANYDATA, AnyData(body.type_name, body) if isinstance(body, ObjectValue) else body


MAX_LARGE_FIELDS = 3  # AQ guide 12.2 §20.3.1
_LARGE = ((bytes, MAX_HEADER_RAW, "raw", 728), (str, MAX_HEADER_TEXT, "text", 729))

_INBOUND: Mapping[str, Callable[[Message], tuple[PayloadKind, Body]]] = {
    "RAW": _to_raw,
    "BASIC": _to_basic,
    "TEXT": _to_text,
    "JSON": _to_json,
    "FIELDS": _to_fields,
    "XMLTYPE": _to_xml,
    "ANYDATA": _to_any,
}
_OUTBOUND = frozenset((*_INBOUND, "OBJECT", *JMS_NAMES))


def _check_size(body: Body, max_payload: int) -> None:
    if isinstance(body, (ObjectValue, AnyData)):
        return
    size = sum(len(name) + _size(value) for name, _, value in body) if isinstance(body, tuple) else _size(body)
    if size > max_payload:
        raise ConversionFailure(
            f"the body has {size} bytes, the queue accepts at most {max_payload}",
            cause="the maximum of the queue table is smaller than the message",
            cure="create the queue table with a larger maximum, or send smaller messages",
            number=726,
        )


def _size(value: HeaderValue | None) -> int:
    if isinstance(value, bytes):
        return len(value)
    if isinstance(value, str):
        return len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass"))
    return 0 if value is None else 8


def sendable(message: Message) -> Message:
    """A message without types of the hub: an object becomes JSON text, ANYDATA what it wraps.

    Raises:
        ConversionFailure: [720] a number in it is NaN or infinite, which JSON does not have.
    """
    body = message.body
    if isinstance(body, (ObjectValue, AnyData)):
        if is_jms(body):
            return from_jms(message)
        return replace(message, body=_untyped(body), kind=PayloadKind.BASIC)
    return message


def from_payload(message: Message, payload_type: str, *, typed: bool = False, preserve: bool = False) -> Message:
    """A stored message of a hub queue as links send it: bytes, text or nothing; fields travel as JSON.

    ``typed``: objects and ANYDATA stay what they are, for the transformation of the job; JMS messages do not.
    ``preserve``: the id of a JMS message in the hub goes with it.

    Raises:
        ConversionFailure: [720] the payload type has no canonical form, or the fields have none in JSON.
    """
    if payload_type not in _OUTBOUND:
        raise ConversionFailure(
            f"payload type {payload_type} cannot be propagated",
            cause="the gateway has no canonical form for it",
            cure="give the job a transformation, or use a queue of another payload type",
            number=720,
        )
    if payload_type in JMS_NAMES or is_jms(message.body):
        return from_jms(message, payload_type, preserve=preserve)
    if not isinstance(message.body, tuple):
        return message if typed else sendable(message)
    body, types = fields_to_json(message.body)
    headers = tuple(header for header in message.headers if header.name != FIELD_TYPES_HEADER)
    return replace(message, body=body, kind=PayloadKind.BASIC, headers=(*headers, types) if types else headers)
