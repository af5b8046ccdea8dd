"""What the service uses: memory, handles, threads, its file and logs; and whether that grows without end."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Figures", "growth", "taken"]

_MB = 1 << 20
_FEWEST = 6
_ENOUGH = 10.0  # minutes in which something can be seen to grow


@dataclass(frozen=True, slots=True)
class Figures:
    """At one moment; sizes in bytes."""

    minute: float
    memory: int
    handles: int
    threads: int
    hub: int
    wal: int
    logs: int
    disk: int
    put_in: int
    cpu: float

    def __str__(self) -> str:
        return (
            f"{self.minute:5.1f} min: {self.put_in:7d} messages, memory {self.memory / _MB:6.1f} MB, "
            f"{self.handles:3d} handles, {self.threads:2d} threads, hub {self.hub / _MB:6.2f} MB, "
            f"WAL {self.wal / _MB:5.2f} MB, logs {self.logs / 1024:6.0f} kB, disk {self.disk / _MB:6.1f} MB used, "
            f"processor {self.cpu:6.1f} s"
        )


def taken(minute: float, pid: int, state: Path, put_in: int) -> Figures | None:
    """The figures of the process now; None: it has just ended."""
    process = Path(f"/proc/{pid}")
    try:
        status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
        handles = len(list((process / "fd").iterdir()))
        times = (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return Figures(
        minute,
        int(status["VmRSS"].split()[0]) * 1024,
        handles,
        int(status["Threads"]),
        _size(state / "hub.db"),
        _size(state / "hub.db-wal"),
        sum(_size(path) for path in (state / "log").glob("*")),
        shutil.disk_usage(state).used,
        put_in,
        (int(times[11]) + int(times[12])) / 100,
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def growth(figures: Sequence[Figures]) -> list[str]:
    """What grew without end, in words."""
    if len(figures) < _FEWEST or figures[-1].minute - figures[1].minute < _ENOUGH:
        return []
    warm, last = figures[1], figures[-1]
    third = len(figures) // 3
    early, late = figures[1 : third + 1], figures[-third:]
    wrong = []
    for name, unit, more in (("memory", _MB, 40 * _MB), ("handles", 1, 20), ("threads", 1, 8)):
        first, then = (max(getattr(entry, name) for entry in part) for part in (early, late))
        if then > first * 1.2 + more:
            wrong.append(f"{name} grew from {first / unit:.0f} to {then / unit:.0f}{' MB' if unit == _MB else ''}")
    if (worst := max(entry.wal for entry in figures)) > 24 * _MB:
        wrong.append(f"the WAL reached {worst / _MB:.0f} MB")
    messages = max(1, last.put_in - warm.put_in)
    if (each := (last.hub - warm.hub) / messages) > 200:
        wrong.append(f"the hub's file grew by {each:.0f} bytes a message")
    if (each := (last.logs - warm.logs) / max(1.0, last.minute - warm.minute)) > 100 * 1024:
        wrong.append(f"the logs grew by {each / 1024:.0f} kB a minute")
    return wrong
