"""A header array that came from outside: JSON ``[[name, type, value], ...]``, of which nothing is taken on trust.

What :func:`mgw.transforms.message.decode_headers` reads was written by the hub; a payload was written by anybody.
"""

from __future__ import annotations

import base64
from typing import Any

from mgw.transforms.message import Header, HeaderValue, ValueType

__all__ = ["read_headers"]

_BY_CODE = {int(kind): kind for kind in ValueType}
_TEXTS = (ValueType.TEXT, ValueType.JSON, ValueType.DECIMAL)
_FLOATS = (ValueType.FLOAT, ValueType.DOUBLE, ValueType.DATE)


def read_headers(array: Any) -> tuple[Header, ...]:
    """The headers of a parsed JSON array.

    Raises:
        ValueError: it is no header array.
    """
    if not isinstance(array, list):
        raise ValueError("it is not an array")
    return tuple(map(_header, array))


def _header(entry: Any) -> Header:
    if not isinstance(entry, list) or len(entry) != 3:
        raise ValueError(f"{entry!r:.60} is not an array of three")
    name, code, value = entry
    if not isinstance(name, str):
        raise ValueError(f"name {name!r:.60} is not text")
    kind = _BY_CODE.get(code) if type(code) is int else None
    if kind is None:
        raise ValueError(f"{name[:60]!r} has type {code!r:.60}, which does not exist")
    return Header(name, kind, _value(name, kind, value))


def _value(name: str, kind: ValueType, value: Any) -> HeaderValue:
    given: type = type(value)
    if kind in _TEXTS and given is str:
        return value  # type: ignore[no-any-return]
    if kind is ValueType.RAW and given is str:
        return base64.b64decode(value, validate=True)
    if kind in _FLOATS and given in (int, float, str):
        return _float(value)
    if kind is ValueType.BOOLEAN and given is bool:
        return value  # type: ignore[no-any-return]
    if given is int and kind not in (*_TEXTS, *_FLOATS, ValueType.RAW, ValueType.BOOLEAN):
        return value  # type: ignore[no-any-return]
    raise ValueError(f"value {value!r:.60} of {name[:60]!r} is not {kind.name}")


def _float(value: float | str) -> float:
    try:
        return float(value)
    except OverflowError:
        raise ValueError("a number is beyond what a double holds") from None
