"""Processes of this machine: whether one lives, and whether it is still the one that had this id."""

from __future__ import annotations

import os
import socket
from functools import cache
from pathlib import Path

__all__ = ["host_name", "is_dead", "lives", "session_host", "start_of"]

_BEFORE_START = "#"  # in the name of a host
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


def host_name() -> str:
    """Names this machine and process namespace: where a process id means something."""
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    return f"{socket.gethostname()}/{space}"


def session_host() -> str:
    """:func:`host_name`, and when this process began: another one may be given its id later."""
    return f"{host_name()}{_BEFORE_START}{_start_of_own(os.getpid())}"


def is_dead(host: str, pid: int, lease_until: float, now: float) -> bool:
    """Whether a process is gone: known here at once, elsewhere when its lease runs out.

    Args:
        host: as :func:`host_name` or :func:`session_host` told it there.
    """
    if lease_until <= now:
        return True
    place, _, start = host.partition(_BEFORE_START)
    return place == host_name() and not lives(pid, start)


@cache
def _start_of_own(pid: int) -> str:
    return start_of(pid)
