"""Declared types of payloads: what a value has to be, and its form in storage (AQ guide 12.2 §2.2, §22.1).

A type *fits* a Python value (gives the value as a consumer will see it, or refuses it), *dumps* a fitted value as JSON
text, and *loads* it again; dump and load lose nothing. None is NULL and fits every type.

=====================================  ==============================================================================
VARCHAR2, NVARCHAR2, CHAR, CLOB        ``str``; ``VARCHAR2(n)`` counts characters, ``VARCHAR2(n BYTE)`` bytes of UTF-8;
                                       ``CHAR(n)`` is filled up with blanks
NUMBER, NUMBER(p), NUMBER(p,s)         ``int``; ``Decimal`` where the scale is above 0 or the value no integer
FLOAT, BINARY_DOUBLE                   ``float``; only BINARY_DOUBLE holds NaN and infinity
DATE                                   ``datetime`` without zone, whole seconds
TIMESTAMP(n)                           ``datetime`` without zone
TIMESTAMP(n) WITH TIME ZONE            ``datetime`` with its offset; WITH LOCAL TIME ZONE: in UTC
INTERVAL DAY TO SECOND                 ``timedelta``
INTERVAL YEAR TO MONTH                 ``int``, a number of months
RAW(n), BLOB                           ``bytes``
BOOLEAN                                ``bool``
JSON                                   ``dict``, ``list``, ``str``, ``int``, ``float``, ``bool``
XMLTYPE                                ``str`` that is well-formed
VARRAY(n) OF type                      ``tuple`` of at most n elements
an object type                         :class:`mgw.transforms.objects.ObjectValue`
=====================================  ==============================================================================

A text that spells a value is taken for it, as SQL does: a number, ISO 8601 for dates, hexadecimal for RAW. Nothing is
rounded or cut off: a value that does not fit exactly is refused.
"""

from __future__ import annotations

import base64
import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

from mgw.transforms.objects import JsonNumber, ObjectValue

__all__ = ["Attribute", "Misfit", "NamedType", "ObjectType", "SqlType", "Varray", "load_text"]

MAX_ATTRIBUTES = 900  # AQ guide 12.2 §2.2


class Misfit(Exception):
    """A value that does not fit a type; ``path`` names the attribute within the object, empty for the value itself."""

    def __init__(self, cause: str, cure: str = "correct the value", path: str = "") -> None:
        super().__init__(cause)
        self.cause = cause
        self.cure = cure
        self.path = path

    def inside(self, name: str) -> Misfit:
        """The same one level further up."""
        joint = "" if not self.path or self.path.startswith("[") else "."
        return Misfit(self.cause, self.cure, f"{name}{joint}{self.path}")


class SqlType(ABC):
    """A declared type; ``text`` is its declaration."""

    __slots__ = ()
    kind: ClassVar[str] = ""

    @property
    @abstractmethod
    def text(self) -> str:
        """The type as it is declared."""

    @abstractmethod
    def fit(self, value: Any) -> Any:
        """A value (not None) as this type holds it.

        Raises:
            Misfit: it does not fit.
        """

    @abstractmethod
    def dump(self, value: Any) -> str:
        """JSON text of a fitted value (not None)."""

    @abstractmethod
    def load(self, raw: Any) -> Any:
        """The value from parsed JSON (not None; numbers with a fraction as Decimal)."""

    def definition(self) -> Any:
        """The type as JSON for :func:`mgw.transforms.payloads.sql_types_parser.from_definition`."""
        return self.text

    def parts(self) -> Iterator[SqlType]:
        """This type and all it is made of."""
        yield self


def load_text(declared: SqlType, text: str | bytes) -> Any:
    """The value in the JSON text that ``declared.dump`` made; ``null`` is None."""
    raw = json.loads(text, parse_float=Decimal)
    return None if raw is None else declared.load(raw)


def dump_text(declared: SqlType, value: Any) -> str:
    """JSON text of a fitted value; None is ``null``."""
    return "null" if value is None else declared.dump(value)


@dataclass(frozen=True, slots=True)
class Varray(SqlType):
    """An array of at most ``limit`` elements; ``name`` is ``SCHEMA.NAME`` if it was created as a type of its own."""

    limit: int
    element: SqlType
    name: str = ""

    kind: ClassVar[str] = "VARRAY"

    @property
    def text(self) -> str:
        return self.name or self.declaration

    @property
    def declaration(self) -> str:
        """``VARRAY(n) OF type``, whether it has a name or not."""
        return f"VARRAY({self.limit}) OF {self.element.text}"

    def fit(self, value: Any) -> tuple[Any, ...]:
        if not isinstance(value, (list, tuple)):
            raise Misfit(f"a list is needed, this is {_kind_of(value)}")
        if len(value) > self.limit:
            raise Misfit(f"it has {len(value)} elements, at most {self.limit} are allowed", "send fewer elements")
        fitted = []
        for index, each in enumerate(value):
            try:
                fitted.append(None if each is None else self.element.fit(each))
            except Misfit as problem:
                raise problem.inside(f"[{index}]") from None
        return tuple(fitted)

    def dump(self, value: Any) -> str:
        return f"[{','.join(dump_text(self.element, each) for each in value)}]"

    def load(self, raw: Any) -> tuple[Any, ...]:
        return tuple(None if each is None else self.element.load(each) for each in raw)

    def definition(self) -> Any:
        made: dict[str, Any] = {"varray": self.limit, "of": self.element.definition()}
        return {"name": self.name, **made} if self.name else made

    def parts(self) -> Iterator[SqlType]:
        yield self
        yield from self.element.parts()

    @property
    def shape(self) -> str:
        """As :attr:`ObjectType.shape`."""
        return _digest([self.limit, self.element.definition()])


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute of an object type."""

    name: str
    type: SqlType


@dataclass(frozen=True, slots=True)
class ObjectType(SqlType):
    """An object type (AQ guide 12.2 §2.2); ``name`` is ``SCHEMA.NAME`` in upper case."""

    name: str
    attributes: tuple[Attribute, ...]

    kind: ClassVar[str] = "OBJECT"

    @property
    def text(self) -> str:
        return self.name

    def fit(self, value: Any) -> ObjectValue:
        if not isinstance(value, Mapping):
            raise Misfit(f"an object of type {self.name} is needed, this is {_kind_of(value)}")
        if isinstance(value, ObjectValue) and not self.is_named(value.type_name):
            raise Misfit(f"an object of type {self.name} is needed, this is a {value.type_name}")
        given: dict[str, str] = {}
        for name in value:
            upper = name.upper() if isinstance(name, str) else repr(name)
            if upper in given:
                raise Misfit("it is given twice", "give every attribute once", str(name))
            given[upper] = name
        fitted: dict[str, Any] = {}
        for attribute in self.attributes:
            name = given.pop(attribute.name.upper(), None)
            each = None if name is None else value[name]
            try:
                fitted[attribute.name] = None if each is None else attribute.type.fit(each)
            except Misfit as problem:
                raise problem.inside(attribute.name) from None
        if given:
            known = ", ".join(attribute.name for attribute in self.attributes[:20])
            raise Misfit(
                f"type {self.name} has no such attribute",
                f"its attributes are {known}",
                str(min(given.values(), key=str)),
            )
        return ObjectValue(self.name, fitted)

    def is_named(self, name: str) -> bool:
        """Whether ``[schema.]name`` (upper case) is this type."""
        return name == self.name or name == self.name.partition(".")[2]

    def dump(self, value: Any) -> str:
        parts = [f"{json.dumps(a.name.upper())}:{dump_text(a.type, value[a.name])}" for a in self.attributes]
        return "{" + ",".join(parts) + "}"

    def load(self, raw: Any) -> ObjectValue:
        values = {}
        for attribute in self.attributes:
            each = raw[attribute.name.upper()]
            values[attribute.name] = None if each is None else attribute.type.load(each)
        return ObjectValue(self.name, values)

    def definition(self) -> Any:
        return {"name": self.name, "attributes": [[a.name, a.type.definition()] for a in self.attributes]}

    def parts(self) -> Iterator[SqlType]:
        yield self
        for attribute in self.attributes:
            yield from attribute.type.parts()

    @property
    def shape(self) -> str:
        """Digest of names and types of the attributes, nested ones included: equal exactly for identical types."""
        return _digest([[a.name.upper(), a.type.definition()] for a in self.attributes])


#: A type that ``create_type`` makes.
NamedType = ObjectType | Varray


def _digest(definition: Any) -> str:
    text = json.dumps(definition, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _kind_of(value: Any) -> str:
    if isinstance(value, ObjectValue):
        return f"an object of type {value.type_name}"
    names: dict[type, str] = {
        str: "text", bytes: "raw bytes", bool: "a boolean", int: "a number", float: "a number", Decimal: "a number",
        JsonNumber: "a number",
        dict: "a mapping", list: "a list", tuple: "a list",
    }  # fmt: skip
    return names.get(type(value), f"a {type(value).__name__}")


def kind_of(value: Any) -> str:
    """What a value is, in the words of an error."""
    return _kind_of(value)


def encode_raw(value: bytes, *, large: bool) -> str:
    """Raw bytes as text: hexadecimal, as SQL shows them; base64 for large objects."""
    return base64.b64encode(value).decode("ascii") if large else value.hex().upper()
