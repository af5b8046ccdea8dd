"""The administration on a PostgreSQL hub."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial

import pytest

from gateway.hub import open_hub
from tests.conformance.admin_suite import *  # noqa: F403
from tests.conformance.admin_suite_changes import *  # noqa: F403
from tests.support.brokers import PostgreSQL
from tests.support.ready_hubs import ready_hubs

pytestmark = pytest.mark.postgresql


@pytest.fixture(scope="module")
def hubs(postgresql: PostgreSQL) -> Iterator[Callable[[], AbstractContextManager[str]]]:
    with ready_hubs(postgresql, "admin", partial(open_hub, create=True)) as made:
        yield made


@pytest.fixture
def hub_url(hubs: Callable[[], AbstractContextManager[str]]) -> Iterator[str]:
    with hubs() as url:
        yield url


def test_agents_are_notified_of_changes(hub: Hub, hub_url: str) -> None:  # noqa: F405
    import psycopg

    with psycopg.connect(hub_url.replace("+psycopg", ""), autocommit=True) as listener:
        listener.execute("LISTEN mgw_change")
        admin = GatewayAdmin(hub, Secrets(environ={"MGW_SECRET_KEY": KEY}))  # noqa: F405
        admin.create_msgsystem_link("plant", "MEMORY")
        (notice,) = listener.notifies(timeout=10, stop_after=1)
        assert notice.payload == str(admin.snapshot_version())


def test_a_lock_that_is_never_given_back_is_not_waited_for_for_ever(
    admin: GatewayAdmin,  # noqa: F405
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from gateway.catalog import changes
    from transforms.errors import HubUnavailable

    monkeypatch.setattr(changes, "_LOCK_MILLISECONDS", 50)
    with admin.hub.engine.begin() as conn:
        changes.lock_administration(conn)
        with pytest.raises(HubUnavailable):
            admin.alter_msgsystem_link("plant", comment="x")
    admin.alter_msgsystem_link("plant", comment="x")
