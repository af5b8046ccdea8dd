"""``mgw aq`` for queue tables, queues and subscribers, and the same in configuration files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from mgw.gateway.aq.model import DequeueOptions
from mgw.gateway.cli.main import execute
from mgw.gateway.config.lint import lint
from mgw.gateway.state.gateway_hub import open_hub
from tests.cli.conftest import Mgw

QUEUES = """\
version: 1
queue_tables:
  WIDE: {payload_type: text, multiple_consumers: true, compatible: "12.2", storage_clause: TABLESPACE users,
         primary_instance: 1, secondary_instance: 2, comment: for all}
queues:
  EVENTS:
    queue_table: WIDE
    subscribers:
      red:
      green: {rule: "tab.priority < 3"}
      blue: {delivery_mode: persistent_or_buffered}
  ALONE: {primary_instance: 4, compatible: "8.1"}
  NEWS: {multiple_consumers: true}
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a hub that holds :data:`QUEUES`; take a copy."""
    mgw = Mgw(tmp_path_factory.mktemp("queues"))
    mgw.ok("apply", mgw.file(QUEUES))
    return mgw.folder


@pytest.fixture
def queues(mgw: Mgw, made: Path) -> Mgw:
    """``mgw`` with a hub that holds :data:`QUEUES`."""
    shutil.copytree(made, mgw.folder, dirs_exist_ok=True)
    return mgw


def test_a_queue_is_made_changed_stopped_and_dropped(queues: Mgw) -> None:
    assert queues.ok("aq", "tables", "create", "T", "--type", "text", "--sort", "priority") == "queue table T created\n"
    assert queues.ok("aq", "create", "Q", "-t", "t", "--max-retries", "2") == "queue Q created in queue table T\n"
    queues.ok("aq", "enqueue", "q", "x", "--delay", "100")
    assert queues.ok("aq", "alter", "q", "--retention", "infinite", "--comment", "kept") == "queue Q altered\n"
    (held,) = (each for each in json.loads(queues.ok("aq", "queues", "--json")) if each["name"] == "Q")
    assert (held["max_retries"], held["retention_time"], held["comment"]) == (2, -1, "kept")
    assert queues("aq", "drop", "q").err.startswith("mgw: error: ORA-24011: ")
    assert queues.ok("aq", "stop", "q", "--wait", "5") == "queue Q stopped\n"
    assert "ORA-25207" in queues("aq", "enqueue", "q", "y").err
    assert queues.ok("aq", "start", "q") == "queue Q started\n"
    queues.ok("aq", "stop", "q", "--no-enqueue")
    queues.ok("aq", "enqueue", "q", "y")
    assert "ORA-25226" in queues("aq", "dequeue", "q").err
    queues.ok("aq", "stop", "q")
    refused = queues("aq", "drop", "q")
    assert refused.code == 1
    assert "it holds 2 messages, the oldest is " in refused.err
    assert queues.ok("aq", "drop", "q", "--force").startswith("queue Q dropped; 2 messages, the oldest is ")
    assert queues.ok("aq", "tables", "drop", "t") == "queue table T dropped\n"


def test_object_types_are_made_listed_and_dropped(queues: Mgw) -> None:
    assert queues.ok("aq", "types", "create", "OE.Line", "item=VARCHAR2(30)", "amount = number") == (
        "object type OE.Line created\n"
    )
    queues.ok("aq", "types", "create", "oe.lines", "--array", "VARRAY(9) OF oe.line")
    shown = queues.ok("aq", "types", "list")
    assert "item VARCHAR2(30), amount NUMBER" in shown
    assert max(map(len, shown.splitlines())) <= 80
    array, line = sorted(json.loads(queues.ok("aq", "types", "list", "--json")), key=lambda each: each["array"] or "z")
    assert (array["array"], line["attributes"]) == (
        "VARRAY(9) OF OE.LINE",
        {"item": "VARCHAR2(30)", "amount": "NUMBER"},
    )
    assert "ORA-02303" in queues("aq", "types", "drop", "oe.line").err
    assert queues.ok("aq", "types", "drop", "OE.LINES") == "object type oe.lines dropped\n"
    assert queues.ok("aq", "types", "drop", "OE.LINE") == "object type OE.Line dropped\n"


def test_queue_tables_are_listed_altered_migrated_and_dropped_with_force(queues: Mgw) -> None:
    shown = queues.ok("aq", "tables", "list")
    assert "WIDE" in shown
    assert max(map(len, shown.splitlines())) <= 80
    queues.ok("aq", "tables", "alter", "wide", "--comment", "other", "--primary-instance", "0")
    queues.ok("aq", "tables", "migrate", "wide", "10.0")
    (held,) = (each for each in json.loads(queues.ok("aq", "tables", "list", "--json")) if each["name"] == "WIDE")
    assert (held["comment"], held["primary_instance"], held["secondary_instance"]) == ("other", 0, 0)
    assert (held["compatible"], held["storage_clause"]) == ("10.0", "TABLESPACE users")
    assert "ORA-24012" in queues("aq", "tables", "drop", "wide").err
    queues.ok("aq", "tables", "drop", "wide", "--force")
    assert "WIDE" not in queues.ok("aq", "tables", "list")


def test_purge_says_what_went(queues: Mgw) -> None:
    queues.ok("aq", "enqueue", "EVENTS", "a", "-p", "1")
    queues.ok("aq", "enqueue", "EVENTS", "b", "-p", "5")
    done = queues.ok("aq", "tables", "purge", "wide", "--where", "qtview.consumer_name = 'RED'")
    assert done == "queue table WIDE purged: 0 message(s) removed, 2 entries of consumers\n"
    done = queues.ok("aq", "tables", "purge", "wide", "--all")
    assert done == "queue table WIDE purged: 2 message(s) removed, 3 entries of consumers\n"


def test_purge_and_stop_are_refused_while_a_session_has_messages(queues: Mgw) -> None:
    queues.ok("aq", "enqueue", "EVENTS", "a")
    with open_hub(f"sqlite:///{queues.folder}/hub.db") as hub, hub.session() as session:
        session.dequeue("EVENTS", DequeueOptions("red", wait=0))
        assert "ORA-00054" in queues("aq", "tables", "purge", "wide", "--all").err
        assert "ORA-00054" in queues("aq", "tables", "purge", "wide", "--all", "--wait", "0.1").err
        assert "ORA-24018" in queues("aq", "stop", "EVENTS", "--wait", "0").err
        session.rollback()
    queues.ok("aq", "tables", "purge", "wide", "--all", "--block")


REFUSED: list[tuple[tuple[str, ...], int, str]] = [
    (("aq", "tables", "purge", "wide"), 2, "give either --where with a condition, or --all"),
    (("aq", "tables", "purge", "wide", "--all", "--where", "1=1"), 2, "give either --where"),
    (("aq", "tables", "purge", "wide", "--where", "qtview.nothing = 1"), 1, "ORA-25448"),
    (("aq", "tables", "alter", "wide"), 2, "nothing to change"),
    (("aq", "tables", "alter", "wide", "--secondary-instance", "3"), 1, "ORA-24078"),
    (("aq", "tables", "migrate", "wide", "8.0"), 1, "ORA-24059"),
    (("aq", "tables", "drop", "wiide"), 1, "did you mean 'WIDE'?"),
    (("aq", "tables", "create", "wide"), 1, "ORA-24001"),
    (("aq", "create", "EVENTS", "-t", "wide"), 1, "ORA-24006"),
    (("aq", "create", "OTHER", "-t", "wide", "--exception", "--max-retries", "3"), 1, "ORA-24074"),
    (("aq", "alter", "EVENTS"), 2, "nothing to change"),
    (("aq", "alter", "EVENTS", "--retention", "long"), 2, "neither a number of seconds nor INFINITE"),
    (("aq", "types", "create", "T"), 2, "give either attributes as NAME=DECLARATION, or --array"),
    (("aq", "types", "create", "T", "x=DATE", "--array", "VARRAY(1) OF DATE"), 2, "give either attributes"),
    (("aq", "types", "create", "T", "x"), 2, "attribute 'x' is not of the form NAME=DECLARATION"),
    (("aq", "types", "create", "T", "x=DATE", "x=DATE"), 2, "attribute x is given twice"),
    (("aq", "types", "create", "T", "x=BFILE"), 1, "ORA-00902"),
    (("aq", "types", "drop", "nothing"), 1, "object type 'nothing' does not exist"),
    (("aq", "subscribers", "add", "ALONE", "me"), 1, "ORA-24039"),
    (("aq", "subscribers", "alter", "EVENTS", "me"), 1, "ORA-24035"),
    (("aq", "subscribers", "alter", "EVENTS", "MGW_job"), 1, "belongs to a job"),
]


def test_refusals_are_explained(
    queues: Mgw, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MGW_HUB", f"sqlite:///{queues.folder}/hub.db")
    for words, code, expected in REFUSED:
        assert execute(list(words)) == code, words
        assert expected in capsys.readouterr().err, words


def test_subscribers_are_added_altered_and_listed(queues: Mgw) -> None:
    queues.ok("aq", "subscribers", "add", "EVENTS", "late", "--rule", "tab.priority > 7")
    queues.ok("aq", "subscribers", "alter", "EVENTS", "late", "--rule", "tab.priority > 8")
    queues.ok("aq", "subscribers", "alter", "EVENTS", "green")
    found = json.loads(queues.ok("aq", "subscribers", "list", "EVENTS", "--json"))
    rules = {each["name"]: each["rule"] for each in found}
    assert rules == {"red": None, "green": None, "blue": None, "late": "tab.priority > 8"}


def test_file_exported_and_applied_again_changes_nothing(queues: Mgw) -> None:
    assert queues.ok("apply", "gateway.yaml").startswith("nothing to do")
    text = queues.ok("export")
    assert queues.ok("apply", queues.file(text, "export.yaml")).startswith("nothing to do")
    other = f"sqlite:///{queues.folder}/second.db"
    queues.ok("apply", "--hub", other, "export.yaml")
    assert queues.ok("export", "--hub", other) == text


def test_alterations_of_tables_and_subscribers_are_made(queues: Mgw) -> None:
    changed = (
        QUEUES.replace('compatible: "12.2"', 'compatible: "10.0"')
        .replace("secondary_instance: 2", "secondary_instance: 3")
        .replace("comment: for all", "comment: for some")
        .replace("red:\n", "pink:\n")
        .replace("tab.priority < 3", "tab.priority < 4")
        .replace("primary_instance: 4", "primary_instance: 5")
    )
    out = queues.ok("apply", queues.file(changed, "changed.yaml"))
    assert "alter  queue table WIDE (" in out
    assert "secondary_instance: 2 -> 3" in out
    assert "compatible: 12.2 -> 10.0" in out
    assert "alter  queue ALONE (primary_instance: 4 -> 5)" in out
    assert queues.ok("apply", "changed.yaml").startswith("nothing to do")
    names = [each["name"] for each in json.loads(queues.ok("aq", "subscribers", "list", "EVENTS", "--json"))]
    assert sorted(names) == ["blue", "green", "pink"]


def test_missing_key_leaves_subscribers_alone(queues: Mgw) -> None:
    queues.ok("aq", "subscribers", "add", "NEWS", "me")
    assert queues.ok("apply", "gateway.yaml").startswith("nothing to do")
    without = queues.file(
        QUEUES.replace("NEWS: {multiple_consumers: true}", "NEWS: {multiple_consumers: true, subscribers: {}}")
    )
    assert "alter  queue NEWS" in queues.ok("apply", without)
    assert "me" not in queues.ok("aq", "subscribers", "list", "NEWS")


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("payload_type: text", "payload_type: raw", "queue table WIDE"),
        ("storage_clause: TABLESPACE users", "storage_clause: other", "queue table WIDE"),
        ("blue: {delivery_mode: persistent_or_buffered}", "blue: {}", "subscriber blue"),
    ],
)
def test_what_is_fixed_is_refused_with_the_way_out(queues: Mgw, old: str, new: str, named: str) -> None:
    result = queues("apply", queues.file(QUEUES.replace(old, new), "changed.yaml"))
    assert result.code == 78, result
    assert named in result.err
    assert queues.ok("apply", "gateway.yaml").startswith("nothing to do")


@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [
        ('compatible: "12.2"', 'compatible: "8.0"', "bad-value: compatible '8.0' is not supported"),
        ("primary_instance: 1, ", "", "bad-value: a secondary instance needs a primary one"),
        ("primary_instance: 4", "primary_instance: -4", "bad-value: primary_instance cannot be -4"),
        ("multiple_consumers: true, comp", "comp", "bad-value: a single-consumer queue has no subscribers"),
        ("red:", "MGW_red:", "bad-value: 'MGW_red': names with MGW_ belong to jobs"),
        ("red:", "AQ$_red:", "bad-value: subscriber name 'AQ$_red' is reserved"),
        ("tab.priority < 3", "tab.priority <", "bad-rule: "),
        ("{rule:", "{rulle:", "unknown-key: key 'rulle' is not known; did you mean 'rule'?"),
        ("persistent_or_buffered", "buffered", "bad-value: delivery_mode cannot be 'BUFFERED'"),
    ],
)
def test_findings(old: str, new: str, finding: str, tmp_path: Path) -> None:
    assert old in QUEUES
    path = tmp_path / "queues.yaml"
    path.write_text(QUEUES.replace(old, new, 1), "utf-8")
    found = [str(each) for each in lint([path], {})]
    assert any(finding in each for each in found), found
