"""Processes that run a function: forked from one that has imported the suites, and nothing of the test that asks.

A process that is started anew imports for most of a second what it needs.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable

__all__ = ["CHILDREN", "import_beforehand"]

CHILDREN = multiprocessing.get_context("forkserver")


def import_beforehand(modules: Iterable[str]) -> None:
    """The process that forks imports these when the first child is asked for."""
    CHILDREN.set_forkserver_preload(list(modules))
