"""Conditions as SQL: AND OR NOT, comparisons, IN, BETWEEN, IS, LIKE; see :mod:`mgw.gateway.aq.conditions.sql.rules`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlglot import exp

from mgw.gateway.aq.conditions.sql.tree import Translation, inner
from mgw.gateway.aq.conditions.sql.values import (
    MAX_SQL,
    NULL_TRUTH,
    NotInSql,
    Piece,
    compare,
    guards_of,
    joined,
    like,
)
from mgw.transforms.language import values

__all__ = ["TRUTHS", "compared"]


def _logic(t: Translation, node: Any) -> Piece:
    word = " AND " if isinstance(node, exp.And) else " OR "
    return joined([t.truth(each) for each in t.chain(node)], word)


def _not(t: Translation, node: Any) -> Piece:
    piece = t.truth(node.this)
    return piece._replace(sql=f"(NOT {piece.sql})")


def _comparison(t: Translation, node: Any) -> Piece:
    return compared(t, _OPERATORS[type(node)], node.this, node.args["expression"])


def compared(t: Translation, operator: str, left: Any, right: Any) -> Piece:
    """Two nodes compared.

    Raises:
        NotInSql: it is left to Python.
    """
    want = _common(t, left, right)
    if want is None:
        return NULL_TRUTH[t.postgresql]
    if want == "number":
        for one, other, turned in ((left, right, operator), (right, left, _TURNED[operator])):
            path = t.path(one)
            if path is not None:
                return t.payload.number(path, [(turned, t.number(other))], " AND ")
    return compare(operator, t.value(left, want), t.value(right, want), t.postgresql)


def _common(t: Translation, left: Any, right: Any) -> str | None:
    """The kind in which two nodes are compared; None: one of them is NULL, and so is the result."""
    kinds = (t.kind(left), t.kind(right))
    if "null" in kinds:
        other = left if kinds[1] == "null" else right
        if not t.code(other).total:
            raise NotInSql
        return None
    if kinds[0] == kinds[1]:
        if kinds[0] == "any":
            raise NotInSql
        return kinds[0]
    if "any" in kinds:
        return kinds[0] if kinds[1] == "any" else kinds[1]
    if "number" in kinds and "text" in kinds:
        text = left if kinds[0] == "text" else right
        folded = t.folded(inner(text))
        if folded is not None:
            values.to_number(folded[0])  # NoValue: it fails for every message
            return "number"
    raise NotInSql


def _in(t: Translation, node: Any) -> Piece:
    choices = node.expressions
    path = t.path(node.this)
    kinds = {t.kind(choice) for choice in choices}
    if path is not None and kinds == {"number"}:
        return t.payload.number(path, [("=", t.number(each)) for each in choices], " OR ")
    if kinds == {"text"} and t.kind(node.this) in ("any", "text"):
        return _one_of([t.value(each, "text") for each in (node.this, *choices)])
    if kinds == {"number"} and t.kind(node.this) == "number":
        pieces = [t.value(each, "number") for each in (node.this, *choices)]
        if all(piece.kind == "integer" for piece in pieces):
            return _one_of(pieces)
    return _each(t, [("=", choice) for choice in choices], node.this, " OR ")


def _one_of(pieces: list[Piece]) -> Piece:
    """Whether the first is one of the others."""
    subject, *choices = pieces
    marks = ", ".join(choice.sql for choice in choices)
    params = tuple(param for piece in pieces for param in piece.params)
    return Piece(f"({subject.sql} IN ({marks}))", params, guards=guards_of(pieces))


def _each(t: Translation, wanted: list[tuple[str, Any]], subject: Any, word: str) -> Piece:
    """A node compared with several."""
    pieces: list[Piece] = []
    for operator, other in wanted:
        pieces.append(compared(t, operator, subject, other))
        if len(pieces[-1].sql) * len(wanted) > MAX_SQL:
            raise NotInSql
    return joined(pieces, word)


def _between(t: Translation, node: Any) -> Piece:
    low, high = node.args["low"], node.args["high"]
    path = t.path(node.this)
    if path is not None and t.kind(low) == t.kind(high) == "number":
        return t.payload.number(path, [(">=", t.number(low)), ("<=", t.number(high))], " AND ")
    return _each(t, [(">=", low), ("<=", high)], node.this, " AND ")


def _is(t: Translation, node: Any) -> Piece:
    wanted = node.args["expression"]
    if isinstance(wanted, exp.Boolean):
        piece = t.truth(node.this)
        return piece._replace(sql=f"({piece.sql} IS {'TRUE' if wanted.this else 'FALSE'})")
    path = t.path(node.this)
    if path is not None:
        return t.payload.is_null(path)
    kind = t.kind(node.this)
    if kind in ("any", "null"):
        raise NotInSql
    piece = t.truth(node.this) if kind == "boolean" else t.value(node.this, kind)
    return Piece(f"({piece.sql} IS NULL)", piece.params, guards=piece.guards)


def _like(t: Translation, node: Any) -> Piece:
    escape = None
    if isinstance(node, exp.Escape):
        escape = str(node.args["expression"].this)
        node = node.this
    folded = t.folded(inner(node.args["expression"]))
    if folded is None:
        raise NotInSql
    if folded[0] is None:
        if not t.code(node.this).total:
            raise NotInSql
        return NULL_TRUTH[t.postgresql]
    piece = like(t.text(node.this), values.like_items(values.to_text(folded[0]), escape), t.postgresql)
    return piece._replace(sql=f"(NOT {piece.sql})") if node.args.get("negate") else piece


_OPERATORS: Mapping[Any, str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
}  # fmt: skip
_TURNED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
#: What makes the SQL of a condition.
TRUTHS: Mapping[Any, Callable[[Translation, Any], Piece]] = {
    exp.And: _logic,
    exp.Or: _logic,
    exp.Not: _not,
    **dict.fromkeys(_OPERATORS, _comparison),
    exp.In: _in,
    exp.Between: _between,
    exp.Is: _is,
    exp.Like: _like,
    exp.Escape: _like,
}
