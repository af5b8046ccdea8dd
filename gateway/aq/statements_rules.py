"""Conditions as SQL: what a database can decide of a rule, exactly as Python would (AQ guide 12.2 §8.6.1, §10.5).

A condition is translated from the tree that :mod:`transforms.compiler` has accepted, node by node, and only where both
databases give the value that Python gives: text compares by code point, integers and floating-point numbers compare
exactly, UNKNOWN stays UNKNOWN. Whatever is written in a condition becomes a bound parameter; the SQL itself is made of
the constants of this package.

A :class:`Piece` may carry guards: conditions that are never NULL, under which its value is Python's. For a row that
breaks one, the database cannot tell, and the row is left to Python (a payload that is no plain JSON, a text that is
not ASCII in ``UPPER``). No piece ever raises an error in the database, whatever the row: which part of a WHERE clause
is evaluated first is the planner's business.

Columns may have any kind but ``any``; the payload is the business of :mod:`gateway.aq.statements_rules_payload`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlglot import exp

from gateway.aq.statements_rules_payload import Path, Payload
from gateway.aq.statements_rules_values import (
    FALSE,
    MAX_LENGTH,
    NULL_TRUTH,
    TRUE,
    Guard,
    NotInSql,
    Piece,
    compare,
    constant,
    guarded,
    like,
    number,
)
from transforms import values
from transforms.expression_parser import Code, Compiler
from transforms.values import NoValue

__all__ = ["Answer", "Filter", "answer", "translate"]


_UNABLE = (NotInSql, NoValue)  # NoValue: it fails for every message


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
        analysis: the condition, see :func:`transforms.compiler.analyse`.
        columns: the SQL of each property of its language; one that is missing is left to Python.
        payload: the SQL of what is written ``user_data``.
    """
    translator = _Translator(analysis, columns, payload)
    try:
        piece = translator.truth(analysis.tree)
    except _UNABLE:
        piece = None
    if piece is not None and not piece.guards:
        return Filter(f"({piece.sql}) IS TRUE", piece.params, True)
    found = translator.necessary(analysis.tree, certain=False)
    return None if found is None else Filter(found.sql, found.params, False)


class Answer(NamedTuple):
    """The value of a condition (true, false, NULL for unknown) in SQL, for rows where ``known`` is true."""

    sql: str
    params: tuple[Any, ...]
    known: str
    known_params: tuple[Any, ...]


def answer(analysis: Compiler, columns: Mapping[str, Piece], payload: Payload) -> Answer | None:
    """What the database knows of a condition as a whole; None: nothing. Arguments as for :func:`translate`."""
    try:
        piece = _Translator(analysis, columns, payload).truth(analysis.tree)
    except _UNABLE:
        return None
    known = guarded([piece])
    if known is None:
        return Answer(piece.sql, piece.params, "TRUE", ())
    return Answer(f"CASE WHEN {known.sql} THEN {piece.sql} END", known.params + piece.params, *known)


class _Translator:
    def __init__(self, analysis: Compiler, columns: Mapping[str, Piece], payload: Payload) -> None:
        self._analysis = analysis
        self._codes = analysis.codes
        self._columns = columns
        self._payload = payload
        self._postgresql = payload.postgresql

    # -- filters ---------------------------------------------------------------------------------------------------

    def necessary(self, node: Any, *, certain: bool) -> Piece | None:
        """SQL that is false only where the node is false or unknown, and does not fail; None for no such SQL.

        ``certain``: it is false only where the node is false.
        """
        node = _inner(node)
        try:
            return _passing([self.truth(node)], certain)
        except _UNABLE:
            pass
        if isinstance(node, exp.And):
            return self._all_of(node, certain)
        if isinstance(node, exp.Or):
            parts = [self.necessary(each, certain=certain) for each in self._analysis.chain(node, exp.Or)]
            if None in parts:
                return None
            return _joined([part for part in parts if part is not None], " OR ")
        return None

    def _all_of(self, node: Any, certain: bool) -> Piece | None:
        """What decides an AND that the database cannot evaluate as a whole.

        Python asks what cannot fail first, then the rest from left to right, up to the first that is false. What it
        would ask after something that may fail must not decide, and unknown only decides if nothing else may fail.
        """
        pieces: list[Piece] = []
        last: Piece | None = None
        reached, rest_fails = True, False
        operands = self._analysis.chain(node, exp.And)
        for each in sorted(operands, key=lambda operand: not self._total(operand)):
            try:
                piece = self.truth(each)
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
        return _joined(found, " AND ") if found else None

    def _total(self, node: Any) -> bool:
        code = self._codes.get(id(node))
        return code is not None and (code.total and (code.kind == "boolean" or code.constant == (None,)))

    # -- truth -----------------------------------------------------------------------------------------------------

    def truth(self, node: Any) -> Piece:
        """A node that is true, false or unknown."""
        node = _inner(node)
        folded = self._folded(node)
        if folded is not None:
            value = folded[0]
            if value is None:
                return NULL_TRUTH[self._postgresql]
            if type(value) is not bool:
                raise NotInSql
            return TRUE if value else FALSE
        build = _TRUTH.get(type(node))
        if build is not None:
            return build(self, node)
        return self.value(node, "boolean")

    def _logic(self, node: Any) -> Piece:
        word = " AND " if isinstance(node, exp.And) else " OR "
        return _joined([self.truth(each) for each in self._analysis.chain(node, type(node))], word)

    def _not(self, node: Any) -> Piece:
        piece = self.truth(node.this)
        return piece._replace(sql=f"(NOT {piece.sql})")

    def _comparison(self, node: Any) -> Piece:
        return self._compared(_OPERATORS[type(node)], node.this, node.args["expression"])

    def _compared(self, operator: str, left: Any, right: Any) -> Piece:
        want = self._common(left, right)
        if want is None:
            return NULL_TRUTH[self._postgresql]
        if want == "number":
            for one, other, turned in ((left, right, operator), (right, left, _TURNED[operator])):
                path = self._path(one)
                if path is not None:
                    limit = self._number(other)
                    return self._payload.number(path, [(turned, limit)], " AND ")
        return compare(operator, self.value(left, want), self.value(right, want), self._postgresql)

    def _common(self, left: Any, right: Any) -> str | None:
        """The kind in which two nodes are compared; None: one of them is NULL, and so is the result."""
        kinds = (self._kind(left), self._kind(right))
        if "null" in kinds:
            other = left if kinds[1] == "null" else right
            if not self._code(other).total:
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
            folded = self._folded(_inner(text))
            if folded is not None:
                values.to_number(folded[0])  # NoValue: it fails for every message
                return "number"
        raise NotInSql

    def _number(self, node: Any) -> int | float:
        """A number that stands in the condition."""
        folded = self._folded(_inner(node))
        if folded is None:
            raise NotInSql
        return values.to_number(folded[0])

    def _in(self, node: Any) -> Piece:
        path = self._path(node.this)
        kinds = {self._kind(choice) for choice in node.expressions}
        if path is not None and kinds == {"number"}:
            return self._payload.number(path, [("=", self._number(each)) for each in node.expressions], " OR ")
        if kinds == {"text"} and self._kind(node.this) in ("any", "text"):
            piece = self.value(node.this, "text")
            choices = [self.value(each, "text") for each in node.expressions]
            marks = ", ".join(choice.sql for choice in choices)
            params = sum((choice.params for choice in choices), piece.params)
            guards = sum((choice.guards for choice in choices), piece.guards)
            return Piece(f"({piece.sql} IN ({marks}))", params, guards=guards)
        return _joined([self._compared("=", node.this, choice) for choice in node.expressions], " OR ")

    def _between(self, node: Any) -> Piece:
        low, high = node.args["low"], node.args["high"]
        path = self._path(node.this)
        if path is not None and self._kind(low) == self._kind(high) == "number":
            return self._payload.number(path, [(">=", self._number(low)), ("<=", self._number(high))], " AND ")
        return _joined([self._compared(">=", node.this, low), self._compared("<=", node.this, high)], " AND ")

    def _is(self, node: Any) -> Piece:
        wanted = node.args["expression"]
        if isinstance(wanted, exp.Boolean):
            piece = self.truth(node.this)
            return piece._replace(sql=f"({piece.sql} IS {'TRUE' if wanted.this else 'FALSE'})")
        path = self._path(node.this)
        if path is not None:
            return self._payload.is_null(path)
        kind = self._kind(node.this)
        if kind in ("any", "null"):
            raise NotInSql
        piece = self.truth(node.this) if kind == "boolean" else self.value(node.this, kind)
        return Piece(f"({piece.sql} IS NULL)", piece.params, guards=piece.guards)

    def _like(self, node: Any) -> Piece:
        escape = None
        if isinstance(node, exp.Escape):
            escape = str(node.args["expression"].this)
            node = node.this
        folded = self._folded(_inner(node.args["expression"]))
        if folded is None:
            raise NotInSql
        if folded[0] is None:
            if not self._code(node.this).total:
                raise NotInSql
            return NULL_TRUTH[self._postgresql]
        piece = like(self._text(node.this), values.like_items(values.to_text(folded[0]), escape), self._postgresql)
        return piece._replace(sql=f"(NOT {piece.sql})") if node.args.get("negate") else piece

    # -- values ----------------------------------------------------------------------------------------------------

    def value(self, node: Any, want: str) -> Piece:
        """A node as a piece of the kind ``want`` (text, number or boolean), NULL where it is NULL."""
        node = _inner(node)
        folded = self._folded(node)
        if folded is not None:
            return constant(folded[0], want, self._postgresql)
        if want == "text" and _asks_type(node) and self._payload.readable:
            return self._payload.type_name()
        path = self._path(node)
        if path is not None:
            if want == "text":
                return self._payload.text(path)
            if want == "boolean":
                return self._payload.boolean(path)
            raise NotInSql
        if type(node) in _TRUTH:
            piece = self.truth(node)
        else:
            build = _VALUES.get(type(node))
            if build is None:
                raise NotInSql
            piece = build(self, node, want)
        if piece.kind == want or (want == "number" and piece.kind in ("integer", "float")):
            return piece
        raise NotInSql

    def _text(self, node: Any) -> Piece:
        """A node where text is needed: integers are written out."""
        if self._kind(node) != "number":
            return self.value(node, "text")
        piece = self.value(node, "number")
        if piece.kind != "integer":
            raise NotInSql
        sql = f'({piece.sql})::text COLLATE "C"' if self._postgresql else f"CAST({piece.sql} AS TEXT)"
        return Piece(sql, piece.params, "text", length=20, guards=piece.guards)

    def _column(self, node: Any, _want: str) -> Piece:
        parts = (
            [part for part in node.parts if isinstance(part, exp.Identifier)] if isinstance(node, exp.Column) else []
        )
        names = [str(part.this) if part.args.get("quoted") else str(part.this).lower() for part in parts]
        if len(names) == 2 and names[0] in self._analysis.language.prefixes:
            names = names[1:]
        if len(names) != 1 or names[0] not in self._columns:
            raise NotInSql
        return self._columns[names[0]]

    def _integers(self, nodes: Sequence[Any]) -> list[Piece]:
        pieces = [self.value(each, "number") for each in nodes]
        if any(piece.kind != "integer" for piece in pieces):
            raise NotInSql
        return [number(piece) for piece in pieces]

    def _sum(self, node: Any, _want: str) -> Piece:
        pieces = [number(self.value(each, "number")) for each in self._analysis.chain(node, type(node))]
        word = " + " if isinstance(node, exp.Add) else " - "
        result = pieces[0]
        for piece in pieces[1:]:
            low, high = (piece.low, piece.high) if isinstance(node, exp.Add) else (-piece.high, -piece.low)
            exact = result.kind == piece.kind == "integer"
            if not exact and self._postgresql:
                result, piece = (_as_float(each) for each in (result, piece))  # noqa: PLW2901
            result = Piece(
                f"({result.sql}{word}{piece.sql})",
                result.params + piece.params,
                "integer" if exact else "float",
                low=result.low + low,
                high=result.high + high,
                guards=result.guards + piece.guards,
            ).bounded()
        return result

    def _product(self, node: Any, _want: str) -> Piece:
        result, *rest = self._integers(self._analysis.chain(node, exp.Mul))
        for piece in rest:
            corners = [a * b for a in (result.low, result.high) for b in (piece.low, piece.high)]
            result = Piece(
                f"({result.sql} * {piece.sql})",
                result.params + piece.params,
                "integer",
                low=min(corners),
                high=max(corners),
                guards=result.guards + piece.guards,
            ).bounded()
        return result

    def _quotient(self, node: Any, _want: str) -> Piece:
        operands = self._analysis.chain(node, type(node))
        if len(operands) != 2:
            raise NotInSql
        over, under = self._integers(operands)
        guard = f"(({under.sql} = 0) IS NOT TRUE)"
        guards = (*over.guards, *under.guards, Guard(guard, under.params))
        params = over.params + under.params
        if isinstance(node, exp.Mod):
            most = max(abs(over.low), abs(over.high))
            sql = f"({over.sql} % nullif({under.sql}, 0))"
            return Piece(sql, params, "integer", low=-most, high=most, guards=guards)
        if max(map(abs, (over.low, over.high, under.low, under.high))) > 2**53:
            raise NotInSql
        kind = "float8" if self._postgresql else "REAL"
        sql = f"(CAST({over.sql} AS {kind}) / CAST(nullif({under.sql}, 0) AS {kind}))"
        return Piece(sql, params, "float", low=-(2**53), high=2**53, guards=guards)

    def _negative(self, node: Any, _want: str) -> Piece:
        piece = number(self.value(node.this, "number"))
        return piece._replace(sql=f"(- {piece.sql})", low=-piece.high, high=-piece.low)

    def _absolute(self, node: Any, _want: str) -> Piece:
        piece = number(self.value(node.this, "number"))
        return piece._replace(sql=f"abs({piece.sql})", low=0, high=max(abs(piece.low), abs(piece.high)))

    def _concatenated(self, node: Any, _want: str) -> Piece:
        pieces = [self._text(each) for each in self._analysis.chain(node, exp.DPipe)]
        return Piece(
            "(" + " || ".join(piece.sql for piece in pieces) + ")",
            sum((piece.params for piece in pieces), ()),
            "text",
            length=sum(piece.length for piece in pieces),
            guards=sum((piece.guards for piece in pieces), ()),
        ).bounded()

    def _joined_texts(self, node: Any, _want: str) -> Piece:
        """CONCAT leaves NULLs out."""
        pieces = [self._text(each) for each in node.expressions if self._kind(each) != "null"]
        if not pieces:
            raise NotInSql
        return Piece(
            "(" + " || ".join(f"coalesce({piece.sql}, '')" for piece in pieces) + ")",
            sum((piece.params for piece in pieces), ()),
            "text",
            length=sum(piece.length for piece in pieces),
            guards=sum((piece.guards for piece in pieces), ()),
        ).bounded()

    def _cased(self, node: Any, _want: str) -> Piece:
        piece = self._text(node.this)
        if self._postgresql:
            ascii_only = f"(octet_length({piece.sql}) = length({piece.sql}))"
        else:
            ascii_only = f"(length(CAST({piece.sql} AS BLOB)) = length({piece.sql}))"
        guard = Guard(f"({ascii_only} IS NOT FALSE)", piece.params * 2)
        word = "upper" if isinstance(node, exp.Upper) else "lower"
        return piece._replace(sql=f"{word}({piece.sql})", guards=(*piece.guards, guard))

    def _length(self, node: Any, _want: str) -> Piece:
        piece = self._text(node.this)
        sql = f"length({piece.sql})" + ("::bigint" if self._postgresql else "")
        return Piece(sql, piece.params, "integer", low=0, high=piece.length, guards=piece.guards)

    def _part(self, node: Any, _want: str) -> Piece:
        piece = self._text(node.this)
        given = [math.trunc(self._number(node.args[name])) for name in ("start", "length") if node.args.get(name)]
        if given[0] < 0:
            raise NotInSql
        given[0] = max(given[0], 1)
        mark = "?::int" if self._postgresql else "?"
        numbers = tuple(min(max(each, 0), MAX_LENGTH) for each in given)
        return piece._replace(
            sql=f"substr({piece.sql}, {', '.join([mark] * len(numbers))})", params=piece.params + numbers
        )

    def _position(self, node: Any, _want: str) -> Piece:
        if node.args.get("position") or node.args.get("occurrence"):
            raise NotInSql
        piece, part = self._text(node.this), self._literal(node.args["substr"])
        if not part:
            raise NotInSql
        sql = f"strpos({piece.sql}, ?::text)::bigint" if self._postgresql else f"instr({piece.sql}, ?)"
        return Piece(sql, (*piece.params, part), "integer", low=0, high=piece.length, guards=piece.guards)

    def _literal(self, node: Any) -> str:
        """A text that stands in the condition and can be bound."""
        folded = self._folded(_inner(node))
        if folded is None or type(folded[0]) is not str:
            raise NotInSql
        return str(constant(folded[0], "text", self._postgresql).params[0])

    def _replaced(self, node: Any, _want: str) -> Piece:
        piece, old = self._text(node.this), self._literal(node.args["expression"])
        new = self._literal(node.args["replacement"]) if node.args.get("replacement") is not None else ""
        if not old:
            raise NotInSql
        mark = "?::text" if self._postgresql else "?"
        length = piece.length + piece.length // len(old) * max(len(new) - len(old), 0)
        return Piece(
            f"replace({piece.sql}, {mark}, {mark})",
            (*piece.params, old, new),
            "text",
            length=length,
            guards=piece.guards,
        ).bounded()

    def _trimmed(self, node: Any, _want: str) -> Piece:
        piece = self._text(node.this)
        characters = self._literal(node.args["expression"]) if node.args.get("expression") is not None else " "
        position = str(node.args.get("position") or "BOTH").upper()
        word = {"LEADING": "ltrim", "TRAILING": "rtrim", "BOTH": "btrim" if self._postgresql else "trim"}[position]
        mark = "?::text" if self._postgresql else "?"
        return piece._replace(sql=f"{word}({piece.sql}, {mark})", params=(*piece.params, characters))

    def _same(self, node: Any, want: str) -> Piece:
        """A function that leaves integers (FLOOR, CEIL) or texts (TO_CHAR) as they are."""
        if isinstance(node, exp.ToChar):
            return self._text(node.this)
        return self._integers([node.this])[0] if want == "number" else self.value(node.this, want)

    def _coalesced(self, node: Any, want: str) -> Piece:
        pieces = [self._choice(each, want) for each in (node.this, *node.expressions)]
        return _merged(pieces, "coalesce(" + ", ".join(piece.sql for piece in pieces) + ")", self._postgresql)

    def _choice(self, node: Any, want: str) -> Piece:
        """One of several values; their numbers are integers, which every database keeps apart from floats."""
        piece = self.truth(node) if want == "boolean" else self.value(node, want)
        if piece.kind == "float" and self._folded(_inner(node)) != (None,):
            raise NotInSql
        return piece

    def _nullif(self, node: Any, want: str) -> Piece:
        piece = self._choice(node.this, want)
        same = self._compared("=", node.this, node.args["expression"])
        sql = f"CASE WHEN {same.sql} THEN NULL ELSE {piece.sql} END"
        return piece._replace(sql=sql, params=same.params + piece.params, guards=same.guards + piece.guards)

    def _case(self, node: Any, want: str) -> Piece:
        words, params, guards = ["CASE"], list[Any](), list[Guard]()
        results = []
        for branch in node.args["ifs"]:
            test = self.truth(branch.this) if not node.this else self._compared("=", node.this, branch.this)
            result = self._choice(branch.args["true"], want)
            words.append(f"WHEN {test.sql} THEN {result.sql}")
            params += (*test.params, *result.params)
            guards += test.guards
            results.append(result)
        if node.args.get("default") is not None:
            result = self._choice(node.args["default"], want)
            words.append(f"ELSE {result.sql}")
            params += result.params
            results.append(result)
        merged = _merged(results, " ".join([*words, "END"]), self._postgresql)
        return merged._replace(params=tuple(params), guards=(*guards, *merged.guards))

    # -- what is known of a node -----------------------------------------------------------------------------------

    def _code(self, node: Any) -> Code:
        code = self._codes.get(id(node))
        if code is None:
            raise NotInSql
        return code

    def _kind(self, node: Any) -> str:
        code = self._code(node)
        return "null" if code.constant == (None,) else code.kind

    def _folded(self, node: Any) -> tuple[Any] | None:
        """The value of a node that is the same for every message, in a tuple."""
        if node.find(exp.Column, exp.Dot, exp.Anonymous, exp.Identifier) is not None:
            return None
        try:
            return (self._code(node).run(None),)  # type: ignore[arg-type]
        except (NoValue, OverflowError):
            raise NotInSql from None

    def _path(self, node: Any) -> Path | None:
        """The attribute of the payload, or the header, that a node names; None for any other node."""
        node = _inner(node)
        if isinstance(node, exp.Anonymous) and str(node.this).upper() == "HEADER" and self._payload.readable:
            return Path((self._literal(node.expressions[0]),), header=True)
        if not isinstance(node, (exp.Column, exp.Dot)):
            return None
        parts: list[Any] = []
        while isinstance(node, exp.Dot):
            parts.insert(0, node.args["expression"])
            node = node.this
        parts = [*(node.parts if isinstance(node, exp.Column) else [node]), *parts]
        if not all(isinstance(part, exp.Identifier) for part in parts):
            return None
        lower = [str(part.this) if part.args.get("quoted") else str(part.this).lower() for part in parts]
        if lower[0] in self._analysis.language.prefixes and len(parts) > 1:
            parts, lower = parts[1:], lower[1:]
        if lower[0] not in ("user_data", "userdata"):
            return None
        if not self._payload.readable:
            raise NotInSql
        if len(lower) > 1 and lower[1] == "header" and not parts[1].args.get("quoted"):
            return Path((str(parts[2].this),), header=True)
        return Path(tuple(str(part.this) for part in parts[1:]))


def _inner(node: Any) -> Any:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _asks_type(node: Any) -> bool:
    asked = node.args["expression"] if isinstance(node, exp.Dot) else None
    return isinstance(asked, exp.Anonymous) and str(asked.this).upper() == "GETTYPENAME"


def _as_float(piece: Piece) -> Piece:
    if piece.kind == "float":
        return piece
    if max(abs(piece.low), abs(piece.high)) > 2**53:
        raise NotInSql
    return piece._replace(sql=f"({piece.sql})::float8", kind="float")


def _joined(pieces: Sequence[Piece], word: str) -> Piece:
    if len(pieces) == 1:
        return pieces[0]
    return Piece(
        "(" + word.join(piece.sql for piece in pieces) + ")",
        sum((piece.params for piece in pieces), ()),
        guards=sum((piece.guards for piece in pieces), ()),
    )


def _merged(pieces: Sequence[Piece], sql: str, postgresql: bool) -> Piece:
    kinds = {piece.kind for piece in pieces}
    if len(kinds) != 1:
        raise NotInSql
    del postgresql
    return Piece(
        sql,
        sum((piece.params for piece in pieces), ()),
        kinds.pop(),
        min(piece.low for piece in pieces),
        max(piece.high for piece in pieces),
        max(piece.length for piece in pieces),
        sum((piece.guards for piece in pieces), ()),
    )


def _passing(pieces: Sequence[Piece], certain: bool) -> Piece:
    """SQL, never NULL, for rows that all the pieces let pass; ``certain``: unknown lets pass."""
    word = "IS NOT FALSE" if certain else "IS TRUE"
    passing = _joined([piece._replace(sql=f"({piece.sql} {word})", guards=()) for piece in pieces], " AND ")
    guards = guarded(pieces)
    if guards is None:
        return passing
    free = [piece._replace(sql=f"({piece.sql} IS NOT FALSE)") for piece in pieces if not piece.guards]
    otherwise = _joined(free, " AND ") if free else TRUE
    return Piece(
        f"CASE WHEN {guards.sql} THEN {passing.sql} ELSE {otherwise.sql} END",
        guards.params + passing.params + otherwise.params,
    )


_OPERATORS: Mapping[Any, str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
}  # fmt: skip
_TURNED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_TRUTH: Mapping[Any, Callable[[_Translator, Any], Piece]] = {
    exp.And: _Translator._logic,
    exp.Or: _Translator._logic,
    exp.Not: _Translator._not,
    **dict.fromkeys(_OPERATORS, _Translator._comparison),
    exp.In: _Translator._in,
    exp.Between: _Translator._between,
    exp.Is: _Translator._is,
    exp.Like: _Translator._like,
    exp.Escape: _Translator._like,
}
_VALUES: Mapping[Any, Callable[[_Translator, Any, str], Piece]] = {
    exp.Column: _Translator._column,
    exp.Add: _Translator._sum,
    exp.Sub: _Translator._sum,
    exp.Mul: _Translator._product,
    exp.Div: _Translator._quotient,
    exp.Mod: _Translator._quotient,
    exp.Neg: _Translator._negative,
    exp.Abs: _Translator._absolute,
    exp.DPipe: _Translator._concatenated,
    exp.Concat: _Translator._joined_texts,
    exp.Upper: _Translator._cased,
    exp.Lower: _Translator._cased,
    exp.Length: _Translator._length,
    exp.Substring: _Translator._part,
    exp.StrPosition: _Translator._position,
    exp.Replace: _Translator._replaced,
    exp.Trim: _Translator._trimmed,
    exp.Floor: _Translator._same,
    exp.Ceil: _Translator._same,
    exp.ToChar: _Translator._same,
    exp.Coalesce: _Translator._coalesced,
    exp.Nullif: _Translator._nullif,
    exp.Case: _Translator._case,
}
