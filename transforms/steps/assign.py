"""The declarative transformation: targets of a message set to the values of expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from mgw.transforms.errors import ConfigInvalid, ExpressionInvalid
from mgw.transforms.language.compiler import compile_expression
from mgw.transforms.language.expression import Functions, Row, no_functions
from mgw.transforms.language.values import NoValue, Value, show, to_number, to_text
from mgw.transforms.message import MAX_HEADER_NAME, Body, Header, Message, PayloadKind
from mgw.transforms.objects import AnyData, ObjectValue, object_json
from mgw.transforms.payloads.fields import header_of
from mgw.transforms.payloads.json_text import dump_json

__all__ = ["Assignment"]

_MAX_INTEGER = 2**31 - 1


def _priority(value: Value) -> int:
    number = 1 if value is None else to_number(value)
    if number != int(number) or abs(number) > _MAX_INTEGER:
        raise NoValue(f"priority {number} is not a 32-bit integer")
    return int(number)


def _seconds(value: Value) -> float | None:
    if value is None:
        return None
    number = to_number(value)
    if not 0 <= number <= _MAX_INTEGER:
        raise NoValue(f"{number} seconds are not in the range 0 to {_MAX_INTEGER}")
    return number


def _body(value: Value) -> Body:
    if value is None or isinstance(value, (str, bytes, ObjectValue, AnyData)):
        return value
    return object_json(value) if isinstance(value, (tuple, Decimal, datetime)) else dump_json(value)


#: Message property (as a target) to the properties that its value changes.
_PROPERTIES: Mapping[str, Callable[[Value], dict[str, Any]]] = {
    "correlation": lambda value: {"correlation": None if value is None else to_text(value)},
    "priority": lambda value: {"priority": _priority(value)},
    "expiration": lambda value: {"expiration": _seconds(value), "expires_at": None},
    "delay": lambda value: {"delay": _seconds(value) or 0},
}


class Assignment:
    """Expressions and the targets they are assigned to; all expressions see the message as it came.

    Raises:
        ConfigInvalid: a target is unknown, or given twice.
        ExpressionInvalid: an expression cannot be compiled.
    """

    def __init__(
        self, name: str, assignments: Mapping[str, str], unset: Sequence[str], functions: Functions = no_functions
    ) -> None:
        self._properties: list[tuple[str, Callable[[Row], Value]]] = []
        self._body: Callable[[Row], Value] | None = None
        self._attributes: list[tuple[tuple[str, ...], Callable[[Row], Value]]] = []
        self._removed: list[tuple[str, ...]] = []
        self._headers: dict[str, Callable[[Row], Value]] = {}
        seen: set[str] = set()
        for target, text in assignments.items():
            try:
                compiled = compile_expression(text, functions)
            except ExpressionInvalid as error:
                error.what = f"transformation {name}, {target}: {error.what}"
                raise
            self._add(name, target, compiled.value, seen)
        for target in unset:
            self._add(name, target, None, seen)

    def _add(self, name: str, target: str, value: Callable[[Row], Value] | None, seen: set[str]) -> None:
        kind, _, rest = target.strip().partition(".")
        kind = {"corrid": "correlation", "user_data": "body"}.get(kind.lower(), kind.lower())
        if f"{kind}.{rest}" in seen:
            raise _bad_target(name, target, "it is there twice", "keep one of them")
        seen.add(f"{kind}.{rest}")
        compute = value or (lambda _row: None)
        if kind == "header" and rest:
            if len(rest) > MAX_HEADER_NAME:
                raise _bad_target(name, target, f"a header name has at most {MAX_HEADER_NAME} characters", "shorten it")
            self._headers[rest] = compute
        elif kind == "body" and not rest:
            self._body = compute
        elif kind == "body":
            path = tuple(rest.split("."))
            if "" in path:
                raise _bad_target(name, target, "an attribute has no name", "write body.a or body.a.b")
            if value is None:
                self._removed.append(path)
            else:
                self._attributes.append((path, compute))
        elif kind in _PROPERTIES and not rest:
            self._properties.append((kind, compute))
        else:
            raise _bad_target(
                name,
                target,
                "it is not a target",
                f"targets are body, body.<attribute>, header.<name>, {', '.join(_PROPERTIES)}",
            )

    def apply(self, message: Message, row: Row) -> Message:
        """The changed message; ``row`` is the message's strict row.

        Raises:
            GatewayError, NoValue, ValueError, TypeError: a value cannot be computed, or does not fit its target.
        """
        changes: dict[str, Any] = {}
        for target, compute in self._properties:
            value = compute(row)
            try:
                changes.update(_PROPERTIES[target](value))
            except NoValue as problem:
                raise NoValue(f"{target}: {problem}") from None
        if self._headers:
            changes["headers"] = self._new_headers(message.headers, row)
        if self._body is not None or self._attributes or self._removed:
            changes["body"] = body = self._new_body(message, row)
            if not isinstance(body, tuple):
                stays_raw = message.kind is PayloadKind.RAW and isinstance(body, bytes)
                changes["kind"] = PayloadKind.RAW if stays_raw else PayloadKind.BASIC
        return replace(message, **changes) if changes else message

    def _new_headers(self, headers: tuple[Header, ...], row: Row) -> tuple[Header, ...]:
        computed = {name: compute(row) for name, compute in self._headers.items()}
        fresh = {name: _header(name, value) for name, value in computed.items() if value is not None}
        result = []
        for header in headers:
            if header.name not in computed:
                result.append(header)
            elif header.name in fresh:
                result.append(fresh.pop(header.name))
        return (*result, *fresh.values())

    def _new_body(self, message: Message, row: Row) -> Body:
        values = [(path, compute(row)) for path, compute in self._attributes]
        body = message.body
        if self._body is not None:
            body = _body(self._body(row))
            row = Row(replace(message, body=body), strict=True)
        if not values and not self._removed:
            return body
        if isinstance(body, tuple):
            return self._new_fields(body, values)
        if isinstance(row.attributes, ObjectValue):
            return self._new_object(row.attributes, values)
        object_ = dict(row.attributes)
        for path in self._removed:
            _remove(object_, path)
        for path, value in values:
            if isinstance(value, bytes):
                raise NoValue(f"body.{'.'.join(path)} would be raw bytes, which JSON does not have")
            _assign(object_, path, value)
        try:
            return dump_json(object_)
        except TypeError:  # attributes of an object: exact numbers, times
            return object_json(object_)

    def _new_object(self, given: ObjectValue, values: list[tuple[tuple[str, ...], Value]]) -> Body:
        members = dict(given)
        for path in self._removed:
            _assign_attribute(members, path, None)
        for path, value in values:
            _assign_attribute(members, path, value)
        return ObjectValue(given.type_name, members)

    def _new_fields(self, fields: tuple[Header, ...], values: list[tuple[tuple[str, ...], Value]]) -> Body:
        for path in (*self._removed, *(path for path, _ in values)):
            if len(path) > 1:
                raise NoValue(f"fields have no nested parts: body.{'.'.join(path)}")
        gone = {path[0] for path in self._removed}
        fresh = {path[0]: None if value is None else _header(path[0], value) for path, value in values}
        result: list[Header] = []
        for one in fields:
            if one.name in fresh:
                replacement = fresh.pop(one.name)
                gone.add(one.name)
                if replacement is not None:
                    result.append(replacement)
            elif one.name not in gone:
                result.append(one)
        return (*result, *(each for each in fresh.values() if each is not None))


def _header(name: str, value: Value) -> Header:
    if isinstance(value, (dict, list)):
        value = dump_json(value)
    try:
        return header_of(name, value)
    except ValueError as error:
        raise NoValue(f"{show(value)} cannot be the value of {name!r}: {error}") from None


def _assign(object_: dict[str, Any], path: tuple[str, ...], value: Value) -> None:
    """Set a member; objects on the way are copied, since expressions and other messages may share them."""
    for name in path[:-1]:
        inner = object_.get(name)
        if inner is not None and not isinstance(inner, dict):
            raise NoValue(f"body.{'.'.join(path)} cannot be set: {name} is {show(inner)}")
        copy = dict(inner or {})
        object_[name] = copy
        object_ = copy
    object_[path[-1]] = value


def _assign_attribute(members: dict[str, Any], path: tuple[str, ...], value: Value) -> None:
    """As :func:`_assign`, in an object, whose attributes are found in any letter case."""
    for name in path[:-1]:
        known = _known_name(members, name)
        inner = members.get(known)
        if inner is not None and not isinstance(inner, (dict, ObjectValue)):
            raise NoValue(f"body.{'.'.join(path)} cannot be set: {name} is {show(inner)}")
        copy = dict(inner or {})
        members[known] = copy
        members = copy
    members[_known_name(members, path[-1])] = value


def _known_name(members: dict[str, Any], name: str) -> str:
    return next((known for known in members if known.upper() == name.upper()), name)


def _remove(object_: dict[str, Any], path: tuple[str, ...]) -> None:
    for name in path[:-1]:
        inner = object_.get(name)
        if not isinstance(inner, dict):
            return
        copy = dict(inner)
        object_[name] = copy
        object_ = copy
    object_.pop(path[-1], None)


def _bad_target(name: str, target: str, cause: str, cure: str) -> ConfigInvalid:
    return ConfigInvalid(f"transformation {name}: target {target!r} is invalid", cause=cause, cure=cure)
