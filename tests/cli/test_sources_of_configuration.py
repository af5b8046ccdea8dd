"""Where a configuration comes from: a folder, a file of variables, values on the command line."""

from __future__ import annotations

import signal
import subprocess

import pytest

from tests.cli.conftest import Mgw
from tests.support.waiting import eventually

LINK = 'version: 1\nlinks:\n  mem: {type: memory, username: gw, password: "${LINK_PASSWORD}", timeout: 7}\n'


def test_a_folder_stands_for_its_files_by_name(mgw: Mgw) -> None:
    mgw.file(LINK, "conf.d/10-links.yaml")
    mgw.file("foreign_queues:\n  orders@mem: {domain: queue}\n", "conf.d/20-queues.yaml")
    mgw.file("not: yaml: at all", "conf.d/notes.txt")
    assert mgw.ok("lint", "--config-dir", "conf.d") == "conf.d: no problems found\n"
    assert mgw.ok("apply", "--config-dir", "conf.d").splitlines()[-1] == "2 created"
    mgw.file("queues:\n  Q: {}\n", "more.yaml")
    assert mgw.ok("plan", "more.yaml", "--config-dir", "conf.d").splitlines()[-1] == "1 to be created, 2 unchanged"
    mgw.file("queues:\n  Q: {}\n", "conf.d/30-twice.yaml")
    result = mgw("lint", "more.yaml", "--config-dir", "conf.d")
    assert result.code == 78
    assert "30-twice.yaml:2" in result.out
    assert "already defined at more.yaml:2" in result.out
    (mgw.folder / "empty").mkdir()
    assert "the folder holds no *.yaml" in mgw("lint", "--config-dir", "empty").out
    assert mgw("lint").code == 2


@pytest.mark.parametrize(
    "tests",
    ["tests: {}\n", "configuration: x.yaml\n'tests':\n  a: {b: c\n", "tests:\n  a: {message: {body: ${BODY}}}\n"],
    ids=["empty", "no YAML", "a variable"],
)
def test_a_file_of_a_folder_is_left_out_only_if_it_holds_tests(mgw: Mgw, tests: str) -> None:
    mgw.file("version: 1\nqueues:\n  ONE: {}\n", "conf.d/line.yaml")
    mgw.file("queues:\n  TWO: {}\n", "conf.d/plant_test.yaml")
    mgw.file(tests, "conf.d/line_test.yaml")
    assert mgw.ok("apply", "--config-dir", "conf.d").splitlines()[-1] == "2 created"
    assert mgw.ok("apply", "--prune", "--config-dir", "conf.d").splitlines() == [
        "nothing to do: 2 objects match the files"
    ]
    mgw.file("queues: {\n", "conf.d/plant_test.yaml")
    assert mgw("apply", "--prune", "--config-dir", "conf.d").code == 78


def test_variables_come_from_a_file_unless_they_are_set(mgw: Mgw) -> None:
    file = mgw.file("version: 1\nqueues:\n  Q: {comment: '${A} ${B} ${C}'}\n")
    mgw.file("# of the site\n\nexport A=one\nB='two words'\nC=three\n", "site.env")
    mgw.environ["C"] = "set"
    mgw.ok("apply", file, "--env-file", "site.env")
    assert "comment: one two words set" in mgw.ok("export")
    mgw.file("just words\n", "bad.env")
    result = mgw("lint", file, "--env-file", "bad.env")
    assert result.code == 78
    assert "bad.env:1 is not a variable" in result.err
    assert mgw("lint", file, "--env-file", "nowhere.env").code == 78


def test_a_value_of_the_command_line_wins(mgw: Mgw) -> None:
    file = mgw.file(LINK)
    mgw.ok("apply", file, "--set", "links.MEM.timeout=9", "--set", "links.mem.comment=for ${LINK_PASSWORD}")
    shown = mgw.ok("links", "show", "mem")
    assert "9" in shown
    assert "timeout: 9.0 -> 7.0" in mgw.ok("plan", file)
    assert mgw.ok("plan", file, "--set", "links.mem.timeout=8").splitlines()[0].startswith("alter  link mem")


def test_a_value_that_belongs_nowhere_is_refused(mgw: Mgw) -> None:
    file = mgw.file(LINK)
    for given, told in (
        ("links.nosuch.timeout=1", "'links.nosuch.timeout' names no setting"),
        ("links.mem.timeout.more=1", "names no setting"),
        ("nothing", "names no setting"),
        ("links.mem.tiemout=1", "did you mean 'timeout'"),
        ("links.mem.password=x", "others can see it here"),
        ("settings.log.format=xml", "format cannot be 'xml'"),
        ("links.mem.timeout=[", "--set links.mem.timeout"),
    ):
        result = mgw("lint", file, "--set", given)
        assert result.code == 78, given
        assert told in result.out, result.out
        assert given.partition("=")[0] in result.out


def test_the_daemon_reads_folder_and_values_again(mgw: Mgw) -> None:
    mgw.file("version: 1\nqueues:\n  Q: {}\n", "conf.d/1.yaml")
    command = mgw.command("run", "--config-dir", "conf.d", "--set", "queues.Q.max_retries=33", "--http", "off")
    process = subprocess.Popen(command, cwd=mgw.folder, env=mgw.environment(), stdout=subprocess.DEVNULL)
    try:
        eventually(lambda: "RUNNING" in mgw("status").out, deadline=60)
        mgw.file("queues:\n  LATER: {}\n", "conf.d/2.yaml")
        process.send_signal(signal.SIGHUP)
        eventually(lambda: "LATER" in mgw.ok("export"), deadline=60)
        assert "max_retries: 33" in mgw.ok("export")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("file", ["-", "/dev/stdin"])
def test_standard_input_is_a_file(mgw: Mgw, file: str) -> None:
    """From a pipe, which can be read once: each command reads its files several times."""
    given = "version: 1\nlinks:\n  mem: {type: memory, username: gw, password_file: secrets/p.txt}\nqueues: {Q: {}}\n"
    mgw.file("secret\n", "secrets/p.txt")
    shown = "standard input" if file == "-" else file
    assert mgw.ok("lint", file, stdin=given) == f"{shown}: no problems found\n"
    assert mgw.ok("plan", file, stdin=given).splitlines()[-1] == "2 to be created"
    assert mgw.ok("apply", file, stdin=given).splitlines()[-1] == "2 created"
    assert mgw.ok("apply", file, stdin=given) == "nothing to do: 2 objects match the files\n"
    more = mgw.file("queues: {R: {}}\n", "more.yaml")
    assert mgw.ok("plan", more, file, stdin=given).splitlines()[-1] == "1 to be created, 2 unchanged"
    assert f"configuration {shown}: 2 created" in mgw.ok("audit")


def test_what_is_wrong_on_standard_input_has_its_place(mgw: Mgw) -> None:
    for command in ("lint", "plan", "apply"):
        refused = mgw(command, "-", stdin="queues:\n  Q: {colour: red}\n")
        assert refused.code == 78
        assert "standard input:2:7: error unknown-key" in refused.out + refused.err
        empty = mgw(command, "-")
        assert (empty.code, "the file is empty" in empty.out + empty.err) == (78, True)
    assert "larger than 4194304 bytes" in mgw("lint", "-", stdin="#" * 4_194_305).out
    refused = mgw("run", "-", stdin="queues: {Q: {}}\n")
    assert (refused.code, "name a file in place of standard input" in refused.err) == (2, True)
