"""Builders of conditions: comparisons, AND OR NOT, IN, BETWEEN, IS, LIKE. Three-valued throughout: None is UNKNOWN."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from sqlglot import exp

from transforms.expression import Row
from transforms.expression_parser import NUMBERS, Build, Code, Compiler, Run
from transforms.values import NoValue, Value, align, like_matcher, to_text

__all__ = ["CONDITIONS", "compared"]


def _logic(kind: type[exp.Expr], decisive: bool) -> Callable[[Compiler, Any], Code]:
    def build(compiler: Compiler, node: Any) -> Code:
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

        return Code(run, "boolean")

    return build


def _not(compiler: Compiler, node: Any) -> Code:
    compiler.only(node, "this")
    return _negated(compiler.boolean(node.this))


def _negated(operand: Run) -> Code:
    def run(row: Row) -> bool | None:
        value = operand(row)
        return None if value is None else not value

    return Code(run, "boolean")


def _comparison(compare: Callable[[Any, Any], bool]) -> Callable[[Compiler, Any], Code]:
    def build(compiler: Compiler, node: Any) -> Code:
        compiler.only(node, "this", "expression")
        return Code(compared(compare, compiler.node(node.this), compiler.node(node.args["expression"])), "boolean")

    return build


def compared(compare: Callable[[Any, Any], bool], left: Code, right: Code) -> Run:
    """The comparison of two codes: None when one side is NULL."""
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
    plain = (str,) if type(constant) is str else NUMBERS if type(constant) in NUMBERS else ()

    def run_constant(row: Row) -> bool | None:
        a = a_run(row)
        if type(a) in plain:
            return compare(a, constant)
        if a is None:
            return None
        return compare(*align(a, constant))

    return run_constant


def _in(compiler: Compiler, node: Any) -> Code:
    compiler.only(node, "this", "expressions")
    if not node.expressions:
        raise compiler.refuse(node, "IN needs a list of values in parentheses")
    subject = compiler.node(node.this)
    choices = [compiler.node(choice) for choice in node.expressions]
    tests = tuple(compared(operator.eq, subject, choice) for choice in choices)

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
    for kinds in ((str,), NUMBERS):
        if len(constants) == len(choices) and all(type(constant) in kinds for constant in constants):
            return Code(_in_set(subject.run, frozenset(constants), kinds, run), "boolean")
    return Code(run, "boolean")


def _in_set(subject: Run, choices: frozenset[Value], kinds: tuple[type, ...], otherwise: Run) -> Run:
    def run(row: Row) -> Value:
        value = subject(row)
        return value in choices if type(value) in kinds else otherwise(row)

    return run


def _between(compiler: Compiler, node: Any) -> Code:
    compiler.only(node, "this", "low", "high")
    subject = compiler.node(node.this)
    above = compared(operator.ge, subject, compiler.node(node.args["low"]))
    below = compared(operator.le, subject, compiler.node(node.args["high"]))

    def run(row: Row) -> bool | None:
        first, second = above(row), below(row)
        if first is False or second is False:
            return False
        return None if first is None or second is None else True

    return Code(run, "boolean")


def _is(compiler: Compiler, node: Any) -> Code:
    compiler.only(node, "this", "expression")
    wanted = node.args["expression"]
    if not isinstance(wanted, (exp.Null, exp.Boolean)):
        raise compiler.refuse(node, "IS is followed by NULL, TRUE or FALSE only", "use = to compare values")
    if isinstance(wanted, exp.Null):
        subject = compiler.node(node.this).run
        return Code(lambda row: subject(row) is None, "boolean")
    truth, value = compiler.boolean(node.this), bool(wanted.this)
    return Code(lambda row: truth(row) is value, "boolean")


def _like(compiler: Compiler, node: Any) -> Code:
    escape: Code | None = None
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

    return _negated(run) if node.args.get("negate") else Code(run, "boolean")


CONDITIONS: Mapping[type[Any], Build] = {
    exp.And: _logic(exp.And, decisive=False),
    exp.Or: _logic(exp.Or, decisive=True),
    exp.Not: _not,
    exp.EQ: _comparison(operator.eq),
    exp.NEQ: _comparison(operator.ne),
    exp.LT: _comparison(operator.lt),
    exp.LTE: _comparison(operator.le),
    exp.GT: _comparison(operator.gt),
    exp.GTE: _comparison(operator.ge),
    exp.In: _in,
    exp.Between: _between,
    exp.Is: _is,
    exp.Like: _like,
    exp.Escape: _like,
}
