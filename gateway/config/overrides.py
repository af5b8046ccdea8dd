"""Where a value of the command line (``--set links.rabbit.port=5673``) goes in configuration files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mgw.gateway.config.findings import Path

__all__ = ["place_of"]


def place_of(tree: Mapping[str, Any], names: str) -> Path | None:
    """Section, object and keys; None where the files have no such object. The name of an object may hold dots."""
    section, _, rest = names.partition(".")
    keys = rest.split(".")
    if section == "settings":
        return (section, *keys) if all(keys) and _is_free(tree.get(section), keys) else None
    objects = tree.get(section)
    if not isinstance(objects, dict):
        return None
    for name in sorted(objects, key=len, reverse=True):
        if rest.upper().startswith(f"{name.upper()}."):
            keys = rest[len(name) + 1 :].split(".")
            return (section, name, *keys) if all(keys) and _is_free(objects[name], keys) else None
    return None


def _is_free(held: Any, keys: list[str]) -> bool:
    """Whether everything above the last key is a mapping, or not there yet."""
    for key in keys:
        if held is not None and not isinstance(held, dict):
            return False
        held = (held or {}).get(key)
    return True
