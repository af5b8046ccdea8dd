"""A browser, and hubs with a page: an empty one, and one with jobs that move messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from mgw.gateway.services.hubs import Hub, open_hub
from mgw.links.memory.broker import MemoryBroker
from mgw.transforms.message import Header, Message, ValueType
from tests.support.browser import MISSING, Browser, opened
from tests.support.gateways import Gateway
from tests.support.ports import LOOPBACK
from tests.support.waiting import eventually
from tests.support.web import Caller, serving

EVIL = "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The one reason to leave out a test of the page."""
    for item in items:
        if MISSING and "tests/page/" in item.nodeid and {"browser", "window"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.skip(reason=MISSING))


@pytest.fixture(scope="session")
def window() -> Iterator[Browser]:
    """A browser for all tests of the process."""
    with opened() as found:
        yield found


@pytest.fixture
def browser(window: Browser) -> Iterator[Browser]:
    """The browser of somebody who was never here; at the end nothing was refused and no script failed."""
    window.forget()
    yield window
    assert not window.complaints()
    window.driver.get("about:blank")


@contextmanager
def page_of(hub: Hub, browser: Browser | None = None) -> Iterator[Caller]:
    """The page of a hub, where ``browser`` looks."""
    with serving(hub) as caller:
        if browser is not None:
            browser.base = f"http://{LOOPBACK}:{caller.port}"
        yield caller
        if browser is not None:  # before the server goes: an open page would complain
            browser.driver.get("about:blank")


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    """An empty hub."""
    with open_hub(f"sqlite:///{tmp_path}/hub.db", create=True) as made:
        yield made


@dataclass
class Moving:
    """A hub with an agent that carries messages, and its page."""

    gateway: Gateway
    web: Caller
    broker: MemoryBroker

    def feed(self, queue: str, *bodies: str) -> None:
        """Messages that arrive at the broker."""
        headers = (Header("evil", ValueType.TEXT, EVIL), Header("count", ValueType.INTEGER, 7))
        self.broker.put(queue, *[Message(body=body, correlation=EVIL[:60], headers=headers) for body in bodies])


ORDERS = [json.dumps({"order": n, "sum": n * 10, "note": EVIL}) for n in range(30)]


@pytest.fixture(scope="module")
def moving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Moving]:
    """Jobs of every kind: fine, paused, in trouble; messages that moved, wait, and failed."""
    folder = tmp_path_factory.mktemp("moving")
    gateway = Gateway(f"sqlite:///{folder}/hub.db")
    broker = MemoryBroker.get("page")
    admin = gateway.admin
    for queue in ("ORDERS", "SHIPPED", "RETURNS"):
        gateway.queue(queue)
    gateway.queue("TELEMETRY", multiple_consumers=True)
    gateway.queue("ORDERS_BAD")
    for queue in ("orders", "telemetry", "archive", "copies"):
        broker.queue(queue)
    admin.create_msgsystem_link("OFFICE", "MEMORY", properties={"broker": "page"})
    admin.create_msgsystem_link("BRANCH", "RABBITMQ", properties={"hostname": LOOPBACK, "port": 1})
    for name, link in (
        ("orders", "OFFICE"),
        ("telemetry", "OFFICE"),
        ("archive", "OFFICE"),
        ("copies", "OFFICE"),
        ("returns", "BRANCH"),
    ):
        admin.register_foreign_queue(name, link, name)
    admin.create_transformation("GROSS", "BASIC", "BASIC", {"set": {"body.gross": "tab.user_data.sum * 1.19"}})
    admin.create_job("ORDERS_IN", "INBOUND", "orders@OFFICE", "ORDERS")
    admin.create_job("SHIP", "LOCAL", "ORDERS", "SHIPPED", transformation="GROSS", exception_queue="ORDERS_BAD")
    admin.create_job("TELEMETRY_IN", "INBOUND", "telemetry@OFFICE", "TELEMETRY")
    admin.create_job("HOT_OUT", "OUTBOUND", "TELEMETRY", "archive@OFFICE", rule="tab.user_data.temperature > 80")
    admin.create_job("RETURNS_OUT", "OUTBOUND", "RETURNS", "returns@BRANCH", comments=EVIL)
    admin.create_job("PAUSED_OUT", "OUTBOUND", "TELEMETRY", "copies@OFFICE", enabled=False)
    gateway.enqueue("RETURNS", [Message(body=f"<return>{n}{EVIL}</return>") for n in range(5)])
    try:
        with gateway.run(), serving(gateway.hub) as web:
            found = Moving(gateway, web, broker)
            found.feed("orders", *ORDERS, f"no json {EVIL}", "no json either")
            eventually(lambda: gateway.job("SHIP")["EXCEPTIONQ_TOTAL"] == 2, deadline=60, what="two exceptions")
            eventually(lambda: len(gateway.browse("SHIPPED")) == len(ORDERS), deadline=60, what="orders shipped")
            eventually(lambda: gateway.job("RETURNS_OUT")["STATUS"] == "RETRY", deadline=60, what="a job in trouble")
            yield found
    finally:
        gateway.close()
        MemoryBroker.drop("page")
