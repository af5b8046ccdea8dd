"""YAML as a tree of nodes, and what in it is worth refusing before anything is made of it.

A file may come from anywhere, so aliases (``*name``) may stand for little: what they stand for counts each time, and
never for what they are part of themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from mgw.gateway.config.findings import Mark

__all__ = ["Nodes", "Unreadable", "compose"]

_TAG = "tag:yaml.org,2002:"
_TEXTS = frozenset(f"{_TAG}{kind}" for kind in ("str", "timestamp", "value"))
_KINDS = frozenset(f"{_TAG}{kind}" for kind in ("map", "seq", "null", "bool", "int", "float")) | _TEXTS
_MERGE = f"{_TAG}merge"
_MAX_REPEATED = 100_000  # values that aliases may stand for in one file


class Unreadable(Exception):
    """A file that cannot be used at all: what a finding says of it."""

    def __init__(self, name: str, mark: Mark, message: str, cure: str) -> None:
        super().__init__(message)
        self.name, self.mark, self.message, self.cure = name, mark, message, cure


def compose(text: str, file: str) -> Node | None:
    """The root of a YAML document; None for an empty one.

    Raises:
        Unreadable: it is not YAML.
    """
    try:
        yaml = YAML(typ="safe", pure=True)
        yaml.composer.warn_double_anchors = False  # YAML allows it; the warning would go to standard error
        root: Node | None = yaml.compose(text)
    except MarkedYAMLError as error:
        place = error.problem_mark or error.context_mark
        mark = Mark(file, place.line + 1, place.column + 1) if place else Mark(file)
        problem = str(error.problem or error.context or "not YAML").splitlines()[0]
        cure = "check indentation and quotes on this line and the one above"
        raise Unreadable("bad-yaml", mark, problem, cure) from error
    except RecursionError as error:
        raise Unreadable(
            "bad-yaml", Mark(file), "nested too deeply", "look for brackets that are not closed"
        ) from error
    except (YAMLError, ValueError) as error:
        message = (str(error) or type(error).__name__).splitlines()[0]
        raise Unreadable("bad-yaml", Mark(file), message, "correct the YAML") from error
    return root


class Nodes:
    """Reads the nodes of one file."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._scalars = YAML(typ="safe", pure=True).constructor
        self._open: set[int] = set()  # mappings and lists around the one that is read
        self._merging: set[int] = set()
        self._seen: set[int] = set()
        self._repeated = 0
        self._entries: dict[int, list[tuple[ScalarNode, Node]]] = {}

    def mark(self, node: Node) -> Mark:
        """Where a node begins."""
        return Mark(self._file, node.start_mark.line + 1, node.start_mark.column + 1)

    @contextmanager
    def within(self, node: Node) -> Iterator[None]:
        """While a mapping or list is read; every value of it has to be counted.

        Raises:
            Unreadable: it is part of itself, or has a tag that means nothing here.
        """
        if node.tag not in _KINDS:
            raise self._bad(node, f"tag {_shown(node.tag)} is not supported", "leave it out")
        with self._once(self._open, node):
            yield

    def count(self, node: Node) -> None:
        """Note that a value is read.

        Raises:
            Unreadable: aliases stand for too many.
        """
        if id(node) in self._seen:
            self._repeated += 1
            if self._repeated > _MAX_REPEATED:
                message = f"aliases stand for more than {_MAX_REPEATED:,} values"
                raise self._bad(node, message, "write the values in full")
        self._seen.add(id(node))

    def entries(self, node: MappingNode) -> list[tuple[ScalarNode, Node]]:
        """Keys and values of a mapping; its own keys win over those merged in with ``<<``, earlier merges over later.

        Raises:
            Unreadable: a key that occurs twice or is not text, or a merge of something else than mappings.
        """
        found = self._entries.get(id(node))
        if found is None:
            own: dict[str, tuple[ScalarNode, Node]] = {}
            merged: list[Node] = []
            for key, value in node.value:
                if key.tag == _MERGE:
                    merged += value.value if isinstance(value, SequenceNode) else [value]
                elif not isinstance(key, ScalarNode):
                    raise self._bad(key, "a key is a list or a mapping", "write a name as key")
                elif key.value in own:
                    raise self._bad(key, f"key {key.value!r} occurs twice", "keep one of them", "duplicate-key")
                else:
                    own[key.value] = (key, value)
            with self._once(self._merging, node):
                for each in merged:
                    if not isinstance(each, MappingNode):
                        raise self._bad(each, "<< is not followed by a mapping", "merge mappings only")
                    for entry in self.entries(each):
                        own.setdefault(entry[0].value, entry)
            found = self._entries[id(node)] = list(own.values())
        return found

    def scalar(self, node: Node) -> Any:
        """None, a truth value, a number, or a text.

        Raises:
            Unreadable: a tag that means nothing here, or a number that is none.
        """
        if not isinstance(node, ScalarNode) or node.tag not in _KINDS:
            raise self._bad(node, f"tag {_shown(node.tag)} is not supported", "leave it out")
        if node.tag in _TEXTS:
            return node.value
        try:
            return getattr(self._scalars, f"construct_yaml_{node.tag.removeprefix(_TAG)}")(node)
        except (ValueError, KeyError, YAMLError) as error:
            raise self._bad(node, "this is not a number", "write a number, or put it in quotes") from error

    @contextmanager
    def _once(self, around: set[int], node: Node) -> Iterator[None]:
        if id(node) in around:
            raise self._bad(node, "an alias refers to a value that contains it", "write the value in full")
        around.add(id(node))
        yield
        around.discard(id(node))

    def _bad(self, node: Node, message: str, cure: str, name: str = "bad-yaml") -> Unreadable:
        return Unreadable(name, self.mark(node), message, cure)


def _shown(tag: object) -> str:
    return re.sub(rf"^{_TAG}", "!!", str(tag))
