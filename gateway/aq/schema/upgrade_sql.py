"""Statements of an upgrade: versions, grants on views, and on PostgreSQL who else is connected."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import sqlalchemy as sa

from mgw.gateway.aq.functions import functions_sql as functions
from mgw.gateway.aq.store.membership import HUB_LOCK
from mgw.gateway.aq.store.migrations.plan import QUEUES
from mgw.gateway.aq.store.schema_part import SchemaPart
from mgw.gateway.aq.store.statements import Db
from mgw.transforms.errors import HubError

__all__ = [
    "Grant",
    "dependents_named",
    "grant_views",
    "granted_views",
    "holders",
    "lock",
    "make_functions",
    "make_triggers",
    "set_version",
    "sign",
    "triggers_on_views",
    "users",
]


class Grant(NamedTuple):
    """A right on a view, or on one column of it, that somebody but its owner has."""

    view: str
    column: str | None
    privilege: str
    grantee: str
    grantable: bool


_GRANTS = """
    SELECT c.relname, NULL, a.privilege_type, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END,
           a.is_grantable
      FROM pg_class c CROSS JOIN aclexplode(c.relacl) a
     WHERE c.relkind = 'v' AND c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'aq_hub'::regclass)
       AND a.grantee <> c.relowner
    UNION ALL
    SELECT c.relname, t.attname, a.privilege_type,
           CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END, a.is_grantable
      FROM pg_class c JOIN pg_attribute t ON t.attrelid = c.oid CROSS JOIN aclexplode(t.attacl) a
     WHERE c.relkind = 'v' AND c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'aq_hub'::regclass)
       AND a.grantee <> c.relowner"""
_THERE = """
    SELECT EXISTS (SELECT FROM pg_attribute t JOIN pg_class c ON c.oid = t.attrelid
     WHERE c.relname = ? AND c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'aq_hub'::regclass)
       AND t.attnum > 0 AND t.attname = coalesce(?, t.attname))"""
_TRIGGERS = """
    SELECT pg_get_triggerdef(t.oid) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
     WHERE c.relkind = 'v' AND c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'aq_hub'::regclass)"""
_TRIGGERS_SQLITE = """
    SELECT t.sql FROM sqlite_master t JOIN sqlite_master v ON v.name = t.tbl_name AND v.type = 'view'
     WHERE t.type = 'trigger'"""
_TABLES = """
    SELECT c.relname FROM pg_class c WHERE c.relkind = 'r' AND c.relname ~ '^(aq|gw|pl)_[a-z_]+$'
       AND c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'aq_hub'::regclass) ORDER BY c.relname"""
# A hub's connections share a lock (see join); those of releases before bear the name of their process or listen.
_USERS = """
    SELECT DISTINCT a.pid, a.application_name, host(a.client_addr)
      FROM pg_stat_activity a LEFT JOIN pg_locks l ON l.pid = a.pid AND l.locktype = 'advisory' AND l.granted
       AND l.classid = ? AND l.objid = 'aq_hub'::regclass::oid AND l.objsubid = 2
     WHERE a.datname = current_database() AND a.pid <> pg_backend_pid()
       AND (l.pid IS NOT NULL OR (?::boolean AND (a.application_name ~ '^mgw-' OR a.query ~* '^LISTEN .{0,1}mgw_')))
     ORDER BY a.pid"""
_HOLDERS = """
    SELECT DISTINCT a.pid, a.application_name, host(a.client_addr)
      FROM pg_locks l JOIN pg_class c ON c.oid = l.relation JOIN pg_stat_activity a ON a.pid = l.pid
     WHERE c.relname ~ '^(aq|gw|pl)_' AND l.granted AND l.pid <> pg_backend_pid()
       AND c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'aq_hub'::regclass) ORDER BY a.pid"""


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def granted_views(db: Db) -> list[Grant]:
    """Rights of others on the views in the hub's schema (PostgreSQL): views that are dropped lose them."""
    return [Grant(*row) for row in db.rows(_GRANTS)] if db.postgresql else []


def grant_views(db: Db, grants: Sequence[Grant]) -> None:
    """Give rights back, as far as their views and columns are there."""
    for grant in grants:
        if not db.scalar(_THERE, (grant.view, grant.column)):
            continue
        column = "" if grant.column is None else f" ({_quoted(grant.column)})"
        option = " WITH GRANT OPTION" if grant.grantable else ""
        db.raw.execute(f"GRANT {grant.privilege}{column} ON {_quoted(grant.view)} TO {grant.grantee}{option}")


def triggers_on_views(db: Db) -> list[str]:
    """Definitions of the triggers that others have on the hub's views: they go with a view that is dropped."""
    sql = _TRIGGERS if db.postgresql else _TRIGGERS_SQLITE
    return [str(definition) for (definition,) in db.rows(sql)]


def make_triggers(db: Db, definitions: Sequence[str]) -> None:
    """Make triggers again."""
    for definition in definitions:
        db.raw.execute(definition)


def make_functions(conn: sa.Connection, hub_id: bytes, where: str) -> None:
    """Make the SQL functions of this release (PostgreSQL)."""
    db = Db(conn)
    if db.postgresql:
        functions.install(db, hub_id, where)


def set_version(db: Db, part: SchemaPart) -> None:
    """Store that a part has the version of this release."""
    if part.name == QUEUES:
        db.run("UPDATE aq_hub SET schema_version = ?", (part.version,))
    else:
        db.run("UPDATE aq_part SET version = ? WHERE name = ?", (part.version, part.name))


def sign(db: Db, *, now: float, release: str) -> None:
    """Store who upgraded the hub and when."""
    db.run("UPDATE aq_hub SET written_by = ?, upgraded = ?", (release, now))


def lock(db: Db, milliseconds: int) -> bool:
    """Keep everybody out of the hub's tables until the end of the transaction (PostgreSQL).

    Returns:
        Whether no connection of a hub is there any more.

    Raises:
        lock_not_available: somebody was in them for longer; the transaction is over.
    """
    db.run(f"SET LOCAL lock_timeout = {milliseconds:d}")
    # Statistics and rows that break a rule are looked for in whole tables, which hub connections avoid.
    for setting in ("enable_seqscan", "enable_bitmapscan", "enable_sort"):
        db.run(f"SET LOCAL {setting} = on")
    names = [name for (name,) in db.rows(_TABLES)]
    db.run(f"LOCK TABLE {', '.join(names)} IN ACCESS EXCLUSIVE MODE")
    return bool(db.scalar("SELECT pg_try_advisory_xact_lock(?::int, 'aq_hub'::regclass::oid::int)", (HUB_LOCK,)))


def users(db: Db, *, unsigned: bool) -> list[str]:
    """Programs that have the hub open (PostgreSQL).

    Args:
        unsigned: also count programs of releases whose connections do not tell which hub of the database they use.
    """
    return [_shown(row) for row in db.rows(_USERS, (HUB_LOCK, unsigned))]


def holders(db: Db) -> list[str]:
    """Programs with a transaction in the hub's tables (PostgreSQL)."""
    return [_shown(row) for row in db.rows(_HOLDERS)]


def _shown(row: tuple[object, ...]) -> str:
    pid, name, address = row
    return f"server process {pid}{f' of {name}' if name else ''}{f' from {address}' if address else ''}"


@contextmanager
def dependents_named(where: str) -> Iterator[None]:
    """Refuse where views of others are made of views of the hub (PostgreSQL)."""
    try:
        yield
    except Exception as error:
        if (
            getattr(error, "sqlstate", None) != "2BP01"
            and getattr(getattr(error, "orig", None), "sqlstate", None) != "2BP01"
        ):
            raise
        driver = getattr(error, "orig", None) or error
        detail = getattr(getattr(driver, "diag", None), "message_detail", None) or str(driver)
        raise HubError(
            f"hub {where} cannot be upgraded",
            cause="; ".join(detail.splitlines()),
            cure="drop what uses the hub's views, upgrade, and recreate it afterwards; nothing was changed",
        ) from error
