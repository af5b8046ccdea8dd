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

import base64
import binascii
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import TYPE_CHECKING, Any

from transforms.errors import ConversionFailure
from transforms.message import (
    MAX_HEADER_NAME,
    MAX_HEADER_RAW,
    MAX_HEADER_TEXT,
    MAX_HEADERS,
    Body,
    Header,
    HeaderValue,
    Message,
    PayloadKind,
    ValueType,
    find_header,
)
from transforms.objects import AnyData, JsonNumber, ObjectValue, plain_body

if TYPE_CHECKING:
    from transforms.sqltypes import ObjectType

__all__ = [
    "FIELD_TYPES_HEADER",
    "dump_json",
    "error_headers",
    "fields_to_json",
    "for_exception_queue",
    "from_payload",
    "header_of",
    "json_to_fields",
    "left_out",
    "parse_exact",
    "parse_json",
    "sendable",
    "to_payload",
]

#: Header that carries the types of fields that JSON does not show: ``{"when": "DATE", "picture": "RAW"}``.
FIELD_TYPES_HEADER = "MGW_FIELD_types"


# -- JSON ------------------------------------------------------------------------------------------------------------


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _integer(digits: str) -> int | float:
    try:
        return int(digits)
    except ValueError:
        return float(digits)  # infinite: Python makes no integer of more than 4300 digits


_decode = json.JSONDecoder(parse_constant=_no_constant).decode
_decode_long = json.JSONDecoder(parse_constant=_no_constant, parse_int=_integer).decode


def parse_json(body: bytes | str) -> Any:
    """The JSON value in a body; an integer of more than 4300 digits is infinite.

    Raises:
        ValueError: it is no UTF-8 text, no JSON (NaN and Infinity are not), or nested too deeply; the text says where.
    """
    text = body if isinstance(body, str) else body.decode()
    try:
        return _decode(text)
    except RecursionError:
        raise ValueError("the JSON text is nested too deeply") from None
    except json.JSONDecodeError:
        raise
    except ValueError:
        return _decode_long(text)


def _exact(text: str) -> float | JsonNumber:
    number = float(text)
    if repr(number) == text:
        return number
    try:
        exact = JsonNumber(text)
    except InvalidOperation:  # an exponent of many digits
        return number
    return number if math.isfinite(number) and Decimal(repr(number)) == exact else exact


_decode_exact = json.JSONDecoder(parse_constant=_no_constant, parse_int=_integer, parse_float=_exact).decode


def parse_exact(body: bytes | str) -> Any:
    """As :func:`parse_json`, for values that go into declared types: no digit of a number is lost.

    A number that a floating-point number does not keep is a :class:`~transforms.objects.JsonNumber`.
    """
    text = body if isinstance(body, str) else body.decode()
    try:
        return _decode_exact(text)
    except RecursionError:
        raise ValueError("the JSON text is nested too deeply") from None


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def dump_json(value: Any) -> str:
    """A value as compact JSON text that can be encoded as UTF-8.

    Raises:
        ValueError: a number is NaN or infinite, a text holds half of a surrogate pair, or the value is nested too
            deeply.
        TypeError: the value has no form in JSON.
    """
    try:
        text = _encode(value)
        if not text.isascii():
            text.encode()
    except RecursionError:
        raise ValueError("the value is nested too deeply") from None
    return text


# -- fields ----------------------------------------------------------------------------------------------------------

_RANGES = {
    ValueType.BYTE: (-(2**7), 2**7 - 1),
    ValueType.SHORT: (-(2**15), 2**15 - 1),
    ValueType.INTEGER: (-(2**31), 2**31 - 1),
    ValueType.LONG: (-(2**63), 2**63 - 1),
    ValueType.UBYTE: (0, 2**8 - 1),
    ValueType.USHORT: (0, 2**16 - 1),
    ValueType.UINT: (0, 2**32 - 1),
}


def header_of(name: str, value: Any) -> Header:
    """A header or field with the type that fits a Python value: INTEGER or LONG for int, DOUBLE for float.

    Raises:
        ValueError: the value is None, an object, an array, an integer beyond 64 bits, or no valid Unicode.
    """
    kind = type(value)
    if kind is str:
        if not value.isascii():
            value.encode()  # half of a surrogate pair cannot be stored or sent
        return Header(name, ValueType.TEXT, value)
    if kind is bool:
        return Header(name, ValueType.BOOLEAN, value)
    if kind is int:
        for fitting in (ValueType.INTEGER, ValueType.LONG):
            low, high = _RANGES[fitting]
            if low <= value <= high:
                return Header(name, fitting, value)
        raise ValueError("the integer is beyond 64 bits")
    if kind is float:
        return Header(name, ValueType.DOUBLE, value)
    if kind is bytes:
        return Header(name, ValueType.RAW, value)
    what = {type(None): "null", dict: "an object", list: "an array"}.get(kind, f"of type {kind.__name__}")
    raise ValueError(f"the value is {what}")


def fields_to_json(fields: tuple[Header, ...]) -> tuple[str, Header | None]:
    """Fields as a JSON object, and the header that keeps the types JSON does not show (None when it shows all).

    DATE becomes ISO 8601 text in UTC (microseconds), RAW base64, a number that JSON lacks its name (``"nan"``).

    Raises:
        ConversionFailure: [720] a name occurs twice, a date is out of the range of years 1 to 9999, or the types need
            more than one header holds, or a text is no valid Unicode.
    """
    object_: dict[str, Any] = {}
    types: dict[str, str] = {}
    for name, kind, value in fields:
        if name in object_:
            raise ConversionFailure(
                f"the message has more than one field {name!r}",
                cause="fields travel as a JSON object, which has each name once",
                cure="rename the field at the sender",
                number=720,
            )
        try:
            name.encode()
            object_[name] = _json_value(kind, value)
            shown = header_of(name, object_[name]).type
        except (ValueError, OverflowError, OSError) as error:
            raise ConversionFailure(
                f"field {name!r} of type {kind.name} has no form in JSON",
                cause=str(error),
                cure="correct the field at the sender",
                number=720,
            ) from None
        if shown is not kind:
            types[name] = kind.name
    if not types:
        return dump_json(object_), None
    listing = dump_json(types)
    if len(listing) > MAX_HEADER_TEXT:
        raise ConversionFailure(
            "the fields have too many types that JSON does not have",
            cause=f"their list needs {len(listing)} characters, header {FIELD_TYPES_HEADER} holds {MAX_HEADER_TEXT}",
            cure="use TEXT, BOOLEAN, INTEGER and DOUBLE fields, or a transformation that drops fields",
            number=720,
        )
    return dump_json(object_), Header(FIELD_TYPES_HEADER, ValueType.TEXT, listing)


def _json_value(kind: ValueType, value: HeaderValue) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if kind is ValueType.DATE:
        return datetime.fromtimestamp(float(value), UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return value


def _read_whole(kind: ValueType) -> Callable[[Any], HeaderValue]:
    low, high = _RANGES[kind]

    def read(value: Any) -> HeaderValue:
        if type(value) is not int or not low <= value <= high:
            raise ValueError(f"it is no integer from {low} to {high}")
        return value

    return read


def _read_float(value: Any) -> HeaderValue:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError("it is no number")
    return float(value)


def _read_text(value: Any) -> HeaderValue:
    if not isinstance(value, str):
        raise ValueError("it is no text")
    return value


def _read_date(value: Any) -> HeaderValue:
    moment = datetime.fromisoformat(value)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


_READERS: Mapping[str, tuple[ValueType, Callable[[Any], HeaderValue]]] = {
    ValueType.RAW.name: (ValueType.RAW, lambda value: base64.b64decode(value, validate=True)),
    ValueType.DATE.name: (ValueType.DATE, _read_date),
    ValueType.FLOAT.name: (ValueType.FLOAT, _read_float),
    ValueType.DOUBLE.name: (ValueType.DOUBLE, _read_float),
    **{kind.name: (kind, _read_text) for kind in (ValueType.JSON, ValueType.DECIMAL)},
    **{kind.name: (kind, _read_whole(kind)) for kind in _RANGES},
}


def json_to_fields(body: bytes | str, types: str | None = None) -> tuple[Header, ...]:
    """The members of a JSON object as typed fields; ``types`` is the value of :data:`FIELD_TYPES_HEADER`, if any.

    Raises:
        ConversionFailure: [724] it is no JSON object, or a member is null, an object, an array, an integer beyond 64
            bits, or not of the type that ``types`` says.
    """
    try:
        object_ = parse_json(body)
        declared = parse_json(types) if types else {}
    except ValueError as error:
        raise _misfit("FIELDS", f"it is no JSON text ({_brief(error)})") from None
    if not isinstance(object_, dict) or not isinstance(declared, dict):
        raise _misfit("FIELDS", "it is JSON, but no object")
    fields = []
    for name, value in object_.items():
        try:
            reader = _READERS.get(declared.get(name, ""))
            fields.append(Header(name, reader[0], reader[1](value)) if reader else header_of(name, value))
        except (ValueError, TypeError, OverflowError, binascii.Error) as error:
            raise _misfit("FIELDS", f"member {name[:100]!r} cannot be a field: {_brief(error)}") from None
    return tuple(fields)


def _brief(error: Exception) -> str:
    return str(error)[:200] or type(error).__name__


def _misfit(payload_type: str, cause: str) -> ConversionFailure:
    return ConversionFailure(
        f"the body does not fit a queue of payload type {payload_type}",
        cause=cause,
        cure="give the job a transformation, or use a queue of another payload type",
        number=724,
    )


# -- payload types ---------------------------------------------------------------------------------------------------


def to_payload(
    message: Message, payload_type: str, max_payload: int | None = None, *, declared: ObjectType | None = None
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
    ===========  =====================================================================================

    A message without body (None) fits every type but FIELDS. ``max_payload``: largest body in bytes, None = no limit.
    Objects are measured when they are stored.

    Raises:
        ConversionFailure: [724] to [729], as listed at the top of this module.
    """
    convert = _INBOUND.get(payload_type)
    if payload_type == "OBJECT" and declared is not None:
        convert = partial(_to_object, declared)
    if convert is None:
        raise _misfit(payload_type, "the gateway has no canonical form for this payload type")
    kind, body = convert(message)
    if max_payload is not None:
        _check_size(body, max_payload)
    if body is message.body and kind is message.kind:
        return message
    return replace(message, body=body, kind=kind)


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
        raise _misfit("RAW", "it is a message of named fields")
    return PayloadKind.RAW, body


def _to_basic(message: Message) -> tuple[PayloadKind, Body]:
    body = _plain(message)
    if isinstance(body, tuple):
        raise _misfit("BASIC", "it is a message of named fields")
    return PayloadKind.BASIC, body


def _to_text(message: Message) -> tuple[PayloadKind, Body]:
    body = _plain(message)
    if isinstance(body, bytes):
        try:
            return PayloadKind.BASIC, body.decode()
        except UnicodeDecodeError as error:
            raise _misfit("TEXT", f"it is no UTF-8 text (byte {error.start} of {len(body)})") from None
    if isinstance(body, tuple):
        raise _misfit("TEXT", "it is a message of named fields")
    return PayloadKind.BASIC, body


def _to_json(message: Message) -> tuple[PayloadKind, Body]:
    body = _plain(message)
    if body is None:
        return PayloadKind.BASIC, None
    if isinstance(body, tuple):
        try:
            return PayloadKind.BASIC, fields_to_json(body)[0]
        except ConversionFailure as error:
            raise _misfit("JSON", f"{error.what}: {error.cause}") from None
    try:
        parse_json(body)
    except ValueError as error:
        raise _misfit("JSON", f"it is no JSON text ({_brief(error)})") from None
    return PayloadKind.BASIC, body if isinstance(body, str) else body.decode()


def _to_fields(message: Message) -> tuple[PayloadKind, Body]:
    body = _plain(message)
    if body is None:
        raise _misfit("FIELDS", "there is no body")
    if not isinstance(body, tuple):
        types = find_header(message.headers, FIELD_TYPES_HEADER)
        body = json_to_fields(body, str(types.value) if types else None)
    for kind, limit, what, number in _LARGE:
        large = sum(1 for field in body if type(field.value) is kind and len(field.value) > limit)
        if large > MAX_LARGE_FIELDS:
            raise ConversionFailure(
                f"the message has {large} {what} fields over {limit}",
                cause=f"a message of named fields holds at most {MAX_LARGE_FIELDS} of them",
                cure="use a queue of payload type JSON, or fewer large fields",
                number=number,
            )
    return PayloadKind.FIELDS, body


def _to_xml(message: Message) -> tuple[PayloadKind, Body]:
    from transforms.xmltext import check_xml

    _, body = _to_text(message)
    try:
        if isinstance(body, str):
            check_xml(body)
    except ValueError as error:
        raise _misfit("XMLTYPE", f"it is no well-formed XML ({_brief(error)})") from None
    return PayloadKind.BASIC, body


def _to_object(declared: ObjectType, message: Message) -> tuple[PayloadKind, Body]:
    from transforms.sqltypes import Misfit

    body: Any = message.body
    try:
        if isinstance(body, tuple):
            body = fields_to_json(body)[0]
        if isinstance(body, (str, bytes)):
            body = parse_exact(body)
        return PayloadKind.OBJECT, None if body is None else declared.fit(body)
    except Misfit as problem:
        where = f"attribute {problem.path}: " if problem.path else ""
        raise _misfit(declared.name, where + problem.cause) from None
    except ValueError as error:
        raise _misfit(declared.name, f"it is no JSON text ({_brief(error)})") from None


def _to_any(message: Message) -> tuple[PayloadKind, Body]:
    body = message.body
    if isinstance(body, str):
        return PayloadKind.ANYDATA, AnyData("SYS.VARCHAR2", body)
    if isinstance(body, bytes):
        return PayloadKind.ANYDATA, AnyData("SYS.RAW", body)
    if isinstance(body, tuple):
        raise _misfit("ANYDATA", "it is a message of named fields")
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
_OUTBOUND = frozenset((*_INBOUND, "OBJECT"))


def _check_size(body: Body, max_payload: int) -> None:
    if isinstance(body, (ObjectValue, AnyData)):
        return
    size = sum(len(name) + _size(value) for name, _, value in body) if isinstance(body, tuple) else _size(body)
    if size > max_payload:
        raise ConversionFailure(
            f"the body has {size} bytes, the queue takes at most {max_payload}",
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
        return replace(message, body=_untyped(body), kind=PayloadKind.BASIC)
    return message


def from_payload(message: Message, payload_type: str, *, typed: bool = False) -> Message:
    """A stored message of a hub queue as links send it: bytes, text or nothing; fields travel as a JSON object.

    ``typed``: objects and ANYDATA stay what they are, for the transformation of the job.

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
    if not isinstance(message.body, tuple):
        return message if typed else sendable(message)
    body, types = fields_to_json(message.body)
    headers = tuple(header for header in message.headers if header.name != FIELD_TYPES_HEADER)
    return replace(message, body=body, kind=PayloadKind.BASIC, headers=(*headers, types) if types else headers)


# -- exception queues --------------------------------------------------------------------------------------------------

_ERROR_PREFIX = "MGW_error"


def _header_text(text: str) -> str:
    clean = text.encode("utf-8", "backslashreplace").decode()
    return clean if len(clean) <= MAX_HEADER_TEXT else clean[: MAX_HEADER_TEXT - 4] + " ..."


def error_headers(
    failure: ConversionFailure, job: str, origin: str = "", *, now: float | None = None
) -> tuple[Header, ...]:
    """Why a message is in an exception queue, as headers.

    ``MGW_error`` (text: what, cause, cure; an end that does not fit shows as ``...``), ``MGW_error_number`` (INTEGER,
    when there is one), ``MGW_error_job``, ``MGW_error_origin`` (source coordinates, when known), ``MGW_error_time``
    (DATE; ``now`` in epoch seconds, the machine's clock by default).
    """
    headers = [Header("MGW_error", ValueType.TEXT, _header_text(str(failure)))]
    if failure.number is not None:
        headers.append(Header("MGW_error_number", ValueType.INTEGER, failure.number))
    headers.append(Header("MGW_error_job", ValueType.TEXT, _header_text(job)))
    if origin:
        headers.append(Header("MGW_error_origin", ValueType.TEXT, _header_text(origin)))
    headers.append(Header("MGW_error_time", ValueType.DATE, time.time() if now is None else now))
    return tuple(headers)


def for_exception_queue(
    message: Message,
    failure: ConversionFailure,
    job: str,
    origin: str = "",
    omitted: Sequence[str] = (),
    *,
    limited: bool = True,
    now: float | None = None,
) -> Message:
    """The untouched message with the reason of its failure, fit to be stored in an exception queue.

    It does not expire there. ``limited``: headers that break the limits of a header array (often the very reason)
    cannot be stored and are left out. What is left out, and what the caller has left out already (``omitted``), is
    described in ``MGW_error_omitted``. Error headers of an earlier failure are replaced.
    """
    reasons = error_headers(failure, job, origin, now=now)
    kept: list[Header] = []
    headers: list[str] = list(omitted)
    room = MAX_HEADERS - len(reasons) - 1
    for header in message.headers:
        if header.name.startswith(_ERROR_PREFIX):
            continue
        problem = (_unstorable(header) or ("no room" if len(kept) >= room else "")) if limited else ""
        if problem:
            headers.append(left_out(header, problem))
        else:
            kept.append(header)
    notes = [f"{len(headers)} headers left out: {', '.join(headers)}"] if headers else []
    if message.expiration is not None:
        notes.append(f"the expiration left out, it would end the message here: {message.expiration:g} s")
    if notes:
        reasons += (Header("MGW_error_omitted", ValueType.TEXT, _header_text("; ".join(notes))),)
    return replace(message, headers=(*kept, *reasons), delay=0, expiration=None, expires_at=None)


def left_out(header: Header, problem: str) -> str:
    """Words for a header that an exception queue does not take."""
    return f"{header.name[:60]!r} ({problem})"


def _unstorable(header: Header) -> str:
    name, _, value = header
    if len(name) > MAX_HEADER_NAME:
        return f"its name has {len(name)} characters"
    if isinstance(value, str) and len(value) > MAX_HEADER_TEXT:
        return f"{len(value)} characters"
    if isinstance(value, bytes) and len(value) > MAX_HEADER_RAW:
        return f"{len(value)} bytes"
    return ""
