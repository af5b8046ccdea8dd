"""Registered transformations: what a job may do to each message between its source and its destination.

A definition is data (JSON in the hub, YAML in a configuration) of one of three kinds, each with an optional filter::

    function: mypackage.plant:to_celsius      # a Python function message -> message, list of messages, or None
    options: {digits: 1}                      # its keyword arguments

    set:                                      # expressions, all computed on the message as it came
      body.celsius: (tab.user_data.fahrenheit - 32) / 1.8
      priority: CASE WHEN tab.user_data.alarm THEN 0 ELSE 5 END
      header.MGW_KAFKA_key: tab.user_data.machine
    unset: [body.fahrenheit, header.debug]

    steps: [decode, celsius]                  # other transformations, one after the other

    where: tab.user_data.fahrenheit IS NOT NULL   # other messages are filtered on purpose, and counted
    time_limit: 2                                 # seconds that it may take for one message

Targets of ``set`` and ``unset`` are ``body``, ``body.<attribute>[.<attribute>]``, ``correlation``, ``priority``,
``expiration``, ``delay`` (seconds) and ``header.<name>``. A value of NULL gives the target its default: no header, no
correlation, priority 1, no expiration, no body; an attribute of a JSON body becomes null.

Each step is applied to every message that the step before it made, and takes the payload type that that one gives. A
step has no steps of its own.

A message fails when its change came back after the ``time_limit``; what never comes back cannot be stopped, and is
reported as a job that is stuck.

Functions come from ``mgw.transforms.builtin`` and from the modules that the configuration allows, from nowhere else.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any

from mgw.transforms.errors import ConfigInvalid, GatewayError, RegistryUnavailable, TransformFailed
from mgw.transforms.language.compiler import compile_condition
from mgw.transforms.language.expression import Expression, Functions, Row, no_functions
from mgw.transforms.language.values import NoValue
from mgw.transforms.message import Message
from mgw.transforms.steps.assign import Assignment
from mgw.transforms.steps.chain import MAX_STEPS, MAX_TIME_LIMIT, chained, timed
from mgw.transforms.steps.declared import UNDECLARED, Types, caller, declared_types, misfit_in_chain
from mgw.transforms.steps.importing import import_trusted
from mgw.transforms.steps.results import check_result, several

__all__ = [
    "BUILTIN_MODULE",
    "Transform",
    "TransformationDefinition",
    "compile_transformation",
    "load_rule_function",
    "with_steps",
]

BUILTIN_MODULE = "mgw.transforms.builtin"
FORMER_BUILTIN = "transforms.builtin:"  # what definitions made before 0.2 say

#: What a compiled transformation does: one message in; one or several out, or None when it is filtered on purpose.
#: Raises only TransformFailed [722], and RegistryUnavailable where it asks a schema registry that does not answer.
Transform = Callable[[Message], "Message | list[Message] | None"]

_KEYS = ("function", "options", "set", "unset", "steps", "where", "time_limit")


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
        steps: names of transformations that are applied one after the other.
        time_limit: seconds that it may take for one message, or None.
        chain: what the steps do, as :func:`with_steps` finds it; not part of what is registered.
    """

    name: str
    function: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    assignments: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    where: str | None = None
    steps: tuple[str, ...] = ()
    time_limit: float | None = None
    chain: tuple[TransformationDefinition, ...] = ()

    @classmethod
    def from_mapping(cls, name: str, mapping: Mapping[str, Any]) -> TransformationDefinition:
        """The definition in a mapping (from JSON or YAML).

        Raises:
            ConfigInvalid: an unknown key, a value of the wrong type, two of ``function``, ``set``/``unset`` and
                ``steps``, nothing.
        """
        given = {key: value for key, value in mapping.items() if value is not None}
        unknown = sorted(str(key) for key in given if key not in _KEYS)
        if unknown:
            raise _invalid(name, f"unknown key {', '.join(unknown)}", f"the keys are {', '.join(_KEYS)}")
        function, where = (_text(name, key, given.get(key)) for key in ("function", "where"))
        options, assignments = (_table(name, key, given.get(key, {})) for key in ("options", "set"))
        unset = _names(name, given.get("unset", []), "unset is not a list of targets", "unset: [header.NAME, ...]")
        steps = _names(name, given.get("steps", []), "steps is not a list of names", "steps: [NAME, NAME]")
        if function and (assignments or unset):
            raise _invalid(name, "it has a function as well as set or unset", "split it into two transformations")
        if steps and (function or assignments or unset):
            raise _invalid(
                name, "it has steps as well as a change of its own", "make the change a transformation, and name it"
            )
        if len(steps) > MAX_STEPS:
            raise _invalid(name, f"it has {len(steps)} steps, {MAX_STEPS} are allowed", "combine some of them")
        if options and not function:
            raise _invalid(name, "options are for a function, but there is none", "name the function")
        if not (function or assignments or unset or where or steps):
            raise _invalid(name, "it does nothing", "give it a function, set, unset, steps or where")
        texts = {target: _expression_text(name, target, value) for target, value in assignments.items()}
        return cls(name, function, options, texts, unset, where, steps, _seconds(name, given.get("time_limit")))

    def to_mapping(self) -> dict[str, Any]:
        """The inverse of :meth:`from_mapping`: plain JSON values, parts that are not there left out."""
        parts = {
            "function": self.function,
            "options": dict(self.options),
            "set": dict(self.assignments),
            "unset": list(self.unset),
            "steps": list(self.steps),
            "where": self.where,
            "time_limit": self.time_limit,
        }
        return {key: value for key, value in parts.items() if value}


def with_steps(
    definition: TransformationDefinition, find: Callable[[str], TransformationDefinition | None]
) -> TransformationDefinition:
    """The definition with what its steps do.

    Args:
        find: gives a registered transformation by its name, None where there is none.

    Raises:
        ConfigInvalid: a step does not exist, or has steps of its own [703].
    """
    chain = []
    for step in definition.steps:
        found = find(step)
        if found is None:
            raise _invalid(
                definition.name, f"its step {step} does not exist", "create it, or correct the name", number=703
            )
        if found.steps:
            raise _invalid(definition.name, f"its step {step} has steps itself", f"name the steps of {step} here")
        chain.append(found)
    return replace(definition, chain=tuple(chain))


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
        ConfigInvalid: the function is not allowed, missing [703] or does not take the options; a target is unknown; the
            function of a step takes another payload type than that of the step before it gives.
        ExpressionInvalid: an expression cannot be compiled.
    """
    name = definition.name
    where = compile_condition(definition.where, functions=functions) if definition.where else None
    change: Callable[[Message, Row], Any]
    if definition.steps:
        if len(definition.chain) != len(definition.steps):
            raise _invalid(name, "its steps were not looked up", "register the transformations that it names", 703)
        named = [replace(step, name=f"{name}, step {step.name}") for step in definition.chain]
        change = chained(
            [compile_transformation(step, job=job, modules=modules, functions=functions) for step in named]
        )
        misfit = misfit_in_chain([(step.name, _types(step, modules)) for step in definition.chain])
        if misfit is not None:
            raise _invalid(name, *misfit)
    elif definition.function:
        function = _load(definition, modules)
        change = caller(function, _checked_options(definition, function), declared_types(function))
    else:
        change = Assignment(name, definition.assignments, definition.unset, functions).apply
    if definition.time_limit is not None:
        change = timed(change, definition.time_limit)
    return _guarded(name, job, where, change, definition)


def _guarded(
    name: str, job: str, where: Expression | None, change: Callable[[Message, Row], Any], what: TransformationDefinition
) -> Transform:
    checked = what.function is not None
    # It is no fault of the message; and a step says by itself which one it is.
    passed = (MemoryError, RegistryUnavailable, *((TransformFailed,) if what.steps else ()))

    def transform(message: Message) -> Message | list[Message] | None:
        try:
            row = Row(message, strict=True)
            if where is not None and where.holds(row) is not True:
                return None
            result = change(message, row)
            if result is None:
                return None
            if isinstance(result, Message):
                check_result(message, result, checked)
                return result
            return several(message, result)
        except passed:
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


def _types(step: TransformationDefinition, modules: Collection[str]) -> Types | None:
    """What a step takes and gives; None: it leaves the body as it is."""
    if step.function:
        return declared_types(_load(step, modules))
    return UNDECLARED if step.assignments or step.unset else None


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
    _check_further(definition, function, options)
    return options


def _check_further(definition: TransformationDefinition, function: Callable[..., Any], options: dict[str, Any]) -> None:
    """What a function of the gateway itself says about its options: files that are not there, contradictions."""
    if function.__module__ != BUILTIN_MODULE:
        return
    check = import_trusted(BUILTIN_MODULE).CHECKS.get(function.__name__)
    if check is not None:
        try:
            check(**options)
        except ConfigInvalid as error:
            raise _invalid(definition.name, f"{error.what}: {error.cause}", error.cure) from None


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


def _names(name: str, value: Any, cause: str, example: str) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence) or not all(isinstance(each, str) for each in value):
        raise _invalid(name, cause, f"write {example}")
    return tuple(value)


def _seconds(name: str, value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= MAX_TIME_LIMIT:
        raise _invalid(
            name,
            f"time_limit {value!r:.40} is not a number of seconds, more than 0 and at most {MAX_TIME_LIMIT:g}",
            "write time_limit: 2",
        )
    return value


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
