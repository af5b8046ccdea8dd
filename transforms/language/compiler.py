"""Compiles the text of an expression (:mod:`mgw.transforms.language.expression`) into a closure over a row.

sqlglot parses (Oracle dialect); only the node types and arguments listed here and in
:mod:`transforms.language.conditions` are accepted, so nothing that the parser learns in a later release becomes part
of the language by accident.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from sqlglot import exp

from mgw.transforms.language import values
from mgw.transforms.language.conditions import CONDITIONS, Test, against, comparable
from mgw.transforms.language.expression import RULES, Expression, Functions, Language, Row, no_functions
from mgw.transforms.language.functions import call
from mgw.transforms.language.parser import NUMBERS, Build, Code, Compiler, Run, constant_code
from mgw.transforms.language.values import NoValue, Value, to_text
from mgw.transforms.objects import ObjectValue

__all__ = ["analyse", "compile_condition", "compile_expression", "compile_text"]


def compile_text(text: str, *, condition: bool, language: Language = RULES, functions: Functions = no_functions) -> Run:
    """Parse, check and compile. Raises ExpressionInvalid."""
    return Compiler(text, "condition" if condition else "expression", _BUILDERS, language, functions).compile(condition)


def analyse(
    text: str, language: Language = RULES, *, condition: bool = True, functions: Functions = no_functions
) -> Compiler:
    """An expression with its tree and what is known of its nodes, for other back ends. Raises ExpressionInvalid."""
    compiler = Compiler(text, "condition" if condition else "expression", _BUILDERS, language, functions)
    compiler.compile(condition)
    return compiler


def _arithmetic(function: Callable[[Value, Value], Value]) -> Callable[[Compiler, Any], Code]:
    def build(compiler: Compiler, node: Any) -> Code:
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

        return Code(run, "number")

    return build


def _negative(compiler: Compiler, node: Any) -> Code:
    compiler.only(node, "this")
    code = compiler.node(node.this)
    if code.constant and type(code.constant[0]) in NUMBERS:
        return constant_code(-code.constant[0], "number")
    return _call(values.negate, (code.run,), "number")


def _joined(compiler: Compiler, node: Any) -> Code:
    codes = [compiler.node(operand) for operand in compiler.chain(node, exp.DPipe)]
    runs = tuple(code.run for code in codes)

    def run(row: Row) -> str | None:
        parts = [part(row) for part in runs]
        return None if None in parts else values.concat(parts)

    return Code(run, "text", total=all(code.plain for code in codes))


def _concat(compiler: Compiler, node: Any) -> Code:
    if node.args.get("safe") is None:  # 'a' 'b': the parser joins texts that stand side by side
        raise compiler.refuse(node, "two values are next to each other", "put a comma or || between them")
    codes = [compiler.node(operand) for operand in node.expressions]
    runs = tuple(code.run for code in codes)
    return Code(
        lambda row: values.concat([part for run in runs if (part := run(row)) is not None]),
        "text",
        total=all(code.plain for code in codes),
    )


def _paren(compiler: Compiler, node: Any) -> Code:
    compiler.only(node, "this")
    return compiler.node(node.this)


def _literal(compiler: Compiler, node: Any) -> Code:
    if node.is_string:
        return constant_code(node.this, "text")
    try:
        return constant_code(values.to_number(node.this), "number")
    except NoValue:
        raise compiler.refuse(node, "the number is out of range", "the largest number is 1.8e308") from None


def _case(compiler: Compiler, node: Any) -> Code:
    compiler.only(node, "this", "ifs", "default")
    subject = compiler.node(node.this) if node.this else None
    tests = [_branch(compiler, subject, branch.this) for branch in node.args["ifs"]]
    results = [compiler.node(branch.args["true"]) for branch in node.args["ifs"]]
    default = compiler.node(node.args["default"]) if node.args.get("default") else constant_code(None, "any")
    branches = tuple((test, result.run) for (test, _), result in zip(tests, results, strict=True))
    run_subject, run_default = (subject or default).run, default.run

    def run(row: Row) -> Value:
        for test, result in branches:
            if test(None, row) is True:
                return result(row)
        return run_default(row)

    def run_chosen(row: Row) -> Value:
        value = run_subject(row)
        for test, result in branches:
            if test(value, row) is True:
                return result(row)
        return run_default(row)

    kinds = {code.kind for code in (*results, default) if code.constant != (None,)}
    total = all(certain for _, certain in tests) and all(code.total for code in (*results, default))
    return Code(run_chosen if subject else run, kinds.pop() if len(kinds) == 1 else "any", total=total)


def _branch(compiler: Compiler, subject: Code | None, node: Any) -> tuple[Test, bool]:
    """The test of a branch of CASE, and whether it has a value for every message."""
    if subject is None:
        condition = compiler.condition(node)
        holds = condition.run
        return lambda _, row: holds(row), condition.total
    other = compiler.node(node)
    return against(operator.eq, other), comparable(subject, other)


def _coalesce(compiler: Compiler, node: Any) -> Code:
    compiler.only(node, "this", "expressions")
    if node.args.get("is_nvl") and len(node.expressions) != 1:
        raise compiler.refuse(node, "NVL takes two arguments", "use COALESCE for more")
    codes = [compiler.node(choice) for choice in (node.this, *node.expressions)]
    runs = tuple(code.run for code in codes)

    def run(row: Row) -> Value:
        for choice in runs:
            value = choice(row)
            if value is not None:
                return value
        return None

    kinds = {code.kind for code in codes if code.constant != (None,)}
    return Code(run, kinds.pop() if len(kinds) == 1 else "any", total=all(code.total for code in codes))


def _nullif(compiler: Compiler, node: Any) -> Code:
    compiler.only(node, "this", "expression")
    subject = compiler.node(node.this)
    other = compiler.node(node.args["expression"])
    same, run_subject = against(operator.eq, other), subject.run

    def run(row: Row) -> Value:
        value = run_subject(row)
        return None if same(value, row) is True else value

    return Code(run, subject.kind, total=comparable(subject, other))


def _call(function: Callable[..., Value], arguments: tuple[Run, ...], kind: str, *, total: bool = False) -> Code:
    """A function that is NULL when one of its arguments is."""
    if len(arguments) == 1:
        argument = arguments[0]

        def run_one(row: Row) -> Value:
            value = argument(row)
            return None if value is None else function(value)

        return Code(run_one, kind, total=total)

    def run(row: Row) -> Value:
        given = [argument(row) for argument in arguments]
        return None if None in given else function(*given)

    return Code(run, kind, total=total)


def _function(
    function: Callable[..., Value], kind: str, *names: str, needed: int = 1, total: bool = False
) -> Callable[[Compiler, Any], Code]:
    def build(compiler: Compiler, node: Any) -> Code:
        compiler.only(node, *names)
        given = [node.args.get(name) for name in names]
        while given and given[-1] is None:
            given.pop()
        if None in given or len(given) < needed:
            raise compiler.refuse(node, "an argument is missing", f"give it at least {needed}")
        codes = [compiler.node(argument) for argument in given]
        return _call(function, tuple(c.run for c in codes), kind, total=total and all(map(_certain, codes)))

    return build


def _certain(code: Code) -> bool:
    """Text that every message has or has not, or a number that stands in the expression."""
    return code.plain and (code.kind == "text" or bool(code.constant))


def _trim(compiler: Compiler, node: Any) -> Code:
    position = str(node.args.get("position") or "BOTH").upper()
    compiler.only(node, "this", "expression", "position")
    given = [part for part in (node.this, node.args.get("expression")) if part is not None]
    codes = [compiler.node(part) for part in given]
    return _call(values.trim(position), tuple(c.run for c in codes), "text", total=all(map(_certain, codes)))


def _anonymous(compiler: Compiler, node: Any) -> Code:
    if str(node.this).upper() != "HEADER":
        found = call(compiler, node)
        assert found is not None  # noqa: S101  (it is a call)
        return found
    if len(node.expressions) != 1:
        raise compiler.refuse(node, "HEADER takes one argument, a name", "write HEADER('MGW_KAFKA_key')")
    code = compiler.node(node.expressions[0])
    if code.constant and isinstance(code.constant[0], str):
        name = code.constant[0]
        return Code(lambda row: row.message.header(name), total=True)
    return _call_with_row(lambda row, value: row.message.header(to_text(value)), code.run)


def _call_with_row(function: Callable[[Row, Value], Value], argument: Run) -> Code:
    def run(row: Row) -> Value:
        value = argument(row)
        return None if value is None else function(row, value)

    return Code(run)


def _name(compiler: Compiler, node: Any) -> Code:
    called = call(compiler, node)
    if called is not None:
        return called
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
        raise compiler.refuse(node, "only names of message properties and payload attributes can be joined by dots")
    lower = [str(part.this) if part.args.get("quoted") else str(part.this).lower() for part in parts]
    language = compiler.language
    if lower[0] in language.prefixes and len(parts) > 1:
        parts, lower = parts[1:], lower[1:]
    if lower[0] in ("user_data", "userdata"):
        return _payload(compiler, node, parts[1:], lower[1:])
    if len(parts) == 1 and lower[0] in language.properties:
        found = language.properties[lower[0]]
        return Code(found.get, found.kind, total=True)
    raise compiler.refuse(
        node,
        f"there is no message property {'.'.join(str(part.this) for part in parts)}",
        f"the properties are {', '.join(language.properties)}; attributes of the payload are written "
        f"{language.prefixes[0]}.user_data.<name>",
    )


def _payload(compiler: Compiler, node: Any, parts: list[Any], lower: list[str]) -> Code:
    if not parts:
        return Code(lambda row: row.body, total=True)
    if lower[0] == "header" and not parts[0].args.get("quoted"):
        if len(parts) != 2:
            raise compiler.refuse(
                node, "headers have flat names, no structure", "write user_data.header.NAME, or HEADER('a.b')"
            )
        header = str(parts[1].this)
        return Code(lambda row: row.message.header(header), total=True)
    first, *deeper = (str(part.this) for part in parts)
    if not deeper:
        return Code(lambda row: row.attributes.get(first), total=True)
    path = tuple(deeper)

    def run(row: Row) -> Value:
        value = row.attributes.get(first)
        for name in path:
            if type(value) is not dict and type(value) is not ObjectValue:
                return None
            value = value.get(name)
        return value

    return Code(run, total=True)


_BUILDERS: dict[type[Any], Build] = {
    **CONDITIONS,
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
    exp.Boolean: lambda _compiler, node: constant_code(bool(node.this), "boolean"),
    exp.Null: lambda _compiler, _node: constant_code(None, "any"),
    exp.Case: _case,
    exp.Coalesce: _coalesce,
    exp.Nullif: _nullif,
    exp.Anonymous: _anonymous,
    exp.Column: _name,
    exp.Dot: _name,
    exp.Upper: _function(lambda value: to_text(value).upper(), "text", "this", total=True),
    exp.Lower: _function(lambda value: to_text(value).lower(), "text", "this", total=True),
    exp.Length: _function(lambda value: len(to_text(value)), "number", "this", total=True),
    exp.Substring: _function(values.substr, "text", "this", "start", "length", needed=2, total=True),
    exp.StrPosition: _function(values.instr, "number", "this", "substr", "position", "occurrence", needed=2),
    exp.Replace: _function(values.replace, "text", "this", "expression", "replacement", needed=2),
    exp.Trim: _trim,
    exp.Abs: _function(values.absolute, "number", "this"),
    exp.Round: _function(values.round_half_up, "number", "this", "decimals"),
    exp.Floor: _function(values.floor, "number", "this"),
    exp.Ceil: _function(values.ceil, "number", "this"),
    exp.ToNumber: _function(values.to_number, "number", "this"),
    exp.ToChar: _function(to_text, "text", "this", total=True),
}


def compile_expression(text: str, functions: Functions = no_functions) -> Expression:
    """An expression of any type.

    Args:
        functions: functions it may call in addition to those of the language and those registered in this process.

    Raises:
        ExpressionInvalid: it cannot be parsed, is longer than 4000 characters, nested too deeply, or uses something
            this language does not have.
    """
    return Expression(text, compile_text(text, condition=False, functions=functions))


def compile_condition(text: str, language: Language = RULES, functions: Functions = no_functions) -> Expression:
    """An expression that is true, false or unknown.

    Args:
        functions: as for :func:`compile_expression`.

    Raises:
        ExpressionInvalid: as :func:`compile_expression`, or it is a number or a text.
    """
    return Expression(text, compile_text(text, condition=True, language=language, functions=functions), language)
