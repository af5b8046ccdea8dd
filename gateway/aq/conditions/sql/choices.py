"""Choices between values as SQL: COALESCE, NULLIF, CASE; see :mod:`mgw.gateway.aq.conditions.sql.rules`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlglot import exp

from mgw.gateway.aq.conditions.sql.conditions import compared
from mgw.gateway.aq.conditions.sql.tree import Translation, inner
from mgw.gateway.aq.conditions.sql.values import Guard, NotInSql, Piece, guards_of

__all__ = ["CHOICES"]


def _choice(t: Translation, node: Any, want: str) -> Piece:
    """One of several values; their numbers are integers, which every database keeps apart from floats."""
    piece = t.truth(node) if want == "boolean" else t.value(node, want)
    if piece.kind == "float" and t.folded(inner(node)) != (None,):
        raise NotInSql
    return piece


def _coalesced(t: Translation, node: Any, want: str) -> Piece:
    pieces = [_choice(t, each, want) for each in (node.this, *node.expressions)]
    return _merged(pieces, "coalesce(" + ", ".join(piece.sql for piece in pieces) + ")")


def _nullif(t: Translation, node: Any, want: str) -> Piece:
    piece = _choice(t, node.this, want)
    same = compared(t, "=", node.this, node.args["expression"])
    sql = f"CASE WHEN {same.sql} THEN NULL ELSE {piece.sql} END"
    return piece._replace(sql=sql, params=same.params + piece.params, guards=guards_of((same, piece)))


def _case(t: Translation, node: Any, want: str) -> Piece:
    words, params, guards = ["CASE"], list[Any](), dict[Guard, None]()
    results = []
    for branch in node.args["ifs"]:
        test = t.truth(branch.this) if not node.this else compared(t, "=", node.this, branch.this)
        result = _choice(t, branch.args["true"], want)
        words.append(f"WHEN {test.sql} THEN {result.sql}")
        params += (*test.params, *result.params)
        guards.update(dict.fromkeys(test.guards))
        results.append(result)
    if node.args.get("default") is not None:
        result = _choice(t, node.args["default"], want)
        words.append(f"ELSE {result.sql}")
        params += result.params
        results.append(result)
    merged = _merged(results, " ".join([*words, "END"]))
    return merged._replace(params=tuple(params), guards=tuple({**guards, **dict.fromkeys(merged.guards)}))


def _merged(pieces: Sequence[Piece], sql: str) -> Piece:
    kinds = {piece.kind for piece in pieces}
    if len(kinds) != 1:
        raise NotInSql
    return Piece(
        sql,
        tuple(param for piece in pieces for param in piece.params),
        kinds.pop(),
        min(piece.low for piece in pieces),
        max(piece.high for piece in pieces),
        max(piece.length for piece in pieces),
        guards_of(pieces),
    )


#: What makes the SQL of a choice.
CHOICES: Mapping[Any, Callable[[Translation, Any, str], Piece]] = {
    exp.Coalesce: _coalesced,
    exp.Nullif: _nullif,
    exp.Case: _case,
}
