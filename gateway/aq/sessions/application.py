"""What an application gives a session to work in: its connection, SQLAlchemy's or the driver's, or its ORM session."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from mgw.gateway.aq.sessions.driver_connection import DriverConnection, driver_connection
from mgw.gateway.aq.sessions.ground import SessionGround
from mgw.transforms.errors import AqError, ArgumentInvalid

if TYPE_CHECKING:
    import sqlite3

    import psycopg
    from sqlalchemy.orm import Session as OrmSession
    from sqlalchemy.orm import scoped_session

    #: What an application may give.
    Given = sa.Connection | OrmSession | scoped_session[Any] | psycopg.Connection[Any] | sqlite3.Connection

__all__ = ["Application"]

_IDLE = 0  # libpq: no transaction is open
_CURE = "pass a connection, with engine.begin() as connection, a sqlalchemy.orm.Session, or a connection of the driver"


class Application:
    """The application's transaction: that of its connection, or the one its ORM session is in at the moment.

    On a connection of the driver (psycopg, sqlite3) messages can be enqueued and browsed, and not taken.

    Raises:
        ArgumentInvalid: neither of them was given.
        AqError: its connections go through another driver, are closed, or commit every statement at once.
    """

    def __init__(self, hub: SessionGround, given: Given) -> None:
        self._hub = hub
        self._connection: Any = None
        self._session: Any = None
        driver = driver_connection(given)
        if driver is not None:
            self._connection = driver
            self._require_open(driver)
            self._require_driver(driver.dialect)
            self._require_transaction(driver)
            return
        if isinstance(given, sa.Connection):
            self._connection = given
            self._require_open(given)
            self._require_driver(given.dialect)
            if given.in_transaction() or not given.dispatch.begin:  # else what is told of the begin may begin one
                self._require_transaction(given)
            return
        self._session = _orm_session(given)
        bind = self._session.get_bind()
        self._require_driver(bind.dialect)
        if self._session.in_transaction() or isinstance(bind, sa.Connection):
            self._require_transaction(self._session.connection())

    def connection(self) -> sa.Connection:
        """The connection that the present transaction is on; it is begun if there is none.

        Raises:
            AqError: the connection is closed, or commits every statement at once.
        """
        connection: sa.Connection | None = self._connection
        if connection is None:
            connection = self._session.connection()
        self._require_open(connection)
        if not connection.in_transaction():
            connection.begin()
        self._require_transaction(connection)
        return connection

    def in_transaction(self) -> bool:
        """Whether the application has begun a transaction."""
        return bool((self._connection or self._session).in_transaction())

    def require_told(self) -> None:
        """Refuse to take messages where nobody tells how the transaction ends.

        Raises:
            AqError: the connection is the driver's own.
        """
        if isinstance(self._connection, DriverConnection):
            raise AqError(
                "messages cannot be dequeued on the driver's own connection",
                cause="the hub is not notified of its rollback, so the failed attempt would not be counted",
                cure="dequeue with hub.session() or on a connection of SQLAlchemy; enqueue and browse work on this "
                "connection",
            )

    def _require_open(self, connection: sa.Connection | DriverConnection) -> None:
        if connection.closed:
            raise AqError(
                f"the application's connection cannot be used with hub {self._hub.name}",
                cause="it is closed",
                cure="create a session on an open connection",
            )

    def _require_driver(self, dialect: Any) -> None:
        needed = "psycopg" if self._hub.postgresql else "pysqlite"
        if dialect.driver != needed or dialect.is_async:
            shown = f"{dialect.name}+{dialect.driver}{' (asyncio)' if dialect.is_async else ''}"
            raise AqError(
                f"the application's connection cannot be used with hub {self._hub.name}",
                cause=f"it uses {shown}",
                cure=f"connect through {'postgresql' if self._hub.postgresql else 'sqlite'}+{needed} to the hub's "
                "database",
            )

    def _require_transaction(self, connection: sa.Connection | DriverConnection) -> None:
        if _commits_at_once(connection.connection.driver_connection, postgresql=self._hub.postgresql):
            raise AqError(
                f"the application's connection cannot be used with hub {self._hub.name}",
                cause="it is in AUTOCOMMIT: every statement is committed at once, so a rollback would neither return "
                "nor withdraw a message",
                cure="use a connection without it, for example "
                'engine.connect().execution_options(isolation_level="READ COMMITTED")'
                if self._hub.postgresql
                else "use an engine or a connection without isolation_level AUTOCOMMIT (sqlite3: isolation_level None, "
                "autocommit True), or leave the connection out: hub.session() has a transaction of its own",
            )


def _commits_at_once(driver: Any, *, postgresql: bool) -> bool:
    """Whether a driver's connection is in no transaction and will not begin one by itself."""
    if postgresql:
        return bool(driver.autocommit) and driver.info.transaction_status == _IDLE
    if driver.in_transaction:
        return False
    autocommit = getattr(driver, "autocommit", None)  # since Python 3.12; there, -1 leaves it to isolation_level
    if autocommit is True or autocommit is False:
        return autocommit
    return driver.isolation_level is None


def _orm_session(given: object) -> Any:
    orm: Any = sys.modules.get("sqlalchemy.orm")  # who has an ORM session has loaded it; nobody else pays for it
    if orm is not None:
        if isinstance(given, orm.scoped_session):
            given = given()
        if isinstance(given, orm.Session):
            return given
    kind = type(given)
    cause = f"{kind.__module__}.{kind.__qualname__} is neither a connection of SQLAlchemy nor an ORM session"
    cure = _CURE
    if isinstance(given, str):
        cause, cure = f"{given!r} is a text", f"{_CURE}; a user is given by name: hub.session(user={given!r})"
    elif kind.__module__.startswith("sqlalchemy.ext.asyncio"):
        cause = f"{kind.__name__} is asynchronous, and the hub is not"
        cure = "use hub.session() in a thread (asyncio.to_thread), or a synchronous engine"
    elif isinstance(given, sa.Engine):
        cause = "an engine has many connections, but a transaction belongs to one"
    raise ArgumentInvalid("hub.session takes the application's connection", cause=cause, cure=cure)
