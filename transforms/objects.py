"""Bodies that have a declared type: objects, and values that say themselves what they are (ANYDATA).

AQ guide 12.2 §2.2 (object types) and §22.1 (ANYDATA). The types are in :mod:`mgw.transforms.payloads.sql_types`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

__all__ = ["AnyData", "JsonNumber", "ObjectValue", "object_json", "plain_body"]


class ObjectValue(Mapping[str, Any]):
    """A value of an object type: its attributes by name, in the order of the type. Immutable.

    Names are found in any letter case. Attributes hold ``str``, ``int``, ``Decimal``, ``float``, ``bool``, ``bytes``,
    ``datetime``, ``timedelta``, tuples (VARRAY), other objects, JSON values, or None for NULL.

    Args:
        type_name: ``[schema.]name`` of the type; letter case does not matter.
        attributes: value by attribute; what is left out is NULL. A nested object may be given as a mapping. Names and
            values are checked when the message is enqueued.
    """

    __slots__ = ("_names", "_values", "type_name")

    type_name: str

    def __init__(self, type_name: str, attributes: Mapping[str, Any]) -> None:
        self.type_name = type_name.upper()
        self._values = dict(attributes)
        self._names = {name.upper(): name for name in self._values}

    def __getitem__(self, name: str) -> Any:
        values = self._values
        if name in values:
            return values[name]
        return values[self._names[name.upper()]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ObjectValue):
            return NotImplemented
        if self.type_name != other.type_name or self._names.keys() != other._names.keys():
            return False
        return all(self._values[name] == other[key] for key, name in self._names.items())

    def __hash__(self) -> int:
        return hash((self.type_name, frozenset(self._names)))

    def __repr__(self) -> str:
        return f"ObjectValue({self.type_name!r}, {self._values!r})"


class JsonNumber(Decimal):
    """A number of JSON text that has more digits than a floating-point number keeps."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class AnyData:
    """A value with its type, the body of a message in an ANYDATA queue.

    Make one with ``mgw.gateway.aq.payloads.anydata.wrap``.

    Attributes:
        type_name: ``SCHEMA.TYPE`` of an object, ``SYS.<SCALAR>`` of a scalar, in upper case.
        value: what is wrapped, None for NULL.
    """

    type_name: str
    value: Any


def object_json(value: Any, *, lenient: bool = False) -> str:
    """A value as JSON text for those who know no object types.

    Attributes have the names they were declared with; numbers keep their digits, times are ISO 8601 text, intervals
    seconds, raw bytes hexadecimal text. ANYDATA is what it wraps.

    Args:
        lenient: give NaN and infinity as the texts ``nan``, ``inf`` and ``-inf``; JSON has no such numbers.

    Raises:
        ValueError: a number is NaN or infinite.
    """
    if isinstance(value, AnyData):
        return object_json(value.value, lenient=lenient)
    if isinstance(value, Mapping):
        members = (
            f"{json.dumps(name, ensure_ascii=False)}:{object_json(value[name], lenient=lenient)}" for name in value
        )
        return f"{{{','.join(members)}}}"
    if isinstance(value, (tuple, list)):
        return f"[{','.join(object_json(each, lenient=lenient) for each in value)}]"
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, datetime):
        value = value.isoformat()
    elif isinstance(value, timedelta):
        value = value.total_seconds()
    elif isinstance(value, bytes):
        value = value.hex().upper()
    elif lenient and isinstance(value, float) and not math.isfinite(value):
        value = str(value)
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def plain_body(body: ObjectValue | AnyData, *, lenient: bool = False) -> str | bytes | None:
    """An object or ANYDATA as a body for those who know no types: JSON text; wrapped text and bytes as they are.

    ``lenient`` and errors: see :func:`object_json`.
    """
    value = body.value if isinstance(body, AnyData) else body
    return value if value is None or isinstance(value, (str, bytes)) else object_json(value, lenient=lenient)
