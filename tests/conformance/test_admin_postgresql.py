"""The administration on a PostgreSQL hub."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from functools import partial

import pytest
import sqlalchemy as sa

from mgw.gateway.aq.hub import Hub
from mgw.gateway.aq.store.statements import Db
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.state import catalog, lease
from mgw.gateway.state.gateway_hub import open_hub
from mgw.gateway.state.secrets import Secrets
from mgw.transforms.errors import HubError
from tests.conformance import suites
from tests.conformance.admin_suite import KEY, start_agent
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


def test_a_lease_is_renewed_while_a_job_keeps_its_transaction_open(hub: Hub) -> None:
    """A job that waits for a lock of the database must not cost its agent the lease."""
    token = start_agent(hub)
    with ThreadPoolExecutor(1) as other, hub.write() as job:
        lease.check_owner(job, "DEFAULT_AGENT", token)
        job.execute(sa.text("SELECT 1")).scalar_one()

        def renew() -> None:
            with hub.write(urgent=True) as conn:
                conn.execute(sa.text("SET LOCAL lock_timeout = '10s'"))
                lease.renew_lease(conn, "DEFAULT_AGENT", token, ttl=60, now=hub.clock.now())

        other.submit(renew).result(30)


def test_who_takes_the_token_waits_for_the_transactions_of_jobs(hub: Hub) -> None:
    token = start_agent(hub)
    with ThreadPoolExecutor(1) as other, hub.write() as job:
        lease.check_owner(job, "DEFAULT_AGENT", token)
        job.execute(sa.text("SELECT 1")).scalar_one()

        def take() -> None:
            with hub.write() as conn:
                conn.execute(sa.text("SET LOCAL lock_timeout = '300ms'"))
                catalog.clear_agent_run(conn, "DEFAULT_AGENT")

        with pytest.raises(HubError):
            other.submit(take).result(30)


def test_a_transaction_whose_check_failed_is_not_committed(hub: Hub) -> None:
    """Also where the caller swallows what was raised."""
    token = start_agent(hub)

    def swallow() -> None:
        with hub.write() as conn:
            lease.check_owner(conn, "DEFAULT_AGENT", token + 1)
            with suppress(lease.LeaseLost):
                conn.execute(sa.text("UPDATE gw_agent SET host = 'stolen'"))
                Db(conn).scalar("SELECT 1", ())

    with pytest.raises(lease.LeaseLost):
        swallow()
    with hub.read() as conn:
        assert conn.execute(sa.text("SELECT count(*) FROM gw_agent WHERE host = 'stolen'")).scalar_one() == 0


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
