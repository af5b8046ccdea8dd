"""What systemd hears from ``mgw run``, and what the unit that is shipped allows it."""

from __future__ import annotations

import configparser
import gzip
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mgw.gateway.runtime.pulse import Pulse
from mgw.gateway.runtime.service_manager import ServiceManager
from mgw.transforms.clock import SYSTEM_CLOCK
from tests.cli.conftest import ROOT, Mgw
from tests.support.waiting import eventually

UNIT = ROOT / "conf" / "mgw.service"


class Manager:
    """The end of the socket that systemd has."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.socket.settimeout(60)

    def hear(self, state: str) -> str:
        """Wait for a message with this state; the message."""
        while True:
            message = self.socket.recv(4096).decode()
            if state in message.splitlines():
                return message

    def silent(self) -> bool:
        """Whether nothing was said."""
        self.socket.setblocking(False)
        try:
            self.socket.recv(4096)
        except BlockingIOError:
            return True
        return False


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    manager = Manager(tmp_path / "notify")
    yield manager
    manager.socket.close()


def test_the_daemon_tells_of_its_life(mgw: Mgw, manager: Manager) -> None:
    file = mgw.file("version: 1\nqueues:\n  Q: {}\n")
    mgw.environ |= {"NOTIFY_SOCKET": str(manager.path), "WATCHDOG_USEC": "50000000"}
    process = subprocess.Popen(mgw.command("run", file), cwd=mgw.folder, env=mgw.environment(), stdout=subprocess.PIPE)
    try:
        assert "STATUS=running agent DEFAULT_AGENT" in manager.hear("READY=1")
        for _ in range(3):
            manager.hear("WATCHDOG=1")
        process.send_signal(signal.SIGHUP)
        assert "MONOTONIC_USEC=" in manager.hear("RELOADING=1")
        manager.hear("READY=1")
        process.send_signal(signal.SIGTERM)
        manager.hear("STOPPING=1")
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate(timeout=60)


def test_the_watchdog_hears_the_main_loop_and_waits_as_long_as_it_asks(manager: Manager) -> None:
    told = ServiceManager({"NOTIFY_SOCKET": str(manager.path), "WATCHDOG_USEC": "60000000"}, SYSTEM_CLOCK)
    pulse = Pulse(SYSTEM_CLOCK, told)
    pulse.beat(30.0)
    assert manager.hear("WATCHDOG=1") == "WATCHDOG=1"
    assert manager.silent()
    pulse.beat(100.0)
    manager.socket.settimeout(60)
    assert "WATCHDOG_USEC=100000000" in manager.hear("WATCHDOG=1")
    pulse.beat(30.0)
    assert "WATCHDOG_USEC=60000000" in manager.hear("WATCHDOG=1")


@pytest.mark.parametrize("environ", [{"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "1"}, {}, {"WATCHDOG_USEC": "soon"}])
def test_what_is_not_watched_feeds_no_watchdog(manager: Manager, environ: dict[str, str]) -> None:
    ServiceManager(environ | {"NOTIFY_SOCKET": str(manager.path)}, SYSTEM_CLOCK).alive(1.0)
    assert manager.silent()


def test_without_a_manager_nothing_happens(tmp_path: Path) -> None:
    for environ in ({}, {"NOTIFY_SOCKET": str(tmp_path / "gone")}, {"NOTIFY_SOCKET": "@mgw-nobody"}):
        ServiceManager(environ, SYSTEM_CLOCK).ready("x")


def test_the_unit_is_hardened(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd is not installed here")
    found = subprocess.run(
        [analyze, "security", "--offline=yes", "--no-pager", str(UNIT)], capture_output=True, text=True, check=False
    )
    score = re.search(r"Overall exposure level for mgw.service: ([\d.]+)", found.stdout)
    assert score, found
    assert float(score[1]) < 4
    here = tmp_path / "mgw.service"  # the command is not installed in /opt here
    here.write_text(UNIT.read_text("utf-8").replace("/opt/mgw/bin/mgw", "/bin/true"), "utf-8")
    checked = subprocess.run([analyze, "verify", "--man=no", str(here)], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_the_log_is_rotated_while_the_agent_writes_it_and_no_line_is_lost(mgw: Mgw, tmp_path: Path) -> None:
    logrotate = shutil.which("logrotate", path="/usr/sbin:/usr/bin")
    if logrotate is None:
        pytest.skip("logrotate is not installed here")
    mgw.ok("apply", mgw.file("version: 1\nqueues:\n  Q: {}\n"))
    rules = (ROOT / "conf" / "mgw.logrotate").read_text("utf-8").replace("/var/lib/mgw", str(mgw.folder))
    here = tmp_path / "rules"
    here.write_text(rules.replace("    su mgw mgw\n", ""), "utf-8")
    here.chmod(0o644)
    folder = mgw.folder / "log"
    folder.mkdir()
    earlier, old = folder / "oramgw-vm-20200101000000-1.log", folder / "oramgw-vm-20200101000000-2.log.3.gz"
    for each in (earlier, old):
        each.write_text(">>an earlier run\n", "utf-8")
    os.utime(old, (0, 0))
    with mgw.running() as process:
        eventually(lambda: "RUNNING" in mgw("status").out, deadline=60)
        (log,) = set(folder.glob("oramgw-*.log")) - {earlier}
        manager = tmp_path / "bin" / "systemctl"  # does what systemd would
        manager.parent.mkdir()
        manager.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\nkill -s USR1 {process.pid}\n', "utf-8")
        manager.chmod(0o755)
        environ = os.environ | {"PATH": f"{manager.parent}:{os.environ['PATH']}"}
        before = log.read_text("utf-8")
        command = [logrotate, "--force", "--state", str(tmp_path / "state"), str(here)]
        for number in (1, 2):
            subprocess.run(command, check=True, env=environ)
            eventually(lambda: log.exists() and "is opened again" in log.read_text("utf-8"), what=f"file {number + 1}")
    asked = (tmp_path / "asked").read_text("utf-8").split()
    assert asked == ["kill", "--kill-who=main", "--signal=USR1", "mgw.service"]
    whole = gzip.decompress((folder / f"{log.name}.2.gz").read_bytes()).decode()
    assert whole.startswith(before)
    files = (folder / f"{log.name}.1", log)
    assert all(each.read_text("utf-8").startswith(">>") for each in files)
    assert "stopped" in log.read_text("utf-8")
    assert not earlier.exists()
    assert (folder / f"{earlier.name}.1").exists()
    assert not old.exists()


def test_the_unit_gives_the_drain_its_time() -> None:
    unit = UNIT.read_text("utf-8")
    assert "Type=notify\n" in unit
    assert re.search(r"WatchdogSec=(\d+)", unit)
    stop = re.search(r"TimeoutStopSec=(\d+)", unit)
    assert stop
    assert int(stop[1]) > 10  # --drain


def test_the_unit_reloads_with_the_shell_alone_and_starts_again_however_often_it_fails() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.read(UNIT)
    program, *words = shlex.split(unit["Service"]["ExecReload"])
    assert program == "/bin/sh"  # a small Debian has no /bin/kill
    # This run itself may ignore SIGHUP, as nohup has it, and what it starts would, too.
    sleeper = (
        "import signal, time; signal.signal(signal.SIGHUP, signal.SIG_DFL); print('there', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", sleeper], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "there\n"
        subprocess.run([program, *words], env={"MAINPID": str(process.pid)}, check=True)
        assert process.wait(60) == -signal.SIGHUP
    assert unit["Unit"]["StartLimitIntervalSec"] == "0"
