"""Bodies of messages for people: as text, as JSON, as XML, as bytes. Never as anything that is run or rendered."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lxml import etree

from mgw.gateway.services.messages import body_bytes

__all__ = ["BodyView", "Json", "body_view"]

_SHOWN = 256 * 1024  # bytes of a body in a page
_HEX = 4096  # the same as hexadecimal digits
_DEEPEST, _MOST_PARTS = 30, 4000  # of JSON that is folded


@dataclass(frozen=True, slots=True)
class Json:
    """A value of JSON.

    Attributes:
        kind: ``object``, ``array``, ``string``, ``number``, ``word``.
        text: of what has no parts, as it is written.
        parts: with the names of members; those of an array have none.
    """

    kind: str
    text: str = ""
    parts: tuple[tuple[str, Json], ...] = ()


@dataclass(frozen=True, slots=True)
class BodyView:
    """A body in every form that it has.

    Attributes:
        size: bytes.
        text: its text, or the beginning of it; None: it is not UTF-8 text.
        cut: whether there is more than is shown.
        tree: as JSON; None: it is none, or too deep or too large to be folded.
        xml: with a line per element; None: it is none.
        hex: offset, bytes and letters of its beginning.
    """

    size: int
    text: str | None
    cut: bool
    tree: Json | None
    xml: str | None
    hex: str

    @property
    def forms(self) -> list[str]:
        """Forms that it has, the best first."""
        given = {"json": self.tree, "xml": self.xml, "text": self.text, "hex": self.hex}
        return [name for name, value in given.items() if value is not None]


class _Digits(str):
    """A number as it is written."""

    __slots__ = ()


def body_view(body: Any) -> BodyView:
    """A body of a message in every form that it has."""
    data = body_bytes(body)
    cut = len(data) > _SHOWN
    text: str | None
    try:
        text = data[:_SHOWN].decode("utf-8", "ignore" if cut else "strict")
    except UnicodeDecodeError:
        text = None
    if text is not None and "\0" in text:
        text = None
    whole = None if cut else text
    return BodyView(len(data), text, cut, _json(whole), _xml(whole), "\n".join(_hex(data[:_HEX])))


def _json(text: str | None) -> Json | None:
    if text is None or not text.lstrip().startswith(("{", "[")):
        return None
    try:
        value = json.loads(text, parse_float=_Digits, parse_int=_Digits, parse_constant=_Digits)
        return _tree(value, _DEEPEST, [_MOST_PARTS])
    except (ValueError, RecursionError):
        return None


def _tree(value: Any, depth: int, left: list[int]) -> Json:
    left[0] -= 1
    if depth < 0 or left[0] < 0:
        raise ValueError("too much to be folded")
    if isinstance(value, dict):
        return Json("object", "", tuple((name, _tree(each, depth - 1, left)) for name, each in value.items()))
    if isinstance(value, list):
        return Json("array", "", tuple(("", _tree(each, depth - 1, left)) for each in value))
    if isinstance(value, _Digits):
        return Json("number", str(value))
    if isinstance(value, str):
        return Json("string", json.dumps(value, ensure_ascii=False))
    return Json("word", json.dumps(value))


def _xml(text: str | None) -> str | None:
    if text is None or not text.lstrip().startswith("<"):
        return None
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, remove_blank_text=True)
    try:
        root = etree.fromstring(text.lstrip().encode(), parser)
    except (etree.XMLSyntaxError, ValueError):
        return None
    etree.indent(root, space="  ")
    return str(etree.tostring(root, encoding="unicode"))


def _hex(data: bytes) -> Iterator[str]:
    for at in range(0, len(data), 16):
        row = data[at : at + 16]
        letters = "".join(chr(each) if 32 <= each < 127 else "." for each in row)
        yield f"{at:08x}  {row.hex(' '):<47}  {letters}"
