"""``mgw exceptions``: what a job could not deliver is shown, edited, replayed and discarded from the command line."""

from __future__ import annotations

import json
import os
import pwd
import re
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mgw.links.memory.broker import MemoryBroker
from mgw.transforms.errors import ConversionFailure
from mgw.transforms.message import Header, Message, ValueType
from mgw.transforms.payloads.exception_message import for_exception_queue
from tests.cli.conftest import Mgw
from tests.support.gateways import Gateway, gateway_on
from tests.support.waiting import eventually

GIVEN = [f'{{"f":"hot {number}"}}' for number in range(3)]


@pytest.fixture
def gateway(mgw: Mgw, request: pytest.FixtureRequest) -> Iterator[Gateway]:
    """Job ``out`` from Q to DST@mem cannot convert its messages; its exception queue is BAD."""
    broker = MemoryBroker.get(request.node.name)
    with gateway_on(f"sqlite:///{mgw.folder}/hub.db") as gateway:
        broker.queue("DST")
        for name in ("Q", "BAD"):
            gateway.queue(name)
        gateway.admin.create_transformation(
            "celsius", "BASIC", "BASIC", {"set": {"header.celsius": "(tab.user_data.f - 32) / 1.8"}}
        )
        gateway.admin.create_msgsystem_link("mem", "MEMORY", {"broker": broker.name})
        gateway.admin.register_foreign_queue("DST", "mem")
        gateway.admin.create_job("out", "OUTBOUND", "Q", "DST@mem", transformation="celsius", exception_queue="BAD")
        yield gateway
    MemoryBroker.drop(request.node.name)


@pytest.fixture
def ids(mgw: Mgw, gateway: Gateway) -> list[str]:
    """Ids of three messages that are in BAD."""
    tenant = Header("tenant", ValueType.TEXT, "a")
    gateway.enqueue("Q", [Message(body=body, headers=(tenant,), correlation=body[-3]) for body in GIVEN])
    with gateway.run():
        eventually(lambda: gateway.job("out")["EXCEPTIONQ_TOTAL"] == 3)
    return [entry["id"] for entry in listed(mgw, "out")]


def listed(mgw: Mgw, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(mgw.ok("exceptions", "list", *words, "--json"))
    return found


def bodies(gateway: Gateway, queue: str) -> list[object]:
    return [message.body for message in gateway.browse(queue)]


def put_in(gateway: Gateway, count: int, origin: str = "Q") -> list[object]:
    """So many messages are in BAD as the job writes them, without one having run; their bodies."""
    failure = ConversionFailure("it cannot be converted", number=724)
    given = [Message(body=f"{number:05}") for number in range(count)]
    gateway.enqueue("BAD", [for_exception_queue(each, failure, "out", origin, now=1000.0) for each in given])
    return [each.body for each in given]


def test_list_and_show_tell_reason_origin_and_content(mgw: Mgw, ids: list[str]) -> None:
    head, *rows = mgw.ok("exceptions", "list", "OUT").splitlines()
    assert head.split() == ["ID", "TIME", "(UTC)", "JOB", "NUMBER", "REASON"]
    assert [row.split()[0] for row in rows if row[:1] not in {"", " "}] == ids  # whole, also where reasons are broken
    assert sum("722" in row and " out " in row for row in rows) == 3
    assert "celsius" in "".join(row[-20:] for row in rows).replace(" ", "")
    assert [entry["id"] for entry in listed(mgw)] == ids
    assert [entry["id"] for entry in listed(mgw, "--number", "722", "--limit", "2")] == ids[:2]
    assert listed(mgw, "--reason", "nothing like it") == []
    shown = json.loads(mgw.ok("exceptions", "show", "out", ids[1].upper(), "--json"))
    assert (shown["body"], shown["origin"], shown["number"], shown["job"]) == (GIVEN[1], "Q", 722, "out")
    assert shown["headers"] == [["tenant", "TEXT", "a"]]
    assert shown["original_id"]
    text = mgw.ok("exceptions", "show", "out", ids[1])
    assert GIVEN[1] in text
    assert "\n  tenant = a (TEXT)\n" in text
    assert ids[1] in text
    missing = mgw("exceptions", "show", "out", "00")
    assert (missing.code, "see mgw exceptions list out" in missing.err) == (1, True)


def test_replay_after_an_edit_and_a_dry_run(mgw: Mgw, gateway: Gateway, ids: list[str]) -> None:
    edited = mgw.ok("exceptions", "edit", "out", ids[0], "--body", '{"f":212}', "-H", "by=me", "-H", "tenant=")
    assert edited.startswith(f"message {ids[0]} edited: body, header by, no header tenant; its id is now ")
    new = edited.split()[-1]
    dry = mgw.ok("exceptions", "replay", "out", "--all", "--dry-run")
    assert dry == "3 message(s) would be replayed to Q; by error number: 722 3\n"
    assert bodies(gateway, "Q") == []
    mgw.environ |= dict.fromkeys(("LOGNAME", "USER"), "somebody else")
    done = json.loads(mgw.ok("exceptions", "replay", "out", "--number", "722", "--rate", "1000", "--json"))
    assert done == {
        "target": "Q",
        "dry_run": False,
        "done": [new, *ids[1:]],
        "gone": [],
        "failed": {},
        "reasons": {"722": 3},
        "stopped": None,
    }
    assert bodies(gateway, "Q") == ['{"f":212}', *GIVEN[1:]]
    assert [message.header("tenant") for message in gateway.browse("Q")] == [None, "a", "a"]
    assert bodies(gateway, "BAD") == []
    (told,) = [text for text in gateway.events() if "replayed from BAD" in text]
    assert f"by {pwd.getpwuid(os.getuid()).pw_name}: {new}, {ids[1]}, {ids[2]}" in told
    assert "replayed from BAD" in mgw.ok("events")


def test_discard_takes_what_is_chosen(mgw: Mgw, gateway: Gateway, ids: list[str]) -> None:
    given = ("exceptions", "discard", "out", "--reason", "celsius", "--limit", "1")
    assert mgw.ok(*given) == "1 message(s) discarded; by error number: 722 1\n"
    assert mgw.ok("exceptions", "discard", "out", ids[2]) == "1 message(s) discarded; by error number: 722 1\n"
    assert bodies(gateway, "BAD") == [GIVEN[1]]
    assert bodies(gateway, "Q") == []


def test_a_new_body_from_a_file(mgw: Mgw, gateway: Gateway, ids: list[str]) -> None:
    mgw.ok("exceptions", "edit", "out", ids[0], "--file", mgw.file('{"f":32}', "body.json"), "--correlation", "")
    first = listed(mgw, "out")[0]
    shown = json.loads(mgw.ok("exceptions", "show", "out", first["id"], "--json"))
    assert (shown["body"], shown["correlation"]) == ('{"f":32}', None)
    for words, message in (
        (("--file", "nothing.json"), "does not exist"),
        (("--file", "body.json", "--body", "x"), "give either --file or --body"),
    ):
        refused = mgw("exceptions", "edit", "out", ids[1], *words)
        assert (refused.code, message in " ".join(refused.err.split())) == (2, True), refused
    again = mgw("exceptions", "edit", "out", ids[0], "--body", "x")
    assert (again.code, "is not in exception queue BAD" in again.err) == (1, True)
    assert bodies(gateway, "BAD") == [*GIVEN[1:], '{"f":32}']


@pytest.mark.parametrize("verb", ["replay", "discard"])
@pytest.mark.parametrize("words", [(), ("--all", "--number", "722"), ("--all", "00"), ("--limit", "3")])
def test_all_messages_are_meant_only_where_that_is_said(
    mgw: Mgw, gateway: Gateway, verb: str, words: tuple[str, ...]
) -> None:
    put_in(gateway, 1)
    refused = mgw("exceptions", verb, "out", *words)
    assert (refused.code, "give ids or filters, or --all for all messages of the job" in refused.err) == (2, True)
    assert len(gateway.browse("BAD")) == 1


def test_times_are_utc_unless_they_name_a_zone(mgw: Mgw, ids: list[str]) -> None:
    failed = datetime.fromisoformat(listed(mgw)[0]["time"])
    before, after = failed - timedelta(minutes=1), failed + timedelta(minutes=1)
    for zone in ("Etc/GMT+12", "Etc/GMT-12"):
        for words, count in (
            (("--since", f"{before.replace(tzinfo=None)}"), 3),
            (("--since", f"{after.replace(tzinfo=None)}"), 0),
            (("--before", f"{after.replace(tzinfo=None)}"), 3),
            (("--before", f"{before.replace(tzinfo=None)}"), 0),
            (("--since", before.astimezone(UTC).isoformat()), 3),
            (("--since", "1h"), 3),
            (("--before", "1h"), 0),
        ):
            found = mgw("exceptions", "list", "out", *words, "--json", environ={"TZ": zone})
            assert (found.code, len(json.loads(found.out))) == (0, count), (zone, words)
    refused = mgw("exceptions", "list", "out", "--since", "yesterday")
    assert (refused.code, "'yesterday' is not a time" in refused.err) == (2, True)
    assert len(ids) == 3


def test_what_stays_is_told_and_the_command_fails(mgw: Mgw, gateway: Gateway) -> None:
    put_in(gateway, 1, origin="ELSEWHERE")
    put_in(gateway, 2)
    found = mgw("exceptions", "replay", "out", "--all")
    assert found.code == 1
    first, second = found.lines()
    assert first == "2 message(s) replayed to Q; by error number: 724 2; 1 stay, because they were refused"
    assert second.endswith(": it came from queue ELSEWHERE, the job reads Q now")
    for given in ("0", "nan", "inf"):
        rate = mgw("exceptions", "replay", "out", "--all", "--rate", given)
        assert (rate.code, f"rate {given} cannot be used" in rate.err) == (1, True)


def test_jobs_whose_exception_queue_is_on_a_link_are_left_out_and_named(mgw: Mgw, gateway: Gateway) -> None:
    for name in ("SRC", "SRCBAD"):
        gateway.admin.register_foreign_queue(name, "mem")
    gateway.queue("H")
    gateway.admin.create_job("inj", "INBOUND", "SRC@mem", "H", exception_queue="SRCBAD@mem")
    put_in(gateway, 2)
    found = mgw("exceptions", "list", "--json")
    assert (found.code, len(json.loads(found.out))) == (0, 2)
    assert "job inj is left out: exception queue SRCBAD@mem of job inj is on link mem" in found.err
    refused = mgw("exceptions", "list", "inj")
    assert (refused.code, "the desk reads exception queues of the hub" in refused.err) == (1, True)
    unknown = mgw("exceptions", "list", "oud")
    assert (unknown.code, "did you mean 'out'" in unknown.err) == (1, True)


def test_jobs_whose_exception_queue_is_stopped_or_dropped_are_left_out_and_named(mgw: Mgw, gateway: Gateway) -> None:
    for name in ("STOPPED", "DROPPED"):
        gateway.queue(name)
        gateway.queue(f"OF_{name}")
        gateway.admin.create_job(f"a_{name}", "OUTBOUND", f"OF_{name}", "DST@mem", exception_queue=name)
    gateway.queues.stop_queue("STOPPED")
    gateway.queues.stop_queue("DROPPED")
    gateway.queues.drop_queue("DROPPED")
    put_in(gateway, 2)
    found = mgw("exceptions", "list", "--json")
    assert (found.code, len(json.loads(found.out))) == (0, 2)
    assert re.findall("job (.*) is left out: .*(STOPPED|DROPPED)", found.err) == [
        ("a_DROPPED", "DROPPED"),
        ("a_STOPPED", "STOPPED"),
    ]
    for name in ("STOPPED", "DROPPED"):
        refused = mgw("exceptions", "list", f"a_{name}")
        assert (refused.code, name in refused.err) == (1, True)


def test_a_replay_that_is_killed_loses_and_doubles_nothing(mgw: Mgw, gateway: Gateway) -> None:
    given = put_in(gateway, 1000)
    process = subprocess.Popen(
        mgw.command("exceptions", "replay", "out", "--all", "--rate", "100"), cwd=mgw.folder, env=mgw.environment()
    )
    try:
        eventually(lambda: gateway.browse("Q"), deadline=60)
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
    moved, left = bodies(gateway, "Q"), bodies(gateway, "BAD")
    assert moved + left == given
    assert left
    told = [text for text in gateway.events() if "replayed from BAD" in text]
    assert len(told) == len(moved) / 100
    mgw.ok("exceptions", "replay", "out", "--all")
    assert bodies(gateway, "Q") == given
    assert bodies(gateway, "BAD") == []


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("-H", f"{'n' * 251}=x"), 1, "has 251 characters"),
        (("-H", f"n={'x' * 4001}"), 1, "is 4001 long; a header value holds at most 4000"),
        (("-H", "n=\udcff"), 1, r"header 'n' cannot be stored; it is not UTF-8 text at character 0 of '\udcff'"),
        (("-H", "\udcff=n"), 1, r"header '\udcff' cannot be stored; it is not UTF-8 text"),
        (("--correlation", "a\udcff"), 1, "the correlation cannot be stored; it is not UTF-8 text at character 1"),
        (("--body", "a\udcff"), 2, "--body is not UTF-8 text at character 1; give bytes with --file"),
    ],
)
def test_an_edit_that_cannot_be_stored_is_refused(
    mgw: Mgw, gateway: Gateway, words: tuple[str, str], code: int, message: str
) -> None:
    given = put_in(gateway, 1)
    (only,) = listed(mgw, "out")
    refused = mgw("exceptions", "edit", "out", only["id"], *words)
    assert (refused.code, message in refused.err) == (code, True), refused
    assert listed(mgw, "out") == [only]
    assert bodies(gateway, "BAD") == given


def test_an_edit_has_no_room_for_its_mark_unless_a_header_goes(mgw: Mgw, gateway: Gateway) -> None:
    put_in(gateway, 1)
    (message,) = gateway.browse("BAD")
    more = [Header(f"h{number}", ValueType.TEXT, "") for number in range(1024 - len(message.headers))]
    gateway.enqueue("BAD", [Message(body="full", headers=(*message.headers, *more))])
    full = listed(mgw, "out")[1]["id"]
    refused = mgw("exceptions", "edit", "out", full, "--body", "x")
    assert (refused.code, "message has 1025 headers; at most 1024 are allowed" in refused.err) == (1, True), refused
    assert "remove headers in the same edit" in refused.err
    mgw.ok("exceptions", "edit", "out", full, "--body", "x", "-H", "h0=")
    assert bodies(gateway, "BAD") == ["00000", "x"]


def test_hostile_content_does_not_reach_the_terminal(mgw: Mgw, gateway: Gateway) -> None:
    failure = ConversionFailure("why\x1b[2J\x9b", number=724)
    message = Message(
        body="a\tb\nc\x1b]0;title\x07\u202e\x9b ü",
        headers=(Header("h\x1b", ValueType.TEXT, "\x1b[1m"),),
        correlation="\x1b[0m",
    )
    origin = "ELSE\x1bWHERE"
    gateway.enqueue("BAD", [for_exception_queue(message, failure, "out", origin, now=1000.0)])
    (entry,) = listed(mgw, "out")
    shown = mgw.ok("exceptions", "show", "out", entry["id"])
    assert "a\tb\nc\\x1b]0;title\\x07\\u202e\\x9b ü\n" in shown
    table = mgw.ok("exceptions", "list", "out")
    assert "why\\x1b[2J\\x9b" in "".join(table.split())
    refused = mgw("exceptions", "replay", "out", "--all").out
    assert "queue ELSE\\x1bWHERE" in refused
    for text in (shown, table, refused):
        assert not set(text) & set("\x1b\x9b\x07\u202e")
    assert json.loads(mgw.ok("exceptions", "show", "out", entry["id"], "--json"))["body"] == message.body


def test_a_message_with_strange_headers_does_not_hide_the_others(mgw: Mgw, gateway: Gateway) -> None:
    strange = [
        Header("MGW_error", ValueType.TEXT, "strange"),
        Header("MGW_error_job", ValueType.TEXT, "out"),
        Header("MGW_error_number", ValueType.TEXT, "inf"),
        Header("MGW_error_time", ValueType.DOUBLE, 1e300),
        Header("MGW_error_expiration", ValueType.DOUBLE, -5.0),
    ]
    gateway.enqueue("BAD", [Message(body="strange", headers=tuple(strange))])
    put_in(gateway, 1)
    first, second = listed(mgw)
    assert (first["reason"], first["number"], first["time"]) == ("strange", None, None)
    assert second["number"] == 724
    assert all(each["id"] in mgw.ok("exceptions", "list") for each in (first, second))
    found = mgw("exceptions", "replay", "out", "--all")
    assert (found.code, "expiration -5.0 of message 0 is not valid" in found.out) == (1, True)
    assert bodies(gateway, "Q") == ["00000"]
    mgw.ok("exceptions", "discard", "out", first["id"])
    assert bodies(gateway, "BAD") == []


def test_a_queue_on_a_link_that_keeps_nothing_to_look_through_is_refused(mgw: Mgw, gateway: Gateway) -> None:
    broker = MemoryBroker.get("desk-of-a-link")
    for name in ("SRC", "BAD"):
        broker.queue(name)
    gateway.admin.create_msgsystem_link("other", "MEMORY", {"broker": "desk-of-a-link"})
    for name in ("SRC", "BAD"):
        gateway.admin.register_foreign_queue(name, "other")
    gateway.admin.create_job("inwards", "INBOUND", "SRC@other", "Q", exception_queue="BAD@other")
    for verb in (("list",), ("show",), ("replay", "--all"), ("discard", "--all")):
        refused = mgw("exceptions", verb[0], "inwards", *(["0f"] if verb[0] == "show" else []), *verb[1:])
        assert refused.code == 1
        assert "exception queue BAD@other of job inwards is on link other; the desk reads" in refused.err
        assert "read it with a client of that system" in refused.err
    assert "job inwards is left out" in mgw("exceptions", "list").err
    wrong = mgw("exceptions", "replay", "out", "--all", "--to", "SRC@other")
    assert (wrong.code, "leave --to out" in wrong.err) == (1, True)
    MemoryBroker.drop("desk-of-a-link")


def test_parked_keys_are_shown_tried_and_given_up(mgw: Mgw, gateway: Gateway) -> None:
    mgw.ok("jobs", "alter", "out", "--option", "park_key=correlation")
    given = [Message(body=body, correlation="acc\x1b[31m") for body in (GIVEN[0], '{"f": 50}')]
    gateway.enqueue("Q", [*given, Message(body='{"f": 5}', correlation="other")])
    with gateway.run():
        eventually(lambda: gateway.job("out")["PROPAGATED_TOTAL"] == 1)
    (found,) = json.loads(mgw.ok("exceptions", "parked", "out", "--json"))
    assert (found["job"], found["messages"], found["number"], found["state"]) == ("out", 2, 722, "PARKED")
    assert "\x1b" not in mgw.ok("exceptions", "parked")
    key = found["key"]
    refused = mgw("exceptions", "release", "out")
    assert (refused.code, "name keys" in refused.err) == (2, True)
    unknown = mgw("exceptions", "release", "out", "--key", "nobody")
    assert (unknown.code, "'nobody' of job out is not parked" in unknown.err) == (1, True)
    assert "1 key(s) of job out are tried now" in mgw.ok("exceptions", "release", "out", "--all")
    assert "goes to its exception queue" in mgw.ok("exceptions", "give-up", "out", "--key", key)
    with gateway.run():
        eventually(lambda: gateway.job("out")["PROPAGATED_TOTAL"] == 2)
    assert bodies(gateway, "BAD") == [GIVEN[0]]
    assert json.loads(mgw.ok("exceptions", "parked", "--json")) == []
