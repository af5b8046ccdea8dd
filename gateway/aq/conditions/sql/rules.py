"""Conditions as SQL: what a database can decide of a rule, exactly as Python would (AQ guide 12.2 §8.6.1, §10.5).

A condition is translated from the tree that :mod:`language.compiler` has accepted, node by node, and only where both
databases give the value that Python gives: text compares by code point, integers and floating-point numbers compare
exactly, UNKNOWN stays UNKNOWN. Whatever is written in a condition becomes a bound parameter; the SQL itself is made of
the constants of this package.

A :class:`Piece` may carry guards: conditions that are never NULL, under which its value is Python's. For a row that
breaks one, the database cannot tell, and the row is left to Python (a payload that is not plain JSON, a text that is
not ASCII in ``UPPER``). No piece ever raises an error in the database, whatever the row: which part of a WHERE clause
is evaluated first is the planner's business. What would be too large or too deep for the database is left to Python.

Columns may have any kind but ``any``; the payload is the business of :mod:`mgw.gateway.aq.conditions.sql.payload`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlglot import exp

from mgw.gateway.aq.conditions.sql.choices import CHOICES
from mgw.gateway.aq.conditions.sql.conditions import TRUTHS
from mgw.gateway.aq.conditions.sql.limits import taken_by_sqlite
from mgw.gateway.aq.conditions.sql.numbers import NUMBERS
from mgw.gateway.aq.conditions.sql.payload import Payload
from mgw.gateway.aq.conditions.sql.texts import TEXTS
from mgw.gateway.aq.conditions.sql.tree import Builders, Translation, inner
from mgw.gateway.aq.conditions.sql.values import MAX_PARAMS, MAX_SQL, TRUE, NotInSql, Piece, guarded, joined
from mgw.transforms.language.parser import Compiler
from mgw.transforms.language.values import NoValue

__all__ = ["Answer", "Filter", "answer", "translate"]

_UNABLE = (NotInSql, NoValue)  # NoValue: it fails for every message
_BUILDERS = Builders(TRUTHS, {**NUMBERS, **TEXTS, **CHOICES})


class Filter(NamedTuple):
    """What the database can do for a condition: ``sql`` is true for every row that may match, never NULL.

    ``exact``: it is true for those that match and for no other. Otherwise Python has the last word on each row.
    """

    sql: str
    params: tuple[Any, ...]
    exact: bool


def translate(analysis: Compiler, columns: Mapping[str, Piece], payload: Payload) -> Filter | None:
    """The filter for a condition; None when the database can do nothing for it.

    Args:
        analysis: the condition, see :func:`mgw.transforms.language.compiler.analyse`.
        columns: the SQL of each property of its language; one that is missing is left to Python.
        payload: the SQL of what is written ``user_data``.
    """
    translation = Translation(analysis, columns, payload, _BUILDERS)
    try:
        piece = translation.truth(analysis.tree)
        if not piece.guards:
            exact = piece._replace(sql=f"({piece.sql}) IS TRUE")
            if _fits(exact, payload.postgresql):
                return Filter(exact.sql, exact.params, True)
    except _UNABLE:
        pass
    found = _Narrowing(translation).necessary(analysis.tree, certain=False)
    if found is None or not _fits(found, payload.postgresql):
        return None
    return Filter(found.sql, found.params, False)


class Answer(NamedTuple):
    """The value of a condition (true, false, NULL for unknown) in SQL, for rows where ``known`` is true."""

    sql: str
    params: tuple[Any, ...]
    known: str
    known_params: tuple[Any, ...]


def answer(analysis: Compiler, columns: Mapping[str, Piece], payload: Payload) -> Answer | None:
    """What the database knows of a condition as a whole; None: nothing. Arguments as for :func:`translate`."""
    try:
        piece = Translation(analysis, columns, payload, _BUILDERS).truth(analysis.tree)
    except _UNABLE:
        return None
    known = guarded([piece])
    found = Answer(piece.sql, piece.params, "TRUE", ())
    if known is not None:
        found = Answer(f"CASE WHEN {known.sql} THEN {piece.sql} END", known.params + piece.params, *known)
    whole = Piece(f"({found.sql}) OR ({found.known})", found.params + found.known_params)
    return found if _fits(whole, payload.postgresql) else None


def _fits(piece: Piece, postgresql: bool) -> bool:
    """Whether the database takes such a condition as a part of a statement of the hub's."""
    if len(piece.sql) > MAX_SQL or len(piece.params) > MAX_PARAMS:
        return False
    return postgresql or taken_by_sqlite(piece.sql, piece.params)


class _Narrowing:
    """What decides of a condition that the database cannot evaluate as a whole."""

    def __init__(self, translation: Translation) -> None:
        self._translation = translation

    def necessary(self, node: Any, *, certain: bool) -> Piece | None:
        """SQL that is false only where the node is false or unknown, and does not fail; None for no such SQL.

        ``certain``: it is false only where the node is false.
        """
        node = inner(node)
        try:
            return _passing([self._able(node)], certain)
        except _UNABLE:
            pass
        if isinstance(node, exp.And):
            return self._all_of(node, certain)
        if isinstance(node, exp.Or):
            parts = [self.necessary(each, certain=certain) for each in self._translation.chain(node)]
            if None in parts:
                return None
            return joined([part for part in parts if part is not None], " OR ")
        return None

    def _able(self, node: Any) -> Piece:
        """The node as a whole, if it is not too much for the database."""
        piece = self._translation.truth(node)
        if not _fits(_passing([piece], False), self._translation.postgresql):
            raise NotInSql
        return piece

    def _all_of(self, node: Any, certain: bool) -> Piece | None:
        """What decides an AND that the database cannot evaluate as a whole.

        Python asks what cannot fail first, then the rest from left to right, up to the first that is false. What it
        would ask after something that may fail must not decide, and unknown only decides if nothing else may fail.
        """
        pieces: list[Piece] = []
        last: Piece | None = None
        reached, rest_fails = True, False
        operands = self._translation.chain(node)
        for each in sorted(operands, key=lambda operand: not self._total(operand)):
            try:
                piece = self._able(each)
            except _UNABLE:
                if self._total(each):
                    continue
                rest_fails = True
                if reached:
                    last, reached = self.necessary(each, certain=True), False
                continue
            if reached:
                pieces.append(piece)
            elif piece.guards:
                rest_fails = True
        found = [_passing(pieces, certain or rest_fails)] if pieces else []
        found += [last] if last is not None else []
        return joined(found, " AND ") if found else None

    def _total(self, node: Any) -> bool:
        code = self._translation.analysis.codes.get(id(node))
        return code is not None and (code.total and (code.kind == "boolean" or code.constant == (None,)))


def _passing(pieces: Sequence[Piece], certain: bool) -> Piece:
    """SQL, never NULL, for rows that all the pieces let pass; ``certain``: unknown lets pass."""
    word = "IS NOT FALSE" if certain else "IS TRUE"
    passing = joined([piece._replace(sql=f"({piece.sql} {word})", guards=()) for piece in pieces], " AND ")
    guards = guarded(pieces)
    if guards is None:
        return passing
    free = [piece._replace(sql=f"({piece.sql} IS NOT FALSE)") for piece in pieces if not piece.guards]
    otherwise = joined(free, " AND ") if free else TRUE
    return Piece(
        f"CASE WHEN {guards.sql} THEN {passing.sql} ELSE {otherwise.sql} END",
        guards.params + passing.params + otherwise.params,
    )
