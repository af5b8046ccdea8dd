"""A forked process is what a started one is: arguments, folder, variables, output, exit code, signals, session."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.brokers.server import OwnedProcess
from tests.support.ready_made import _Forked, ready_made, start_module
from tests.support.waiting import eventually

ROOT = Path(__file__).resolve().parents[2]
MODULE = "tests.support.self_portrait"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "PORTRAIT": "yes", "HOME": str(tmp_path)}


def test_it_is_what_a_started_process_is(tmp_path: Path, environment: dict[str, str]) -> None:
    forked, started = tmp_path / "forked", tmp_path / "started"
    environment |= {"PYTHONPATH": os.pathsep.join((str(tmp_path / "code"), "relative")), "TZ": "Asia/Kathmandu"}
    assert start_module(MODULE, "a b", "7", log=forked, environment=environment, folder=tmp_path).wait(60) == 7
    environment["PYTHONPATH"] = os.pathsep.join((str(ROOT), environment["PYTHONPATH"]))  # the other does so by itself
    with started.open("wb") as sink:
        command = [sys.executable, "-m", MODULE, "a b", "7"]
        done = subprocess.run(command, stdout=sink, stderr=sink, env=environment, cwd=tmp_path, check=False)
    assert done.returncode == 7
    assert json.loads(forked.read_text()) == json.loads(started.read_text())


def test_it_is_killed_and_its_end_is_told(tmp_path: Path, environment: dict[str, str]) -> None:
    process = start_module(MODULE, log=tmp_path / "log", environment=environment)
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.05)
    process.kill()
    assert process.wait(60) == process.poll() == -signal.SIGKILL
    process.kill()  # nobody else who has its number now


def test_one_that_ended_before_it_was_asked_has_its_exit_code(tmp_path: Path, environment: dict[str, str]) -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        theirs.sendall(b"4711\n3\n")
    process = _Forked(["quick"], ours)
    assert (process.pid, process.poll(), process.wait(60)) == (4711, 3, 3)


def test_an_owned_one_leads_a_session_and_goes_with_those_it_started(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    log = tmp_path / "log"
    process = OwnedProcess([sys.executable, "-m", MODULE], environment=environment, log=log, folder=tmp_path)
    eventually(lambda: log.exists() and "\n" in log.read_text(), what="the process saying what it is")
    assert os.getsid(process.pid) == os.getpgid(process.pid) == process.pid
    child = json.loads(log.read_text())["child"]
    process.kill()
    assert process.exit_code == -signal.SIGKILL
    state = Path(f"/proc/{child}/stat")
    assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z", "nobody has reaped it yet"


CUT_OFF = """\
import os, sys
from pathlib import Path
from tests.support.ready_made import start_module
print(start_module(sys.argv[1], log=Path(sys.argv[2]), environment=os.environ).pid, flush=True)
sys.stdin.read()
"""


def test_it_ends_with_the_tests_that_started_it_however_those_end(tmp_path: Path, environment: dict[str, str]) -> None:
    command = [sys.executable, "-c", CUT_OFF, MODULE, str(tmp_path / "log")]
    tests = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, cwd=tmp_path, text=True
    )
    with tests:
        assert tests.stdout is not None
        state = Path(f"/proc/{int(tests.stdout.readline())}/stat")
        assert state.exists()
        tests.kill()
    eventually(lambda: not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z", what="its end")


def test_output_of_a_killed_process_is_not_lost(tmp_path: Path, environment: dict[str, str]) -> None:
    process = start_module(MODULE, log=tmp_path / "log", environment=environment)
    eventually(lambda: (tmp_path / "log").read_text().endswith("\n"), what="a line that was written and not flushed")
    process.kill()
    process.wait(60)


def test_commands_with_the_same_variables_of_python_are_forked_from_one_process(environment: dict[str, str]) -> None:
    one = ready_made(environment)
    assert ready_made(environment | {"MGW_HUB": "sqlite:///x.db", "PYTHONPATH": "/elsewhere", "TZ": "UTC"}) is one
    assert ready_made(environment | {"PYTHONWARNINGS": "error::UserWarning"}) is not one


def test_a_command_has_its_output_and_its_exit_code(tmp_path: Path, environment: dict[str, str]) -> None:
    made = ready_made(environment)
    code, out, err = made.run(["--version"], cwd=tmp_path, env=environment, given=b"", timeout=60)
    assert (code, err) == (0, b"")
    assert out.startswith(b"mgw ")
