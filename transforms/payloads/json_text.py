"""JSON text as values and back, as every payload, field and expression reads and writes it."""

from __future__ import annotations

import json
import math
from decimal import Decimal, InvalidOperation
from typing import Any

from mgw.transforms.objects import JsonNumber

__all__ = ["dump_json", "parse_exact", "parse_json"]


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


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
        ValueError: it is not UTF-8 text, no JSON (NaN and Infinity are not), or nested too deeply; the text says where.
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

    A number that a floating-point number does not keep is a :class:`~mgw.transforms.objects.JsonNumber`.
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
