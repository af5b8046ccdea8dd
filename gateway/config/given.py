"""A configuration that a program gives as plain data (JSON), read like a file.

Texts are what they are: nothing in them is a variable, and no file of this machine is read for them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from mgw.gateway.config.findings import Mark, Path
from mgw.gateway.config.load import Source
from mgw.gateway.config.models import SECTIONS

__all__ = ["clean", "source_of"]

_MAX_NUMBER = 2**63 - 1  # what a database holds
_MAX_DEPTH = 50


def source_of(tree: Mapping[str, Any], below: Path = ()) -> Source:
    """What a program gave, with the place of every value: ``links.rabbit.port``.

    Args:
        below: section and object that places are told from, where there is one alone: ``port``.
    """
    source = Source(remote=True)
    source.tree = _Reader(source, len(below)).mapping((), tree)
    return source


def clean(source: Source) -> Source:
    """The same source, after its values were checked as those of :func:`source_of` are; for what YAML escapes hold."""
    marks = dict(source.marks)
    source.tree = _Reader(source, 0).mapping((), source.tree)
    source.marks = marks
    return source


class _Reader:
    """Copies plain data, and leaves out what no hub can store, with a finding."""

    def __init__(self, source: Source, hidden: int) -> None:
        self._source = source
        self._hidden = hidden

    def mapping(self, path: Path, values: Mapping[str, Any]) -> dict[str, Any]:
        """Every entry of a mapping."""
        found: dict[str, Any] = {}
        for name, value in values.items():
            below = (*path, name)
            if reason := _bad_text(name):
                self._source.error("bad-value", path, f"the name of a key {reason}", "correct it")
                continue
            self._source.marks.setdefault(below, Mark(".".join(map(str, below[self._hidden :]))))
            if len(path) == 1 and path[0] in SECTIONS and self._is_double(below, found):
                continue
            if reason := _bad(value, len(below)):
                self._source.unresolved.add(below)
                self._source.error("bad-value", below, f"{name} {reason}", "correct it")
                continue
            found[name] = self._value(below, value)
        return found

    def _value(self, path: Path, value: Any) -> Any:
        if isinstance(value, dict):
            return self.mapping(path, value)
        if isinstance(value, list):
            return [self._value((*path, number), each) for number, each in enumerate(value)]
        return value

    def _is_double(self, path: Path, found: Mapping[str, Any]) -> bool:
        section, name = str(path[0]), str(path[1])
        first = next((each for each in found if each.upper() == name.upper()), None)
        if first is None:
            return False
        message = f"{section} {name!r} is already defined as {first!r} (names ignore case)"
        self._source.error("duplicate-name", path, message, "keep one of them")
        return True


def _bad(value: Any, depth: int) -> str:
    """Why no hub can store a value; empty where one can. A mapping is looked into later, entry by entry."""
    if isinstance(value, str):
        return _bad_text(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "is no number"
    if isinstance(value, int) and abs(value) > _MAX_NUMBER:
        return "is a number of more than 64 bits"
    if isinstance(value, dict | list) and depth > _MAX_DEPTH:
        return f"is nested more than {_MAX_DEPTH} deep"
    if isinstance(value, list):
        return next((reason for each in value if (reason := _bad(each, depth + 1))), "")
    return ""


def _bad_text(text: str) -> str:
    if "\0" in text:
        return "holds the character U+0000"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "holds half of a surrogate pair, which is no character"
    return ""
