"""What the steps of an upgrade are written with: changes of tables that mean the same on both databases.

SQLite can add a column to a table and little else: for the rest the table is made again under another name, filled, and
put in the place of the old one, as its documentation describes (Making Other Kinds Of Table Schema Changes).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from mgw.gateway.aq.store.statements import Db, Row
from mgw.transforms.errors import HubError

__all__ = ["Changes"]

_SHOWN = 80  # characters of a value in an error


class Changes:
    """The hub inside the transaction of its upgrade.

    Attributes:
        conn: for what SQLAlchemy does best, such as making a table.
        db: for statements that both databases understand.
        where: the hub as shown to people.
    """

    def __init__(self, conn: sa.Connection, where: str) -> None:
        self.conn = conn
        self.db = Db(conn)
        self.where = where

    @property
    def postgresql(self) -> bool:
        """Whether the hub is on PostgreSQL; else it is on SQLite."""
        return self.db.postgresql

    def add_column(self, table: str, definition: str) -> None:
        """Add a column at the end. ``definition`` is SQL that both databases understand: ``upgraded FLOAT``."""
        self.db.run(f"ALTER TABLE {table} ADD COLUMN {definition}")

    def add_checks(self, table: str, checks: Mapping[str, str]) -> None:
        """Let the database hold rules about single columns: CHECK constraints named ``<table>_<column>``.

        Args:
            checks: condition by column.

        Raises:
            HubError: a row breaks one of them.
        """
        self.require(table, checks)
        named = {f"{table}_{column}": condition for column, condition in checks.items()}
        if self.postgresql:
            added = ", ".join(f"ADD CONSTRAINT {name} CHECK ({condition})" for name, condition in named.items())
            self.db.run(f"ALTER TABLE {table} {added}")
            return
        clauses = "".join(f", CONSTRAINT {name} CHECK ({condition})" for name, condition in named.items())
        self._remake(table, lambda sql: _before_the_end(sql, clauses))

    def replace_check(self, table: str, name: str, condition: str) -> None:
        """Give a CHECK constraint another condition, which all rows have to fulfil.

        Raises:
            HubError: one does not, or there is no such constraint.
        """
        self.replace_checks(table, {name: condition})

    def replace_checks(self, table: str, conditions: Mapping[str, str]) -> None:
        """The same for several constraints of a table, by name: SQLite makes the table again once."""
        self.require(table, conditions)
        if self.postgresql:
            changed = ", ".join(
                f"DROP CONSTRAINT {name}, ADD CONSTRAINT {name} CHECK ({condition})"
                for name, condition in conditions.items()
            )
            self.db.run(f"ALTER TABLE {table} {changed}")
            return

        def replaced(sql: str) -> str:
            for name, condition in conditions.items():
                sql = _with_check(sql, name, condition)
            return sql

        self._remake(table, replaced)

    def allow_null(self, table: str, column: str) -> None:
        """Let a column be empty.

        Raises:
            HubError: there is no such column that may not be.
        """
        if self.postgresql:
            self.db.run(f"ALTER TABLE {table} ALTER COLUMN {column} DROP NOT NULL")
            return
        self._remake(table, lambda sql: _without_not_null(sql, column))

    def require(self, table: str, checks: Mapping[str, str]) -> None:
        """Refuse to continue where a row breaks a rule.

        Args:
            checks: condition by column, or by the name of a rule about several.

        Raises:
            HubError: a row does; it is named.
        """
        broken = " OR ".join(f"NOT ({condition})" for condition in checks.values())
        if not self.db.rows(f"SELECT 1 FROM {table} WHERE {broken} LIMIT 1"):
            return
        columns = [column["name"] for column in sa.inspect(self.conn).get_columns(table)]
        for column, condition in checks.items():
            shown = self._key(table) + [column] * (column in columns)
            names = ", ".join(shown) or "*"
            for row in self.db.rows(f"SELECT {names} FROM {table} WHERE NOT ({condition}) LIMIT 1"):
                raise HubError(
                    f"hub {self.where} cannot be upgraded: a row of {table} breaks a rule",
                    cause=f"the row with {_described(shown, row)} does not fulfil {condition}",
                    cure="correct or remove that row in the old hub, then upgrade; nothing was changed",
                )

    def _key(self, table: str) -> list[str]:
        found = sa.inspect(self.conn).get_pk_constraint(table)
        return list(found["constrained_columns"] if found else ())

    # -- SQLite ----------------------------------------------------------------------------------------------------

    def _remake(self, table: str, changed: Callable[[str], str]) -> None:
        """Make a table again with another definition and the same columns; rows, indexes and triggers stay."""
        made = f"mgw_new_{table}"
        definition = changed(self._definition(table))
        beside = self.db.rows(
            "SELECT sql FROM sqlite_master WHERE tbl_name = ? AND type IN ('index', 'trigger') AND sql IS NOT NULL",
            (table,),
        )
        counted = self._counted(table)
        columns = ", ".join(f'"{column["name"]}"' for column in sa.inspect(self.conn).get_columns(table))
        self.db.run(re.sub(rf'^CREATE TABLE "?{table}"?', f"CREATE TABLE {made}", definition, count=1))
        self.db.run(f"INSERT INTO {made} ({columns}) SELECT {columns} FROM {table}")
        self.db.run(f"DROP TABLE {table}")
        self.db.run(f"ALTER TABLE {made} RENAME TO {table}")
        if self._counted(table) is not None:
            self.db.run("DELETE FROM sqlite_sequence WHERE name = ?", (table,))
        if counted is not None:  # numbers that were given are never given again
            self.db.run("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (table, counted))
        for (sql,) in beside:
            self.db.run(sql)

    def _definition(self, table: str) -> str:
        found = self.db.scalar("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?", (table,))
        if found is None:
            raise HubError(
                f"hub {self.where} cannot be upgraded",
                cause=f"it has no table {table}",
                cure="restore it from a backup",
            )
        return str(found)

    def _counted(self, table: str) -> int | None:
        """The highest number that AUTOINCREMENT gave in a table; None: it gives none, or gave none so far."""
        if not self.db.rows("SELECT 1 FROM sqlite_master WHERE name = 'sqlite_sequence'"):
            return None
        number: int | None = self.db.scalar("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,))
        return number


def _before_the_end(sql: str, clauses: str) -> str:
    """A definition with more constraints: behind the others, before WITHOUT ROWID."""
    end = sql.rindex(")")
    return sql[:end].rstrip() + clauses + sql[end:]


def _without_not_null(sql: str, column: str) -> str:
    """A definition in which a column may be empty."""
    changed, found = re.subn(rf'(^\s*"?{column}"? [A-Z]+) NOT NULL', r"\1", sql, count=1, flags=re.MULTILINE)
    if not found:
        raise HubError(f"column {column} is not there", cause="the definition of its table does not have it")
    return changed


def _with_check(sql: str, name: str, condition: str) -> str:
    """A definition in which a CHECK constraint has another condition."""
    found = re.search(rf'CONSTRAINT "?{name}"? CHECK \(', sql)
    if found is None:
        raise HubError(f"rule {name} is not there", cause="the definition of its table does not have it")
    depth, end = 1, found.end()
    while depth:  # a parenthesis inside a text of such a condition has never been there
        depth += {"(": 1, ")": -1}.get(sql[end], 0)
        end += 1
    return f"{sql[: found.end()]}{condition}{sql[end - 1 :]}"


def _described(names: Sequence[str], row: Row) -> str:
    return ", ".join(f"{name} = {_shown(value)}" for name, value in zip(names, row, strict=False)) or "these values"


def _shown(value: Any) -> str:
    if isinstance(value, (bytes, memoryview)):
        value = bytes(value).hex()
    text = str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
