"""Hubs on PostgreSQL for tests that need one each: made once, then copied by the server in a fraction of the time.

All copies have the id of the one that was made, as hubs that were restored from one backup have.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import psycopg

from tests.support.brokers import PostgreSQL

__all__ = ["ready_hubs"]

_SCHEMA = "hub"  # clients of the SQL functions do not have it on their search path


@contextmanager
def ready_hubs(
    server: PostgreSQL, name: str, opened: Callable[[str], AbstractContextManager[Any]]
) -> Iterator[Callable[[], AbstractContextManager[str]]]:
    """A maker of hubs: every call gives the address of an empty one, which is dropped at the end.

    Args:
        name: of the database that is copied; copies are called ``name_1``, ``name_2``...
        opened: opens the hub at an address, and makes it.
    """
    where = f"?options=-csearch_path%3D{_SCHEMA}"
    original = server.create_database(name)
    with psycopg.connect(_plain(original), autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {_SCHEMA}")
    with opened(original + where):
        pass
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


def _plain(url: str) -> str:
    return url.replace("postgresql+psycopg://", "postgresql://")
