"""A hub in the database file of an application, on SQLite: told from the application's tables by its names."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mgw.gateway.aq.admin import QueueAdmin
from mgw.gateway.aq.hub import Hub
from mgw.gateway.aq.model import DequeueOptions
from mgw.gateway.state.gateway_hub import open_hub
from mgw.transforms.errors import HubError
from mgw.transforms.message import Message

_TABLES = """
    PRAGMA journal_mode = WAL;
    PRAGMA user_version = 41;
    PRAGMA application_id = 252006673;
    PRAGMA auto_vacuum = INCREMENTAL;
    CREATE TABLE purchase (id INTEGER PRIMARY KEY AUTOINCREMENT, product text NOT NULL);
    CREATE INDEX purchase_by_product ON purchase (product);
    CREATE VIEW products AS SELECT DISTINCT product FROM purchase;
    CREATE TABLE pl_notes (note text);
    CREATE TABLE counted (n integer);
    CREATE TRIGGER counting AFTER INSERT ON purchase BEGIN INSERT INTO counted VALUES (NEW.id); END;
    INSERT INTO purchase (product) VALUES ('flour'), ('salt');
    INSERT INTO pl_notes VALUES ('not the hub''s, whatever its name begins with');
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "shop.db"


@pytest.fixture
def shop(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript("PRAGMA auto_vacuum = INCREMENTAL;" + _TABLES)
        yield connection


def state(connection: sqlite3.Connection) -> dict[str, Any]:
    """Everything that is the application's: what it made, its rows, what its file says of itself."""
    kept = "tbl_name IN ('purchase', 'products', 'pl_notes', 'counted')"
    return {
        "made": connection.execute(f"SELECT type, name, sql FROM sqlite_master WHERE {kept} ORDER BY 1, 2").fetchall(),
        "rows": [
            connection.execute(f"SELECT * FROM {name}").fetchall() for name in ("purchase", "pl_notes", "counted")
        ],
        "sequence": connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'purchase'").fetchall(),
        "pragmas": [
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "user_version", "application_id", "auto_vacuum", "page_size", "encoding")
        ],
    }


def with_queue(hub: Hub) -> None:
    admin = QueueAdmin(hub)
    admin.create_queue_table("orders_t", "TEXT")
    admin.create_queue("orders", "orders_t")
    admin.start_queue("orders")


def test_hub_is_made_next_to_the_tables_and_leaves_them_alone(path: Path, shop: sqlite3.Connection) -> None:
    before = state(shop)
    with open_hub(f"sqlite:///{path}", create=True) as hub:
        with_queue(hub)
        with closing(sqlite3.connect(path)) as application:
            application.execute("INSERT INTO purchase (product) VALUES ('milk')")
            hub.session(application).enqueue("orders", Message("undone"))
            application.rollback()
        with hub.session() as session:
            session.enqueue("orders", Message("x"))
            session.commit()
    assert state(shop) == before
    with open_hub(f"sqlite:///{path}") as hub, hub.session() as session:
        found = session.dequeue_array("orders", DequeueOptions(wait=0), 5)
        assert [each.message.body for each in found] == ["x"]
    assert state(shop) == before


def test_nothing_is_made_unless_it_is_asked_for(path: Path, shop: sqlite3.Connection) -> None:
    before = path.read_bytes()
    with pytest.raises(HubError, match=r"does not exist.*other tables \(counted, pl_notes, purchase\).*mgw apply"):
        open_hub(f"sqlite:///{path}")
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("made", "named"),
    [
        ("CREATE TABLE aq_queue (id integer)", "aq_queue"),
        ("CREATE TABLE GW_Job (id integer)", "GW_Job"),
        ("CREATE VIEW mgw_jobs AS SELECT 1 AS one", "MGW_JOBS"),
        ("CREATE TABLE all_queues (id integer)", "ALL_QUEUES"),
        ("CREATE INDEX aq_message_ready ON purchase (product)", "aq_message_ready"),
    ],
)
def test_name_that_is_taken_is_refused(path: Path, shop: sqlite3.Connection, made: str, named: str) -> None:
    shop.execute(made)
    before = state(shop)
    with pytest.raises(HubError, match=rf"(?i)cannot be created.*uses the name.*: \W?{named}\W.*cure: rename"):
        open_hub(f"sqlite:///{path}", create=True)
    assert state(shop) == before
    names = {row[0] for row in shop.execute("SELECT lower(name) FROM sqlite_master")}
    assert ("aq_hub" in names, named.lower() in names) == (False, True)


def test_journal_mode_is_the_applications_to_choose(path: Path, shop: sqlite3.Connection) -> None:
    assert shop.execute("PRAGMA journal_mode = DELETE").fetchone() == ("delete",)
    before = path.read_bytes()
    with pytest.raises(HubError, match=r"journal_mode delete; a hub needs WAL.*cure: .*PRAGMA journal_mode=WAL"):
        open_hub(f"sqlite:///{path}", create=True)
    assert path.read_bytes() == before
    shop.execute("PRAGMA journal_mode = WAL")
    open_hub(f"sqlite:///{path}", create=True).close()


def test_schema_in_the_url_is_refused(path: Path) -> None:
    with pytest.raises(HubError, match=r"an SQLite file has no schemas.*cure: leave \?schema= out"):
        open_hub(f"sqlite:///{path}?schema=mgw", create=True)
    assert not path.exists()
