"""Registered transformations: what a job may do to each message between its source and its destination.

A definition is data (JSON in the hub, YAML in a configuration) of one of two kinds, each with an optional filter::

    function: mypackage.plant:to_celsius      # a Python function message -> message, list of messages, or None
    options: {digits: 1}                      # its keyword arguments

    set:                                      # expressions, all computed on the message as it came
      body.celsius: (tab.user_data.fahrenheit - 32) / 1.8
      priority: CASE WHEN tab.user_data.alarm THEN 0 ELSE 5 END
      header.MGW_KAFKA_key: tab.user_data.machine
    unset: [body.fahrenheit, header.debug]

    where: tab.user_data.fahrenheit IS NOT NULL   # other messages are filtered on purpose, and counted

Targets of ``set`` and ``unset`` are ``body``, ``body.<attribute>[.<attribute>]``, ``correlation``, ``priority``,
``expiration``, ``delay`` (seconds) and ``header.<name>``. A value of NULL gives the target its default: no header, no
correlation, priority 1, no expiration, no body; an attribute of a JSON body becomes null.

Functions come from ``mgw.transforms.builtin`` and from the modules that the configuration allows, from nowhere else.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from mgw.transforms.errors import ConfigInvalid, GatewayError, TransformFailed
from mgw.transforms.language.compiler import compile_condition
from mgw.transforms.language.expression import Expression, Functions, Row, no_functions
from mgw.transforms.language.values import NoValue
from mgw.transforms.message import MAX_CORRELATION, Header, Message, ValueType, check_headers
from mgw.transforms.objects import AnyData, ObjectValue
from mgw.transforms.steps.assign import Assignment
from mgw.transforms.steps.importing import import_trusted

__all__ = ["BUILTIN_MODULE", "Transform", "TransformationDefinition", "compile_transformation", "load_rule_function"]

BUILTIN_MODULE = "mgw.transforms.builtin"
FORMER_BUILTIN = "transforms.builtin:"  # what definitions made before 0.2 say

#: What a compiled transformation does: one message in; one or several out, or None when it is filtered on purpose.
#: Raises only TransformFailed [722].
Transform = Callable[[Message], "Message | list[Message] | None"]

_KEYS = ("function", "options", "set", "unset", "where")


@dataclass(frozen=True, slots=True)
class TransformationDefinition:
    """A transformation as it is registered; see the top of the module for the meaning of the parts.

    Attributes:
        name: its registered name.
        function: ``package.module:function``, or None.
        options: keyword arguments of the function.
        assignments: target to expression (key ``set`` of the mapping).
        unset: targets to clear.
        where: filter expression, or None.
    """

    name: str
    function: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    assignments: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    where: str | None = None

    @classmethod
    def from_mapping(cls, name: str, mapping: Mapping[str, Any]) -> TransformationDefinition:
        """The definition in a mapping (from JSON or YAML).

        Raises:
            ConfigInvalid: an unknown key, a value of the wrong type, both ``function`` and ``set``/``unset``, nothing.
        """
        given = {key: value for key, value in mapping.items() if value is not None}
        unknown = sorted(str(key) for key in given if key not in _KEYS)
        if unknown:
            raise _invalid(name, f"unknown key {', '.join(unknown)}", f"the keys are {', '.join(_KEYS)}")
        function, where = (_text(name, key, given.get(key)) for key in ("function", "where"))
        options, assignments = (_table(name, key, given.get(key, {})) for key in ("options", "set"))
        unset = given.get("unset", [])
        if (
            isinstance(unset, str)
            or not isinstance(unset, Sequence)
            or not all(isinstance(each, str) for each in unset)
        ):
            raise _invalid(name, "unset is not a list of targets", "write unset: [header.NAME, ...]")
        if function and (assignments or unset):
            raise _invalid(name, "it has a function as well as set or unset", "split it into two transformations")
        if options and not function:
            raise _invalid(name, "options are for a function, but there is none", "name the function")
        if not (function or assignments or unset or where):
            raise _invalid(name, "it does nothing", "give it a function, set, unset or where")
        texts = {target: _expression_text(name, target, value) for target, value in assignments.items()}
        return cls(name, function, options, texts, tuple(unset), where)

    def to_mapping(self) -> dict[str, Any]:
        """The inverse of :meth:`from_mapping`: plain JSON values, parts that are not there left out."""
        parts = {
            "function": self.function,
            "options": dict(self.options),
            "set": dict(self.assignments),
            "unset": list(self.unset),
            "where": self.where,
        }
        return {key: value for key, value in parts.items() if value}


def compile_transformation(
    definition: TransformationDefinition,
    *,
    job: str = "",
    modules: Collection[str] = (),
    functions: Functions = no_functions,
) -> Transform:
    """A definition made callable.

    Args:
        definition: what to do.
        job: named in errors.
        modules: modules (with everything below them) that functions may come from, in addition to the built-in ones.
        functions: what its expressions may call in addition to the functions of the language.

    Raises:
        ConfigInvalid: the function is not allowed, missing [703] or does not take the options; a target is unknown.
        ExpressionInvalid: an expression cannot be compiled.
    """
    where = compile_condition(definition.where, functions=functions) if definition.where else None
    change: Callable[[Message, Row], Any]
    if definition.function:
        function = _load(definition, modules)
        options = _checked_options(definition, function)

        def call(message: Message, _row: Row) -> Any:
            return function(message, **options)

        change = call
    else:
        change = Assignment(definition.name, definition.assignments, definition.unset, functions).apply
    return _guarded(definition.name, job, where, change, definition.function is not None)


def _guarded(
    name: str, job: str, where: Expression | None, change: Callable[[Message, Row], Any], checked: bool
) -> Transform:
    def transform(message: Message) -> Message | list[Message] | None:
        try:
            row = Row(message, strict=True)
            if where is not None and where.holds(row) is not True:
                return None
            result = change(message, row)
            if result is None:
                return None
            if isinstance(result, Message):
                _check_result(message, result, checked)
                return result
            return _several(message, result)
        except MemoryError:
            raise
        except (Exception, SystemExit) as error:
            raise _failed(name, job, message, error) from error

    return transform


def _failed(name: str, job: str, message: Message, error: BaseException) -> TransformFailed:
    which = f" {message.msgid.hex().upper()}" if message.msgid else ""
    if not which and message.correlation:
        which = f" with correlation {message.correlation!r}"
    if isinstance(error, GatewayError):
        cause = f"{error.what}: {error.cause}" if error.cause else error.what
    elif isinstance(error, NoValue):
        cause = str(error)
    else:
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        place = f" ({PurePath(trace.tb_frame.f_code.co_filename).name} line {trace.tb_lineno})" if trace else ""
        cause = f"{type(error).__name__}: {str(error)[:1000]}{place}"
    return TransformFailed(
        f"transformation {name}{f' of job {job}' if job else ''} failed for the message{which}",
        cause=cause,
        cure="correct the message at its sender, or the transformation",
        number=722,
    )


# -- results -----------------------------------------------------------------------------------------------------------


def _several(message: Message, result: Any) -> list[Message]:
    if not isinstance(result, (list, tuple)) or not all(isinstance(each, Message) for each in result):
        raise TypeError(f"it returned {type(result).__name__}, not a Message, a list of Messages or None")
    for each in result:
        _check_result(message, each, True)
    return list(result)


def _check_result(message: Message, result: Message, checked: bool) -> None:
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


# -- functions ---------------------------------------------------------------------------------------------------------


def _load(definition: TransformationDefinition, modules: Collection[str]) -> Callable[..., Any]:
    name, path = definition.name, definition.function or ""
    if path.startswith(FORMER_BUILTIN):
        path = f"mgw.{path}"
    module_name, colon, function_name = path.partition(":")
    if not colon or not module_name or not function_name.isidentifier() or function_name.startswith("_"):
        raise _invalid(
            name, f"function {path!r} is not of the form package.module:function", "give the module and the function"
        )
    allowed = (BUILTIN_MODULE, *modules)
    if not any(module_name == each or module_name.startswith(each + ".") for each in allowed):
        raise _invalid(
            name,
            f"module {module_name} is not allowed to transform messages (allowed: {', '.join(allowed)})",
            "if you trust the module, list it under transform_modules in the configuration",
        )
    try:
        module = import_trusted(module_name)
    except ConfigInvalid as error:
        raise _invalid(name, error.cause, error.cure, number=703) from error
    except Exception as error:
        raise _invalid(
            name,
            f"module {module_name} cannot be imported: {type(error).__name__}: {error}",
            "install the module where the gateway runs, and check that it imports",
            number=703,
        ) from error
    function = getattr(module, function_name, None)
    if not inspect.isroutine(function) or (
        module_name == BUILTIN_MODULE and function_name not in getattr(module, "__all__", ())
    ):
        known = ", ".join(getattr(module, "__all__", ())) or "none listed"
        raise _invalid(
            name,
            f"module {module_name} has no function {function_name}",
            f"use a function of the module ({known})",
            number=703,
        )
    return typing.cast("Callable[..., Any]", function)


def load_rule_function(name: str, path: str, modules: Collection[str] = ()) -> Callable[..., Any]:
    """The function at ``package.module:function`` that rules may call as ``name``.

    Args:
        modules: modules (with everything below them) that functions may come from.

    Raises:
        ConfigInvalid: the module is not allowed or cannot be imported, or has no such function [703].
    """
    try:
        return _load(TransformationDefinition(name, path), modules)
    except ConfigInvalid as error:
        raise ConfigInvalid(
            f"function {name} of rules is invalid", cause=error.cause, cure=error.cure, number=error.number
        ) from error


def _checked_options(definition: TransformationDefinition, function: Callable[..., Any]) -> dict[str, Any]:
    """Options bound to the function's parameters and, where these have type hints, made of that type."""
    from pydantic import TypeAdapter, ValidationError

    options = dict(definition.options)
    try:
        inspect.signature(function).bind(Message(), **options)
    except TypeError as error:
        raise _invalid(
            definition.name, f"function {definition.function} cannot be called: {error}", "correct the options"
        ) from None
    except ValueError:  # a function of C without a signature
        return options
    try:
        hints = typing.get_type_hints(function)
    except Exception:  # hints that cannot be resolved check nothing
        return options
    for option in options.keys() & hints.keys():
        try:
            options[option] = TypeAdapter(hints[option]).validate_python(options[option])
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]["msg"]
            raise _invalid(definition.name, f"option {option}: {problem}", "correct the option") from None
    return options


# -- reading definitions -----------------------------------------------------------------------------------------------


def _invalid(name: str, cause: str, cure: str, number: int | None = None) -> ConfigInvalid:
    return ConfigInvalid(f"transformation {name} is invalid", cause=cause, cure=cure, number=number)


def _text(name: str, key: str, value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise _invalid(name, f"{key} is {type(value).__name__}, not text", f"write {key} as text")
    return value


def _table(name: str, key: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(each, str) for each in value):
        raise _invalid(name, f"{key} is {type(value).__name__}, not a table of names", f"write {key} as a table")
    return dict(value)


def _expression_text(name: str, target: str, value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, (int, float)):
        return repr(value)
    if not isinstance(value, str):
        raise _invalid(name, f"{target} is set to {type(value).__name__}", "write an expression, such as: 'text' or 5")
    return value
