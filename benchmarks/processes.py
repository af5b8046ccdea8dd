"""The CPU time of a process and everything below it, and a way to stop and continue all of them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

__all__ = ["Trees", "freeze", "thaw", "tree_of"]

_TICKS = os.sysconf("SC_CLK_TCK")
_FROZEN = 20.0


def _fields(pid: int) -> list[str]:
    """Of proc(5) stat from the third on: state, parent, ...; none when the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def tree_of(*roots: int) -> list[int]:
    """The processes and all below them."""
    below: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _fields(int(entry.name))):
            below.setdefault(int(fields[1]), []).append(int(entry.name))
    found = list(roots)
    for pid in found:
        found += below.get(pid, ())
    return found


class Trees:
    """The CPU time of process trees: looked for at the beginning, as that takes longer than to read their clocks."""

    def __init__(self, roots: Iterable[int]) -> None:
        self._pids = tree_of(*roots)

    def cpu(self) -> float:
        """Seconds that they have used, with those of their children that have ended."""
        fields = [each for pid in self._pids if (each := _fields(pid))]
        return sum(int(one) for each in fields for one in each[11:15]) / _TICKS


def freeze(*roots: int) -> None:
    """Stop the process trees; returns when they have stopped."""
    pids = tree_of(*roots)
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    end = time.monotonic() + _FROZEN
    while any((fields := _fields(pid)) and fields[0] not in "TtZ" for pid in pids):
        if time.monotonic() > end:
            raise TimeoutError(f"processes {pids} did not stop within {_FROZEN:.0f} s")
        time.sleep(0.01)


def thaw(*roots: int) -> None:
    """Let the process trees go on."""
    for pid in tree_of(*roots):
        os.kill(pid, signal.SIGCONT)
