"""Arithmetic as SQL, within the range where both databases calculate as Python does; see :mod:`statements_rules`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlglot import exp

from mgw.gateway.aq.conditions.sql.tree import Translation
from mgw.gateway.aq.conditions.sql.values import Guard, NotInSql, Piece, guards_of, number

__all__ = ["NUMBERS", "integers"]

_EXACT = 2**53  # integers up to here are floating-point numbers


def integers(t: Translation, nodes: Sequence[Any]) -> list[Piece]:
    """Nodes that are integers to calculate with.

    Raises:
        NotInSql: one is none.
    """
    pieces = [t.value(each, "number") for each in nodes]
    if any(piece.kind != "integer" for piece in pieces):
        raise NotInSql
    return [number(piece) for piece in pieces]


def _sum(t: Translation, node: Any, _want: str) -> Piece:
    result, *rest = [number(t.value(each, "number")) for each in t.chain(node)]
    adds = isinstance(node, exp.Add)
    for given in rest:
        piece = given
        exact = result.kind == piece.kind == "integer"
        if not exact and t.postgresql:
            result, piece = _as_float(result), _as_float(piece)
        low, high = (piece.low, piece.high) if adds else (-piece.high, -piece.low)
        result = Piece(
            f"{result.sql} {'+' if adds else '-'} {piece.sql}",  # from left to right, as Python does
            result.params + piece.params,
            "integer" if exact else "float",
            low=result.low + low,
            high=result.high + high,
            guards=guards_of((result, piece)),
        ).bounded()
    return result._replace(sql=f"({result.sql})")


def _product(t: Translation, node: Any, _want: str) -> Piece:
    result, *rest = integers(t, t.chain(node))
    for piece in rest:
        corners = [a * b for a in (result.low, result.high) for b in (piece.low, piece.high)]
        result = Piece(
            f"{result.sql} * {piece.sql}",
            result.params + piece.params,
            "integer",
            low=min(corners),
            high=max(corners),
            guards=guards_of((result, piece)),
        ).bounded()
    return result._replace(sql=f"({result.sql})")


def _quotient(t: Translation, node: Any, _want: str) -> Piece:
    operands = t.chain(node)
    if len(operands) != 2:
        raise NotInSql
    over, under = integers(t, operands)
    guard = Guard(f"(({under.sql} = 0) IS NOT TRUE)", under.params)
    guards = (*guards_of((over, under)), guard)
    params = over.params + under.params
    if isinstance(node, exp.Mod):
        most = max(abs(over.low), abs(over.high))
        sql = f"({over.sql} % nullif({under.sql}, 0))"
        return Piece(sql, params, "integer", low=-most, high=most, guards=guards)
    if max(map(abs, (over.low, over.high, under.low, under.high))) > _EXACT:
        raise NotInSql
    kind = "float8" if t.postgresql else "REAL"
    sql = f"(CAST({over.sql} AS {kind}) / CAST(nullif({under.sql}, 0) AS {kind}))"
    return Piece(sql, params, "float", low=-_EXACT, high=_EXACT, guards=guards)


def _negative(t: Translation, node: Any, _want: str) -> Piece:
    piece = number(t.value(node.this, "number"))
    return piece._replace(sql=f"(- {piece.sql})", low=-piece.high, high=-piece.low)


def _absolute(t: Translation, node: Any, _want: str) -> Piece:
    piece = number(t.value(node.this, "number"))
    return piece._replace(sql=f"abs({piece.sql})", low=0, high=max(abs(piece.low), abs(piece.high)))


def _whole(t: Translation, node: Any, want: str) -> Piece:
    """FLOOR and CEIL leave integers as they are."""
    return integers(t, [node.this])[0] if want == "number" else t.value(node.this, want)


def _as_float(piece: Piece) -> Piece:
    if piece.kind == "float":
        return piece
    if max(abs(piece.low), abs(piece.high)) > _EXACT:
        raise NotInSql
    return piece._replace(sql=f"({piece.sql})::float8", kind="float")


#: What makes the SQL of a number.
NUMBERS: Mapping[Any, Callable[[Translation, Any, str], Piece]] = {
    exp.Add: _sum,
    exp.Sub: _sum,
    exp.Mul: _product,
    exp.Div: _quotient,
    exp.Mod: _quotient,
    exp.Neg: _negative,
    exp.Abs: _absolute,
    exp.Floor: _whole,
    exp.Ceil: _whole,
}
