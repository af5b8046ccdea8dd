"""CHECK constraints on states and flags: what no statement can store by mistake, whichever program runs it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import sqlalchemy as sa

__all__ = ["FLAG", "add_checks", "one_of"]

#: A column that says yes or no in a number.
FLAG = "IN (0, 1)"


def one_of(values: Iterable[str]) -> str:
    """The end of a condition: the column has one of these texts."""
    listed = ", ".join(f"'{value}'" for value in values)
    return f"IN ({listed})"


def add_checks(metadata: sa.MetaData, checks: Mapping[str, Mapping[str, str]], dialect: str | None = None) -> None:
    """Add constraints named ``<table>_<column>`` to tables that are not made yet.

    Args:
        checks: the end of the condition by column, by table: ``{"aq_queue": {"enqueue_enabled": "IN (0, 1, 2)"}}``.
        dialect: the only database that needs them; None: both. PostgreSQL has a type for flags, SQLite has not.
    """
    for table, conditions in checks.items():
        for column, condition in conditions.items():
            constraint = sa.CheckConstraint(f"{column} {condition}", name=f"{table}_{column}")
            if dialect is not None:
                constraint.ddl_if(dialect=dialect)
            metadata.tables[table].append_constraint(constraint)
