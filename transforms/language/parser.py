"""The text of an expression parsed and checked: what all builders of :mod:`transforms.language.compiler` stand on."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from mgw.transforms.errors import ExpressionInvalid
from mgw.transforms.language.expression import MAX_EXPRESSION, RULES, Functions, Language, Row, no_functions
from mgw.transforms.language.values import NoValue, Value, show

__all__ = ["MAX_DEPTH", "MAX_NESTING", "NUMBERS", "Build", "Code", "Compiler", "Run", "constant_code"]

MAX_NESTING = 24  # parentheses, calls and CASEs within each other; the parser recurses some twenty frames for each
MAX_DEPTH = 100  # levels of the tree

Run = Callable[[Row], Value]

_CALLED = re.compile(r"[A-Za-z_][\w.]*\s*(?:\(\s*)+(?:select\s+)?(?=\Z)", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z_]\w*")
_CLOSING = re.compile(r"\s*\)")


class Code(NamedTuple):
    """A compiled part of an expression."""

    run: Run
    kind: str = "any"  # boolean, number, text or any: what is known before a message is seen
    constant: tuple[Value, ...] = ()  # its value in a tuple, when it has the same for every message
    total: bool = False  # it has a value, be it NULL, for every message: it cannot fail

    @property
    def plain(self) -> bool:
        """Whether every message gives it a value of a kind that is known beforehand."""
        return self.total and (self.kind != "any" or self.constant == (None,))


Build = Callable[["Compiler", Any], Code]
NUMBERS = (int, float)


def constant_code(value: Value, kind: str) -> Code:
    """The code of a literal."""
    return Code(lambda _row: value, kind, (value,), True)


class Compiler:
    """Compiles one text; ``builders`` say what each node type becomes, ``functions`` what it may call in addition."""

    def __init__(
        self,
        text: str,
        role: str,
        builders: Mapping[type[Any], Build],
        language: Language = RULES,
        functions: Functions = no_functions,
    ) -> None:
        self.text = text
        self.role = role
        self.builders = builders
        self.language = language
        self.functions = functions
        self.depth = 0
        self.tree: Any = None
        self.codes: dict[int, Code] = {}  # by id() of the nodes of the tree

    def compile(self, condition: bool) -> Run:
        """The closure of the whole text. Raises ExpressionInvalid."""
        if len(self.text) > MAX_EXPRESSION:
            raise self.error(0, "", f"it has {len(self.text)} characters, {MAX_EXPRESSION} are allowed", "shorten it")
        if not self.text.strip():
            raise self.error(0, "", "it is empty", "write a condition such as: tab.user_data.amount > 100")
        self.check_nesting()
        if "\x00" in self.text:
            raise self.error(self.text.index("\x00"), "", "a NUL character cannot be stored", "leave it out")
        try:
            self.text.encode()
        except UnicodeEncodeError as error:
            raise self.error(error.start, "", "half of a surrogate pair is not a character", "write it whole") from None
        try:
            self.tree = sqlglot.parse_one(self.text, dialect="oracle", into=exp.Condition)
            code = self.node(self.tree)
        except ParseError as error:
            raise self.parse_error(error) from None
        except TokenError:
            at = max(self.text.rfind("'"), self.text.rfind('"'), self.text.rfind("/*"), 0)
            raise self.error(
                at,
                self.text[at : at + 20],
                "a quoted text, name or comment is not closed",
                "close it, or write '' inside a text",
            ) from None
        except RecursionError:
            raise self.too_deep(0) from None
        if condition and code.kind in ("number", "text"):
            raise self.error(0, self.text[:40], f"it is a {code.kind}, not a condition", "compare it with something")
        return code.run

    # -- errors ------------------------------------------------------------------------------------------------------

    def error(self, at: int, offending: str, cause: str, cure: str) -> ExpressionInvalid:
        """An error at offset ``at`` of the text."""
        line = self.text.count("\n", 0, at) + 1
        column = at - self.text.rfind("\n", 0, at)
        where = f" at {offending!r}" if offending else ""
        return ExpressionInvalid(
            f"{self.role} {show(self.text)} is invalid: line {line}, column {column}{where}",
            cause=cause,
            cure=cure,
            line=line,
            column=column,
            offending=offending,
        )

    def refuse(self, node: exp.Expr, cause: str, cure: str = "") -> ExpressionInvalid:
        """An error at the place of a node."""
        start, end = self.place(node)
        return self.error(
            start,
            self.text[start : min(end, start + 60)],
            cause,
            cure or "use what the expression language offers, see its documentation",
        )

    def place(self, node: exp.Expr) -> tuple[int, int]:
        """Where a node begins in the text, and where it ends."""
        spans = [part.meta for part in node.walk() if "start" in part.meta]
        if not spans:  # a word, or a sign, that stands for itself
            found = re.search(re.escape(node.sql(dialect="oracle")), self.text, re.IGNORECASE)
            return found.span() if found else (0, len(self.text))
        start = min(span["start"] for span in spans)
        end = max(span["end"] for span in spans) + 1
        if isinstance(node, exp.Func):  # the parser keeps the places of its arguments only
            called = _CALLED.search(self.text, 0, start)
            start = called.start() if called else start
        while self.text.count("(", start, end) > self.text.count(")", start, end):
            closing = _CLOSING.match(self.text, end)
            if closing is None:
                break
            end = closing.end()
        return start, end

    def written(self, node: exp.Expr) -> str:
        """What a node is called in the text."""
        start, end = self.place(node)
        word = _WORD.match(self.text, start, end)
        if isinstance(node, (exp.Func, exp.Placeholder)) or not list(node.iter_expressions()):
            return word.group() if word else self.text[start:end]
        return type(node).__name__

    def parse_error(self, error: ParseError) -> ExpressionInvalid:
        """The parser's error in our words."""
        cure = "correct the expression at this position"
        if not error.errors:
            return self.error(0, "", "it contains no expression", cure)
        found = error.errors[0]
        highlight = str(found.get("highlight") or "")
        lines = self.text.splitlines(keepends=True) or [""]
        line = min(max(int(found.get("line") or 1), 1), len(lines))
        at = sum(map(len, lines[: line - 1])) + max(int(found.get("col") or 1) - len(highlight), 0)
        at = min(at, len(self.text))
        description = str(found.get("description"))
        if "number of provided arguments" in description:
            cause = "the function before it has too many arguments"
        elif "Required" in description and highlight == ")":
            cause = "something is missing before it"
        elif "Required" in description or ("Expect" in description and not self.text[at + len(highlight) :].strip()):
            cause = "something is missing after it"
        else:
            cause = "it is not expected here"
        return self.error(at, highlight, cause, cure)

    def too_deep(self, at: int) -> ExpressionInvalid:
        """The error of an expression nested too deeply."""
        return self.error(at, "", f"it is nested more than {MAX_NESTING} levels deep", "split it into simpler ones")

    def check_nesting(self) -> None:
        """Refuse what would exhaust the recursive parser, before it runs."""
        level = 0
        for found in re.finditer(r"'(?:[^']|'')*'|\"[^\"]*\"|\(|\)|\bcase\b|\bend\b|\bnot\b", self.text, re.IGNORECASE):
            token = found.group().lower()
            if token in ("(", "case"):
                level += 1
            elif token in (")", "end"):
                level -= 1
            if level > MAX_NESTING:
                raise self.too_deep(found.start())

    # -- the tree ----------------------------------------------------------------------------------------------------

    def node(self, node: Any) -> Code:
        """The code of any accepted node."""
        build = self.builders.get(type(node))
        if build is None:
            raise self.refuse(node, f"{self.written(node)} is not part of the expression language")
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.error(0, "", f"it has more than {MAX_DEPTH} levels", "split it into simpler conditions")
        try:
            code = self.codes[id(node)] = build(self, node)
            return code
        finally:
            self.depth -= 1

    def only(self, node: exp.Expr, *known: str) -> None:
        """Refuse arguments that were not asked for (a format, a subquery, a join mark...)."""
        for name, value in node.args.items():
            if name not in known and name not in ("safe", "is_nvl", "coalesce") and value not in (None, False, []):
                raise self.refuse(node, f"{self.written(node).upper()} accepts no {name.strip('_')} here")

    def boolean(self, node: Any) -> Run:
        """The closure of a node that has to be true, false or unknown."""
        return self.condition(node).run

    def condition(self, node: Any) -> Code:
        """The code of a node that has to be true, false or unknown."""
        code = self.node(node)
        if code.kind in ("number", "text"):
            raise self.refuse(node, f"a condition is needed here, not a {code.kind}")
        if code.kind == "boolean":
            return code
        run = code.run

        def checked(row: Row) -> Value:
            value = run(row)
            if value is None or value is True or value is False:
                return value
            raise NoValue(f"{show(value)} is neither true nor false")

        return Code(checked, "boolean", code.constant, code.constant == (None,))

    def chain(self, node: Any, kind: type[exp.Expr]) -> list[Any]:
        """The operands of a chain of one operator, left to right, without recursion."""
        operands = []
        while type(node) is kind:
            operands.append(node.args["expression"])
            node = node.this
        operands.append(node)
        return operands[::-1]
