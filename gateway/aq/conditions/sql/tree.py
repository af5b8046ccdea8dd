"""A condition on its way into SQL: what is known of its nodes, and the SQL of any node; see :mod:`statements_rules`.

The builders of conditions (:mod:`mgw.gateway.aq.conditions.sql.conditions`) and of values
(:mod:`mgw.gateway.aq.conditions.sql.numbers`, :mod:`mgw.gateway.aq.conditions.sql.texts`,
:mod:`mgw.gateway.aq.conditions.sql.choices`) work on a :class:`Translation`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlglot import exp

from mgw.gateway.aq.conditions.sql.payload import Path, Payload
from mgw.gateway.aq.conditions.sql.values import (
    FALSE,
    MAX_PARAMS,
    MAX_SQL,
    NULL_TRUTH,
    TRUE,
    NotInSql,
    Piece,
    constant,
)
from mgw.transforms.language import values
from mgw.transforms.language.parser import Code, Compiler
from mgw.transforms.language.values import NoValue

__all__ = ["Builders", "Translation", "inner"]


class Builders(NamedTuple):
    """What makes the SQL of each type of node; any other node is left to Python."""

    truths: Mapping[Any, Callable[[Translation, Any], Piece]]
    values: Mapping[Any, Callable[[Translation, Any, str], Piece]]


def inner(node: Any) -> Any:
    """A node without the parentheses around it."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


class Translation:
    """One condition and the SQL of its parts.

    Args:
        analysis: the condition.
        columns: the SQL of each property of its language.
        payload: the SQL of what is written ``user_data``.
    """

    def __init__(self, analysis: Compiler, columns: Mapping[str, Piece], payload: Payload, builders: Builders) -> None:
        self.analysis = analysis
        self.payload = payload
        self.postgresql = payload.postgresql
        self._columns = columns
        self._builders = builders
        self._made: dict[tuple[int, str], Piece | None] = {}

    # -- SQL ---------------------------------------------------------------------------------------------------------

    def truth(self, node: Any) -> Piece:
        """A node that is true, false or unknown.

        Raises:
            NotInSql: it is left to Python.
        """
        return self._once(inner(node), "", lambda node, _: self._truth(node))

    def _once(self, node: Any, want: str, make: Callable[[Any, str], Piece]) -> Piece:
        """What is made of a node, made once: several others may ask for it, and be asked for several times."""
        key = (id(node), want)
        if key not in self._made:
            self._made[key] = None
            self._made[key] = make(node, want)
        piece = self._made[key]
        if piece is None:
            raise NotInSql
        return piece

    def _truth(self, node: Any) -> Piece:
        folded = self.folded(node)
        if folded is not None:
            value = folded[0]
            if value is None:
                return NULL_TRUTH[self.postgresql]
            if type(value) is not bool:
                raise NotInSql
            return TRUE if value else FALSE
        build = self._builders.truths.get(type(node))
        if build is not None:
            return _within(build(self, node))
        return self.value(node, "boolean")

    def value(self, node: Any, want: str) -> Piece:
        """A node as a piece of the kind ``want`` (text, number or boolean), NULL where it is NULL.

        Raises:
            NotInSql: it is left to Python.
            NoValue: it fails for every message.
        """
        return self._once(inner(node), want, self._value)

    def _value(self, node: Any, want: str) -> Piece:
        folded = self.folded(node)
        if folded is not None:
            return constant(folded[0], want, self.postgresql)
        if want == "text" and _asks_type(node) and self.payload.readable:
            return self.payload.type_name()
        path = self.path(node)
        if path is not None:
            if want == "text":
                return _within(self.payload.text(path))
            if want == "boolean":
                return _within(self.payload.boolean(path))
            raise NotInSql
        if type(node) in self._builders.truths:
            piece = self.truth(node)
        elif isinstance(node, exp.Column):
            piece = self._column(node)
        else:
            build = self._builders.values.get(type(node))
            if build is None:
                raise NotInSql
            piece = _within(build(self, node, want))
        if piece.kind == want or (want == "number" and piece.kind in ("integer", "float")):
            return piece
        raise NotInSql

    def text(self, node: Any) -> Piece:
        """A node where text is needed: integers are written out."""
        if self.kind(node) != "number":
            return self.value(node, "text")
        piece = self.value(node, "number")
        if piece.kind != "integer":
            raise NotInSql
        sql = f'({piece.sql})::text COLLATE "C"' if self.postgresql else f"CAST({piece.sql} AS TEXT)"
        return Piece(sql, piece.params, "text", length=20, guards=piece.guards)

    def _column(self, node: Any) -> Piece:
        names = [_key(part) for part in node.parts if isinstance(part, exp.Identifier)]
        if len(names) == 2 and names[0] in self.analysis.language.prefixes:
            names = names[1:]
        if len(names) != 1 or names[0] not in self._columns:
            raise NotInSql
        return self._columns[names[0]]

    # -- what is known of a node -------------------------------------------------------------------------------------

    def chain(self, node: Any) -> list[Any]:
        """The operands of a chain of the operator of the node, from left to right."""
        return self.analysis.chain(node, type(node))

    def code(self, node: Any) -> Code:
        """What the compiler found out about a node."""
        code = self.analysis.codes.get(id(node))
        if code is None:
            raise NotInSql
        return code

    def kind(self, node: Any) -> str:
        """The kind of a node's value: boolean, number, text, null, or any."""
        code = self.code(node)
        return "null" if code.constant == (None,) else code.kind

    def folded(self, node: Any) -> tuple[Any] | None:
        """The value of a node that is the same for every message, in a tuple."""
        if node.find(exp.Column, exp.Dot, exp.Anonymous, exp.Identifier) is not None:
            return None
        try:
            return (self.code(node).run(None),)  # type: ignore[arg-type]
        except (NoValue, OverflowError):
            raise NotInSql from None

    def number(self, node: Any) -> int | float:
        """A number that stands in the condition."""
        folded = self.folded(inner(node))
        if folded is None:
            raise NotInSql
        return values.to_number(folded[0])

    def literal(self, node: Any) -> str:
        """A text that stands in the condition and can be bound."""
        folded = self.folded(inner(node))
        if folded is None or type(folded[0]) is not str:
            raise NotInSql
        return str(constant(folded[0], "text", self.postgresql).params[0])

    def path(self, node: Any) -> Path | None:
        """The attribute of the payload, or the header, that a node names; None for any other node."""
        node = inner(node)
        if isinstance(node, exp.Anonymous) and str(node.this).upper() == "HEADER" and self.payload.readable:
            return Path((self.literal(node.expressions[0]),), header=True)
        parts = _parts(node)
        if not parts:
            return None
        lower = [_key(part) for part in parts]
        if lower[0] in self.analysis.language.prefixes and len(parts) > 1:
            parts, lower = parts[1:], lower[1:]
        if lower[0] not in ("user_data", "userdata"):
            return None
        if not self.payload.readable:
            raise NotInSql
        if len(lower) > 1 and lower[1] == "header" and not parts[1].args.get("quoted"):
            return Path((str(parts[2].this),), header=True)
        return Path(tuple(str(part.this) for part in parts[1:]))


def _parts(node: Any) -> Sequence[Any]:
    """The names of a dotted name; none for anything else."""
    if not isinstance(node, (exp.Column, exp.Dot)):
        return ()
    parts: list[Any] = []
    while isinstance(node, exp.Dot):
        parts.append(node.args["expression"])
        node = node.this
    parts = [*(node.parts if isinstance(node, exp.Column) else [node]), *parts[::-1]]
    return parts if all(isinstance(part, exp.Identifier) for part in parts) else ()


def _key(part: Any) -> str:
    return str(part.this) if part.args.get("quoted") else str(part.this).lower()


def _asks_type(node: Any) -> bool:
    asked = node.args["expression"] if isinstance(node, exp.Dot) else None
    return isinstance(asked, exp.Anonymous) and str(asked.this).upper() == "GETTYPENAME"


def _within(piece: Piece) -> Piece:
    """The piece, unless it is too large: some nodes stand in the SQL twice, and nest."""
    size = len(piece.sql) + sum(len(guard.sql) for guard in piece.guards)
    number = len(piece.params) + sum(len(guard.params) for guard in piece.guards)
    if size > MAX_SQL or number > MAX_PARAMS:
        raise NotInSql
    return piece
