"""Python functions that rules and expressions of a hub may call: kept in the hub, loaded where something calls them.

A process that never meets a rule with such a function imports nothing and asks nothing. One that does reads the
definition in the transaction in which it needs it, so that every process has the functions as they are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeAlias

from mgw.gateway.aq.python_code import functions_sql
from mgw.gateway.aq.store.statements import Db
from mgw.transforms.language.expression import Functions
from mgw.transforms.language.functions import functions as registered
from mgw.transforms.steps.registry import load_rule_function

__all__ = ["Bindings", "bindings_of", "bound", "stored"]

#: Name in upper case and ``package.module:function`` of some functions, by name: what a compiled rule depends on.
Bindings: TypeAlias = tuple[tuple[str, str], ...]


def bindings_of(db: Db, names: Collection[str]) -> Bindings:
    """The functions of the hub among ``names`` that this process has not registered itself."""
    own = registered()
    wanted = [name for name in names if name not in own]
    return tuple(functions_sql.functions_called(db, wanted)) if wanted else ()


def bound(bindings: Bindings) -> Functions:
    """Finds the functions that are bound; a module is imported when its function is asked for."""
    paths = dict(bindings)

    def find(name: str) -> Callable[..., Any] | None:
        path = paths.get(name)
        return None if path is None else _load(name, path)

    return find


def stored(db: Db) -> Functions:
    """Finds the functions that the hub holds, in the transaction of ``db``."""

    def find(name: str) -> Callable[..., Any] | None:
        found = functions_sql.functions_called(db, (name,))
        return _load(*found[0]) if found else None

    return find


def _load(name: str, path: str) -> Callable[..., Any]:
    # Its module was allowed when it was stored, and cannot be taken from the list before it.
    return load_rule_function(name, path, (path.partition(":")[0],))
