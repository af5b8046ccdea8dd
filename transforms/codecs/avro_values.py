"""Values of Avro as JSON has them, and values of JSON as a schema of Avro has them.

JSON has no dates, decimals and bytes: a date, a time and a UUID are text as in ISO 8601 and RFC 4122, a decimal is text
with all its digits, bytes and fixed are base64. A union is its value.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

from mgw.transforms.codecs.schemas import refused
from mgw.transforms.errors import ConversionFailure

__all__ = ["plain", "typed"]


def plain(value: Any) -> Any:
    """A value of Avro as JSON has it."""
    kind = type(value)
    if kind in (str, int, bool, float) or value is None:
        return value
    if kind is dict:
        return {name: plain(each) for name, each in value.items()}
    if kind in (list, tuple):
        return [plain(each) for each in value]
    return _TEXTS.get(kind, str)(value)


_TEXTS: Mapping[type, Callable[[Any], str]] = {
    bytes: lambda value: base64.b64encode(value).decode(),
    datetime: lambda value: value.isoformat().replace("+00:00", "Z"),
    date: date.isoformat,
    time: time.isoformat,
    Decimal: lambda value: format(value, "f"),
    uuid.UUID: str,
}


def typed(value: Any, schema: Any, names: Mapping[str, Any], where: str) -> Any:
    """A value of JSON as the schema has it."""
    if isinstance(schema, list):
        return _of_union(value, schema, names, where)
    if isinstance(schema, str):
        if schema in names:
            return typed(value, names[schema], names, where)
        return _READ_PLAIN[schema](value, schema, where)
    logical = _READ_LOGICAL.get(schema.get("logicalType", ""))
    if logical is not None:
        return logical(value, schema, where)
    kind = schema["type"]
    if isinstance(kind, (dict, list)) or kind in names:
        return typed(value, kind, names, where)
    nested = _READ_NESTED.get(kind)
    return _READ_PLAIN[kind](value, schema, where) if nested is None else nested(value, schema, names, where)


def _array(value: Any, schema: Any, names: Mapping[str, Any], where: str) -> list[Any]:
    elements = _expect(value, list, "an array", where)
    return [typed(each, schema["items"], names, f"{where}[{at}]") for at, each in enumerate(elements)]


def _map(value: Any, schema: Any, names: Mapping[str, Any], where: str) -> dict[str, Any]:
    members = _expect(value, dict, "an object", where)
    return {name: typed(each, schema["values"], names, f"{where}.{name}") for name, each in members.items()}


def _enum(value: Any, schema: Any, _names: Mapping[str, Any], where: str) -> str:
    if value not in schema["symbols"]:
        raise _misfit(where, f"one of {', '.join(schema['symbols'])[:100]}")
    return str(value)


def _record(value: Any, schema: Any, names: Mapping[str, Any], where: str) -> dict[str, Any]:
    members = _expect(value, dict, "an object", where)
    fields = {field["name"]: field for field in schema["fields"]}
    unknown = members.keys() - fields.keys()
    if unknown:
        raise _misfit(where, f"a {schema['name']}, which has no field {min(unknown)}")
    made: dict[str, Any] = {}
    for name, field in fields.items():
        if name in members:
            made[name] = typed(members[name], field["type"], names, f"{where}.{name}")
        elif "default" not in field:
            raise _misfit(f"{where}.{name}", "there: it has no default")
    return made


def _of_union(value: Any, branches: list[Any], names: Mapping[str, Any], where: str) -> Any:
    """The value as the first branch that it fits."""
    if value is None and "null" in branches:
        return None
    first: ConversionFailure | None = None
    for branch in branches:
        if branch == "null":
            continue
        try:
            made = typed(value, branch, names, where)
            record = names.get(branch) if isinstance(branch, str) else branch
            if isinstance(record, dict) and record["type"] == "record":
                return record["name"], made  # or the library would choose among records by itself
            return made
        except ConversionFailure as error:
            first = first or error
    raise first or _misfit(where, "null")


def _expect(value: Any, kind: type, what: str, where: str) -> Any:
    if not isinstance(value, kind):
        raise _misfit(where, what)
    return value


def _null(value: Any, _schema: Any, where: str) -> None:
    if value is not None:
        raise _misfit(where, "null")


def _boolean(value: Any, _schema: Any, where: str) -> bool:
    return bool(_expect(value, bool, "true or false", where))


def _whole(value: Any, schema: Any, where: str) -> int:
    kind = schema if isinstance(schema, str) else schema["type"]
    bits = 31 if kind == "int" else 63
    if isinstance(value, bool) or not isinstance(value, int) or not -(2**bits) <= value < 2**bits:
        raise _misfit(where, f"an integer of {bits + 1} bits")
    return value


def _float(value: Any, _schema: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise _misfit(where, "a number")
    return float(value)


def _string(value: Any, _schema: Any, where: str) -> str:
    return str(_expect(value, str, "text", where))


def _bytes(value: Any, _schema: Any, where: str) -> bytes:
    try:
        return base64.b64decode(_expect(value, str, "base64 text", where), validate=True)
    except ValueError:
        raise _misfit(where, "base64 text") from None


def _decimal(value: Any, schema: Any, where: str) -> Decimal:
    try:
        if isinstance(value, bool) or not isinstance(value, (str, int, float, Decimal)):
            raise TypeError
        number = Decimal(repr(value) if isinstance(value, float) else value)
        if not number.is_finite():
            raise ValueError
    except (ArithmeticError, TypeError, ValueError):
        raise _misfit(where, "a number, or text that is one") from None
    scale, precision = schema.get("scale", 0), schema["precision"]
    exponent = number.as_tuple().exponent
    digits = len(number.as_tuple().digits)
    if not isinstance(exponent, int) or -exponent > scale or digits + exponent > precision - scale:
        raise _misfit(where, f"a decimal of {precision} digits, {scale} of them after the point")
    return number


def _iso(make: Callable[[str], Any], what: str) -> Callable[[Any, Any, str], Any]:
    def read(value: Any, _schema: Any, where: str) -> Any:
        try:
            return make(_expect(value, str, what, where))
        except ValueError:
            raise _misfit(where, what) from None

    return read


def _with_zone(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _without_zone(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is not None:
        raise ValueError
    return moment


def _to_milliseconds(make: Callable[[str], Any]) -> Callable[[str], Any]:
    """The same for a type that holds milliseconds: what it would cut off is refused."""

    def read(text: str) -> Any:
        moment = make(text)
        if moment.microsecond % 1000:
            raise ValueError
        return moment

    return read


_TIME, _MOMENT, _LOCAL = (
    "a time such as 13:05:00",
    "a time such as 2026-11-24T13:05:00Z",
    "a time without zone such as 2026-11-24T13:05:00",
)
_MS = ", with no more than milliseconds"
_READ_PLAIN: Mapping[str, Callable[[Any, Any, str], Any]] = {
    "null": _null,
    "boolean": _boolean,
    "int": _whole,
    "long": _whole,
    "float": _float,
    "double": _float,
    "string": _string,
    "bytes": _bytes,
    "fixed": _bytes,
}
_READ_NESTED: Mapping[str, Callable[[Any, Any, Mapping[str, Any], str], Any]] = {
    "record": _record,
    "error": _record,
    "array": _array,
    "map": _map,
    "enum": _enum,
}
_READ_LOGICAL: Mapping[str, Callable[[Any, Any, str], Any]] = {
    "decimal": _decimal,
    "date": _iso(date.fromisoformat, "a date such as 2026-11-24"),
    "time-millis": _iso(_to_milliseconds(time.fromisoformat), _TIME + _MS),
    "time-micros": _iso(time.fromisoformat, _TIME),
    "timestamp-millis": _iso(_to_milliseconds(_with_zone), _MOMENT + _MS),
    "timestamp-micros": _iso(_with_zone, _MOMENT),
    "local-timestamp-millis": _iso(_to_milliseconds(_without_zone), _LOCAL + _MS),
    "local-timestamp-micros": _iso(_without_zone, _LOCAL),
    "uuid": _iso(uuid.UUID, "a UUID"),
}


def _misfit(where: str, wanted: str) -> ConversionFailure:
    return refused("Avro", "encoded", f"{where} is not {wanted}")
