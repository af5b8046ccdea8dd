"""How the two databases say what the views need; expressions that several views share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import sqlalchemy as sa

from mgw.gateway.aq.names import DEFAULT_SCHEMA
from mgw.gateway.aq.store.statements import Db

__all__ = ["POSTGRESQL", "SQLITE", "Dialect", "dialect_of", "name_of", "owner_of", "quoted", "run", "truth"]


@dataclass(frozen=True, slots=True)
class Dialect:
    """One database's words. ``{0}`` is the operand.

    Attributes:
        now: epoch seconds; the same for a whole statement: columns with a volatile function are computed even where
            nobody selects them.
        moment: epoch seconds as a timestamp (PostgreSQL), as ISO text in UTC with milliseconds (SQLite); at most the
            last day of the year 9999.
        date: the same in whole seconds.
        hexadecimal: bytes as hexadecimal text.
        integer: a sum as an integer again.
        owner: whether a view answers the hub's owner, who may do everything.
        user: otherwise the user, in upper case; for the owner the default schema.
    """

    postgresql: bool
    now: str
    moment: str
    date: str
    hexadecimal: str
    integer: str
    owner: str
    user: str
    position: str  # of {1} in {0}, from 1; 0 = not there


# A delay or an expiration may end after the year 9999, which drivers cannot read: its last day stands for what follows.
_SHOWN = "CASE WHEN {0} > 253402214400 THEN 253402214400 ELSE {0} END"

SQLITE = Dialect(
    postgresql=False,
    now="((julianday('now') - 2440587.5) * 86400.0)",
    moment=f"strftime('%Y-%m-%dT%H:%M:%fZ', {_SHOWN}, 'unixepoch')",
    date=f"strftime('%Y-%m-%dT%H:%M:%SZ', {_SHOWN}, 'unixepoch')",
    hexadecimal="CASE WHEN {0} IS NOT NULL THEN hex({0}) END",
    integer="{0}",
    owner="1 = 1",  # a file knows no users
    user=f"'{DEFAULT_SCHEMA}'",
    position="instr({0}, {1})",
)
# Whoever has the rights of the tables' owner may ask in another's name; everybody else is who is logged in.
_OWNS = "(SELECT pg_has_role(session_user, h.relowner, 'USAGE') FROM pg_class h WHERE h.oid = 'aq_hub'::regclass)"
_NAMED = "upper(nullif(current_setting('aq.username', true), ''))"
# In the collation of session_user letters beyond ASCII have no upper case.
_LOGIN = 'upper(upper(session_user) COLLATE "default")'

POSTGRESQL = Dialect(
    postgresql=True,
    now="extract(epoch FROM statement_timestamp())::double precision",
    moment=f"to_timestamp({_SHOWN})",
    date=f"date_trunc('second', to_timestamp({_SHOWN}))",
    hexadecimal="upper(encode({0}, 'hex'))",
    integer="({0})::bigint",
    owner=f"({_OWNS} AND coalesce({_NAMED}, 'SYS') IN ('SYS', 'SYSTEM'))",
    user=f"CASE WHEN {_OWNS} THEN coalesce({_NAMED}, '{DEFAULT_SCHEMA}') ELSE {_LOGIN} END",
    position="strpos({0}, {1})",
)


def dialect_of(conn: sa.Connection) -> Dialect:
    """The dialect of a connection."""
    return POSTGRESQL if conn.dialect.name == "postgresql" else SQLITE


def run(conn: sa.Connection, *statements: str) -> None:
    """Run statements without parameters; PostgreSQL gets them in one."""
    db = Db(conn)
    for sql in (";\n".join(statements),) if db.postgresql else statements:
        db.raw.execute(sql).close()


def quoted(name: str) -> str:
    """An identifier in double quotes."""
    return '"' + name.replace('"', '""') + '"'


def owner_of(alias: str) -> str:
    """Schema of a queue or queue table in upper case; ``upper()`` of a database knows ASCII only, or its locale."""
    key = f"{alias}.name_key"
    return f"trim(substr({key}, 1, length({key}) - length({name_of(alias)}) - 1), '\"')"


def name_of(alias: str) -> str:
    """Name of a queue or queue table in upper case."""
    key = f"{alias}.name_key"
    # what follows the first dot; or, where a schema has dots and stands in quotes, the second quote
    return (
        f"CASE WHEN {key} LIKE '\"%' THEN substr(ltrim(substr({key}, 2), replace({key}, '\"', '')), 3)"
        f" ELSE substr(ltrim({key}, replace({key}, '.', '')), 2) END"
    )


def truth(condition: str) -> str:
    """A condition as the text TRUE or FALSE."""
    return f"CASE WHEN {condition} THEN 'TRUE' ELSE 'FALSE' END"


def yes(condition: str) -> str:
    """A condition as the text YES or NO."""
    return f"CASE WHEN {condition} THEN 'YES' ELSE 'NO' END"


#: Columns with their expressions, and what stands behind FROM.
View = tuple[Mapping[str, str], str]
Maker = Callable[[Dialect], View]
