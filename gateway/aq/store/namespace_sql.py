"""Where a hub is in a PostgreSQL database: the schema of its tables, and what is named after it.

Statements name the tables with their schema: so they find them on every connection, whatever its ``search_path`` is,
also when that is changed in the middle of a transaction.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from mgw.gateway.aq.store.tables import metadata
from mgw.transforms.errors import HubError

__all__ = [
    "DEFAULT_NAMESPACE",
    "SCHEMA_OPTION",
    "Namespace",
    "channel_sql",
    "hubs_of",
    "locate",
    "on_path",
    "quoted",
    "require_schema",
    "tables_in",
]

#: The parameter of a hub's URL that names the schema.
SCHEMA_OPTION = "schema"
#: The schema of a new hub in a database that has tables already.
DEFAULT_NAMESPACE = "mgw"
_PUBLIC = "public"  # here channels are called as they were when no hub was anywhere else
_LONGEST = 50  # bytes of a schema in the name of a channel, which has at most 63
_TEMPLATES = 2048  # statements known; conditions of callers are part of some
_CHANNEL = "mgw_hub"
_OTHERS = ("aq_message_id", "aq_commit_number", "aq_dequeue_log_id_seq", "aq_consumer_id_seq", "aq_text", "aq_json")
_NAME = "|".join(sorted((*metadata.tables, *_OTHERS), key=len, reverse=True))
# In quotes only where they are the name of a table or sequence still: any other text means itself.
_NAMES = re.compile(rf"(?:(?<![\w.'])|(?<=val\(')|(?<=regclass\('))({_NAME})\b|(?<=')({_NAME})(?='::regclass)")

_PATH = "SELECT unnest(current_schemas(false))"
# In the catalogue a schema is found that the login may not use: then the refusal names the right that is missing.
_HUBS = """
    SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE c.relname = 'aq_hub' AND c.relkind = 'r' AND n.nspname !~ '^pg_' ORDER BY n.nspname"""
_HAS_HUB = """
    SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                    WHERE c.relname = 'aq_hub' AND n.nspname = %s)"""
_TABLES_OF_OTHERS = """
    SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                    WHERE c.relkind IN ('r', 'p', 'f') AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
                      AND NOT EXISTS (SELECT FROM pg_class h WHERE h.relnamespace = n.oid AND h.relname = 'aq_hub'))"""
_TABLES = """
    SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname = %s AND c.relkind IN ('r', 'p', 'f')"""
_SHOW = "SHOW search_path"
_SET = "SELECT set_config('search_path', %s, %s)"
_IDLE, _IN_TRANSACTION = 0, 2  # of PQtransactionStatus
_EXISTS = "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = %s)"


class Namespace:
    """The schema of a hub's tables.

    Attributes:
        schema: its name; None: whatever ``search_path`` says, on connections of which nothing is known.
        sql: a template of :mod:`mgw.gateway.aq.store.statements` as PostgreSQL takes it.
    """

    __slots__ = ("_channel", "_prefix", "schema", "sql")

    def __init__(self, schema: str | None) -> None:
        self.schema = schema
        if schema is None:
            self._channel, self._prefix = channel_sql(_CHANNEL), ""
        else:
            self._channel = "'" + self.channel.replace("'", "''") + "'"
            self._prefix = quoted(schema).replace("%", "%%") + "."
        self.sql = lru_cache(maxsize=_TEMPLATES)(self._sql)

    @property
    def channel(self) -> str:
        """On which waiting programs learn of messages (``LISTEN``)."""
        schema = self.schema or _PUBLIC
        if schema == _PUBLIC:
            return _CHANNEL
        if len(schema.encode()) > _LONGEST:
            schema = hashlib.md5(schema.encode(), usedforsecurity=False).hexdigest()
        return f"{_CHANNEL}_{schema}"

    def _sql(self, template: str) -> str:
        sql = (
            template.replace("{channel}", self._channel)
            .replace("%", "%%")
            .replace("{ids}", "= ANY(?::bigint[])")
            .replace("{texts}", "= ANY(?::text[])")
            .replace("{lock}", "FOR UPDATE SKIP LOCKED")
            .replace("{lock_e}", "FOR UPDATE OF e SKIP LOCKED")
            .replace("{like}", "LIKE ? ESCAPE ''")
            .replace("?", "%s")
        )
        return _NAMES.sub(lambda found: self._prefix + found[0], sql)


def channel_sql(base: str) -> str:
    """SQL for the name of a channel where the hub's schema is the first one of ``search_path``."""
    return (
        f"'{base}' || CASE WHEN current_schema() = '{_PUBLIC}' THEN ''"
        f" WHEN octet_length(current_schema()) > {_LONGEST} THEN '_' || md5(current_schema())"
        " ELSE '_' || current_schema() END"
    )


def quoted(name: str) -> str:
    """A name as SQL takes it, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def _scalar(driver: Any, sql: str, params: tuple[str, ...] = ()) -> Any:
    (value,) = driver.execute(sql, params).fetchone()
    return value


def _column(driver: Any, sql: str, params: tuple[str, ...] = ()) -> list[Any]:
    return [value for (value,) in driver.execute(sql, params).fetchall()]


def locate(driver: Any, wanted: str | None, *, on_path: bool) -> str | None:
    """The schema of a hub, or the one to make it in; None: the path begins with no schema.

    A hub of a schema of the path is found before one of schema ``mgw``.

    Args:
        driver: the driver's connection.
        wanted: the schema that the URL names.
        on_path: the URL says what the path is.
    """
    if wanted is not None:
        return wanted
    path: list[str] = _column(driver, _PATH)
    name: str
    for name in (*path, *(() if on_path else (DEFAULT_NAMESPACE,))):
        if _scalar(driver, _HAS_HUB, (name,)):
            return name
    if not on_path and _scalar(driver, _TABLES_OF_OTHERS):
        return DEFAULT_NAMESPACE
    return path[0] if path else None


def hubs_of(driver: Any) -> list[str]:
    """The schemas that have a hub."""
    return _column(driver, _HUBS)


@contextmanager
def on_path(conn: sa.Connection, namespace: Namespace | None) -> Iterator[None]:
    """Have an application's connection find the hub's objects by their plain names for a while, and none of its own.

    For administration only: it costs three statements.
    """
    if namespace is None:
        yield
        return
    cursor = conn.exec_driver_sql(_SHOW)
    driver: Any = conn.connection.driver_connection
    before = cursor.scalar_one()
    local = driver.info.transaction_status == _IN_TRANSACTION  # else every statement is committed at once
    driver.execute(_SET, (quoted(namespace.schema or _PUBLIC), local))
    try:
        yield
    finally:
        if driver.info.transaction_status == (_IN_TRANSACTION if local else _IDLE):  # a rollback has restored it
            driver.execute(_SET, (before, local))


def require_schema(driver: Any, schema: str, where: str) -> None:
    """Make the schema if it is not there.

    Raises:
        HubError: the login may not make it.
    """
    if _scalar(driver, _EXISTS, (schema,)):
        return
    try:
        driver.execute(f"CREATE SCHEMA {quoted(schema)}".replace("%", "%%"))
    except Exception as error:
        if getattr(error, "sqlstate", None) != "42501":
            raise
        raise HubError(
            f"schema {schema} cannot be created for hub {where}",
            cause=str(error).strip().splitlines()[0],
            cure=f"have an administrator do: CREATE SCHEMA {quoted(schema)} AUTHORIZATION the hub's user",
        ) from error


def tables_in(driver: Any, schema: str) -> frozenset[str]:
    """The tables of a schema, whatever their privileges."""
    return frozenset(_column(driver, _TABLES, (schema,)))
