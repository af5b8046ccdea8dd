"""The values of the expression language: what compares with what, text and numbers, and the functions on them.

A value is NULL (None), text, a number (int, float, Decimal), a boolean, raw bytes, a time, or a JSON object or array.
Raw bytes behave as their upper-case hexadecimal text, times as ISO 8601 text, Decimals as floating-point numbers. Text
meets a number as the number it spells, a boolean meets text as ``true`` or ``false``. JSON objects and arrays, objects
and ANYDATA can be tested for NULL and copied, nothing else. The empty text is not NULL.

Everything here takes values that are not NULL; NULL is the business of :mod:`mgw.transforms.language.expression`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from mgw.transforms.objects import AnyData, JsonNumber, ObjectValue

__all__ = [
    "MAX_TEXT",
    "NoValue",
    "Value",
    "align",
    "concat",
    "like_items",
    "like_matcher",
    "show",
    "to_number",
    "to_text",
]

#: What an expression computes: None, str, int, float, bool, bytes, or a JSON object or array.
Value = Any

MAX_TEXT = 128 * 1024 * 1024  # characters an expression may produce; guards against replace() and || running away
_MAX_BITS = 4096  # integers beyond this are refused, they can only come from runaway multiplication

_WRITTEN_OUT = 130  # digits before or after the point; no NUMBER has more
_TEXTUAL = (bytes, datetime)
_STRUCTURES: dict[type, str] = {
    dict: "a JSON object",
    list: "a JSON array",
    tuple: "an array",
    ObjectValue: "an object",
    AnyData: "ANYDATA",
}

_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)


class NoValue(Exception):
    """The expression has no value; the text says why. Callers of the language see ``ExpressionFailed`` instead."""


def show(value: Value) -> str:
    """A value as people should see it in an error: quoted, at most 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else text[:60] + "..."


def to_text(value: Value) -> str:
    """The text of a value: numbers in their shortest form (``7``, not ``7.0``), raw as hexadecimal."""
    kind = type(value)
    if kind is str:
        return value  # type: ignore[no-any-return]
    if kind is bool:
        return "true" if value else "false"
    if kind is int:
        if value.bit_length() > _MAX_BITS:
            raise NoValue("a number is too large to be written as text")
        return str(value)
    if kind is float:
        return str(int(value)) if value.is_integer() and abs(value) < 1e16 else repr(value)
    if kind is bytes:
        return value.hex().upper()  # type: ignore[no-any-return]
    if kind is datetime or kind is Decimal or kind is JsonNumber:
        return value.isoformat() if kind is datetime else _written(value)
    raise NoValue(f"{show(value)} is {_STRUCTURES.get(kind, 'no scalar value')}, text is needed here")


def _written(number: Decimal) -> str:
    return format(number, "f") if abs(number.adjusted()) < _WRITTEN_OUT else str(number)


def to_number(value: Value) -> int | float:
    """The number a value is or spells."""
    kind = type(value)
    if kind is int or kind is float:
        return value  # type: ignore[no-any-return]
    if kind is Decimal:
        return int(value) if value == value.to_integral_value() else float(value)
    if kind is JsonNumber:
        return float(value)
    if kind is str:
        text = value.strip(" ")
        if _NUMBER.fullmatch(text) and len(text) <= 400:
            number = int(text) if text.lstrip("+-").isdigit() else float(text)
            if math.isfinite(number):
                return number
    raise NoValue(f"{show(value)} is not a number")


def _to_boolean(value: Value) -> bool:
    if type(value) is str and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if value in (0, 1):
        return bool(value)
    raise NoValue(f"{show(value)} is neither true nor false")


def align(left: Value, right: Value) -> tuple[Any, Any]:
    """Two values made comparable: both numbers, both texts or both booleans."""
    if type(left) in _TEXTUAL:
        left = to_text(left)
    if type(right) in _TEXTUAL:
        right = to_text(right)
    a, b = type(left), type(right)
    for kind, value in ((a, left), (b, right)):
        if kind in _STRUCTURES:
            raise NoValue(f"{show(value)} is {_STRUCTURES[kind]} and cannot be compared")
    if a is b:
        return left, right
    if a is bool or b is bool:
        return _to_boolean(left), _to_boolean(right)
    return to_number(left), to_number(right)


def concat(parts: list[Value]) -> str:
    """Texts joined."""
    texts = [to_text(part) for part in parts]
    if sum(map(len, texts)) > MAX_TEXT:
        raise NoValue(f"the text would be longer than {MAX_TEXT} characters")
    return "".join(texts)


def like_items(pattern: str, escape: str | None) -> list[tuple[str, str]]:
    """A LIKE pattern character by character: ``any`` for ``%``, ``one`` for ``_``, ``is`` for a character itself."""
    items: list[tuple[str, str]] = []
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            following = next(characters, "")
            if not following or following not in ("%", "_", escape):
                raise NoValue(f"in LIKE pattern {show(pattern)} the escape character is not followed by %, _ or itself")
            items.append(("is", following))
        else:
            items.append(({"%": "any", "_": "one"}.get(character, "is"), character))
    return items


def like_matcher(pattern: str, escape: str | None) -> Callable[[str], bool]:
    """The test ``LIKE pattern [ESCAPE escape]``: ``%`` is any text, ``_`` any one character, case counts.

    The work grows with text times pattern at worst: what ``%`` has skipped is never tried again (atomic groups).
    """
    items = like_items(pattern, escape)
    if all(kind == "is" for kind, _ in items):
        return "".join(character for _, character in items).__eq__
    parts: list[str] = [""]  # regular expressions of the pieces between the % signs
    for kind, character in items:
        if kind == "any":
            parts.append("")
        else:
            parts[-1] += "." if kind == "one" else re.escape(character)
    first, *middle = parts
    regex = first
    if middle:
        *between, last = middle
        regex += "".join(f"(?>.*?{piece})" for piece in between if piece) + ".*" + last
    match = re.compile(regex, re.DOTALL).fullmatch
    return lambda text: match(text) is not None


def _finite(number: int | float) -> int | float:
    if isinstance(number, float):
        if math.isfinite(number):
            return number
    elif number.bit_length() <= _MAX_BITS:
        return number
    raise NoValue("the result is out of the range of numbers")


def add(a: Value, b: Value) -> Value:
    """a + b."""
    return _finite(to_number(a) + to_number(b))


def subtract(a: Value, b: Value) -> Value:
    """a - b."""
    return _finite(to_number(a) - to_number(b))


def multiply(a: Value, b: Value) -> Value:
    """a * b."""
    return _finite(to_number(a) * to_number(b))


def divide(a: Value, b: Value) -> Value:
    """a / b, never rounded to an integer: 7 / 2 is 3.5."""
    x, y = to_number(a), to_number(b)
    if y == 0:
        raise NoValue("division by zero")
    if isinstance(x, int) and isinstance(y, int) and x % y == 0:
        return x // y
    return _finite(x / y)


def modulo(a: Value, b: Value) -> Value:
    """Remainder with the sign of the dividend."""
    x, y = to_number(a), to_number(b)
    if y == 0:
        raise NoValue("division by zero")
    if isinstance(x, int) and isinstance(y, int):
        rest = abs(x) % abs(y)
        return rest if x >= 0 else -rest
    if isinstance(x, float) and not math.isfinite(x):
        raise NoValue("the dividend is out of the range of numbers")
    return math.fmod(x, y)


def _measured(value: Value) -> int | float:
    number = to_number(value)
    if isinstance(number, float) and math.isnan(number):
        raise NoValue("NaN is not a number")
    return number


def _whole(value: Value) -> int:
    return math.trunc(_measured(value))


def substr(text: Value, start: Value, length: Value = None) -> str:
    """Part of a text; positions count from 1, from the end when negative; 0 is 1."""
    whole, first = to_text(text), _whole(start)
    if first < 0:
        first += len(whole)
        if first < 0:
            return ""
    else:
        first = max(first - 1, 0)
    return whole[first:] if length is None else whole[first : first + max(_whole(length), 0)]


def instr(text: Value, part: Value, start: Value = 1, occurrence: Value = 1) -> int:
    """Position of a part in a text, from 1; 0 when it is not there. A negative start searches backwards."""
    whole, wanted, first, count = to_text(text), to_text(part), _whole(start), _whole(occurrence)
    if count < 1:
        raise NoValue(f"the occurrence for instr is {count}, it must be at least 1")
    if first == 0 or not wanted:
        return 0
    if first > 0:
        at = first - 2
        for _ in range(count):
            at = whole.find(wanted, at + 1)
            if at < 0:
                return 0
        return at + 1
    end = len(whole) + first + len(wanted)
    for _ in range(count):
        at = whole.rfind(wanted, 0, max(end, 0))
        if at < 0:
            return 0
        end = at + len(wanted) - 1
    return at + 1


def replace(text: Value, old: Value, new: Value = "") -> str:
    """A text with every occurrence of ``old`` replaced; an empty ``old`` changes nothing."""
    whole, wanted, instead = to_text(text), to_text(old), to_text(new)
    if not wanted:
        return whole
    if len(whole) + whole.count(wanted) * (len(instead) - len(wanted)) > MAX_TEXT:
        raise NoValue(f"the text would be longer than {MAX_TEXT} characters")
    return whole.replace(wanted, instead)


def round_half_up(value: Value, digits: Value = 0) -> int | float:
    """Rounded half away from zero to ``digits`` decimals (negative: tens, hundreds...)."""
    number, places = _measured(value), _whole(digits)
    if not -300 <= places <= 300:
        raise NoValue(f"round to {places} digits is not possible, only -300 to 300")
    if places < 0:
        unit: int = 10**-places
        whole, rest = divmod(abs(math.trunc(number)), unit)
        size = (whole + (2 * rest >= unit)) * unit
        return size if number >= 0 else -size
    if isinstance(number, int):
        return number
    if abs(number) >= 2**53:
        return number  # has no more decimals than that
    scaled = Decimal(repr(number)).scaleb(places).to_integral_value(rounding=ROUND_HALF_UP)
    return float(scaled.scaleb(-places)) if places else int(scaled)


def floor(value: Value) -> int:
    """Largest integer not above the number."""
    return math.floor(_measured(value))


def ceil(value: Value) -> int:
    """Smallest integer not below the number."""
    return math.ceil(_measured(value))


def absolute(value: Value) -> int | float:
    """The number without its sign."""
    return abs(to_number(value))


def negate(value: Value) -> int | float:
    """The number with the other sign."""
    return -to_number(value)


def trim(position: str) -> Callable[..., str]:
    """The trim function for ``BOTH``, ``LEADING`` or ``TRAILING``: spaces, or the characters given."""
    strip = {"BOTH": str.strip, "LEADING": str.lstrip, "TRAILING": str.rstrip}[position]

    def run(text: Value, characters: Value = " ") -> str:
        return strip(to_text(text), to_text(characters))

    return run
