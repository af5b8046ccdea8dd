"""Every suite runs on every database: nothing is listed, so nothing can be forgotten, and this fails if it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.conformance import (
    hub_suite_commit,
    suites,
    test_admin_postgresql,
    test_admin_sqlite,
    test_hub_postgresql,
    test_hub_sqlite,
)

HERE = Path(__file__).parent
RUN = {"sqlite": (test_hub_sqlite, test_admin_sqlite), "postgresql": (test_hub_postgresql, test_admin_postgresql)}
#: Suites of links: a broker has a module of its own, which says by hand what it is capable of.
LINKS = "link_suite"


def written() -> Iterator[tuple[str, str]]:
    """Module and name of every test that no test module holds itself: of a class, or a function."""
    for path in sorted(HERE.glob("*.py")):
        if path.stem.startswith("test_") or path.stem == LINKS:
            continue
        for node in ast.parse(path.read_text()).body:
            holder = node.body if isinstance(node, ast.ClassDef) else [node]
            for one in holder:
                if isinstance(one, ast.FunctionDef) and one.name.startswith("test_"):
                    yield path.stem, f"{node.name}.{one.name}" if isinstance(node, ast.ClassDef) else one.name


def collected(modules: tuple[ModuleType, ...]) -> Iterator[tuple[str, str]]:
    """Module and name of every test that pytest finds in these modules and that stands elsewhere."""
    for module in modules:
        for name, value in vars(module).items():
            if isinstance(value, type) and name.startswith("Test"):
                for base in value.__mro__:
                    place = base.__module__.rpartition(".")[2]
                    for test in vars(base):
                        if test.startswith("test_") and place != module.__name__.rpartition(".")[2]:
                            yield place, f"{base.__name__}.{test}"
            elif name.startswith("test_") and callable(value):
                yield value.__module__.rpartition(".")[2], name


@pytest.mark.parametrize("database", suites.DATABASES)
def test_every_test_of_a_suite_runs_on_each_database_that_it_is_for(database: str) -> None:
    elsewhere = {
        (module, test)
        for module, test in written()
        if module == "hub_suite_commit" and test.startswith("PlacingSuite.") and database == "sqlite"
    }
    assert elsewhere or database != "sqlite"
    missing = set(written()) - set(collected(RUN[database])) - elsewhere
    assert not missing, f"not run on {database}"


def test_only_one_suite_is_not_for_every_database() -> None:
    limited = {
        name
        for database in suites.DATABASES
        for name, suite in suites.classes(database, __name__).items()
        if set(vars(suite.__mro__[1]).get("databases", suites.DATABASES)) != set(suites.DATABASES)
    }
    assert limited == {"TestPlacing"}
    assert hub_suite_commit.PlacingSuite.databases == ("postgresql",)


def test_a_suite_that_would_not_be_found_is_refused() -> None:
    module = ModuleType("hub_suite_new")

    class OrderTests:
        def test_something(self) -> None:
            """Nobody would run it."""

    OrderTests.__module__ = module.__name__
    module.__dict__["OrderTests"] = OrderTests
    with pytest.raises(TypeError, match=r"hub_suite_new\.OrderTests has tests; its name must end with Suite"):
        suites.classes("sqlite", __name__, [module])


def test_two_suites_of_one_name_are_refused() -> None:
    modules = [ModuleType(f"hub_suite_{number}") for number in range(2)]
    for module in modules:
        suite = type("OrderSuite", (), {"test_something": print, "__module__": module.__name__})
        module.__dict__["OrderSuite"] = suite
    with pytest.raises(TypeError, match="another suite of the hub has this name"):
        suites.classes("sqlite", __name__, modules)
