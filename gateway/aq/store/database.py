"""The connections of a hub: from its URL to an engine with everything set."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import sqlalchemy as sa

from gateway.aq import statements_schema as schema
from gateway.aq.failures import shown_url
from gateway.aq.files import HubFiles
from gateway.aq.heads import HEADS, Heads
from gateway.aq.lock import Gate
from gateway.aq.model import Durability
from gateway.aq.statements import CURSOR, TALLY
from gateway.aq.wal import KEPT_BYTES
from transforms.clock import SYSTEM_CLOCK, Clock
from transforms.errors import HubError

__all__ = ["BEGIN", "BUSY_SECONDS", "POOL", "hub_clock", "make_engine", "make_private", "parse_url", "watchfulness"]

BUSY_SECONDS = 30.0  # how long a writer waits for its turn on SQLite
POOL = 8  # connections kept
#: In the ``info`` of a hub's connection to SQLite: what begins a write transaction on it.
BEGIN = "mgw_begin"
_SYNCHRONOUS = {level: f"PRAGMA synchronous={level}" for level in ("FULL", "NORMAL")}


def parse_url(url: str) -> sa.URL:
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
            cure="correct the URL",
        ) from None
    if backend == "postgresql":
        return address.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise HubError(
            f"hub {shown_url(address)} cannot be used",
            cause=f"{backend} is not supported",
            cure="use sqlite:///path or postgresql://user@host/database",
        )
    if address.database in (None, "", ":memory:"):
        raise HubError(
            f"hub {shown_url(address)} cannot be used", cause="a hub in memory is not durable", cure="name a file"
        )
    return address


def watchfulness(address: sa.URL) -> dict[str, Any]:
    """What has a PostgreSQL connection notice that the server does not answer any more: else it waits for an hour.

    What the URL or the environment of the driver says goes before.
    """
    wanted = {
        "connect_timeout": 10,  # seconds, as the others but the last
        "keepalives_idle": 30,
        "keepalives_interval": 10,
        "keepalives_count": 3,
        "tcp_user_timeout": 60_000,  # milliseconds: what was sent, a commit for example, stays unanswered for so long
    }
    given = {*address.query, *(["connect_timeout"] if "PGCONNECT_TIMEOUT" in os.environ else [])}
    return {name: value for name, value in wanted.items() if name not in given}


def make_private(path: str) -> None:
    """Make a missing database file that others cannot read: messages are in it. Its log gets the same permissions."""
    with suppress(OSError):  # what is wrong with the path, SQLite says itself; a file that exists keeps its permissions
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o660))


def _beginning(gate: Gate, files: HubFiles, synchronous: str) -> Callable[..., None]:
    """What begins a write transaction on a driver's connection, whose ``info`` is given with it."""

    def begin(driver: Any, info: Any, *, durable: bool, patience: float | None = None) -> None:
        (files.look if durable else files.require)()
        level = synchronous if durable else "NORMAL"
        if info["mgw_synchronous"] != level:
            driver.execute(_SYNCHRONOUS[level]).close()
            info["mgw_synchronous"] = level
        if patience is not None:
            driver.execute(f"PRAGMA busy_timeout={int(patience * 1000)}").close()
        passed = gate.enter(BUSY_SECONDS if patience is None else patience)
        try:
            driver.execute("BEGIN IMMEDIATE").close()
        finally:
            if passed:
                gate.leave()
            if patience is not None:
                driver.execute(f"PRAGMA busy_timeout={int(BUSY_SECONDS * 1000)}").close()

    return begin


def make_engine(address: sa.URL, durability: Durability, clock: Clock, files: HubFiles | None = None) -> sa.Engine:
    """An engine whose connections are set as the hub needs them.

    Args:
        files: those of a hub on SQLite.

    Raises:
        HubError: the PostgreSQL driver is not installed.
    """
    if address.get_backend_name() == "postgresql":
        try:
            import psycopg  # noqa: F401
        except ImportError:
            raise HubError(
                f"hub {shown_url(address)} cannot be used",
                cause="the PostgreSQL driver is not installed",
                cure="pip install 'messaging-gateway[postgres]'",
            ) from None
        engine = sa.create_engine(
            address, pool_size=POOL, max_overflow=-1, pool_use_lifo=True, connect_args=watchfulness(address)
        )
        commit = "on" if durability == "full" else "off"
        heads = Heads()

        @sa.event.listens_for(engine, "connect")
        def _settings(connection: Any, record: Any) -> None:
            heads.connected(schema.settle(connection, commit))
            record.info.update({"mgw_clock": clock, TALLY: [], HEADS: heads, CURSOR: connection.cursor(binary=True)})

        return engine
    files = files or HubFiles(address.database or "", shown_url(address))
    engine = sa.create_engine(
        address,
        poolclass=sa.pool.QueuePool,
        pool_size=POOL,
        max_overflow=-1,
        pool_use_lifo=True,
        connect_args={"timeout": BUSY_SECONDS, "check_same_thread": False},
    )
    gate = Gate(os.path.realpath(address.database or ""))
    sa.event.listen(engine, "engine_disposed", lambda _: gate.close())
    synchronous = "FULL" if durability == "full" else "NORMAL"
    begin = _beginning(gate, files, synchronous)

    @sa.event.listens_for(engine, "do_connect")
    def _look(*_: Any) -> None:
        files.require()  # SQLite would make a file that is missing

    @sa.event.listens_for(engine, "connect")
    def _pragmas(connection: Any, record: Any) -> None:
        connection.isolation_level = None  # the driver must not emit a BEGIN of its own
        for pragma in (
            f"busy_timeout={int(BUSY_SECONDS * 1000)}",
            "journal_mode=WAL",
            f"synchronous={synchronous}",
            "foreign_keys=ON",
            "wal_autocheckpoint=4000",  # pages: a page written often is copied into the database once
            f"journal_size_limit={KEPT_BYTES}",  # of the log, when it begins anew after somebody has read for long
            "cache_size=-16000",  # KiB
            "schema_version",  # to read it opens the log, and the index of that
        ):
            connection.execute(f"PRAGMA {pragma}").close()
        record.info.update({"mgw_clock": clock, "mgw_synchronous": synchronous, TALLY: [], BEGIN: begin})
        files.opened()

    @sa.event.listens_for(engine, "begin")
    def _begin(conn: sa.Connection) -> None:
        driver: Any = conn.connection.driver_connection
        if conn.get_execution_options().get("ro"):
            files.require()
            driver.execute("BEGIN").close()
            return
        info = conn.info
        durable = not info.pop("mgw_relaxed", False)
        begin(driver, info, durable=durable, patience=info.pop("mgw_patience", None))

    return engine


def hub_clock(conn: sa.Connection) -> Clock:
    """The clock of the hub a connection belongs to; the system's for a foreign connection."""
    with suppress(KeyError):
        clock: Clock = conn.info["mgw_clock"]
        return clock
    return SYSTEM_CLOCK
