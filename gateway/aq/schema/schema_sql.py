"""What is in a database, and whether it may be opened: the hub's own tables, those of other modules, or neither."""

from __future__ import annotations

import logging
import os
import re
import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import sqlalchemy as sa

from mgw.gateway.aq.functions import functions_sql as functions
from mgw.gateway.aq.model import Durability
from mgw.gateway.aq.queues.catalog_sql import list_queue_tables
from mgw.gateway.aq.store import tables
from mgw.gateway.aq.store.connection_state import state_of
from mgw.gateway.aq.store.database_errors import translated
from mgw.gateway.aq.store.files import existing
from mgw.gateway.aq.store.function_home_sql import Home
from mgw.gateway.aq.store.migrations.plan import QUEUES, newer, older, this_release
from mgw.gateway.aq.store.migrations.queues import STEPS
from mgw.gateway.aq.store.namespace_sql import quoted, require_schema, tables_in
from mgw.gateway.aq.store.schema_part import SchemaPart
from mgw.gateway.aq.store.statements import Db
from mgw.gateway.aq.store.triggers_sql import create_triggers, drop_triggers
from mgw.gateway.aq.views import create_views, drop_views, make_object_views
from mgw.transforms.clock import Clock
from mgw.transforms.errors import HubError, HubIncomplete, HubMissing, HubVersionMismatch

__all__ = [
    "QUEUES_PART",
    "SIGNED",
    "Found",
    "create",
    "inspect",
    "inspect_opened",
    "inspect_sqlite",
    "install_functions",
    "judge",
    "lock",
    "refresh_functions",
    "strange_login",
]

_BUSY_SECONDS = 30.0
_LOCK = 7164114  # advisory: who makes tables or functions
_LOCK_MILLISECONDS = 1000  # for which functions wait that an open transaction holds
SIGNED = 2  # version from which on a hub says which release wrote it
# What SQLite says of a name that is taken by something of the same kind, or of another one.
_TAKEN = re.compile(r"(?:table|view|index|trigger) (\S+) already exists|there is already an? \w+ named (\S+)")
_log = logging.getLogger(__name__)


def _make_derived(conn: sa.Connection) -> None:
    create_triggers(conn)
    create_views(conn)
    make_object_views(conn, list_queue_tables(Db(conn)))


def _drop_derived(conn: sa.Connection) -> None:
    drop_views(conn)
    drop_triggers(conn)


#: The part that every hub has; its version is in ``aq_hub``.
QUEUES_PART = SchemaPart(QUEUES, tables.create, steps=STEPS, make_derived=_make_derived, drop_derived=_drop_derived)


class Found(NamedTuple):
    """What is in a database, or in a schema of it: names of tables, and the hub's identity if there is one."""

    tables: frozenset[str]
    hub_id: bytes | None
    version: int | None
    parts: dict[str, int]
    schema: str | None = None
    journal_mode: str | None = None  # of an SQLite file without a hub
    written_by: str | None = None  # release that made the hub or upgraded it last
    upgraded: float | None = None  # when; epoch seconds


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
            return inspect_opened(connection)
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


def inspect_opened(connection: sqlite3.Connection) -> Found:
    """What is in the SQLite database of a driver's connection."""
    names = frozenset(name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type='table'"))
    if "aq_hub" not in names:
        (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
        return Found(_of_others(names), None, None, {}, journal_mode=mode)
    return _identity(names, lambda sql: connection.execute(sql).fetchall())


def _of_others(names: frozenset[str]) -> frozenset[str]:
    return frozenset(name for name in names if not name.startswith("sqlite_"))


def inspect(conn: sa.Connection) -> Found:
    """What is in the database of a connection of the hub, in its schema there."""
    prefix = ""
    if conn.dialect.name == "postgresql":
        schema = _schema_of(conn)
        names = tables_in(conn.connection.driver_connection, schema)
        if "aq_hub" not in names:
            return Found(names, None, None, {}, schema)
        prefix = f"{quoted(schema)}.".replace("%", "%%")  # a login that may not use it is told so
    else:
        names = frozenset(sa.inspect(conn).get_table_names())
        if "aq_hub" not in names:
            return Found(_of_others(names), None, None, {})
    return _identity(names, lambda sql: conn.exec_driver_sql(sql).fetchall(), prefix)


def _schema_of(conn: sa.Connection) -> str:
    """The schema of the hub's tables, of a connection of its own to PostgreSQL."""
    state = state_of(conn)
    assert state is not None  # noqa: S101
    assert state.namespace is not None  # noqa: S101
    assert state.namespace.schema is not None  # noqa: S101
    return state.namespace.schema


def _identity(names: frozenset[str], query: Any, prefix: str = "") -> Found:
    rows = query(f"SELECT hub_id, schema_version FROM {prefix}aq_hub")
    hub_id, version = rows[0] if rows else (None, None)
    parts = {}
    if "aq_part" in names:
        parts = dict(map(tuple, query(f"SELECT name, version FROM {prefix}aq_part")))
    found = Found(names, bytes(hub_id) if hub_id is not None else None, version, parts)
    if version is None or version < SIGNED:
        return found
    written_by, upgraded = query(f"SELECT written_by, upgraded FROM {prefix}aq_hub")[0]
    return found._replace(written_by=written_by, upgraded=upgraded)


def judge(found: Found, where: str, *, create: bool, schemas: Sequence[SchemaPart]) -> None:
    """Refuse what must not be opened."""
    if found.hub_id is None:
        if found.tables and found.schema is not None:
            raise HubVersionMismatch(
                f"{where} is not a hub",
                cause=f"its schema {found.schema} holds other tables ({_some(found.tables)}), but no hub",
                cure="name a separate schema for the hub in the URL (?schema=NAME); this one was not touched",
            )
        if not create:
            raise HubMissing(
                f"hub {where} does not exist",
                cause=f"the file holds other tables ({_some(found.tables)}), but no hub"
                if found.tables
                else "the database is missing or empty",
                cure="create it with mgw hub create or mgw apply FILE (in Python: Hub.open(..., create=True))",
            )
        if found.tables:
            _require_wal(found.journal_mode, where)
        return
    _check_version(where, QUEUES_PART, found.version or 0, found)
    for part in schemas:
        if part.name in found.parts:
            _check_version(where, part, found.parts[part.name], found)
        elif not create:
            raise HubIncomplete(
                f"hub {where} lacks the tables of {part.name}",
                cause="it was created without them",
                cure="add them with mgw hub create or mgw apply FILE (in Python: Hub.open(..., create=True))",
            )


def _some(tables: frozenset[str]) -> str:
    return ", ".join(sorted(tables)[:3])


def _check_version(where: str, part: SchemaPart, stored: int, found: Found) -> None:
    if stored > part.version:
        raise newer(where, part.name, stored, part.version, found.written_by)
    if stored < part.version:
        raise older(where, part.name, stored, part.version)


def _require_wal(journal_mode: str | None, where: str) -> None:
    """Refuse to make a hub in an application's file with another journal than a hub needs: it is not ours to change.

    Raises:
        HubError: the journal mode is not WAL.
    """
    if journal_mode is not None and journal_mode.lower() != "wal":
        raise HubError(
            f"hub {where} cannot be created",
            cause=f"the file belongs to an application and has journal_mode {journal_mode}; a hub needs WAL",
            cure="set it once, the file keeps it: sqlite3 FILE 'PRAGMA journal_mode=WAL'",
        )


@contextmanager
def _names_refused(where: str) -> Iterator[None]:
    """Say whose name it is where an application has one that a hub needs (SQLite)."""
    try:
        yield
    except (sa.exc.OperationalError, sqlite3.OperationalError) as error:
        taken = _TAKEN.search(str(getattr(error, "orig", error)))
        if taken is None:
            raise
        raise HubError(
            f"hub {where} cannot be created",
            cause=f"the application uses the name of a table or view of the hub: {taken[1] or taken[2]}",
            cure="rename the application's, or use a separate file for the hub; this one was not touched",
        ) from error


def create(engine: sa.Engine, durability: Durability, clock: Clock, schemas: Sequence[SchemaPart], where: str) -> Found:
    """Make what is missing, in one transaction; another process may have been faster."""
    with engine.begin() as conn:
        if engine.dialect.name == "postgresql":
            lock(conn)
            require_schema(conn.connection.driver_connection, _schema_of(conn), where)
        found = inspect(conn)
        judge(found, where, create=True, schemas=schemas)
        with _names_refused(where):
            if found.hub_id is None:
                QUEUES_PART.create(conn)
                QUEUES_PART.make_derived(conn)
                hub_id = secrets.token_bytes(8)
                row = {
                    "hub_id": hub_id,
                    "schema_version": QUEUES_PART.version,
                    "durability": durability,
                    "created": clock.now(),
                    "written_by": this_release(),
                }
                conn.execute(tables.hub.insert(), row)
                if engine.dialect.name == "postgresql":
                    functions.install(Db(conn), hub_id, where)
            for part in schemas:
                if part.name not in found.parts:
                    part.create(conn)
                    part.make_derived(conn)
                    conn.execute(tables.part.insert(), {"name": part.name, "version": part.version})
                    install_functions(conn, part, where)
        return inspect(conn)


def install_functions(conn: sa.Connection, part: SchemaPart, where: str) -> None:
    """Make the SQL functions of a part (PostgreSQL); where that is refused, the log says so: a hub works without."""
    hub_id = inspect(conn).hub_id if part.functions is not None else None
    if part.functions is None or hub_id is None or conn.dialect.name != "postgresql":
        return
    try:
        with conn.begin_nested():
            part.functions.install(Db(conn), hub_id, where)
    except Exception as error:
        _log.warning("%s", _refusal(error, part.functions.home, where).text())


def _refusal(error: Exception, home: Home, where: str) -> HubError:
    """What kept functions from being made that a hub can do without; any other error goes on."""
    refusal = error if isinstance(error, HubError) else home.failed(error, where)
    if refusal is None:
        raise error
    return refusal


def lock(conn: sa.Connection) -> None:
    """One process makes things at a time."""
    conn.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_LOCK})")


def refresh_functions(engine: sa.Engine, found: Found, where: str, schemas: Sequence[SchemaPart]) -> None:
    """Replace SQL functions that an older release made; where that cannot be done they stay, and the log says so.

    A hub is opened all the time, and has to wait for nobody: it is looked first whether there is something to do and
    whether this user can; whoever makes functions at the moment, or holds them, is not waited for.
    """
    if found.hub_id is None:
        return
    parts = [part.functions for part in schemas if part.functions is not None and part.name in found.parts]
    for each in (functions.FUNCTIONS, *parts):
        if not each.stale(found.parts):
            continue
        level = logging.WARNING
        try:
            with engine.connect() as conn:
                db = Db(conn)
                if not each.possible(db, found.hub_id):
                    continue
                if each is not functions.FUNCTIONS and each.home.found(db, found.hub_id) is None:
                    level = logging.DEBUG  # it was told when the hub was made, and a hub works without them
                each.home.check(db, found.hub_id, found.schema or "", where)
            with engine.begin() as conn:
                if _lock_at_once(conn) and each.stale(inspect(conn).parts):
                    conn.exec_driver_sql(f"SET LOCAL lock_timeout = {_LOCK_MILLISECONDS}")
                    each.install(Db(conn), found.hub_id, where)
        except Exception as error:
            _log.log(level, "%s", _refusal(error, each.home, where).text())


def _lock_at_once(conn: sa.Connection) -> bool:
    """See :func:`lock`; False: somebody else makes things now."""
    return bool(conn.exec_driver_sql(f"SELECT pg_try_advisory_xact_lock({_LOCK})").scalar())


def strange_login(conn: sa.Connection) -> str | None:
    """Name of a PostgreSQL login that is not that of the owner of the hub's tables, nor has the owner's rights."""
    login: str | None = conn.exec_driver_sql(
        "SELECT session_user FROM pg_class"
        " WHERE oid = 'aq_hub'::regclass AND NOT pg_has_role(session_user, relowner, 'USAGE')"
    ).scalar()
    return login
