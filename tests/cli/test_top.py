"""``mgw top`` in a terminal of 24 rows with 30 jobs: trouble first, nothing hidden, keys."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.cli.conftest import Mgw
from tests.support.waiting import eventually

FILE = "\n".join(
    [
        "links:\n  away: {type: memory}",
        "foreign_queues:\n  gone@away: {domain: queue}",
        "queues:",
        *(f"  Q{number}: {{}}\n  T{number}: {{}}" for number in range(1, 30)),
        "  LAST: {}",
        "jobs:",
        *(f"  job_{number}: {{type: local, source: Q{number}, destination: T{number}}}" for number in range(1, 30)),
        "  zz_bad: {type: inbound, source: gone@away, destination: LAST}",
    ]
)
Look = Callable[..., list[str]]


def resize(terminal: int, rows: int, columns: int = 80) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


@contextmanager
def on_screen(
    mgw: Mgw, *words: str, rows: int = 24
) -> Iterator[tuple[Look, Callable[[str], int], subprocess.Popen[bytes], int]]:
    """Runs ``mgw top``: a function that waits for a frame with a text in it, one that presses keys, the process."""
    ours, theirs = pty.openpty()
    resize(theirs, rows)
    environ = {
        name: value for name, value in mgw.environment({"TERM": "xterm"}).items() if name not in ("LINES", "COLUMNS")
    }
    process = subprocess.Popen(
        mgw.command("top", "--interval", "0.3", *words),
        cwd=mgw.folder,
        env=environ,
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    os.close(theirs)
    shown = b""

    def frame(*wanted: str, without: str = "never seen") -> list[str]:
        nonlocal shown
        until = time.monotonic() + 30
        while time.monotonic() < until:
            if select.select([ours], [], [], 0.2)[0]:
                shown = (shown + os.read(ours, 65536))[-60_000:]
            frames = [
                re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", each) for each in shown.decode(errors="ignore").split("\x1b[H")
            ]
            last = frames[-2] if len(frames) > 1 else ""
            if all(each in last for each in wanted) and without not in last:
                shown = b""
                return [line.rstrip() for line in last.split("\r\n")]
        raise AssertionError((wanted, last))

    try:
        yield frame, lambda keys: os.write(ours, keys.encode()), process, ours
    finally:
        process.kill()
        process.communicate(timeout=20)
        os.close(ours)


@pytest.fixture
def running(mgw: Mgw) -> Iterator[Mgw]:
    with mgw.running(mgw.file(FILE)):
        eventually(lambda: "job ZZ_BAD is RETRY" in mgw("status").out, deadline=60)
        yield mgw


def test_trouble_is_first_and_every_job_can_be_reached(running: Mgw) -> None:
    with on_screen(running) as (frame, press, process, terminal):
        lines = frame("ZZ_BAD", "of 30")
        assert len(lines) <= 24
        assert "30 jobs: 29 fine, 1 RETRY" in lines[2]
        assert "0/s in, 0/s within the hub" in lines[2]
        assert lines[3].startswith("links: AWAY DOWN")
        first, second = lines[6], lines[7]
        assert re.match(r"ZZ_BAD +RETRY +(\d+s|now) .* unknown", first), lines
        assert second.startswith("JOB_1 ")
        assert any(line.startswith("job ZZ_BAD is RETRY: ") for line in lines)
        assert "JOB_29" not in "\n".join(lines)
        press("\x1b[6~")
        press("G")
        lines = frame("JOB_29", "30 of 30")
        assert "ZZ_BAD  RETRY" not in "\n".join(lines)
        press("g\x1b[B")
        assert frame("2-")[6].startswith("JOB_1 ")
        press("/job_17\r")
        lines = frame("1-1 of 1", "filter: job_17")
        assert lines[6].startswith("JOB_17 ")
        press("/\x1b")
        frame("of 30", without="filter: job")
        press("s")
        assert frame("sort: name")[6].startswith("JOB_1 ")
        resize(terminal, 40)
        os.killpg(process.pid, signal.SIGWINCH)
        assert "JOB_29" in "\n".join(frame("1-30 of 30"))
        press("q")
        assert process.wait(20) == 0


TWO_AWAY = """links:
  north: {type: mqtt, hostname: 127.0.0.1, port: 1}
  south: {type: mqtt, hostname: 127.0.0.1, port: 2}
foreign_queues:
  A@north: {domain: topic}
  B@north: {domain: topic}
  C@south: {domain: topic}
queues: {A: {}, B: {}, C: {}, D: {}, E: {}}
jobs:
  a_in: {type: inbound, source: A@north, destination: A}
  b_in: {type: inbound, source: B@north, destination: B}
  c_in: {type: inbound, source: C@south, destination: C}
  fine: {type: local, source: D, destination: E}
  off: {type: local, source: E, destination: D, enabled: false}
"""


def test_each_cause_is_one_line_and_nothing_is_fine_when_the_agent_is_dead(mgw: Mgw) -> None:
    process = subprocess.Popen(
        mgw.command("run", mgw.file(TWO_AWAY)), cwd=mgw.folder, env=mgw.environment(), stdout=subprocess.DEVNULL
    )
    try:
        eventually(lambda: mgw("status").out.count("is RETRY") == 3, deadline=60)
        shown = mgw.ok("top", "--count", "1").splitlines()
        assert "5 jobs: 1 fine, 3 RETRY, 1 DISABLED" in shown[2]
        assert [line for line in shown if "no connection to 127.0.0.1" in line] == [
            line
            for line in shown
            if line.startswith(("2 jobs are RETRY (A_IN, ...): link north", "job C_IN is RETRY: link south"))
        ]
        assert len([line for line in shown if "no connection to 127.0.0.1" in line]) == 2
        only = mgw.ok("top", "--count", "1", "--filter", "c_in")
        assert "link south" in only
        assert "link north" not in only
        process.kill()
        process.wait()
        eventually(lambda: "DEFAULT_AGENT UNREACHABLE" in mgw.ok("top", "--count", "1"), deadline=60)
        shown = mgw.ok("top", "--count", "1").splitlines()
        assert "5 jobs: 0 fine, 4 STOPPED, 1 DISABLED" in shown[2]
        assert any(re.match(r"A_IN +STOPPED .* unknown", line) for line in shown), shown
        assert re.search(r"^A_IN +STOPPED .*unknown", mgw.ok("status"), re.MULTILINE)
    finally:
        process.kill()
        process.wait()


def test_filter_and_order_are_options_and_without_a_terminal_nothing_is_cut(running: Mgw) -> None:
    shown = running.ok("top", "--count", "1")
    assert len(re.findall(r"^JOB_\d+ ", shown, re.MULTILINE)) == 29
    shown = running.ok("top", "--count", "1", "--filter", "retry", "--sort", "name")
    assert re.findall(r"^(JOB_\d+|ZZ_BAD) ", shown, re.MULTILINE) == ["ZZ_BAD"]
    refused = running("top", "--sort", "colour")
    assert refused.code != 0
    assert "none of trouble, name, rate, waiting" in refused.err


def test_status_says_since_when_a_link_is_down_and_when_the_next_attempt_is(running: Mgw) -> None:
    shown = running.ok("status")
    assert re.search(r"^AWAY +memory +DEFAULT_AGENT +1 +DOWN +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$", shown, re.MULTILINE)
    assert re.search(r"^ZZ_BAD +RETRY .*unknown", shown, re.MULTILINE)
    assert re.search(r"next attempt\s+\d{4}-\d\d-\d\d\s+\d\d:\d\d:\d\d\s+UTC", shown)
