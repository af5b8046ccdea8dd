"""AMQP field values that are not scalars of the canonical message, as JSON text and back, with their types.

Void is ``null``, an array an array, a table an object. Inside them text, truth, integers of 32 bits (``I``; where the
number is larger, of 64: ``l``) and doubles are what JSON has; anything else is an object with one member whose name
tells the type:

=================================================  ==================================================================
``{"$byte": 1}``, ``$ubyte``, ``$short``,          ``b``, ``B``, ``s``,
``$ushort``, ``$uint``, ``$long``                  ``u``, ``i``, ``l`` with a number that 32 bits hold
``{"$float": 1.5}``, ``{"$double": "nan"}``        ``f``, ``d`` where JSON has no such number; text for nan, inf, -inf
``{"$decimal": "1.50"}``                           ``D``
``{"$timestamp": 1700000000}``                     ``T``, epoch seconds
``{"$bytes": "AP8="}``, ``{"$text": "AP8="}``      ``x``, and ``S`` that is not UTF-8; base64
``{"$table": [["a", 1], ["a", 2]]}``               ``F`` where a name is repeated, or is the only one and begins with $
=================================================  ==================================================================
"""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

__all__ = ["decimal_bytes", "decimal_text", "json_bytes", "json_text", "nested"]

_u32: Final = struct.Struct(">I")
_DECIMAL: Final = struct.Struct(">Bi")

#: Codes of numbers: the name that tells them apart, their form, their size.
_NUMBERS: Final[dict[int, tuple[str, struct.Struct]]] = {
    ord(code): (name, struct.Struct(form))
    for code, name, form in (
        ("b", "$byte", ">b"),
        ("B", "$ubyte", ">B"),
        ("s", "$short", ">h"),
        ("U", "$short", ">h"),
        ("u", "$ushort", ">H"),
        ("I", "", ">i"),
        ("i", "$uint", ">I"),
        ("l", "$long", ">q"),
        ("L", "$long", ">q"),
        ("f", "$float", ">f"),
        ("d", "$double", ">d"),
        ("T", "$timestamp", ">Q"),
    )
}
_NAMED: Final = {
    name: (bytes((code,)), form) for code, (name, form) in _NUMBERS.items() if name and chr(code) not in "UL"
}
_MAX_INT: Final = 2**31


def json_text(data: bytes, code: int, at: int) -> tuple[str, int]:
    """A value of type ``code`` at ``at`` as JSON text, and the place after it.

    Raises:
        ValueError, IndexError, struct.error, RecursionError: not well-formed.
    """
    value, at = nested(data, code, at)
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False), at


def nested(data: bytes, code: int, at: int) -> tuple[Any, int]:
    """As :func:`json_text`, before it is text."""
    if code in _NUMBERS:
        name, form = _NUMBERS[code]
        return _number(name, form.unpack_from(data, at)[0]), at + form.size
    if code in _FIXED:
        read, size = _FIXED[code]
        return read(data, at), at + size
    if code not in _LONG:
        raise ValueError(f"unknown field type {code}")
    end = at + 4 + _u32.unpack_from(data, at)[0]
    if end > len(data):
        raise ValueError("a value is longer than its table")
    return _LONG[code](data, at + 4, end), end


def _array(data: bytes, at: int, end: int) -> Any:
    items = []
    while at < end:
        item, at = nested(data, data[at], at + 1)
        items.append(item)
    return items


def _members(data: bytes, at: int, end: int) -> Any:
    pairs = []
    while at < end:
        stop = at + 1 + data[at]
        name = data[at + 1 : stop].decode(errors="backslashreplace")
        value, at = nested(data, data[stop], stop + 1)
        pairs.append((name, value))
    table = dict(pairs)
    plain = len(table) == len(pairs) and not (len(table) == 1 and next(iter(table)).startswith("$"))
    return table if plain else {"$table": pairs}


def _number(name: str, value: float) -> Any:
    if not name or (name == "$long" and not -_MAX_INT <= value < _MAX_INT):
        return value
    if isinstance(value, float) and not math.isfinite(value):
        return {name: repr(value)}
    return value if name == "$double" else {name: value}


def _text(raw: bytes) -> Any:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return {"$text": _base64(raw)}


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")


def decimal_text(data: bytes, at: int) -> str:
    """A decimal (scale and digits) as text, with the digits after its point that it has."""
    scale, digits = _DECIMAL.unpack_from(data, at)
    return str(Decimal((int(digits < 0), tuple(map(int, str(abs(digits)))), -scale)))


_FIXED: Final[dict[int, tuple[Callable[[bytes, int], Any], int]]] = {
    ord("V"): (lambda _data, _at: None, 0),
    ord("t"): (lambda data, at: data[at] != 0, 1),
    ord("D"): (lambda data, at: {"$decimal": decimal_text(data, at)}, _DECIMAL.size),
}
_LONG: Final[dict[int, Callable[[bytes, int, int], Any]]] = {
    ord("S"): lambda data, at, end: _text(data[at:end]),
    ord("x"): lambda data, at, end: {"$bytes": _base64(data[at:end])},
    ord("A"): _array,
    ord("F"): _members,
}


# -- back -----------------------------------------------------------------------------------------------------------


def json_bytes(text: str) -> bytes:
    """The field value, type code first, that JSON text stands for.

    Raises:
        ValueError, TypeError, OverflowError, struct.error, ArithmeticError, RecursionError: there is none.
    """
    return _field(json.loads(text))


def _field(value: Any) -> bytes:
    return _FIELDS[type(value)](value)


def _integer(value: int) -> bytes:
    return struct.pack(">ci", b"I", value) if -_MAX_INT <= value < _MAX_INT else struct.pack(">cq", b"l", value)


def _object(value: dict[str, Any]) -> bytes:
    if len(value) == 1:
        ((name, content),) = value.items()
        if name in _NAMED:
            code, form = _NAMED[name]
            return code + form.pack(_finite(float(content)) if name in ("$float", "$double") else content)
        if name in _OTHERS:
            return _OTHERS[name](content)
    return _table(list(value.items()))


def _finite(value: float) -> float:
    if not math.isfinite(value):  # RabbitMQ cannot read it and ends the connection
        raise ValueError("it is not finite")
    return value


def _sized(code: bytes, data: bytes) -> bytes:
    return code + _u32.pack(len(data)) + data


def _table(pairs: list[Any]) -> bytes:
    pieces = []
    for name, value in pairs:
        key = name.encode()
        pieces.append(bytes((len(key),)) + key + _field(value))
    return _sized(b"F", b"".join(pieces))


def decimal_bytes(text: str) -> bytes:
    """A decimal field value, type code first.

    Raises:
        ArithmeticError, ValueError, struct.error: it is none that AMQP can carry.
    """
    number = Decimal(text)
    sign, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int):
        raise ValueError("it is not finite")
    whole = int("".join(map(str, digits)) or "0") * 10 ** min(max(exponent, 0), 10)
    return b"D" + _DECIMAL.pack(max(0, -exponent), -whole if sign else whole)


def _raw(code: bytes) -> Callable[[Any], bytes]:
    return lambda content: _sized(code, base64.b64decode(content, validate=True))


_OTHERS: Final[dict[str, Callable[[Any], bytes]]] = {
    "$decimal": decimal_bytes,
    "$bytes": _raw(b"x"),
    "$text": _raw(b"S"),
    "$table": _table,
}
_FIELDS: Final[dict[type, Callable[[Any], bytes]]] = {
    type(None): lambda _: b"V",
    bool: lambda value: b"t\x01" if value else b"t\x00",
    int: _integer,
    float: lambda value: struct.pack(">cd", b"d", _finite(value)),
    str: lambda value: _sized(b"S", value.encode()),
    list: lambda value: _sized(b"A", b"".join(map(_field, value))),
    dict: _object,
}
