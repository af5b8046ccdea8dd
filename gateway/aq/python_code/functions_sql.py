"""Statements on the modules and rule functions of a hub (tables ``aq_module`` and ``aq_rule_function``)."""

from __future__ import annotations

from collections.abc import Collection

from mgw.gateway.aq.model import RuleFunction
from mgw.gateway.aq.store.statements import Db

__all__ = [
    "delete_function",
    "delete_module",
    "functions_called",
    "insert_module",
    "list_functions",
    "list_modules",
    "put_function",
    "recompile",
]


def list_modules(db: Db) -> list[str]:
    """The allowed modules, by name."""
    return db.column("SELECT name FROM aq_module ORDER BY name")


def insert_module(db: Db, name: str, now: float) -> None:
    """Allow a module that is not allowed yet."""
    db.run("INSERT INTO aq_module (name, created) VALUES (?, ?)", (name, now))


def delete_module(db: Db, name: str) -> int:
    """Allow a module no longer; how many that were."""
    return db.run("DELETE FROM aq_module WHERE name = ?", (name,))


def list_functions(db: Db) -> list[RuleFunction]:
    """The rule functions, by name."""
    rows = db.rows("SELECT name, function FROM aq_rule_function ORDER BY name_key")
    return [RuleFunction(str(name), str(function)) for name, function in rows]


def functions_called(db: Db, keys: Collection[str]) -> list[tuple[str, str]]:
    """Name in upper case and function of those of ``keys`` that there are, by name."""
    marks = ", ".join("?" * len(keys))
    rows = db.rows(
        f"SELECT name_key, function FROM aq_rule_function WHERE name_key IN ({marks}) ORDER BY name_key", tuple(keys)
    )
    return [(str(key), str(function)) for key, function in rows]


def put_function(db: Db, item: RuleFunction, now: float) -> None:
    """Store a rule function; one of that name is replaced."""
    db.run(
        """INSERT INTO aq_rule_function (name_key, name, function, created) VALUES (?, ?, ?, ?)
           ON CONFLICT (name_key) DO UPDATE SET function = excluded.function""",
        (item.name.upper(), item.name, item.function, now),
    )


def delete_function(db: Db, name: str) -> int:
    """Forget a rule function; how many that were."""
    return db.run("DELETE FROM aq_rule_function WHERE name_key = ?", (name.upper(),))


def recompile(db: Db) -> None:
    """Have every process compile the transformations again: what they may call is another."""
    db.run("UPDATE aq_transformation SET version = version + 1")
