"""XPath over XML payloads, for the expression language (AQ guide 12.2 §8.6.1)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from mgw.transforms.language.expression import Row
from mgw.transforms.language.parser import Code, Compiler
from mgw.transforms.language.values import NoValue, Value, show

__all__ = ["exists", "extract"]

_NAMESPACE = r"xmlns:([A-Za-z_][\w.-]*)\s*=\s*\"([^\"]+)\""


def exists(compiler: Compiler, node: Any) -> Code:
    """``existsNode``: 1 when the XPath finds something in the payload, else 0; NULL where the payload is not XML."""
    find = _xpath(compiler, node)

    def run(row: Row) -> Value:
        root = row.xml
        if root is None:
            return None
        found = find(root)
        return int(bool(found)) if isinstance(found, (list, bool)) else 1

    return Code(run, "number")


def extract(compiler: Compiler, node: Any) -> Code:
    """``extract``: what the XPath finds, as text; NULL where it finds nothing, or the payload is not XML."""
    find = _xpath(compiler, node)

    def run(row: Row) -> Value:
        root = row.xml
        if root is None:
            return None
        found = find(root)
        if not isinstance(found, list):
            return _shown(found)
        return "".join(map(_shown, found)) if found else None

    return Code(run, "text")


def _shown(item: Any) -> str:
    if isinstance(item, str):
        return item
    if isinstance(item, bool):
        return "true" if item else "false"
    if isinstance(item, float):
        return str(int(item)) if item.is_integer() and abs(item) < 1e16 else repr(item)
    if isinstance(item, tuple):  # a namespace node
        return str(item[1])
    from lxml import etree

    return str(etree.tostring(item, encoding="unicode", with_tail=False))


def _xpath(compiler: Compiler, node: Any) -> Callable[[Any], Any]:
    codes = [compiler.node(argument) for argument in node.expressions]
    given = [code.constant[0] if code.constant else None for code in codes]
    if not 1 <= len(given) <= 2 or not all(isinstance(each, str) for each in given):
        raise compiler.refuse(
            node,
            f"{node.this} takes an XPath in quotes and, optionally, namespaces in quotes",
            """write tab.user_data.existsNode('/a/b', 'xmlns:p="urn:x"')""",
        )
    path = str(given[0])
    namespaces = _namespaces(compiler, node, str(given[1])) if len(given) == 2 else {}
    try:
        from lxml import etree
    except ImportError:
        raise compiler.refuse(node, "XML needs the package lxml, which is not installed", "install lxml") from None
    try:
        found = etree.XPath(path, namespaces=namespaces, regexp=False, smart_strings=False)
        found(etree.Element("nothing"))  # tells of unknown prefixes and functions
    except etree.XPathError as error:
        raise compiler.refuse(node, f"{show(path)} is not an XPath: {error}", "correct the XPath") from None

    def find(root: Any) -> Any:
        try:
            return found(root)
        except etree.XPathError as error:
            raise NoValue(f"XPath {show(path)} failed: {error}") from None

    return find


def _namespaces(compiler: Compiler, node: Any, text: str) -> dict[str, str]:
    found = dict(re.findall(_NAMESPACE, text))
    if not found or re.sub(_NAMESPACE, "", text).strip():
        raise compiler.refuse(
            node, f"{show(text)} declares no namespaces", """write 'xmlns:p="urn:x"', with a prefix for each"""
        )
    return found
