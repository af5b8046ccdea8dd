"""Two hundred callers and some that mean no good: answers in bounded time, nothing that stays, and jobs that go on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from mgw.gateway.http import limits
from tests.cli.conftest import ROOT, Mgw
from tests.conformance.test_bad_input import running
from tests.support.ports import LOOPBACK, free_port
from tests.support.waiting import eventually
from tests.support.web import Caller

PATIENCE = 90.0
SECONDS = float(os.environ.get("MGW_WEB_SECONDS") or 8)  # of load; the long form is two minutes
HUB_FILES = 2 * (limits.WORKERS + 12)  # those of the agent and its job included
SLOWEST = 10.0  # seconds for an answer: less than what callers wait for, on a machine that has other work


def files_of(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def no_more_files(pid: int, most: int) -> bool:
    """Nothing stays but what the hub's pool keeps: a connection, of two files, for each thread that answers."""
    found = Counter(os.readlink(path).partition(":[")[0] for path in Path(f"/proc/{pid}/fd").iterdir())
    hub = sum(count for name, count in found.items() if "/hub.db" in name)
    assert found.total() - hub <= most, found
    assert hub <= HUB_FILES, found
    return True


def threads_of(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def memory_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def asked(port: int, seconds: float) -> dict[str, object]:
    words = [sys.executable, "-m", "tests.support.web_load", str(port), str(seconds)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told: dict[str, object] = json.loads(done.stdout)
    return told


def test_many_callers_get_answers_and_leave_nothing_behind(tmp_path: Path) -> None:
    mgw, port = Mgw(tmp_path), free_port()
    file = mgw.file("queues: {H: {}, H2: {}}\njobs:\n  on: {type: local, source: H, destination: H2}\n")
    mgw.ok("apply", file)
    with running(mgw, "--http", f"{LOOPBACK}:{port}") as agent:
        caller, pid = Caller(port), agent.process.pid
        eventually(lambda: caller("GET", "/readyz").status == 200, deadline=PATIENCE, tolerate=(OSError, ValueError))
        asked(port, 2.0)  # what is made once is made now
        eventually(lambda: files_of(pid) < 100, deadline=PATIENCE, what="connections that ended")
        memory = memory_of(pid)
        files = sum("/hub.db" not in os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir())
        mgw.ok("aq", "enqueue", "H", "before")
        told = asked(port, SECONDS)
        mgw.ok("aq", "enqueue", "H", "after")
        agent.counts("on", "propagated_total", 2)
        statuses = {int(status): count for status, count in dict(told["statuses"]).items()}  # type: ignore[call-overload]
        assert set(statuses) <= {200, 429, 503}, told
        assert statuses[200] > 50, told
        assert float(str(told["max_ms"])) < 1000 * SLOWEST, told
        assert set(dict(told["refused"])) <= {"400", "413", "429", "503"}, told  # type: ignore[call-overload]
        eventually(partial(no_more_files, pid, files + 5), deadline=PATIENCE, what="files that were closed again")
        assert threads_of(pid) < 80
        assert memory_of(pid) - memory < 50 << 20
        assert "Traceback" not in agent.said, agent.said[-3000:]
        assert caller("GET", "/healthz?max_age=0").status == 200
    assert agent.process.wait(60) == 0


@pytest.mark.long
@pytest.mark.timeout(600)
def test_two_minutes_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "SECONDS", 120.0)
    test_many_callers_get_answers_and_leave_nothing_behind(tmp_path)
