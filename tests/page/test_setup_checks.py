"""What the set-up of the page looks at before anything is saved: whether a queue exists at its messaging system."""

from __future__ import annotations

from collections.abc import Iterator
from html import unescape
from pathlib import Path
from urllib.parse import urlencode

import pytest

from mgw.gateway.services.users import Role, Users
from mgw.links.memory.broker import MemoryBroker
from tests.support.gateways import Gateway, gateway_on
from tests.support.web import Answer, Caller, serving


@pytest.fixture
def broker() -> Iterator[MemoryBroker]:
    yield MemoryBroker.get("setup")
    MemoryBroker.drop("setup")


@pytest.fixture
def gateway(tmp_path: Path, broker: MemoryBroker) -> Iterator[Gateway]:
    with gateway_on(f"sqlite:///{tmp_path}/hub.db") as made:
        made.admin.create_msgsystem_link("mem", "MEMORY", {"broker": broker.name})
        yield made


@pytest.fixture
def web(gateway: Gateway) -> Iterator[Caller]:
    with serving(gateway.hub) as caller:
        yield caller


def sent(web: Caller, path: str, **fields: str) -> str:
    """The page that answers a form."""
    answer: Answer = web("POST", f"/setup/{path}", body=urlencode(fields).encode(), accept="text/html")
    assert answer.status == 200, answer.body
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
    users.add("ada", Role.ADMINISTRATOR, "correct horse battery", by="test")
    users.add("vic", Role.VIEWER, "correct horse battery", by="test")
    web.headers["Authorization"] = f"Bearer {users.add_token('vic', by='test')[1]}"
    web.refused(403, "POST", place)
