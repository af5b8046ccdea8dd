"""Processes of this machine: whether one lives, and whether it is still the one that had this id."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["lives", "start_of"]

_STATE, _THREADS, _START = 0, 17, 19  # of what stands behind the name in /proc/<pid>/stat (proc_pid_stat(5))


def start_of(pid: int) -> str:
    """When the process began, in clock ticks since the machine was started; empty where nobody tells."""
    stat = _stat(pid)
    return stat[_START] if stat else ""


def lives(pid: int, start: str = "") -> bool:
    """Whether the process runs, in this process namespace.

    One that was killed and that its parent has not reaped yet is dead, although its id is still taken.

    Args:
        start: as :func:`start_of` told it; a process that was given the same id later does not count. Empty: any does.
    """
    if not _is_taken(pid):
        return False
    stat = _stat(pid)
    if not stat:  # gone meanwhile, or hidden from this user
        return _is_taken(pid)
    if stat[_STATE] in "ZX" and int(stat[_THREADS]) <= 1:  # with more, a thread of it is still about to end
        return False
    return not start or stat[_START] == start


def _is_taken(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _stat(pid: int) -> list[str]:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return []
    return fields if len(fields) > _START else []
