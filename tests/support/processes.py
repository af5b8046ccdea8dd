"""Processes of this machine, by what the system tells of them."""

from __future__ import annotations

from pathlib import Path

__all__ = ["children_of", "sockets_of"]


def children_of(parent: int) -> list[int]:
    """The processes that it started and that live."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, started_by, *_ = status.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        if int(started_by) == parent and state not in "ZX":
            found.append(int(status.parent.name))
    return found


def sockets_of(pid: int) -> set[int]:
    """The inodes of the sockets that it has open; it may open and close others meanwhile."""
    found = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = descriptor.readlink().name
        except FileNotFoundError:
            continue
        if target.startswith("socket:["):
            found.add(int(target[8:-1]))
    return found
