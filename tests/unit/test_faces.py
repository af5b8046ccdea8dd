"""Faces parse and print: what the command line and HTTP may import, so that they cannot decide."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GATEWAY = ROOT / "gateway"
OURS = ("gateway", "links", "transforms", "pipelines")
#: Rooms of ours that a face may use: itself, the services, the door of the hub, and messages and errors.
ALLOWED = (
    "mgw.gateway.cli",
    "mgw.gateway.http",
    "mgw.gateway.services",
    "mgw.gateway.services.admin",
    "mgw.transforms.errors",
    "mgw.transforms.message",
)
DOORS = ("mgw", "mgw.gateway", "mgw.gateway.aq")
#: What are no commands: they write the reference pages.
WRITERS = {"python_reference.py", "reference.py", "rest_reference.py"}
WRITERS |= {"compatibility_names.py", "compatibility_reference.py"}
MODULES = sorted(
    path for face in ("cli", "http") for path in (GATEWAY / face).rglob("*.py") if path.name not in WRITERS
)


def _plain(name: str) -> str:
    return name.removeprefix("mgw.")


def _imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and dotted name of what is imported, in functions and for type checkers, too."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"), str(path))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, _plain(alias.name)) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path} imports relatively"
            base = _plain(node.module or "")
            for alias in node.names:
                inner = ROOT.joinpath(*base.split("."), alias.name)
                yield (
                    node.lineno,
                    f"{base}.{alias.name}" if inner.is_dir() or inner.with_suffix(".py").exists() else base,
                )


def _is_allowed(name: str) -> bool:
    if name.partition(".")[0] not in map(_plain, OURS) or name in map(_plain, DOORS):
        return True
    return any(name == each or name.startswith(f"{each}.") for each in map(_plain, ALLOWED))


def _decisions(path: Path) -> list[str]:
    return [f"line {line}: {name}" for line, name in _imports(path) if not _is_allowed(name)]


@pytest.mark.parametrize("path", MODULES, ids=[path.relative_to(GATEWAY).as_posix() for path in MODULES])
def test_a_command_uses_services_and_nothing_below_them(path: Path) -> None:
    assert not _decisions(path), f"{path.relative_to(ROOT)}: put it into gateway/services and call that"


@pytest.mark.parametrize(
    "line",
    [
        "from mgw.gateway.aq.admin import QueueAdmin",
        "from mgw.gateway.aq.queues import transfer",
        "from mgw.gateway.aq.store.statements import Db",
        "import mgw.links.registry",
        "from mgw.gateway.state import catalog",
        "from mgw.gateway.state import status",
        "from mgw.gateway.config.apply import apply_action",
        "def command():\n    from mgw.links import registry",
    ],
)
def test_the_finder_sees_what_the_command_line_used_to_decide_with(line: str, tmp_path: Path) -> None:
    path = tmp_path / "command.py"
    path.write_text(f"{line}\n")
    assert _decisions(path)


def test_a_command_has_no_statement_of_its_own() -> None:
    """Reading and writing the database is the services', whatever module it would be imported from."""
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "hub":
                allowed = {"session", "name", "clock"}
                assert node.attr in allowed, f"{path.relative_to(ROOT)} line {node.lineno}: hub.{node.attr}"
