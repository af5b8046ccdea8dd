"""What ``make test`` says at its end is what its processes of pytest ran, and what they left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.tally import told

ROOT = Path(__file__).resolve().parents[2]
CONFTEST = """
from tests.support.tally import count

def pytest_configure(config):
    for name in ("matrix", "long"):
        config.addinivalue_line("markers", name)
    count(config)
"""
TESTS = """
import pytest

def test_one():
    pass

def test_that_fails():
    assert 1 == 2

@pytest.mark.parametrize("way", ["a", pytest.param("b", marks=pytest.mark.matrix)])
def test_way(way):
    pass

@pytest.mark.matrix
@pytest.mark.long
def test_for_hours():
    pass
"""


def test_every_process_tells_what_it_ran_and_what_it_left(tmp_path: Path) -> None:
    chosen, rest = "not matrix and not long", "matrix and not long"
    one, several, second = played(tmp_path, [(chosen,), (chosen, "-n", "2"), (rest,)])
    assert one == several
    assert told("test", [one], 61) == [
        "make test: 3 tests in 1 min 1 s: 2 passed, 1 failed",
        "Only make test-all runs 1 more, which take longer or repeat a fact in another combination: 1 in some",
    ]
    assert told("test-rest", [second], 3) == ["make test-rest: 1 tests in 0 min 3 s: 1 passed"]
    (text, left) = told("test", [one, several], 0)
    assert text.startswith("make test: 6 tests in 0 min 0 s: 4 passed, 2 failed")
    assert "runs 2 more" in left


def played(tmp_path: Path, runs: Sequence[Sequence[str]]) -> list[Any]:
    """What each run of pytest told: its marker expression, and more words."""
    folder, tally = tmp_path / "some", tmp_path / "tally"
    folder.mkdir()
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_some.py").write_text(TESTS)
    plain = ["-q", "-p", "no:cacheprovider", "-p", "no:hypothesispytest"]
    for chosen, *more in runs:
        subprocess.run(
            [sys.executable, "-m", "pytest", *plain, *more, "-m", chosen, "some"],
            cwd=tmp_path,
            env={**os.environ, "MGW_TALLY": str(tally), "PYTHONPATH": str(ROOT)},
            capture_output=True,
            check=False,
        )
    return [json.loads(line) for line in tally.read_text().splitlines()]
