"""The payload types that a function of a transformation takes and gives, as its type hints declare them.

::

    def decoded(message: Annotated[Message, PayloadKind.RAW]) -> Annotated[Message, PayloadKind.BASIC] | None: ...

Several types stand in one ``Annotated``. A hint without a type declares nothing, and nothing is checked then. What
counts is the body of a message: RAW is bytes, BASIC bytes or text, and both may have no body.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from mgw.transforms.language.values import NoValue
from mgw.transforms.message import Message, PayloadKind
from mgw.transforms.objects import AnyData, ObjectValue

if TYPE_CHECKING:
    from mgw.transforms.language.expression import Row

__all__ = ["UNDECLARED", "Types", "caller", "declared_types", "misfit_in_chain"]

_BODIES: Mapping[PayloadKind, tuple[type, ...]] = {
    PayloadKind.RAW: (bytes, type(None)),
    PayloadKind.BASIC: (bytes, str, type(None)),
    PayloadKind.FIELDS: (tuple,),
    PayloadKind.OBJECT: (ObjectValue, type(None)),
    PayloadKind.ANYDATA: (AnyData, type(None)),
}
_SHOWN = {bytes: "bytes", str: "text", tuple: "named fields", ObjectValue: "an object", AnyData: "ANYDATA"}


class Types(NamedTuple):
    """What a function takes and gives; empty: it declares nothing."""

    takes: tuple[PayloadKind, ...] = ()
    gives: tuple[PayloadKind, ...] = ()


UNDECLARED = Types()


class WrongType(NoValue):
    """A message is not of the type that a function declares."""


def declared_types(function: Callable[..., Any]) -> Types:
    """The types in the hints of a function: of its first parameter, and of what it returns."""
    try:
        hints = typing.get_type_hints(function, include_extras=True)
        first = next(iter(inspect.signature(function).parameters), None)
    except Exception:  # hints that cannot be resolved declare nothing
        return UNDECLARED
    return Types(_kinds(hints.get(first or "")), _kinds(hints.get("return")))


def _kinds(hint: Any) -> tuple[PayloadKind, ...]:
    """Every type in a hint, also within a union and a list. One message without a type leaves the hint without."""
    if hint is Message:
        return ()
    if typing.get_origin(hint) is typing.Annotated:
        return tuple(each for each in hint.__metadata__ if isinstance(each, PayloadKind))
    inner = [each for each in typing.get_args(hint) if each is not type(None) and each is not Ellipsis]
    found = [_kinds(each) for each in inner]
    return tuple(dict.fromkeys(kind for kinds in found for kind in kinds)) if all(found) else ()


def caller(function: Callable[..., Any], options: Mapping[str, Any], types: Types) -> Callable[[Message, Row], Any]:
    """Calls a function with its options, and holds it to its types. What declares none is called as it is."""
    if types == UNDECLARED:
        return lambda message, _row: function(message, **options)
    takes, gives = _bodies(types.takes), _bodies(types.gives)

    def call(message: Message, _row: Row) -> Any:
        if takes and not isinstance(message.body, takes):
            raise WrongType(f"its function takes {_names(types.takes)}, and the body is {_shown(message)}")
        result = function(message, **options)
        if gives:
            for each in (result,) if isinstance(result, Message) else result or ():
                if isinstance(each, Message) and not isinstance(each.body, gives):
                    raise WrongType(f"its function declares {_names(types.gives)}, and it gave {_shown(each)}")
        return result

    return call


def misfit_in_chain(steps: Sequence[tuple[str, Types | None]]) -> tuple[str, str] | None:
    """Cause and cure where a step takes less than the step before it gives; None where all fit.

    Args:
        steps: name and types of each step in order; None: it leaves the body as it is.
    """
    before, given = "", UNDECLARED.gives
    for name, types in steps:
        if types is None:
            continue
        if given and types.takes and not set(_bodies(given)) <= set(_bodies(types.takes)):
            cause = f"the function of its step {name} takes {_names(types.takes)}, "
            cause += f"and that of step {before} before it gives {_names(given)}"
            return cause, f"put a step between {before} and {name} that converts, or correct the hints of the functions"
        before, given = name, types.gives
    return None


def _bodies(kinds: Sequence[PayloadKind]) -> tuple[type, ...]:
    return tuple(dict.fromkeys(body for kind in kinds for body in _BODIES[kind]))


def _names(kinds: Sequence[PayloadKind]) -> str:
    return " or ".join(kinds)


def _shown(message: Message) -> str:
    body = message.body
    return "missing" if body is None else _SHOWN.get(type(body), type(body).__name__)
