"""The attribute ``header_names`` of links to brokers whose messages have headers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mgw.links.contract import Field

__all__ = ["HEADER_NAMES", "is_documented"]

HEADER_NAMES: Final = Field(
    "header_names",
    "Names of headers: as the applications gave them (application), or with a prefix of their broker in the hub, as in "
    "Oracle's manual (documented).",
    default="application",
    choices=("application", "documented"),
)


def is_documented(attributes: Mapping[str, Any]) -> bool:
    """Whether the parsed attributes of a link ask for the names of the manual."""
    return bool(attributes["header_names"] == "documented")
