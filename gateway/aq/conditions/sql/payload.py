"""Payload attributes and headers as SQL, for the rule language; see :mod:`mgw.gateway.aq.conditions.sql.rules`.

Every piece stands on the message row ``m`` and is guarded: the row is left to Python where the database might read the
payload otherwise. It may not be JSON (to Python, or to the database), hold a name twice, be nested deeply, or hold a
value of another type than the condition needs. SQLite also leaves payloads with backslashes to Python: its releases
differ about escapes. Floating-point numbers written in decimal are only compared where the database's way of reading
them cannot matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from mgw.gateway.aq.conditions.sql.values import Guard, NotInSql, Piece, side_by_side
from mgw.gateway.aq.store.tables import MAX_BRACKETS, BodyType
from mgw.transforms.language.values import MAX_TEXT
from mgw.transforms.message import ValueType

__all__ = ["Path", "Payload"]

_CLOSE = 1e-9  # of the value: nearer than that, reading decimals decides
_TINY = 1e-290
_MANY = 20  # numbers to compare with; the decimals of a payload are left to Python where there are more
_NESTED = 3  # names in SQLite, each a query in a query: more would soon be too deep for it
_LEVELS = 16  # names in SQLite, each a table in the FROM clause

_TEXT_CODES = tuple(map(int, (ValueType.TEXT, ValueType.JSON, ValueType.DECIMAL)))
_BOOLEAN_CODES = (int(ValueType.BOOLEAN),)
_INTEGERS = (ValueType.BYTE, ValueType.SHORT, ValueType.INTEGER, ValueType.LONG)
_UNSIGNED = (ValueType.UBYTE, ValueType.USHORT, ValueType.UINT)
_INTEGER_CODES = tuple(map(int, (*_INTEGERS, *_UNSIGNED)))
_FLOAT_CODES = tuple(map(int, (ValueType.FLOAT, ValueType.DOUBLE, ValueType.DATE)))


class Path(NamedTuple):
    """An attribute of the payload by its names (none: the payload itself), or a header by its name."""

    names: tuple[str, ...]
    header: bool = False


class _Value(NamedTuple):
    """Where a value is: FROM clause of the one row that has it, and the SQL of the value and of its type there."""

    source: str
    params: tuple[Any, ...]
    value: str
    type: str
    guards: tuple[Guard, ...]
    typed: bool  # types are codes of header values, not names of JSON types


class Payload:
    """The payload of the message row ``m`` in one kind of database.

    Args:
        fields: every payload of the queue is FIELDS.
        readable: there is a row ``m``; otherwise the payload is left to Python.
    """

    def __init__(self, *, postgresql: bool, fields: bool, readable: bool = True) -> None:
        self.postgresql = postgresql
        self.fields = fields
        self.readable = readable

    # -- pieces ------------------------------------------------------------------------------------------------------

    def text(self, path: Path) -> Piece:
        """The value as text; guarded: it is text, or NULL."""
        if not path.names:
            return self._body()
        place = self._place(path)
        kinds = _codes(_TEXT_CODES) if place.typed else "('string')" if self.postgresql else "('text')"
        value = f"CASE WHEN {place.type} IN {kinds} THEN {self._as_text(place.value)} END"
        return self._piece(place, value, f"{place.type} IN {kinds}", "text", length=MAX_TEXT)

    def boolean(self, path: Path) -> Piece:
        """The value as truth; guarded: it is true, false or NULL."""
        if not path.names:
            raise NotInSql
        place = self._place(path)
        if place.typed:
            check = f"{place.type} IN {_codes(_BOOLEAN_CODES)}"
        else:
            check = f"{place.type} = 'boolean'" if self.postgresql else f"{place.type} IN ('true', 'false')"
        value = f"{place.value} = 'true'::jsonb" if self.postgresql else place.value
        return self._piece(place, f"CASE WHEN {check} THEN {value} END", check, "boolean")

    def is_null(self, path: Path) -> Piece:
        """Whether the value is NULL."""
        if not path.names:
            return Piece(
                f"(m.body_type IN ({int(BodyType.NONE)}, {int(BodyType.FIELDS)}))",
                guards=(Guard(f"(m.body_type IN ({', '.join(str(int(each)) for each in _KNOWN)}))"),),
            )
        place = self._place(path)
        null = "FALSE" if place.typed else f"{place.type} = 'null'"
        sql = f"coalesce((SELECT {null} {place.source}), TRUE)"
        return Piece(sql, place.params, guards=place.guards)

    def number(self, path: Path, comparisons: Sequence[tuple[str, int | float]], word: str) -> Piece:
        """The value compared with numbers; guarded: it is a number, or NULL, and its decimals do not matter."""
        if not path.names:
            raise NotInSql
        if any(isinstance(limit, int) and not -(2**63) <= limit < 2**63 for _, limit in comparisons):
            raise NotInSql
        place = self._place(path)
        value = self._as_number(place)
        mark = "?::numeric" if self.postgresql else "?"
        limits = [self._limit(limit) for _, limit in comparisons]
        near = limits if len(limits) <= _MANY else []
        far = " AND ".join([f"abs({value} - {mark}) > {mark}"] * len(near)) or "FALSE"
        margins: tuple[Any, ...] = ()
        for limit in near:
            margins += (limit, self._limit(abs(float(limit)) * _CLOSE + _TINY))
        if self.postgresql:
            exact = f"({value} = trunc({value}) AND abs({value}) <= {2**53})"
        else:
            exact = f"typeof({value}) = 'integer'"
        check = f"CASE WHEN {self._is_number(place)} THEN {exact} OR ({far}) ELSE FALSE END"
        if len(comparisons) > 1 and word == " OR " and all(operator == "=" for operator, _ in comparisons):
            tests = f"({value} IN ({', '.join([mark] * len(limits))}))"
        else:
            tests = side_by_side([f"({value} {operator} {mark})" for operator, _ in comparisons], word)
        sql = f"(SELECT CASE WHEN {self._is_number(place)} THEN {tests} END {place.source})"
        guard = self._check(place, check, margins)
        return Piece(sql, (*limits, *place.params), guards=(*place.guards, guard))

    def type_name(self) -> Piece:
        """``GetTypeName()``, which is stored for ANYDATA."""
        value = f"(CASE WHEN m.body_type = {int(BodyType.VALUE)} THEN m.type_name END)"
        stored = Guard(f"((m.body_type <> {int(BodyType.VALUE)}) OR m.type_name IS NOT NULL)")
        return Piece(f'({value} COLLATE "C")' if self.postgresql else value, (), "text", length=300, guards=(stored,))

    def _limit(self, limit: float) -> Any:
        return Decimal(limit) if self.postgresql else limit

    def _is_number(self, place: _Value) -> str:
        if place.typed and self.postgresql:
            return (
                f"({place.type} IN {_codes(_INTEGER_CODES + _FLOAT_CODES)} AND jsonb_typeof({place.value}) = 'number')"
            )
        if place.typed:
            numeric = f"typeof({place.value}) IN ('integer', 'real')"
            return f"({place.type} IN {_codes(_INTEGER_CODES + _FLOAT_CODES)} AND {numeric})"
        return f"{place.type} = 'number'" if self.postgresql else f"{place.type} IN ('integer', 'real')"

    def _as_number(self, place: _Value) -> str:
        if not self.postgresql:
            return place.value
        return f"(CASE WHEN jsonb_typeof({place.value}) = 'number' THEN ({place.value})::numeric END)"

    def _as_text(self, value: str) -> str:
        return f"{value} #>> ARRAY[]::text[]" if self.postgresql else value

    def _piece(self, place: _Value, value: str, check: str, kind: str, length: int = 0) -> Piece:
        sql = f"(SELECT {value} {place.source})"
        if kind == "text" and self.postgresql:
            sql = f'({sql} COLLATE "C")'
        guard = self._check(place, check, ())
        return Piece(sql, place.params, kind, length=length, guards=(*place.guards, guard))

    def _check(self, place: _Value, check: str, params: tuple[Any, ...]) -> Guard:
        """The value is missing, or NULL, or passes."""
        if not place.typed:
            check = f"CASE WHEN {place.type} = 'null' THEN TRUE ELSE {check} END"
        return Guard(f"coalesce((SELECT {check} {place.source}), TRUE)", params + place.params)

    def _body(self) -> Piece:
        raw, text = int(BodyType.RAW), int(BodyType.TEXT)
        if self.postgresql:
            value = f'(CASE WHEN m.body_type IN ({raw}, {text}) THEN aq_text(m.body) END COLLATE "C")'
        else:
            value = (
                f"(CASE WHEN instr(m.body, X'00') THEN NULL WHEN m.body_type = {text} THEN {_T}"
                f" WHEN m.body_type = {raw} AND {_ASCII} THEN {_T} END)"
            )
        known = f"(m.body_type IN ({int(BodyType.NONE)}, {int(BodyType.FIELDS)}) OR {value} IS NOT NULL)"
        return Piece(value, (), "text", length=MAX_TEXT, guards=(Guard(known),))

    # -- places ------------------------------------------------------------------------------------------------------

    def _place(self, path: Path) -> _Value:
        if path.header:
            return self._named(self._headers(), path.names[0])
        if any("\x00" in name for name in path.names):
            raise NotInSql
        if not self.fields:
            return self._member_postgresql(path) if self.postgresql else self._member_sqlite(path)
        if len(path.names) > 1:
            raise NotInSql
        return self._named(self._document("'[]'", BodyType.FIELDS), path.names[0])

    def _headers(self) -> str:
        if self.postgresql:
            return "(CASE WHEN m.headers IS NULL THEN '[]'::jsonb ELSE aq_json(convert_to(m.headers, 'UTF8')) END)"
        plain = "instr(m.headers, char(92)) = 0 AND json_valid(m.headers)"
        return f"(CASE WHEN m.headers IS NULL THEN '[]' WHEN {plain} THEN m.headers END)"

    def _document(self, empty: str, *types: BodyType) -> str:
        """The payload as JSON: NULL where it is left to Python, ``empty`` where there is none."""
        if self.postgresql:
            cases = " ".join(f"WHEN {int(each)} THEN aq_json(m.body)" for each in types)
            return f"(CASE m.body_type WHEN {int(BodyType.NONE)} THEN {empty}::jsonb {cases} END)"
        cases = " ".join(
            f"WHEN {int(each)} THEN CASE WHEN {_PLAIN}{f' AND {_ASCII}' if each is BodyType.RAW else ''} THEN {_T} END"
            for each in types
        )
        return f"(CASE m.body_type WHEN {int(BodyType.NONE)} THEN {empty} {cases} END)"

    def _named(self, document: str, name: str) -> _Value:
        """The first header or field of a name in ``[[name, type, value], ...]``."""
        if "\x00" in name:
            raise NotInSql
        readable = Guard(f"({document} IS NOT NULL)")
        if self.postgresql:
            source = (
                f"FROM jsonb_array_elements({document}) WITH ORDINALITY AS j(item, place)"
                " WHERE (j.item ->> 0) = ?::text ORDER BY j.place LIMIT 1"
            )
            return _Value(source, (name,), "(j.item -> 2)", "(j.item ->> 1)::int", (readable,), True)
        source = f"FROM json_each({document}) AS j WHERE json_extract(j.value, '$[0]') = ? ORDER BY j.key LIMIT 1"
        value, kind = "json_extract(j.value, '$[2]')", "json_extract(j.value, '$[1]')"
        return _Value(source, (name,), value, kind, (readable,), True)

    def _member_postgresql(self, path: Path) -> _Value:
        document = self._document("'{}'", BodyType.RAW, BodyType.TEXT)
        steps = " -> ?::text" * len(path.names)
        source = f"FROM (SELECT ({document}{steps}) AS item OFFSET 0) AS j WHERE j.item IS NOT NULL"
        readable = Guard(f"({document} IS NOT NULL)")
        return _Value(source, path.names, "j.item", "jsonb_typeof(j.item)", (readable,), False)

    def _member_sqlite(self, path: Path) -> _Value:
        """Objects within objects: queries within queries while there are few, which is faster, else tables in a row."""
        levels = len(path.names)
        if levels > _LEVELS:
            raise NotInSql
        document = self._document("'{}'", BodyType.RAW, BodyType.TEXT)
        guards = [Guard(f"({document} IS NOT NULL)")]
        before: list[str] = []
        keys: list[str] = []
        source = ""
        for level in range(levels):
            last = f"FROM {''.join(before)}json_each({document}) AS j WHERE {''.join(keys)}j.key = ?"
            guards.append(Guard(f"((SELECT count(*) {last}) < 2)", path.names[: level + 1]))
            source = last
            if levels <= _NESTED:
                document = f"(SELECT j.value {last} AND j.type = 'object')"
            else:
                name = f"j{level}"
                before.append(f"json_each({document}) AS {name}, ")
                keys.append(f"{name}.key = ? AND ")
                document = f"CASE {name}.type WHEN 'object' THEN {name}.value END"
        return _Value(source, path.names, "j.value", "j.type", tuple(guards), False)


_KNOWN = (BodyType.NONE, BodyType.RAW, BodyType.TEXT, BodyType.FIELDS)
_T = "CAST(m.body AS TEXT)"
_ASCII = f"({_T} NOT GLOB '*[^' || char(1) || '-' || char(127) || ']*')"
_PLAIN = (
    f"instr(m.body, X'00') = 0 AND instr({_T}, char(92)) = 0 AND json_valid({_T})"
    f" AND length({_T}) - length(replace(replace({_T}, '[', ''), '{{', '')) <= {MAX_BRACKETS}"
)


def _codes(codes: Sequence[int]) -> str:
    return "(" + ", ".join(map(str, codes)) + ")"
