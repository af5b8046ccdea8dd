"""What the set-up of the page looks at before anything is saved: whether a queue exists, what a message becomes."""

from __future__ import annotations

from collections.abc import Iterator
from html import unescape
from pathlib import Path
from urllib.parse import urlencode

import pytest

from mgw.gateway.aq import Agent
from mgw.gateway.services.users import Role, Users
from mgw.links.memory.broker import MemoryBroker
from mgw.links.memory.link import MemoryLink
from mgw.transforms.errors import ConfigInvalid
from mgw.transforms.message import Header, Message, ValueType
from tests.support.gateways import Gateway, gateway_on
from tests.support.web import Answer, Caller, serving

SECRET = "not-to-be-shown"


@pytest.fixture
def broker() -> Iterator[MemoryBroker]:
    yield MemoryBroker.get("setup")
    MemoryBroker.drop("setup")


@pytest.fixture
def gateway(tmp_path: Path, broker: MemoryBroker) -> Iterator[Gateway]:
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as made:
        broker.users = {"gateway": SECRET}
        made.admin.create_msgsystem_link("mem", "MEMORY", {"broker": broker.name}, username="gateway", password=SECRET)
        yield made


@pytest.fixture
def web(gateway: Gateway) -> Iterator[Caller]:
    with serving(gateway.hub) as caller:
        yield caller


def sent(web: Caller, path: str, **fields: str) -> str:
    """The page that answers a form."""
    answer: Answer = web("POST", f"/setup/{path}", body=urlencode(fields).encode(), accept="text/html")
    assert answer.status == 200, answer.body
    assert SECRET.encode() not in answer.body
    return unescape(answer.body.decode())


def test_the_form_of_a_foreign_queue_tells_whether_it_exists_there(
    web: Caller, gateway: Gateway, broker: MemoryBroker
) -> None:
    fields = {"kind": "mem", "name": "orders", "provider_queue": "shop.orders"}
    missing = sent(web, "foreign_queues/look", **fields)
    assert "It does not exist there" in missing
    assert "MemoryBroker.get('setup').queue('shop.orders')" in missing
    assert 'value="shop.orders"' in missing, "the form is as it was filled in"
    assert "It does not exist there" in sent(web, "foreign_queues/check", **fields, **{"try": "yes"})
    broker.queue("shop.orders")
    assert "It exists there" in sent(web, "foreign_queues/check", **fields, **{"try": "yes"})
    assert "exists there" not in sent(web, "foreign_queues/check", **fields), "it was not asked for"
    pattern = sent(web, "foreign_queues/look", **fields | {"provider_queue": "shop.*"})
    assert "Nothing has to be created there" in pattern
    assert "It exists" not in pattern
    broker.refuse_connections = True
    away = sent(web, "foreign_queues/look", **fields)
    assert "Nobody could tell" in away
    assert "it refuses connections" in away
    assert "Not yet" in sent(web, "foreign_queues/look", **fields, domain="NOWHERE")
    assert gateway.admin.list_foreign_queues() == [], "nothing is saved"


def test_rest_tells_it_of_settings_and_of_what_is_registered(
    web: Caller, gateway: Gateway, broker: MemoryBroker
) -> None:
    place = "/api/v1/foreign-queues/orders@mem/check"
    found = web.ok("POST", place, {"provider_queue": "shop.orders"})
    assert (found["name"], found["exists"]) == ("orders@mem", False)
    assert "shop.orders" in found["made_by"]
    web.refused(404, "POST", place)
    gateway.admin.register_foreign_queue("orders", "mem", "shop.orders")
    broker.topic("shop.orders")
    found = web.ok("POST", place)
    assert (found["exists"], found["made_by"], found["cure"]) == (True, "", "")
    web.refused(422, "POST", place, {"provider": "shop.orders"})
    users = Users(gateway.hub)
    users.add("ada", Role.ADMINISTRATOR, None, by="test")
    for role, registered, settings in (
        (Role.ADMINISTRATOR, 200, 200),
        (Role.OPERATOR, 200, 403),
        (Role.VIEWER, 403, 403),
    ):
        users.add(role.lower(), role, None, by="test")
        web.headers["Authorization"] = f"Bearer {users.add_token(role.lower(), by='test')[1]}"
        assert web("POST", place).status == registered, role
        for given in ({}, {"provider_queue": "other"}):
            assert web("POST", place, given).status == settings, (role, given)


GROSS = {"set": {"body.gross": "tab.user_data.sum * 2", "header.checked": "1"}}


@pytest.fixture
def ends(gateway: Gateway, broker: MemoryBroker) -> Gateway:
    """Ends of jobs, and a transformation."""
    admin = gateway.admin
    gateway.queue("ORDERS")
    gateway.queue("NEWS", multiple_consumers=True)
    gateway.queue("BAD")
    broker.queue("shop")
    admin.create_msgsystem_link("far", "RABBITMQ", {"hostname": "nowhere.invalid"})
    admin.create_msgsystem_link("field", "MQTT", {"hostname": "nowhere.invalid"})
    admin.register_foreign_queue("shop", "mem")
    admin.register_foreign_queue("small", "far", options={"AMQP_MaxMessageSize": "20"})
    admin.register_foreign_queue("sensors", "field")
    admin.create_transformation("GROSS", "BASIC", "BASIC", GROSS)
    return gateway


OUT = {
    "name": "ship",
    "type": "outbound",
    "source": "ORDERS",
    "destination": "shop@mem",
    "transformation": "GROSS",
    "exception_queue": "BAD",
}


def test_a_job_is_tried_on_the_first_message_of_its_source_which_stays_as_it_was(web: Caller, ends: Gateway) -> None:
    headers = (Header("n", ValueType.LONG, 2**40), Header("raw", ValueType.RAW, b"\x00\xff"))
    ends.enqueue("ORDERS", [Message('{"sum": 7}', headers, priority=3, correlation="<i>c</i>")])
    before = rows(ends)
    shown = sent(web, "jobs/preview", **OUT)
    assert "The job reads the first message of queue ORDERS" in shown
    came = shown.partition('id="came"')[2].partition("</section>")[0]
    for part in ("shop@mem", "gets 1 message", "gross", "checked", "<i>c</i>", ">3 <", ">long<", ">raw<", "00 ff"):
        assert part in came, part
    assert "<code>1099511627776</code>" in came
    assert b"<i>c" not in web("POST", "/setup/jobs/preview", body=urlencode(OUT).encode(), accept="text/html").body
    assert rows(ends) == before
    assert ends.admin.list_jobs() == [], "nothing is saved"


def rows(gateway: Gateway) -> list[tuple[object, ...]]:
    """The messages of the hub as they are stored."""
    with gateway.hub.read() as conn:
        return [tuple(row) for row in conn.exec_driver_sql("SELECT * FROM aq_message")]


def test_a_message_by_hand_shows_what_the_job_would_do_with_another_one(web: Caller, ends: Gateway) -> None:
    assert "queue ORDERS holds no message now" in sent(web, "jobs/preview", **OUT)
    broken = sent(web, "jobs/preview", **OUT, sample="body: no JSON")
    assert "would go to the exception queue" in broken
    assert "BAD" in broken.partition("would go to")[2]
    assert "the message is not YAML" in sent(web, "jobs/preview", **OUT, sample="body: [")
    shown = sent(web, "jobs/preview", **OUT, sample="body: {sum: 8}\npriority: 2")
    assert "body: {sum: 8}\npriority: 2</textarea>" in shown, "to be changed and tried again"
    large = sent(web, "jobs/preview", **{**OUT, "destination": "small@far"}, sample="body: {sum: 1000000}")
    assert "It cannot take this" in large, "asked of the link, which connects nowhere for it"
    assert "NOWHERE" in sent(web, "jobs/preview", **{**OUT, "destination": "NOWHERE"}).partition("Not yet")[2]


def test_a_message_can_be_given_by_hand_where_the_source_shows_none(
    web: Caller, ends: Gateway, broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends.queues.stop_queue("ORDERS")
    stopped = sent(web, "jobs/preview", **OUT)
    assert "is not enabled for dequeue; it was not started, or stopped." in stopped.partition('id="lacking"')[2]
    assert 'name="sample"' in stopped, "any message can be written"
    assert "gets 1 message" in sent(web, "jobs/preview", **OUT, sample="body: {sum: 8}")
    job = {"name": "in", "type": "inbound", "source": "shop@mem", "destination": "NEWS"}
    broker.refuse_connections = True
    assert "it refuses connections" in sent(web, "jobs/preview", **job).partition('id="lacking"')[2]

    def fail(*_: object) -> None:
        raise ConfigInvalid("option x is of no use", cause=f"the server says {SECRET}")

    monkeypatch.setattr(MemoryLink, "first_message", fail)
    refused = sent(web, "jobs/preview", **job).partition('id="lacking"')[2]
    assert "option x is of no use; the server says" in refused
    assert 'name="sample"' in refused


def test_a_message_of_a_messaging_system_is_shown_where_it_need_not_be_taken(
    web: Caller, ends: Gateway, broker: MemoryBroker
) -> None:
    job = {"name": "in", "type": "inbound", "source": "shop@mem", "destination": "ORDERS", "transformation": "GROSS"}
    assert "shop@mem holds no message now" in sent(web, "jobs/preview", **job)
    broker.put("shop", Message('{"sum": 7}'))
    shown = sent(web, "jobs/preview", **job)
    assert "The job reads the first message of shop@mem" in shown
    assert "gross" in shown.partition('id="came"')[2]
    assert broker.queue("shop").ready == 1
    untaken = sent(web, "jobs/preview", **{**job, "source": "sensors@field"})
    assert "a link of type MQTT shows no message without taking it" in untaken
    assert "Give one by hand" in untaken
    users = Users(ends.hub)
    users.add("ada", Role.ADMINISTRATOR, None, by="test")
    users.add("otto", Role.OPERATOR, None, by="test")
    web.headers["Authorization"] = f"Bearer {users.add_token('otto', by='test')[1]}"
    assert web("POST", "/setup/jobs/preview", body=urlencode(job).encode()).status == 403


def test_what_subscribers_of_a_queue_have_yet_to_read_is_shown_too(web: Caller, ends: Gateway) -> None:
    ends.queues.add_subscriber("NEWS", Agent("READER"))
    ends.enqueue("NEWS", [Message('{"sum": 9}')])
    shown = sent(web, "jobs/preview", **OUT | {"source": "NEWS", "rule": "tab.user_data.sum > 5"})
    assert "gets 1 message" in shown
    assert "<code>1</code>" in shown.partition('id="came"')[2], "header checked"
    shown = sent(web, "jobs/preview", **OUT | {"source": "NEWS", "rule": "tab.user_data.sum > 9"})
    assert "filtered by the rule" in shown
