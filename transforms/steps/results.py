"""What a transformation made of a message, checked: nothing goes on that the hub or a link could not take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mgw.transforms.message import MAX_CORRELATION, Header, Message, ValueType, check_headers
from mgw.transforms.objects import AnyData, ObjectValue

__all__ = ["check_result", "several"]


def several(message: Message, result: Any) -> list[Message]:
    """The messages that a function returned for one.

    Raises:
        TypeError, ValueError, ConversionFailure: it returned something else, or what cannot go on.
    """
    if not isinstance(result, (list, tuple)) or not all(isinstance(each, Message) for each in result):
        raise TypeError(f"it returned {type(result).__name__}, not a Message, a list of Messages or None")
    for each in result:
        check_result(message, each, True)
    return list(result)


def check_result(message: Message, result: Message, checked: bool) -> None:
    """Refuse what the hub or a link could not take; nothing is checked twice that came from the source."""
    if result.msgid != message.msgid:
        raise ValueError("it changed the message id")
    if result.body is not message.body:
        _check_body(result.body)
    correlation = result.correlation
    if correlation is not None and correlation is not message.correlation:
        length = len(correlation)
        if length > MAX_CORRELATION:
            raise ValueError(f"the correlation it made has {length} characters, {MAX_CORRELATION} are allowed")
        correlation.encode()
    if result.headers is not message.headers:
        if checked:
            _check_values(result.headers)
        check_headers(result.headers)


def _check_body(body: Any) -> None:
    if isinstance(body, str):
        if not body.isascii():
            body.encode()
    elif isinstance(body, tuple):
        _check_values(body)
    elif body is not None and not isinstance(body, (bytes, ObjectValue, AnyData)):
        raise TypeError(
            f"the body it made is {type(body).__name__}, not bytes, str, fields, an object, ANYDATA or None"
        )


_VALUE_TYPES: Mapping[ValueType, tuple[type, ...]] = {
    **dict.fromkeys((ValueType.TEXT, ValueType.JSON, ValueType.DECIMAL), (str,)),
    ValueType.RAW: (bytes,),
    ValueType.BOOLEAN: (bool,),
    **dict.fromkeys((ValueType.BYTE, ValueType.SHORT, ValueType.INTEGER, ValueType.LONG), (int,)),
    **dict.fromkeys((ValueType.UBYTE, ValueType.USHORT, ValueType.UINT), (int,)),
    **dict.fromkeys((ValueType.FLOAT, ValueType.DOUBLE, ValueType.DATE), (float, int)),
}


def _check_values(headers: Any) -> None:
    if not isinstance(headers, tuple):
        raise TypeError(f"headers must be a tuple of Header, not {type(headers).__name__}")
    for header in headers:
        if type(header) is not Header or type(header.name) is not str:
            raise TypeError(f"{header!r:.100} is not a Header")
        if type(header.value) not in _VALUE_TYPES.get(header.type, ()):
            wrong = type(header.value).__name__
            raise TypeError(f"header {header.name!r} of type {header.type!r} has a value of {wrong}")
        header.name.encode()
        if isinstance(header.value, str):
            header.value.encode()
