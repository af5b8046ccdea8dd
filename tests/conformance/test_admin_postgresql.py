"""The administration on a PostgreSQL hub."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial

import pytest

from mgw.gateway.aq.hub import Hub
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.state.gateway_hub import open_hub
from mgw.gateway.state.secrets import Secrets
from tests.conformance import suites
from tests.conformance.admin_suite import KEY
from tests.support.brokers import PostgreSQL
from tests.support.ready_hubs import ready_hubs

pytestmark = pytest.mark.postgresql

globals().update(suites.functions())


@pytest.fixture(scope="module")
def hubs(postgresql: PostgreSQL) -> Iterator[Callable[[], AbstractContextManager[str]]]:
    with ready_hubs(postgresql, "admin", partial(open_hub, create=True)) as made:
        yield made


@pytest.fixture
def hub_url(hubs: Callable[[], AbstractContextManager[str]]) -> Iterator[str]:
    with hubs() as url:
        yield url


def test_agents_are_notified_of_changes(hub: Hub, hub_url: str) -> None:
    import psycopg

    with psycopg.connect(hub_url.partition("?")[0].replace("+psycopg", ""), autocommit=True) as listener:
        listener.execute("LISTEN mgw_change_hub")
        admin = GatewayAdmin(hub, Secrets(environ={"MGW_SECRET_KEY": KEY}))
        admin.create_msgsystem_link("plant", "MEMORY")
        (notice,) = listener.notifies(timeout=10, stop_after=1)
        assert notice.payload == str(admin.snapshot_version())


def test_a_lock_that_is_never_given_back_is_not_waited_for_for_ever(
    admin: GatewayAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mgw.gateway.state.catalog import changes
    from mgw.transforms.errors import HubUnavailable

    monkeypatch.setattr(changes, "_LOCK_MILLISECONDS", 50)
    with admin.hub.engine.begin() as conn:
        changes.lock_administration(conn)
        with pytest.raises(HubUnavailable):
            admin.alter_msgsystem_link("plant", comment="x")
    admin.alter_msgsystem_link("plant", comment="x")
