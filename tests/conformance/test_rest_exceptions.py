"""The exception desk over REST: it does what the desk of the command line does."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from mgw.gateway.services.exceptions import Which, desk_of
from mgw.gateway.services.tasks import AT_ONCE
from mgw.gateway.services.users import Role, Users
from mgw.links.memory.broker import MemoryBroker
from mgw.transforms.message import Header, Message, ValueType
from tests.cli.conftest import Mgw
from tests.support.gateway_hubs import hub_url, hubs
from tests.support.gateways import Gateway, gateway_on
from tests.support.waiting import eventually
from tests.support.web import Caller, serving

__all__ = ["hub_url", "hubs"]  # fixtures

TRANSFORMATION = {"set": {"header.celsius": "(tab.user_data.f - 32) / 1.8"}}
GIVEN = [f'{{"f":"hot {number}"}}' for number in range(3)]
DESK = "/api/v1/exceptions/out"


@pytest.fixture
def broker() -> Iterator[MemoryBroker]:
    yield MemoryBroker.get("restdesk")
    MemoryBroker.drop("restdesk")


@pytest.fixture
def gateway(hub_url: str, broker: MemoryBroker) -> Iterator[Gateway]:
    """Three messages of job ``out`` are in exception queue BAD."""
    with gateway_on(hub_url) as gateway:
        broker.queue("DST")
        gateway.queue("Q")
        gateway.queue("BAD")
        gateway.admin.create_transformation("celsius", "BASIC", "BASIC", TRANSFORMATION)
        gateway.admin.create_msgsystem_link("mem", "MEMORY", {"broker": broker.name})
        gateway.admin.register_foreign_queue("DST", "mem")
        gateway.admin.create_job("out", "OUTBOUND", "Q", "DST@mem", transformation="celsius", exception_queue="BAD")
        tenant = Header("tenant", ValueType.TEXT, "a")
        gateway.enqueue("Q", [Message(body, headers=(tenant,), correlation=body[-3]) for body in GIVEN])
        with gateway.run():
            eventually(lambda: gateway.job("out")["EXCEPTIONQ_TOTAL"] == 3)
        yield gateway


@pytest.fixture
def web(gateway: Gateway) -> Iterator[Caller]:
    with serving(gateway.hub) as caller:
        yield caller


def listed(web: Caller, **asked: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = web.ok("GET", f"{DESK}?{urlencode(asked)}")["messages"]
    return found


def bodies(messages: list[Message]) -> list[Any]:
    return [message.body for message in messages]


def test_groups_count_what_failed_for_the_same_reason(web: Caller, gateway: Gateway) -> None:
    gateway.queue("GONE")
    gateway.admin.create_job("other", "OUTBOUND", "GONE", "DST@mem", exception_queue="BAD")
    found = web.ok("GET", "/api/v1/exceptions")
    assert sum(group["messages"] for group in found["groups"]) == 3
    assert {(group["job"], group["queue"]) for group in found["groups"]} == {("out", "BAD")}
    assert all(group["first"] <= group["last"] and group["number"] for group in found["groups"])
    assert (found["left_out"], found["unfinished"]) == ([], [])
    assert found["groups"][0]["sample"] in [each["id"] for each in listed(web)]


def test_the_desk_is_that_of_the_command_line(web: Caller, hub_url: str, tmp_path: Path) -> None:
    mgw = Mgw(tmp_path, {"MGW_HUB": hub_url})
    command = json.loads(mgw.ok("exceptions", "list", "out", "--json"))
    over_http = listed(web)
    assert [each["id"] for each in over_http] == [each["id"] for each in command]
    for theirs, ours in zip(command, over_http, strict=True):
        assert {name: ours[name] for name in theirs if name != "time"} == {
            name: theirs[name] for name in theirs if name != "time"
        }
        shown = json.loads(mgw.ok("exceptions", "show", "out", ours["id"], "--json"))
        whole = web.ok("GET", f"{DESK}/{ours['id']}")
        assert (whole["text"], whole["correlation"], whole["priority"]) == (
            shown["body"],
            shown["correlation"],
            shown["priority"],
        )
        assert [[name, each["type"].upper(), each["value"]] for name, each in whole["headers"].items()] == shown[
            "headers"
        ]


def test_messages_are_chosen_by_what_the_filters_say(web: Caller) -> None:
    first, *_, last = listed(web)
    assert len(listed(web, limit=2)) == 2
    assert web.ok("GET", f"{DESK}?limit=2")["more"] is True
    assert listed(web, number=first["number"] + 1) == []
    assert len(listed(web, number=first["number"], reason="*hot*")) == 3
    assert listed(web, reason="cold") == []
    assert listed(web, before=first["time"]) == []
    just_before = datetime.fromisoformat(last["time"]) - timedelta(milliseconds=1)
    assert [each["id"] for each in listed(web, since=just_before.isoformat())][-1:] == [last["id"]]


def test_a_page_goes_on_behind_the_one_before_although_that_was_replayed_meanwhile(web: Caller) -> None:
    first, second, third = (each["id"] for each in listed(web))
    page = web.ok("GET", f"{DESK}?limit=1")
    assert [each["id"] for each in page["messages"]] == [first]
    web.ok("POST", f"{DESK}/replay", {"ids": [first]})
    page = web.ok("GET", f"{DESK}?limit=1&cursor={page['next']}")
    assert [each["id"] for each in page["messages"]] == [second]
    page = web.ok("GET", f"{DESK}?cursor={page['next']}")
    assert ([each["id"] for each in page["messages"]], page["next"], page["more"]) == ([third], None, False)
    for wrong in ("x", "bmFuIHg", "MS41", "LSA"):
        web.refused(422, "GET", f"{DESK}?cursor={wrong}")


def test_an_edit_changes_what_is_named_and_keeps_the_rest(web: Caller, gateway: Gateway) -> None:
    identity = listed(web)[0]["id"]
    change = {"json": {"f": 212}, "headers": {"tenant": None, "n": {"type": "long", "value": 2**62}}}
    edited = web.ok("PATCH", f"{DESK}/{identity}", change)
    assert edited["id"] != identity
    assert (edited["text"], edited["correlation"]) == ('{"f":212}', GIVEN[0][-3])
    assert edited["headers"] == {"n": {"type": "long", "value": 2**62}}
    assert "by anonymous" in edited["edited"]
    assert web.ok("GET", f"{DESK}/{edited['id']}") == edited
    removed = web.ok("PATCH", f"{DESK}/{edited['id']}", {"correlation": None})
    assert removed["correlation"] is None
    outcome = web.ok("POST", f"{DESK}/replay", {"ids": [removed["id"]]})
    assert (outcome["done"], outcome["target"]) == ([removed["id"]], "Q")
    assert bodies(gateway.browse("Q")) == ['{"f":212}']
    with gateway.run():
        eventually(lambda: gateway.job("out")["PROPAGATED_MSGS"] == 1)


def test_an_edit_that_cannot_be_is_refused_and_nothing_is_changed(web: Caller) -> None:
    before = listed(web)
    one = f"{DESK}/{before[0]['id']}"
    for wrong in (
        {"base64": base64.b64encode(b"x").decode()},
        {"text": "a", "json": 1},
        {"text": "\ud800"},
        {"headers": {"MGW_error": "x"}},
        {"headers": {"n": {"type": "byte", "value": 1000}}},
        {"headers": [1]},
        {"headers": {"n" * 251: 1}},
        {"correlation": "x" * 129},
        {"body": "x"},
        {},
    ):
        answer = web("PATCH", one, wrong)
        assert answer.status in (409, 422), (wrong, answer.body)
    assert listed(web) == before
    for unknown in ("0" * 32, "x", "ü" * 50, "%", "' --"):
        web.refused(404, "GET", f"{DESK}/{quote(unknown, safe='')}")
        web.refused(404, "PATCH", f"{DESK}/{quote(unknown, safe='')}", {"text": "x"})


def test_a_replay_is_tried_first_and_then_done_in_order(web: Caller, gateway: Gateway) -> None:
    ids = [each["id"] for each in listed(web)]
    dry = web.ok("POST", f"{DESK}/replay", {"all": True, "dry_run": True})
    assert (dry["done"], dry["dry_run"]) == (ids, True)
    assert len(listed(web)) == 3
    first = web.ok("POST", f"{DESK}/replay", {"reason": "hot", "limit": 1})
    assert (first["done"], first["stopped"]) == (ids[:1], None)
    assert sum(first["reasons"].values()) == 1
    again = web.ok("POST", f"{DESK}/replay", {"ids": [ids[0], ids[2]]})
    assert again["done"] == ids[2:]
    assert bodies(gateway.browse("Q")) == [GIVEN[0], GIVEN[2]]
    assert any("by anonymous" in text and "replayed" in text for text in gateway.events())


def test_a_discard_is_for_good_and_an_event_says_who(gateway: Gateway) -> None:
    users = Users(gateway.hub)
    users.add("root", Role.ADMINISTRATOR, None, by="test")
    callers = {}
    with serving(gateway.hub) as web:
        for role in (Role.VIEWER, Role.OPERATOR):
            users.add(role.lower(), role, None, by="test")
            callers[role] = Caller(web.port, {"Authorization": f"Bearer {users.add_token(role.lower(), by='test')[1]}"})
        assert len(listed(callers[Role.VIEWER])) == 3
        callers[Role.VIEWER].refused(403, "POST", f"{DESK}/discard", {"all": True})
        done = callers[Role.OPERATOR].ok("POST", f"{DESK}/discard", {"all": True})
        assert len(done["done"]) == 3
        assert listed(callers[Role.VIEWER]) == []
    assert any("discarded by operator" in text for text in gateway.events())
    assert gateway.browse("Q") == []


def test_nothing_is_done_that_nobody_chose(web: Caller) -> None:
    for verb in ("replay", "discard"):
        web.refused(422, "POST", f"{DESK}/{verb}", {})
        web.refused(422, "POST", f"{DESK}/{verb}", {"all": True, "number": 1})
        web.refused(422, "POST", f"{DESK}/{verb}", {"all": True, "rate": 0})
        web.refused(422, "POST", f"{DESK}/{verb}", {"all": True, "limit": 0})
        web.refused(422, "POST", f"{DESK}/{verb}", {"number": 2**31})
        web.refused(404, "POST", f"/api/v1/exceptions/none/{verb}", {"all": True})
    assert "foreign" not in web.refused(409, "POST", f"{DESK}/replay", {"all": True, "to": "DST@mem"})["detail"]
    assert len(listed(web)) == 3


def test_a_job_without_a_desk_says_so(web: Caller, gateway: Gateway) -> None:
    gateway.queue("PLAIN")
    gateway.admin.create_job("plain", "OUTBOUND", "PLAIN", "DST@mem")
    assert "--exception-queue" in web.refused(409, "GET", "/api/v1/exceptions/plain")["cure"]
    web.refused(404, "GET", "/api/v1/exceptions/none")
    web.refused(404, "GET", f"/api/v1/exceptions/none/{'0' * 32}")
    web.refused(422, "GET", f"{DESK}?since=x")
    web.refused(422, "GET", f"{DESK}?reason=%00")


# --------------------------------------------------------------------------------------------------------------- tasks


def test_a_replay_with_a_rate_is_a_task_that_can_be_stopped(web: Caller, gateway: Gateway) -> None:
    answer = web("POST", f"{DESK}/replay", {"all": True, "rate": 0.001})
    assert answer.status == 202
    task = answer.json
    assert (task["kind"], task["object"], task["by"]) == ("replay", "out", "anonymous")
    path = f"/api/v1/tasks/{task['id']}"
    eventually(lambda: web.ok("GET", path)["done"] == 1)
    assert web.ok("GET", path)["state"] == "RUNNING"
    assert [each["id"] for each in web.ok("GET", "/api/v1/tasks")] == [task["id"]]
    begun = time.monotonic()
    stopped = web.ok("DELETE", path)
    assert time.monotonic() - begun < 500  # not the 1000 seconds until the next message
    assert eventually(lambda: web.ok("GET", path)["state"] == "STOPPED")
    ended = web.ok("GET", path)
    assert (ended["done"], ended["error"], ended["target"]) == (1, "somebody stopped it", "Q")
    assert ended["ended"] >= stopped["started"]
    assert bodies(gateway.browse("Q")) == GIVEN[:1]
    assert len(listed(web)) == 2
    assert web.ok("DELETE", path)["state"] == "STOPPED"


def test_a_task_that_is_not_slow_ends_by_itself(web: Caller, gateway: Gateway) -> None:
    task = web.ok("POST", f"{DESK}/discard", {"all": True, "task": True})
    path = f"/api/v1/tasks/{task['id']}"
    eventually(lambda: web.ok("GET", path)["state"] == "DONE")
    assert (web.ok("GET", path)["done"], gateway.browse("BAD")) == (3, [])


def test_a_task_that_can_do_nothing_says_why(web: Caller, gateway: Gateway) -> None:
    gateway.queues.stop_queue("Q")
    task = web.ok("POST", f"{DESK}/replay", {"all": True, "task": True})
    path = f"/api/v1/tasks/{task['id']}"
    eventually(lambda: web.ok("GET", path)["state"] == "FAILED")
    assert "not enabled" in web.ok("GET", path)["error"]
    assert len(listed(web)) == 3


def test_tasks_are_bounded_and_those_that_are_not_known_are_told(web: Caller) -> None:
    tasks = []
    for _ in range(AT_ONCE):
        answer = web("POST", f"{DESK}/replay", {"all": True, "rate": 0.001, "number": None})
        assert answer.status == 202
        tasks.append(answer.json["id"])
    running = [each for each in web.ok("GET", "/api/v1/tasks") if each["state"] == "RUNNING"]
    if len(running) == AT_ONCE:  # those that found nothing to do have ended
        web.refused(503, "POST", f"{DESK}/replay", {"all": True, "rate": 0.001})
    for identity in tasks:
        web.ok("DELETE", f"/api/v1/tasks/{identity}")
    for unknown in ("x", "0" * 16, "%00", "' --"):
        web.refused(404, "GET", f"/api/v1/tasks/{quote(unknown)}")
        web.refused(404, "DELETE", f"/api/v1/tasks/{quote(unknown)}")


# -------------------------------------------------------------------------------------------------------------- parked


def test_parked_keys_are_shown_tried_and_given_up(gateway: Gateway, web: Caller, broker: MemoryBroker) -> None:
    gateway.queue("P")
    gateway.admin.create_job(
        "park",
        "OUTBOUND",
        "P",
        "DST@mem",
        transformation="celsius",
        exception_queue="BAD",
        options={"park_key": "tab.corrid"},
    )
    gateway.enqueue("P", [Message('{"f":"hot"}', correlation="k"), Message('{"f":32}', correlation="k")])
    parked = "/api/v1/exceptions/park/parked"
    with gateway.run():
        eventually(lambda: [each["messages"] for each in web.ok("GET", parked)] == [2])
        (found,) = web.ok("GET", parked)
        assert (found["job"], found["key"]) == ("park", "k")
        assert found["first"].startswith(gateway.hub.hub_id.hex().upper())
        web.refused(422, "POST", f"{parked}/release", {})
        web.refused(422, "POST", f"{parked}/give-up", {"keys": []})
        web.refused(409, "POST", f"{parked}/give-up", {"keys": ["none"]})
        web.ok("POST", f"{parked}/release", {"all": True})
        eventually(lambda: web.ok("GET", parked)[0]["state"] == "PARKED")
        assert web.ok("POST", f"{parked}/give-up", {"keys": ["k"]}) == {"keys": ["k"]}
        eventually(lambda: web.ok("GET", parked) == [])
    assert len(web.ok("GET", "/api/v1/exceptions/park")["messages"]) == 1
    assert next(desk_of(gateway.admin, "park").entries(Which(), 1)).message.body == '{"f":"hot"}'
    web.refused(404, "GET", "/api/v1/exceptions/none/parked")
