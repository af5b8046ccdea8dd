"""Every documented error of the queues has a class of its own, with its number, its cause and what to do."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

from mgw.gateway.aq import errors
from mgw.transforms.errors import AqError

ROOT = Path(__file__).resolve().parents[2]
AQ = ROOT / "gateway" / "aq"
CLASSES = [getattr(errors, name) for name in errors.__all__ if getattr(errors, name).ora is not None]


#: The numbers of conditions that can arise in the hub.
DOCUMENTED = (
    24001, 24002, 24003, 24006, 24010, 24011, 24012, 24013, 24014, 24015, 24016, 24017, 24018, 24019,
    24029, 24033, 24034, 24035, 24036, 24037, 24039, 24045, 24047, 24049, 24050, 24059, 24060, 24066,
    24067, 24072, 24073, 24074, 24078, 24079, 24088, 24089, 24090, 24093, 24094, 24095, 25200, 25201,
    25203, 25204, 25205, 25206, 25207, 25208, 25209, 25210, 25211, 25212, 25213, 25215, 25216, 25224,
    25225, 25226, 25228, 25229, 25230, 25231, 25232, 25233, 25234, 25235, 25237, 25239, 25240, 25241,
    25242, 25243, 25245, 25248, 25251, 25253, 25254, 25256, 25262, 25263, 25286, 25287, 25298, 25299,
    25313,
)  # fmt: skip

#: Those of conditions that cannot, and why. Whoever builds the feature moves them up.
LATER = {
    1555: "a position never grows too old: a search goes on from the keys of the last message, not from a snapshot",
    24005: "queues do not belong to a database user that could be dropped",
    **dict.fromkeys((24041, 24042, 24044, 24051, 24064, 24065, 24077, 25261), "propagation schedules"),
    **dict.fromkeys((25217, 25218, 25219, 25249, 25252), "nonpersistent queues, which only notify"),
    **dict.fromkeys((25293, 25295, 25307), "buffered messages"),
}


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_an_error_says_what_it_means_and_what_to_do(kind: type[AqError]) -> None:
    text = inspect.getdoc(kind) or ""
    assert "AQ guide 12.2 §" in text
    meaning, _, action = text.partition("Action: ")
    assert meaning.partition("AQ guide")[0].strip(" (.\n")
    assert action.strip().endswith(".")
    assert "``" not in text  # the reference page shows it as it is


def test_every_documented_number_has_a_class_or_belongs_to_a_later_feature() -> None:
    numbers = {kind.ora for kind in CLASSES}
    assert not set(DOCUMENTED) - numbers
    assert not numbers & set(LATER)


def test_every_class_is_raised_somewhere() -> None:
    """A class that nobody raises stands for a condition that is refused with another number, or not at all."""
    uses = _Uses()
    for path in AQ.rglob("*.py"):
        if path.parent != AQ / "errors":
            uses.visit(ast.parse(path.read_text()))
    assert [kind.__name__ for kind in CLASSES if kind.__name__ not in uses.names] == []


def test_every_error_is_on_the_reference_page() -> None:
    page = (ROOT / "docs" / "reference" / "errors.md").read_text()
    lines = {line.split(" | ")[0]: line for line in page.splitlines() if line.startswith("| ORA-")}
    for kind in CLASSES:
        line = lines[f"| ORA-{kind.ora:05d}"]
        meaning, _, action = " ".join((inspect.getdoc(kind) or "").split()).partition("Action: ")
        assert f"`{kind.__name__}`" in line
        assert meaning.strip() in line
        assert action.strip() in line


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


class _Uses(ast.NodeVisitor):
    """Names that code evaluates to raise them: not those of handlers, annotations and type tests."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self.names.add(node.id)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        for each in node.body:
            self.visit(each)

    def visit_arg(self, node: ast.arg) -> None:
        """An annotation."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for each in (node.args, *node.body, *node.decorator_list):
            self.visit(each)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        if not (isinstance(node.func, ast.Name) and node.func.id == "isinstance"):
            self.generic_visit(node)


def _is_number(keyword: ast.keyword) -> bool:
    value = keyword.value
    return isinstance(value, ast.Constant) and type(value.value) is int and value.value > 1
