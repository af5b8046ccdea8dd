"""``mgw test``: tests of mappings next to the configuration."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

from mgw.gateway.services.mapping_tests import run
from mgw.transforms.errors import ConfigInvalid
from tests.cli.conftest import Mgw

CONFIGURATION = """\
transformations:
  wrap: {set: {body: "'{}'", body.n: TO_NUMBER(tab.user_data), header.seen: "'yes'"}, where: priority < 9}
"""


def lines(tests: str, folder: Path) -> dict[str, tuple[str, ...]]:
    (folder / "gateway.yaml").write_text(CONFIGURATION, "utf-8")
    file = folder / "gateway_test.yaml"
    file.write_text("tests:\n" + tests, "utf-8")
    return {verdict.name: verdict.lines for verdict in run(file, {})}


GOOD = """\
  a number is wrapped:
    transformation: wrap
    message: {body: "4", correlation: c}
    expect: {body: {n: 4}, headers: {seen: "yes"}}
  several:
    transformation: wrap
    messages: [{body: "4"}, {body: "5", priority: 9}, {body: "6"}]
    expect: [{body: {n: 4}, headers: {seen: "yes"}}, {body: {n: 6}, headers: {seen: "yes"}}]
  later:
    transformation: wrap
    message: {body: "4", priority: 9}
    filtered: true
  no number:
    transformation: wrap
    message: {body: four}
    fails: {number: 722, text: four}
"""


def test_what_is_as_expected_passes(tmp_path: Path) -> None:
    assert set(lines(GOOD, tmp_path).values()) == {()}


@pytest.mark.parametrize("moment", ["2026-11-20T10:57:34Z", "'2026-11-20T11:57:34+01:00'", "1795172254"])
def test_a_time_may_be_written_as_commands_show_it(moment: str, tmp_path: Path) -> None:
    text = (
        f'  t: {{transformation: wrap, message: {{body: "4", enqueue_time: {moment}}}, expect: {{body: {{n: 4}}, '
        'headers: {seen: "yes"}, enqueue_time: 1795172254}}\n'
    )
    assert lines(text, tmp_path) == {"t": ()}


def test_a_difference_is_shown_line_by_line(tmp_path: Path) -> None:
    text = '  t: {transformation: wrap, message: {body: "4"}, expect: {body: {n: 5}, headers: {seen: "yes"}}}\n'
    shown = lines(text, tmp_path)["t"]
    assert shown[0] == "message 1 (- expected, + came):"
    assert '-     "n": 5' in shown
    assert '+     "n": 4' in shown


@pytest.mark.parametrize(
    ("expected", "line"),
    [
        ("filtered: true", "expected to be filtered, but went out:"),
        ("fails: {number: 722}", "expected to fail, but 1 message(s) went out"),
        ("expect: []", "expected 0 message(s), 1 went out"),
    ],
)
def test_another_outcome_is_told(expected: str, line: str, tmp_path: Path) -> None:
    shown = lines(f'  t: {{transformation: wrap, message: {{body: "4"}}, {expected}}}\n', tmp_path)
    assert shown["t"][0] == line


@pytest.mark.parametrize(
    ("test", "text"),
    [
        ("{transformation: wrap, message: {}}", "a test has one of expect, filtered, fails"),
        ("{message: {}, filtered: true}", "a test has one of job, transformation"),
        ("{transformation: wrap, message: {bdy: x}, filtered: true}", "gateway_test.yaml:2"),
    ],
)
def test_a_test_that_cannot_be_meant_is_refused_with_its_place(test: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match=text):
        lines(f"  t: {test}\n", tmp_path)


CONNECTED = """\
links:
  rabbit: {type: rabbitmq, hostname: "${BROKER}", port: "${PORT}", username: gw, password: "${PASSWORD}"}
  office: {type: rabbitmq, hostname: b, username: gw, password_file: /run/secrets/none}
foreign_queues:
  orders@rabbit: {domain: queue}
  copies@office: {domain: queue}
queues:
  ORDERS: {payload_type: json}
transformations:
  wrap: {set: {body: "'{}'", body.n: TO_NUMBER(tab.user_data)}}
jobs:
  orders_in: {type: inbound, source: orders@rabbit, destination: ORDERS, transformation: wrap, rule: tab.priority < 9}
  copies_out: {type: outbound, source: ORDERS, destination: copies@office}
"""
JOBS = """\
configuration: CONFIGURATION
tests:
  in: {job: orders_in, message: {body: "4"}, expect: {body: {n: 4}}}
  late: {job: orders_in, message: {body: "4", priority: 9}, filtered: true}
  out: {job: copies_out, message: {body: {n: 4}, headers: {a: 1}}, expect: {}}
"""


def test_jobs_are_tested_without_what_their_links_need(tmp_path: Path) -> None:
    (tmp_path / "connected.yaml").write_text(CONNECTED, "utf-8")
    file = tmp_path / "jobs_test.yaml"
    for name in ("connected.yaml", "[connected.yaml]"):
        file.write_text(JOBS.replace("CONFIGURATION", name), "utf-8")
        assert {verdict.name: verdict.lines for verdict in run(file, {})} == {"in": (), "late": (), "out": ()}


def test_an_error_of_the_configuration_is_told(tmp_path: Path) -> None:
    (tmp_path / "jobs.yaml").write_text(CONNECTED.replace("username", "usrname"), "utf-8")
    (tmp_path / "jobs_test.yaml").write_text(JOBS.replace("configuration: CONFIGURATION\n", ""), "utf-8")
    with pytest.raises(ConfigInvalid, match="usrname"):
        list(run(tmp_path / "jobs_test.yaml", {}))


def test_the_command_runs_all_files_below_a_folder(mgw: Mgw) -> None:
    mgw.file(CONFIGURATION, "plant/gateway.yaml")
    mgw.file("tests:\n" + GOOD, "plant/gateway_test.yaml")
    assert mgw.ok("test").splitlines()[-1] == "4 passed, 0 failed, 1 file(s)"
    mgw.file(CONFIGURATION, "other.yaml")
    mgw.file("tests:\n  t: {transformation: wrap, message: {body: a}, filtered: true}\n", "other_test.yaml")
    shown = mgw("test", ".")
    assert shown.code == 1
    assert shown.lines()[0] == "FAILED other_test.yaml: t"
    assert shown.lines()[-1] == "4 passed, 1 failed, 2 file(s)"
    mgw.file("tests: {}\n", "third_test.yaml")
    shown = mgw("test", "third_test.yaml", "plant")
    assert shown.code == 78
    assert "third_test.yaml" in shown.err
    assert shown.lines()[-1] == "4 passed, 0 failed, 2 file(s)"


def test_a_folder_without_tests_passes_nothing(mgw: Mgw) -> None:
    assert mgw("test").code == 1


def test_the_schema_of_test_files_accepts_what_the_command_does(mgw: Mgw) -> None:
    validator = Draft202012Validator(json.loads(mgw.ok("schema", "--tests")))
    for text in ("tests:\n" + GOOD, JOBS):
        validator.validate(YAML(typ="safe").load(StringIO(text)))
    assert not validator.is_valid({"tests": {"t": {"transformation": "x", "message": {"bdy": "x"}}}})


def test_one_message_is_run_by_hand(applied: Mgw) -> None:
    words = ("transform", "--job", "orders_in", "--file", "-")
    shown = applied.ok(*words, stdin="body: {urgent: true}\npriority: 7\n")
    assert shown == (
        'before\n{\n  "body": {\n    "urgent": true\n  },\n  "priority": 7\n}\n'
        'after\n{\n  "body": {\n    "urgent": true\n  },\n  "priority": 0\n}\n'
    )
    as_json = json.loads(applied.ok(*words, "--json", stdin="body: {urgent: false}\n"))
    assert as_json == {"before": {"body": {"urgent": False}}, "filtered": "the transformation"}
    failed = applied(*words, stdin="body: text\n")
    assert failed.code == 1
    assert failed.lines()[-1].startswith("failed: [722]")


@pytest.mark.parametrize(
    ("words", "given", "code", "text"),
    [
        (("--file", "-"), "", 2, "name one of --job and --transformation"),
        (("--job", "orders_in", "--transformation", "urgent", "--file", "-"), "", 2, "name one of"),
        (("--transformation", "nothing", "--file", "-"), "body: x", 1, "nothing"),
        (("--transformation", "urgent", "--file", "-"), "bdy: x", 78, "bdy"),
        (("--transformation", "urgent", "--file", "-"), 'body_hex: "0"', 78, "hexadecimal"),
        (("--transformation", "urgent", "--file", "none.yaml"), "", 1, "none.yaml cannot be read"),
    ],
)
def test_what_cannot_be_run_is_refused(applied: Mgw, words: tuple[str, ...], given: str, code: int, text: str) -> None:
    shown = applied("transform", *words, stdin=given)
    assert (shown.code, text in shown.err) == (code, True), shown
