"""Typed fields and headers from Python values, and fields as JSON and back (AQ guide 12.2 §20.1).

Fields are a JSON object, ``{"id": 7}``, with the types that JSON does not show in a header. Where that cannot hold
them, because a name occurs twice or the types need more than a header holds, they are a JSON array of name, type and
value, in order: ``[["line", "TEXT", "a"], ["line", "DATE", "2026-11-20T10:57:34Z"]]``.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from mgw.transforms.errors import ConversionFailure
from mgw.transforms.message import MAX_HEADER_TEXT, Header, HeaderValue, ValueType
from mgw.transforms.payloads.json_text import dump_json, parse_json

__all__ = ["FIELD_TYPES_HEADER", "RANGES", "brief", "fields_to_json", "header_of", "json_to_fields", "misfit"]

#: Header that carries the types of fields that JSON does not show: ``{"when": "DATE", "picture": "RAW"}``; ``"array"``
#: where the body is an array of name, type and value.
FIELD_TYPES_HEADER = "MGW_FIELD_types"
_ARRAY = Header(FIELD_TYPES_HEADER, ValueType.TEXT, '"array"')

#: Least and greatest value of each whole-number type.
RANGES = {
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
            low, high = RANGES[fitting]
            if low <= value <= high:
                return Header(name, fitting, value)
        raise ValueError("the integer does not fit in 64 bits")
    if kind is float:
        return Header(name, ValueType.DOUBLE, value)
    if kind is bytes:
        return Header(name, ValueType.RAW, value)
    what = {type(None): "null", dict: "an object", list: "an array"}.get(kind, f"of type {kind.__name__}")
    raise ValueError(f"the value is {what}")


def fields_to_json(fields: tuple[Header, ...], *, array: bool = False) -> tuple[str, Header | None]:
    """Fields as JSON text, and the header that keeps the types JSON does not show (None when it shows all).

    DATE becomes ISO 8601 text in UTC (microseconds), RAW base64, a number that JSON lacks its name (``"nan"``).

    Args:
        array: as an array also where an object could hold them.

    Raises:
        ConversionFailure: [720] a date is out of the range of years 1 to 9999, or a text is not valid Unicode.
    """
    values = [_json_value(*field) for field in fields]
    if not array and len({field.name for field in fields}) == len(fields):
        types = {
            name: kind.name
            for (name, kind, _), value in zip(fields, values, strict=True)
            if header_of(name, value).type is not kind
        }
        listing = dump_json(types) if types else ""
        if len(listing) <= MAX_HEADER_TEXT:
            object_ = {field.name: value for field, value in zip(fields, values, strict=True)}
            return dump_json(object_), Header(FIELD_TYPES_HEADER, ValueType.TEXT, listing) if types else None
    return dump_json([(name, kind.name, value) for (name, kind, _), value in zip(fields, values, strict=True)]), _ARRAY


def _json_value(name: str, kind: ValueType, value: HeaderValue) -> Any:
    try:
        name.encode()
        if isinstance(value, bytes):
            return base64.b64encode(value).decode("ascii")
        if kind is ValueType.DATE:
            return datetime.fromtimestamp(float(value), UTC).isoformat().replace("+00:00", "Z")
        if isinstance(value, float) and not math.isfinite(value):
            return repr(value)
        header_of(name, value)
    except (ValueError, OverflowError, OSError) as error:
        raise ConversionFailure(
            f"field {name!r} of type {kind.name} has no form in JSON",
            cause=str(error),
            cure="correct the field at the sender",
            number=720,
        ) from None
    return value


def _read_whole(kind: ValueType) -> Callable[[Any], HeaderValue]:
    low, high = RANGES[kind]

    def read(value: Any) -> HeaderValue:
        if type(value) is not int or not low <= value <= high:
            raise ValueError(f"it is not an integer from {low} to {high}")
        return value

    return read


def _read_float(value: Any) -> HeaderValue:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError("it is not a number")
    return float(value)


def _read_text(value: Any) -> HeaderValue:
    if not isinstance(value, str):
        raise ValueError("it is not text")
    return value


def _read_boolean(value: Any) -> HeaderValue:
    if not isinstance(value, bool):
        raise ValueError("it is not true or false")
    return value


def _read_date(value: Any) -> HeaderValue:
    moment = datetime.fromisoformat(value)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


_READERS: Mapping[str, tuple[ValueType, Callable[[Any], HeaderValue]]] = {
    ValueType.RAW.name: (ValueType.RAW, lambda value: base64.b64decode(value, validate=True)),
    ValueType.DATE.name: (ValueType.DATE, _read_date),
    ValueType.FLOAT.name: (ValueType.FLOAT, _read_float),
    ValueType.DOUBLE.name: (ValueType.DOUBLE, _read_float),
    **{kind.name: (kind, _read_text) for kind in (ValueType.TEXT, ValueType.JSON, ValueType.DECIMAL)},
    ValueType.BOOLEAN.name: (ValueType.BOOLEAN, _read_boolean),
    **{kind.name: (kind, _read_whole(kind)) for kind in RANGES},
}


def json_to_fields(body: bytes | str, types: str | None = None) -> tuple[Header, ...]:
    """A JSON object as typed fields, or an array of name, type and value.

    Args:
        types: the value of :data:`FIELD_TYPES_HEADER`, if any.

    Raises:
        ConversionFailure: [724] it is neither, or a member is null, an object, an array, an integer beyond 64
            bits, or not of the type that ``types`` or the array says.
    """
    try:
        object_ = parse_json(body)
        declared = parse_json(types) if types else {}
    except ValueError as error:
        raise misfit("FIELDS", f"it is not JSON text ({brief(error)})") from None
    if isinstance(object_, list) and (declared == "array" or (object_ and not types)):
        return tuple(map(_read_entry, object_))
    if not isinstance(object_, dict) or not isinstance(declared, dict):
        raise misfit("FIELDS", "it is JSON, but not an object")
    fields = []
    for name, value in object_.items():
        try:
            reader = _READERS.get(declared.get(name, ""))
            fields.append(Header(name, reader[0], reader[1](value)) if reader else header_of(name, value))
        except (ValueError, TypeError, OverflowError, binascii.Error) as error:
            raise misfit("FIELDS", f"member {name[:100]!r} cannot be a field: {brief(error)}") from None
    return tuple(fields)


def _read_entry(entry: Any) -> Header:
    if not isinstance(entry, list) or len(entry) != 3 or not isinstance(entry[0], str):
        raise misfit("FIELDS", "it is JSON, but not an object, and no array of [name, type, value]")
    name, kind, value = entry
    reader = _READERS.get(kind) if isinstance(kind, str) else None
    if reader is None:
        raise misfit("FIELDS", f"field {name[:100]!r} has the type {str(kind)[:40]!r}, which does not exist")
    try:
        return Header(name, reader[0], reader[1](value))
    except (ValueError, TypeError, OverflowError, binascii.Error) as error:
        raise misfit("FIELDS", f"field {name[:100]!r} cannot be {reader[0].name}: {brief(error)}") from None


def brief(error: Exception) -> str:
    """The text of an error in at most 200 characters."""
    return str(error)[:200] or type(error).__name__


def misfit(payload_type: str, cause: str) -> ConversionFailure:
    """[724] A body that a queue of ``payload_type`` does not take."""
    return ConversionFailure(
        f"the body does not fit a queue of payload type {payload_type}",
        cause=cause,
        cure="give the job a transformation, or use a queue of another payload type",
        number=724,
    )
