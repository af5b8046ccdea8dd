"""Whose machine a request was sent to: a page that lets its own name point to this one reads nothing."""

from __future__ import annotations

import socket

__all__ = ["is_this_machine"]

_NAMES = frozenset(("localhost", "localhost.localdomain"))


def is_this_machine(host: str) -> bool:
    """Whether the host of a request is an address, or a name that only this machine has."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
    if name.lower() in _NAMES:
        return True
    for family, text in ((socket.AF_INET, name), (socket.AF_INET6, name.removeprefix("[").removesuffix("]"))):
        try:
            socket.inet_pton(family, text)
        except (OSError, ValueError):
            continue
        return True
    return False
