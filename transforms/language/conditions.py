"""Builders of conditions: comparisons, AND OR NOT, IN, BETWEEN, IS, LIKE. Three-valued throughout: None is UNKNOWN."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from sqlglot import exp

from mgw.transforms.language.expression import Row
from mgw.transforms.language.parser import NUMBERS, Build, Code, Compiler, Run
from mgw.transforms.language.values import NoValue, Value, align, like_matcher, to_text

__all__ = ["CONDITIONS", "Test", "against", "comparable", "compared"]

Test = Callable[[Value, Row], bool | None]


def _logic(kind: type[exp.Expr], decisive: bool) -> Callable[[Compiler, Any], Code]:
    def build(compiler: Compiler, node: Any) -> Code:
        # What cannot fail comes first: it may decide, and then what could fail is never asked.
        codes = sorted(
            (compiler.condition(each) for each in compiler.chain(node, kind)), key=lambda code: not code.total
        )
        runs = tuple(code.run for code in codes)
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

        return Code(run, "boolean", total=codes[-1].total)

    return build


def _not(compiler: Compiler, node: Any) -> Code:
    compiler.only(node, "this")
    return _negated(compiler.condition(node.this))


def _negated(code: Code) -> Code:
    operand = code.run

    def run(row: Row) -> bool | None:
        value = operand(row)
        return None if value is None else not value

    return Code(run, "boolean", total=code.total)


def _comparison(compare: Callable[[Any, Any], bool]) -> Callable[[Compiler, Any], Code]:
    def build(compiler: Compiler, node: Any) -> Code:
        compiler.only(node, "this", "expression")
        left, right = compiler.node(node.this), compiler.node(node.args["expression"])
        return Code(compared(compare, left, right), "boolean", total=comparable(left, right))

    return build


def comparable(left: Code, right: Code) -> bool:
    """Whether two codes can be compared, whatever the message."""
    if not (left.total and right.total):
        return False
    return (left.plain and left.kind == right.kind) or (None,) in (left.constant, right.constant)


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


def against(compare: Callable[[Any, Any], bool], other: Code) -> Test:
    """The comparison of a value that is known already with a code: None when one of them is NULL.

    What compares one operand with several computes it once; otherwise nesting would double the work at every level.
    """
    b_run = other.run

    def test(a: Value, row: Row) -> bool | None:
        if a is None:
            return None
        b = b_run(row)
        if b is None:
            return None
        if type(a) is not str or type(b) is not str:
            a, b = align(a, b)
        return compare(a, b)

    return test


def _in(compiler: Compiler, node: Any) -> Code:
    compiler.only(node, "this", "expressions")
    if not node.expressions:
        raise compiler.refuse(node, "IN needs a list of values in parentheses")
    subject = compiler.node(node.this)
    choices = [compiler.node(choice) for choice in node.expressions]
    tests = tuple(against(operator.eq, choice) for choice in choices)
    run_subject = subject.run

    def found(value: Value, row: Row) -> bool | None:
        result: bool | None = False
        for test in tests:
            same = test(value, row)
            if same:
                return True
            if same is None:
                result = None
        return result

    def run(row: Row) -> bool | None:
        return found(run_subject(row), row)

    total = all(comparable(subject, choice) for choice in choices)
    constants = [choice.constant[0] for choice in choices if choice.constant]
    for kinds in ((str,), NUMBERS):
        if len(constants) == len(choices) and all(type(constant) in kinds for constant in constants):
            return Code(_in_set(run_subject, frozenset(constants), kinds, found), "boolean", total=total)
    return Code(run, "boolean", total=total)


def _in_set(subject: Run, choices: frozenset[Value], kinds: tuple[type, ...], otherwise: Test) -> Run:
    def run(row: Row) -> Value:
        value = subject(row)
        return value in choices if type(value) in kinds else otherwise(value, row)

    return run


def _between(compiler: Compiler, node: Any) -> Code:
    compiler.only(node, "this", "low", "high")
    subject = compiler.node(node.this)
    low, high = compiler.node(node.args["low"]), compiler.node(node.args["high"])
    above, below = against(operator.ge, low), against(operator.le, high)
    run_subject = subject.run

    def run(row: Row) -> bool | None:
        value = run_subject(row)
        first, second = above(value, row), below(value, row)
        if first is False or second is False:
            return False
        return None if first is None or second is None else True

    return Code(run, "boolean", total=comparable(subject, low) and comparable(subject, high))


def _is(compiler: Compiler, node: Any) -> Code:
    compiler.only(node, "this", "expression")
    wanted = node.args["expression"]
    if not isinstance(wanted, (exp.Null, exp.Boolean)):
        raise compiler.refuse(node, "only NULL, TRUE or FALSE can follow IS", "use = to compare values")
    if isinstance(wanted, exp.Null):
        subject = compiler.node(node.this)
        run = subject.run
        return Code(lambda row: run(row) is None, "boolean", total=subject.total)
    code, value = compiler.condition(node.this), bool(wanted.this)
    truth = code.run
    return Code(lambda row: truth(row) is value, "boolean", total=code.total)


def _like(compiler: Compiler, node: Any) -> Code:
    escape: Code | None = None
    outer = node
    if isinstance(node, exp.Escape):
        compiler.only(node, "this", "expression")
        escape = compiler.node(node.args["expression"])
        node = node.this
        if not isinstance(node, exp.Like):
            raise compiler.refuse(outer, "ESCAPE is only for LIKE")
        if not escape.constant or not isinstance(escape.constant[0], str) or len(escape.constant[0]) != 1:
            raise compiler.refuse(outer, "the escape character must be one character in quotes", "write ESCAPE '!'")
    compiler.only(node, "this", "expression", "negate")
    subject, pattern = compiler.node(node.this), compiler.node(node.args["expression"])
    character = escape.constant[0] if escape else None
    subject_run, pattern_run = subject.run, pattern.run
    total = subject.plain and bool(pattern.constant)
    if pattern.constant and pattern.constant[0] is not None:
        try:
            matches = like_matcher(to_text(pattern.constant[0]), character)
        except NoValue as problem:
            raise compiler.refuse(
                outer, str(problem), "write the escape character twice for the character itself"
            ) from None

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

    code = Code(run, "boolean", total=total)
    return _negated(code) if node.args.get("negate") else code


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
