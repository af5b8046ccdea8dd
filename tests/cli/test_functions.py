"""Functions of Python that the hub keeps: every process that opens it calls the same ones."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.cli.conftest import ROOT, Mgw
from tests.support.waiting import eventually

CODE = """\
from dataclasses import replace


def kind(payload):
    return payload.split()[0]


def length(payload):
    return len(payload)


def loud(message):
    return None if "secret" in message.body else replace(message, body=message.body.upper())
"""
CONFIGURATION = """\
version: 1
settings:
  transform_modules: [plant_code]
  rule_functions:
    hr.kind: plant_code:kind
links:
  mem: {type: memory}
foreign_queues:
  out@mem: {domain: queue}
  plain@mem: {domain: queue}
queues:
  NEWS: {multiple_consumers: true, subscribers: {press: {rule: "hr.kind(tab.user_data) = 'press'"}, all: {}}}
  LOUD: {}
  PLAIN: {}
transformations:
  loud: {function: "plant_code:loud"}
jobs:
  loud_out: {type: outbound, source: LOUD, destination: out@mem, transformation: loud}
  plain_out: {type: outbound, source: PLAIN, destination: plain@mem}
"""


@pytest.fixture
def code(mgw: Mgw) -> Path:
    """A folder with the module ``plant_code``, named in PYTHONPATH."""
    folder = mgw.folder / "code"
    folder.mkdir()
    (folder / "plant_code.py").write_text(CODE, "utf-8")
    mgw.environ["PYTHONPATH"] = f"{folder}{os.pathsep}{ROOT}"
    return folder


@pytest.fixture
def applied(mgw: Mgw, code: Path) -> Mgw:
    """``mgw`` on a hub that holds :data:`CONFIGURATION`; no later command is given the file."""
    mgw.ok("apply", mgw.file(CONFIGURATION))
    return mgw


#: ``mgw run`` with the queues of the configuration on the broker that is in its own memory.
RUN = """\
import sys
from mgw.gateway.cli.main import execute
from mgw.links.memory.broker import MemoryBroker

for name in ("out", "plain"):
    MemoryBroker.get("default").queue(name)
sys.exit(execute(["run", *sys.argv[1:]]))
"""


@contextmanager
def running(mgw: Mgw, *words: str) -> Iterator[Callable[[], str]]:
    """``mgw run`` until it is up; gives its output so far."""
    log = mgw.folder / "output.txt"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", RUN, *words], cwd=mgw.folder, env=mgw.environment(), stdout=output, stderr=output
        )
        try:
            eventually(lambda: "up and running" in log.read_text(), what="the start", deadline=60)
            yield log.read_text
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()
            process.wait()


def job(mgw: Mgw, name: str) -> dict[str, object]:
    row: dict[str, object] = json.loads(mgw.ok("jobs", "show", name, "--json"))
    return row


def test_what_apply_stored_routes_messages_of_other_processes(applied: Mgw) -> None:
    applied.ok("aq", "enqueue", "NEWS", "--lines", stdin="press mill burns\nnote buy milk\n")
    found = applied.ok("aq", "dequeue", "NEWS", "-c", "press", "-n", "5", "--json").splitlines()
    assert [json.loads(line)["text"] for line in found] == ["press mill burns"]
    condition = "hr.kind(tab.user_data) = 'note'"
    assert "buy milk" in applied.ok("aq", "dequeue", "NEWS", "-c", "all", "--condition", condition)


def test_run_without_a_file_transforms_with_them(applied: Mgw) -> None:
    applied.ok("aq", "enqueue", "LOUD", "--lines", stdin="one\na secret\ntwo\n")
    with running(applied):
        eventually(lambda: job(applied, "loud_out")["propagated_total"] == 2, what="two messages", deadline=60)
        eventually(lambda: job(applied, "loud_out")["filtered_total"] == 1, what="one left out", deadline=60)


def test_a_module_that_cannot_be_imported_stops_its_own_job_alone_and_is_named(applied: Mgw, code: Path) -> None:
    applied.ok("aq", "enqueue", "PLAIN", "carried")
    applied.ok("aq", "enqueue", "LOUD", "waits")
    (code / "plant_code.py").rename(code / "moved_code.py")
    with running(applied) as said:
        eventually(lambda: job(applied, "plain_out")["propagated_total"] == 1, what="the other job", deadline=60)
        eventually(lambda: job(applied, "loud_out")["last_error_msg"] is not None, what="the error", deadline=60)
        reason = str(job(applied, "loud_out")["last_error_msg"])
        assert "module plant_code cannot be imported: ModuleNotFoundError" in reason
        assert "install the module where the gateway runs" in reason
        assert "plant_code" in said()
    refused = applied("aq", "enqueue", "NEWS", "press mill")
    assert (refused.code, "module plant_code cannot be imported" in refused.err) == (1, True), refused
    assert applied("aq", "enqueue", "PLAIN", "fine").code == 0


def test_a_running_agent_takes_another_function_without_a_restart(applied: Mgw, code: Path) -> None:
    file = CONFIGURATION.replace("plant_code:loud", "plant_code:quiet")
    (code / "plant_more.py").write_text("def quiet(message):\n    return None\n", "utf-8")
    file = file.replace("[plant_code]", "[plant_code, plant_more]").replace("plant_code:quiet", "plant_more:quiet")
    with running(applied):
        applied.ok("aq", "enqueue", "LOUD", "one")
        eventually(lambda: job(applied, "loud_out")["propagated_total"] == 1, what="the first", deadline=60)
        applied.ok("apply", applied.file(file))

        def left_out() -> bool:  # what is enqueued before the agent looks again still meets the function of before
            applied.ok("aq", "enqueue", "LOUD", "two")
            return int(str(job(applied, "loud_out")["filtered_total"])) > 0

        eventually(left_out, what="a later one left out", deadline=60)


def test_plan_apply_and_export_show_them(applied: Mgw) -> None:
    assert applied.ok("plan", "gateway.yaml").startswith("nothing to do")
    exported = applied.ok("export")
    assert "transform_modules:\n    - plant_code\n" in exported
    assert "hr.kind: plant_code:kind" in exported
    assert applied.ok("plan", applied.file(exported, "exported.yaml"), "--prune").startswith("nothing to do")
    changed = CONFIGURATION.replace(
        "hr.kind: plant_code:kind", "hr.kind: plant_code:length\n    size: plant_code:length"
    )
    shown = applied.ok("plan", applied.file(changed.replace("= 'press'", "= 5"), "changed.yaml"))
    assert "alter  rule function hr.kind (function: plant_code:kind -> plant_code:length)" in shown
    assert "create rule function size" in shown
    without = CONFIGURATION.partition("links:")[2]
    left = applied.ok("apply", applied.file(f"version: 1\nlinks:{without}", "without.yaml"))
    assert "not in the files, left alone: rule function hr.kind, module plant_code" in left


def test_commands_set_and_show_them(mgw: Mgw, code: Path) -> None:
    mgw.ok("apply", mgw.file("version: 1\nqueues:\n  Q: {}\n"))
    refused = mgw("functions", "set", "hr.kind", "plant_code:kind")
    assert (refused.code, "module plant_code is not allowed" in refused.err) == (1, True), refused
    assert mgw.ok("modules", "allow", "plant_code") == "module plant_code allowed\n"
    assert mgw.ok("functions", "set", "hr.kind", "plant_code:kind") == "rules may call hr.kind: plant_code:kind\n"
    assert mgw.ok("modules", "list").split() == ["MODULE", "plant_code"]
    assert json.loads(mgw.ok("modules", "list", "--json")) == ["plant_code"]
    assert "hr.kind  plant_code:kind" in mgw.ok("functions", "list")
    assert json.loads(mgw.ok("functions", "list", "--json")) == [{"name": "hr.kind", "function": "plant_code:kind"}]
    with closing(sqlite3.connect(mgw.folder / "hub.db")) as db:
        assert db.execute("SELECT NAME FROM MGW_MODULES").fetchall() == [("plant_code",)]
        assert db.execute("SELECT NAME, FUNCTION FROM MGW_RULE_FUNCTIONS").fetchall() == [
            ("HR.KIND", "plant_code:kind")
        ]
    used = mgw("modules", "forbid", "plant_code")
    assert (used.code, "used by function hr.kind" in used.err) == (1, True), used
    mgw.ok("functions", "drop", "HR.Kind")
    mgw.ok("modules", "forbid", "plant_code")
    assert mgw.ok("export").count("plant_code") == 0


def test_linting_registers_nothing_in_the_process(mgw: Mgw, code: Path) -> None:
    script = (
        "import sys; from mgw.gateway.config.lint import lint; assert lint([sys.argv[1]]) == []; "
        "from mgw.transforms.language.functions import functions; print(sorted(functions()))"
    )
    command = [sys.executable, "-c", script, mgw.file(CONFIGURATION)]
    done = subprocess.run(command, cwd=mgw.folder, env=mgw.environment(), capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


SCRIPT = """\
from mgw.gateway.state.gateway_hub import open_hub
from mgw.transforms.message import Message

with open_hub({url!r}) as hub, hub.session() as session:
    session.enqueue("NEWS", Message("press from Python"))
    session.commit()
"""
SPARK = """\
from mgw.pipelines.hub import open_hub
from mgw.gateway.aq.queues import transfer
from mgw.transforms.message import Message

with open_hub({url!r}) as hub, hub.write() as conn:
    transfer.put(conn, transfer.resolve(conn, "NEWS"), [Message("press from a pipeline")])
"""


@pytest.mark.parametrize("script", [SCRIPT, SPARK], ids=["application", "pipeline"])
def test_programs_of_others_have_them_too(applied: Mgw, script: str) -> None:
    text = script.format(url=applied.environment()["MGW_HUB"])
    subprocess.run([sys.executable, "-c", text], cwd=applied.folder, env=applied.environment(), check=True)
    assert "press from" in applied.ok("aq", "dequeue", "NEWS", "-c", "press")


# -- the current directory ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [None, "", ".", "relative"])
def test_what_lies_in_the_current_directory_is_not_imported(mgw: Mgw, path: str | None) -> None:
    (mgw.folder / "plant_code.py").write_text(f"open('run', 'w').close()\n{CODE}", "utf-8")
    mgw.ok("apply", mgw.file("version: 1\nqueues:\n  Q: {}\n"))
    mgw.ok("modules", "allow", "plant_code")
    if path is not None:
        mgw.environ["PYTHONPATH"] = f"{ROOT}{os.pathsep}{path}"
    refused = mgw("functions", "set", "hr.kind", "plant_code:kind")
    assert refused.code == 1
    assert "module plant_code is in the current directory" in refused.err
    assert "PYTHONPATH as an absolute path" in refused.err
    assert not (mgw.folder / "run").exists()
    mgw.environ["PYTHONPATH"] = f"{mgw.folder}{os.pathsep}{ROOT}"
    mgw.ok("functions", "set", "hr.kind", "plant_code:kind")
