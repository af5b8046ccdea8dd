"""A process that another one of ours started, and that must not outlive it."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import MutableMapping

__all__ = ["PARENT_VARIABLE", "end_with_parent"]

PARENT_VARIABLE = "MGW_PARENT"  # process id of the parent

_PR_SET_PDEATHSIG = 1


def end_with_parent(environ: MutableMapping[str, str]) -> bool:
    """Have the system send this process SIGTERM when its parent ends; nothing where the environment names none.

    Returns:
        Whether the parent, if one is named, still lives.
    """
    parent = environ.pop(PARENT_VARIABLE, "")
    if not parent:
        return True
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    return str(os.getppid()) == parent
