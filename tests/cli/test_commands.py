"""The other commands: what they print at 80 columns, how they end, what they say about bad input."""

from __future__ import annotations

import json
import os
import pty
import re
import resource
import select
import signal
import socket
import sqlite3
import subprocess
import time
from pathlib import Path

import pytest

from mgw.gateway.cli.common import ago
from mgw.gateway.cli.main import _hub_first
from tests.cli.conftest import COMPLETE, Mgw

STATUS = """\
AGENT          STATUS       PING  HOST  PID  SINCE (UTC)
DEFAULT_AGENT  NOT_STARTED
SECOND         NOT_STARTED

LINK   TYPE    AGENT          JOBS  STATE    SINCE (UTC)
MEM    memory  DEFAULT_AGENT     2  UNKNOWN
OTHER  memory  SECOND            1  UNKNOWN

JOB        STATE     MOVED  BAD  LEFT OUT  WAITING  OLDEST  GUARANTEE
ALL_NEWS   DISABLED      0                       2     <T>
NEWS_OUT   STOPPED       0              1        1     <T>
ORDERS_IN  STOPPED       0

! agent DEFAULT_AGENT is NOT_STARTED
! agent SECOND is NOT_STARTED
"""


def test_status_at_80_columns(applied: Mgw) -> None:
    applied.ok("aq", "enqueue", "news", "for everybody", "--priority", "1")
    applied.ok("aq", "enqueue", "news", "by rule for one job only", "--priority", "5")
    shown = re.sub(r" +(\d+s)", lambda match: "<T>".rjust(len(match.group(0))), applied.ok("status"))
    assert "\n".join(line.rstrip() for line in shown.splitlines()) + "\n" == STATUS
    assert max(map(len, shown.splitlines())) <= 80


def test_long_names_and_errors_still_fit_into_80_columns(mgw: Mgw) -> None:
    name = "a_job_that_carries_the_orders_of_the_whole_plant_to_the_office_and_has_a_long_name"
    text = COMPLETE.replace("news_out:", f"{name}:").replace("other", "a_link_with_a_rather_long_name_as_well")
    mgw.ok("apply", mgw.file(text))
    for words in (("status",), ("top", "--count", "1"), ("jobs", "list"), ("links", "list"), ("queues", "list")):
        assert max(map(len, mgw.ok(*words).splitlines())) <= 80, words
    assert "".join(mgw.ok("jobs", "list").split()).count("A_JOB_THAT_CARRIES") == 1


LISTS = {
    ("status",): "AGENT STATUS PING HOST PID SINCE (UTC)",
    ("jobs", "list"): "JOB STATE MOVED BAD LEFT OUT WAITING OLDEST GUARANTEE",
    ("links", "list"): "LINK TYPE AGENT JOBS COMMENT",
    ("queues", "list"): "FOREIGN QUEUE DOMAIN NAME THERE",
    ("aq", "queues"): "QUEUE, SUBSCRIBER KIND HOLDS ON READY DELAYED EXPIRED OLDEST",
    ("aq", "tables", "list"): "TABLE HOLDS KIND SORT GROUPING COMPATIBLE SECURE COMMENT",
    ("aq", "subscribers", "list"): "QUEUE SUBSCRIBER RULE TRANSFORMATION",
    ("pipeline", "list"): "JOB WHAT IT DOES",
}


def test_headings_are_whole_at_80_columns_and_rows_where_there_is_no_terminal(mgw: Mgw) -> None:
    job = "a_job_that_carries_the_orders_of_the_whole_plant_to_the_office_and_has_a_long_name"
    queue = "queue_of_all_news_that_anybody_in_the_plant_may_read_at_any_time_or_leave_alone"
    mgw.ok("apply", mgw.file(COMPLETE.replace("news_out:", f"{job}:").replace("NEWS", queue.upper())))
    for words, headings in LISTS.items():
        shown = mgw.ok(*words).splitlines()
        assert max(map(len, shown)) <= 80, words
        assert shown[0].split() == headings.split(), words
        piped = mgw(*words, environ={"COLUMNS": ""}).lines()
        assert piped[0].split() == headings.split(), words
        assert all(line == line.rstrip() for line in piped)
    for words in (("jobs", "list"), ("status",)):
        assert any(line.startswith(f"{job.upper()}  ") for line in mgw(*words, environ={"COLUMNS": ""}).lines())


def test_the_longest_guarantee_does_not_fold_the_names_of_the_jobs(mgw: Mgw) -> None:
    mgw.ok("apply", mgw.file(COMPLETE.replace("news_out:", "telemetry_to_kafka:")))
    connection = sqlite3.connect(mgw.folder / "hub.db")
    with connection:
        connection.execute("UPDATE gw_job_state SET guarantee = 'exact-unless-broker-crash', propagated_total = 12345")
    connection.close()
    for words in (("jobs", "list"), ("status",)):
        shown = mgw.ok(*words)
        assert re.search(r"^TELEMETRY_TO_KAFKA +STOPPED +12345 .* exact\*", shown, re.MULTILINE), shown
        assert "* unless the broker itself crashes" in shown
    assert json.loads(mgw.ok("jobs", "list", "--json"))[0]["guarantee"] == "exact-unless-broker-crash"


def test_check_fails_while_an_agent_with_work_is_down(applied: Mgw) -> None:
    assert applied("status").code == 0
    assert applied("status", "--check").code == 1
    for job in ("orders_in", "news_out"):
        applied.ok("jobs", "disable", job)
    assert applied("status", "--check").code == 0


def test_status_as_json_has_every_column(applied: Mgw) -> None:
    found = json.loads(applied.ok("status", "--json"))
    assert [agent["agent_status"] for agent in found["agents"]] == ["NOT_STARTED", "NOT_STARTED"]
    job = next(job for job in found["jobs"] if job["job_name"] == "NEWS_OUT")
    assert (job["source"], job["backlog"], job["rule"]) == ("MGW.NEWS", 0, "tab.priority < 3")


def test_jobs_are_disabled_altered_and_removed_whatever_the_case_of_their_name(applied: Mgw) -> None:
    assert applied.ok("jobs", "disable", "Orders_In") == "job orders_in disabled\n"
    assert applied.ok("jobs", "alter", "ORDERS_IN", "--batch-size", "7", "--rule", "tab.priority > 1")
    shown = json.loads(applied.ok("jobs", "show", "orders_in", "--json"))
    assert (shown["enabled"], shown["rule"], shown["options"]) == (False, "tab.priority > 1", {"MsgBatchSize": 7})
    applied.ok("jobs", "alter", "orders_in", "--rule", "", "--poll-interval", "0")
    shown = json.loads(applied.ok("jobs", "show", "orders_in", "--json"))
    assert (shown["rule"], shown["poll_interval"]) == (None, 5.0)
    for given, kept in (("at-least-once", "at-least-once"), ("", None)):
        applied.ok("jobs", "alter", "news_out", "--require-guarantee", given)
        assert json.loads(applied.ok("jobs", "show", "news_out", "--json"))["require_guarantee"] == kept
    assert applied.ok("jobs", "reset", "orders_in") == "job orders_in reset\n"
    assert applied.ok("jobs", "enable", "orders_in") == "job orders_in enabled\n"
    applied.ok("jobs", "remove", "all_news", "--force")
    assert "ALL_NEWS" not in applied.ok("jobs", "list")


ENDS = """\
links:
  mem: {type: memory}
  far: {type: memory, broker: elsewhere}
foreign_queues:
  a@mem: {domain: queue}
  b@far: {domain: queue}
queues:
  FIRST: {}
  SECOND: {}
"""


def test_jobs_are_created_from_link_to_link_and_within_the_hub(mgw: Mgw) -> None:
    mgw.ok("apply", mgw.file(ENDS))
    ends = ("--source", "a@mem", "--destination", "b@far", "--batch-size", "50")
    assert mgw.ok("jobs", "create", "across", "--type", "through", *ends) == "job across created\n"
    local = ("--source", "FIRST", "--destination", "SECOND", "--disabled", "--comment", "inside the hub")
    mgw.ok("jobs", "create", "inside", "-t", "local", *local)
    across, inside = (json.loads(mgw.ok("jobs", "show", name, "--json")) for name in ("across", "inside"))
    assert (across["propagation_type"], across["source"], across["destination"]) == ("THROUGH", "A@MEM", "B@FAR")
    assert across["options"]["MsgBatchSize"] == 50
    assert (inside["propagation_type"], inside["link_name"], inside["enabled"]) == ("LOCAL", None, False)
    shown = " ".join(mgw.ok("status").split())
    assert "FAR memory DEFAULT_AGENT 1 UNKNOWN MEM memory DEFAULT_AGENT 1 UNKNOWN" in shown
    loop = mgw("jobs", "create", "loop", "-t", "through", "--source", "a@mem", "--destination", "a@mem")
    assert loop.code == 1
    assert "would read what it writes" in loop.err


def test_links_queues_agents_and_transformations_are_shown_altered_and_removed(applied: Mgw) -> None:
    assert "password" in applied.ok("links", "show", "MEM")
    applied.ok("links", "alter", "mem", "--set", "timeout=9", "--comment", "")
    shown = json.loads(applied.ok("links", "show", "mem", "--json"))
    assert (shown["timeout"], shown["comment"], shown["password"]) == (9.0, None, "***")
    assert "orders.bad" in applied.ok("queues", "list")
    assert json.loads(applied.ok("queues", "show", "BAD@mem", "--json"))["provider_queue"] == "orders.bad"
    applied.ok("agents", "alter", "second", "--max-threads", "9", "--option", "oracle.mgw.batch_size=")
    assert json.loads(applied.ok("agents", "show", "second", "--json"))["max_threads"] == 9
    assert applied.ok("agents", "startup", "second") == "agent second scheduled\n"
    assert applied.ok("agents", "shutdown", "second") == "agent second shuts down\n"
    assert "For rush orders" in applied.ok("transformations", "list")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("jobs", "show", "orders"), 1, "job 'orders' does not exist; did you mean 'ORDERS_IN'?"),
        (("jobs", "enable", "zzz"), 1, "ORA-32855: job 'zzz' does not exist; known: all_news, news_out, orders_in"),
        (("links", "remove", "mem"), 1, "ORA-32815: link mem cannot be removed; cause: foreign queues are registered"),
        (("queues", "remove", "orders@mem"), 1, "cannot be unregistered; cause: jobs use it"),
        (("agents", "remove", "DEFAULT_AGENT"), 1, "agent DEFAULT_AGENT cannot be removed"),
        (("jobs", "alter", "orders_in", "--poll-interval", "99"), 1, "it is 0.1 to 60 seconds"),
        (("jobs", "alter", "orders_in", "--option", "nonsense"), 2, "is not of the form NAME=VALUE"),
        (("links", "alter", "mem", "--set", "password=x"), 2, "use --password-file"),
        (("links", "alter", "mem", "--password-file", "nowhere"), 1, "nowhere cannot be read: No such file"),
        (("links", "alter", "zzz", "--set", "a=b"), 1, "ORA-32808: link 'zzz' does not exist; "),
        (("agents", "remove", "zzz"), 1, "ORA-32850: agent 'zzz' does not exist; "),
        (("queues", "remove", "zzz@zzz"), 1, "ORA-32810: foreign queue 'zzz@zzz' does not exist; "),
        (("subscribers", "alter", "zzz"), 1, "ORA-32812: subscriber 'zzz' does not exist; "),
        (("schedules", "remove", "zzz"), 1, "ORA-32814: schedule 'zzz' does not exist; "),
        (("aq", "dequeue", "ORDRS"), 1, "queue 'ORDRS' does not exist; did you mean 'ORDERS'?"),
        (("aq", "dequeue", "ORDERS"), 1, "ORA-25228: no message in queue ORDERS"),
        (("aq", "browse", "NEWS"), 1, "ORA-25231"),
        (("aq", "enqueue", "DUMP", "x"), 1, "ORA-25206"),
        (("aq", "enqueue", "ORDERS", "--file", "nowhere"), 1, "nowhere cannot be read"),
        (("aq", "enqueue", "ORDERS", "x", "-H", "y"), 2, "not of the form NAME=VALUE"),
        (("aq", "dequeue", "ORDERS", "--msgid", "xyz"), 2, "hexadecimal"),
        (("aq", "subscribers", "remove", "NEWS", "MGW_news_out"), 1, "belongs to a job"),
        (("jobs", "frobnicate"), 2, "No such command"),
        (("status", "--frobnicate"), 2, "No such option"),
        (("lint",), 2, "no configuration file: name FILE or --config-dir"),
        (("run", "--agent", "nobody"), 1, "nobody"),
        (("agents", "cleanup", "RESET_SUB_MISSING_MESSAGE", "orders_in"), 1, "job orders_in is READY; only a FAILED"),
        (("agents", "cleanup", "RESET_SUB_MISSING_MESSAGE", "zzz"), 1, "job 'zzz' does not exist"),
        (("agents", "cleanup", "SWEEP"), 1, "ORA-32802"),
    ],
)
def test_refusals_name_object_cause_and_cure(applied: Mgw, words: tuple[str, ...], code: int, said: str) -> None:
    result = applied(*words)
    assert (result.code, result.out) == (code, "")
    assert said in result.err
    if code == 1:
        assert result.err.startswith("mgw: error: ")
        assert result.err.count("\n") == 1


def test_password_whose_key_is_lost_is_set_again_as_the_error_says(applied: Mgw) -> None:
    (applied.folder / "hub.db.key").unlink()
    error = applied("export").err
    assert "if it is lost: mgw links alter mem --password-file FILE" in error
    (applied.folder / "FILE").write_text("another-secret\n", "utf-8")
    applied.ok(*error.rpartition("mgw ")[2].split())
    assert "${MEM_PASSWORD:-}" in applied.ok("export")


@pytest.mark.parametrize("words", [("status",), ("export",), ("jobs", "list"), ("run",), ("aq", "queues"), ("top",)])
def test_commands_without_a_hub_say_how_to_make_one(mgw: Mgw, words: tuple[str, ...]) -> None:
    result = mgw(*words)
    assert result.code == 1
    assert "does not exist" in result.err
    assert "mgw apply" in result.err
    assert not (mgw.folder / "hub.db").exists()


def test_database_that_is_no_hub_is_not_touched(mgw: Mgw) -> None:
    (mgw.folder / "hub.db").write_bytes(b"this is no database, it is a letter to my aunt")
    result = mgw("apply", mgw.file(COMPLETE))
    assert (result.code, "is not a hub" in result.err) == (1, True)
    assert (mgw.folder / "hub.db").read_bytes() == b"this is no database, it is a letter to my aunt"


def test_password_in_the_hub_url_is_never_printed(mgw: Mgw) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    result = mgw("status", "--hub", f"postgresql://me:sesame-open@127.0.0.1:{port}/db")
    assert result.code == 1
    assert "sesame-open" not in result.err
    assert str(port) in result.err


def test_time_manager_runs_once_by_hand_and_says_what_it_did(applied: Mgw) -> None:
    assert "0 made ready, 0 expired, 0 removed, 0 returned" in applied.ok("aq", "time-manager")
    applied.ok("aq", "enqueue", "orders", "x", "--expiration", "0")
    assert json.loads(applied.ok("aq", "time-manager", "--json")) == {
        "made_ready": 0,
        "expired": 1,
        "removed": 0,
        "returned": 0,
        "expirations": [{"queue": "ORDERS", "exception_queue": "AQ$_ORDERS_TAB_E", "messages": 1}],
    }
    assert "queue ORDERS: 1 message(s) expired" in applied.ok("events", "--object", "ORDERS")


def test_events_of_an_object_are_its_own_latest_however_many_others_came_since(applied: Mgw) -> None:
    for queue in ("orders", "ONE", "ONE"):
        applied.ok("aq", "enqueue", queue, "x", "--expiration", "0")
        applied.ok("aq", "time-manager")
    (only,) = applied.ok("events", "--object", "orders", "-n", "1").splitlines()
    assert "queue ORDERS: 1 message(s) expired" in only
    assert len(json.loads(applied.ok("events", "--object", "one", "--json"))) == 2


def test_changes_of_administration_are_among_the_events_on_request(applied: Mgw) -> None:
    applied.ok("aq", "enqueue", "orders", "x", "--expiration", "0")
    applied.ok("aq", "time-manager")
    applied.ok("jobs", "alter", "news_out", "--batch-size", "7")
    assert "Administration" not in applied.ok("events")
    *lines, altered = applied.ok("events", "--audit", "--since", "10m").splitlines()
    assert sum("queue ORDERS: 1 message(s) expired" in line for line in lines) == 1
    assert " INFO Administration news_out: alter job news_out (" in altered
    assert altered.endswith(" (cli)")
    (only,) = json.loads(applied.ok("events", "--audit", "--object", "news_out", "-n", "1", "--json"))
    assert (only["event_name"], only["object_name"]) == ("Administration", "news_out")
    assert applied.ok("events", "--audit", "--level", "warning") == applied.ok("events", "--level", "warning")


def test_events_are_chosen_by_time_and_importance(applied: Mgw) -> None:
    applied.ok("aq", "enqueue", "orders", "x", "--expiration", "0")
    applied.ok("aq", "time-manager")
    assert "queue ORDERS: 1 message(s) expired" in applied.ok("events", "--since", "10m", "--level", "info")
    assert applied.ok("events", "--since", "2999-01-01T00:00") == ""
    assert applied.ok("events", "--level", "CRITICAL") == ""
    for wrong in (("--since", "soon"), ("--level", "loud")):
        refused = applied("events", *wrong)
        assert refused.code == 2
        assert f"{wrong[0]} '{wrong[1]}' is no" in refused.err


def test_messages_go_in_and_come_out_byte_for_byte(applied: Mgw) -> None:
    raw = bytes(range(256))
    applied.ok("aq", "enqueue", "orders", "--raw", "-", stdin=raw)
    (applied.folder / "body").write_text("grüß dich\n", "utf-8")
    applied.ok("aq", "enqueue", "orders", "-f", "body", "-p", "0", "--correlation", "c-1", "-H", "who=me")
    seen = [json.loads(line) for line in applied.ok("aq", "browse", "orders", "--json").splitlines()]
    assert [each["priority"] for each in seen] == [0, 1]
    assert (seen[0]["text"], seen[0]["correlation"], seen[0]["headers"]) == (
        "grüß dich\n",
        "c-1",
        [["who", "TEXT", "me"]],
    )
    assert applied.ok("aq", "dequeue", "orders", "--correlation", "c-%", "--body") == "grüß dich\n"
    done = subprocess.run(
        applied.command("aq", "dequeue", "orders", "--body"),
        cwd=applied.folder,
        env=applied.environment(),
        capture_output=True,
        check=True,
    )
    assert done.stdout == raw


def test_body_that_is_no_text_is_refused_and_nothing_is_stored(applied: Mgw) -> None:
    result = applied("aq", "enqueue", "orders", "-", stdin=b"\xff\xfe")
    assert (result.code, "add --raw" in result.err) == (1, True)
    assert applied("aq", "dequeue", "orders").code == 1


def test_every_line_of_the_input_can_be_a_message(applied: Mgw) -> None:
    assert len(applied.ok("aq", "enqueue", "orders", "--lines", stdin="a\nb\nc\n").splitlines()) == 3
    found = applied.ok("aq", "dequeue", "orders", "-n", "10", "--json").splitlines()
    assert [json.loads(line)["text"] for line in found] == ["a", "b", "c"]


def test_subscribers_get_what_their_rule_says(applied: Mgw) -> None:
    applied.ok("aq", "subscribers", "add", "NEWS", "me", "--rule", "tab.priority > 7")
    applied.ok("aq", "enqueue", "NEWS", "late", "-p", "9")
    applied.ok("aq", "enqueue", "NEWS", "soon", "-p", "1")
    assert "me" in applied.ok("aq", "queues")
    assert applied.ok("aq", "dequeue", "NEWS", "-c", "me", "--body", "-n", "5") == "late"
    applied.ok("aq", "subscribers", "remove", "NEWS", "me")
    assert "tab.priority > 7" not in applied.ok("aq", "subscribers", "list")


def test_help_is_quick_and_loads_no_client_and_no_database(mgw: Mgw) -> None:
    script = (
        "import sys; from mgw.gateway.cli.main import execute; code = execute(['--help']); "
        "heavy = {'sqlalchemy', 'pika', 'kafka', 'paho', 'pydantic', 'rich', 'ruamel', 'apscheduler', 'cryptography'}; "
        "heavy |= {'sqlglot', 'argon2', 'starlette'}; "
        "print(sorted(heavy & set(sys.modules)), code, file=sys.stderr)"
    )
    command = [mgw.command()[0], "-c", script]
    done = subprocess.run(command, env=mgw.environment(), capture_output=True, text=True, check=True)
    assert done.stderr == "[] 0\n"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(mgw.command("--help"), env=mgw.environment(), capture_output=True, check=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    assert seconds < 0.6  # of a processor, with the start of Python; 0.13 on an idle machine


def test_the_hub_may_be_named_anywhere_on_the_line() -> None:
    assert _hub_first(["status", "--hub", "u", "--json"]) == ["--hub", "u", "status", "--json"]
    assert _hub_first(["aq", "enqueue", "Q", "--hub=u", "--", "--hub"]) == [
        "--hub=u",
        "aq",
        "enqueue",
        "Q",
        "--",
        "--hub",
    ]


def test_unexpected_faults_show_no_traceback_unless_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from mgw.gateway.cli import main

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a fault")

    monkeypatch.setattr(main, "command", broken)
    assert main.execute(["status"]) == 1
    shown = capsys.readouterr().err
    assert shown.startswith("mgw: unexpected ZeroDivisionError: a fault")
    assert "Traceback" not in shown
    monkeypatch.setenv("MGW_DEBUG", "1")
    assert main.execute(["status"]) == 1
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(None, ""), (-1, "0s"), (0.4, "0s"), (119, "119s"), (120, "2m"), (7200, "2h"), (200_000, "2d")],
)
def test_ages_are_short(seconds: float | None, shown: str) -> None:
    assert ago(seconds) == shown


def test_run_applies_its_files_carries_on_and_stops_cleanly(mgw: Mgw) -> None:
    file = mgw.file(COMPLETE)
    log = mgw.folder / "output.txt"
    with log.open("wb") as output:
        process = subprocess.Popen(
            mgw.command("run", file), cwd=mgw.folder, env=mgw.environment(), stdout=output, stderr=output
        )
    try:
        _until(lambda: "up and running" in log.read_text(), process)
        agents = json.loads(mgw.ok("status", "--json"))["agents"]
        assert (agents[0]["agent_status"], agents[0]["agent_ping"]) == ("RUNNING", "REACHABLE")
        second = mgw("run")
        assert (second.code, "already running" in second.err) == (1, True)
        mgw.file(COMPLETE.replace("timeout: 7", "timeout: 8"))
        process.send_signal(signal.SIGHUP)
        _until(lambda: "alter  link mem (timeout: 7.0 -> 8.0)" in log.read_text(), process)
        mgw.file("links:\n  mem: {type: memory, nonsense: 1}\n")
        process.send_signal(signal.SIGHUP)
        _until(lambda: "configuration not applied" in log.read_text(), process)
        events = json.loads(mgw.ok("events", "--level", "ERROR", "--json"))
        assert [(row["event_name"], row["object_name"]) for row in events] == [
            ("ConfigurationRefused", "DEFAULT_AGENT")
        ]
        assert events[0]["event_text"].startswith("configuration not applied: gateway.yaml:2:23: error unknown-key: ")
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
    agents = json.loads(mgw.ok("status", "--json"))["agents"]
    assert agents[0]["agent_status"] == "NOT_STARTED"
    assert "sesame-open-42" not in log.read_text()
    assert {row["event_name"] for row in json.loads(mgw.ok("events", "--json"))} >= {"AgentRunning", "AgentStopped"}


def _until(true: object, process: subprocess.Popen[bytes], seconds: float = 20) -> None:
    assert callable(true)
    deadline = time.monotonic() + seconds
    while not true():
        assert process.poll() is None, "mgw run has ended"
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.05)


def test_version_is_shown(tmp_path: Path) -> None:
    done = subprocess.run(
        Mgw(tmp_path).command("--version"), env=Mgw(tmp_path).environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("mgw ")


@pytest.mark.parametrize(
    ("line", "known"),
    [
        ("jobs show or", ["orders_in"]),
        ("links prepare m", ["mem"]),
        ("queues show orders@", ["orders@mem"]),
        ("transformations show u", ["urgent"]),
        ("agents show s", ["second"]),
        ("aq browse N", ["NEWS"]),
        ("init --to k", ["kafka"]),
        ("jobs show OR", ["ORDERS_IN"]),
        ("aq browse new", ["news"]),
        ("run --agent s", ["second"]),
        ("agents cleanup --agent s", ["second"]),
        ("jobs create j --type outbound --transformation u", ["urgent"]),
        ("jobs remove orders_in --move-to N", ["NEWS"]),
        ("jobs create j --type inbound --source orders@", ["orders@mem"]),
        ("aq browse NEWS --consumer MGW_N", ["MGW_NEWS_OUT"]),
        ("aq subscribers alter NEWS mgw_n", ["mgw_news_out"]),
    ],
)
def test_shell_completion_knows_the_objects_of_the_hub(applied: Mgw, line: str, known: list[str]) -> None:
    words = {"_MGW_COMPLETE": "complete_bash", "COMP_WORDS": f"mgw {line}", "COMP_CWORD": str(len(line.split()))}
    assert applied(environ=words).out.split() == known


def test_top_in_a_terminal_shows_the_jobs_and_leaves_with_q(applied: Mgw) -> None:
    ours, theirs = pty.openpty()
    try:
        process = subprocess.Popen(
            applied.command("top", "--interval", "60"),
            cwd=applied.folder,
            env=applied.environment({"TERM": "xterm", "LINES": "24"}),
            stdin=theirs,
            stdout=theirs,
            stderr=subprocess.PIPE,
        )
        os.close(theirs)
        shown = b""
        while b"ORDERS_IN" not in shown:
            assert select.select([ours], [], [], 20)[0], shown
            shown += os.read(ours, 65536)
        os.write(ours, b"q")
        assert process.wait(20) == 0
        assert process.stderr is not None
        with process.stderr:
            assert process.stderr.read() == b""
    finally:
        os.close(ours)


def test_what_has_no_effect_is_said_wherever_it_shows(applied: Mgw) -> None:
    applied.file("agents: {second: {service: batch}}\n")
    assert applied("apply", "gateway.yaml").err.count("no effect") == 1
    shown = json.loads(applied.ok("agents", "show", "second", "--json"))
    assert (shown["service"], shown["no_effect"]) == ("batch", ["conntype", "service"])
    assert "service: batch # stored, has no effect" in re.sub(" +", " ", applied.ok("export"))


def test_agent_option_with_a_typing_error_is_refused_with_the_right_name(applied: Mgw) -> None:
    refused = applied("agents", "alter", "second", "--option", "ledger_retension=60")
    assert refused.code == 1
    assert "did you mean ledger_retention?" in refused.err
