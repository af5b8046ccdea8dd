"""Functions of texts as SQL; see :mod:`mgw.gateway.aq.conditions.sql.rules`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlglot import exp

from mgw.gateway.aq.conditions.sql.tree import Translation
from mgw.gateway.aq.conditions.sql.values import MAX_LENGTH, Guard, NotInSql, Piece, guards_of

__all__ = ["TEXTS"]


def _concatenated(t: Translation, node: Any, _want: str) -> Piece:
    return _together([t.text(each) for each in t.chain(node)], "{}")


def _joined_texts(t: Translation, node: Any, _want: str) -> Piece:
    """CONCAT leaves NULLs out."""
    pieces = [t.text(each) for each in node.expressions if t.kind(each) != "null"]
    if not pieces:
        raise NotInSql
    return _together(pieces, "coalesce({}, '')")


def _together(pieces: Sequence[Piece], form: str) -> Piece:
    return Piece(
        "(" + " || ".join(form.format(piece.sql) for piece in pieces) + ")",
        tuple(param for piece in pieces for param in piece.params),
        "text",
        length=sum(piece.length for piece in pieces),
        guards=guards_of(pieces),
    ).bounded()


def _cased(t: Translation, node: Any, _want: str) -> Piece:
    piece = t.text(node.this)
    if t.postgresql:
        ascii_only = f"(octet_length({piece.sql}) = length({piece.sql}))"
    else:
        ascii_only = f"(length(CAST({piece.sql} AS BLOB)) = length({piece.sql}))"
    guard = Guard(f"({ascii_only} IS NOT FALSE)", piece.params * 2)
    word = "upper" if isinstance(node, exp.Upper) else "lower"
    return piece._replace(sql=f"{word}({piece.sql})", guards=(*piece.guards, guard))


def _length(t: Translation, node: Any, _want: str) -> Piece:
    piece = t.text(node.this)
    sql = f"length({piece.sql})" + ("::bigint" if t.postgresql else "")
    return Piece(sql, piece.params, "integer", low=0, high=piece.length, guards=piece.guards)


def _part(t: Translation, node: Any, _want: str) -> Piece:
    piece = t.text(node.this)
    given = [math.trunc(t.number(node.args[name])) for name in ("start", "length") if node.args.get(name)]
    if given[0] < 0:
        raise NotInSql
    given[0] = max(given[0], 1)
    mark = "?::int" if t.postgresql else "?"
    numbers = tuple(min(max(each, 0), MAX_LENGTH) for each in given)
    return piece._replace(sql=f"substr({piece.sql}, {', '.join([mark] * len(numbers))})", params=piece.params + numbers)


def _position(t: Translation, node: Any, _want: str) -> Piece:
    if node.args.get("position") or node.args.get("occurrence"):
        raise NotInSql
    piece, part = t.text(node.this), t.literal(node.args["substr"])
    if not part:
        raise NotInSql
    sql = f"strpos({piece.sql}, ?::text)::bigint" if t.postgresql else f"instr({piece.sql}, ?)"
    return Piece(sql, (*piece.params, part), "integer", low=0, high=piece.length, guards=piece.guards)


def _replaced(t: Translation, node: Any, _want: str) -> Piece:
    piece, old = t.text(node.this), t.literal(node.args["expression"])
    new = t.literal(node.args["replacement"]) if node.args.get("replacement") is not None else ""
    if not old:
        raise NotInSql
    mark = "?::text" if t.postgresql else "?"
    length = piece.length + piece.length // len(old) * max(len(new) - len(old), 0)
    return Piece(
        f"replace({piece.sql}, {mark}, {mark})",
        (*piece.params, old, new),
        "text",
        length=length,
        guards=piece.guards,
    ).bounded()


def _trimmed(t: Translation, node: Any, _want: str) -> Piece:
    piece = t.text(node.this)
    characters = t.literal(node.args["expression"]) if node.args.get("expression") is not None else " "
    position = str(node.args.get("position") or "BOTH").upper()
    word = {"LEADING": "ltrim", "TRAILING": "rtrim", "BOTH": "btrim" if t.postgresql else "trim"}[position]
    mark = "?::text" if t.postgresql else "?"
    return piece._replace(sql=f"{word}({piece.sql}, {mark})", params=(*piece.params, characters))


def _written(t: Translation, node: Any, _want: str) -> Piece:
    return t.text(node.this)


#: What makes the SQL of a text, or of a number that says something of a text.
TEXTS: Mapping[Any, Callable[[Translation, Any, str], Piece]] = {
    exp.DPipe: _concatenated,
    exp.Concat: _joined_texts,
    exp.Upper: _cased,
    exp.Lower: _cased,
    exp.Length: _length,
    exp.Substring: _part,
    exp.StrPosition: _position,
    exp.Replace: _replaced,
    exp.Trim: _trimmed,
    exp.ToChar: _written,
}
