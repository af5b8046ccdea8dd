"""The hub from SQL (PostgreSQL): puts the functions of ``functions/*.sql`` into the database and keeps them current.

They live in schema ``aq``. Where that name is taken, by another hub of the same database or by somebody else, they live
in ``aq_<schema of the hub's tables>``. A comment on the schema says whose it is.
"""

from __future__ import annotations

import logging
import re
import zlib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import NamedTuple

from mgw.gateway.aq.conditions.routing_sql import qualified, schema_of_tables, translate
from mgw.gateway.aq.store.namespace_sql import Namespace
from mgw.gateway.aq.store.statements import Db
from mgw.gateway.aq.store.tables import LOCKABLE, OPEN, PENDING, BodyType, Enabled, State
from mgw.gateway.aq.store.triggers_sql import PLACE
from mgw.transforms.errors import HubError

__all__ = ["FUNCTIONS_VERSION", "install", "remove", "schema_name", "stale"]

FUNCTIONS_VERSION = 1  # raised by every release that changes functions/*.sql; an older release leaves newer ones alone
_FILES = ("common", "enqueue", "groups", "dequeue")
# Modules, by the beginnings of their names, that make SQL of the rules that are stored next to the functions.
_TRANSLATORS = (
    ("mgw.gateway.aq.conditions", ("routing_sql",)),
    ("mgw.gateway.aq.conditions.sql", ("",)),
    ("mgw.transforms.language", ("",)),
)
_PART, _TEXT = "functions", "functions_text"  # rows of aq_part: the version, and a checksum of text and translation
_FORMER: tuple[str, ...] = ()  # functions that an earlier release had and this one does not
_LENGTH = 63  # bytes of a name in PostgreSQL

# The hub's own schema is not on the path: somebody else may be allowed to make functions and operators in it.
_SETTINGS = "SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on SET extra_float_digits = 1"

_log = logging.getLogger(__name__)

#: Type aq.message: what a dequeue hands out.
_MESSAGE = (
    ("msgid", "bytea"),
    ("payload", "bytea"),
    ("payload_text", "text"),
    ("body_type", "text"),
    ("headers", "json"),
    ("kind", "text"),
    ("priority", "bigint"),
    ("correlation", "text"),
    ("enqueue_time", "timestamp with time zone"),
    ("expiration", "double precision"),
    ("expires_at", "timestamp with time zone"),
    ("attempts", "integer"),
    ("state", "text"),
    ("exception_queue", "text"),
    ("sender_name", "text"),
    ("sender_address", "text"),
    ("original_msgid", "bytea"),
    ("user_property", "text"),
    ("sender_protocol", "integer"),
)

# Anybody can write a comment on a schema of his own: it says nothing unless the schema is of the owner of the tables.
_OWN = """
    SELECT n.nspname, pg_get_userbyid(n.nspowner), pg_get_userbyid(n.nspowner) = current_user
      FROM pg_namespace n JOIN pg_class c ON c.oid = to_regclass('aq_hub') AND n.nspowner = c.relowner
     WHERE obj_description(n.oid, 'pg_namespace') LIKE ?"""
_SCHEMA = """
    SELECT obj_description(n.oid, 'pg_namespace'), pg_get_userbyid(n.nspowner),
           pg_get_userbyid(n.nspowner) = current_user,
           EXISTS (SELECT FROM pg_proc p WHERE p.pronamespace = n.oid)
           OR EXISTS (SELECT FROM pg_class c WHERE c.relnamespace = n.oid)
           OR EXISTS (SELECT FROM pg_type t WHERE t.typnamespace = n.oid)
      FROM pg_namespace n WHERE n.nspname = ?"""
_ATTRIBUTES = """
    SELECT a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_attribute a
     WHERE a.attrelid = to_regclass(?) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"""
_GRANTS = """
    SELECT DISTINCT p.proname, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END
      FROM pg_proc p CROSS JOIN aclexplode(p.proacl) a
     WHERE p.pronamespace = (SELECT oid FROM pg_namespace WHERE nspname = ?) AND a.grantee <> p.proowner"""
_FUNCTIONS = """
    SELECT p.proname, p.oid::regprocedure::text, age(p.xmin) <= age(pg_current_xact_id()::xid)
      FROM pg_proc p
     WHERE p.pronamespace = (SELECT oid FROM pg_namespace WHERE nspname = ?) AND p.proname = ANY(?)"""


# What stands in the files for the states of messages and of queues, and for the kinds of bodies.
_STATES = {each.name: str(int(each)) for each in (*State, *Enabled)}
_STATES |= {"OPEN": OPEN, "PENDING": PENDING, "LOCKABLE": LOCKABLE, "BELOWCLAIMED": str(State.CLAIMED - 1)}
_STATES |= {f"BODY{each.name}": str(int(each)) for each in BodyType}


@cache
def _text() -> str:
    folder = resources.files(__package__)
    text = "\n".join(folder.joinpath(f"{name}.sql").read_text("utf-8") for name in _FILES)
    return re.sub(r"@([A-Z]+)@", lambda found: _STATES[found[1]], text)


def _translators() -> str:
    """The translation as it is written; where there are no sources, only a new version says that it changed."""
    return "\n".join(
        path.read_text("utf-8")
        for package, beginnings in _TRANSLATORS
        for path in sorted(resources.files(package).iterdir(), key=lambda path: path.name)
        if path.name.endswith(".py") and path.name.startswith(beginnings)
    )


@cache
def _checksum() -> int:
    return zlib.crc32((_text() + _translators()).encode()) & 0x7FFFFFFF


def stale(parts: Mapping[str, int]) -> bool:
    """Whether the functions in a database with these parts are missing, or older than this release's."""
    version = parts.get(_PART, 0)
    return version < FUNCTIONS_VERSION or (version == FUNCTIONS_VERSION and parts.get(_TEXT) != _checksum())


class _Owned(NamedTuple):
    """A schema with the functions of a hub."""

    schema: str
    owner: str
    by_this_user: bool


def schema_name(db: Db, hub_id: bytes) -> str | None:
    """The schema that has the functions of this hub, or None."""
    found = _found(db, hub_id)
    return found.schema if found else None


def _found(db: Db, hub_id: bytes) -> _Owned | None:
    row = db.row(_OWN, (f"{_mark(hub_id)}%",))
    return _Owned(*row) if row else None


def _own_schema(db: Db, hub_id: bytes) -> str | None:
    """The same, if it is of the user who works: only he may replace functions that run with his rights."""
    found = _found(db, hub_id)
    if found is None:
        return None
    if not found.by_this_user:
        raise HubError(
            f"the functions of schema {found.schema} cannot be replaced",
            cause=f"the schema and the hub's tables belong to user {found.owner}",
            cure=f"open the hub once as {found.owner}",
        )
    return found.schema


def install(db: Db, hub_id: bytes, where: str) -> None:
    """Make the functions, or replace those there are; who was granted EXECUTE keeps it. Waits for who does the same.

    Raises:
        HubError: the hub's user has no right to do it, or views of others need the functions as they are.
    """
    try:
        _install(db, hub_id)
    except Exception as error:
        state = getattr(error, "sqlstate", None)
        if state not in ("42501", "2BP01"):
            raise
        raise HubError(
            f"the functions of schema aq cannot be created in hub {where}",
            cause=str(error).strip().splitlines()[0],
            cure="GRANT CREATE ON DATABASE ... TO the hub's user, or CREATE SCHEMA aq AUTHORIZATION that user"
            if state == "42501"
            else "drop the views that use them, and recreate them afterwards",
        ) from error


def _install(db: Db, hub_id: bytes) -> None:
    tables = schema_of_tables(db)
    name = _own_schema(db, hub_id) or _new_schema(db, tables)
    schema = _quoted(name)
    names = sorted(set(re.findall(r"FUNCTION @aq@\.(\w+)", _text())) | set(_FORMER))
    grants = db.rows(_GRANTS, (name,))
    channel = "'" + Namespace(tables).channel.replace("'", "''") + "'"
    words = {"aq": schema, "channel": channel, "settings": _SETTINGS, "version": str(FUNCTIONS_VERSION)}
    text = re.sub(r"@(\w+)@", lambda found: words[found[1]], qualified(_text() + place(), tables))
    if tuple(db.rows(_ATTRIBUTES, (f"{schema}.message",))) != _MESSAGE:
        _drop(db, name, names)
        attributes = ", ".join(f"{attribute} {kind}" for attribute, kind in _MESSAGE)
        db.raw.execute(f"DROP TYPE IF EXISTS {schema}.message")
        db.raw.execute(f"CREATE TYPE {schema}.message AS ({attributes})")
    db.raw.execute("SAVEPOINT functions")
    try:
        db.raw.execute(text)  # without parameters: many statements in one round trip, and a percent sign is one
    except Exception as error:
        if getattr(error, "sqlstate", None) != "42P13":  # invalid_function_definition: cannot be replaced as it is
            raise
        db.raw.execute("ROLLBACK TO functions")
        _drop(db, name, names)
        db.raw.execute(text)
    found = db.rows(_FUNCTIONS, (name, names))
    for _, signature, current in found:
        if not current:  # of an earlier release, with other parameters
            db.raw.execute(f"DROP FUNCTION {signature}")
    own = [(function, signature) for function, signature, current in found if current]
    db.raw.execute(f"REVOKE ALL ON FUNCTION {', '.join(signature for _, signature in own)} FROM PUBLIC")
    for granted, role in grants:
        for signature in [signature for function, signature in own if function == granted]:
            db.raw.execute(f"GRANT EXECUTE ON FUNCTION {signature} TO {role}")
    comment = f"{_mark(hub_id)}, tables in {tables}"
    db.raw.execute(f"COMMENT ON SCHEMA {schema} IS '{comment.replace(chr(39), chr(39) * 2)}'")
    db.run(f"DELETE FROM aq_part WHERE name IN ('{_PART}', '{_TEXT}')")
    values = ((_PART, FUNCTIONS_VERSION), (_TEXT, _checksum()))
    db.many("INSERT INTO aq_part (name, version) VALUES (?, ?)", values)
    translate(db)


def place() -> str:
    """The trigger function of commit-time queues, as it runs at the commit of callers without rights on the tables."""
    defined = "LANGUAGE plpgsql SET search_path FROM CURRENT AS"
    if defined not in PLACE:
        raise ValueError("the trigger function of commit-time queues has another definition")
    text = PLACE.replace(defined, "LANGUAGE plpgsql SECURITY DEFINER @settings@ AS")
    return "\n" + text.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION") + ";\n"


def _drop(db: Db, schema: str, names: Sequence[str]) -> None:
    for _, signature, _ in db.rows(_FUNCTIONS, (schema, names)):
        db.raw.execute(f"DROP FUNCTION {signature}")


def remove(db: Db, hub_id: bytes) -> None:
    """Drop the functions of a hub with their schema."""
    name = schema_name(db, hub_id)
    if name is not None:
        db.raw.execute(f"DROP SCHEMA {_quoted(name)} CASCADE")
        db.run(f"DELETE FROM aq_part WHERE name IN ('{_PART}', '{_TEXT}')")


def _new_schema(db: Db, tables: str) -> str:
    """A schema for the functions: new, empty, or left behind by a hub that is gone; never one of another user.

    Its owner could put functions of his own in the place of those that run with the rights of the hub's owner.
    """
    other = f"aq_{tables}".encode()[:_LENGTH].decode("utf-8", "ignore")
    for name in ("aq", other):
        found = db.row(_SCHEMA, (name,))
        if found is None:
            db.raw.execute(f"CREATE SCHEMA {_quoted(name)}")
            return name
        comment, owner, own, used = found
        if not used and not own:
            raise HubError(
                f"the functions of schema {name} cannot be created",
                cause=f"the schema is empty, and belongs to user {owner}",
                cure=f"drop it, or have an administrator do: ALTER SCHEMA {_quoted(name)} OWNER TO the hub's user",
            )
        if not used:
            return name
        if own and _orphaned(db, comment or ""):
            db.raw.execute(f"DROP SCHEMA {_quoted(name)} CASCADE")
            db.raw.execute(f"CREATE SCHEMA {_quoted(name)}")
            return name
    raise HubError(
        "there is no place for the functions of schema aq",
        cause=f"the schemas aq and {other} of this database have other owners",
        cure="keep the hub in a database of its own, or rename one of them",
    )


def _orphaned(db: Db, comment: str) -> bool:
    """Whether a schema has the functions of a hub that is gone."""
    found = re.fullmatch(r"Functions of hub ([0-9a-f]{16}), tables in (.*)", comment, re.DOTALL)
    if found is None:
        return False
    table = f"{_quoted(found[2])}.aq_hub"
    if not db.scalar("SELECT to_regclass(?) IS NOT NULL", (table,)):
        return True
    return bool(db.scalar(f"SELECT encode(hub_id, 'hex') FROM {table}") != found[1])


def _mark(hub_id: bytes) -> str:
    return f"Functions of hub {hub_id.hex()}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
