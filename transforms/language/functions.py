"""Functions of the expression language beyond those of SQL: registered Python functions, questions to the payload.

A registered function is pure Python, named in a rule as ``hr.get_type(tab.user_data)``. Rules can only call what this
process has registered by name, or what their compiler finds by that name; they never name a module.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable, Mapping
from typing import Any

from sqlglot import exp

from mgw.transforms.errors import ConfigInvalid, GatewayError
from mgw.transforms.language.expression import FUNCTIONS, Row
from mgw.transforms.language.parser import Code, Compiler, Run
from mgw.transforms.language.values import NoValue, Value, show, to_number
from mgw.transforms.language.xml import exists, extract

__all__ = ["METHODS", "call", "check_name", "functions", "on_change", "register_function", "unregister_function"]

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_$#]*(?:\.[A-Za-z][A-Za-z0-9_$#]*){0,2}")
_mutex = threading.Lock()
_registered: dict[str, Callable[..., Value]] = {}
_listeners: list[Callable[[], None]] = []


#: What a payload may be asked: ``tab.user_data.<method>``.
METHODS: Mapping[str, str] = {
    "GetTypeName()": "type of the object, or of the value in ANYDATA: `OE.ADDRESS`, `SYS.NUMBER`; else NULL",
    "existsNode(xpath [, namespaces])": "1 when the XPath finds something in the XML payload, else 0; NULL: not XML",
    "extract(xpath [, namespaces])": "what the XPath finds, as text, all nodes joined; NULL: nothing found",
    "extract(...).getStringVal()": "the same",
    "extract(...).getNumberVal()": "the same as a number",
}


# -- registered functions ----------------------------------------------------------------------------------------------


def check_name(name: str) -> str:
    """The name that rules may call a function by, in upper case.

    Raises:
        ConfigInvalid: it is not an SQL name, or one of the language's own.
    """
    key = name.upper()
    if not _NAME.fullmatch(name) or key in FUNCTIONS or key.startswith(("TAB.", "SOURCE.")):
        raise ConfigInvalid(
            f"function {name!r} cannot be registered",
            cause="it is not a name such as get_type or hr.get_type, or it is a name of the language itself",
            cure="choose another name",
        )
    return key


def register_function(name: str, function: Callable[..., Value]) -> None:
    """Let rules of this process call a function, under ``name`` or ``schema.name``; letter case does not matter.

    The function gets the values of its arguments, also those that are NULL (None), and returns text, a number, a truth
    value, bytes or None. ``tab.user_data`` as an argument is the text of the body, its bytes if it is not text, for
    fields a mapping of names to values. It must not change anything; what it raises is an error of the rule
    (ORA-25449). A function that has the name already is replaced.

    Raises:
        ConfigInvalid: the name is not an SQL name, or one of the language's own; the function cannot be called.
    """
    key = check_name(name)
    if not callable(function):
        raise ConfigInvalid(f"function {name!r} cannot be registered", cause=f"{show(function)} cannot be called")
    with _mutex:
        _registered[key] = function
    _changed()


def unregister_function(name: str) -> None:
    """Remove a registered function, if there is one of that name."""
    with _mutex:
        _registered.pop(name.upper(), None)
    _changed()


def functions() -> Mapping[str, Callable[..., Value]]:
    """The registered functions by name in upper case."""
    with _mutex:
        return dict(_registered)


def on_change(listener: Callable[[], None]) -> None:
    """Have ``listener`` called after every change: who keeps compiled expressions drops them."""
    _listeners.append(listener)


def _changed() -> None:
    for listener in _listeners:
        listener()


def _registered_call(compiler: Compiler, node: Any, name: str, arguments: list[Any]) -> Code:
    function = functions().get(name.upper())
    if function is None:
        try:
            function = compiler.functions(name.upper())
        except GatewayError as error:
            raise compiler.refuse(node, f"{error.what}: {error.cause}", error.cure) from error
    if function is None:
        known = ", ".join([*FUNCTIONS, *functions()])
        raise compiler.refuse(node, f"there is no function {name}", f"the functions are {known}")
    runs = tuple(_argument(compiler, argument) for argument in arguments)

    def run(row: Row) -> Value:
        given = [argument(row) for argument in runs]
        try:
            value = function(*given)
        except NoValue:
            raise
        except GatewayError as error:
            raise NoValue(f"function {name} failed: {error.what}") from error
        except Exception as error:
            raise NoValue(f"function {name} failed: {type(error).__name__}: {str(error)[:300]}") from error
        if value is None or type(value) in (str, int, bool, bytes) or (type(value) is float and math.isfinite(value)):
            return value
        raise NoValue(f"function {name} returned {show(value)}, which is not a text, number or boolean")

    return Code(run)


def _argument(compiler: Compiler, node: Any) -> Run:
    run = compiler.node(node).run
    if not _is_payload(compiler, node):
        return run

    def whole(row: Row) -> Value:
        return dict(row.attributes) if isinstance(row.message.body, tuple) else run(row)

    return whole


# -- calls -------------------------------------------------------------------------------------------------------------


def call(compiler: Compiler, node: Any) -> Code | None:
    """The code of a call that may have dots before it: ``f(x)``, ``hr.f(x)``, ``tab.user_data.extract('/a')``.

    None: the node holds no call.
    """
    parts = _parts(node)
    calls = [index for index, part in enumerate(parts) if isinstance(part, exp.Anonymous)]
    if not calls:
        return None
    first = calls[0]
    names = [_name(compiler, node, part) for part in parts[:first]]
    if _payload_names(compiler, names):
        return _method(compiler, node, parts[first:])
    if len(parts) > first + 1:
        raise compiler.refuse(node, "only an operator can follow a function call")
    found = parts[first]
    return _registered_call(compiler, node, ".".join([*names, str(found.this)]), found.expressions)


def _parts(node: Any) -> list[Any]:
    parts: list[Any] = []
    while isinstance(node, exp.Dot):
        parts.insert(0, node.args["expression"])
        node = node.this
    return [*(node.parts if isinstance(node, exp.Column) else [node]), *parts]


def _name(compiler: Compiler, node: Any, part: Any) -> str:
    if not isinstance(part, exp.Identifier):
        raise compiler.refuse(node, "a function is written as a name or schema.name")
    return str(part.this)


def _payload_names(compiler: Compiler, names: list[str]) -> bool:
    lower = [name.lower() for name in names]
    if lower and lower[0] in compiler.language.prefixes:
        lower = lower[1:]
    return lower in (["user_data"], ["userdata"])


def _is_payload(compiler: Compiler, node: Any) -> bool:
    parts = _parts(node)
    return all(isinstance(part, exp.Identifier) for part in parts) and _payload_names(
        compiler, [str(part.this) for part in parts]
    )


def _method(compiler: Compiler, node: Any, calls: list[Any]) -> Code:
    names = [str(part.this).upper() if isinstance(part, exp.Anonymous) else "" for part in calls]
    first = calls[0].expressions
    if names == ["GETTYPENAME"] and not first:
        return Code(lambda row: row.type_name, "text", total=True)
    if names == ["EXISTSNODE"]:
        return exists(compiler, calls[0])
    if names[0] == "EXTRACT" and len(names) <= 2:
        code = extract(compiler, calls[0])
        if len(names) == 1 or (names[1] == "GETSTRINGVAL" and not calls[1].expressions):
            return code
        if names[1] == "GETNUMBERVAL" and not calls[1].expressions:
            run = code.run
            return Code(lambda row: None if (value := run(row)) is None else to_number(value.strip()), "number")
    asked = ".".join(str(part.this) for part in calls)
    raise compiler.refuse(node, f"the payload has no method {asked}", f"it has {', '.join(METHODS)}")
