"""Transformations of messages in the hub: found by name, compiled once, applied (AQ guide 12.2 §1.9, §8.4).

A transformation maps the payload type it takes to the one it gives, one message to one message. It is a definition as
:mod:`steps.registry` reads it, or expressions over ``source.user_data`` (also ``tab.user_data``, ``user_data``):

* number 0 makes the whole result: an expression, ``TYPE(expression, ...)`` that gives every attribute of the object
  type in order, or ``package.module:function`` from an allowed module, which cannot have other numbers next to it;
* number *k* makes attribute *k* of the object type it gives, from 1, in place of what number 0 made of it.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any, NamedTuple

from mgw.gateway.aq.errors import TransformationFailed, TransformationInvalid, TransformationMissing
from mgw.gateway.aq.model import QueueRef, TransformationInfo
from mgw.gateway.aq.names import DEFAULT_SCHEMA, qualified, shown_key
from mgw.gateway.aq.payloads import forms as payloads
from mgw.gateway.aq.payloads import transformations_sql
from mgw.gateway.aq.payloads.chains import check_steps, steps_of
from mgw.gateway.aq.payloads.forms import Payload
from mgw.gateway.aq.payloads.payload_fit import as_payload, as_source
from mgw.gateway.aq.python_code import functions_sql
from mgw.gateway.aq.python_code.stored_functions import stored
from mgw.gateway.aq.store.statements import Db
from mgw.transforms.errors import AqError, ExpressionInvalid, GatewayError
from mgw.transforms.language.compiler import compile_expression
from mgw.transforms.language.expression import Functions, Row
from mgw.transforms.language.functions import on_change
from mgw.transforms.message import Message
from mgw.transforms.objects import ObjectValue
from mgw.transforms.payloads.json_text import parse_exact
from mgw.transforms.payloads.sql_types import Misfit, ObjectType
from mgw.transforms.steps.registry import TransformationDefinition, compile_transformation, with_steps

__all__ = [
    "Transformation",
    "as_definition",
    "check",
    "find",
    "missing",
    "of_queue",
    "of_subscriber",
    "payload_name",
    "require_type",
]

MAX_EXPRESSION = 4000  # characters, AQ guide 12.2 §8.4
_MAX_CACHED = 512
_FUNCTION = re.compile(r"\s*([A-Za-z_][\w.]*:[A-Za-z_]\w*)\s*")
_CALL = re.compile(r'\s*((?:"[^"]+"|[\w$#]+)(?:\.(?:"[^"]+"|[\w$#]+))?)\s*\((.*)\)\s*', re.DOTALL)

_cache: OrderedDict[tuple[int, tuple[str, ...]], Transformation] = OrderedDict()
_cache_lock = Lock()


def _forget() -> None:
    """Expressions know the functions that were registered when they were compiled."""
    with _cache_lock:
        _cache.clear()


on_change(_forget)


class Transformation(NamedTuple):
    """A compiled transformation; ``from_type`` and ``to_type`` are payload names (``RAW``, ``OE.ADDRESS``...).

    ``steps``: name key and version of each transformation that it is a chain of.
    """

    name: str
    from_type: str
    to_type: str
    run: Callable[[Message], Message]
    steps: tuple[tuple[str, int], ...] = ()

    def apply(self, messages: Sequence[Message]) -> list[Message]:
        """The results, in order.

        Raises:
            TransformationFailed: 25229, for the first message for which there is none.
        """
        return [self.run(message) for message in messages]


def payload_name(queue: QueueRef) -> str:
    """The payload type of a queue as transformations name it."""
    return queue.object_type or queue.payload_type.value


# -- finding -----------------------------------------------------------------------------------------------------------


def find(db: Db, name: str, schema: str = DEFAULT_SCHEMA, modules: Sequence[str] = ()) -> Transformation:
    """The transformation called ``[schema.]name``, compiled once per process and version of it.

    Args:
        modules: modules whose functions may be called, in addition to those built in and those of the hub.

    Raises:
        AqError: 24094 there is none, 24095 it cannot be compiled.
    """
    return _find(db, name, qualified(name, schema, what="transformation").key, modules)


def _find(db: Db, name: str, key: str, modules: Sequence[str]) -> Transformation:
    version = transformations_sql.find_version(db, key)
    if version is None:
        raise missing(name)
    slot = (version, tuple(modules))
    with _cache_lock:
        found = _cache.get(slot)
        if found is not None:
            _cache.move_to_end(slot)
    if found is not None and all(transformations_sql.find_version(db, step) == was for step, was in found.steps):
        return found
    item = transformations_sql.find_transformation(db, key)
    if item is None:
        raise missing(name)
    made = compiled(db, item, (*modules, *functions_sql.list_modules(db)))
    with _cache_lock:
        _cache[slot] = made
        while len(_cache) > _MAX_CACHED:
            _cache.popitem(last=False)
    return made


def missing(name: str) -> TransformationMissing:
    """The refusal of a name."""
    return TransformationMissing(
        f"transformation {name} does not exist",
        cause="no transformation of that name is in the hub",
        cure="create it: create_transformation, or correct the name",
    )


def of_subscriber(db: Db, queue: QueueRef, shown: str, modules: Sequence[str]) -> Transformation:
    """The transformation that a subscriber of a queue has, by its name as it is shown.

    Raises:
        AqError: as :func:`of_queue`.
    """
    found = _find(db, shown, shown_key(shown), modules)
    require_type(found.name, found.from_type, queue, into=False)
    return found


def of_queue(db: Db, queue: QueueRef, name: str, schema: str, modules: Sequence[str], *, into: bool) -> Transformation:
    """A transformation of messages that go into (``into``), or come out of, a queue.

    Raises:
        AqError: 24094 there is none, or its types do not match; 24095 it cannot be compiled.
    """
    found = find(db, name, schema, modules)
    require_type(found.name, found.to_type if into else found.from_type, queue, into=into)
    return found


def require_type(name: str, given: str, queue: QueueRef, *, into: bool) -> None:
    """Refuse a transformation whose type on the queue's side is another than the queue's.

    Raises:
        AqError: 24094.
    """
    held = payload_name(queue)
    if given != held:
        verb = "gives" if into else "takes"
        raise TransformationMissing(
            f"transformation {name} cannot be used for queue {queue.full_name}",
            cause=f"it {verb} {given}, the queue holds {held}",
            cure=f"use a transformation that {verb} {held}",
        )


# -- compiling ---------------------------------------------------------------------------------------------------------


def check(db: Db, item: TransformationInfo, modules: Sequence[str] = ()) -> None:
    """Refuse what cannot be compiled. Functions of modules that this process may not use are looked up when used.

    Args:
        modules: modules that this process allows in addition to those of the hub.

    Raises:
        AqError: 24095, 24015.
    """
    if steps_of(item):
        where = _definition(item).where
        check_steps(db, item)
        if where:
            compiled(db, replace(item, definition={"where": where}), modules)
        return
    modules = (*modules, *functions_sql.list_modules(db))
    function = _function(item)
    if function is not None and not _allowed(function, modules):
        return
    definition = item.definition or {}
    if isinstance(definition.get("function"), str) and not _allowed(definition["function"], modules):
        _definition(item)
        return
    compiled(db, item, modules)


def _allowed(function: str, modules: Sequence[str]) -> bool:
    module = function.partition(":")[0]
    allowed = ("mgw.transforms.builtin", "transforms.builtin", *modules)
    return any(module == each or module.startswith(f"{each}.") for each in allowed)


def compiled(db: Db, item: TransformationInfo, modules: Sequence[str] = ()) -> Transformation:
    """The transformation, callable.

    Raises:
        AqError: 24095 it cannot be compiled, 24015 one of its types does not exist.
    """
    what = f"transformation {item.full_name}"
    source = payloads.payload_of(db, item.from_type, item.schema, what)
    target = payloads.payload_of(db, item.to_type, item.schema, what)
    # Before they are read: a version that is too old only means that it is compiled once more.
    keys = map(shown_key, steps_of(item))
    steps = tuple((key, transformations_sql.find_version(db, key) or 0) for key in keys)
    compute = _computation(db, item, target, modules)

    def run(message: Message) -> Message:
        try:
            given = as_source(source, message)
            result = compute(given)
            kind, body = as_payload(target, result.body)
            return replace(result, body=body, kind=kind)
        except MemoryError:
            raise
        except Exception as error:
            raise _failed(item, message, error) from error

    return Transformation(item.full_name, source.name, target.name, run, steps)


def _failed(item: TransformationInfo, message: Message, error: Exception) -> TransformationFailed:
    which = f" {message.msgid.hex().upper()}" if message.msgid else ""
    if isinstance(error, GatewayError):
        cause = f"{error.what}: {error.cause}" if error.cause else error.what
    elif isinstance(error, Misfit):
        cause = f"attribute {error.path}: {error.cause}" if error.path else error.cause
    else:
        cause = str(error) or type(error).__name__
    return TransformationFailed(
        f"transformation {item.full_name} failed for message{which}",
        cause=cause,
        cure="correct the transformation (modify_transformation) or the message",
    )


def _invalid(item: TransformationInfo, cause: str, cure: str) -> TransformationInvalid:
    return TransformationInvalid(f"transformation {item.full_name} cannot be used", cause=cause, cure=cure)


def _definition(item: TransformationInfo) -> TransformationDefinition:
    try:
        return TransformationDefinition.from_mapping(item.full_name, item.definition or {})
    except GatewayError as error:
        raise _invalid(item, f"{error.what}: {error.cause}", error.cure) from error


def _computation(
    db: Db, item: TransformationInfo, target: Payload, modules: Sequence[str]
) -> Callable[[Message], Message]:
    functions = stored(db)
    try:
        if item.definition is not None:
            definition = with_steps(_definition(item), lambda step: _step(db, step))
            return _single(compile_transformation(definition, modules=modules, functions=functions))
        return _expressions(item, target, modules, functions)
    except ExpressionInvalid as error:
        raise _invalid(item, f"{error.what}: {error.cause}", error.cure) from error
    except AqError:
        raise
    except GatewayError as error:
        raise _invalid(item, f"{error.what}: {error.cause}", error.cure) from error


def _step(db: Db, name: str) -> TransformationDefinition | None:
    found = transformations_sql.find_transformation(db, shown_key(name))
    return None if found is None else TransformationDefinition.from_mapping(found.full_name, as_definition(db, found))


def _function(item: TransformationInfo) -> str | None:
    """The function that makes the whole result, if there is one."""
    for number, text in item.expressions.items():
        function = _FUNCTION.fullmatch(text)
        if function is None:
            continue
        if number or len(item.expressions) > 1:
            raise _invalid(
                item,
                f"function {function[1]} and expressions cannot be combined in one result",
                "give either the function, as number 0, or expressions",
            )
        return function[1]
    return None


def _single(transform: Callable[[Message], Any]) -> Callable[[Message], Message]:
    """One message in, one message out (AQ guide 12.2 §1.9)."""

    def run(message: Message) -> Message:
        result = transform(message)
        if isinstance(result, Message):
            return result
        what = "none" if result is None else f"{len(result)} messages"
        raise ValueError(f"it made {what} of one message, which only a job can use")

    return run


def _expressions(
    item: TransformationInfo, target: Payload, modules: Sequence[str], functions: Functions
) -> Callable[[Message], Message]:
    function = _function(item)
    if function is not None:
        definition = TransformationDefinition.from_mapping(item.full_name, {"function": function})
        return _single(compile_transformation(definition, modules=modules))
    declared = target.object_type.type if target.object_type else None
    attributes: dict[str, Callable[[Row], Any]] = {}
    whole: Callable[[Message, Row], Any] | None = None
    for number, text in sorted(item.expressions.items()):
        if len(text) > MAX_EXPRESSION:
            raise _invalid(item, f"expression {number} has {len(text)} characters", f"{MAX_EXPRESSION} are allowed")
        if number == 0:
            compute = _expression(item, text, declared, functions)
            whole = lambda _message, row, compute=compute: compute(row)  # noqa: E731
            continue
        if not isinstance(declared, ObjectType) or number > len(declared.attributes):
            raise _invalid(
                item,
                f"there is no attribute {number} in {target.name}",
                "attributes of the resulting object type are numbered from 1; 0 is the whole object",
            )
        attribute = declared.attributes[number - 1]
        attributes[attribute.name] = _expression(item, text, attribute.type, functions)
    if whole is None and not attributes:
        raise _invalid(item, "it has no expression", "give it one: modify_transformation")

    def run(message: Message) -> Message:
        row = Row(message, strict=True, exact=declared is not None)
        body: Any = whole(message, row) if whole is not None else {}
        if attributes:
            body = _members(declared, body) | {name: compute(row) for name, compute in attributes.items()}
        return replace(message, body=body)

    return run


def _members(declared: Any, body: Any) -> dict[str, Any]:
    if body is None:
        return {}
    return dict(declared.fit(parse_exact(body) if isinstance(body, (str, bytes)) else body))


def _expression(item: TransformationInfo, text: str, declared: Any, functions: Functions) -> Callable[[Row], Any]:
    """An expression, or the constructor of an object type whose arguments are expressions."""
    call = _CALL.fullmatch(text) if isinstance(declared, ObjectType) else None
    if call is None or not declared.is_named(call[1].replace('"', "").upper()):
        return compile_expression(text, functions).value
    parts = _arguments(call[2])
    if len(parts) != len(declared.attributes):
        raise _invalid(
            item,
            f"{declared.name} has {len(declared.attributes)} attributes, {len(parts)} are given",
            "give one expression for every attribute, NULL for none",
        )
    pairs = zip(declared.attributes, parts, strict=True)
    computed = [(attribute.name, _expression(item, part, attribute.type, functions)) for attribute, part in pairs]
    name = declared.name
    return lambda row: ObjectValue(name, {each: compute(row) for each, compute in computed})


def _arguments(text: str) -> list[str]:
    """The arguments of a call: split at the commas that stand outside of quotes and parentheses."""
    parts, start, level = [], 0, 0
    for found in re.finditer(r"'(?:[^']|'')*'|\"[^\"]*\"|[(),]", text):
        sign = found.group()
        if sign == "(":
            level += 1
        elif sign == ")":
            level -= 1
        elif sign == "," and level == 0:
            parts.append(text[start : found.start()])
            start = found.end()
    return [*parts, text[start:]] if text.strip() else []


def as_definition(db: Db, item: TransformationInfo) -> Mapping[str, Any]:
    """The transformation in the form that jobs use: see :mod:`mgw.transforms.steps.registry`."""
    if item.definition is not None:
        return item.definition
    try:
        target = payloads.payload_of(db, item.to_type, item.schema, f"transformation {item.full_name}")
        declared = target.object_type.type if target.object_type else None
    except AqError:
        declared = None
    whole = item.expressions.get(0)
    function = _FUNCTION.fullmatch(whole) if whole is not None else None
    if function:
        return {"function": function[1]}
    assigned: dict[str, str] = {} if whole is None else _assignments("body", whole, declared)
    if isinstance(declared, ObjectType):
        assigned = assigned or {"body": "'{}'"}
        for number, text in item.expressions.items():
            if 0 < number <= len(declared.attributes):
                attribute = declared.attributes[number - 1]
                assigned |= _assignments(f"body.{attribute.name}", text, attribute.type)
    return {"set": assigned}


def _assignments(target: str, text: str, declared: Any) -> dict[str, str]:
    call = _CALL.fullmatch(text) if isinstance(declared, ObjectType) else None
    if call is None or not declared.is_named(call[1].replace('"', "").upper()):
        return {target: text.strip()}
    made = {"body": "'{}'"} if target == "body" else {}
    for attribute, part in zip(declared.attributes, _arguments(call[2]), strict=False):
        made |= _assignments(f"{target}.{attribute.name}", part, attribute.type)
    return made
