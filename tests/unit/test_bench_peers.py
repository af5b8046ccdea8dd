"""Peers of the benchmark that are not there are left out in one line; CPU time is that of whole process trees."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import processes
from benchmarks.peers import bento
from benchmarks.recorded import Recorder
from benchmarks.side_by_side import Comparison
from tests.support.waiting import eventually

SPINS_BELOW = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'while True: pass'])"


def test_peers_that_are_not_there_are_left_out_in_one_line_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(bento.VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    recorder = Recorder("peers")
    comparison = Comparison(tmp_path, stand=None, recorder=recorder, messages=1)  # type: ignore[arg-type]
    assert recorder.left_out == [f"Bento: {bento.VARIABLE} names no binary", "Camel: javac is not installed"]
    assert not {"Bento", "Camel"} & comparison.names


def test_a_file_that_can_not_be_run_is_no_peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(bento.VARIABLE, str(tmp_path / "nothing"))
    with pytest.raises(bento.Missing, match=bento.VARIABLE) as refused:
        bento.Bento().version()
    assert str(tmp_path) not in str(refused.value)


def test_cpu_time_is_that_of_all_processes_below_and_a_frozen_tree_uses_none() -> None:
    with subprocess.Popen([sys.executable, "-c", SPINS_BELOW]) as process:
        try:
            eventually(lambda: processes.Trees([process.pid]).cpu() > 0.5, what="CPU time of the process below")
            trees = processes.Trees([process.pid])
            processes.freeze(process.pid)
            before = trees.cpu()
            states = [Path(f"/proc/{pid}/stat").read_text().split()[2] for pid in processes.tree_of(process.pid)]
            assert states == ["T", "T"]
            assert trees.cpu() == before
            processes.thaw(process.pid)
            eventually(lambda: trees.cpu() > before, what="the tree to go on")
        finally:
            for pid in reversed(processes.tree_of(process.pid)):
                subprocess.run(["kill", "-KILL", str(pid)], check=True)
