"""Reading the declaration of a type: ``VARCHAR2(30)``, ``VARRAY(10) OF NUMBER``, ``OE.ADDRESS``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from mgw.transforms.payloads.scalar_types import Boolean, Double, Interval, Json, Moment, Number, Raw, Text, Xml
from mgw.transforms.payloads.sql_types import Attribute, NamedType, ObjectType, SqlType, Varray

__all__ = ["MAX_NESTING", "DeclarationInvalid", "from_definition", "parse_scalar", "parse_type"]

MAX_NESTING = 32
MAX_DECLARATION = 1000  # characters
_MAX_TEXT, _MAX_CHAR, _MAX_RAW = 32767, 2000, 32767


class DeclarationInvalid(ValueError):
    """A type that cannot be declared; ``cure`` says what to write instead."""

    def __init__(self, cause: str, cure: str = "use a type that the documentation lists") -> None:
        super().__init__(cause)
        self.cause = cause
        self.cure = cure


class _Size(NamedTuple):
    first: int | None
    second: int | None
    unit: str


def _bounded(name: str, size: int | None, low: int, high: int) -> int:
    if size is None:
        raise DeclarationInvalid(f"{name} has no size", f"write {name}({high}) or less")
    if not low <= size <= high:
        raise DeclarationInvalid(f"the size of {name} is {size}", f"{low} to {high} are possible")
    return size


def _text(name: str, high: int) -> Callable[[_Size], SqlType]:
    def build(size: _Size) -> SqlType:
        limit = _bounded(name, size.first, 1, high)
        return Text(name, limit, size.unit == "BYTE")

    return build


def _number(size: _Size) -> SqlType:
    if size.first is None:
        return Number()
    return Number(_bounded("NUMBER", size.first, 1, 38), _bounded("the scale of NUMBER", size.second or 0, -84, 127))


def _char(size: _Size) -> SqlType:
    return _text("CHAR", _MAX_CHAR)(size._replace(first=size.first or 1))


def _nchar(size: _Size) -> SqlType:
    return _text("NCHAR", _MAX_CHAR)(size._replace(first=size.first or 1))


def _raw(size: _Size) -> SqlType:
    return Raw("RAW", _bounded("RAW", size.first, 1, _MAX_RAW))


def _moment(zone: str) -> Callable[[_Size], SqlType]:
    def build(size: _Size) -> SqlType:
        digits = 6 if size.first is None else _bounded("TIMESTAMP", size.first, 0, 9)
        return Moment("TIMESTAMP", min(digits, 6), zone)

    return build


#: Name -> what makes the type of its sizes.
_SIZED: Mapping[str, Callable[[_Size], SqlType]] = {
    "VARCHAR2": _text("VARCHAR2", _MAX_TEXT),
    "VARCHAR": _text("VARCHAR2", _MAX_TEXT),
    "NVARCHAR2": _text("NVARCHAR2", _MAX_TEXT),
    "CHAR": _char,
    "NCHAR": _nchar,
    "NUMBER": _number,
    "NUMERIC": _number,
    "DECIMAL": _number,
    "FLOAT": lambda _size: Double("FLOAT"),
    "RAW": _raw,
    "TIMESTAMP": _moment(""),
    "TIMESTAMP WITH TIME ZONE": _moment("TIME ZONE"),
    "TIMESTAMP WITH LOCAL TIME ZONE": _moment("LOCAL TIME ZONE"),
}
_PLAIN: Mapping[str, SqlType] = {
    "INTEGER": Number(38, 0),
    "INT": Number(38, 0),
    "SMALLINT": Number(38, 0),
    "BINARY_DOUBLE": Double("BINARY_DOUBLE"),
    "DOUBLE PRECISION": Double("FLOAT"),
    "DATE": Moment("DATE", 0),
    "CLOB": Text("CLOB"),
    "NCLOB": Text("NCLOB"),
    "BLOB": Raw("BLOB"),
    "BOOLEAN": Boolean(),
    "JSON": Json(),
    "XMLTYPE": Xml(),
    "SYS.XMLTYPE": Xml(),
    "INTERVAL DAY TO SECOND": Interval(False),
    "INTERVAL YEAR TO MONTH": Interval(True),
}
_REFUSED = {
    "BFILE": "files outside the database cannot be part of a message",
    "ROWID": "row addresses cannot be part of a message",
    "UROWID": "row addresses cannot be part of a message",
    "ANYDATA": "an object cannot hold ANYDATA",
    "SYS.ANYDATA": "an object cannot hold ANYDATA",
    "BINARY_FLOAT": "32-bit numbers would be rounded",
    "LONG": "it cannot be the type of an attribute",
    "LONG RAW": "it cannot be the type of an attribute",
}
_NEVER = {
    "TABLE OF ": ("nested tables cannot be part of a payload", "use VARRAY(n) OF the type"),
    "NESTED TABLE": ("nested tables cannot be part of a payload", "use VARRAY(n) OF the type"),
    "REF ": ("references cannot be part of a message", "nest the object itself"),
}
_FORM = re.compile(
    r"(?P<name>[A-Z_][A-Z0-9_.$#]*(?: PRECISION| RAW)?)"
    r"(?:\s*\(\s*(?P<first>\d+|\*)\s*(?:,\s*(?P<second>-?\d+)\s*)?(?P<unit>\s(?:BYTE|CHAR))?\s*\))?"
    r"(?P<zone> WITH(?: LOCAL)? TIME ZONE)?",
    re.ASCII,
)
_INTERVAL = re.compile(
    r"INTERVAL (?:DAY(?: ?\(\d\))? TO SECOND(?: ?\(\d\))?|(?P<year>YEAR)(?: ?\(\d\))? TO MONTH)", re.ASCII
)
_VARRAY = re.compile(r"(?:VARRAY|VARYING ARRAY) ?\( ?(\d{1,10}) ?\) OF (.+)", re.ASCII | re.IGNORECASE)


def parse_scalar(text: str) -> SqlType:
    """A scalar type.

    Raises:
        DeclarationInvalid: it is none.
    """
    return parse_type(text, _no_types)


def _no_types(name: str) -> NamedType:
    raise DeclarationInvalid(f"{name} is not a scalar type")


def parse_type(text: str, resolve: Callable[[str], NamedType]) -> SqlType:
    """The type declared by ``text``; ``resolve`` gives the types that have names of their own.

    Raises:
        DeclarationInvalid: it is not a type, or not one that a payload may have.
    """
    if not isinstance(text, str) or not text.strip() or len(text) > MAX_DECLARATION:
        raise DeclarationInvalid(f"{str(text)[:60]!r} is not a type")
    single = " ".join(text.split())
    if found := _VARRAY.fullmatch(single):
        return Varray(_bounded("VARRAY", int(found[1]), 1, 2**31 - 1), parse_type(found[2], resolve))
    if found := _INTERVAL.fullmatch(single.upper()):
        return Interval(months=found["year"] is not None)
    return _plain_type(single) or resolve(single)


def _plain_type(text: str) -> SqlType | None:
    """The scalar type, or None when the text may be the name of a type."""
    plain = text.upper()
    for start, (cause, cure) in _NEVER.items():
        if plain.startswith(start):
            raise DeclarationInvalid(cause, cure)
    found = _FORM.fullmatch(plain)
    if found is None:
        return None
    name = found["name"] + (found["zone"] or "")
    if name in _REFUSED:
        raise DeclarationInvalid(f"{name} cannot be used: {_REFUSED[name]}")
    if build := _SIZED.get(name):
        return build(_size(found))
    if found["first"] is not None or found["zone"]:
        raise DeclarationInvalid(f"{text} is not a type")
    return _PLAIN.get(name)


def _size(found: re.Match[str]) -> _Size:
    first: Any = found["first"]
    if first == "*":
        first = "38"
    second = found["second"]
    return _Size(
        None if first is None else int(first), None if second is None else int(second), (found["unit"] or "").strip()
    )


def from_definition(definition: Any) -> SqlType:
    """The type that :meth:`SqlType.definition` described."""
    if isinstance(definition, str):
        return parse_scalar(definition)
    if "varray" in definition:
        return Varray(definition["varray"], from_definition(definition["of"]), definition.get("name", ""))
    attributes = tuple(Attribute(name, from_definition(each)) for name, each in definition["attributes"])
    return ObjectType(definition["name"], attributes)
