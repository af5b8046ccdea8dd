"""What a run of the tests consisted of, and what it left to ``make test-all``: counted by pytest, told at the end.

Several processes of pytest, each with workers of its own, play one run. Each adds what it counted to the file named by
the variable MGW_TALLY; without that variable nothing is counted.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

__all__ = ["count", "told"]

_WORKER = "left_to_test_all"
_VERDICTS = ("passed", "failed", "error", "skipped", "xfailed", "xpassed")


class _Tally:
    """A plugin of pytest that counts the verdicts, and the tests with the marker ``matrix`` that were not chosen."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._left: Counter[str] = Counter()

    def pytest_deselected(self, items: Iterable[pytest.Item]) -> None:
        """Some were not chosen; those of the marker ``long`` belong to another command."""
        for item in items:
            if item.get_closest_marker("matrix") and not item.get_closest_marker("long"):
                self._left[str(Path(item.location[0]).parent)] += 1

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """A worker has ended; each of them saw all tests."""
        self._left = Counter(getattr(node, "workeroutput", {}).get(_WORKER) or self._left)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """A worker tells the process that reports; that one adds to the file."""
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput[_WORKER] = dict(self._left)

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """All workers have ended; one of them does not speak for all."""
        if hasattr(terminalreporter.config, "workerinput"):
            return
        verdicts = {name: len(terminalreporter.stats.get(name, ())) for name in _VERDICTS}
        with self._path.open("a") as file:
            file.write(json.dumps({"verdicts": verdicts, "left": self._left}) + "\n")


def count(config: pytest.Config) -> None:
    """Have this process of pytest count, where that was asked for."""
    if path := os.environ.get("MGW_TALLY"):
        config.pluginmanager.register(_Tally(Path(path)))


def told(target: str, tallies: Iterable[Mapping[str, Mapping[str, int]]], seconds: int) -> list[str]:
    """The lines that end a run: how many tests it ran and how they ended, and what only ``make test-all`` runs."""
    verdicts, left = Counter[str](), Counter[str]()
    for each in tallies:
        verdicts.update(each["verdicts"])
        left.update(each["left"])
    counted = ", ".join(f"{verdicts[name]:,} {name}" for name in _VERDICTS if verdicts[name]) or "none"
    minutes = f"{seconds // 60} min {seconds % 60} s"
    lines = [f"make {target}: {verdicts.total():,} tests in {minutes}: {counted}"]
    if left:
        places = ", ".join(f"{count} in {place}" for place, count in left.most_common())
        why = "which take longer or repeat a fact in another combination"
        lines.append(f"Only make test-all runs {left.total():,} more, {why}: {places}")
    return lines


def main() -> None:
    """``python -m tests.support.tally TARGET FILE SECONDS``."""
    target, path, seconds = sys.argv[1:]
    tallies = [json.loads(line) for line in Path(path).read_text().splitlines()]
    print("\n".join(told(target, tallies, int(seconds))))


if __name__ == "__main__":
    main()
