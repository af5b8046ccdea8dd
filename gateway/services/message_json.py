"""Messages as JSON: every body and every header says what it is, so that it comes back as it was.

A body is ``text``, ``json``, ``base64`` or ``fields``; none of them: there is no body. A header is
``{"type": "int", "value": 3}``, or a plain value where its type is plain. Bytes are base64, dates ISO 8601 in UTC.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from mgw.gateway.aq import SCALARS, canonical_type, wrap
from mgw.transforms.errors import ConversionFailure, GatewayError
from mgw.transforms.message import Body, Header, HeaderValue, Message, PayloadKind, ValueType, check_headers
from mgw.transforms.objects import JsonNumber, object_json
from mgw.transforms.payloads.fields import RANGES, header_of, json_to_fields
from mgw.transforms.payloads.json_text import parse_exact, parse_json

__all__ = [
    "TYPE_WORDS",
    "BodyForm",
    "Given",
    "Malformed",
    "body_form",
    "checked_text",
    "headers_form",
    "headers_of",
    "json_text",
    "message_of",
    "read_json",
]

#: The types of headers and fields as JSON names them.
TYPE_WORDS = {kind: "int" if kind is ValueType.INTEGER else kind.name.lower() for kind in ValueType}
_TYPES = {word: kind for kind, word in TYPE_WORDS.items()} | {"integer": ValueType.INTEGER}
_WHOLE = frozenset(RANGES)
_BROKEN = (ValueType.FLOAT, ValueType.DOUBLE)


class Malformed(GatewayError):
    """A message that was given cannot be one; the text says what of it."""


@dataclass(frozen=True, slots=True)
class Given:
    """A message as somebody sends it: at most one of the four bodies, and its properties.

    Attributes:
        json: a JSON value as :func:`read_json` gives it; ``has_json`` says that there is one, as it may be null.
        fields, headers: in one of the forms of :func:`headers_of`.
        type_name: what ANYDATA wraps.
        delay, expiration: seconds.
        recipients: instead of the subscribers.
    """

    text: str | None = None
    json: Any = None
    has_json: bool = False
    base64: str | None = None
    fields: Any = None
    type_name: str | None = None
    headers: Any = ()
    priority: int = 1
    correlation: str | None = None
    delay: float = 0
    expiration: float | None = None
    sender: str | None = None
    exception_queue: str | None = None
    user_property: str | None = None
    recipients: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class BodyForm:
    """A body as it is shown; ``size`` in bytes as it is stored, or of its JSON where it has a declared type.

    ``truncated``: it is longer than asked for. Text and bytes then end early, anything else is left out.
    """

    size: int
    text: str | None = None
    json: Any = None
    base64: str | None = None
    fields: Any = None
    type_name: str | None = None
    truncated: bool = False


# ------------------------------------------------------------------------------------------------------------- reading


def read_json(text: bytes) -> Any:
    """The value of JSON text, with all digits of its numbers.

    Raises:
        ValueError: it is none: NaN and infinity are not, either.
    """
    return parse_exact(text)


def message_of(given: Given, holds: str | None, object_type: str | None) -> Message:
    """The message for a queue whose payload type is ``holds``; ``object_type``: the type that its bodies have.

    Raises:
        Malformed: it cannot be a message, or not one of that queue.
        ConversionFailure: a header breaks the limits of headers.
    """
    bodies = [given.text is not None, given.has_json, given.base64 is not None, given.fields is not None]
    if sum(bodies) > 1:
        raise Malformed("the message has several bodies", cure="give one of text, json, base64 and fields")
    headers = tuple(headers_of("header", given.headers))
    check_headers(headers)
    body = _body(given, holds, object_type)
    kind = PayloadKind.BASIC
    if holds == "FIELDS":
        kind = PayloadKind.FIELDS
    elif holds == "RAW" and not headers:
        kind = PayloadKind.RAW
    texts = {
        "correlation": given.correlation,
        "sender": given.sender,
        "exception_queue": given.exception_queue,
        "user_property": given.user_property,
    }
    for name, text in texts.items():
        checked_text(name, text or "")
    return Message(
        body=body,
        headers=headers,
        kind=kind,
        priority=given.priority,
        correlation=given.correlation,
        delay=given.delay,
        expiration=given.expiration,
        sender_name=given.sender,
        exception_queue=given.exception_queue,
        user_property=given.user_property,
    )


def _body(given: Given, holds: str | None, object_type: str | None) -> Any:
    wraps = given.type_name
    if wraps is not None and holds != "ANYDATA":
        raise Malformed("type is for queues of ANYDATA", cause=f"the queue holds {holds}", cure="leave it out")
    if wraps is None and holds == "ANYDATA" and object_type in SCALARS:
        wraps = object_type
    body = _plain_body(given)
    if not given.has_json and (holds != "ANYDATA" or (body is None and wraps is None)):
        return body
    try:
        return _declared(given.json if given.has_json else body, given.has_json, holds, wraps)
    except (ValueError, ConversionFailure) as error:
        cause = error.cause if isinstance(error, ConversionFailure) else str(error)
        raise Malformed(
            "the body cannot be used", cause=cause, cure="send what the queue holds: see mgw aq queues"
        ) from error


def _plain_body(given: Given) -> Any:
    """A body that is not JSON."""
    if given.fields is not None:
        return tuple(headers_of("field", given.fields))
    if given.base64 is not None:
        return _bytes("base64", given.base64)
    return None if given.text is None else checked_text("text", given.text)


def _declared(value: Any, is_json: bool, holds: str | None, wraps: str | None) -> Any:
    """A value as a queue with declared types holds it; JSON elsewhere: as text.

    Raises:
        ValueError, ConversionFailure: it cannot be one.
    """
    if holds == "OBJECT":
        return value
    if holds == "ANYDATA" and wraps is not None and canonical_type(wraps, "MGW") not in SCALARS:
        return wrap(value, wraps)
    body = json_text(value) if is_json else value
    if holds == "ANYDATA":
        return wrap(body, wraps)
    return json_to_fields(body) if holds == "FIELDS" else body


def headers_of(what: str, given: Any) -> Iterator[Header]:
    """Headers, or fields, from a mapping of names to values, or from a list of ``{name, type, value}`` where names
    repeat; a list of values repeats a name, too.

    Raises:
        Malformed: one of them is none.
    """
    if isinstance(given, Mapping):
        for name, value in given.items():
            for each in value if isinstance(value, list) else [value]:
                yield _header(what, name, each)
        return
    if not isinstance(given, (list, tuple)):
        raise Malformed(f"the {what}s are neither an object nor an array", cure='send {"name": value}')
    for each in given:
        if not isinstance(each, Mapping) or not {"name", "value"} <= each.keys() <= {"name", "value", "type"}:
            raise Malformed(f"a {what} of the array is none", cure='send {"name": "n", "type": "int", "value": 3}')
        yield _header(what, each["name"], {key: each[key] for key in each if key != "name"})


def _header(what: str, name: Any, value: Any) -> Header:
    where = f"{what} {name!r:.80}"
    if not isinstance(name, str):
        raise Malformed(f"{where} cannot be used", cause="its name is not text", cure="correct the message")
    checked_text(where, name)
    word: Any = None
    if isinstance(value, Mapping):
        if not {"value"} <= value.keys() <= {"value", "type"}:
            raise Malformed(f"{where} cannot be used", cure='send {"type": "int", "value": 3}, or a plain value')
        value, word = value["value"], value.get("type", "")
    if word:
        kind = _TYPES.get(word) if isinstance(word, str) else None
        if kind is None:
            raise Malformed(
                f"{where} has the type {word!r:.40}", cause="there is none", cure=f"the types are {', '.join(_TYPES)}"
            )
        return Header(name, kind, _value(where, kind, value))
    if isinstance(value, JsonNumber):
        raise _inexact(where)
    try:
        found = header_of(name, value)
    except ValueError as error:
        raise Malformed(f"{where} cannot be used", cause=str(error), cure="give it a type") from None
    if isinstance(found.value, float) and not math.isfinite(found.value):
        raise _not_finite(where)
    return found


def _value(where: str, kind: ValueType, value: Any) -> HeaderValue:
    wrong = Malformed(f"{where} is not of the type {TYPE_WORDS[kind]}", cause=f"its value is {value!r:.60}")
    if kind is ValueType.RAW:
        return _bytes(where, value)
    if kind in _WHOLE:
        low, high = RANGES[kind]
        if type(value) is int and low <= value <= high:
            return value
        wrong.cure = f"send an integer from {low} to {high}"
        raise wrong
    if (kind is ValueType.BOOLEAN) is not isinstance(value, bool):
        wrong.cure = "send true or false, and for that type alone"
        raise wrong
    if isinstance(value, bool):
        return value
    if kind in _BROKEN:
        return _broken(where, value, wrong)
    return _date(value, wrong) if kind is ValueType.DATE else _text_value(where, kind, value, wrong)


def _text_value(where: str, kind: ValueType, value: Any, wrong: Malformed) -> str:
    if kind is ValueType.DECIMAL and isinstance(value, (int, float, Decimal)):
        value = str(value)
    if not isinstance(value, str):
        wrong.cure = "send text"
        raise wrong
    checked_text(where, value)
    try:
        if kind is ValueType.JSON:
            parse_json(value)
        finite = kind is not ValueType.DECIMAL or Decimal(value).is_finite()
    except (ValueError, InvalidOperation) as error:
        wrong.cause = f"{wrong.cause}: {error}"[:200] if kind is ValueType.JSON else wrong.cause
        raise wrong from None
    if not finite:
        raise wrong
    return value


def _broken(where: str, value: Any, wrong: Malformed) -> float:
    if isinstance(value, JsonNumber):
        raise _inexact(where)
    if not isinstance(value, (int, float)):
        wrong.cure = "send a number"
        raise wrong
    try:
        number = float(value)
    except OverflowError:
        raise _not_finite(where) from None
    if not math.isfinite(number):
        raise _not_finite(where)
    if number != value:
        raise _inexact(where)
    return number


def _date(value: Any, wrong: Malformed) -> float:
    wrong.cure = "send ISO 8601, such as 2026-11-20T10:57:34Z, or seconds since 1970"
    if isinstance(value, (int, float, Decimal)):
        try:
            number = float(value)
        except OverflowError:
            raise wrong from None
        if not math.isfinite(number):
            raise wrong
        return number
    try:
        moment = datetime.fromisoformat(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (TypeError, ValueError, OverflowError):
        raise wrong from None


def _not_finite(where: str) -> Malformed:
    return Malformed(f"{where} cannot be used", cause="it is not a finite number", cure="send a number, or text")


def _inexact(where: str) -> Malformed:
    return Malformed(
        f"{where} cannot be used",
        cause="the number has more digits than a double keeps",
        cure='send it as {"type": "decimal", "value": "..."}',
    )


def _bytes(where: str, text: Any) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError, TypeError) as error:
        raise Malformed(f"{where} is not base64", cause=str(error)[:200], cure="send bytes as base64") from None


def checked_text(what: str, text: str) -> str:
    """Text that can be stored.

    Raises:
        Malformed: it holds half of a surrogate pair.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Malformed(
            f"{what} cannot be used",
            cause=f"it is no Unicode text at character {error.start}",
            cure="send whole characters, or bytes as base64",
        ) from None
    return text


# ------------------------------------------------------------------------------------------------------------- showing


def headers_form(headers: Sequence[Header]) -> Any:
    """Headers as :func:`headers_of` reads them: an object, or an array where a name repeats."""
    if len({header.name for header in headers}) == len(headers):
        return {name: {"type": TYPE_WORDS[kind], "value": _shown(kind, value)} for name, kind, value in headers}
    return [{"name": name, "type": TYPE_WORDS[kind], "value": _shown(kind, value)} for name, kind, value in headers]


def _shown(kind: ValueType, value: HeaderValue) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, (int, float)) and not isinstance(value, bool) and kind in (*_BROKEN, ValueType.DATE):
        if not math.isfinite(value):
            return repr(float(value))
        return _moment(value) if kind is ValueType.DATE else value
    return value


def _moment(seconds: float) -> Any:
    """ISO 8601, where that is exact; otherwise seconds since 1970."""
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return seconds
    return moment.isoformat().replace("+00:00", "Z") if moment.timestamp() == seconds else seconds


def body_form(body: Body, limit: int) -> BodyForm:
    """A body in the form that fits what it is, at most ``limit`` bytes of it."""
    if body is None:
        return BodyForm(0)
    if isinstance(body, bytes):
        return BodyForm(len(body), base64=base64.b64encode(body[:limit]).decode("ascii"), truncated=len(body) > limit)
    if isinstance(body, str):
        stored = body.encode()
        if len(stored) <= limit:
            return BodyForm(len(stored), text=body)
        return BodyForm(len(stored), text=stored[:limit].decode("utf-8", "ignore"), truncated=True)
    if isinstance(body, tuple):
        fields = headers_form(body)
        size = len(json_text(fields).encode())
        return BodyForm(size, fields=None if size > limit else fields, truncated=size > limit)
    text = object_json(body, lenient=True)
    size = len(text.encode())
    return BodyForm(
        size, json=None if size > limit else parse_exact(text), type_name=body.type_name, truncated=size > limit
    )


def json_text(value: Any) -> str:
    """Compact JSON text; numbers keep their digits, moments are ISO 8601 in UTC.

    Raises:
        Malformed: a number is not finite, a text no Unicode, or the value is nested too deeply.
    """
    try:
        return checked_text("the JSON value", _text(value))
    except (RecursionError, ValueError) as error:
        cause = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise Malformed("the JSON value cannot be used", cause=cause, cure="correct it") from None


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{_plain(name)}:{_text(each)}" for name, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(_text, value)) + "]"
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, datetime):
        return f'"{value.isoformat().replace("+00:00", "Z")}"'
    return _plain(value)


def _plain(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
