"""What commands print with ``--json``: numbers, truth values and null as such, times as ISO 8601 with their zone."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.core import TyperGroup

from mgw.gateway.cli.main import app
from mgw.gateway.cli.prove import _plain
from mgw.gateway.ledger.history import Sight
from mgw.gateway.ledger.record import Kind
from tests.cli.conftest import COMPLETE, Mgw

#: Every command with ``--json``, and a line that runs it.
LINES = {
    "lint": "lint broken.yaml",
    "plan": "plan changed.yaml",
    "status": "status",
    "transform": "transform --job orders_in --file message.yaml",
    "tap": "tap orders_in --seconds 0.1",
    "events": "events",
    "audit": "audit",
    "generations list": "generations list",
    "prove": "prove orders_in --list",
    "agents list": "agents list",
    "agents show": "agents show second",
    "agents ping": "agents ping second",
    "links list": "links list",
    "links show": "links show mem",
    "links test": "links test mem",
    "links prepare": "links prepare mem --dry-run",
    "queues list": "queues list",
    "queues show": "queues show bad@mem",
    "transformations list": "transformations list",
    "exceptions list": "exceptions list",
    "exceptions parked": "exceptions parked",
    "exceptions show": "exceptions show news_out {exception}",
    "exceptions replay": "exceptions replay news_out --all --dry-run",
    "exceptions discard": "exceptions discard news_out {exception}",
    "jobs list": "jobs list",
    "jobs show": "jobs show orders_in",
    "jobs history": "jobs history orders_in",
    "subscribers list": "subscribers list",
    "schedules list": "schedules list",
    "outbound-schedules list": "outbound-schedules list",
    "aq queues": "aq queues",
    "aq browse": "aq browse ORDERS",
    "aq dequeue": "aq dequeue ORDERS",
    "aq time-manager": "aq time-manager",
    "aq tables list": "aq tables list",
    "aq types list": "aq types list",
    "aq subscribers list": "aq subscribers list NEWS",
    "aq privileges": "aq privileges",
    "aq agents list": "aq agents list",
    "modules list": "modules list",
    "functions list": "functions list",
    "users list": "users list",
    "users tokens": "users tokens",
    "upgrade": "upgrade --check",
    "pipeline list": "pipeline list",
    "pipeline streams": "pipeline streams",
}
#: Prints JSON without being asked. (So does ``schema``, in a form that is not ours.)
ALWAYS = {"transformations show": "transformations show urgent"}

#: Texts that look like something else and are not: versions of the format, texts of messages, ids.
TEXTS = re.compile(
    r"(\.|^)(id|original_id|done|compatible|message|text|event_text|cure|name|msgid|correlation|rule|set|where)(\.|\[|$)"
)
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
#: Trouble is a sentence for people; the same time is a value of the job, too.
IN_A_SENTENCE = re.compile(r"; next attempt \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$")


def _with_json(group: TyperGroup, words: tuple[str, ...] = ()) -> Iterator[str]:
    context = typer.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, TyperGroup):
            yield from _with_json(command, (*words, name))
        elif any("--json" in parameter.opts for parameter in command.params):
            yield " ".join((*words, name))


def test_every_command_with_json_is_judged_here() -> None:
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    assert set(_with_json(group)) == set(LINES)


@pytest.fixture
def busy(applied: Mgw) -> Mgw:
    """A hub in which everything that has a time has one."""
    text = COMPLETE.replace("batch_size: 200", "batch_size: 300")
    applied.file(text, "changed.yaml")
    applied.file("queues: {Q: {max_retries: many}}\n", "broken.yaml")
    applied.file("body: {urgent: true}\nenqueue_time: 2026-11-20T10:57:34Z\n", "message.yaml")
    applied.ok("modules", "allow", "json")
    applied.ok("functions", "set", "as_json", "json:dumps")
    applied.file("queues: {FILES: {payload_type: RAW}}\n", "files.yaml")
    applied.ok("apply", "files.yaml")
    applied.ok("outbound-schedules", "create", "FILES", "bad@mem", "--duration", "60", "--next-time", "SYSDATE + 1")
    failed = ("-H", "MGW_error=no", "-H", "MGW_error_job=news_out")
    applied.ok("aq", "enqueue", "ORDERS", "x", "--expiration", "600", "-H", "a=b", *failed)
    applied.ok("jobs", "alter", "news_out", "--exception-queue", "ORDERS")
    now = time.time()
    with sqlite3.connect(applied.folder / "hub.db") as connection:
        connection.execute(
            "UPDATE gw_job_state SET status = 'RETRY', failures = 2, last_error_msg = 'no', guarantee = 'exact', "
            "last_error_time = ?, next_attempt = ?, last_progress = ?",
            (now, now + 9, now - 9),
        )
        connection.execute("UPDATE gw_agent SET status = 'RUNNING', start_time = ?, last_error_time = ?", (now, now))
    connection.close()
    return applied


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _leaves(each, f"{path}.{key}".lstrip("."))
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from _leaves(each, f"{path}[{number}]")
    else:
        yield path, value


def _has_time(text: str) -> bool:
    return re.search(r"\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d", text) is not None


def _wrong(path: str, value: Any) -> str:
    if isinstance(value, str) and not TEXTS.search(path):
        if re.fullmatch(r"(?i)true|false|null|nan|[+-]?inf", value):
            return "a truth value or null as text"
        if re.fullmatch(r"[+-]?\d+(\.\d+)?", value):
            return "a number as text"
    if isinstance(value, str) and _has_time(IN_A_SENTENCE.sub("", value)) and not MOMENT.fullmatch(value):
        return "a time without a zone"
    if isinstance(value, int | float) and not isinstance(value, bool) and 1e9 < value < 4e9 and value != 2**31 - 1:
        return "a time as a number"
    return ""


@pytest.mark.parametrize("command", [*LINES, *ALWAYS])
def test_values_have_the_types_of_json(command: str, busy: Mgw) -> None:
    line = f"{LINES[command]} --json" if command in LINES else ALWAYS[command]
    if "{exception}" in line:
        (entry,) = json.loads(busy.ok("exceptions", "list", "news_out", "--json"))
        line = line.format(exception=entry["id"])
    out = busy(*line.split()).out
    found = (
        json.loads(out) if out[:1] in "[{" and "\n" in out.strip() else [json.loads(each) for each in out.splitlines()]
    )
    assert [f"{path}: {why} ({value!r})" for path, value in _leaves(found) if (why := _wrong(path, value))] == []
    nothing = ("tap", "events", "links prepare", "pipeline streams")  # no job runs, a memory link needs no log
    assert found or command in nothing, out


def test_what_is_proved_has_moments() -> None:
    sight = Sight("j", Kind.RECEIVED, 1, None, 0.0, 1700000000.25, "stored")
    shown = _plain(sight)
    assert (shown["started"], shown["finished"], shown["sent"]) == (
        "1970-01-01T00:00:00.000000Z",
        "2023-11-14T22:13:20.250000Z",
        None,
    )


def test_followed_events_are_an_object_a_line(busy: Mgw) -> None:
    busy.ok("jobs", "disable", "orders_in")
    with sqlite3.connect(busy.folder / "hub.db") as connection:
        connection.execute(
            "INSERT INTO gw_event (time, level, name, text) VALUES (?, 'INFO', 'Something', 'happened')", (time.time(),)
        )
    connection.close()
    process = subprocess.Popen(
        busy.command("events", "--follow", "--json"),
        cwd=busy.folder,
        env=busy.environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        event = json.loads(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()
    assert MOMENT.fullmatch(event["event_time"])
