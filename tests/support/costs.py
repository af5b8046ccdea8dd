"""What tests cost in processor time: of their process, of the programs it started, and of the brokers among them.

With MGW_COSTS=FILE every process of pytest adds to that file; ``python -m tests.support.costs FILE`` prints the sums by
file, and the dearest tests and shared fixtures. Unlike the time a test takes, this hardly depends on what else the
machine does. Programs that left their parent behind are not counted.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

import pytest

__all__ = ["measure", "told"]

_TICKS = os.sysconf("SC_CLK_TCK")
#: A look at all processes takes some milliseconds: what was shorter started none, so its own process tells.
_SHORT = 0.1
_DEAREST = 40


def _spent() -> float:
    """Seconds of processor that this process, its descendants and their ended children have used so far."""
    used: dict[int, tuple[int, int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = status.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        used[int(status.parent.name)] = (int(words[1]), sum(map(int, words[11:15])))
    family, grown = {os.getpid()}, True
    while grown:
        born = {pid for pid, (parent, _) in used.items() if parent in family} - family
        family |= born
        grown = bool(born)
    return sum(used[pid][1] for pid in family if pid in used) / _TICKS


class _Costs:
    """A plugin of pytest that writes down what each test and each fixture of several tests has used."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = 0.0
        self._own = 0.0
        self._shared = 0.0

    def _since(self, wall: float) -> float:
        """Seconds of processor since the last call."""
        if wall < _SHORT:
            before, self._seen = self._seen, self._seen + time.process_time() - self._own
        else:
            before, self._seen = self._seen, _spent()
        self._own = time.process_time()
        return max(self._seen - before, 0.0)

    def _write(self, kind: str, name: str, wall: float, used: float) -> None:
        line = json.dumps({"kind": kind, "name": name, "wall": round(wall, 3), "cpu": round(used, 3)})
        with self._path.open("a") as file:  # one short write: several processes share the file
            file.write(f"{line}\n")

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Generator[None, object, object]:
        """What several tests share is told apart from the test that asked for it first."""
        if fixturedef.scope == "function":
            return (yield)
        self._shared += self._since(_SHORT)
        started = time.monotonic()
        try:
            return (yield)
        finally:
            wall = time.monotonic() - started
            used = self._since(wall)
            if wall >= _SHORT:
                file = request.node.nodeid.partition("::")[0]
                self._write("fixture", f"{file}::{fixturedef.argname}", wall, used)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """One test with its own fixtures."""
        started = time.monotonic()
        self._shared = 0.0
        try:
            return (yield)
        finally:
            wall = time.monotonic() - started
            self._write("test", item.nodeid, wall, self._since(wall) + self._shared)

    def pytest_sessionstart(self) -> None:
        """Imports of pytest count as the first test's otherwise."""
        self._seen = _spent()
        self._write("start", "start", 0, self._seen)

    def pytest_collection_finish(self) -> None:
        """So does finding the tests."""
        self._write("start", "collection", 0, self._since(_SHORT))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """What is ended with the last test."""
        self._write("start", "end", 0, self._since(_SHORT))


def measure(config: pytest.Config) -> None:
    """Have this process of pytest write down costs, where that was asked for."""
    divides = getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput")  # its workers measure
    if (path := os.environ.get("MGW_COSTS")) and not divides:
        config.pluginmanager.register(_Costs(Path(path)))


def told(costs: Iterable[dict[str, Any]]) -> list[str]:
    """The sum, the sums by file, the dearest tests and fixtures: seconds of processor, of the clock, how many, name."""
    files, walls, counts = Counter[str](), Counter[str](), Counter[str]()
    single: list[tuple[float, float, str]] = []
    for each in costs:
        file = each["name"].partition("::")[0]
        files[file] += each["cpu"]
        walls[file] += each["wall"]
        counts[file] += each["kind"] == "test"
        single.append((each["cpu"], each["wall"], f"{each['kind']} {each['name']}"))
    lines = [f"{files.total():9.1f} s of processor in {counts.total()} tests", ""]
    lines += [f"{used:9.1f} {walls[file]:8.1f} {counts[file]:5} {file}" for file, used in files.most_common()]
    lines += ["", *(f"{used:9.1f} {wall:8.1f} {name}" for used, wall, name in sorted(single, reverse=True)[:_DEAREST])]
    return lines


def main() -> None:
    """``python -m tests.support.costs FILE``."""
    print("\n".join(told(map(json.loads, Path(sys.argv[1]).read_text().splitlines()))))


if __name__ == "__main__":
    main()
