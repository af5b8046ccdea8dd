"""A hub on PostgreSQL stores every text, whatever encoding the database, the role or the client was given."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from mgw.gateway.aq import QueueAdmin
from mgw.gateway.aq.hub import Hub
from mgw.transforms.errors import HubError
from mgw.transforms.message import Header, Message, ValueType
from tests.support.brokers import PostgreSQL

TEXT = "Grüße, 東京, \N{GRINNING FACE}"


def _execute(url: str, statement: str) -> None:
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as conn:
        conn.exec_driver_sql(statement)
    engine.dispose()


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_that_cannot_store_every_text_is_refused_with_the_cure(
    postgresql: PostgreSQL, encoding: str
) -> None:
    name = f"of_{encoding.lower()}"
    with_it = f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0"
    _execute(postgresql.url_of("postgres"), with_it)
    with pytest.raises(HubError) as caught:
        Hub.open(postgresql.url_of(name), create=True)
    assert f"encoding {encoding}" in str(caught.value)
    assert "ENCODING 'UTF8' TEMPLATE template0" in str(caught.value)


def test_a_client_of_another_encoding_stores_every_text(
    postgresql: PostgreSQL, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgresql.create_database("client_of_latin1")
    _execute(url, "ALTER DATABASE client_of_latin1 SET client_encoding = 'LATIN1'")
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    with Hub.open(url, create=True) as hub:
        admin = QueueAdmin(hub)
        admin.create_queue_table("orders_table")
        admin.create_queue("orders", "orders_table")
        admin.start_queue("orders")
        with hub.write() as conn:
            hub.session(conn).enqueue("orders", Message(body=TEXT, headers=(Header("from", ValueType.TEXT, TEXT),)))
        with hub.write() as conn:
            found = hub.session(conn).dequeue("orders")
    assert found is not None
    assert (found.message.body, found.message.headers[0].value) == (TEXT, TEXT)
