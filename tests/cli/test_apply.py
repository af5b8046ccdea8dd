"""Plan, apply, export: the same file twice changes nothing; a run that was cut off is finished by the next."""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import sqlite3
import subprocess
import time
from pathlib import Path

import pytest

from mgw.gateway.config.export import export_text
from mgw.gateway.config.lint import check
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.state.gateway_hub import open_hub
from tests.cli.conftest import COMPLETE, Mgw

OBJECTS = 24  # in COMPLETE
SECRET = "sesame-open-42"


def test_apply_creates_everything_and_says_so(mgw: Mgw) -> None:
    lines = mgw.ok("apply", mgw.file(COMPLETE)).splitlines()
    assert lines[0].startswith("create hub sqlite:///")
    assert lines[-1] == f"{OBJECTS} created"
    assert "create job orders_in" in lines
    assert len(lines) == OBJECTS + 2


def test_apply_again_does_nothing(applied: Mgw) -> None:
    assert applied.ok("apply", "gateway.yaml") == f"nothing to do: {OBJECTS} objects match the files\n"


def test_plan_changes_nothing(mgw: Mgw) -> None:
    out = mgw.ok("plan", mgw.file(COMPLETE))
    assert out.splitlines()[-1] == f"{OBJECTS} to be created"
    assert not (mgw.folder / "hub.db").exists()


def test_apply_with_dry_run_is_the_plan(applied: Mgw) -> None:
    text = COMPLETE.replace("timeout: 7", "timeout: 8")
    file = applied.file(text.replace("  TWO: {queue_table: SHARED", "  SIX: {queue_table: SHARED"))
    for more in ((), ("--prune",)):
        shown = applied.ok("apply", file, "--dry-run", *more)
        assert shown == applied.ok("plan", file, *more)
        assert "link mem (timeout: 7.0 -> 8.0)" in shown
        assert "create queue SIX" in shown
        assert ("remove queue TWO" in shown) == bool(more)
    assert "timeout: 7" in applied.ok("export")
    assert "SIX" not in applied.ok("export")


def test_export_applies_to_nothing_without_the_secret(applied: Mgw) -> None:
    (applied.folder / "export.yaml").write_text(applied.ok("export"), "utf-8")
    del applied.environ["LINK_PASSWORD"]
    assert applied.ok("lint", "export.yaml") == "export.yaml: no problems found\n"
    assert applied.ok("apply", "export.yaml") == f"nothing to do: {OBJECTS} objects match the files\n"


def test_export_of_a_hub_made_from_an_export_is_the_same_text(applied: Mgw) -> None:
    text = applied.ok("export")
    applied.file(text, "export.yaml")
    other = ("--hub", f"sqlite:///{applied.folder}/second.db")
    applied.ok("apply", *other, "export.yaml")
    placeholder = "    password: ${MEM_PASSWORD:-}\n"
    assert placeholder in text
    without = text.partition("version: 1\n")[2].replace(placeholder, "")  # the second hub never learned the password
    assert applied.ok("export", *other) == f"version: 1\n{without}"
    applied.environ["MEM_PASSWORD"] = SECRET
    assert applied.ok("apply", *other, "export.yaml").startswith("alter  link mem (password: set)\n")
    assert applied.ok("export", *other) == text


def test_default_agent_is_there_from_the_start(mgw: Mgw) -> None:
    file = mgw.file("agents:\n  default_agent: {}\n")
    assert mgw.ok("plan", file).splitlines()[-1] == "nothing to do: 1 objects match the files"
    assert mgw.ok("apply", file).splitlines()[-1] == "nothing to do: 1 objects match the files"
    changed = mgw.file("agents:\n  DEFAULT_AGENT: {max_threads: 4}\n", "changed.yaml")
    line = "alter  agent DEFAULT_AGENT (max_threads: 16 -> 4)"
    assert mgw.ok("plan", changed) == f"{line}\n1 to be altered\n"
    assert mgw.ok("apply", changed) == f"{line}\n1 altered\n"
    assert mgw.ok("apply", changed) == "nothing to do: 1 objects match the files\n"
    assert mgw.ok("export") == "version: 1\nagents:\n  DEFAULT_AGENT:\n    max_threads: 4\n"


TWO_PASSWORDS = """\
agents:
  n: {username: night, password: first-secret}
links:
  n: {type: memory, username: gw, password: second-secret}
"""


def test_password_of_an_agent_is_compared_and_every_secret_has_a_variable_of_its_own(mgw: Mgw) -> None:
    file = mgw.file(TWO_PASSWORDS)
    mgw.ok("apply", file)
    assert mgw.ok("apply", file) == "nothing to do: 2 objects match the files\n"
    exported = mgw.ok("export", "-o", "exported.yaml") or (mgw.folder / "exported.yaml").read_text("utf-8")
    assert "    password: ${N_PASSWORD:-}\n" in exported
    assert "    password: ${N_PASSWORD_2:-}\n" in exported
    mgw.environ |= {"N_PASSWORD": "first-secret", "N_PASSWORD_2": "other-secret"}
    assert mgw.ok("plan", "exported.yaml").startswith("alter  link n (password: *** -> ***)\n1 to be altered")


def test_login_of_an_agent_goes_as_the_warning_advises(mgw: Mgw) -> None:
    agent = mgw.file("agents:\n  n: {username: night, password: first-secret, database: hub2, comment: late}\n")
    assert "leave it out" in mgw("lint", agent).err + mgw("lint", agent).out
    mgw.ok("apply", agent)
    without = mgw.file("agents:\n  n: {comment: late}\n", "without.yaml")
    assert mgw.ok("apply", without).startswith("alter  agent n (username: night -> none, ")
    assert mgw.ok("apply", without) == "nothing to do: 1 objects match the files\n"
    assert mgw.ok("export") == "version: 1\nagents:\n  n:\n    comment: late\n"


def test_password_goes_with_its_user_name_or_by_an_empty_text(mgw: Mgw) -> None:
    link = "{type: memory, username: gw, password: p-a-s-s}"
    mgw.ok("apply", mgw.file(f"links:\n  a: {link}\n  b: {link}\n"))
    changed = mgw.file("links:\n  a: {type: memory}\n  b: {type: memory, username: gw, password: ''}\n")
    assert mgw.ok("apply", changed).splitlines() == [
        "alter  link a (username: gw -> none, password: removed)",
        "alter  link b (password: removed)",
        "2 altered",
    ]
    assert mgw.ok("apply", changed).startswith("nothing to do")


TEXTS = [
    "",
    " lead",
    "trail ",
    "a\nb",
    "a\r\nb",
    "\t",
    "\x85",
    "\u2028",
    "\uf8f0",
    "${A}",
    "$${A}",
    "${",
    "null",
    "1",
    "0x1f",
]
TEXTS += ["2026-11-20", "a: b", "- a", "#a", "{a}", "[a]", "!a", "&a", "*a", "%a", "'", '"', "\\n", "é \U0001f600"]


def test_every_text_comes_back_from_an_export(tmp_path: Path) -> None:
    with open_hub(f"sqlite:///{tmp_path}/hub.db", create=True) as hub:
        admin = GatewayAdmin(hub)
        for number, text in enumerate(TEXTS):
            admin.create_transformation(f"t{number}", "TEXT", "TEXT", {"set": {"priority": "1"}}, text)
        (tmp_path / "exported.yaml").write_text(export_text(hub), "utf-8")
    found = check([tmp_path / "exported.yaml"], {})
    assert found.ok
    read = {name: each.comment for name, each in found.document.transformations.items()}
    assert read == {f"t{number}": text for number, text in enumerate(TEXTS)}


def test_secret_is_nowhere_to_be_seen(mgw: Mgw) -> None:
    file = mgw.file(COMPLETE)
    changed = mgw.file(COMPLETE.replace("${LINK_PASSWORD}", "${LINK_PASSWORD}-new"), "changed.yaml")
    runs = [
        mgw("lint", file),
        mgw("plan", file),
        mgw("apply", file),
        mgw("plan", changed),
        mgw("plan", "--json", changed),
        mgw("apply", changed),
        mgw("export"),
        mgw("links", "show", "mem"),
        mgw("links", "show", "mem", "--json"),
        mgw("links", "test", "mem"),
        mgw("status", "--json"),
        mgw("events", "--json"),
    ]
    assert [run.code for run in runs] == [0] * len(runs)
    assert all(SECRET not in run.out + run.err for run in runs)
    assert "alter  link mem (password: *** -> ***)" in runs[5].out
    stored = b"".join(path.read_bytes() for path in mgw.folder.glob("hub.db*"))
    assert SECRET.encode() not in stored


def test_alterations_are_shown_and_made(applied: Mgw) -> None:
    changed = (
        COMPLETE.replace("batch_size: 200, poll_interval: 2.5", "batch_size: 300")
        .replace("max_retries: 100", "max_retries: 7")
        .replace("enabled: false, comment: later", "enabled: true")
        .replace("timeout: 7", "timeout: 8")
        .replace("tab.priority < 3", "tab.priority < 4")
        .replace(
            "max_threads: 4, options: {oracle.mgw.batch_size: 40}", "max_threads: 5, options: {ledger_retention: 60}"
        )
        .replace('{priority: "0"}', '{priority: "2"}')
    )
    out = applied.ok("apply", applied.file(changed, "changed.yaml"))
    assert "alter  job orders_in (poll_interval: 2.5 -> none, options.msgbatchsize: 200 -> 300)" in out
    assert "alter  queue ORDERS (max_retries: 100 -> 7)" in out
    assert "alter  job all_news (enabled: false -> true, comment: later -> none)" in out
    options = "options.oracle.mgw.batch_size: 40 -> none, options.ledger_retention: none -> 60"
    assert f"alter  agent second (max_threads: 4 -> 5, {options})" in out
    assert out.splitlines()[-1] == f"7 altered, {OBJECTS - 7} unchanged"
    assert applied.ok("apply", "changed.yaml").startswith("nothing to do")
    exported = applied.ok("export")
    assert "rule: tab.priority < 4" in exported
    assert "max_retries: 7" in exported


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("provider_queue: factory.news", "provider_queue: factory.other", "foreign queue news@other"),
        ("NEWS: {multiple", "NEWS: {sort_list: priority, multiple", "queue NEWS"),
        ("SHARED: {payload_type: text}", "SHARED: {payload_type: json}", "queue table SHARED"),
        ("other: {type: memory, agent: second}", "other: {type: memory}", "link other"),
        ("source: orders@mem, destination: ORDERS", "source: orders@mem, destination: ONE", "job orders_in"),
    ],
)
def test_what_cannot_be_altered_is_refused_with_the_way_out(applied: Mgw, old: str, new: str, named: str) -> None:
    text = COMPLETE.replace(old, new)
    assert text != COMPLETE
    result = applied("apply", applied.file(text, "changed.yaml"))
    assert result.code == 78, result
    assert f"{named} cannot be altered" in result.err
    assert "create it again" in result.err
    assert applied.ok("apply", "gateway.yaml").startswith("nothing to do")


def test_objects_that_are_not_in_the_file_are_left_alone_and_named(applied: Mgw) -> None:
    part = applied.file("links:\n  mem: {type: memory, username: gw, timeout: 7, comment: first}\n", "part.yaml")
    out = applied.ok("apply", part)
    assert "not in the files, left alone:" in out
    assert "job orders_in" in out
    assert out.splitlines()[-1] == "nothing to do: 1 objects match the files"


def test_values_compare_by_meaning_not_by_spelling(mgw: Mgw) -> None:
    first = """\
links:
  plant: {type: mqtt, hostname: 127.0.0.1, connect_timeout: 10, tls: no}
  rabbit: {type: rabbitmq, hostname: 127.0.0.1, options: {AMQP_ConnectTimeout: 7, AMQP_heartbeat: "30"}}
foreign_queues:
  a@plant: {options: {MQTT_Retain: "yes", MQTT_Qos: 1}}
  b@rabbit: {options: {AMQP_MaxPriority: "9", AMQP_Mandatory: true}, domain: QUEUE}
queues:
  Q: {sort_list: "priority, enq_time"}
transformations:
  t: {set: {priority: 5, header.x: null, correlation: true}}
jobs:
  j: {type: Inbound, source: b@rabbit, destination: Q, options: {RETRY_FOREVER: "on", MsgBatchSize: 40}}
"""
    second = (
        first.replace("connect_timeout: 10, tls: no", "connect_timeout: 10.0, tls: 'FALSE'")
        .replace("AMQP_ConnectTimeout: 7, AMQP_heartbeat", "amqp_connecttimeout: '7.0', AMQP_Heartbeat")
        .replace('MQTT_Retain: "yes", MQTT_Qos: 1', "mqtt_retain: TRUE, MQTT_Qos: '1'")
        .replace('AMQP_MaxPriority: "9"', "AMQP_MaxPriority: 9")
        .replace("priority, enq_time", "PRIORITY,ENQ_TIME")
        .replace(
            "priority: 5, header.x: null, correlation: true", "priority: '5', header.x: 'NULL', correlation: 'TRUE'"
        )
        .replace('RETRY_FOREVER: "on", MsgBatchSize: 40', "retry_forever: true}, batch_size: 40, poll_interval: null")
        .replace("poll_interval: null}}", "poll_interval: null}")
        .replace("destination: Q,", "destination: mgw.q,")
    )
    assert mgw.ok("apply", mgw.file(first)).splitlines()[-1] == "7 created"
    assert mgw.ok("apply", mgw.file(second)) == "nothing to do: 7 objects match the files\n"
    (mgw.folder / "export.yaml").write_text(mgw.ok("export"), "utf-8")
    assert mgw.ok("apply", "export.yaml") == "nothing to do: 7 objects match the files\n"


def test_prune_removes_what_is_not_in_the_file(applied: Mgw) -> None:
    keep = """\
links:
  mem: {type: memory, username: gw, timeout: 7, comment: first}
foreign_queues:
  orders@mem: {domain: queue}
queues:
  ORDERS: {sort_list: "PRIORITY,ENQ_TIME", max_retries: 100, comment: What is ordered}
jobs:
  orders_back: {type: outbound, source: ORDERS, destination: orders@mem}
"""
    out = applied.ok("apply", "--prune", applied.file(keep, "keep.yaml"))
    assert out.splitlines()[-1] == "1 created, 21 removed, 3 unchanged"
    assert applied.ok("apply", "--prune", "keep.yaml") == "nothing to do: 4 objects match the files\n"


def test_a_subscriber_with_a_transformation_comes_and_goes(mgw: Mgw) -> None:
    text = """\
queues:
  EVENTS: {payload_type: TEXT, multiple_consumers: true, subscribers: {LOUD: {transformation: SHOUT}}}
transformations:
  SHOUT: {from_type: TEXT, to_type: TEXT, set: {body: UPPER(tab.user_data)}}
"""
    assert mgw.ok("lint", mgw.file(text)).endswith("no problems found\n")
    assert mgw.ok("apply", "gateway.yaml").endswith("2 created\n")
    assert mgw.ok("apply", "gateway.yaml") == "nothing to do: 2 objects match the files\n"
    mgw.file(mgw.ok("export"), "export.yaml")
    second = f"sqlite:///{mgw.folder}/second.db"
    assert mgw.ok("apply", "--hub", second, "export.yaml").endswith("2 created\n")
    assert "2 removed" in mgw.ok("apply", "--prune", mgw.file("queues: {}\n", "none.yaml"))


def test_a_queue_whose_stop_was_cut_off_is_started_again(applied: Mgw) -> None:
    with sqlite3.connect(applied.folder / "hub.db") as db:
        db.execute("UPDATE aq_queue SET enqueue_enabled = 2, dequeue_enabled = 2 WHERE name = 'ORDERS'")
    db.close()
    assert "alter  queue ORDERS" in applied.ok("apply", "gateway.yaml")
    assert applied.ok("apply", "gateway.yaml") == f"nothing to do: {OBJECTS} objects match the files\n"


def test_a_file_may_refer_to_what_the_hub_holds(applied: Mgw) -> None:
    more = "jobs:\n  more: {type: outbound, source: ONE, destination: news@other}\n"
    assert "create job more" in applied.ok("apply", applied.file(more, "more.yaml"))
    taken = "jobs:\n  again: {type: outbound, source: ONE, destination: orders@mem}\n"
    result = applied("apply", applied.file(taken, "taken.yaml"))
    assert (result.code, "duplicate-source" in result.err) == (78, True)


def test_job_that_waits_for_its_removal_is_not_taken_for_there(applied: Mgw) -> None:
    connection = sqlite3.connect(applied.folder / "hub.db")
    with connection:
        connection.execute(
            "UPDATE gw_job_state SET status = 'DELETE_PENDING' WHERE job_id = "
            "(SELECT id FROM gw_job WHERE name = 'all_news')"
        )
    connection.close()
    assert "all_news" not in applied.ok("export")
    result = applied("apply", "gateway.yaml")
    assert result.code == 1
    assert "ORA-32822: job all_news cannot be created yet" in result.err
    applied.ok("jobs", "remove", "all_news", "--force")
    assert applied.ok("apply", "gateway.yaml").splitlines()[-1] == f"1 created, {OBJECTS - 1} unchanged"


def test_several_files_are_merged_and_a_name_may_stand_in_one_only(mgw: Mgw) -> None:
    first = mgw.file("queues:\n  A: {}\n", "a.yaml")
    second = mgw.file("queues:\n  B: {}\n", "b.yaml")
    assert mgw.ok("apply", first, second).splitlines()[-1] == "2 created"
    result = mgw("apply", first, mgw.file("queues:\n  a: {}\n", "c.yaml"))
    assert result.code == 78
    assert "c.yaml:2:3: error duplicate-name: queues 'a' is already defined at a.yaml:2 as 'A'" in result.err


def test_errors_stop_apply_before_anything_is_made(mgw: Mgw) -> None:
    result = mgw("apply", mgw.file(COMPLETE.replace("destination: ORDERS", "destination: ODERS")))
    assert result.code == 78
    assert "did you mean 'ORDERS'?" in result.err
    assert not (mgw.folder / "hub.db").exists()


def test_missing_variable_stops_apply(mgw: Mgw) -> None:
    del mgw.environ["LINK_PASSWORD"]
    result = mgw("apply", mgw.file(COMPLETE))
    assert result.code == 78
    assert "gateway.yaml:5:37: error missing-variable: variable LINK_PASSWORD is not set" in result.err


def test_key_file_of_the_settings_encrypts_the_passwords(mgw: Mgw) -> None:
    (mgw.folder / "conf").mkdir()
    key = mgw.folder / "conf" / "secret.key"
    file = mgw.file(
        COMPLETE.replace("version: 1", "version: 1\nsettings: {secret_key_file: secret.key}"), "conf/a.yaml"
    )
    result = mgw("apply", file)
    assert (result.code, "missing-file" in result.err, "openssl rand" in result.err) == (78, True, True)
    key.write_text("MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=\n", "ascii")
    key.chmod(0o600)
    mgw.ok("apply", file)
    assert not (mgw.folder / "hub.db.key").exists()
    assert mgw.ok("apply", file).startswith("nothing to do")
    key.write_text("OTg3NjU0MzIxMDk4NzY1NDMyMTA5ODc2NTQzMjEwOTg=\n", "ascii")
    result = mgw("apply", file)
    assert (result.code, "the stored secret of link mem cannot be decrypted" in result.err) == (78, True)


def test_apply_without_hub_can_be_told_not_to_make_one(mgw: Mgw) -> None:
    result = mgw("apply", "--no-create-hub", mgw.file(COMPLETE))
    assert (result.code, "does not exist" in result.err) == (1, True)
    assert not (mgw.folder / "hub.db").exists()


def test_plan_as_json_is_for_machines(applied: Mgw) -> None:
    changed = applied.file(COMPLETE.replace("timeout: 7", "timeout: 8"), "changed.yaml")
    steps = json.loads(applied.ok("plan", "--json", changed))
    assert [step for step in steps if step["verb"] == "alter"] == [
        {
            "verb": "alter",
            "kind": "link",
            "name": "mem",
            "changes": [{"setting": "timeout", "old": 7.0, "new": 8.0}],
        }
    ]


def _half_made(hub: Path) -> list[str]:
    """Objects that a cut-off run must never leave: parts of queues and jobs."""
    connection = sqlite3.connect(hub)
    try:
        queries = {
            "queue table without its queue": "SELECT name FROM aq_queue_table t WHERE name LIKE '%_TAB' AND NOT EXISTS "
            "(SELECT 1 FROM aq_queue q WHERE q.queue_table_id = t.id AND q.name NOT LIKE 'AQ$_%')",
            "queue that is not started": "SELECT name FROM aq_queue "
            "WHERE dequeue_enabled = 0 AND name NOT LIKE 'AQ$_%'",
            "job without state": "SELECT name FROM gw_job j WHERE NOT EXISTS "
            "(SELECT 1 FROM gw_job_state s WHERE s.job_id = j.id)",
            "job without its subscriber": "SELECT name FROM gw_job j WHERE j.source_key = 'MGW.NEWS' AND NOT EXISTS "
            "(SELECT 1 FROM aq_consumer c WHERE c.name_key = 'MGW_' || j.name_key AND c.is_subscriber = 1)",
        }
        return [f"{what}: {row[0]}" for what, sql in queries.items() for row in connection.execute(sql)]
    finally:
        connection.close()


@pytest.mark.parametrize(
    "after", ["start", "hub", "link", "queue table", "queue NEWS", "transformation", "job news_out"]
)
def test_killed_apply_leaves_whole_objects_and_the_next_run_does_the_rest(mgw: Mgw, after: str) -> None:
    file = mgw.file(COMPLETE)
    # A pipe that holds one write: apply cannot run ahead of its reader, however late this process gets the processor.
    reading, writing = os.pipe2(os.O_DIRECT | os.O_CLOEXEC)
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 1)
    process = subprocess.Popen(
        mgw.command("apply", file),
        cwd=mgw.folder,
        env=mgw.environment() | {"PYTHONUNBUFFERED": "1"},
        stdout=writing,
        stderr=subprocess.DEVNULL,
    )
    os.close(writing)
    with open(reading, "rb", buffering=0) as output:
        if after == "start":  # somewhere in the start or the making of the hub
            deadline = time.monotonic() + 10
            while not (mgw.folder / "hub.db").exists() and time.monotonic() < deadline and process.poll() is None:
                pass
        else:
            said = b""
            while f"create {after}".encode() not in said:
                written = output.read(select.PIPE_BUF)
                assert written, said.decode()
                said += written
        process.send_signal(signal.SIGKILL)
        process.wait(10)
    assert process.returncode == -signal.SIGKILL
    if after not in ("start", "hub"):  # else there may be no hub at all
        assert _half_made(mgw.folder / "hub.db") == []
    out = mgw.ok("apply", file)
    assert "created" in out.splitlines()[-1]
    assert _half_made(mgw.folder / "hub.db") == []
    assert mgw.ok("apply", file) == f"nothing to do: {OBJECTS} objects match the files\n"


TYPES = """\
object_types:
  OE.ORDERS: {attributes: {id: NUMBER(10), lines: OE.LINES}}
  OE.LINES: {array: VARRAY(9) OF OE.LINE}
  OE.LINE: {attributes: {item: varchar2(30), amount: NUMBER}}
queue_tables:
  ORDERS_T: {payload_type: OE.ORDERS, multiple_consumers: true}
transformations:
  To_Text: {from_type: OE.ORDERS, to_type: text, set: {body: "tab.user_data.id"}}
queues:
  ORDERS: {queue_table: MGW.Orders_T, subscribers: {desk: {transformation: mgw.TO_TEXT}}}
"""


def test_object_types_are_made_first_and_removed_last(mgw: Mgw) -> None:
    file = mgw.file(TYPES)
    assert mgw.ok("lint", file) == f"{file}: no problems found\n"
    made = mgw.ok("apply", file).splitlines()[1:-1]
    assert made == [
        *(f"create object type OE.{name}" for name in ("LINE", "LINES", "ORDERS")),
        "create queue table ORDERS_T",
        "create transformation To_Text",
        "create queue ORDERS",
    ]
    again = mgw.file(TYPES.replace("To_Text", "TO_TEXT").replace("varchar2(30)", "VARCHAR2 ( 30 )"), "again.yaml")
    for words in (("apply", again), ("plan", "--prune", again), ("apply", "--prune", again)):
        assert mgw.ok(*words) == "nothing to do: 6 objects match the files\n"
    mgw.file(mgw.ok("export"), "export.yaml")
    second = f"sqlite:///{mgw.folder}/second.db"
    assert mgw.ok("apply", "--hub", second, "export.yaml").splitlines()[-1] == "6 created"
    assert mgw.ok("export", "--hub", second) == (mgw.folder / "export.yaml").read_text()
    mgw.ok("aq", "enqueue", "ORDERS", '{"id": 7, "lines": [{"item": "nut", "amount": 2}]}')
    assert "7" in mgw.ok("aq", "dequeue", "ORDERS", "--consumer", "desk", "--body")
    removed = mgw.ok("apply", "--prune", mgw.file("queues: {}\n", "empty.yaml")).splitlines()[:-1]
    assert removed[-4:] == [
        "remove queue table ORDERS_T",
        *(f"remove object type OE.{name}" for name in ("ORDERS", "LINES", "LINE")),
    ]


def test_an_object_type_cannot_be_altered(mgw: Mgw) -> None:
    mgw.ok("apply", mgw.file(TYPES))
    changed = "{amount: NUMBER, item: VARCHAR2(30)}"
    result = mgw("plan", mgw.file(TYPES.replace("{item: varchar2(30), amount: NUMBER}", changed)))
    assert result.code == 78
    assert "object type OE.LINE cannot be altered: attributes: 'ITEM VARCHAR2(30), AMOUNT NUMBER' -> " in result.err


def test_jms_types_are_enabled_and_stay_so(mgw: Mgw) -> None:
    text = "queue_tables:\n  ANY_T: {payload_type: anydata}\nqueues:\n  ANY: {queue_table: ANY_T}\n"
    file = mgw.file(text)
    mgw.ok("apply", file)
    more = mgw.file(text.replace("anydata}", "anydata, jms_types: true}"), "more.yaml")
    assert mgw.ok("apply", more).splitlines()[0] == "alter  queue table ANY_T (jms_types: none -> true)"
    assert "jms_types: true" in mgw.ok("export")
    for same in (more, file):
        assert mgw.ok("plan", same) == "nothing to do: 2 objects match the files\n"
    result = mgw("apply", mgw.file(text.replace("anydata}", "anydata, jms_types: false}")))
    assert (result.code, "cannot be altered: jms_types: true -> false" in result.err) == (78, True)


def test_another_queue_in_the_queue_table_of_a_queue_changes_nothing_for_it(mgw: Mgw) -> None:
    file = mgw.file("queues:\n  ORDERS: {max_payload: 1000}\n")
    mgw.ok("apply", file)
    mgw.ok("aq", "create", "A_BAD", "--table", "ORDERS_TAB", "--exception")
    assert mgw.ok("plan", file).splitlines() == [
        "not in the files, left alone: queue A_BAD",
        "nothing to do: 1 objects match the files",
    ]
    both = "queues:\n  A_BAD: {queue_table: orders_tab, type: exception}\n  ORDERS: {max_payload: 1000}\n"
    assert mgw.ok("lint", mgw.file(both, "both.yaml")) == "both.yaml: no problems found\n"
    assert mgw.ok("apply", "both.yaml").splitlines()[-1] == "nothing to do: 2 objects match the files"
    second = f"sqlite:///{mgw.folder}/second.db"
    assert mgw.ok("apply", "--hub", second, "both.yaml").splitlines()[-1] == "2 created"
    (mgw.folder / "export.yaml").write_text(mgw.ok("export"))
    assert mgw.ok("apply", "export.yaml") == "nothing to do: 3 objects match the files\n"
    fixed = mgw("plan", mgw.file("queues:\n  ORDERS: {max_payload: 2000}\n"))
    assert (fixed.code, "max_payload: 1000 -> 2000" in fixed.err) == (78, True)
    mgw.ok("apply", "--prune", mgw.file("queues: {}\n", "empty.yaml"))
    assert mgw.ok("export") == "version: 1\n"


def test_queue_table_called_like_that_of_its_only_queue_may_be_described_by_itself(mgw: Mgw) -> None:
    file = mgw.file("queue_tables:\n  A_TAB: {comment: apart}\nqueues:\n  A: {queue_table: A_TAB}\n")
    assert mgw.ok("apply", file).splitlines()[-1] == "2 created"
    assert mgw.ok("apply", file) == "nothing to do: 2 objects match the files\n"
    assert mgw.ok("apply", "--prune", file) == "nothing to do: 2 objects match the files\n"


def test_pruning_leaves_the_queue_table_of_its_last_queue_that_the_file_describes(mgw: Mgw) -> None:
    table = "queue_tables:\n  Mgw.a_tab: {comment: apart}\n"
    mgw.ok("apply", mgw.file(table + "queues:\n  A: {queue_table: A_TAB}\n"))
    only = mgw.file(table + "queues: {}\n", "only.yaml")
    done = mgw.ok("apply", "--prune", only).splitlines()
    assert done == ["remove queue A", "1 removed, 1 unchanged"]
    assert mgw.ok("plan", "--prune", only) == "nothing to do: 1 objects match the files\n"
    mgw.ok("apply", mgw.file(table + "queues:\n  A: {queue_table: A_TAB}\n"))
    other = mgw.file(table + "queues:\n  B: {queue_table: A_TAB}\n", "other.yaml")
    assert mgw.ok("apply", "--prune", other).splitlines()[-1] == "1 created, 1 removed, 1 unchanged"
    assert mgw.ok("plan", "--prune", other) == "nothing to do: 2 objects match the files\n"
    mgw.ok("apply", "--prune", mgw.file("queues: {}\n", "empty.yaml"))
    assert mgw.ok("export") == "version: 1\n"


def test_pruning_removes_a_queue_beside_the_one_that_the_table_was_made_for(mgw: Mgw) -> None:
    file = mgw.file("queues:\n  A: {}\n")
    mgw.ok("apply", file)
    mgw.ok("aq", "create", "A_BAD", "--table", "A_TAB", "--exception")
    assert mgw.ok("apply", "--prune", file).splitlines()[-1] == "1 removed, 1 unchanged"
    assert mgw.ok("apply", "--prune", file) == "nothing to do: 1 objects match the files\n"


def test_settings_that_the_hub_does_not_keep_are_named(mgw: Mgw) -> None:
    text = "settings:\n  http: {listen: '127.0.0.1:1234'}\n  log: {format: json}\n"
    said = "the hub does not keep settings.http and settings.log: give this file to mgw run as well"
    result = mgw("apply", mgw.file(f"version: 1\n{text}"))
    assert (result.code, result.err.splitlines()) == (0, [said])
    assert mgw("apply", mgw.file("version: 1\nsettings: {prune: refuse}\n")).err == ""
