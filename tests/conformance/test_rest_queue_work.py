"""Queues as a whole over REST: subscribers, purge, start and stop; and the life of a message."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from fastapi.routing import APIRoute

from mgw.gateway.aq import QueueAdmin
from mgw.gateway.http.rest import dequeue, events, exceptions, messages, proof, queue_work, tasks
from mgw.gateway.services.proof import Range, prove_job, trace_message
from mgw.gateway.services.users import Role, Users
from mgw.links.memory.broker import MemoryBroker
from mgw.transforms.message import Message
from tests.conformance.link_suite import unique
from tests.support.brokers import PostgreSQL
from tests.support.gateways import Gateway, gateway_on
from tests.support.waiting import eventually
from tests.support.web import Caller, serving

QUEUE = "/api/v1/queues/Q"


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def gateway(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Gateway]:
    url = f"sqlite:///{tmp_path}/hub.db"
    if request.param == "postgresql":
        server: PostgreSQL = request.getfixturevalue("postgresql")
        url = server.create_database(unique("restwork"))
    with gateway_on(url) as gateway:
        yield gateway


@pytest.fixture
def web(gateway: Gateway) -> Iterator[Caller]:
    with serving(gateway.hub) as caller:
        yield caller


@pytest.fixture
def broker() -> Iterator[MemoryBroker]:
    yield MemoryBroker.get("restwork")
    MemoryBroker.drop("restwork")


def put(web: Caller, *messages: dict[str, Any], queue: str = "Q") -> list[str]:
    ids: list[str] = web.ok("POST", f"/api/v1/queues/{queue}/messages", list(messages))["ids"]
    return ids


def audited(gateway: Gateway) -> list[tuple[str, str, int]]:
    with gateway.hub.read() as conn:
        rows = conn.exec_driver_sql("SELECT actor, object, messages FROM aq_audit ORDER BY id")
        return [(actor, name, messages) for actor, name, messages in rows]


def test_subscribers_are_shown_with_their_rules_and_what_waits_for_them(gateway: Gateway, web: Caller) -> None:
    gateway.queue("Q", multiple_consumers=True)
    made = web.ok("POST", f"{QUEUE}/subscribers", {"name": "urgent", "rule": "tab.priority < 5"})
    assert (made["name"], made["rule"], made["lag"]["ready"]) == ("urgent", "tab.priority < 5", 0)
    web.ok("POST", f"{QUEUE}/subscribers", {"name": "ALL", "options": {"age_warning": "60"}})
    put(web, {"text": "a"}, {"text": "b", "priority": 9}, {"text": "c", "delay": 1000})
    shown = {each["name"]: each for each in web.ok("GET", f"{QUEUE}/subscribers")}
    assert {name: (each["lag"]["ready"], each["lag"]["waiting"]) for name, each in shown.items()} == {
        "urgent": (1, 1),
        "ALL": (2, 1),
    }
    assert shown["ALL"]["lag"]["oldest"] is not None
    assert shown["ALL"]["options"] == {"age_warning": 60}
    told = web.refused(409, "DELETE", f"{QUEUE}/subscribers/ALL")
    assert "3 message" in told["cause"]
    assert web.ok("DELETE", f"{QUEUE}/subscribers/all?force=true") == {"messages": 3}
    web.refused(404, "DELETE", f"{QUEUE}/subscribers/ALL")
    assert audited(gateway)[-1][0] == "anonymous"


def test_a_subscriber_that_cannot_be_is_refused(gateway: Gateway, web: Caller, broker: MemoryBroker) -> None:
    gateway.queue("Q", multiple_consumers=True)
    gateway.queue("ONE")
    told = web.refused(422, "POST", f"{QUEUE}/subscribers", {"name": "A", "rule": "tab.priority <"})
    assert "line 1, column" in told["detail"]
    web.refused(422, "POST", "/api/v1/queues/ONE/subscribers", {"name": "A"})
    web.ok("POST", f"{QUEUE}/subscribers", {"name": "A"})
    web.refused(409, "POST", f"{QUEUE}/subscribers", {"name": "a"})
    web.refused(422, "POST", f"{QUEUE}/subscribers", {"name": "B", "options": {"x": "1"}})
    web.refused(404, "GET", "/api/v1/queues/NONE/subscribers")
    broker.queue("DST")
    gateway.admin.create_msgsystem_link("mem", "MEMORY", {"broker": broker.name})
    gateway.admin.register_foreign_queue("DST", "mem")
    gateway.admin.create_job("out", "OUTBOUND", "Q", "DST@mem")
    assert "mgw jobs remove" in web.refused(409, "DELETE", f"{QUEUE}/subscribers/MGW_OUT")["cure"]
    for name in ("x'y", "%", "a/b", "ü" * 200, "\0"):
        assert web("DELETE", f"{QUEUE}/subscribers/{quote(name, safe='')}").status in (404, 422), name


def test_a_purge_removes_what_the_condition_says_and_nothing_of_other_queues(gateway: Gateway, web: Caller) -> None:
    gateway.queue("Q")
    gateway.queues.create_queue("NEXT", "Q_QT")
    gateway.queues.start_queue("NEXT")
    put(web, *({"text": str(number), "priority": number} for number in range(5)))
    put(web, {"text": "mine"}, queue="NEXT")
    wanted: dict[str, Any] = {"condition": "qtview.msg_priority > 2"}
    before = audited(gateway)
    assert web.ok("POST", f"{QUEUE}/purge", wanted | {"dry_run": True}) == {
        "messages": 2,
        "entries": 0,
        "dry_run": True,
    }
    assert audited(gateway) == before
    assert web.ok("POST", f"{QUEUE}/purge", wanted)["messages"] == 2
    (entry,) = audited(gateway)[len(before) :]
    assert (entry[0], entry[2]) == ("anonymous", 2)
    assert "msg_priority > 2" in entry[1]
    for sly in ("1 = 1) OR (1 = 1", "1 = 1 -- ", "1 = 1 /*", "qtview.queue = 'NEXT' OR 1 = 1"):
        web("POST", f"{QUEUE}/purge", {"condition": sly})
        assert len(gateway.browse("NEXT")) == 1, sly
    put(web, {"text": "x"})
    assert web.ok("POST", f"{QUEUE}/purge", {"all": True, "dry_run": True})["messages"] == len(gateway.browse("Q"))
    web.ok("POST", f"{QUEUE}/purge", {"all": True})
    assert gateway.browse("Q") == []
    assert len(gateway.browse("NEXT")) == 1


def test_a_purge_that_is_not_clear_or_in_the_way_is_refused(gateway: Gateway, web: Caller) -> None:
    gateway.queue("Q")
    put(web, {"text": "x"})
    web.refused(422, "POST", f"{QUEUE}/purge", {})
    web.refused(422, "POST", f"{QUEUE}/purge", {"all": True, "condition": "1 = 1"})
    told = web.refused(422, "POST", f"{QUEUE}/purge", {"condition": "qtview.msg_priority >"})
    assert told["number"] == 25448
    assert "line 1, column" in told["detail"]
    web.refused(404, "POST", "/api/v1/queues/NONE/purge", {"all": True})
    token = web.ok("POST", f"{QUEUE}/dequeue", {})["token"]
    assert web.refused(409, "POST", f"{QUEUE}/purge", {"all": True})["number"] == 54
    web.ok("POST", f"{QUEUE}/acknowledge", {"token": token})


def test_a_queue_is_started_and_stopped(gateway: Gateway, web: Caller) -> None:
    gateway.queue("Q")
    assert web.ok("POST", f"{QUEUE}/stop", {"dequeue": False}) == {"queue": "Q", "enqueue": False, "dequeue": True}
    assert web.refused(409, "POST", f"{QUEUE}/messages", {"text": "x"})["number"] == 25207
    assert web.ok("POST", f"{QUEUE}/start") == {"queue": "Q", "enqueue": True, "dequeue": True}
    put(web, {"text": "x"})
    token = web.ok("POST", f"{QUEUE}/dequeue", {})["token"]
    assert web.refused(409, "POST", f"{QUEUE}/stop", {"wait": 0})["number"] == 24018
    web.ok("POST", f"{QUEUE}/release", {"token": token})
    assert web.ok("POST", f"{QUEUE}/stop") == {"queue": "Q", "enqueue": False, "dequeue": False}
    web.refused(404, "POST", "/api/v1/queues/NONE/start")
    web.refused(422, "POST", f"{QUEUE}/stop", {"wait": 11})


def test_a_viewer_looks_and_an_operator_works(gateway: Gateway) -> None:
    gateway.queue("Q")
    users = Users(gateway.hub)
    callers = {}
    with serving(gateway.hub) as web:
        for role in (Role.ADMINISTRATOR, Role.VIEWER, Role.OPERATOR):
            users.add(role.lower(), role, None, by="test")
            token = users.add_token(role.lower(), by="test")[1]
            callers[role] = Caller(web.port, {"Authorization": f"Bearer {token}"})
        callers[Role.OPERATOR].ok("POST", f"{QUEUE}/messages", {"text": "x"})
        assert callers[Role.VIEWER].ok("GET", f"{QUEUE}/messages")["messages"][0]["text"] == "x"
        for path in ("messages", "dequeue", "purge", "start", "stop"):
            callers[Role.VIEWER].refused(403, "POST", f"{QUEUE}/{path}", {})
        callers[Role.OPERATOR].refused(403, "POST", f"{QUEUE}/subscribers", {"name": "A"})
        callers[Role.OPERATOR].ok("POST", f"{QUEUE}/purge", {"all": True})
    assert audited(gateway)[-1][0] == "operator"


# ---------------------------------------------------------------------------------------------------------------- life


def test_the_life_of_a_message_is_what_the_ledger_knows(gateway: Gateway, web: Caller, broker: MemoryBroker) -> None:
    broker.queue("DST")
    gateway.queue("Q")
    gateway.admin.create_msgsystem_link("mem", "MEMORY", {"broker": broker.name})
    gateway.admin.register_foreign_queue("DST", "mem")
    gateway.admin.create_job("out", "OUTBOUND", "Q", "DST@mem")
    identity, _ = put(web, {"text": "x"}, {"text": "y"})
    before = web.ok("GET", f"/api/v1/messages/{identity}")
    assert (before["records"], before["queue"]) == ([], "Q")
    assert before["now"] == [{"id": identity, "state": "queue Q: ready"}]
    with gateway.run():
        eventually(lambda: gateway.job("out")["PROPAGATED_MSGS"] == 2)
    life = web.ok("GET", f"/api/v1/messages/AQMSGID:{identity.lower()}")
    (record,) = life["records"]
    assert (life["message"], life["holds"], life["queue"]) == (identity, True, None)
    assert (record["job"], record["kind"], record["messages"]) == ("out", "COMPLETED", [identity])
    times = [record[name][:19] for name in ("started", "sent", "confirmed", "finished")]
    assert times == sorted(times)
    assert life["now"] == [{"id": identity, "state": None}]
    known = trace_message(gateway.hub, "out", identity)
    assert record["places"] == list(known.sights[0].places)
    for place in (identity, *record["places"]):
        found = web.ok("GET", f"/api/v1/jobs/OUT/prove/message?message={quote(place)}")
        assert found["records"] == life["records"]

    proof = web.ok("GET", "/api/v1/jobs/out/prove?list=true&limit=1")
    told = prove_job(gateway.hub, "out", Range())
    assert (proof["holds"], proof["messages"], proof["outcomes"]) == (True, 2, dict(told.proof.outcomes))
    assert [each["messages"] for each in proof["records"]] == [[identity]]
    assert web.ok("GET", "/api/v1/jobs/out/prove?last=1")["messages"] == told.proof.messages
    assert web.ok("GET", "/api/v1/jobs/out/prove?until=2001-01-01T00:00:00Z")["messages"] == 0


def test_what_the_ledger_does_not_know_is_told(gateway: Gateway, web: Caller) -> None:
    gateway.queue("Q")
    own = gateway.hub.hub_id.hex()
    web.refused(404, "GET", f"/api/v1/messages/{own}{'0' * 16}")
    web.refused(404, "GET", f"/api/v1/messages/{own}{'f' * 16}")
    web.refused(404, "GET", "/api/v1/messages/" + "0" * 32)
    web.refused(422, "GET", "/api/v1/messages/x")
    web.refused(404, "GET", "/api/v1/jobs/none/prove")
    web.refused(422, "GET", "/api/v1/jobs/none/prove?since=yesterday")
    web.refused(422, "GET", "/api/v1/jobs/none/prove?last=0")
    web.refused(404, "GET", "/api/v1/jobs/none/prove/message?message=x")
    web.refused(422, "GET", "/api/v1/jobs/none/prove/message?message=%00")


def test_messages_made_of_the_same_one_are_copies(gateway: Gateway, web: Caller, broker: MemoryBroker) -> None:
    broker.queue("SRC")
    gateway.queue("Q")
    gateway.admin.create_msgsystem_link("mem", "MEMORY", {"broker": broker.name})
    gateway.admin.register_foreign_queue("SRC", "mem")
    gateway.admin.create_job("in", "INBOUND", "SRC@mem", "Q")
    broker.put("SRC", Message("x"))
    with gateway.run():
        eventually(lambda: len(gateway.browse("Q")) == 1)
    (message,) = gateway.browse("Q")
    assert message.msgid is not None
    life = web.ok("GET", f"/api/v1/messages/{message.msgid.hex()}")
    assert [(each["kind"], each["origin"] != "") for each in life["records"]] == [("RECEIVED", True)]
    assert life["queue"] == "Q"
    assert QueueAdmin(gateway.hub).queue(life["queue"]) is not None


def test_every_route_parameter_and_field_of_messages_is_described(gateway: Gateway, web: Caller) -> None:
    assert gateway.hub.is_open
    found = web.ok("GET", "/openapi.json")
    parts = (dequeue, events, exceptions, messages, proof, queue_work, tasks)
    paths = {
        f"/api/v1{route.path_format}" for part in parts for route in part.router.routes if isinstance(route, APIRoute)
    }
    routes = {path: found["paths"][path] for path in paths}
    assert len(routes) > 20
    names = set(re.findall(r"#/components/schemas/(\w+)", json.dumps(routes))) - {"ProblemModel"}
    for path, verbs in routes.items():
        for verb, route in verbs.items():
            assert route.get("description"), (verb, path)
            assert all(each.get("description") for each in route.get("parameters", ())), (verb, path)
    for name in names:
        for field, schema in found["components"]["schemas"][name].get("properties", {}).items():
            assert schema.get("description"), (name, field)
