"""Look-up by name: one statement for what is there, a suggestion for what is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa

from mgw.gateway.aq.hub import Hub
from mgw.gateway.services import lookup
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.state.gateway_hub import open_hub

LOOK_UPS: dict[str, tuple[str, Callable[[GatewayAdmin, str], Any]]] = {
    "agent": ("second", lambda admin, name: lookup.agent(admin, name).name),
    "link": ("mem", lambda admin, name: lookup.link(admin, name).name),
    "link name": ("mem", lookup.link_name),
    "foreign queue": ("orders@mem", lambda admin, name: "{0.name}@{0.link}".format(lookup.foreign_queue(admin, name))),
    "transformation": ("urgent", lambda admin, name: lookup.transformation(admin, name).name),
    "job": ("orders_in", lambda admin, name: lookup.job(admin, name).name),
    "row of a job": ("ORDERS_IN", lambda admin, name: lookup.job_row(admin.hub, name).job_name),
    "queue": ("ORDERS", lambda admin, name: lookup.queue(admin.hub, name)),
    "queue table": ("SHARED", lambda admin, name: lookup.queue_table(admin.hub, name)),
    "object type": ("LINE", lambda admin, name: lookup.object_type(admin.hub, name)),
}


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayAdmin]:
    with open_hub(f"sqlite:///{tmp_path_factory.mktemp('hub')}/hub.db", create=True) as hub:
        admin = GatewayAdmin(hub)
        for number in range(20):  # so that a list is longer than what is looked up
            admin.create_agent(f"spare{number}")
        admin.create_agent("second")
        admin.create_msgsystem_link("mem", "memory")
        admin.register_foreign_queue("orders", "mem", "orders", "QUEUE")
        admin.aq.create_type("LINE", {"item": "VARCHAR2(30)"})
        admin.aq.create_queue_table("SHARED", "RAW")
        admin.aq.create_queue("ORDERS", "SHARED")
        admin.aq.start_queue("ORDERS")
        admin.create_transformation("urgent", "RAW", "RAW", {"set": {"priority": "0"}})
        admin.create_job("orders_in", "INBOUND", "orders@mem", "ORDERS", enabled=False)
        yield admin


@contextmanager
def _statements(hub: Hub) -> Iterator[list[str]]:
    """What SQLite is asked meanwhile, as SQLite tells it."""
    seen: list[str] = []

    def note(text: str) -> None:
        if text.lstrip().upper().startswith(("SELECT", "WITH")):
            seen.append(text)

    def listen(connection: Any, *_: Any) -> None:
        connection.set_trace_callback(note)

    sa.event.listen(hub.engine, "checkout", listen)
    try:
        yield seen
    finally:
        sa.event.remove(hub.engine, "checkout", listen)
        with hub.read() as conn:
            conn.connection.driver_connection.set_trace_callback(None)


@pytest.mark.parametrize("kind", LOOK_UPS)
def test_what_is_there_is_found_with_one_statement_in_any_letter_case(admin: GatewayAdmin, kind: str) -> None:
    name, find = LOOK_UPS[kind]
    assert find(admin, name) == name
    with _statements(admin.hub) as seen:
        assert find(admin, name.swapcase()) == name
    assert len(seen) == 1, seen


@pytest.mark.parametrize("kind", LOOK_UPS)
def test_what_is_not_there_is_refused_with_the_name_that_was_meant(admin: GatewayAdmin, kind: str) -> None:
    name, find = LOOK_UPS[kind]
    wrong = f"{name[:-1]}"
    with pytest.raises(lookup.NotFound) as refused:
        find(admin, wrong)
    assert f"{wrong!r} does not exist; did you mean {name!r}?" in str(refused.value)
