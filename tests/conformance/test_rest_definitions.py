"""Definitions over REST: read, made, changed, removed, with what a configuration file says of them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from ruamel.yaml import YAML

from mgw.gateway.config.lint import lint
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
    assert names("/jobs?state=FAILED") == names("/jobs?link=log") == names("/jobs?type=outbound") == []
    assert names("/links?type=Mqtt") == names("/foreign-queues?link=LOG") == []
    assert names("/jobs?link=RABBIT1&type=inbound&agent=DEFAULT_AGENT&state=STOPPED") == ["in"]
    assert names("/foreign-queues?link=rabbit1") == ["in/a@rabbit1"]
    assert names("/agents?state=NOT_STARTED") == ["DEFAULT_AGENT"]
    for section, state in (("agents", "BROKEN"), ("links", "UNUSED"), ("jobs", "STUCK")):
        told = web.refused(422, "GET", f"{API}/{section}?state=nosuch")  # no empty list: that would read as all is well
        assert "query.state: " in told["cause"]
        assert state in told["cause"]
    seen, cursor = [], ""
    while cursor is not None:
        page = web.ok("GET", f"{API}/links?limit=2{cursor and '&cursor='}{cursor}")
        seen.append([each["name"] for each in page["items"]])
        cursor = page["cursor"]
    assert seen == [["log", "rabbit0"], ["rabbit1", "rabbit2"]]
    for bad in ("limit=0", "limit=1001", "cursor=%00", "cursor=_w"):
        assert web.refused(422, "GET", f"{API}/links?{bad}")


@pytest.mark.usefixtures("furnished")
@pytest.mark.parametrize(
    ("path", "status", "about", "told"),
    [
        ("/links?type=rabbitqm", 422, "", "query.type: Value error, 'rabbitqm' is none of rabbitmq, kafka, mqtt"),
        ("/jobs?type=outbond", 422, "", "is none of inbound, outbound, through, local"),
        ("/links?agent=other", 404, "agent other", "known: DEFAULT_AGENT"),
        ("/jobs?agent=defaultagent", 404, "agent defaultagent", "did you mean 'DEFAULT_AGENT'?"),
        ("/jobs?link=rabit1&state=FAILED", 404, "link rabit1", "did you mean 'rabbit1'?"),
        ("/foreign-queues?link=rabit1", 404, "link rabit1", "did you mean 'rabbit1'?"),
        ("/users/nobody/tokens", 404, "user nobody", "mgw users list"),
    ],
)
def test_a_list_of_what_cannot_be_is_refused_and_not_empty(
    web: Caller, path: str, status: int, about: str, told: str
) -> None:
    found = web.refused(status, "GET", f"{API}{path}")  # no empty list: that would read as all is well
    assert found.get("object", "") == about
    assert told in found["cause"] + found["cure"]


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
        assert web.ok("POST", at("agents", "default_agent", "ping"))["ping"] is None
        with gateway.run():
            web.ok("PUT", at("agents", "default_agent", "log-level"), {"level": 2})
            answer = web.ok("POST", at("agents", "default_agent", "ping"))
            assert answer == {"name": "DEFAULT_AGENT", "status": "RUNNING", "ping": "REACHABLE"}


# ------------------------------------------------------------------------------------------------------------- changes

#: Section, name, and settings, in an order in which each finds what it needs; then a change of some of them.
OBJECTS: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    ("agents", "second", {"max_threads": 3, "options": {"event_retention": 86400}}, {"comment": "two"}),
    ("links", "mem", {"type": "memory", "broker": "b", "agent": "second"}, {"comment": "here"}),
    ("links", "rabbit", {"type": "rabbitmq", "hostname": "h", "username": "u", "password": SECRET}, {"port": 5673}),
    ("foreign-queues", "IN@mem", {"provider_queue": "there"}, {}),
    ("object-types", "OE.POINT", {"attributes": {"X": "NUMBER", "Y": "NUMBER"}}, {}),
    ("queue-tables", "shared", {"payload_type": "RAW", "comment": "s"}, {"comment": "t"}),
    ("transformations", "shout", {"set": {"correlation": "'loud'"}}, {"comment": "loud"}),
    (
        "queues",
        "OE.q",
        {"multiple_consumers": True, "subscribers": {"A": {"rule": "priority > 3"}}},
        {"retry_delay": 2},
    ),
    ("queues", "plain", {}, {"max_retries": 9}),
    (
        "jobs",
        "inj",
        {"type": "inbound", "source": "IN@mem", "destination": "plain", "batch_size": 7},
        {"poll_interval": 2},
    ),
    ("aq-agents", "app", {"enable_http": True}, {"enable_anyp": True}),
    ("grants", "scott", {"queues": {"OE.q": ["ENQUEUE"]}}, {"roles": ["AQ_USER_ROLE"]}),
]


def without_secrets(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name != "password"}


def made(web: Caller) -> None:
    for section, name, values, _ in OBJECTS:
        found = web("PUT", at(section, name), values)
        assert found.status == 201, (section, name, found.body)


def test_every_kind_of_object_is_made_read_back_equal_changed_and_removed(web: Caller) -> None:
    for section, name, values, change in OBJECTS:
        found = web("PUT", at(section, name), values)
        assert (found.status, found.json["changed"]) == (201, True), (section, found.body)
        assert found.json["steps"][0]["verb"] == "create"
        read = web("GET", at(section, name))
        assert read.json == without_secrets(values), section
        assert read.headers["etag"] == found.headers["etag"]
        again = web("PUT", at(section, name), values)
        assert (again.status, again.json["changed"], again.json["steps"][0]["verb"]) == (200, False, "none"), again.body
        assert again.headers["etag"] == found.headers["etag"]
        back = web.ok("PUT", at(section, name.upper()), read.json)
        assert not back["changed"], section
        if change:
            planned = web.ok("PATCH", f"{at(section, name)}?dry_run=true", change)
            assert (planned["changed"], planned["steps"][0]["verb"]) == (False, "alter"), planned
            assert web("GET", at(section, name)).headers["etag"] == read.headers["etag"]
            changed = web("PATCH", at(section, name), change)
            assert changed.json["changed"], section
            assert web.ok("GET", at(section, name)) == without_secrets(values) | change
            nulls = {key: values.get(key) for key in change}
            web.ok("PATCH", at(section, name), nulls)
            assert web.ok("GET", at(section, name)) == without_secrets(values), section
    for section, name, values, _ in reversed(OBJECTS):
        planned = web.ok("DELETE", f"{at(section, name)}?dry_run=true")
        assert (planned["changed"], planned["steps"][0]["verb"]) == (False, "remove")
        assert web.ok("GET", at(section, name)) == without_secrets(values)
        assert web.ok("DELETE", at(section, name))["changed"], section
        web.refused(404, "GET", at(section, name))
        web.refused(404, "DELETE", at(section, name))


def test_a_secret_is_kept_when_it_is_left_out_and_never_told(web: Caller, hub: Hub) -> None:
    values = {"type": "rabbitmq", "hostname": "h", "username": "u", "password": SECRET}
    web.ok("PUT", at("links", "rabbit"), values)
    web.ok("PUT", at("links", "rabbit"), without_secrets(values) | {"port": 9})
    assert _password(hub) == SECRET
    changed = web("PATCH", at("links", "rabbit"), {"password": "another-secret"})
    assert changed.json["steps"][0]["changes"] == [{"setting": "password", "old": "***", "new": "***"}]
    assert _password(hub) == "another-secret"
    assert web.refused(422, "PATCH", at("links", "rabbit"), {"password": None})["cure"]
    web.ok("PATCH", at("links", "rabbit"), {"username": None})
    assert _password(hub) is None


def _password(hub: Hub) -> str | None:
    found = GatewayAdmin(hub).get_link("rabbit")
    assert found is not None
    return found.password


def test_nothing_of_the_machine_is_read_for_a_body(web: Caller, hub: Hub, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(SECRET)
    values = {"type": "rabbitmq", "hostname": "${HOME}", "username": "${USER:-x}", "password": "${HOME}"}
    web.ok("PUT", at("links", "rabbit"), values)
    assert web.ok("GET", at("links", "rabbit")) == without_secrets(values)
    assert _password(hub) == "${HOME}"
    told = web.refused(422, "PATCH", at("links", "rabbit"), {"password_file": str(file)})
    assert told["errors"][0]["where"] == "password_file"
    assert "files of this machine are not read" in told["cause"]
    text = f"links: {{rabbit: {{type: rabbitmq, hostname: h, username: u, password_file: {file}}}}}"
    for more, said in (("", "password_file"), (", comment: '${HOME}'", "variable HOME is not set")):
        body = text.replace("}}", more + "}}").encode()
        found = web("POST", at("config", "plan"), body=body, content_type="text/yaml")
        assert found.status == 422
        assert said in str(found.json["errors"])
        assert SECRET not in str(found.json)


def test_of_two_writers_who_saw_the_same_one_is_refused(web: Caller) -> None:
    web.ok("PUT", at("queues", "q"), {})
    for section, name, change in (("queues", "q", "retry_delay"), ("agents", "default_agent", "max_threads")):
        for value in range(2, 5):
            tag = web("GET", at(section, name)).headers["etag"]
            patch = partial(web, "PATCH", at(section, name), if_match=tag)
            with ThreadPoolExecutor(4) as pool:
                answers = pool.map(patch, [{change: value * 10 + number} for number in range(4)])
                assert sorted(found.status for found in answers) == [200, 412, 412, 412]
    told = web.refused(412, "DELETE", at("queues", "q"), if_match='"old"')
    assert told["cause"]
    assert told["cure"]
    web.refused(412, "PUT", at("queues", "q"), {}, if_none_match="*")
    web.refused(412, "PUT", at("queues", "new"), {}, if_match="*")
    assert web("PUT", at("queues", "new"), {}, if_none_match="*").status == 201


def test_of_two_processes_that_change_one_object_none_loses_its_change(hub: Hub, web: Caller) -> None:
    with open_hub(f"sqlite:///{hub.path}") as second, serving(second) as other:
        tag = web("GET", at("agents", "default_agent")).headers["etag"]
        for each in (web, other):  # a route is built at its first request, which two threads cannot do at once
            each.ok("PATCH", f"{at('agents', 'default_agent')}?dry_run=true", {})
        with ThreadPoolExecutor(2) as pool:
            answers = list(
                pool.map(
                    lambda each: each[0](
                        "PATCH", at("agents", "default_agent"), {"max_threads": each[1]}, if_match=tag
                    ),
                    ((web, 30), (other, 40)),
                )
            )
        assert sorted(found.status for found in answers) == [200, 412]


def test_what_holds_messages_is_removed_by_force_alone(hub: Hub, web: Caller) -> None:
    web.ok("PUT", at("queues", "q"), {"multiple_consumers": True, "subscribers": {"A": {}}})
    with hub.session() as session:
        session.enqueue("q", Message(body="x"))
        session.commit()
    for method, path, value in (
        ("DELETE", at("queues", "q"), None),
        ("PATCH", at("queues", "q"), {"subscribers": {"a": None}}),
    ):
        told = web.refused(409, method, path, value)
        assert "1 message" in told["cause"]
        assert "?force=true" in told["cure"]
        planned = web.ok(method, f"{path}?dry_run=true", value)
        assert planned["steps"][0]["deletes"]["messages"] == 1
    web.ok("PATCH", f"{at('queues', 'q')}?force=true", {"subscribers": {"a": None}})
    assert web.ok("GET", at("queues", "q")) == {"multiple_consumers": True}
    web.ok("DELETE", f"{at('queues', 'q')}?force=true")
    web.refused(404, "GET", at("queues", "q"))


def test_what_is_used_or_fixed_is_refused_as_a_conflict(web: Caller) -> None:
    made(web)
    for section, name in (("links", "mem"), ("agents", "second"), ("foreign-queues", "IN@mem")):
        told = web.refused(409, "DELETE", at(section, name))
        assert told["detail"], told["cause"]
        assert told["cure"]
    told = web.refused(409, "PATCH", at("jobs", "inj"), {"destination": "OE.q"})
    assert told["cause"] == "this is fixed when the object is created"


def test_a_queue_that_a_job_uses_is_not_removed_whatever_the_queue_is_for_it(web: Caller) -> None:
    for name in ("FROM", "TO", "BAD"):
        web.ok("PUT", at("queues", name), {})
    web.ok("PUT", at("jobs", "j"), {"type": "local", "source": "FROM", "destination": "TO", "exception_queue": "BAD"})
    for name, use in (("FROM", "source"), ("TO", "destination"), ("BAD", "exception queue")):
        for force in ("", "?force=true"):
            told = web.refused(409, "DELETE", at("queues", name) + force)
            assert told["detail"].startswith(f"queue {name} cannot be removed")
            assert told["cause"] == f"job j uses it as its {use}"
            assert "mgw jobs remove j" in told["cure"]
        assert web.ok("GET", at("queues", name)) == {}, "it is open as it was"
    web.ok("PATCH", at("jobs", "j"), {"exception_queue": None})
    web.ok("DELETE", at("queues", "BAD"))
    web.ok("DELETE", at("jobs", "j"))
    web.ok("DELETE", at("queues", "FROM"))


JOB = {"type": "inbound", "source": "IN@mem", "destination": "plain"}
BAD: list[tuple[str, str, Any, str]] = [
    ("jobs", "j", JOB | {"options": {"MsgBatchSiz": 1}}, "options.MsgBatchSiz"),
    ("jobs", "j", JOB | {"batch_size": 0}, "batch_size"),
    ("jobs", "j", JOB | {"source": "IM@mem"}, "source"),
    ("links", "l", {"type": "rabbitmq", "host": "h"}, "host"),
    ("links", "l", {"type": "rabbit"}, "type"),
    ("links", "bad name", {"type": "memory", "broker": "b"}, ""),
    ("queues", "q", {"retention_time": "soon"}, "retention_time"),
    ("transformations", "t", {"set": {"body": "upper("}}, ""),
    ("agents", "a", {"max_threads": "\ud800"}, "max_threads"),
    ("agents", "a", {"comment": "a\0b"}, "comment"),
    ("agents", "a", {"max_threads": 10**30}, "max_threads"),
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_an_error_is_told_in_the_words_of_the_linter_with_its_place(web: Caller, tmp_path: Path, number: int) -> None:
    section, name, values, place = BAD[number]
    made(web)
    told = web.refused(422, "PUT", at(section, name), values)
    assert told["errors"][0]["where"].startswith(place)
    assert told["cause"].startswith(told["errors"][0]["what"])
    assert told["errors"][0]["cure"] == told.get("cure", "")
    if not any(bad in json.dumps(values) for bad in ("ud800", "u0000", "0" * 20)):
        document = web("GET", at("config")).body.decode()
        base = YAML(typ="safe").load(document)
        base.setdefault(section, {})[name] = values
        file = tmp_path / "x.yaml"
        file.write_text(json.dumps(base))
        assert told["errors"][0]["what"] in [each.message for each in lint([file])]


def test_a_job_is_configured_and_checked_under_the_addresses_of_kafka_connect(web: Caller) -> None:
    made(web)
    values = {"type": "inbound", "source": "IN@mem", "destination": "plain"}
    found = web("POST", at("jobs", "new", "validate"), values)
    assert (found.status, found.json["valid"]) == (200, False)  # the source has a job already
    assert found.json["findings"][0]["cure"]
    web.ok("DELETE", at("jobs", "inj"))
    assert web.ok("POST", at("jobs", "new", "validate"), values) == {"valid": True, "findings": []}
    web.refused(404, "GET", at("jobs", "new", "config"))
    assert web("PUT", at("jobs", "new", "config"), values).status == 201
    assert web("PUT", at("jobs", "new", "config"), values | {"enabled": False}).status == 200
    assert web.ok("GET", at("jobs", "new", "config")) == values | {"enabled": False}


def test_a_whole_configuration_is_planned_and_applied(web: Caller, hub: Hub) -> None:
    made(web)
    exported = web("GET", at("config")).body
    same = web("POST", at("config", "plan"), body=exported, content_type="application/yaml")
    assert same.status == 200, same.body
    assert {each["verb"] for each in same.json["steps"]} == {"none"}
    assert _password(hub) == SECRET
    value = {"links": {"rabbit": {"type": "rabbitmq", "hostname": "other", "username": "u"}}, "queues": {"fresh": None}}
    planned = web.ok("POST", at("config", "plan"), value)
    assert [(each["verb"], each["kind"]) for each in planned["steps"] if each["verb"] in ("create", "alter")] == [
        ("alter", "link"),
        ("create", "queue"),
    ]
    applied = web.ok("POST", at("config", "apply"), value)
    assert applied["steps"] == planned["steps"]
    assert web.ok("GET", at("links", "rabbit"))["hostname"] == "other"
    with hub.session() as session:
        session.enqueue("fresh", Message(body="x"))
        session.commit()
    bare = {"version": 1, "settings": {"hub": "sqlite:///other.db"}}
    told = web.refused(409, "POST", f"{at('config', 'apply')}?prune=true", bare)
    assert "?force=true" in told["cure"]
    assert web.ok("GET", at("queues", "fresh")) == {}
    done = web.ok("POST", f"{at('config', 'apply')}?prune=true&force=true", bare)
    assert done["findings"][0]["where"] == "settings.hub"
    assert web.ok("GET", at("queues"))["items"] == []
    told = web.refused(422, "POST", at("config", "plan"), {"queues": {"q": {"x": 1}, "Q": {}}, "no": {}})
    assert {each["where"] for each in told["errors"]} == {"queues.q.x", "queues.Q", "no"}
    text = web("POST", at("config", "plan"), body=b"queues:\n  q: {x: 1}\n", content_type="text/yaml").json
    assert text["errors"][0]["where"] == "line 2, column 7"
    web.refused(415, "POST", at("config", "apply"), content_type="text/plain")


def test_a_body_is_json_and_says_so(web: Caller) -> None:
    path = at("queues", "q")
    for status, body, kind in (
        (415, b"{}", "application/x-www-form-urlencoded"),
        (415, b"{}", ""),
        (400, b"{", "application/json"),
        (400, b'{"a": NaN}', "application/json"),
        (400, b'{"a": 1, "a": 2}', "application/json"),
        (400, b"\xff", "application/json"),
        (400, b"[" * 100_000, "application/json"),
        (400, b'{"a": 1' + b"0" * 5000 + b"}", "application/json"),
        (422, b"[]", "application/json"),
        (422, b'{"\\ud800": 1}', "application/json"),
        (422, b'{"comment": 1e999}', "application/json; charset=utf-8"),
        (422, b'{"comment": ' + b'{"a":' * 200 + b"1" + b"}" * 201, "application/json"),
    ):
        found = web("PUT", path, body=body, content_type=kind)
        assert found.status == status, (body[:50], found.body)
        assert found.json["detail"]
        assert found.json["cure"]


def test_a_changed_job_is_in_effect_in_a_running_agent(gateway: Gateway, broker: MemoryBroker) -> None:
    with gateway.run(), serving(gateway.hub) as web:
        web.ok("PUT", at("transformations", "mark"), {"set": {"correlation": "'marked'"}})
        web.ok("PATCH", at("jobs", "outj"), {"transformation": "mark"})
        gateway.enqueue("H", [Message(body="one")])
        eventually(lambda: len(broker.queue("DST").messages) == 1, what="the message")
        web.ok("PATCH", at("jobs", "outj"), {"enabled": False})
        eventually(lambda: gateway.job("outj")["ACTIVITY"] == "STOPPED", what="the pause")
        web.ok("PUT", at("queues", "in"), {})
        broker.queue("SRC").put([(Message(body="first"), None)])
        web.ok("PUT", at("foreign-queues", "SRC@mem"), {})
        web.ok("PUT", at("jobs", "inj"), {"type": "inbound", "source": "SRC@mem", "destination": "in"})
        eventually(lambda: gateway.browse("in"), what="the message of the new job")
        assert web("DELETE", at("jobs", "inj")).status in {200, 202}
        eventually(lambda: web("GET", at("jobs", "inj", "status")).status == 404, what="the removal")


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
