"""Every documented error of the queues has a class of its own, with its number, its cause and what to do."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

from gateway.aq import errors
from transforms.errors import AqError

AQ = Path(__file__).resolve().parents[2] / "gateway" / "aq"
CLASSES = [getattr(errors, name) for name in errors.__all__ if getattr(errors, name).ora is not None]


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_an_error_says_what_it_means_and_what_to_do(kind: type[AqError]) -> None:
    text = inspect.getdoc(kind) or ""
    assert "AQ guide 12.2 §" in text
    assert "Action: " in text


def test_a_number_has_one_class() -> None:
    numbers = [kind.ora for kind in CLASSES]
    assert len(numbers) == len(set(numbers))


def test_an_error_carries_the_number_of_its_class() -> None:
    error = errors.QueueTableExists("queue table QT exists", cause="it was made before")
    assert error.number == 24001
    assert str(error) == "ORA-24001: queue table QT exists; cause: it was made before"


def test_nothing_in_the_hub_is_refused_with_a_bare_number() -> None:
    bare = [
        f"{path.relative_to(AQ)}:{call.lineno}"
        for path in AQ.rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and "number" in {keyword.arg for keyword in call.keywords if _is_number(keyword)}
    ]
    assert not bare


def _is_number(keyword: ast.keyword) -> bool:
    value = keyword.value
    return isinstance(value, ast.Constant) and type(value.value) is int and value.value > 1
