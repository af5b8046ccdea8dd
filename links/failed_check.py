"""Checks of ``mgw links test`` that failed."""

from __future__ import annotations

import socket

from mgw.links.contract import Check
from mgw.transforms.open_files import shortage

__all__ = ["failed_check"]


def failed_check(name: str, error: Exception, detail: str, cure: str) -> Check:
    """A failed check with its detail and cure. Where no more files could be opened, that is told instead: the broker is
    not to blame."""
    found = shortage(error, guess=isinstance(error, socket.gaierror))
    return Check(name, False, *(found or (detail, cure)))
