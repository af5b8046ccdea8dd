"""Seconds of processor of tests are those of the programs they started, too."""

from __future__ import annotations

import resource
import subprocess
from pathlib import Path

from tests.support.brokers.kept import made_or_copied
from tests.support.costs import _spent, told

BUSY = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"


def _ended_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_what_a_program_used_counts() -> None:
    before, children = _spent(), _ended_children()
    subprocess.run(["sh", "-c", BUSY], check=True)
    used = _ended_children() - children
    assert used > 0.02
    assert _spent() - before >= used - 0.02  # counted in hundredths


def test_sums_are_told_by_file_and_the_dearest_first() -> None:
    lines = told(
        [
            {"kind": "test", "name": "a.py::one", "wall": 2.0, "cpu": 1.0},
            {"kind": "test", "name": "b.py::two", "wall": 3.0, "cpu": 1.5},
            {"kind": "fixture", "name": "a.py::broker", "wall": 4.0, "cpu": 2.5},
        ]
    )
    assert lines[0].split() == ["5.0", "s", "of", "processor", "in", "2", "tests"]
    assert [line.split() for line in lines[2:4]] == [["3.5", "6.0", "1", "a.py"], ["1.5", "3.0", "1", "b.py"]]
    assert [line.split()[-1] for line in lines[5:]] == ["a.py::broker", "b.py::two", "a.py::one"]


def test_a_folder_is_made_once_and_copied_for_others(tmp_path: Path) -> None:
    made = []

    def make(folder: Path) -> None:
        made.append(folder)
        (folder / "inner").mkdir(parents=True)
        (folder / "inner/file").write_text(f"{len(made)}")

    for number, made_from in enumerate(["1", "1", "2"]):
        folder = tmp_path / str(number)
        made_or_copied(folder, "any", [made_from], lambda folder=folder: make(folder), cache=tmp_path / "cache")
    assert [(tmp_path / str(number) / "inner/file").read_text() for number in range(3)] == ["1", "1", "2"]
    assert sorted(path.name.split("-")[0] for path in (tmp_path / "cache").iterdir()) == ["any", "any"]
