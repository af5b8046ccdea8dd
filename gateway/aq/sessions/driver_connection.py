"""An application's connection of the driver itself, psycopg or sqlite3, for programs without SQLAlchemy."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

__all__ = ["DriverConnection", "driver_connection"]

_IDLE = 0  # libpq: no transaction is open


class DriverConnection:
    """What :class:`mgw.gateway.aq.store.statements.Db` needs of a connection of SQLAlchemy, over one of a driver.

    Begins and ends nothing. Rows come as plain tuples, whatever kind of rows the application has chosen. Nobody tells
    it of the end of a transaction, so one of these, and the session on it, is for one transaction.
    """

    def __init__(self, driver: Any, *, postgresql: bool) -> None:
        self._driver = driver
        self.dialect = SimpleNamespace(
            name="postgresql" if postgresql else "sqlite",
            driver="psycopg" if postgresql else "pysqlite",
            is_async=False,
        )
        self.connection = SimpleNamespace(driver_connection=_Plain(driver, postgresql=postgresql))

    @property
    def closed(self) -> bool:
        """Whether the driver's connection is closed."""
        if not isinstance(self._driver, sqlite3.Connection):
            return bool(self._driver.closed)
        try:
            self._driver.total_changes  # noqa: B018
        except sqlite3.ProgrammingError:
            return True
        return False

    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        if isinstance(self._driver, sqlite3.Connection):
            return self._driver.in_transaction
        return bool(self._driver.info.transaction_status != _IDLE)

    def begin(self) -> None:
        """The driver begins by itself: a connection in AUTOCOMMIT was refused."""

    def get_transaction(self) -> DriverConnection:
        """The only transaction there is."""
        return self


class _Plain:
    """The driver's connection, with plain tuples for rows."""

    def __init__(self, driver: Any, *, postgresql: bool) -> None:
        self._driver = driver
        self._postgresql = postgresql

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)

    def cursor(self, *, binary: bool = False) -> Any:
        """A cursor of the driver's own kind, that binds parameters in the server."""
        if not self._postgresql:
            cursor = sqlite3.Cursor(self._driver)
            cursor.row_factory = None
            return cursor
        import psycopg
        from psycopg.pq import Format
        from psycopg.rows import tuple_row

        made: Any = psycopg.Cursor(self._driver, row_factory=tuple_row)
        made.format = Format.BINARY if binary else Format.TEXT
        return made

    def execute(self, sql: str, params: Sequence[Any] = ()) -> Any:
        """As the driver's, on a cursor of its own."""
        return self.cursor().execute(sql, params)


def driver_connection(given: object) -> DriverConnection | None:
    """The connection, if it is one of a driver that hubs know; None: it is something else."""
    if isinstance(given, sqlite3.Connection):
        return DriverConnection(given, postgresql=False)
    if any(kind.__module__.startswith("psycopg") and kind.__name__ == "Connection" for kind in type(given).__mro__):
        return DriverConnection(given, postgresql=True)
    return None
