"""Definitions over REST: read, made, changed, removed, with what a configuration file says of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.services.hubs import Hub, open_hub
from mgw.links.memory.broker import MemoryBroker
from mgw.transforms.message import Message
from tests.support.gateways import Gateway, gateway_on
from tests.support.waiting import eventually
from tests.support.web import Caller, serving

API = "/api/v1"
SECRET = "hunter2hunter2"


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    with open_hub(f"sqlite:///{tmp_path}/hub.db", create=True) as made:
        yield made


@pytest.fixture
def web(hub: Hub) -> Iterator[Caller]:
    with serving(hub) as caller:
        yield caller


def at(section: str, name: str = "", *more: str) -> str:
    """An address, its names percent-encoded."""
    return "/".join([API, section, *(quote(each, safe="") for each in (name, *more) if each)])


@pytest.fixture
def furnished(hub: Hub) -> GatewayAdmin:
    """A hub with a few objects."""
    admin = GatewayAdmin(hub)
    for number in range(3):
        admin.create_msgsystem_link(
            f"rabbit{number}", "RABBITMQ", {"hostname": "h", "port": 5673, "username": "u", "password": SECRET}
        )
    admin.create_msgsystem_link("log", "KAFKA", {"bootstrap_servers": "h:9092"})
    admin.register_foreign_queue("in/a", "rabbit1", options={"AMQP_ConsumerPriority": "3"})
    admin.aq.create_queue_table("orders_tab", multiple_consumers=True)
    admin.aq.create_queue("orders", "orders_tab")
    admin.aq.create_queue_table("OE.orders_tab", sort_list="PRIORITY")
    admin.aq.create_queue("OE.orders", "OE.orders_tab")
    admin.aq.create_queue_table("shared", "RAW")
    admin.create_job("in", "INBOUND", "in/a@rabbit1", "OE.orders", options={"MsgBatchSize": "50"})
    return admin


# ------------------------------------------------------------------------------------------------------------- reading


@pytest.mark.usefixtures("furnished")
def test_an_object_is_told_as_a_file_would_say_it_without_defaults_and_secrets(web: Caller) -> None:
    assert web.ok("GET", at("links", "rabbit1")) == {
        "type": "rabbitmq",
        "hostname": "h",
        "port": 5673,
        "username": "u",
    }
    assert web.ok("GET", at("foreign-queues", "in/a@rabbit1")) == {"options": {"AMQP_ConsumerPriority": 3}}
    assert web.ok("GET", at("jobs", "in")) == {
        "type": "inbound",
        "source": "in/a@rabbit1",
        "destination": "OE.orders",
        "batch_size": 50,
    }
    assert web.ok("GET", at("agents", "default_agent")) == {}
    for section in ("links", "jobs", "agents", "config"):
        assert SECRET.encode() not in web("GET", at(section)).body


@pytest.mark.usefixtures("furnished")
def test_names_are_found_in_any_letter_case_with_schema_at_sign_and_slash(web: Caller) -> None:
    own, other = web.ok("GET", at("queues", "ORDERS")), web.ok("GET", at("queues", "oe.Orders"))
    assert own == web.ok("GET", at("queues", "mgw.orders"))
    assert (own, other["sort_list"]) == ({"multiple_consumers": True, "dequeue": False, "enqueue": False}, "PRIORITY")
    for spelled in ("in%2Fa%40rabbit1", "IN%2fA@RABBIT1"):
        assert web.ok("GET", f"{API}/foreign-queues/{spelled}") == {"options": {"AMQP_ConsumerPriority": 3}}


@pytest.mark.usefixtures("furnished")
@pytest.mark.parametrize(
    ("section", "name", "told", "cure"),
    [
        ("links", "rabit1", "link 'rabit1' does not exist", "did you mean 'rabbit1'?"),
        ("foreign-queues", "in/a@rabbit2", "foreign queue 'in/a@rabbit2'", "did you mean 'in/a@rabbit1'?"),
        ("queues", "OE.order", "queue 'OE.order' does not exist", "did you mean 'OE.orders'?"),
        ("transformations", "x", "transformation 'x' does not exist", "none is defined yet"),
        ("jobs", "nul\0\uffff", "job", "known: in"),
        ("queue-tables", '"', "queue table", "known: shared"),
    ],
)
def test_what_does_not_exist_is_told_with_what_was_meant(
    web: Caller, section: str, name: str, told: str, cure: str
) -> None:
    found = web.refused(404, "GET", at(section, name))
    assert told in found["detail"]
    assert cure in found["cure"]


@pytest.mark.usefixtures("furnished")
def test_a_list_is_filtered_and_comes_in_pages(web: Caller) -> None:
    def names(path: str) -> list[str]:
        return [each["name"] for each in web.ok("GET", f"{API}{path}")["items"]]

    assert names("/links") == ["log", "rabbit0", "rabbit1", "rabbit2"]
    assert names("/links?name=RABBIT*") == ["rabbit0", "rabbit1", "rabbit2"]
    assert names("/links?name=?og") == names("/links?type=kafka") == ["log"]
    assert names("/links?agent=default_agent&state=unused") == ["log", "rabbit0", "rabbit2"]
    assert names("/links?agent=other") == names("/jobs?state=FAILED") == names("/jobs?link=log") == []
    assert names("/jobs?link=RABBIT1&type=inbound&agent=DEFAULT_AGENT&state=STOPPED") == ["in"]
    assert names("/foreign-queues?link=rabbit1") == ["in/a@rabbit1"]
    assert names("/agents?state=NOT_STARTED") == ["DEFAULT_AGENT"]
    seen, cursor = [], ""
    while cursor is not None:
        page = web.ok("GET", f"{API}/links?limit=2{cursor and '&cursor='}{cursor}")
        seen.append([each["name"] for each in page["items"]])
        cursor = page["cursor"]
    assert seen == [["log", "rabbit0"], ["rabbit1", "rabbit2"]]
    for bad in ("limit=0", "limit=1001", "cursor=%00", "cursor=_w"):
        assert web.refused(422, "GET", f"{API}/links?{bad}")


@pytest.mark.usefixtures("furnished")
def test_who_has_an_object_already_is_told_so(web: Caller, furnished: GatewayAdmin) -> None:
    first = web("GET", at("links", "rabbit1"))
    tag = first.headers["etag"]
    again = web("GET", at("links", "RABBIT1"), if_none_match=f'"x", W/{tag}')
    assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag)
    assert web.ok("GET", at("links"))["items"][2]["etag"] == tag
    furnished.alter_msgsystem_link("rabbit1", {"port": 1})
    changed = web("GET", at("links", "rabbit1"), if_none_match=tag)
    assert changed.status == 200
    assert changed.headers["etag"] != tag


@pytest.mark.usefixtures("furnished")
def test_a_job_says_how_it_is_in_the_words_of_health(web: Caller) -> None:
    told = web.ok("GET", at("jobs", "IN", "status"))
    health = web.ok("GET", "/healthz")["jobs"][0] if web("GET", "/healthz").status == 200 else None
    health = health or web("GET", "/healthz").json["jobs"][0]
    assert {name: told[name] for name in ("state", "healthy", "reason", "cure")} == {
        name: health[name] for name in ("state", "healthy", "reason", "cure")
    }
    assert told["name"] == "IN"
    assert told["since_start"]["moved"] == told["since_creation"]["left_out"] == 0
    assert "did you mean 'IN'?" in web.refused(404, "GET", at("jobs", "inn", "status"))["cure"]


@pytest.mark.usefixtures("furnished")
def test_the_configuration_is_exported_as_the_file_that_it_is(web: Caller, hub: Hub) -> None:
    from mgw.gateway.services.configuration import export_text

    found = web("GET", at("config"))
    assert found.headers["content-type"] == "text/yaml; charset=utf-8"
    assert found.body.decode() == export_text(hub)
    assert "${RABBIT1_PASSWORD:-}" in found.body.decode()


# --------------------------------------------------------------------------------------------------------------- verbs


@pytest.fixture
def gateway(tmp_path: Path, broker: MemoryBroker) -> Iterator[Gateway]:
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as made:
        made.admin.create_msgsystem_link("mem", "MEMORY", {"broker": broker.name})
        made.queue("H")
        broker.queue("DST")
        made.admin.register_foreign_queue("DST", "mem")
        made.admin.create_job("outj", "OUTBOUND", "H", "DST@mem")
        yield made


@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_jobs_are_paused_resumed_reset_and_restarted_as_in_kafka_connect(gateway: Gateway, method: str) -> None:
    with gateway.run(), serving(gateway.hub) as web:
        eventually(lambda: web.ok("GET", at("jobs", "outj", "status"))["state"] == "IDLE", what="the job")
        for verb, enabled in (("pause", False), ("resume", True), ("reset", True)):
            found = web(method, at("jobs", "outj", verb))
            assert (found.status, found.json["name"], found.json["enabled"]) == (202, "OUTJ", enabled)
        found = web(method, at("jobs", "outj", "restart"))
        assert (found.status, found.body) == (204, b"")
        assert "did you mean 'outj'?" in web.refused(404, method, at("jobs", "out", "pause"))["cure"]


def test_a_drain_answers_when_the_job_is_empty_or_soon_and_goes_on(gateway: Gateway, broker: MemoryBroker) -> None:
    gateway.enqueue("H", [Message(body=str(number)) for number in range(50)])
    with gateway.run(), serving(gateway.hub) as web:
        eventually(lambda: not web.ok("POST", at("jobs", "outj", "drain"))["enabled"], what="the drained job")
        assert len(broker.queue("DST").messages) == 50
        broker.hold_confirms = True
        gateway.enqueue("H", [Message(body="stays")])
        web.ok("POST", at("jobs", "outj", "resume"))
        eventually(lambda: len(broker.queue("DST").messages) == 51, what="the message at the broker")
        begun = time.monotonic()
        told = web("PUT", at("jobs", "outj", "drain?timeout=600").replace("%3F", "?").replace("%3D", "="))
        assert (told.status, told.json["enabled"]) == (202, True)
        assert time.monotonic() - begun < 30
        web.ok("POST", at("jobs", "outj", "resume"))  # ends the drain
        broker.hold_confirms = False
        eventually(lambda: web.ok("GET", at("jobs", "outj", "status"))["backlog"] == 0, what="the message")
        assert web.ok("GET", at("jobs", "outj", "status"))["enabled"]


def test_links_are_tested_reconnected_and_prepared(gateway: Gateway) -> None:
    with serving(gateway.hub) as web:
        told = web.ok("POST", at("links", "MEM", "test"))
        assert told["ok"] is all(each["ok"] for each in told["checks"])
        found = web("POST", at("links", "MEM", "reconnect"))
        assert (found.status, found.json) == (202, {"link": "mem", "jobs": ["outj"]})
        refusal = web.refused(422, "POST", at("links", "mem", "prepare"))
        assert refusal["cure"]
        for verb in ("test", "reconnect", "prepare"):
            assert web.refused(404, "POST", at("links", "men", verb))["cure"] == "did you mean 'mem'?"


def test_agents_are_started_shut_down_and_log_more(gateway: Gateway) -> None:
    with serving(gateway.hub) as web:
        assert web.refused(409, "POST", at("agents", "default_agent", "shutdown"))["number"] == 32825
        found = web("POST", at("agents", "default_agent", "start"))
        assert (found.status, found.json) == (202, {"name": "DEFAULT_AGENT", "status": "START_SCHEDULED"})
        assert web.ok("POST", at("agents", "default_agent", "shutdown"))["status"] == "NOT_STARTED"
        web.refused(409, "PUT", at("agents", "default_agent", "log-level"), {"level": 2})
        web.refused(422, "PUT", at("agents", "default_agent", "log-level"), {"level": 5})
        with gateway.run():
            web.ok("PUT", at("agents", "default_agent", "log-level"), {"level": 2})


# --------------------------------------------------------------------------------------------------------- description


def schema_of(document: dict[str, Any], method: str, path: str) -> dict[str, Any]:
    operation: dict[str, Any] = document["paths"][path][method]
    return operation


def test_the_description_derives_from_the_one_of_files(web: Caller) -> None:
    document = web.ok("GET", "/openapi.json")
    answer = schema_of(document, "get", f"{API}/links/{{name}}")["responses"]["200"]["content"]["application/json"]
    assert answer["schema"] == {"$ref": "#/components/schemas/Link"}
    kinds = document["components"]["schemas"]["Link"]["oneOf"]
    rabbit = next(each for each in kinds if each["title"] == "RabbitMQ")
    assert {"hostname", "virtual_host", "password"} <= set(rabbit["properties"])
    text = str(document["components"]["schemas"])
    assert "[$][{]" not in text
    assert not [name for kind in kinds for name in kind["properties"] if name.endswith("password_file")]
    assert (
        "AMQP_ConsumerPriority"
        in document["components"]["schemas"]["ForeignQueue"]["properties"]["options"]["properties"]
    )
