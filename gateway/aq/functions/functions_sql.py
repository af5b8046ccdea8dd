"""The hub from SQL (PostgreSQL): puts the functions of ``functions/*.sql`` into the database and keeps them current.

They live in schema ``aq`` (:mod:`mgw.gateway.aq.store.function_home_sql`).
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from functools import cache
from importlib import resources

from mgw.gateway.aq.conditions.routing_sql import qualified, schema_of_tables, translate
from mgw.gateway.aq.store.function_home_sql import SETTINGS, Home, SqlFunctions, quoted
from mgw.gateway.aq.store.namespace_sql import Namespace
from mgw.gateway.aq.store.statements import Db
from mgw.gateway.aq.store.tables import LOCKABLE, OPEN, PENDING, BodyType, Enabled, State
from mgw.gateway.aq.store.triggers_sql import PLACE

__all__ = ["FUNCTIONS", "FUNCTIONS_VERSION", "HOME", "install", "remove", "schema_name", "stale"]

FUNCTIONS_VERSION = 1  # raised by every release that changes functions/*.sql; an older release leaves newer ones alone
HOME = Home("aq", "Functions")
_FILES = ("common", "enqueue", "groups", "dequeue")
# Modules, by the beginnings of their names, that make SQL of the rules that are stored next to the functions.
_TRANSLATORS = (
    ("mgw.gateway.aq.conditions", ("routing_sql",)),
    ("mgw.gateway.aq.conditions.sql", ("",)),
    ("mgw.transforms.language", ("",)),
)
_PART, _TEXT = "functions", "functions_text"  # rows of aq_part: the version, and a checksum of text and translation
_FORMER: tuple[str, ...] = ()  # functions that an earlier release had and this one does not

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

_ATTRIBUTES = """
    SELECT a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_attribute a
     WHERE a.attrelid = to_regclass(?) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"""


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


def schema_name(db: Db, hub_id: bytes) -> str | None:
    """The schema that has the functions of this hub, or None."""
    found = HOME.found(db, hub_id)
    return found.schema if found else None


def install(db: Db, hub_id: bytes, where: str) -> None:
    """Make the functions, or replace those there are; who was granted EXECUTE keeps it. Waits for who does the same.

    Raises:
        HubError: the hub's user has no right to do it, or views of others need the functions as they are.
    """
    try:
        _install(db, hub_id)
    except Exception as error:
        refusal = HOME.refused(error, where)
        if refusal is None:
            raise
        raise refusal from error


def _install(db: Db, hub_id: bytes) -> None:
    tables = schema_of_tables(db)
    name = HOME.name(db, hub_id, tables)
    schema = quoted(name)
    names = sorted(set(re.findall(r"FUNCTION @aq@\.(\w+)", _text())) | set(_FORMER))
    channel = "'" + Namespace(tables).channel.replace("'", "''") + "'"
    words = {"aq": schema, "channel": channel, "settings": SETTINGS, "version": str(FUNCTIONS_VERSION)}
    text = re.sub(r"@(\w+)@", lambda found: words[found[1]], qualified(_text() + place(), tables))
    if tuple(db.rows(_ATTRIBUTES, (f"{schema}.message",))) != _MESSAGE:
        HOME.drop(db, name, names)
        attributes = ", ".join(f"{attribute} {kind}" for attribute, kind in _MESSAGE)
        db.raw.execute(f"DROP TYPE IF EXISTS {schema}.message")
        db.raw.execute(f"CREATE TYPE {schema}.message AS ({attributes})")
    HOME.make(db, name, text, names)
    HOME.comment(db, name, hub_id, tables)
    db.run(f"DELETE FROM aq_part WHERE name IN ('{_PART}', '{_TEXT}')")
    values = ((_PART, FUNCTIONS_VERSION), (_TEXT, _checksum()))
    db.many("INSERT INTO aq_part (name, version) VALUES (?, ?)", values)
    translate(db)


class _Functions:
    """See :class:`mgw.gateway.aq.store.function_home_sql.SqlFunctions`."""

    home = HOME

    def stale(self, parts: Mapping[str, int]) -> bool:
        """Whether they are missing, or older than this release's."""
        return stale(parts)

    def possible(self, db: Db, hub_id: bytes) -> bool:  # noqa: ARG002
        """Every hub can have them."""
        return True

    def install(self, db: Db, hub_id: bytes, where: str) -> None:
        """See :func:`install`."""
        install(db, hub_id, where)


#: The functions of the queues.
FUNCTIONS: SqlFunctions = _Functions()


def place() -> str:
    """The trigger function of commit-time queues, as it runs at the commit of callers without rights on the tables."""
    defined = "LANGUAGE plpgsql SET search_path FROM CURRENT AS"
    if defined not in PLACE:
        raise ValueError("the trigger function of commit-time queues has another definition")
    text = PLACE.replace(defined, "LANGUAGE plpgsql SECURITY DEFINER @settings@ AS")
    return "\n" + text.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION") + ";\n"


def remove(db: Db, hub_id: bytes) -> None:
    """Drop the functions of a hub with their schema."""
    name = schema_name(db, hub_id)
    if name is not None:
        db.raw.execute(f"DROP SCHEMA {quoted(name)} CASCADE")
        db.run(f"DELETE FROM aq_part WHERE name IN ('{_PART}', '{_TEXT}')")
