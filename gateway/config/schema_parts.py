"""Pieces of the JSON Schema: values as configuration files may write them.

A file may write a number or a switch as text, a choice in letters of any case, and ``${VARIABLE}`` instead of any of
them. Patterns are those of ECMA-262, which editors use: letters in either case are in brackets, and so does whatever
has a meaning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from mgw.links.contract import Field

__all__ = ["VARIABLE", "as_written", "in_any_case", "one_of_the_names", "settings"]

Schema = dict[str, Any]

#: A text with a variable in it.
VARIABLE: Schema = {"type": "string", "pattern": "[$][{]"}

_WHOLE = r"^\s*[+-]?[0-9]+(?:_[0-9]+)*(?:[.]0*)?\s*$"
_WHOLE_STRICT = r"^\s*[+-]?[0-9]+(?:_[0-9]+)*\s*$"
_NUMBER = r"^\s*[+-]?(?:[0-9]+(?:_[0-9]+)*[.]?[0-9]*|[.][0-9]+)(?:[eE][+-]?[0-9]+)?\s*$"
_SWITCHES = ("true", "false", "yes", "no", "on", "off", "y", "n", "t", "f", "0", "1")  # pydantic's
_SWITCHES_OF_FIELDS = ("true", "false", "yes", "no", "on", "off", "0", "1")  # mgw.links.options
_DROPPED = ("title", "enum", "const", "anyOf", "x-also", "x-number")
_LIMITS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")


def in_any_case(text: str, *, blanks: bool = False) -> str:
    """Pattern for a text in letters of any case; ``blanks``: also with more of them, around and around commas too."""
    parts = [_piece(letter) for letter in text]
    if blanks:
        parts = [r"\s+" if letter == " " else r"\s?,\s?" if letter == "," else _piece(letter) for letter in text]
    return "".join(parts)


def _piece(letter: str) -> str:
    if letter.isalpha():
        return f"[{letter.upper()}{letter.lower()}]"
    return (
        letter if letter.isalnum() or letter in "_ ,-@/:;'\"=<>!%&#~`" else "[\\^]" if letter == "^" else f"[{letter}]"
    )


def whole(text: str) -> str:
    """Pattern of the whole text."""
    return f"^(?:{text})$"


def choice(values: Sequence[str], *, blanks: bool) -> list[Schema]:
    """One of several words, as people write them first, then in any case."""
    pattern = "|".join(in_any_case(each, blanks=blanks) for each in values)
    ends = r"\s*" if blanks else ""
    return [{"enum": [each.lower() for each in values]}, {"type": "string", "pattern": f"^{ends}(?:{pattern}){ends}$"}]


def as_written(node: Any) -> Any:
    """A schema of values, made one of what files may write for them."""
    if isinstance(node, list):
        return [as_written(entry) for entry in node]
    if not isinstance(node, dict):
        return node
    if node.get("x-one-or-many"):
        many = as_written({key: value for key, value in node.items() if key != "x-one-or-many"})
        return _annotated(many, [{key: many[key] for key in ("type", "items")}, many["items"]])
    kept = {key: _below(key, value) for key, value in node.items() if key not in _DROPPED}
    if "anyOf" in node:
        return kept | {"anyOf": _flat(as_written(each) for each in node["anyOf"])}
    if "enum" in node or "const" in node:
        return _chosen(node, kept)
    return _WRITTEN.get(node.get("type", ""), _as_it_is)(node, kept)


def _below(key: str, value: Any) -> Any:
    if key == "properties":  # names of keys, which may be called like words of a schema
        return {name: as_written(each) for name, each in value.items()}
    return as_written(value)


def _as_it_is(_: Schema, kept: Schema) -> Schema:
    return kept


def _chosen(node: Schema, kept: Schema) -> Schema:
    values = node.get("enum", [node.get("const")])
    if not all(isinstance(value, str) for value in values):
        return kept | {"enum": values}
    first, every = choice(values, blanks=True)[0], choice([*values, *node.get("x-also", ())], blanks=True)[1]
    return _annotated(kept, [first, every, VARIABLE])


def _number(node: Schema, kept: Schema) -> Schema:
    limits = {key: kept.pop(key) for key in (*_LIMITS, "type") if key in kept}
    pattern = _WHOLE if node["type"] == "integer" else _NUMBER
    return _annotated(kept, [limits, {"type": "string", "pattern": pattern}, VARIABLE])


def _switch(_: Schema, kept: Schema) -> Schema:
    return _annotated(kept, [{"type": "boolean"}, {"enum": [0, 1]}, choice(_SWITCHES, blanks=False)[1], VARIABLE])


def _text(node: Schema, kept: Schema) -> Schema:
    if node.get("x-number"):
        return kept | {"type": ["string", "number"]}
    if "pattern" in node:
        return _annotated(kept, [{"type": "string", "pattern": kept.pop("pattern")}, VARIABLE])
    return kept


_WRITTEN: dict[str, Callable[[Schema, Schema], Schema]] = {
    "integer": _number,
    "number": _number,
    "boolean": _switch,
    "string": _text,
}


def _annotated(node: Schema, choices: list[Schema]) -> Schema:
    return {key: value for key, value in node.items() if key not in ("type", "enum", "items")} | {"anyOf": choices}


def _flat(choices: Iterable[Schema]) -> list[Schema]:
    """Alternatives of alternatives as alternatives."""
    result: list[Schema] = []
    for each in choices:
        inner = each.get("anyOf")
        found = inner if inner is not None and set(each) == {"anyOf"} else [each]
        result += [one for one in found if one not in result]
    return result


def settings(fields: Sequence[Field], *, secret_files: bool = False) -> tuple[Schema, Schema]:
    """``properties`` and ``patternProperties`` of settings whose names are known in any case.

    Args:
        secret_files: what is secret may be in a file: ``NAME_file``.
    """
    named: Schema = {}
    patterns: Schema = {}
    for field in fields:
        named[field.name] = _described(field)
        patterns[whole(in_any_case(field.name))] = value_of(field)
        if field.secret and secret_files:
            name = f"{field.name}_file"
            named[name] = {"description": f"File that holds {field.name}."}
            patterns[whole(in_any_case(name))] = {"type": "string"}
    return named, patterns


def _described(field: Field) -> Schema:
    """What an editor shows; the pattern checks the value."""
    result: Schema = {"description": field.description}
    if field.default is not None:
        result["default"] = field.default
    if field.secret:
        result["writeOnly"] = True
    return result


def value_of(field: Field) -> Schema:
    """What may be written for a setting; nothing means its default."""
    empty: list[Schema] = [] if field.required else [{"type": "null"}]
    if field.choices:
        return {"anyOf": [*choice(field.choices, blanks=False), VARIABLE, *empty]}
    if field.type is str:
        # pattern: a required text is not empty
        text: Schema = {"type": "string", "minLength": 1} if field.required else {"type": "string"}
        return {"anyOf": [text, {"type": ["number", "boolean"]}, *empty]}
    if field.type is bool:
        switches = choice(_SWITCHES_OF_FIELDS, blanks=False)[1]["pattern"]
        text = {"type": "string", "pattern": f"^\\s*{switches[1:-1]}\\s*$"}
        return {"anyOf": [{"type": "boolean"}, {"enum": [0, 1]}, text, VARIABLE, *empty]}
    number: Schema = {"type": "integer" if field.type is int else "number"}
    number |= {
        key: limit for key, limit in (("minimum", field.minimum), ("maximum", field.maximum)) if limit is not None
    }
    pattern = _WHOLE_STRICT if field.type is int else _NUMBER
    return {"anyOf": [number, {"type": "string", "pattern": pattern}, VARIABLE, *empty]}


def one_of_the_names(names: Sequence[str]) -> Schema:
    """Of an object: it has a key of one of these names, in any case."""
    pattern = whole("|".join(in_any_case(name) for name in names))
    return {"not": {"propertyNames": {"not": {"pattern": pattern}}}}


def merged(*parts: Mapping[str, Any]) -> Schema:
    """Schemas of one name in several places: any of them."""
    result: Schema = {}
    for part in parts:
        for name, schema in part.items():
            known = result.get(name)
            result[name] = schema if known in (None, schema) else {"anyOf": _flat([known, schema])}
    return result


def ecma(pattern: str) -> bool:
    """Whether a pattern means the same in ECMA-262 (with the flag u) and here: no group names, flags, other escapes."""
    return re.search(r"\(\?[^:=!]|\\[^sSdDwWbBnrtfv0-9/^$.*+?()\[\]{}|\\-]|\\[AZzG]|[*+?}][+]", pattern) is None
