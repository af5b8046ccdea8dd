"""Subscribers and schedules of the older interfaces over REST. On SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mgw.gateway.http.rest import old_style, outbound_schedules
from mgw.gateway.services.users import Role, Users
from mgw.links.memory.broker import MemoryBroker
from mgw.transforms.message import Message
from tests.support.gateways import Gateway, gateway_on
from tests.support.web import Caller, serving

ENDS = {"type": "OUTBOUND", "source": "M", "destination": "OUT@mem"}
HQ = "/api/v1/outbound-schedules"


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    broker = MemoryBroker.get("restold")
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as gateway:
        gateway.admin.create_msgsystem_link("mem", "MEMORY", {"broker": broker.name})
        gateway.queue("M", multiple_consumers=True)
        gateway.queue("FILES", queue_payload_type="RAW", multiple_consumers=True)
        gateway.admin.register_foreign_queue("OUT", "mem")
        yield gateway
    MemoryBroker.drop(broker.name)


@pytest.fixture
def web(gateway: Gateway) -> Iterator[Caller]:
    with serving(gateway.hub) as caller:
        yield caller


def test_a_job_is_made_of_two_halves(gateway: Gateway, web: Caller) -> None:
    made = web.ok("POST", "/api/v1/subscribers", {"name": "Half", "rule": "tab.priority < 3"} | ENDS)
    assert (made["name"], made["schedule"], made["old_style"], made["status"]) == ("HALF", None, True, "ENABLED")
    assert web.refused(409, "POST", "/api/v1/subscribers", {"name": "half"} | ENDS)["number"] == 32811
    made = web.ok("POST", "/api/v1/schedules", {"name": "Often", "latency": 2} | ENDS)
    assert (made["subscriber"], made["latency"], made["disabled"]) == ("HALF", 2, False)
    assert web.refused(409, "POST", "/api/v1/schedules", {"name": "other"} | ENDS)["number"] == 32824
    change = {"rule": None, "options": {"MsgBatchSize": "9"}}
    altered = web.ok("PATCH", "/api/v1/subscribers/half", change)
    assert (altered["rule"], altered["options"], altered["schedule"]) == (None, {"MsgBatchSize": 9}, "OFTEN")
    assert web.ok("PATCH", "/api/v1/subscribers/half", {})["options"] == {"MsgBatchSize": 9}, "what is left out stays"
    assert web.ok("POST", "/api/v1/schedules/often/disable")["disabled"]
    assert not web.ok("POST", "/api/v1/schedules/often/enable")["disabled"]
    assert web.ok("PATCH", "/api/v1/schedules/often", {})["latency"] == 5
    assert web.ok("POST", "/api/v1/subscribers/half/reset")["failures"] == 0
    assert [each["name"] for each in web.ok("GET", "/api/v1/schedules")] == ["OFTEN"]
    web.ok("DELETE", "/api/v1/schedules/often")
    assert gateway.admin.list_jobs() == []
    gateway.enqueue("M", [Message(b"1")])
    assert web.ok("GET", "/api/v1/subscribers/half")["backlog"] == 1
    assert "1 message" in web.refused(409, "DELETE", "/api/v1/subscribers/half")["cause"]
    assert web.ok("DELETE", "/api/v1/subscribers/half?force=true") == {"removed": True}
    assert "does not exist" in web.refused(404, "GET", "/api/v1/subscribers/half")["detail"]
    web.refused(404, "DELETE", "/api/v1/schedules/often")
    gateway.admin.create_job("new", "OUTBOUND", "M", "OUT@mem")
    assert web.refused(409, "PATCH", "/api/v1/subscribers/new", {"rule": None})["number"] == 32856
    web.refused(422, "POST", "/api/v1/schedules", {"name": "x", "latency": 0} | ENDS)
    web.refused(422, "PATCH", "/api/v1/subscribers/new", {"rules": "x"})


def test_schedules_of_the_older_gateway(gateway: Gateway, web: Caller) -> None:
    wanted = {"queue": "files", "destination": "out@mem", "start_time": "2030-01-31T23:00:00+01:00"}
    made = web.ok("POST", HQ, wanted | {"duration": 600, "next_time": "SYSDATE + 1", "latency": 0})
    assert (made["job"], made["protocol"], made["latency"]) == ("HQ$_1", "MQSERIES_OUTBOUND", 0)
    assert (made["window_begin"], made["window_end"]) == ("2030-01-31T22:00:00Z", "2030-01-31T22:10:00Z")
    assert web.ok("GET", HQ) == [made]
    assert web.refused(409, "POST", HQ, wanted)["number"] == 32824
    assert web.refused(422, "POST", HQ, {"queue": "M", "destination": "out@mem"})["number"] == 20002
    assert web.refused(422, "POST", HQ, {"queue": "files", "destination": "out"})["number"] == 20001
    assert web.refused(422, "POST", HQ, wanted | {"next_time": "tomorrow", "queue": "M"})["number"] == 32801
    assert web.refused(404, "POST", HQ, wanted | {"queue": "nosuch"})["number"] == 32818
    gateway.enqueue("FILES", [Message(b"1")])
    place = f"{HQ}?queue=FILES&destination=OUT@MEM"
    assert web.refused(409, "DELETE", place)["number"] == 20004
    assert web.refused(404, "DELETE", f"{place}&protocol=131")["number"] == 32814
    assert web.ok("DELETE", f"{place}&force=true") == {"removed": True}
    assert web.ok("GET", HQ) == []


def test_what_is_removed_as_it_is_made_does_not_exist(
    gateway: Gateway, web: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("subscribers", "schedules", "outbound_schedules"):
        monkeypatch.setattr(f"mgw.gateway.services.old_style.{name}", lambda _: [])
    ends = {"queue": "files", "destination": "out@mem"}
    assert "does not exist" in web.refused(404, "POST", HQ, ends)["detail"]
    for kind in ("subscribers", "schedules"):
        assert "does not exist" in web.refused(404, "POST", f"/api/v1/{kind}", {"name": "Gone"} | ENDS)["detail"]


def test_who_may_only_look_changes_nothing(gateway: Gateway) -> None:
    users = Users(gateway.hub)
    users.add("boss", Role.ADMINISTRATOR, None, by="test")
    users.add("eva", Role.VIEWER, None, by="test")
    text = users.add_token("eva", by="test")[1]
    with serving(gateway.hub) as web:
        web.headers["Authorization"] = f"Bearer {text}"
        for router in (old_style.subscribers, old_style.schedules, outbound_schedules.router):
            assert web.ok("GET", f"/api/v1{router.prefix}") == []
            web.refused(403, "POST", f"/api/v1{router.prefix}", {})
