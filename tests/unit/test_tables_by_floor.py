"""No floor knows the tables of a floor above: in SQL, too, names point down only (docs/architecture.md)."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("transforms", "links", "gateway", "pipelines")
#: Whose tables begin so, where a statement names one that no module makes by its name.
PREFIXES = {"aq": 2, "gw": 3, "pl": 5}
IN_STATEMENT = re.compile(r"\b(?:FROM|JOIN|INTO|UPDATE|TABLE) ((?:aq|gw|pl)_\w+)")
NAMED = re.compile(r"\b(?:aq|gw|pl)_[a-z_]+\b|\bMGW_[A-Z_]+\b")
MADE = re.compile(r"CREATE (?:OR REPLACE )?(?:TABLE|VIEW|FUNCTION|(?:CONSTRAINT )?TRIGGER) (\w+)", re.IGNORECASE)


def floor(place: str) -> int:
    """The floor of a module by its path in the repository."""
    if place.startswith("gateway/aq/"):
        return 2
    return {"transforms": 0, "links": 1, "gateway": 3, "pipelines": 5}[place.partition("/")[0]]


@functools.cache
def _texts(path: Path) -> list[tuple[int, str]]:
    """Line and text of what may be SQL in a file: the texts of a module but its docstrings, all of a file of SQL."""
    if path.suffix != ".py":
        code = "\n".join(line.partition("--")[0] for line in path.read_text().splitlines())
        return [(1, code)]
    tree = ast.parse(path.read_text(), str(path))
    documentation = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        (node.lineno, node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in documentation
    ]


def _files(root: Path) -> list[Path]:
    return sorted(
        path for folder in FOLDERS for ending in ("py", "sql") for path in (root / folder).rglob(f"*.{ending}")
    )


def made(root: Path) -> dict[str, int]:
    """The floor of every table, view, function and trigger that a module makes by its name."""
    found: dict[str, int] = {}
    for path in _files(root):
        own = floor(path.relative_to(root).as_posix())
        names = [name for _, text in _texts(path) for name in MADE.findall(text)]
        if path.suffix == ".py":
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and ast.unparse(node.func) in {"sa.Table", "Table"}:
                    names += [each.value for each in node.args[:1] if isinstance(each, ast.Constant)]
        found |= {str(name).lower(): own for name in names if NAMED.fullmatch(str(name))}
    return found


def named_above(root: Path) -> Iterator[str]:
    """Every table of a floor above that a module names, with its place."""
    makers = made(root)
    for path in _files(root):
        place = path.relative_to(root).as_posix()
        for line, text in _texts(path):
            known = {name: makers[name.lower()] for name in NAMED.findall(text) if name.lower() in makers}
            others = {name: PREFIXES[name.partition("_")[0]] for name in IN_STATEMENT.findall(text)}
            for name, of in (others | known).items():
                if of > floor(place):
                    yield f"{place}:{line}: {name} is of floor {of}"


def test_tables_are_named_by_their_own_floor_and_those_above() -> None:
    found = list(named_above(ROOT))
    assert not found, found


def test_the_finder_knows_who_makes_a_table() -> None:
    makers = made(ROOT)
    wanted = {"aq_message": 2, "aq_place": 2, "gw_job": 3, "gw_plan": 3, "pl_plan": 5, "gw_sink_batch": 5}
    assert {name: makers.get(name) for name in wanted} == wanted
    assert makers["mgw_pipeline_streams"] == 5


@pytest.mark.parametrize(
    ("place", "code", "found"),
    [
        ("gateway/ledger/store.py", '_A = "SELECT 1 FROM pl_plan p"', ["pl_plan"]),
        ("gateway/ledger/store.py", 'def f(c): return sa.inspect(c).has_table("pl_plan")', ["pl_plan"]),
        ("gateway/aq/views/jobs.py", 'A = f"SELECT {x} FROM gw_job"', ["gw_job"]),
        ("gateway/aq/functions/a.sql", "SELECT 1 FROM aq_queue; -- of pl_plan\nSELECT 1 FROM gw_job;", ["gw_job"]),
        ("gateway/state/views.py", 'A = "SELECT * FROM gw_sink_batch"', ["gw_sink_batch"]),  # the pipelines make it
        ("links/kafka/link.py", 'A = "DELETE FROM aq_message"', ["aq_message"]),
        ("gateway/cli/a.py", 'A = "SELECT * FROM MGW_PIPELINE_STREAMS"', ["MGW_PIPELINE_STREAMS"]),
        ("gateway/state/views.py", '"""Tells of pl_plan."""\nA = "FROM gw_job JOIN aq_message"', []),
        ("gateway/state/views.py", 'A = "SELECT * FROM pl_unknown"', ["pl_unknown"]),
        ("gateway/state/views.py", 'A = "the type aq_unknown, the locale pl_pl"', []),
        ("pipelines/source/a.py", 'A = "FROM pl_plan JOIN gw_job JOIN aq_message"', []),
    ],
)
def test_the_finder_finds_names_from_above(tmp_path: Path, place: str, code: str, found: list[str]) -> None:
    for path, text in (
        (
            "pipelines/tables.py",
            'sa.Table("pl_plan", m)\nsa.Table("gw_sink_batch", m)\nV = "CREATE VIEW MGW_PIPELINE_STREAMS AS"',
        ),
        ("gateway/state/tables.py", 'sa.Table("gw_job", m)'),
        (place, code),
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert [each.split(": ")[1].split()[0] for each in named_above(tmp_path)] == found
