"""The connections of a hub: from its URL to an engine with everything set."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import Any, NamedTuple

import sqlalchemy as sa

from mgw.gateway.aq.model import Durability
from mgw.gateway.aq.store.connection_state import (
    BUSY_SECONDS,
    POOL,
    Begin,
    ConnectionState,
    HubSqliteConnection,
    ServerMemory,
)
from mgw.gateway.aq.store.database_errors import shown_url
from mgw.gateway.aq.store.files import HubFiles
from mgw.gateway.aq.store.membership import Membership
from mgw.gateway.aq.store.namespace_sql import SCHEMA_OPTION, Namespace, locate, quoted
from mgw.gateway.aq.store.pg_pipeline import Pipeline
from mgw.gateway.aq.store.settings_sql import settle
from mgw.gateway.aq.store.wal import KEPT_BYTES, LOG_PAGES
from mgw.gateway.aq.store.write_lock import Gate
from mgw.transforms.clock import Clock
from mgw.transforms.errors import HubError, HubMissing

__all__ = [
    "Address",
    "find_schema",
    "libpq_uri",
    "make_engine",
    "make_private",
    "parse_url",
    "watchfulness",
]

_PATH = "search_path"
_FILE = re.compile(r"[\w./-]+")  # what cannot have a password in it
_SCHEMA = re.compile(r"[^\W\d][\w$-]{0,62}")
_SYNCHRONOUS = {level: f"PRAGMA synchronous={level}" for level in ("FULL", "NORMAL")}


class Address(NamedTuple):
    """Where a hub is.

    Attributes:
        url: of the database, as its driver takes it.
        schema: named by the hub's URL (``?schema=``); None: it names none.
        shown: the hub's URL for people, without password.
    """

    url: sa.URL
    schema: str | None
    shown: str

    @property
    def postgresql(self) -> bool:
        """Whether it is on PostgreSQL; else it is an SQLite file."""
        return self.url.get_backend_name() == "postgresql"


def parse_url(url: str) -> Address:
    """The address of a hub, its driver chosen.

    Raises:
        HubError: no such database can be a hub.
    """
    try:
        address = sa.make_url(url)
        backend = address.get_backend_name()
    except (sa.exc.ArgumentError, ValueError, AttributeError):
        raise HubError(
            "the hub's database URL cannot be read",
            cause="it is not of the form sqlite:///path or postgresql://user@host/database",
            cure=f"write sqlite:///{url}" if _FILE.fullmatch(url) else "correct --hub, MGW_HUB or settings.hub",
        ) from None
    shown = shown_url(address)
    named = address.query.get(SCHEMA_OPTION)
    if backend == "postgresql":
        _check_schema(named, shown)
        bare = address.difference_update_query([SCHEMA_OPTION]).set(drivername="postgresql+psycopg")
        return Address(bare, named if isinstance(named, str) else None, shown)
    if backend != "sqlite":
        raise HubError(
            f"hub {shown} cannot be used",
            cause=f"{backend} is not supported",
            cure="use sqlite:///path or postgresql://user@host/database",
        )
    if address.database in (None, "", ":memory:"):
        raise HubError(f"hub {shown} cannot be used", cause="a hub in memory is not durable", cure="name a file")
    if named is not None:
        raise HubError(
            f"hub {shown} cannot be used",
            cause="an SQLite file has no schemas",
            cure="leave ?schema= out: the hub's tables are distinguished from others by their names",
        )
    return Address(address, None, shown)


def _check_schema(named: object, shown: str) -> None:
    if named is None or (isinstance(named, str) and _SCHEMA.fullmatch(named) and not named.lower().startswith("pg_")):
        return
    raise HubError(
        f"hub {shown} cannot be used",
        cause=f"{str(named)[:100]!r} cannot be its schema",
        cure="name one schema of 1 to 63 letters, digits, _, $ and -, that begins with a letter or _, and not with pg_",
    )


def libpq_uri(url: sa.URL) -> str:
    """The address as libpq reads it, with the password: it takes no plus sign for a space."""
    address, mark, options = url.set(drivername="postgresql").render_as_string(hide_password=False).partition("?")
    return address + mark + options.replace("+", "%20")


def watchfulness(address: sa.URL) -> dict[str, Any]:
    """What a PostgreSQL connection is opened with: it notices a server that does not answer any more, and speaks UTF-8.

    What the URL or the environment of the driver says goes before.
    """
    wanted = {
        "connect_timeout": 10,  # seconds, as the next two
        "keepalives_idle": 30,
        "keepalives_interval": 10,
        "keepalives_count": 3,
        "tcp_user_timeout": 60_000,  # milliseconds: what was sent, a commit for example, stays unanswered for so long
        "client_encoding": "utf8",  # whatever the role, the database or PGCLIENTENCODING says
    }
    given = {*address.query, *(["connect_timeout"] if "PGCONNECT_TIMEOUT" in os.environ else [])}
    return {name: value for name, value in wanted.items() if name not in given}


def make_private(path: str) -> None:
    """Make a missing database file that others cannot read: messages are in it. Its log gets the same permissions."""
    with suppress(OSError):  # what is wrong with the path, SQLite says itself; a file that exists keeps its permissions
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o660))


def _beginning(gate: Gate, files: HubFiles, synchronous: str) -> Begin:
    """What begins a write transaction on a driver's connection, as its state says."""

    def begin(driver: Any, state: ConnectionState) -> None:
        durable, patience = state.durable, state.patience
        state.durable, state.patience = True, BUSY_SECONDS
        (files.look if durable else files.require)()
        level = synchronous if durable else "NORMAL"
        if state.synchronous != level:
            driver.execute(_SYNCHRONOUS[level]).close()
            state.synchronous = level
        changed = patience != BUSY_SECONDS
        if changed:
            driver.execute(f"PRAGMA busy_timeout={int(patience * 1000)}").close()
        passed = gate.enter(patience)
        try:
            driver.execute("BEGIN IMMEDIATE").close()
        finally:
            if passed:
                gate.leave()
            if changed:
                driver.execute(f"PRAGMA busy_timeout={int(BUSY_SECONDS * 1000)}").close()

    return begin


def find_schema(address: Address) -> str:
    """The schema of a hub on PostgreSQL, or the one to make it in.

    Raises:
        HubError: the PostgreSQL driver is not installed, the database does not store UTF-8, or the path that the URL
            gives begins with no schema.
    """
    try:
        import psycopg
    except ImportError:
        raise HubError(
            f"hub {address.shown} cannot be used",
            cause="the PostgreSQL driver is not installed",
            cure="pip install 'messaging-gateway[postgres]'",
        ) from None
    with psycopg.connect(libpq_uri(address.url), **watchfulness(address.url)) as connection:
        encoding = connection.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            raise HubError(
                f"hub {address.shown} cannot be used",
                cause=f"the database has the encoding {encoding}, in which not every text can be stored",
                cure="make another database: CREATE DATABASE name ENCODING 'UTF8' TEMPLATE template0",
            )
        found = locate(connection, address.schema, on_path=_PATH in str(address.url.query.get("options", "")))
    if found is None:
        raise HubMissing(
            f"hub {address.shown} does not exist",
            cause="no schema of the login's search_path is there",
            cure="name one in the URL: ?schema=NAME; mgw apply creates it",
        )
    return found


_POOL = "pool"  # in what SQLAlchemy keeps with a connection: the pool that it was made for


def _close_what_was_given_up(engine: sa.Engine) -> None:
    """``engine.dispose()`` leaves connections that are in use: close each when it comes back, not some time later."""

    @sa.event.listens_for(engine, "do_connect")
    def _made(_: Any, record: Any, *__: Any) -> None:  # before it is connected: that takes a while
        record.info[_POOL] = engine.pool

    current = [engine.pool]

    @sa.event.listens_for(engine, "engine_disposed")
    def _given_up(_: sa.Engine) -> None:
        former, current[0] = current[0], engine.pool
        former.dispose()  # once more: some may have come back before the engine had another pool

    @sa.event.listens_for(engine, "checkin")
    def _returned(_: Any, record: Any) -> None:
        if record.info.get(_POOL) is not engine.pool:
            record.invalidate()


def _keep_order(engine: sa.Engine) -> None:
    """What waits to be executed (:mod:`mgw.gateway.aq.store.pg_pipeline`) comes before what SQLAlchemy does."""

    def waiting(connection: sa.Connection) -> Pipeline | None:
        state: ConnectionState | None = getattr(connection.connection.driver_connection, "hub_state", None)
        return None if state is None else state.pipeline

    @sa.event.listens_for(engine, "before_cursor_execute")
    def _flush(connection: sa.Connection, *_: Any) -> None:
        if (pipeline := waiting(connection)) is not None:
            pipeline.flush()

    @sa.event.listens_for(engine, "commit")
    def _commit(connection: sa.Connection) -> None:
        if (pipeline := waiting(connection)) is not None:
            pipeline.commit()

    @sa.event.listens_for(engine, "reset")
    def _reset(driver: Any, *_: Any) -> None:
        state: ConnectionState | None = getattr(driver, "hub_state", None)
        if state is not None and state.pipeline is not None:
            state.pipeline.forget()

    @sa.event.listens_for(engine, "rollback")
    def _forget(connection: sa.Connection) -> None:
        if not connection.invalidated and (pipeline := waiting(connection)) is not None:
            pipeline.forget()


def make_engine(
    address: sa.URL,
    durability: Durability,
    clock: Clock,
    files: HubFiles | None = None,
    *,
    namespace: Namespace | None = None,
    membership: Membership | None = None,
    memory: ServerMemory | None = None,
) -> sa.Engine:
    """An engine whose connections are set as the hub needs them.

    Args:
        files: those of a hub on SQLite.
        namespace: of a hub on PostgreSQL.
        membership: what tells others that a hub on PostgreSQL is open; None: nobody needs to know.
        memory: what is remembered of its server.
    """
    if namespace is not None:
        engine = sa.create_engine(
            address, pool_size=POOL, max_overflow=-1, pool_use_lifo=True, connect_args=watchfulness(address)
        )
        commit = "on" if durability == "full" else "off"

        @sa.event.listens_for(engine, "connect")
        def _settings(connection: Any, _: Any) -> None:
            server = settle(connection, commit, quoted(namespace.schema or ""))
            if memory is not None:
                memory.connected(server)
            if membership is not None:
                membership.connected(connection)
            connection.hub_state = ConnectionState(clock, namespace, memory=memory, pipeline=Pipeline(connection))

        _close_what_was_given_up(engine)
        _keep_order(engine)
        return engine
    files = files or HubFiles(address.database or "", shown_url(address))
    engine = sa.create_engine(
        address,
        poolclass=sa.pool.QueuePool,
        pool_size=POOL,
        max_overflow=-1,
        pool_use_lifo=True,
        connect_args={"timeout": BUSY_SECONDS, "check_same_thread": False, "factory": HubSqliteConnection},
    )
    gate = Gate(os.path.realpath(address.database or ""))
    sa.event.listen(engine, "engine_disposed", lambda _: gate.close())
    synchronous = "FULL" if durability == "full" else "NORMAL"
    begin = _beginning(gate, files, synchronous)

    @sa.event.listens_for(engine, "do_connect")
    def _look(*_: Any) -> None:
        files.require()  # SQLite would make a file that is missing

    @sa.event.listens_for(engine, "connect")
    def _pragmas(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # the driver must not emit a BEGIN of its own
        for pragma in (
            f"busy_timeout={int(BUSY_SECONDS * 1000)}",
            "journal_mode=WAL",
            f"synchronous={synchronous}",
            "foreign_keys=ON",
            f"wal_autocheckpoint={LOG_PAGES}",
            f"journal_size_limit={KEPT_BYTES}",  # of the log, when it starts again after somebody has read for long
            "cache_size=-16000",  # KiB
            "schema_version",  # to read it opens the log, and the index of that
        ):
            connection.execute(f"PRAGMA {pragma}").close()
        connection.hub_state = ConnectionState(clock, begin=begin, synchronous=synchronous)
        files.opened()

    @sa.event.listens_for(engine, "begin")
    def _begin(conn: sa.Connection) -> None:
        driver: Any = conn.connection.driver_connection
        if conn.get_execution_options().get("ro"):
            files.require()
            driver.execute("BEGIN").close()
            return
        begin(driver, driver.hub_state)

    return engine
