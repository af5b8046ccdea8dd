"""What errors advise can be done: every command that the code names exists, and takes what is written behind it."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

from mgw.gateway.cli.main import app
from mgw.gateway.services.admin import CLEAN_LOG_QUEUES, RESET_SUB_MISSING_LOG_REC, RESET_SUB_MISSING_MESSAGE

ROOT = Path(__file__).resolve().parents[2]
FILES = [path for name in ("gateway", "links", "transforms", "pipelines") for path in (ROOT / name).rglob("*.py")]
ACTIONS = {CLEAN_LOG_QUEUES, RESET_SUB_MISSING_LOG_REC, RESET_SUB_MISSING_MESSAGE}


def _texts(tree: ast.AST) -> Iterator[str]:
    """The texts of a module, but for its docstrings; braces stand for what is filled in."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    passed_over: set[int] = set()
    waiting: list[tuple[ast.AST, bool]] = [(tree, False)]
    while waiting:  # one walk, as every worker of the tests takes it: what is inside comes after what it is in
        node, inside = waiting.pop()
        if isinstance(node, documented) and _has_docstring(node):
            passed_over.add(id(node.body[0].value))  # type: ignore[attr-defined]
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(each.value) if isinstance(each, ast.Constant) else "{}" for each in node.values)
            inside = True
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and not inside
            and id(node) not in passed_over
        ):
            yield node.value
        waiting += ((child, inside) for child in ast.iter_child_nodes(node))


def _has_docstring(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return bool(node.body) and isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant)


#: In the source of every text with "mgw " in it, however it is put together.
_MAY_ADVISE = re.compile(r"mgw[ '\"]")


def _advice() -> list[tuple[str, str]]:
    found = []
    for path in FILES:
        source = path.read_text("utf-8")
        if not _MAY_ADVISE.search(source):
            continue
        for text in _texts(ast.parse(source)):
            found += [
                (str(path.relative_to(ROOT)), each)
                for each in re.findall(r"\bmgw ([a-z][a-z-]+(?: [^\s;,:)`\"']+)*)", text)
            ]
    return found


#: What follows the name of the product where no command is meant.
PROSE = {"commit", "configuration", "has", "needs"}
ADVICE = sorted({(path, text) for path, text in _advice() if text.split()[0] not in PROSE})


def _commands(group: TyperGroup, words: tuple[str, ...] = ()) -> dict[tuple[str, ...], bool]:
    """Every command, and whether it has commands of its own."""
    context = typer.Context(group)
    found: dict[tuple[str, ...], bool] = {}
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        found[*words, name] = isinstance(command, TyperGroup)
        if isinstance(command, TyperGroup):
            found |= _commands(command, (*words, name))
    return found


@functools.cache
def _all_commands() -> dict[tuple[str, ...], bool]:
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    return _commands(group)


def test_there_is_advice() -> None:
    assert len(ADVICE) > 20


@pytest.mark.parametrize(("path", "text"), ADVICE)
def test_command_that_is_advised_exists(path: str, text: str) -> None:
    commands = _all_commands()
    words = text.split()
    assert (words[0],) in commands, f"{path}: mgw {text}"
    end = 1
    while commands[tuple(words[:end])] and len(words) > end:
        end += 1
        if words[end - 1] == "{}":
            break
        assert tuple(words[:end]) in commands, f"{path}: mgw {text}"
    if words[:2] == ["agents", "cleanup"]:
        assert words[2] in ACTIONS, f"{path}: mgw {text}"
