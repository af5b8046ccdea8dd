"""Compiles the text of an expression (:mod:`transforms.expression`) into a closure over a row.

sqlglot parses (Oracle dialect); this module accepts only the node types and arguments it knows, so nothing that the
parser learns in a later release becomes part of the language by accident.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from transforms import values
from transforms.errors import ExpressionInvalid
from transforms.expression import FUNCTIONS, MAX_EXPRESSION, PROPERTIES, Row
from transforms.values import NoValue, Value, align, like_matcher, show, to_text

__all__ = ["compile_text"]

MAX_NESTING = 24  # parentheses, calls and CASEs within each other; the parser recurses some twenty frames for each
MAX_DEPTH = 100  # levels of the tree

Run = Callable[[Row], Value]


class _Code(NamedTuple):
    run: Run
    kind: str = "any"  # boolean, number, text or any: what is known before a message is seen
    constant: tuple[Value, ...] = ()  # its value in a tuple, when it has the same for every message


def compile_text(text: str, *, condition: bool) -> Run:
    """Parse, check and compile. Raises ExpressionInvalid."""
    return _Compiler(text, "condition" if condition else "expression").compile(condition)


class _Compiler:
    def __init__(self, text: str, role: str) -> None:
        self.text = text
        self.role = role
        self.depth = 0

    def compile(self, condition: bool) -> Run:
        if len(self.text) > MAX_EXPRESSION:
            raise self.error(0, "", f"it has {len(self.text)} characters, {MAX_EXPRESSION} are allowed", "shorten it")
        if not self.text.strip():
            raise self.error(0, "", "it is empty", "write a condition such as: tab.user_data.amount > 100")
        self.check_nesting()
        try:
            self.text.encode()
        except UnicodeEncodeError as error:
            raise self.error(error.start, "", "half of a surrogate pair is no character", "write it whole") from None
        try:
            tree = sqlglot.parse_one(self.text, dialect="oracle", into=exp.Condition)
            code = self.node(tree)
        except ParseError as error:
            raise self.parse_error(error) from None
        except TokenError:
            at = max(self.text.rfind("'"), self.text.rfind('"'), self.text.rfind("/*"), 0)
            raise self.error(
                at,
                self.text[at : at + 20],
                "a quoted text, name or comment has no end",
                "close it, or write '' inside a text",
            ) from None
        except RecursionError:
            raise self.too_deep(0) from None
        if condition and code.kind in ("number", "text"):
            raise self.error(0, self.text[:40], f"it is a {code.kind}, not a condition", "compare it with something")
        return code.run

    # -- errors ------------------------------------------------------------------------------------------------------

    def error(self, at: int, offending: str, cause: str, cure: str) -> ExpressionInvalid:
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
        spans = [part.meta for part in node.walk() if "start" in part.meta]
        start = min((span["start"] for span in spans), default=0)
        end = max((span["end"] for span in spans), default=len(self.text) - 1)
        return self.error(
            start,
            self.text[start : min(end + 1, start + 60)],
            cause,
            cure or "use what the expression language has, see its documentation",
        )

    def parse_error(self, error: ParseError) -> ExpressionInvalid:
        cure = "correct the expression at this position"
        if not error.errors:
            return self.error(0, "", "it holds no expression", cure)
        found = error.errors[0]
        highlight = str(found.get("highlight") or "")
        lines = self.text.splitlines(keepends=True) or [""]
        line = min(max(int(found.get("line") or 1), 1), len(lines))
        at = sum(map(len, lines[: line - 1])) + max(int(found.get("col") or 1) - len(highlight), 0)
        description = str(found.get("description"))
        cause = "something is missing after it" if "Required" in description else "this was not expected here"
        return self.error(min(at, len(self.text)), highlight, cause, cure)

    def too_deep(self, at: int) -> ExpressionInvalid:
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

    def node(self, node: Any) -> _Code:
        build = _BUILDERS.get(type(node))
        if build is None:
            name = getattr(node, "name", "") if isinstance(node, exp.Anonymous) else type(node).__name__
            raise self.refuse(node, f"{name} is not part of the expression language")
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.error(0, "", f"it has more than {MAX_DEPTH} levels", "split it into simpler conditions")
        try:
            return build(self, node)
        finally:
            self.depth -= 1

    def only(self, node: exp.Expr, *known: str) -> None:
        """Refuse arguments that were not asked for (a format, a subquery, a join mark...)."""
        for name, value in node.args.items():
            if name not in known and name not in ("safe", "is_nvl", "coalesce") and value not in (None, False, []):
                raise self.refuse(node, f"{type(node).__name__} takes no {name.strip('_')} here")

    def boolean(self, node: Any) -> Run:
        code = self.node(node)
        if code.kind in ("number", "text"):
            raise self.refuse(node, f"a condition is needed here, this is a {code.kind}")
        if code.kind == "boolean":
            return code.run
        run = code.run

        def checked(row: Row) -> Value:
            value = run(row)
            if value is None or value is True or value is False:
                return value
            raise NoValue(f"{show(value)} is neither true nor false")

        return checked

    def chain(self, node: Any, kind: type[exp.Expr]) -> list[Any]:
        """The operands of a chain of one operator, left to right, without recursion."""
        operands = []
        while type(node) is kind:
            operands.append(node.args["expression"])
            node = node.this
        operands.append(node)
        return operands[::-1]


def _logic(kind: type[exp.Expr], decisive: bool) -> Callable[[_Compiler, Any], _Code]:
    def build(compiler: _Compiler, node: Any) -> _Code:
        runs = tuple(compiler.boolean(operand) for operand in compiler.chain(node, kind))
        neutral = not decisive

        def run(row: Row) -> bool | None:
            result: bool | None = neutral
            for operand in runs:
                value = operand(row)
                if value is decisive:
                    return not neutral
                if value is None:
                    result = None
            return result

        return _Code(run, "boolean")

    return build


def _not(compiler: _Compiler, node: Any) -> _Code:
    compiler.only(node, "this")
    return _negated(compiler.boolean(node.this))


def _negated(operand: Run) -> _Code:
    def run(row: Row) -> bool | None:
        value = operand(row)
        return None if value is None else not value

    return _Code(run, "boolean")


def _comparison(compare: Callable[[Any, Any], bool]) -> Callable[[_Compiler, Any], _Code]:
    def build(compiler: _Compiler, node: Any) -> _Code:
        compiler.only(node, "this", "expression")
        return _Code(_compared(compare, compiler.node(node.this), compiler.node(node.args["expression"])), "boolean")

    return build


_NUMBERS = (int, float)


def _compared(compare: Callable[[Any, Any], bool], left: _Code, right: _Code) -> Run:
    a_run, b_run = left.run, right.run

    def run(row: Row) -> bool | None:
        a = a_run(row)
        if a is None:
            return None
        b = b_run(row)
        if b is None:
            return None
        if type(a) is not str or type(b) is not str:
            a, b = align(a, b)
        return compare(a, b)

    if not right.constant or (constant := right.constant[0]) is None:
        return run
    plain = (str,) if type(constant) is str else _NUMBERS if type(constant) in _NUMBERS else ()

    def run_constant(row: Row) -> bool | None:
        a = a_run(row)
        if type(a) in plain:
            return compare(a, constant)
        if a is None:
            return None
        return compare(*align(a, constant))

    return run_constant


def _arithmetic(function: Callable[[Value, Value], Value]) -> Callable[[_Compiler, Any], _Code]:
    def build(compiler: _Compiler, node: Any) -> _Code:
        compiler.only(node, "this", "expression")
        first, *rest = (compiler.node(operand).run for operand in compiler.chain(node, type(node)))
        others = tuple(rest)

        def run(row: Row) -> Value:
            value = first(row)
            for other in others:
                if value is None:
                    return None
                operand = other(row)
                if operand is None:
                    return None
                value = function(value, operand)
            return value

        return _Code(run, "number")

    return build


def _negative(compiler: _Compiler, node: Any) -> _Code:
    compiler.only(node, "this")
    code = compiler.node(node.this)
    if code.constant and type(code.constant[0]) in _NUMBERS:
        return _constant(-code.constant[0], "number")
    return _call(values.negate, (code.run,), "number")


def _joined(compiler: _Compiler, node: Any) -> _Code:
    runs = tuple(compiler.node(operand).run for operand in compiler.chain(node, exp.DPipe))

    def run(row: Row) -> str | None:
        parts = [part(row) for part in runs]
        return None if None in parts else values.concat(parts)

    return _Code(run, "text")


def _concat(compiler: _Compiler, node: Any) -> _Code:
    if node.args.get("safe") is None:  # 'a' 'b': the parser joins texts that stand side by side
        raise compiler.refuse(node, "two texts stand side by side", "put a comma or || between them")
    runs = tuple(compiler.node(operand).run for operand in node.expressions)
    return _Code(lambda row: values.concat([part for run in runs if (part := run(row)) is not None]), "text")


def _paren(compiler: _Compiler, node: Any) -> _Code:
    compiler.only(node, "this")
    return compiler.node(node.this)


def _constant(value: Value, kind: str) -> _Code:
    return _Code(lambda _row: value, kind, (value,))


def _literal(compiler: _Compiler, node: Any) -> _Code:
    if node.is_string:
        return _constant(node.this, "text")
    try:
        return _constant(values.to_number(node.this), "number")
    except NoValue:
        raise compiler.refuse(node, "the number is out of range", "numbers go to 1.8e308") from None


def _in(compiler: _Compiler, node: Any) -> _Code:
    compiler.only(node, "this", "expressions")
    if not node.expressions:
        raise compiler.refuse(node, "IN needs a list of values in parentheses")
    subject = compiler.node(node.this)
    choices = [compiler.node(choice) for choice in node.expressions]
    tests = tuple(_compared(operator.eq, subject, choice) for choice in choices)

    def run(row: Row) -> bool | None:
        result: bool | None = False
        for test in tests:
            value = test(row)
            if value:
                return True
            if value is None:
                result = None
        return result

    constants = [choice.constant[0] for choice in choices if choice.constant]
    for kinds in ((str,), _NUMBERS):
        if len(constants) == len(choices) and all(type(constant) in kinds for constant in constants):
            return _Code(_in_set(subject.run, frozenset(constants), kinds, run), "boolean")
    return _Code(run, "boolean")


def _in_set(subject: Run, choices: frozenset[Value], kinds: tuple[type, ...], otherwise: Run) -> Run:
    def run(row: Row) -> Value:
        value = subject(row)
        return value in choices if type(value) in kinds else otherwise(row)

    return run


def _between(compiler: _Compiler, node: Any) -> _Code:
    compiler.only(node, "this", "low", "high")
    subject = compiler.node(node.this)
    above = _compared(operator.ge, subject, compiler.node(node.args["low"]))
    below = _compared(operator.le, subject, compiler.node(node.args["high"]))

    def run(row: Row) -> bool | None:
        first, second = above(row), below(row)
        if first is False or second is False:
            return False
        return None if first is None or second is None else True

    return _Code(run, "boolean")


def _is(compiler: _Compiler, node: Any) -> _Code:
    compiler.only(node, "this", "expression")
    wanted = node.args["expression"]
    if not isinstance(wanted, (exp.Null, exp.Boolean)):
        raise compiler.refuse(node, "IS is followed by NULL, TRUE or FALSE only", "use = to compare values")
    if isinstance(wanted, exp.Null):
        subject = compiler.node(node.this).run
        return _Code(lambda row: subject(row) is None, "boolean")
    truth, value = compiler.boolean(node.this), bool(wanted.this)
    return _Code(lambda row: truth(row) is value, "boolean")


def _like(compiler: _Compiler, node: Any) -> _Code:
    escape: _Code | None = None
    outer = node
    if isinstance(node, exp.Escape):
        compiler.only(node, "this", "expression")
        escape = compiler.node(node.args["expression"])
        node = node.this
        if not isinstance(node, exp.Like):
            raise compiler.refuse(outer, "ESCAPE belongs to LIKE only")
        if not escape.constant or not isinstance(escape.constant[0], str) or len(escape.constant[0]) != 1:
            raise compiler.refuse(outer, "the escape character has to be one character in quotes", "write ESCAPE '!'")
    compiler.only(node, "this", "expression", "negate")
    subject, pattern = compiler.node(node.this), compiler.node(node.args["expression"])
    character = escape.constant[0] if escape else None
    subject_run, pattern_run = subject.run, pattern.run
    if pattern.constant and pattern.constant[0] is not None:
        try:
            matches = like_matcher(to_text(pattern.constant[0]), character)
        except NoValue as problem:
            raise compiler.refuse(outer, str(problem), "write the escape character twice to mean itself") from None

        def run(row: Row) -> bool | None:
            value: Value = subject_run(row)
            if value is None:
                return None
            return matches(value if type(value) is str else to_text(value))

    else:

        def run(row: Row) -> bool | None:
            value, wanted = subject_run(row), pattern_run(row)
            if value is None or wanted is None:
                return None
            return like_matcher(to_text(wanted), character)(to_text(value))

    return _negated(run) if node.args.get("negate") else _Code(run, "boolean")


def _case(compiler: _Compiler, node: Any) -> _Code:
    compiler.only(node, "this", "ifs", "default")
    subject = compiler.node(node.this) if node.this else None
    branches: list[tuple[Run, Run]] = []
    kinds = set()
    for branch in node.args["ifs"]:
        if subject is None:
            test = compiler.boolean(branch.this)
        else:
            test = _compared(operator.eq, subject, compiler.node(branch.this))
        result = compiler.node(branch.args["true"])
        branches.append((test, result.run))
        kinds.add(result.kind)
    default = compiler.node(node.args["default"]) if node.args.get("default") else _constant(None, "any")
    default_run = default.run
    if default.constant != (None,):
        kinds.add(default.kind)

    def run(row: Row) -> Value:
        for test, result in branches:
            if test(row) is True:
                return result(row)
        return default_run(row)

    return _Code(run, kinds.pop() if len(kinds) == 1 else "any")


def _coalesce(compiler: _Compiler, node: Any) -> _Code:
    compiler.only(node, "this", "expressions")
    codes = [compiler.node(choice) for choice in (node.this, *node.expressions)]
    runs = tuple(code.run for code in codes)

    def run(row: Row) -> Value:
        for choice in runs:
            value = choice(row)
            if value is not None:
                return value
        return None

    kinds = {code.kind for code in codes if code.constant != (None,)}
    return _Code(run, kinds.pop() if len(kinds) == 1 else "any")


def _nullif(compiler: _Compiler, node: Any) -> _Code:
    compiler.only(node, "this", "expression")
    subject = compiler.node(node.this)
    same, run_subject = _compared(operator.eq, subject, compiler.node(node.args["expression"])), subject.run
    return _Code(lambda row: None if same(row) is True else run_subject(row), subject.kind)


def _call(function: Callable[..., Value], arguments: tuple[Run, ...], kind: str) -> _Code:
    """A function that is NULL when one of its arguments is."""
    if len(arguments) == 1:
        argument = arguments[0]

        def run_one(row: Row) -> Value:
            value = argument(row)
            return None if value is None else function(value)

        return _Code(run_one, kind)

    def run(row: Row) -> Value:
        given = [argument(row) for argument in arguments]
        return None if None in given else function(*given)

    return _Code(run, kind)


def _function(
    function: Callable[..., Value], kind: str, *names: str, needed: int = 1
) -> Callable[[_Compiler, Any], _Code]:
    def build(compiler: _Compiler, node: Any) -> _Code:
        compiler.only(node, *names)
        given = [node.args.get(name) for name in names]
        while given and given[-1] is None:
            given.pop()
        if None in given or len(given) < needed:
            raise compiler.refuse(node, "an argument is missing", f"give it at least {needed}")
        return _call(function, tuple(compiler.node(argument).run for argument in given), kind)

    return build


def _trim(compiler: _Compiler, node: Any) -> _Code:
    position = str(node.args.get("position") or "BOTH").upper()
    compiler.only(node, "this", "expression", "position")
    given = [part for part in (node.this, node.args.get("expression")) if part is not None]
    return _call(values.trim(position), tuple(compiler.node(part).run for part in given), "text")


def _anonymous(compiler: _Compiler, node: Any) -> _Code:
    if str(node.this).upper() != "HEADER":
        raise compiler.refuse(node, f"there is no function {node.this}", f"the functions are {', '.join(FUNCTIONS)}")
    if len(node.expressions) != 1:
        raise compiler.refuse(node, "HEADER takes one argument, a name", "write HEADER('MGW_KAFKA_key')")
    code = compiler.node(node.expressions[0])
    if code.constant and isinstance(code.constant[0], str):
        name = code.constant[0]
        return _Code(lambda row: row.message.header(name))
    return _call_with_row(lambda row, value: row.message.header(to_text(value)), code.run)


def _call_with_row(function: Callable[[Row, Value], Value], argument: Run) -> _Code:
    def run(row: Row) -> Value:
        value = argument(row)
        return None if value is None else function(row, value)

    return _Code(run)


def _name(compiler: _Compiler, node: Any) -> _Code:
    parts: list[Any] = []
    rest = node
    while isinstance(rest, exp.Dot):
        parts.insert(0, rest.args["expression"])
        rest = rest.this
    if isinstance(rest, exp.Column):
        if rest.args.get("join_mark"):
            raise compiler.refuse(node, "there is nothing to join")
        parts = [*rest.parts, *parts]
    else:
        parts.insert(0, rest)
    if not all(isinstance(part, exp.Identifier) for part in parts):
        raise compiler.refuse(node, "names of message properties and payload attributes only can be joined by dots")
    lower = [str(part.this) if part.args.get("quoted") else str(part.this).lower() for part in parts]
    if lower[0] in ("tab", "source") and len(parts) > 1:
        parts, lower = parts[1:], lower[1:]
    if lower[0] in ("user_data", "userdata"):
        return _payload(compiler, node, parts[1:], lower[1:])
    if len(parts) == 1 and lower[0] in PROPERTIES:
        get = PROPERTIES[lower[0]]
        return _Code(lambda row: get(row.message))
    raise compiler.refuse(
        node,
        f"there is no message property {'.'.join(str(part.this) for part in parts)}",
        f"the properties are {', '.join(PROPERTIES)}; attributes of the payload are written tab.user_data.<name>",
    )


def _payload(compiler: _Compiler, node: Any, parts: list[Any], lower: list[str]) -> _Code:
    if not parts:
        return _Code(lambda row: row.body)
    if lower[0] == "header" and not parts[0].args.get("quoted"):
        if len(parts) != 2:
            raise compiler.refuse(
                node, "the header array has names, not a structure", "write user_data.header.NAME, or HEADER('a.b')"
            )
        header = str(parts[1].this)
        return _Code(lambda row: row.message.header(header))
    first, *deeper = (str(part.this) for part in parts)
    if not deeper:
        return _Code(lambda row: row.attributes.get(first))
    path = tuple(deeper)

    def run(row: Row) -> Value:
        value = row.attributes.get(first)
        for name in path:
            if type(value) is not dict:
                return None
            value = value.get(name)
        return value

    return _Code(run)


_BUILDERS: dict[type[Any], Callable[[_Compiler, Any], _Code]] = {
    exp.And: _logic(exp.And, decisive=False),
    exp.Or: _logic(exp.Or, decisive=True),
    exp.Not: _not,
    exp.EQ: _comparison(operator.eq),
    exp.NEQ: _comparison(operator.ne),
    exp.LT: _comparison(operator.lt),
    exp.LTE: _comparison(operator.le),
    exp.GT: _comparison(operator.gt),
    exp.GTE: _comparison(operator.ge),
    exp.Add: _arithmetic(values.add),
    exp.Sub: _arithmetic(values.subtract),
    exp.Mul: _arithmetic(values.multiply),
    exp.Div: _arithmetic(values.divide),
    exp.Mod: _arithmetic(values.modulo),
    exp.Neg: _negative,
    exp.DPipe: _joined,
    exp.Concat: _concat,
    exp.Paren: _paren,
    exp.Literal: _literal,
    exp.Boolean: lambda _compiler, node: _constant(bool(node.this), "boolean"),
    exp.Null: lambda _compiler, _node: _constant(None, "any"),
    exp.In: _in,
    exp.Between: _between,
    exp.Is: _is,
    exp.Like: _like,
    exp.Escape: _like,
    exp.Case: _case,
    exp.Coalesce: _coalesce,
    exp.Nullif: _nullif,
    exp.Anonymous: _anonymous,
    exp.Column: _name,
    exp.Dot: _name,
    exp.Upper: _function(lambda value: to_text(value).upper(), "text", "this"),
    exp.Lower: _function(lambda value: to_text(value).lower(), "text", "this"),
    exp.Length: _function(lambda value: len(to_text(value)), "number", "this"),
    exp.Substring: _function(values.substr, "text", "this", "start", "length", needed=2),
    exp.StrPosition: _function(values.instr, "number", "this", "substr", "position", "occurrence", needed=2),
    exp.Replace: _function(values.replace, "text", "this", "expression", "replacement", needed=2),
    exp.Trim: _trim,
    exp.Abs: _function(values.absolute, "number", "this"),
    exp.Round: _function(values.round_half_up, "number", "this", "decimals"),
    exp.Floor: _function(values.floor, "number", "this"),
    exp.Ceil: _function(values.ceil, "number", "this"),
    exp.ToNumber: _function(values.to_number, "number", "this"),
    exp.ToChar: _function(to_text, "text", "this"),
}
