"""Figures as files: each part of the benchmark writes one, with machine and circumstances; tables are made of them."""

from __future__ import annotations

import json
import os
import platform
import shlex
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.measuring import processor, sync_seconds

__all__ = ["FOLDER", "KEPT", "Figure", "Part", "read"]

_REPOSITORY = Path(__file__).resolve().parents[1]
#: Of the last run here.
FOLDER = _REPOSITORY / ".cache" / "bench"
#: The figures that README.md shows.
KEPT = Path(__file__).with_name("results")


@dataclass(frozen=True, slots=True)
class Figure:
    """One thing measured in every round."""

    route: str
    mover: str
    measure: str
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """The figures of one part, and what they depend on."""

    name: str
    command: str
    date: str
    commit: str
    machine: Mapping[str, Any]
    load: float  # before the start
    sync_ms: float
    versions: Mapping[str, str] = field(default_factory=dict)
    sizes: Mapping[str, Any] = field(default_factory=dict)
    figures: tuple[Figure, ...] = ()
    left_out: tuple[str, ...] = ()

    def write(self, folder: Path | None = None) -> Path:
        """Keep it, in place of the last."""
        folder = folder or FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{self.name}.json"
        file.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n")
        return file

    def values(self, route: str, mover: str, measure: str) -> tuple[float, ...]:
        """Of every round; none where it was not measured."""
        wanted = (route, mover, measure)
        return next((each.values for each in self.figures if (each.route, each.mover, each.measure) == wanted), ())


class Recorder:
    """Collects the figures of a part; the circumstances are those at its beginning."""

    def __init__(self, name: str, **sizes: Any) -> None:
        self._name = name
        self._sizes = sizes
        self._values: dict[tuple[str, str, str], list[float]] = {}
        self._left_out: list[str] = []
        self.versions = {"Python": platform.python_version(), "SQLite": sqlite3.sqlite_version}
        self._date = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
        self._load = round(os.getloadavg()[0], 1)
        with tempfile.TemporaryDirectory(prefix="mgw-bench-") as folder:
            self._sync = round(sync_seconds(Path(folder)) * 1000, 2)

    def add(self, route: str, mover: str, measure: str, *values: float) -> None:
        """One round more of a figure, or several."""
        self._values.setdefault((route, mover, measure), []).extend(float(f"{value:.4g}") for value in values)

    def leave_out(self, what: str) -> None:
        """Say in one line what was not measured, and why."""
        if what not in self._left_out:
            self._left_out.append(what)

    @property
    def left_out(self) -> Sequence[str]:
        """What was not measured."""
        return self._left_out

    def part(self) -> Part:
        """All so far."""
        return Part(
            name=self._name,
            command=_command(sys.orig_argv),
            date=self._date,
            commit=_commit(),
            machine=_machine(),
            load=self._load,
            sync_ms=self._sync,
            versions=self.versions,
            sizes=self._sizes,
            figures=tuple(Figure(*key, tuple(values)) for key, values in self._values.items()),
            left_out=tuple(self._left_out),
        )


def read(folders: Iterable[Path] = (FOLDER,)) -> dict[str, Part]:
    """The parts that are there, by name; a later folder has precedence."""
    found: dict[str, Part] = {}
    for folder in folders:
        for file in sorted(folder.glob("*.json")):
            given = json.loads(file.read_text())
            figures = tuple(Figure(**each | {"values": tuple(each["values"])}) for each in given.pop("figures"))
            left_out = tuple(given.pop("left_out"))
            found[given["name"]] = Part(**given, figures=figures, left_out=left_out)
    return found


def _command(words: Sequence[str]) -> str:
    """As it is typed in the folder of the repository: no path of this machine."""
    return shlex.join(["python", *(word.replace(f"{_REPOSITORY}/", "") for word in words[1:])])


def _commit() -> str:
    command = ["git", "-C", str(_REPOSITORY), "describe", "--always", "--dirty", "--exclude", "*"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "no commit"


def _machine() -> dict[str, Any]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": len(os.sched_getaffinity(0)),
        "processor": processor(),
        "memory_gib": round(memory / 2**30),
        "system": f"{platform.system()} {platform.release()}",
    }
