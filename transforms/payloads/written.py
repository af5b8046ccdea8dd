"""Messages as people write them in YAML and JSON: for tests of mappings, and to show what a mapping does.

===================  ====================================================================================
``body``             text; anything else is JSON
``body_hex``         bytes, in hexadecimal digits
``fields``           named fields, in the form of headers
``headers``          a mapping of names to values, or a list of ``{name: N, value: V}`` where names repeat
a property           ``correlation``, ``priority``, ``delay``, ``expiration`` and others, as in the message
===================  ====================================================================================

The value of a header or field is text, a number, true or false, a list where the name repeats, or
``{type: RAW, value: "00ff"}`` where its type is not the one that the value has by itself. RAW is in hexadecimal digits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mgw.transforms.errors import ConversionFailure
from mgw.transforms.message import Body, Header, Message, PayloadKind, ValueType, check_fields, check_headers
from mgw.transforms.objects import AnyData, ObjectValue, plain_body
from mgw.transforms.payloads.fields import header_of
from mgw.transforms.payloads.json_text import dump_json, parse_json

__all__ = ["BODIES", "PROPERTIES", "message_of", "written"]

BODIES = ("body", "body_hex", "fields")
PROPERTIES = (
    "correlation",
    "priority",
    "delay",
    "expiration",
    "attempts",
    "enqueue_time",
    "sender_name",
    "sender_address",
    "exception_queue",
    "user_property",
)
_BYTES = 16  # of a message id
_SPACE = dict.fromkeys(map(ord, "\t\n\r"))  # in text of several lines


def message_of(values: Mapping[str, Any]) -> Message:
    """The message that is written.

    Raises:
        ConversionFailure: a value cannot be what it is written as.
    """
    kind = PayloadKind.BASIC
    body: Body = None
    if values.get("body_hex") is not None:
        body = _bytes("body_hex", values["body_hex"])
    elif values.get("fields") is not None:
        body, kind = tuple(_headers("field", values["fields"])), PayloadKind.FIELDS
        check_fields(body)
    elif values.get("body") is not None:
        given = values["body"]
        try:
            body = given if isinstance(given, (str, bytes)) else dump_json(given)
        except (TypeError, ValueError) as error:
            raise _wrong("body", str(error)) from None
    if values.get("kind") is not None:
        kind = PayloadKind(str(values["kind"]).upper())
    headers = tuple(_headers("header", values.get("headers") or ()))
    check_headers(headers)
    properties = {name: values[name] for name in PROPERTIES if values.get(name) is not None}
    msgid = values.get("msgid")
    if msgid is not None:
        msgid = _bytes("msgid", msgid)
        if len(msgid) != _BYTES:
            raise _wrong("msgid", f"it has {len(msgid)} bytes, and a message id has {_BYTES}")
    return Message(body=body, headers=headers, kind=kind, msgid=msgid, **properties)


def written(message: Message) -> dict[str, Any]:
    """A message as it is written: the body, the headers, and properties that are not at their defaults."""
    result = _body(message.body)
    if message.headers:
        result["headers"] = _shown(message.headers)
    plain = Message()
    for name in PROPERTIES:
        value = getattr(message, name)
        if value != getattr(plain, name):
            result[name] = value
    return result


# -- reading -----------------------------------------------------------------------------------------------------------


def _headers(what: str, given: Any) -> Iterable[Header]:
    if isinstance(given, Mapping):
        for name, value in given.items():
            for each in value if isinstance(value, list) else [value]:
                yield _header(what, name, each)
        return
    for each in given:
        if not isinstance(each, Mapping) or not {"name", "value"} <= each.keys() <= {"name", "value", "type"}:
            raise _wrong(f"{what}s", "an entry of the list is not {name: N, value: V}")
        yield _header(what, each["name"], {key: each[key] for key in each if key != "name"})


def _header(what: str, name: Any, value: Any) -> Header:
    where = f"{what} {name!r:.80}"
    if not isinstance(name, str):
        raise _wrong(where, "the name is not text")
    code = None
    if isinstance(value, Mapping):
        if not {"value"} <= value.keys() <= {"value", "type"}:
            raise _wrong(where, "it is not {type: T, value: V}")
        value, code = value["value"], value.get("type")
    try:
        if code is None:
            return header_of(name, value)
        kind = ValueType[str(code).upper()]
    except KeyError:
        raise _wrong(
            where, f"there is no type {code!r:.40}; the types are {', '.join(ValueType.__members__)}"
        ) from None
    except ValueError as error:
        raise _wrong(where, str(error)) from None
    if kind is ValueType.RAW and isinstance(value, str):
        value = _bytes(where, value)
    elif kind in {ValueType.FLOAT, ValueType.DOUBLE, ValueType.DATE} and isinstance(value, (int, str)):
        try:
            value = float(value)
        except ValueError:
            raise _wrong(where, f"{value!r:.40} is not a number") from None
    return Header(name, kind, value)


def _bytes(where: str, digits: Any) -> bytes:
    try:
        return bytes.fromhex(digits)
    except (ValueError, TypeError):
        raise _wrong(where, f"{digits!r:.40} is not made of hexadecimal digits, two for each byte") from None


def _wrong(where: str, cause: str) -> ConversionFailure:
    return ConversionFailure(f"{where} cannot be used", cause=cause, cure="correct the message that is written")


# -- writing -----------------------------------------------------------------------------------------------------------


def _body(body: Body) -> dict[str, Any]:
    if isinstance(body, (ObjectValue, AnyData)):
        body = plain_body(body, lenient=True)
    if isinstance(body, tuple):
        return {"fields": _shown(body)}
    if isinstance(body, bytes):
        try:
            text = body.decode()
        except UnicodeDecodeError:
            return {"body_hex": body.hex()}
        is_text = text.translate(_SPACE).isprintable() or text[:1] in {"{", "["}
        return {"body": _json(text)} if is_text else {"body_hex": body.hex()}
    return {} if body is None else {"body": _json(body)}


def _json(text: str) -> Any:
    """JSON objects and arrays as such, where they can be written again; other text as it is."""
    if text.lstrip()[:1] not in {"{", "["}:
        return text
    try:
        value = parse_json(text)
        dump_json(value)
    except ValueError:
        return text
    return value


def _shown(headers: Sequence[Header]) -> Any:
    """As a mapping where that keeps their order."""
    names = [header.name for header in headers]
    if len(set(names)) == len(names):
        return {header.name: _value(header) for header in headers}
    return [{"name": header.name, **_typed(header)} for header in headers]


def _value(header: Header) -> Any:
    typed = _typed(header)
    return typed if "type" in typed else typed["value"]


def _typed(header: Header) -> dict[str, Any]:
    value: Any = header.value
    if isinstance(value, bytes):
        return {"type": "RAW", "value": value.hex()}
    if isinstance(value, float) and not math.isfinite(value):
        value = repr(value)
    elif header_of(header.name, value).type is header.type:
        return {"value": value}
    return {"type": ValueType(header.type).name, "value": value}
