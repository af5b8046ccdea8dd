"""What is in a database, and whether it may be opened: the hub's own tables, those of other modules, or neither."""

from __future__ import annotations

import logging
import os
import secrets
import sqlite3
from collections.abc import Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from gateway.aq import statements_functions as functions
from gateway.aq import tables
from gateway.aq.failures import translated
from gateway.aq.files import existing
from gateway.aq.model import Durability, SchemaPart
from gateway.aq.statements import Db
from gateway.aq.views import create_views
from transforms.clock import Clock
from transforms.errors import HubError, HubVersionMismatch

__all__ = ["Found", "create", "inspect", "inspect_sqlite", "judge", "refresh_functions", "settle", "strange_login"]

_BUSY_SECONDS = 30.0
_ROOM = (
    "make the hub in a schema of its own (CREATE SCHEMA hub, and ?options=-csearch_path%3Dhub in the URL), or in an "
    "empty database; this one was not touched"
)
_log = logging.getLogger(__name__)


class Found(NamedTuple):
    """What is in a database: names of its tables, and the hub's identity if it has one."""

    tables: frozenset[str]
    hub_id: bytes | None
    version: int | None
    parts: dict[str, int]


def inspect_sqlite(path: str, where: str) -> Found:
    """Look into a file without changing a byte of it: even choosing the journal mode would write.

    Through SQLite, never by opening the file: closing it would drop every lock that this process has on the database,
    and another process that closes it then takes its log away from under the connections that are open here.
    """
    nothing = Found(frozenset(), None, None, {})
    if not os.path.exists(path) or os.path.getsize(path) == 0:
        return nothing
    with translated(where, path):
        connection = sqlite3.connect(existing(path, "ro"), uri=True, timeout=_BUSY_SECONDS)
        try:
            names = frozenset(row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type='table'"))
            if "aq_hub" not in names:
                return Found(names - {"sqlite_sequence"}, None, None, {})
            return _identity(names, lambda sql: connection.execute(sql).fetchall())
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_NOTADB:
                raise
            raise HubVersionMismatch(
                f"{where} is not a hub",
                cause="the file is not an SQLite database",
                cure="name another file; it was not touched",
            ) from None
        finally:
            connection.close()


def inspect(conn: sa.Connection) -> Found:
    """What is in the database of a connection."""
    names = frozenset(sa.inspect(conn).get_table_names())
    if "aq_hub" not in names:
        return Found(names - {"sqlite_sequence"}, None, None, {})
    return _identity(names, lambda sql: conn.exec_driver_sql(sql).fetchall())


def _identity(names: frozenset[str], query: Any) -> Found:
    rows = query("SELECT hub_id, schema_version FROM aq_hub")
    hub_id, version = rows[0] if rows else (None, None)
    parts = {}
    if "aq_part" in names:
        parts = dict(map(tuple, query("SELECT name, version FROM aq_part")))
    return Found(names, bytes(hub_id) if hub_id is not None else None, version, parts)


def judge(found: Found, where: str, *, create: bool, schemas: Sequence[SchemaPart]) -> None:
    """Refuse what must not be opened."""
    if found.hub_id is None:
        if found.tables:
            raise HubVersionMismatch(
                f"{where} is not a hub",
                cause=f"it holds other tables ({', '.join(sorted(found.tables)[:3])}) and no hub",
                cure=_ROOM
                if where.startswith("postgresql")
                else "name a file of its own for the hub; it was not touched",
            )
        if not create:
            raise HubError(
                f"hub {where} does not exist",
                cause="the database is missing or empty",
                cure="make it with mgw apply (in Python: Hub.open(..., create=True))",
            )
        return
    _check_version(where, "hub", found.version or 0, tables.SCHEMA_VERSION)
    for part in schemas:
        if part.name in found.parts:
            _check_version(where, part.name, found.parts[part.name], part.version)
        elif not create:
            raise HubError(
                f"hub {where} lacks the tables of {part.name}",
                cause="it was made without them",
                cure="add them with mgw apply (in Python: Hub.open(..., create=True))",
            )


def _check_version(where: str, part: str, stored: int, known: int) -> None:
    if stored > known:
        raise HubVersionMismatch(
            f"hub {where} was written by a newer release",
            cause=f"its {part} tables have version {stored}, this release knows {known}",
            cure="install the newer release; the database was not touched",
        )
    if stored < known:
        raise HubVersionMismatch(
            f"hub {where} was written by an older release",
            cause=f"its {part} tables have version {stored}, this release needs {known}",
            cure="drain it with the older release and make a new hub",
        )


def create(engine: sa.Engine, durability: Durability, clock: Clock, schemas: Sequence[SchemaPart], where: str) -> Found:
    """Make what is missing, in one transaction; another process may have been faster."""
    with engine.begin() as conn:
        if engine.dialect.name == "postgresql":
            _lock(conn)
        found = inspect(conn)
        judge(found, where, create=True, schemas=schemas)
        if found.hub_id is None:
            tables.create(conn)
            hub_id = secrets.token_bytes(8)
            create_views(conn)
            row = {
                "hub_id": hub_id,
                "schema_version": tables.SCHEMA_VERSION,
                "durability": durability,
                "created": clock.now(),
            }
            conn.execute(tables.hub.insert(), row)
            if engine.dialect.name == "postgresql":
                functions.install(Db(conn), hub_id, where)
        for part in schemas:
            if part.name not in found.parts:
                part.create(conn)
                conn.execute(tables.part.insert(), {"name": part.name, "version": part.version})
        return inspect(conn)


# A queue is empty at one moment and holds millions at the next, and a statement is planned once: what was planned for
# the empty queue must not read and sort the full one. So the plans that follow an index in its order are preferred,
# whatever the statistics say. Where no index serves, the others are used still; their cost must not start the compiler.
_SETTLE = """
    SELECT set_config('synchronous_commit', %s, false), set_config('enable_seqscan', 'off', false),
           set_config('enable_bitmapscan', 'off', false), set_config('enable_sort', 'off', false),
           set_config('jit', 'off', false),
           (SELECT oid FROM pg_database WHERE datname = current_database()), pg_postmaster_start_time()::text,
           (SELECT stats_reset::text FROM pg_stat_bgwriter)"""


def settle(connection: Any, synchronous_commit: str) -> object:
    """Give a driver's new connection its settings; returns what tells a server from another, or from its restart.

    When one process of a server crashes, all others start anew but the first; it begins to count anew then.
    """
    row = connection.execute(_SETTLE, (synchronous_commit,)).fetchone()
    connection.commit()
    return row[-3:]


def _lock(conn: sa.Connection) -> None:
    """One process makes things at a time."""
    conn.exec_driver_sql("SELECT pg_advisory_xact_lock(7164114)")


def refresh_functions(engine: sa.Engine, found: Found, where: str) -> None:
    """Replace SQL functions that an older release made; where that is refused they stay, and the log says so."""
    if found.hub_id is None or not functions.stale(found.parts):
        return
    try:
        with engine.begin() as conn:
            _lock(conn)
            if functions.stale(inspect(conn).parts):
                functions.install(Db(conn), found.hub_id, where)
    except HubError as error:
        _log.warning("%s", error.text())


def strange_login(conn: sa.Connection) -> str | None:
    """Name of a PostgreSQL login that is not that of the owner of the hub's tables, nor has the owner's rights."""
    row = conn.exec_driver_sql(
        "SELECT session_user, pg_has_role(session_user, relowner, 'USAGE') FROM pg_class WHERE oid = 'aq_hub'::regclass"
    ).first()
    return str(row[0]) if row is not None and not row[1] else None
