"""``mgw tap``: live messages on the command line."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from contextlib import closing
from datetime import datetime, timedelta

import pytest

from tests.cli.conftest import Mgw
from tests.support.waiting import eventually

CONFIGURATION = """\
version: 1
queues:
  ONE: {}
  TWO: {}
transformations:
  mark: {set: {header.seen: "'yes'"}}
jobs:
  move: {type: local, source: ONE, destination: TWO, transformation: mark}
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_live_messages_are_printed(mgw: Mgw, workers: int) -> None:
    agents = f"agents:\n  DEFAULT_AGENT: {{options: {{workers: {workers}}}}}\n"
    mgw.ok("apply", mgw.file(CONFIGURATION + agents))
    with mgw.running():
        tap = subprocess.Popen(
            mgw.command("tap", "MOVE", "--count", "2", "--json"),
            cwd=mgw.folder,
            env=mgw.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            eventually(
                lambda: _began(mgw),
                deadline=60,
                tolerate=(AssertionError, sqlite3.OperationalError),
                what="the job shows its messages",
            )
            for text in ("a", "b"):
                mgw.ok("aq", "enqueue", "ONE", text)
            out, err = tap.communicate(timeout=90)
        finally:
            tap.kill()
            tap.wait()
    assert tap.returncode == 0, err
    seen = [json.loads(line) for line in out.splitlines()]
    assert [each["before"]["body"] for each in seen] == ["a", "b"]
    for moment in (seen[0]["time"], seen[0]["before"]["enqueue_time"]):
        assert datetime.fromisoformat(moment).utcoffset() == timedelta(0)
    assert [[after["headers"] for after in each["after"]] for each in seen] == [[{"seen": "yes"}]] * 2


def _began(mgw: Mgw) -> bool:
    with closing(sqlite3.connect(f"file:{mgw.folder}/hub.db?mode=ro", uri=True)) as hub:
        return bool(hub.execute("SELECT 1 FROM gw_tap WHERE began IS NOT NULL").fetchall())


def test_a_job_that_does_not_run_shows_nothing(applied: Mgw) -> None:
    assert applied.ok("tap", "orders_in", "--seconds", "0.1") == ""
    unknown = applied("tap", "nothing", "--seconds", "0.1")
    assert (unknown.code, "nothing" in unknown.err) == (1, True)
    assert applied("tap", "orders_in", "--per-second", "0").code == 78
