"""The shape of the house: imports point down only, each client has one home, and so has SQL (docs/architecture.md)."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("transforms", "links", "gateway", "pipelines")
FACES = ("gateway.__main__", "gateway.cli", "gateway.http", "gateway.jms")
CLIENTS = {"pika": "links/rabbitmq", "kafka": "links/kafka", "paho": "links/mqtt"}
SPARK = {"pyspark", "py4j", "pandas", "pyarrow", "numpy", "adbc_driver_manager"}  # and what comes with it
SPARK |= {"adbc_driver_postgresql", "adbc_driver_sqlite"}
HOMES_OF_SQL = re.compile(
    r"gateway/aq/(tables|statements\w*|transfer|views/\w+)\.py|gateway/catalog(\w*\.py|/\w+\.py)"
    r"|gateway/(journal|ledger|ledger_upkeep|lease|views|status|tables)\.py|pipelines/(\w+/)?(statements\w*|tables\w*)\.py"
)
SQL_TEXT = re.compile(r"\s*(SELECT|INSERT INTO|UPDATE|DELETE FROM|CREATE|DROP|ALTER)\s")
SQL_BUILDERS = {"select", "insert", "update", "delete", "text"}
MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


@pytest.fixture(params=MODULES, ids=[str(path.relative_to(ROOT)) for path in MODULES])
def module(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


@functools.cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def _floor(name: str) -> int | None:
    """Floor of a module by its dotted name; None for modules that are not ours."""
    if any(name == face or name.startswith(f"{face}.") for face in FACES):
        return 4
    if name == "gateway.aq" or name.startswith("gateway.aq."):
        return 2
    return {"transforms": 0, "links": 1, "gateway": 3, "pipelines": 5}.get(name.partition(".")[0])


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything that is imported, also inside functions and under TYPE_CHECKING."""
    package = path.relative_to(ROOT).parent.parts
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join([*package[: len(package) - node.level + 1], *filter(None, [node.module])])
            for alias in node.names:
                inner = ROOT.joinpath(*base.split("."), alias.name)
                is_module = inner.is_dir() or inner.with_suffix(".py").exists()
                yield node.lineno, f"{base}.{alias.name}" if is_module else base


def _docstrings(tree: ast.Module) -> set[ast.expr]:
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return {
        statement.value
        for owner in ast.walk(tree)
        if isinstance(owner, owners)
        for statement in owner.body
        if isinstance(statement, ast.Expr)
    }


def _sql(path: Path) -> Iterator[tuple[int, str]]:
    """Line and beginning of every statement: as text, or put together with SQLAlchemy."""
    tree = _tree(path)
    documentation = _docstrings(tree)
    modules, functions = {"sqlalchemy"}, set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {alias.asname for alias in node.names if alias.name == "sqlalchemy" and alias.asname}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "sqlalchemy":
            functions |= {alias.asname or alias.name for alias in node.names if alias.name in SQL_BUILDERS}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in documentation:
            if SQL_TEXT.match(node.value):
                yield node.lineno, node.value.strip()[:40]
        elif isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Name) and called.id in functions:
                yield node.lineno, f"{called.id}()"
            elif (
                isinstance(called, ast.Attribute)
                and called.attr in SQL_BUILDERS
                and isinstance(called.value, ast.Name)
                and called.value.id in modules
            ):
                yield node.lineno, f"{called.value.id}.{called.attr}()"


def test_imports_point_to_the_same_floor_or_below(module: Path) -> None:
    own = _floor(_name(module))
    assert own is not None
    above = [
        f"line {line}: {name} (floor {floor})"
        for line, name in _imports(module)
        if (floor := _floor(name)) is not None and floor > own
    ]
    assert not above, f"{module.relative_to(ROOT)} is on floor {own} and imports upwards: {above}"


def test_product_code_does_not_import_tests_or_benchmarks(module: Path) -> None:
    wrong = [name for _, name in _imports(module) if name.partition(".")[0] in {"tests", "benchmarks"}]
    assert not wrong


def test_a_messaging_client_is_imported_by_its_link_only(module: Path) -> None:
    place = module.relative_to(ROOT).as_posix()
    wrong = [
        f"line {line}: {name}"
        for line, name in _imports(module)
        if (home := CLIENTS.get(name.partition(".")[0])) is not None and not place.startswith(home)
    ]
    assert not wrong, f"{place}: {wrong}"


def test_only_pipelines_import_spark(module: Path) -> None:
    place = module.relative_to(ROOT).as_posix()
    wrong = [f"line {line}: {name}" for line, name in _imports(module) if name.partition(".")[0] in SPARK]
    assert not wrong or place.startswith("pipelines/"), f"{place}: {wrong}"


def test_sql_is_in_the_statement_modules_only(module: Path) -> None:
    place = module.relative_to(ROOT).as_posix()
    if HOMES_OF_SQL.fullmatch(place):
        return
    found = [f"line {line}: {text}" for line, text in _sql(module)]
    assert not found, f"{place} is no home of SQL: {found}"


def test_the_finder_of_sql_finds_it_where_it_lives() -> None:
    for place in ("gateway/aq/statements_messages.py", "gateway/journal.py", "gateway/views.py"):
        assert list(_sql(ROOT / place)), place


def test_the_finder_of_imports_sees_functions_and_submodules() -> None:
    names = {name for _, name in _imports(ROOT / "gateway/cli/main.py")}
    assert {"typer", "gateway.cli.common", "gateway.cli.watch"} <= names
