"""Agents as processes: several under one command, killed, shut down and started again, and starts that fail."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Mgw
from tests.support.waiting import eventually

FILE = """\
agents:
  night: {initfile: night.ora}
links:
  mem: {type: memory}
  dark: {type: memory, agent: night}
"""


def agents(mgw: Mgw) -> dict[str, Any]:
    return {row["agent_name"]: row for row in json.loads(mgw.ok("agents", "list", "--json"))}


def is_running(mgw: Mgw, *names: str) -> Callable[[], bool]:
    return lambda: all(agents(mgw)[name]["agent_status"] == "RUNNING" for name in names)


@contextmanager
def running(mgw: Mgw, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    with (mgw.folder / "out.txt").open("wb") as out:
        process = subprocess.Popen(
            mgw.command("run", *words), cwd=mgw.folder, env=mgw.environment(), stdout=out, stderr=out
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(60)


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def said(mgw: Mgw) -> str:
    return (mgw.folder / "out.txt").read_text()


def test_all_agents_of_the_hub_run_under_one_command(mgw: Mgw) -> None:
    (mgw.folder / "night.ora").write_text("log_level = 1\nset CLASSPATH=/opt\nsetJavaProp oracle.mgw.batch_size=7\n")
    mgw.ok("apply", "--create-hub", mgw.file(FILE))
    with running(mgw, "--agent", "all") as process:
        eventually(is_running(mgw, "DEFAULT_AGENT", "NIGHT"), deadline=60, what="both agents")
        before = agents(mgw)
        assert before["NIGHT"]["log_level"] == 1
        assert mgw.ok("agents", "ping", "night") == "agent night is RUNNING: REACHABLE\n"
        os.kill(before["NIGHT"]["agent_pid"], signal.SIGKILL)
        eventually(
            lambda: agents(mgw)["NIGHT"]["agent_pid"] not in (None, before["NIGHT"]["agent_pid"]),
            deadline=120,
            what="another process for the agent that was killed",
        )
        eventually(is_running(mgw, "NIGHT"), deadline=60, what="it running")
        assert agents(mgw)["DEFAULT_AGENT"] == before["DEFAULT_AGENT"], "the other one noticed nothing"
        mgw.ok("apply", mgw.file("agents:\n  late: {}\n", "late.yaml"))
        eventually(is_running(mgw, "LATE"), deadline=60, what="an agent that was created meanwhile")
        mgw.ok("agents", "shutdown", "late")
        eventually(lambda: agents(mgw)["LATE"]["agent_status"] == "NOT_STARTED", deadline=60, what="its shutdown")
        pids = [row["agent_pid"] for row in agents(mgw).values() if row["agent_pid"]]
        process.terminate()
        assert process.wait(60) == 0
    assert {row["agent_status"] for row in agents(mgw).values()} == {"NOT_STARTED"}
    assert not any(map(is_there, pids))
    out = said(mgw)
    assert "default batch size 7 messages" in out
    assert "night.ora has no effect: CLASSPATH (line 2" in out
    assert "signal SIGKILL; it is started again" in out


def test_agents_end_with_the_process_that_started_them(mgw: Mgw) -> None:
    mgw.ok("apply", "--create-hub", mgw.file("agents:\n  night: {}\n"))
    with running(mgw, "--agent", "night", "--agent", "default_agent") as process:
        eventually(is_running(mgw, "DEFAULT_AGENT", "NIGHT"), deadline=60, what="both agents")
        pids = [row["agent_pid"] for row in agents(mgw).values()]
        process.kill()
        eventually(lambda: not any(map(is_there, pids)), deadline=60, what="their end")
    refused = mgw("run", "--agent", "night", "--agent", "nobody")
    assert (refused.code, "agent nobody does not exist" in refused.err) == (1, True)


@pytest.mark.parametrize(
    ("line", "code"), [("log_level = high", -2), (None, -19), ("log_directory = /dev/null/logs", -3)]
)
def test_a_start_that_cannot_succeed_leaves_the_agent_stopped_with_the_reason(
    mgw: Mgw, line: str | None, code: int
) -> None:
    if line is not None:
        (mgw.folder / "night.ora").write_text(line)
    mgw.ok("apply", "--create-hub", mgw.file(FILE))
    failed = mgw("run", "--agent", "night")
    assert failed.code == 1
    row = agents(mgw)["NIGHT"]
    assert (row["agent_status"], row["agent_ping"]) == ("NOT_STARTED", None)
    assert row["last_error_msg"].startswith(f"ORA-32830: result code {code} returned by the agent: ")
    assert mgw("agents", "ping", "night").code == 1
    mgw.ok("agents", "startup", "night")
    row = agents(mgw)["NIGHT"]
    assert (row["agent_status"], row["last_error_msg"]) == ("START_SCHEDULED", None)


def test_a_standby_waits_and_respects_what_the_operator_wants(mgw: Mgw) -> None:
    """On one machine nobody waits for a lease; :mod:`tests.faults.test_standby` is about two machines."""
    mgw.ok("apply", "--create-hub", mgw.file("links:\n  mem: {type: memory}\n"))
    with running(mgw, "--standby") as first:
        eventually(is_running(mgw, "DEFAULT_AGENT"), deadline=60, what="the agent")
        with running(mgw, "--standby") as second:
            waits = f"on standby: process {first.pid} on"
            eventually(lambda: waits in said(mgw), deadline=60, what="the standby")
            first.send_signal(signal.SIGTERM)
            assert first.wait(60) == 0
            eventually(is_running(mgw, "DEFAULT_AGENT"), deadline=60, what="the standby running it")
            row = agents(mgw)["DEFAULT_AGENT"]
            assert (row["agent_pid"], row["last_error_msg"]) == (second.pid, None)
            mgw.ok("agents", "shutdown")
            eventually(
                lambda: agents(mgw)["DEFAULT_AGENT"]["agent_status"] == "NOT_STARTED", deadline=60, what="the shutdown"
            )
            mgw.ok("agents", "startup")
            eventually(is_running(mgw, "DEFAULT_AGENT"), deadline=60, what="the agent, started again")
            second.kill()
            second.wait(60)
        with running(mgw, "--standby") as third:
            eventually(lambda: agents(mgw)["DEFAULT_AGENT"]["agent_pid"] == third.pid, deadline=60, what="the next one")
            eventually(is_running(mgw, "DEFAULT_AGENT"), deadline=60, what="it running")
            assert agents(mgw)["DEFAULT_AGENT"]["last_error_msg"].startswith(f"ORA-28576: process {second.pid} on ")
            third.terminate()
            assert third.wait(60) == 0
    assert agents(mgw)["DEFAULT_AGENT"]["agent_status"] == "START_SCHEDULED", "another host may go on"
