"""Agents, foreign queues and transformations made with commands are those that ``mgw apply`` makes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from mgw.gateway.aq.hub import Hub
from mgw.gateway.services.admin import GatewayAdmin
from tests.cli.conftest import Mgw

CONFIGURATION = """\
version: 1
agents:
  DEFAULT_AGENT: {comment: all day}
  night: {max_threads: 3, max_memory: 99, initfile: mgw.ora, comment: late, options: {oracle.mgw.batch_size: 40}}
links:
  mem: {type: memory, agent: night}
foreign_queues:
  orders@mem: {domain: queue, provider_queue: orders.raw, comment: theirs}
  plain@mem: {domain: queue}
transformations:
  urgent: {from_type: json, to_type: json, set: {priority: "0"}, comment: rush}
"""


@pytest.fixture
def empty(mgw: Mgw) -> Mgw:
    """``mgw`` with a hub that holds nothing."""
    mgw.ok("hub", "create")
    return mgw


def test_a_hub_is_created_once_and_nothing_else_is_touched(mgw: Mgw) -> None:
    assert mgw("agents", "list").err.find("create it with mgw hub create or mgw apply FILE") > 0
    made = mgw.ok("hub", "create").splitlines()
    assert (made[0].endswith("/hub.db created"), made[1].startswith("next: mgw aq create, ")) == (True, True)
    before = (mgw.folder / "hub.db").read_bytes()
    assert mgw.ok("hub", "create").endswith("/hub.db is there already; nothing was changed\n")
    assert (mgw.folder / "hub.db").read_bytes() == before
    Hub.open(f"sqlite:///{mgw.folder}/queues.db", create=True).close()
    assert "the tables of the gateway were added" in mgw.ok(
        "hub", "create", "--hub", f"sqlite:///{mgw.folder}/queues.db"
    )
    mgw.file("a text of nobody's database", "notes.txt")
    refused = mgw("hub", "create", "--hub", f"sqlite:///{mgw.folder}/notes.txt")
    assert (refused.code, "is not a hub" in refused.err) == (1, True)
    assert (mgw.folder / "notes.txt").read_text() == "a text of nobody's database"
    assert "cure: write sqlite:///data/hub.db" in mgw("hub", "create", "--hub", "data/hub.db").err
    secret = mgw("hub", "create", "--hub", "gw:secret@db.example").err
    assert ("correct --hub, MGW_HUB or settings.hub" in secret, "secret@" in secret) == (True, False)
    with sqlite3.connect(mgw.folder / "hub.db") as connection:
        connection.execute("UPDATE aq_hub SET schema_version = 1")
    connection.close()
    assert "written by an older release" in mgw("hub", "create").err


def test_what_a_hub_is_called_does_not_decide_whether_there_is_one(mgw: Mgw) -> None:
    """The texts of errors hold the name of the hub."""
    new = f"sqlite:///{mgw.folder}/lacks the tables.db"
    assert mgw.ok("hub", "create", "--hub", new).splitlines()[0].endswith("/lacks the tables.db created")


def test_commands_make_what_a_file_makes(empty: Mgw) -> None:
    mgw = empty
    file = mgw.file(CONFIGURATION)
    mgw.file("log_level = 1\n", "mgw.ora")
    night = ("--max-threads", "3", "--max-memory", "99", "--comment", "late", "--option", "oracle.mgw.batch_size=40")
    assert mgw.ok("agents", "create", "night", *night, "--initfile", "mgw.ora") == "agent night created\n"
    assert mgw.ok("agents", "alter", "--comment", "all day") == "agent DEFAULT_AGENT altered\n"
    mgw.ok("links", "create", "mem", "--type", "memory", "--agent", "night")
    there = ("--provider-queue", "orders.raw", "--domain", "queue", "--comment", "theirs")
    assert mgw.ok("queues", "register", "orders@mem", *there) == "foreign queue orders@mem registered\n"
    mgw.ok("queues", "register", "plain@mem", "--domain", "QUEUE")
    types = ("--from-type", "json", "--to-type", "json")
    low = mgw.file('{"set": {"priority": "9"}}', "low.json")
    mgw.ok("transformations", "create", "urgent", *types, "--definition", low)
    assert not mgw.ok("plan", file).startswith("nothing to do")
    high = mgw.file('{"set": {"priority": "0"}}', "high.json")
    mgw.ok("transformations", "alter", "URGENT", "--definition", high, "--comment", "rush")
    assert mgw.ok("plan", file).startswith("nothing to do")
    exported = mgw.ok("export")
    other = Mgw(mgw.folder, {"MGW_HUB": f"sqlite:///{mgw.folder}/other.db"})
    other.ok("apply", file)
    assert json.loads(mgw.ok("transformations", "show", "urgent")) == json.loads(
        other.ok("transformations", "show", "urgent")
    )
    assert exported.upper() == other.ok("export").upper()


def test_an_option_of_an_agent_is_stored_encrypted_from_a_file(empty: Mgw) -> None:
    mgw = empty
    file = mgw.file("41\n", "size.txt")
    mgw.ok("agents", "create", "night", "--encrypted-option", f"oracle.mgw.batch_size={file}", "--option", "workers=2")
    shown = json.loads(mgw.ok("agents", "show", "night", "--json"))
    assert shown["options"] == {"oracle.mgw.batch_size": "<<ENCRYPTED>>", "workers": 2}
    refused = mgw("agents", "alter", "night", "--encrypted-option", "workers=")
    assert (refused.code, "to remove it: --option workers=" in refused.err) == (2, True)
    mgw.ok("agents", "alter", "night", "--option", "oracle.mgw.batch_size=", "--encrypted-option", f"workers={file}")
    assert json.loads(mgw.ok("agents", "show", "night", "--json"))["options"] == {"workers": "<<ENCRYPTED>>"}


def test_every_documented_parameter_of_an_agent_has_an_option(empty: Mgw) -> None:
    mgw = empty
    mgw.file("first-secret\nanother line\n", "first.txt")
    login = ("--username", "night", "--password-file", "first.txt")
    rest = ("--database", "far", "--conntype", "JDBC_THIN", "--service", "batch")
    mgw.ok("agents", "create", "night", *login, *rest)
    with _secret(mgw) as password:
        assert password("night") == "first-secret"
    assert _login(mgw, "night") == ("night", "far", "JDBC_THIN", "batch")
    altered = ("--username", "late", "--password-file", "-", "--database", "", "--conntype", "JDBC_OCI")
    assert mgw.ok("agents", "alter", "NIGHT", *altered, "--service", "", stdin="second\n") == "agent night altered\n"
    assert _login(mgw, "night") == ("late", None, "JDBC_OCI", None)
    assert mgw.ok("agents", "alter", "night", "--comment", "kept") == "agent night altered\n"
    with _secret(mgw) as password:
        assert password("night") == "second"
    assert mgw.ok("agents", "remove-login", "NIGHT") == "login of agent night removed\n"
    with _secret(mgw) as password:
        assert password("night") is None
    assert _login(mgw, "night") == (None, None, "JDBC_OCI", None)


def test_db_connect_info_sets_the_login_of_the_default_agent(empty: Mgw) -> None:
    mgw = empty
    assert mgw("agents", "db-connect-info", "gw").code == 2
    for database in ("there", ""):
        words = ("gw", "--password-file", "-", "--database", database)
        assert mgw.ok("agents", "db-connect-info", *words, stdin="open") == "agent DEFAULT_AGENT altered\n"
        assert _login(mgw, "DEFAULT_AGENT")[:2] == ("gw", database or None)
    with _secret(mgw) as password:
        assert password("DEFAULT_AGENT") == "open"
    mgw.ok("agents", "remove-login")
    assert _login(mgw, "DEFAULT_AGENT")[:2] == (None, None)


def test_a_login_that_is_none_is_refused_and_says_what_to_do(empty: Mgw) -> None:
    mgw = empty
    mgw.file("secret\n", "p.txt")
    asked = mgw("agents", "create", "night", "--username", "n")
    assert (asked.code, "--password-file" in asked.err) == (2, True)
    for words, said in (
        (("create", "night", "--password-file", "p.txt"), "user name and password go together"),
        (("create", "night", "--database", "far"), "a database needs a user name"),
        (("create", "night", "--conntype", "ODBC"), "one of JDBC_OCI, JDBC_THIN"),
        (("alter", "--password-file", "p.txt"), "a password needs a user name"),
        (("alter", "--username", ""), "mgw agents remove-login"),
        (("alter", "--password-file", "nowhere.txt"), "nowhere.txt cannot be read"),
    ):
        refused = mgw("agents", *words)
        assert (refused.code, said in refused.err) == (1, True), refused
    assert "night" not in mgw.ok("agents", "list")


@contextmanager
def _secret(mgw: Mgw) -> Iterator[Callable[[str], str | None]]:
    """What the hub keeps of the password of an agent, in clear text."""
    with Hub.open(f"sqlite:///{mgw.folder}/hub.db") as hub:
        yield GatewayAdmin(hub).agent_password


def _login(mgw: Mgw, name: str) -> tuple[str | None, ...]:
    shown = json.loads(mgw.ok("agents", "show", name, "--json"))
    return tuple(shown[each] for each in ("username", "database", "conntype", "service"))


def test_subscribers_and_schedules_are_made_altered_and_removed(applied: Mgw) -> None:
    ends = ("--type", "outbound", "--source", "NEWS", "--destination", "bad@mem")
    options = ("--option", "MsgBatchSize=9", "--rule", "tab.priority < 3")
    assert applied.ok("subscribers", "create", "Half", *ends, *options).endswith("; it has no schedule\n")
    assert applied("jobs", "show", "half").code == 1
    assert applied.ok("schedules", "create", "Often", *ends, "--latency", "2") == "schedule Often created\n"
    applied.ok("subscribers", "alter", "half", "--rule", "", "--option", "MsgBatchSize=")
    applied.ok("schedules", "disable", "OFTEN")
    job = json.loads(applied.ok("jobs", "show", "half", "--json"))
    assert (job["enabled"], job["poll_interval"], job["rule"], job["options"]) == (False, 2, None, {})
    applied.ok("schedules", "enable", "often")
    assert applied.ok("schedules", "alter", "often") == "schedule Often altered\n"
    found = {row["schedule_id"]: row for row in json.loads(applied.ok("schedules", "list", "--json"))}
    assert (found["OFTEN"]["latency"], found["OFTEN"]["schedule_disabled"]) == (5, False)
    assert "ORA-32856" in applied("schedules", "remove", "news_out").err
    assert applied.ok("subscribers", "remove", "half") == "subscriber Half removed\n"
    assert "did you mean 'Often'" in applied("schedules", "remove", "ofen").err
    applied.ok("schedules", "remove", "often")
    assert "OFTEN" not in applied.ok("schedules", "list")


def test_outbound_schedules_are_made_and_removed_and_are_in_no_file(applied: Mgw) -> None:
    applied.ok("apply", applied.file("queues: {FILES: {payload_type: RAW, multiple_consumers: true}}\n", "files.yaml"))
    before = applied.ok("export")
    windows = ("--start-time", "2030-01-31T22:00", "--duration", "600", "--next-time", "SYSDATE + 1", "--latency", "0")
    made = applied.ok("outbound-schedules", "create", "files", "bad@mem", *windows)
    assert made == "outbound schedule of files to bad@mem created; job HQ$_1, exception queue HQ$_1_E\n"
    assert applied.ok("export") == before
    (row,) = json.loads(applied.ok("outbound-schedules", "list", "--json"))
    assert (row["job_name"], row["latency"], row["window_open"], row["disabled"]) == ("HQ$_1", 0, False, False)
    assert (row["window_begin"], row["window_end"]) == ("2030-01-31T22:00:00Z", "2030-01-31T22:10:00Z")
    assert "opens 2030-01-31 22:00:00" in applied.ok("outbound-schedules", "list")
    assert "mgw outbound-schedules remove files bad@mem" in applied("jobs", "remove", "hq$_1").err
    applied.ok("aq", "enqueue", "FILES", "x")
    assert "ORA-20004" in applied("outbound-schedules", "remove", "files", "bad@mem").err
    gone = applied.ok("outbound-schedules", "remove", "FILES", "bad@mem", "--force")
    assert gone == "outbound schedule of FILES to bad@mem removed\n"
    assert applied.ok("export") == before


def test_what_is_refused_leaves_nothing_behind(empty: Mgw) -> None:
    mgw = empty
    mgw.ok("links", "create", "mem", "--type", "memory")
    text = mgw.file("[1]", "list.json")
    broken = mgw.file("{", "broken.json")
    wrong = mgw.file('{"set": {"priority": "tab."}}', "wrong.json")
    types = ("--from-type", "json", "--to-type", "json", "--definition")
    before = mgw.ok("export")
    for code, said, words in (
        (1, "ORA-32840", ("agents", "create", "night", "--option", "oracle.mgw.batch_sise=40")),
        (1, "ORA-32841", ("agents", "create", "night", "--option", "oracle.mgw.batch_size=0")),
        (1, "ORA-32843", ("agents", "create", "night", "--max-threads", "129")),
        (1, "ORA-32851", ("agents", "create", "default_agent")),
        (2, "QUEUE@LINK", ("queues", "register", "orders")),
        (2, "QUEUE@LINK", ("queues", "register", "@mem")),
        (1, "ORA-32808", ("queues", "register", "orders@nosuch", "--domain", "queue")),
        (1, "ORA-32802", ("queues", "register", "orders@mem", "--domain", "street")),
        (1, "ORA-32801", ("transformations", "create", "x", *types, wrong)),
        (1, "not a JSON object", ("transformations", "create", "x", *types, text)),
        (1, "not JSON", ("transformations", "create", "x", *types, broken)),
        (1, "cannot be read", ("transformations", "create", "x", *types, "nosuch.json")),
    ):
        result = mgw(*words)
        assert (result.code, said in result.err) == (code, True), (words, result)
    assert mgw.ok("export") == before
    mgw.ok("queues", "register", "orders@mem", "--domain", "queue")
    assert "ORA-32809" in mgw("queues", "register", "ORDERS@mem", "--domain", "queue").err
