"""Pieces of SQL with the values of the rule language: constants, comparison, LIKE; see :mod:`statements_rules`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from mgw.transforms.language.values import MAX_TEXT, to_number

__all__ = [
    "FALSE",
    "MAX_LENGTH",
    "MAX_PARAMS",
    "MAX_SQL",
    "NULL_TRUTH",
    "TRUE",
    "Guard",
    "NotInSql",
    "Piece",
    "compare",
    "constant",
    "guarded",
    "guards_of",
    "joined",
    "like",
    "number",
    "side_by_side",
]

MAX_SQL = 100_000  # characters of a condition in SQL
MAX_PARAMS = 10_000  # parameters of a condition in SQL; both databases take three times as many
MAX_LENGTH = 10**9  # characters; longer than any text
_EXACT = 2**53  # integers up to here are floating-point numbers
_SMALL = 2**40  # integers that arithmetic starts with, so that it stays within 64 bits
_LARGE = 10.0**300
_CHUNK = 40  # operands of AND and OR side by side: every one is a level deeper in the tree of SQLite
_MISREAD = ("\ufffd", "\ufffe", "\uffff")  # one and the same to GLOB
_INTEGERS = range(-(2**63), 2**63)
_TYPES = {"text": "text", "integer": "bigint", "float": "float8", "boolean": "boolean"}


class NotInSql(Exception):
    """The database may see this otherwise than Python does."""


class Guard(NamedTuple):
    """A condition, never NULL, under which a piece has Python's value."""

    sql: str
    params: tuple[Any, ...] = ()


class Piece(NamedTuple):
    """Some SQL with the kind of its value; bounds of numbers and lengths of texts keep it within the database's."""

    sql: str
    params: tuple[Any, ...] = ()
    kind: str = "boolean"  # text, integer, float or boolean
    low: float = -(2**63)
    high: float = 2**63
    length: int = 0
    guards: tuple[Guard, ...] = ()

    def bounded(self) -> Piece:
        """Itself.

        Raises:
            NotInSql: a number might leave 64 bits, a text become longer than Python makes any.
        """
        limit = _INTEGERS.stop - 1 if self.kind == "integer" else _LARGE
        if self.kind in ("integer", "float") and (self.low < -limit or self.high > limit):
            raise NotInSql
        if self.length > MAX_TEXT:
            raise NotInSql
        return self


TRUE, FALSE = Piece("TRUE"), Piece("FALSE")
NULL_TRUTH = {False: Piece("NULL"), True: Piece("NULL::boolean")}


def constant(value: Any, want: str, postgresql: bool) -> Piece:
    """A value of the condition, bound as a parameter.

    Raises:
        NotInSql: it has no exact form in the database.
        NoValue: it is not a number where one is wanted.
    """
    if want not in ("text", "number", "boolean"):
        raise NotInSql
    if value is None:
        kind = "integer" if want == "number" else want
        return Piece(f"NULL::{_TYPES[kind]}" if postgresql else "NULL", kind=kind, low=0, high=0)
    if want == "number":
        value = to_number(value) if type(value) in (int, float, str) else None
    kind = {str: "text", int: "integer", float: "float", bool: "boolean"}.get(type(value), "")
    if kind != want and not (want == "number" and kind in ("integer", "float")):
        raise NotInSql
    if kind == "boolean":
        return TRUE if value else FALSE
    if (kind == "text" and "\x00" in value) or (kind == "integer" and value not in _INTEGERS):
        raise NotInSql
    if kind == "float" and not math.isfinite(value):
        raise NotInSql
    mark = f"?::{_TYPES[kind]}" if postgresql else "?"
    if kind == "text":
        mark = f'({mark} COLLATE "C")' if postgresql else mark  # two texts of the condition may meet, too
        return Piece(mark, (value,), kind, length=len(value))
    return Piece(mark, (value,), kind, low=value, high=value)


def number(piece: Piece) -> Piece:
    """A number to calculate with: a 64-bit integer of a row is guarded to be small enough."""
    if piece.kind == "integer" and (piece.low < -_EXACT or piece.high > _EXACT):
        guard = Guard(f"(({piece.sql} BETWEEN -{_SMALL} AND {_SMALL}) IS NOT FALSE)", piece.params)
        return piece._replace(low=-_SMALL, high=_SMALL, guards=(*piece.guards, guard))
    return piece


def compare(operator: str, left: Piece, right: Piece, postgresql: bool) -> Piece:
    """A comparison; SQLite compares integers with floats exactly, PostgreSQL rounds, unless told otherwise."""
    a, b = left.sql, right.sql
    params = left.params + right.params
    guards = left.guards + right.guards
    if postgresql and {left.kind, right.kind} == {"integer", "float"}:
        whole, other = (left, right) if left.kind == "integer" else (right, left)
        if max(abs(whole.low), abs(whole.high)) <= _EXACT:
            a, b = (f"({piece.sql})::float8" if piece is whole else piece.sql for piece in (left, right))
        elif other.sql == "?::float8":
            a, b = (f"({piece.sql})::numeric" if piece is whole else "?::numeric" for piece in (left, right))
            params = tuple(Decimal(each) if isinstance(each, float) else each for each in params)
        else:
            guard = f"(({whole.sql} BETWEEN -{_EXACT} AND {_EXACT}) IS NOT FALSE)"
            guards = (*guards, Guard(guard, whole.params))
            a, b = (f"({piece.sql})::float8" if piece is whole else piece.sql for piece in (left, right))
    return Piece(f"({a} {operator} {b})", params, guards=guards)


def like(subject: Piece, items: Sequence[tuple[str, str]], postgresql: bool) -> Piece:
    """LIKE with a pattern taken apart (``any``, ``one`` or ``is`` with the character)."""
    if any(character == "\x00" for _, character in items):
        raise NotInSql
    if postgresql:
        words = {"any": "%", "one": "_"}
        pattern = "".join(words.get(kind) or ("!" + c if c in "!%_" else c) for kind, c in items)
        return Piece(f"({subject.sql} LIKE ?::text ESCAPE '!')", (*subject.params, pattern), guards=subject.guards)
    if any(character in _MISREAD for _, character in items):
        raise NotInSql
    words = {"any": "*", "one": "?"}
    pattern = "".join(words.get(kind) or (f"[{c}]" if c in "*?[" else c) for kind, c in items)
    return Piece(f"({subject.sql} GLOB ?)", (*subject.params, pattern), guards=subject.guards)


def joined(pieces: Sequence[Piece], word: str) -> Piece:
    """Truths joined by AND or OR; many of them in groups, which says the same."""
    if len(pieces) == 1:
        return pieces[0]
    params = tuple(param for piece in pieces for param in piece.params)
    return Piece(f"({side_by_side([piece.sql for piece in pieces], word)})", params, guards=guards_of(pieces))


def side_by_side(sqls: Sequence[str], word: str) -> str:
    """Truths joined by AND or OR, in groups where there are many."""
    while len(sqls) > _CHUNK:
        sqls = [f"({word.join(sqls[n : n + _CHUNK])})" for n in range(0, len(sqls), _CHUNK)]
    return word.join(sqls)


def guards_of(pieces: Sequence[Piece]) -> tuple[Guard, ...]:
    """All guards of the pieces, each once."""
    return tuple(dict.fromkeys(guard for piece in pieces for guard in piece.guards))


def guarded(pieces: Sequence[Piece]) -> Guard | None:
    """All guards of the pieces as one condition, each once."""
    every = guards_of(pieces)
    if not every:
        return None
    sql = side_by_side([guard.sql for guard in every], " AND ")
    return Guard(sql, tuple(param for guard in every for param in guard.params))
