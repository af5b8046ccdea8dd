"""Pieces of the Markdown of reference pages: tables, cells, pages."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["cell", "page", "table"]

_MADE = "<!-- Made by python -m mgw.gateway.cli.reference; do not edit. -->\n\n"


def table(headings: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A table in Markdown."""
    lines = [f"| {' | '.join(headings)} |", f"|{'---|' * len(headings)}"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def cell(text: str) -> str:
    """Text of one cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def page(parts: list[str]) -> str:
    """A page that says that it is made."""
    return _MADE + "\n".join(parts).rstrip() + "\n"
