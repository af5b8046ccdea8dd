"""XML in messages: parsed without entities, document type declarations and network."""

from __future__ import annotations

from functools import cache
from typing import Any

__all__ = ["check_xml", "parse_xml"]


@cache
def _parser() -> Any:
    from lxml import etree

    return etree.XMLParser(
        encoding="utf-8",
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        dtd_validation=False,
        attribute_defaults=False,
        huge_tree=False,
    )


def parse_xml(text: str | bytes) -> Any:
    """The root element (lxml) of an XML document.

    A document type declaration is refused, whatever it holds: with it go entities, external files and the network. An
    encoding that a text declares does not count: the text is text already.

    Raises:
        ValueError: the text is not well-formed XML, has a document type declaration, or a node over 10 MB.
    """
    from lxml import etree

    try:
        root = etree.fromstring(text if isinstance(text, bytes) else text.encode(), _parser())
    except etree.XMLSyntaxError as error:
        raise ValueError((error.msg or "it ends too early")[:300]) from None  # its own text repeats the place
    if root is None:
        raise ValueError("there is no element")
    if root.getroottree().docinfo.doctype:
        raise ValueError("it has a document type declaration, which is not allowed")
    return root


def check_xml(text: str | bytes) -> None:
    """Refuse what :func:`parse_xml` refuses."""
    parse_xml(text)
