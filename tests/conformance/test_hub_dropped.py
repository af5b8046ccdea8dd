"""A hub is dropped from the database of an application, whose own tables, views and rows stay as they are."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from mgw.gateway.aq.admin import QueueAdmin
from mgw.gateway.aq.hub import Hub
from mgw.gateway.aq.model import DequeueOptions
from mgw.gateway.services.admin import GatewayAdmin
from mgw.gateway.services.hubs import create_hub, drop_hub
from mgw.gateway.state.gateway_hub import open_hub
from mgw.gateway.state.secrets import Secrets
from mgw.pipelines.hub import PARTS
from mgw.transforms.errors import HubError, HubUnavailable
from mgw.transforms.message import Message
from tests.cli.conftest import Mgw
from tests.support.gateways import RunningAgent

_number = itertools.count(1)


class Shop:
    """An application with tables, in the database of a hub."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.engine = sa.create_engine(sa.make_url(url).difference_update_query(["schema"]), poolclass=sa.NullPool)
        self.postgresql = self.engine.dialect.name == "postgresql"
        self.run(
            *([] if self.postgresql else ["PRAGMA journal_mode=WAL"]),
            "CREATE TABLE purchase (id integer PRIMARY KEY, product text)",
            "CREATE INDEX purchase_product ON purchase (product)",
            "CREATE VIEW products AS SELECT DISTINCT product FROM purchase",
            "CREATE TABLE pl_notes (note text)",
            "INSERT INTO purchase VALUES (1, 'flour')",
            "INSERT INTO pl_notes VALUES ('mine')",
        )

    def run(self, *statements: str) -> None:
        with self.engine.begin() as conn:
            for statement in statements:
                conn.exec_driver_sql(statement)

    def everything(self) -> list[tuple[Any, ...]]:
        """What is in the database, of every kind, and the application's rows."""
        if self.postgresql:
            sql = """
                SELECT 'schema', nspname, '' FROM pg_namespace WHERE nspname !~ '^pg_' UNION ALL
                SELECT c.relkind::text, n.nspname, c.relname
                  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                 WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' UNION ALL
                SELECT 'function', n.nspname, p.proname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
                 WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' UNION ALL
                SELECT 'trigger', '', tgname FROM pg_trigger WHERE NOT tgisinternal UNION ALL
                SELECT 'type', n.nspname, t.typname FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
                 WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' ORDER BY 1, 2, 3"""
        else:
            sql = "SELECT type, name, sql FROM sqlite_master WHERE name <> 'sqlite_sequence' ORDER BY type, name"
        with self.engine.connect() as conn:
            return [
                tuple(row)
                for query in (sql, "SELECT * FROM purchase", "SELECT * FROM pl_notes", "SELECT * FROM products")
                for row in conn.exec_driver_sql(query)
            ]

    def make_hub(self) -> None:
        """A hub with everything in it: the pipelines' tables, a job with its link, and a message of each queue."""
        with open_hub(self.url, create=True, parts=PARTS) as hub:
            admin = QueueAdmin(hub)
            for name, several in (("orders", False), ("Events", True)):
                admin.create_queue_table(f"{name}_t", "TEXT", multiple_consumers=several)
                admin.create_queue(name, f"{name}_t")
                admin.start_queue(name)
            admin.add_subscriber("Events", "RED")
            gateway = GatewayAdmin(hub)
            gateway.create_msgsystem_link("near", "MEMORY", {})
            gateway.register_foreign_queue("out", "near")
            gateway.create_job("carry", "OUTBOUND", "orders", "out@near", enabled=False)
            with hub.session() as session:
                for name in ("orders", "Events"):
                    session.enqueue(name, Message("x"))
                session.commit()

    def consume(self) -> None:
        with open_hub(self.url) as hub, hub.session() as session:
            session.dequeue("orders", DequeueOptions(wait=0))
            session.dequeue("Events", DequeueOptions("RED", wait=0))
            session.commit()


@pytest.fixture(params=["sqlite", "postgresql", "schema"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    """``schema``: the hub is in the one that its URL names; else on PostgreSQL in the default one."""
    if request.param == "sqlite":
        yield Shop(f"sqlite:///{tmp_path}/shop.db")
        return
    server, name = request.getfixturevalue("postgresql"), f"dropped_{next(_number)}"
    yield Shop(server.create_database(name) + ("?schema=My-hub" if request.param == "schema" else ""))
    server.drop_database(name)


def test_nothing_of_the_hub_is_left_and_everything_of_the_application(shop: Shop) -> None:
    before = shop.everything()
    shop.make_hub()
    assert len(shop.everything()) > len(before) + 50
    done = drop_hub(shop.url, force=True)
    assert (done.messages, done.objects > 50) == (2, True)
    assert shop.everything() == before
    with pytest.raises(HubError, match="does not exist"):
        Hub.open(shop.url)
    made = [create_hub(shop.url) for _ in range(2)]  # there is room for another
    assert [(each.done, each.schema is not None) for each in made] == [
        ("hub", shop.postgresql),
        ("nothing", shop.postgresql),
    ]
    shop.make_hub()
    shop.consume()


def test_messages_that_wait_are_not_dropped_without_force(shop: Shop) -> None:
    shop.make_hub()
    before = shop.everything()
    with pytest.raises(HubError, match=r"was not dropped.*2 message\(s\).*the oldest is \d+ s old.*cure: .*--force"):
        drop_hub(shop.url)
    assert shop.everything() == before
    shop.consume()
    assert drop_hub(shop.url).messages == 0


def test_hub_is_not_dropped_while_an_agent_runs(shop: Shop) -> None:
    shop.make_hub()
    in_use = pytest.raises(HubUnavailable, match=r"in use and was not dropped.*agent DEFAULT_AGENT")
    with open_hub(shop.url) as hub, RunningAgent(hub, Secrets.for_hub(shop.url)), in_use:
        drop_hub(shop.url, force=True)
    drop_hub(shop.url, force=True)


@pytest.mark.postgresql
@pytest.mark.parametrize("shop", ["postgresql"], indirect=True)
def test_hub_is_not_dropped_under_a_program_that_has_it_open(shop: Shop) -> None:
    shop.make_hub()
    with Hub.open(shop.url) as hub:
        with hub.read() as conn:
            conn.exec_driver_sql("SELECT 1")
        with pytest.raises(HubUnavailable, match=r"in use and was not dropped.*it is open in"):
            drop_hub(shop.url, force=True)
    drop_hub(shop.url, force=True)


def test_what_the_application_made_of_the_hub_is_named_and_kept(shop: Shop) -> None:
    shop.make_hub()
    tables = "" if not shop.postgresql else "mgw." if "schema=" not in shop.url else '"My-hub".'
    for made, gone in (
        (f"CREATE VIEW waiting AS SELECT * FROM {tables}aq_message", "DROP VIEW waiting"),
        (f"CREATE VIEW states AS SELECT * FROM {tables}mgw_jobs", "DROP VIEW states"),
    ):
        shop.run(made)
        before = shop.everything()
        with pytest.raises(HubError, match=r"was not dropped.*view \S*(waiting|states).*cure: drop what needs it"):
            drop_hub(shop.url, force=True)
        assert shop.everything() == before
        shop.run(gone)
    drop_hub(shop.url, force=True)


@pytest.mark.postgresql
@pytest.mark.parametrize("shop", ["postgresql"], indirect=True)
def test_view_on_a_function_is_named_and_kept(shop: Shop) -> None:
    shop.make_hub()
    shop.run("CREATE VIEW waiting AS SELECT payload_text FROM aq.browse('orders')")
    with pytest.raises(HubError, match=r"was not dropped.*view \S*waiting.*cure: drop what needs it first"):
        drop_hub(shop.url, force=True)
    shop.run("SELECT * FROM waiting", "DROP VIEW waiting")
    drop_hub(shop.url, force=True)


def test_command(shop: Shop, tmp_path: Path) -> None:
    mgw = Mgw(tmp_path, {"MGW_HUB": shop.url})
    assert mgw("hub", "drop").code == 1
    shop.make_hub()
    refused = mgw("hub", "drop")
    assert (refused.code, "2 message(s) in it are not consumed" in refused.err) == (1, True)
    out = mgw.ok("hub", "drop", "--force")
    assert "dropped: " in out
    assert "2 message(s) with it" in out
    assert "does not exist" in mgw("hub", "drop", "--force").err
