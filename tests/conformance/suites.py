"""Suites that every database of a hub must pass, found by the names of their files: none is listed, none forgotten.

``hub_suite*.py`` holds classes ``...Suite``; the module of a database takes each as a class ``Test...``.
``admin_suite*.py`` holds functions and fixtures. What only one database can do stands in the module of that database,
or says so: a suite with the attribute ``databases`` runs on those alone.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["DATABASES", "classes", "functions", "names"]

DATABASES = ("sqlite", "postgresql")
_HERE = Path(__file__).parent
_PACKAGE = __name__.rpartition(".")[0]


def names(prefix: str) -> list[str]:
    """Modules of this folder whose names begin so."""
    return [f"{_PACKAGE}.{path.stem}" for path in sorted(_HERE.glob(f"{prefix}*.py"))]


def classes(database: str, into: str, modules: Iterable[ModuleType] | None = None) -> Mapping[str, type]:
    """Test classes for one database, by name.

    Args:
        database: one of :data:`DATABASES`.
        into: the name of the module that will hold them.
        modules: that hold suites; default: all of the hub.

    Raises:
        TypeError: a suite would not be found by its name, or two would have the same.
    """
    found: dict[str, type] = {}
    for module in modules if modules is not None else map(importlib.import_module, names("hub_suite")):
        for suite in vars(module).values():
            if not isinstance(suite, type) or suite.__module__ != module.__name__ or not _tests(suite):
                continue
            if not suite.__name__.endswith("Suite"):
                raise TypeError(f"{module.__name__}.{suite.__name__} has tests; its name must end with Suite")
            name = f"Test{suite.__name__.removesuffix('Suite')}"
            if name in found:
                raise TypeError(f"{module.__name__}.{suite.__name__}: another suite of the hub has this name")
            if database in getattr(suite, "databases", DATABASES):
                found[name] = type(name, (suite,), {"__module__": into, "__doc__": suite.__doc__})
    return found


def functions() -> Mapping[str, Any]:
    """Everything public of the suites of the administration: tests, and the fixtures that they need."""
    found: dict[str, Any] = {}
    for module in map(importlib.import_module, names("admin_suite")):
        for name, value in vars(module).items():
            if getattr(value, "__module__", None) != module.__name__ or name.startswith("_"):
                continue
            if name in found:
                raise TypeError(f"{module.__name__}.{name}: another suite of the administration has this name")
            found[name] = value
    return found


def _tests(suite: type) -> list[str]:
    return [name for name in vars(suite) if name.startswith("test_")]
