"""Hubs for tests that need one each: made once, then copied in a fraction of the time.

All copies have the id of the one that was made, as hubs that were restored from one backup have. On PostgreSQL each is
in a schema of its own next to an application, whose connections find other tables under the names of the hub's.
"""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg

from tests.support.brokers import PostgreSQL

__all__ = ["application_url", "bait", "ready_file", "ready_hubs"]

_SCHEMA = "hub"  # clients of the SQL functions do not have it on their search path
_BAIT, _APPLICATION = "bait", "application"
#: For each table, view, sequence and function of the hub, one of the same name that is of no use.
_BAIT_SQL = """
DO $$
DECLARE
    each record;
BEGIN
    FOR each IN SELECT relname, relkind FROM pg_class
                 WHERE relnamespace = '{schema}'::regnamespace AND relkind IN ('r', 'v', 'S') LOOP
        IF each.relkind = 'S' THEN
            EXECUTE format('CREATE SEQUENCE IF NOT EXISTS {bait}.%I MINVALUE 900000000', each.relname);
        ELSE
            EXECUTE format('CREATE TABLE IF NOT EXISTS {bait}.%I (bait integer)', each.relname);
        END IF;
    END LOOP;
    FOR each IN SELECT proname, pg_get_function_identity_arguments(oid) AS arguments FROM pg_proc
                 WHERE pronamespace = '{schema}'::regnamespace AND prorettype <> 'trigger'::regtype LOOP
        EXECUTE format('CREATE FUNCTION {bait}.%I(%s) RETURNS integer LANGUAGE sql AS %L',
                       each.proname, each.arguments, 'SELECT 1 / 0');
    END LOOP;
END $$"""


def ready_file(file: Path, opened: Callable[[str], AbstractContextManager[Any]]) -> Path:
    """A hub on SQLite at ``file``, to be copied; ``opened`` opens the hub at an address, and makes it."""
    with opened(f"sqlite:///{file}"):
        pass
    with closing(sqlite3.connect(file)) as connection:
        (busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    assert not busy, f"{file} is not whole: somebody reads it"
    return file


@contextmanager
def ready_hubs(
    server: PostgreSQL, name: str, opened: Callable[[str], AbstractContextManager[Any]]
) -> Iterator[Callable[[], AbstractContextManager[str]]]:
    """A maker of hubs on PostgreSQL: every call gives the address of an empty one, which is dropped at the end.

    Args:
        name: of the database that is copied; copies are called ``name_1``, ``name_2``...
        opened: opens the hub at an address, and makes it.
    """
    where = f"?schema={_SCHEMA}"
    original = server.create_database(name)
    with opened(original + where):
        pass
    with psycopg.connect(_plain(original), autocommit=True) as connection:
        bait(connection, _SCHEMA)
    numbers = itertools.count(1)
    with psycopg.connect(_plain(server.url), autocommit=True) as connection:

        @contextmanager
        def copy() -> Iterator[str]:
            database = f"{name}_{next(numbers)}"
            connection.execute(f"CREATE DATABASE {database} TEMPLATE {name}")
            yield server.url_of(database) + where
            connection.execute(f"DROP DATABASE {database} WITH (FORCE)")

        yield copy
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def bait(connection: Any, schema: str) -> None:
    """Make the schemas of :func:`application_url` for a hub in this schema."""
    connection.execute(f"CREATE SCHEMA {_BAIT}; CREATE SCHEMA {_APPLICATION}")
    connection.execute(_BAIT_SQL.format(schema=schema, bait=_BAIT))


def application_url(hub_url: str) -> str:
    """The address for an application that has tables in the database of a hub, and none of the hub's on its path."""
    bare, _, schema = hub_url.partition("?schema=")
    return f"{bare}?options=-csearch_path%3D{_APPLICATION},{_BAIT}" if schema else hub_url


def _plain(url: str) -> str:
    return url.replace("postgresql+psycopg://", "postgresql://")
