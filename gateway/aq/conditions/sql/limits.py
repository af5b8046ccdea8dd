"""What SQLite takes: conditions that are too deep or too long for it are left to Python.

Its limits (the stack of its parser, the depth of an expression, tables of a join, arguments of a function) are those
that it was built with. So it is asked, with the condition in a statement over empty tables, deeper than the hub's
statements have it.
"""

from __future__ import annotations

import atexit
import sqlite3
from functools import cache
from threading import Lock
from typing import Any

from mgw.gateway.aq.store.tables import entry, message
from mgw.gateway.aq.views.messages import COLUMNS

__all__ = ["taken_by_sqlite"]

_DEPTH = 20  # of parentheses around the condition in the trial
_SPARE = 100  # levels of an expression that the hub's statements, and the columns of a view, may need themselves
_mutex = Lock()


def taken_by_sqlite(condition: str, params: tuple[Any, ...]) -> bool:
    """Whether SQLite can read a condition over ``m``, ``e`` and ``qtview`` as a part of a statement."""
    trial = f"SELECT 1 FROM aq_message AS m, aq_entry AS e, qtview WHERE {'(' * _DEPTH}{condition}{')' * _DEPTH}"
    with _mutex:
        try:
            _tables().execute(trial, params).close()
        except (sqlite3.OperationalError, sqlite3.DataError):
            return False
    return True


@cache
def _tables() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    atexit.register(connection.close)
    depth = connection.getlimit(sqlite3.SQLITE_LIMIT_EXPR_DEPTH)
    if depth > 2 * _SPARE:  # 0: there is none
        connection.setlimit(sqlite3.SQLITE_LIMIT_EXPR_DEPTH, depth - _SPARE)
    for name, columns in (
        ("aq_message", [column.name for column in message.columns]),
        ("aq_entry", [column.name for column in entry.columns]),
        ("qtview", COLUMNS),
    ):
        names = ", ".join(f'"{column}"' for column in columns)
        connection.execute(f"CREATE TABLE {name} ({names})")
    return connection
