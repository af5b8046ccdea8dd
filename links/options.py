"""Settings of links, foreign queues and jobs: from the texts the catalog stores to typed values.

The :class:`~mgw.links.contract.Field` tables are the only description; names compare case-insensitively.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mgw.links.contract import Field
from mgw.transforms.errors import ConfigInvalid

__all__ = ["kind_of", "merged", "parse", "parse_value", "stored", "typed", "wanted"]

_KINDS = {bool: "TRUE or FALSE", int: "a whole number", float: "a number", str: "a text"}
_TRUE = frozenset(("true", "yes", "on", "1"))
_FALSE = frozenset(("false", "no", "off", "0"))


def parse(fields: Sequence[Field], values: Mapping[str, Any], owner: str, *, foreign: bool = False) -> dict[str, Any]:
    """Typed values of all ``fields`` under their names in lower case, defaults filled in.

    A field in whose place another one is given is None.

    Args:
        owner: what they belong to, for error texts ("link plant", "foreign queue orders@plant").
        foreign: True lets pass, unread, names that are not in ``fields`` (job options of other systems).

    Raises:
        ConfigInvalid: an unknown name, a missing required value, a value of the wrong type or out of range.
    """
    known = {field.name.lower(): field for field in fields}
    result = {name: field.default for name, field in known.items()}
    for name, value in values.items():
        field = known.get(name.lower())
        if field is None:
            if foreign:
                continue
            raise ConfigInvalid(
                f"{owner}: option {name!r} is unknown",
                cause="no setting has that name",
                cure=f"use one of {', '.join(field.name for field in fields) or '(none)'}",
            )
        if value is not None:
            result[name.lower()] = parse_value(field, value, owner)
    given = {name.lower() for name, value in values.items() if value not in (None, "")}
    for name, field in known.items():
        replaced = field.instead.lower() in given
        if replaced and name not in given:
            result[name] = None
        elif field.required and result[name] in (None, "") and not replaced:
            raise ConfigInvalid(
                f"{owner}: {field.name} is missing", cause="it has no default", cure=f"set {field.name}"
            )
    return result


def stored(value: Any) -> str:
    """An option value as the text that is stored."""
    return ("TRUE" if value else "FALSE") if isinstance(value, bool) else str(value)


def merged(fields: Sequence[Field], held: Mapping[str, str], given: Mapping[str, Any], owner: str) -> dict[str, str]:
    """Options as they are stored, under their documented names: ``given`` element by element over ``held``.

    A value of None removes an option; the name ``*`` with None removes all that are held.

    Raises:
        ConfigInvalid: an unknown name, or a value that the option cannot have.
    """
    known = {field.name.lower(): field for field in fields}
    result = {} if given.get("*", ...) is None else dict(held)
    new = {name: value for name, value in given.items() if name != "*" or value is not None}
    parse([replace(field, required=False) for field in fields], new, owner)
    for name, value in new.items():
        field = known[name.lower()]
        if value is None:
            result.pop(field.name, None)
        else:
            result[field.name] = stored(parse_value(field, value, owner))
    return result


def typed(values: Mapping[str, Any], fields: Sequence[Field]) -> dict[str, Any]:
    """Options, which are stored as texts, with the types they have, under their documented names; what ``fields`` does
    not know or take stays as it is."""
    known = {field.name.lower(): field for field in fields}
    result: dict[str, Any] = {}
    for name, value in values.items():
        field = known.get(name.lower())
        try:
            result[field.name if field else name] = value if field is None else parse_value(field, value, name)
        except ConfigInvalid:  # stored by another release
            result[name] = value
    return result


def parse_value(field: Field, value: Any, owner: str) -> Any:
    """One value as the type of its field.

    Raises:
        ConfigInvalid: wrong type, out of range, or not one of the choices.
    """
    text = str(value).strip()
    try:
        parsed = _typed(field.type, value, text)
    except ValueError as error:
        raise _bad(field, text, owner, f"{_KINDS[field.type]} is expected") from error
    if field.choices:
        for choice in field.choices:
            if choice.lower() == parsed.lower():
                return choice
        raise _bad(field, text, owner, f"one of {', '.join(field.choices)} is expected")
    if field.minimum is not None and not parsed >= field.minimum:
        raise _bad(field, text, owner, f"the smallest value is {field.minimum:.15g}")
    if field.maximum is not None and not parsed <= field.maximum:
        raise _bad(field, text, owner, f"the largest value is {field.maximum:.15g}")
    return parsed


def _typed(kind: type, value: Any, text: str) -> Any:
    if isinstance(value, dict | list | tuple) or (kind in (int, float) and not text.isascii()):
        raise ValueError(text)
    if isinstance(value, float) and value.is_integer() and kind in (int, bool):
        text = str(int(value))  # a file may have 5.0 for 5
    if kind is bool:
        return _boolean(text)
    if kind is int:
        return int(text)
    return float(text) if kind is float else str(value)


def _boolean(text: str) -> bool:
    if text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise ValueError(text)


def _bad(field: Field, text: str, owner: str, cause: str) -> ConfigInvalid:
    shown = "***" if field.secret else repr(text)
    return ConfigInvalid(
        f"{owner}: {field.name} cannot be {shown}", cause=cause, cure=f"give {wanted(field)}: {field.description}"
    )


def kind_of(field: Field) -> str:
    """What a value of a field is: ``a whole number``."""
    return _KINDS[field.type]


def wanted(field: Field) -> str:
    """What a value of a field looks like: ``a whole number from 1 to 10000``."""
    if field.choices:
        *others, last = field.choices
        return f"{', '.join(others)} or {last}" if others else last
    kind, low, high = _KINDS[field.type], field.minimum, field.maximum
    if low is not None and high is not None:
        return f"{kind} from {low:.15g} to {high:.15g}"
    limits = [f"at least {low:.15g}"] if low is not None else [f"at most {high:.15g}"] if high is not None else []
    return ", ".join((kind, *limits))
