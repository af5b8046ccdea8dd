"""Values that say themselves what they are: the payload of ANYDATA queues (AQ guide 12.2 §22.1).

::

    session.enqueue("anything", Message(wrap("text")))                      # SYS.VARCHAR2
    session.enqueue("anything", Message(wrap("16", "NUMBER")))              # SYS.NUMBER
    session.enqueue("anything", Message(wrap({"city": "Bonn"}, "OE.ADDRESS")))
    unwrap(session.dequeue("anything").message.body, "VARCHAR2")            # "text"

Subscriber rules see the type name as ``tab.user_data.GetTypeName()``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

from mgw.gateway.aq.errors import AnyDataMismatch
from mgw.gateway.aq.names import qualified
from mgw.transforms.lcr import DDL, DDL_LCR, ROW, ROW_LCR
from mgw.transforms.message import Header, check_fields, decode_headers, encode_headers
from mgw.transforms.objects import AnyData, ObjectValue
from mgw.transforms.payloads.jms import JMS_KINDS
from mgw.transforms.payloads.scalar_types import Boolean, Double, Interval, Json, Moment, Number, Raw, Text, Xml
from mgw.transforms.payloads.sql_types import Misfit, SqlType

__all__ = ["SCALARS", "AnyData", "Scalar", "canonical_type", "is_lcr", "type_name", "unwrap", "wrap"]


@dataclass(frozen=True, slots=True)
class _Fields(SqlType):
    """The body of a JMS MapMessage or StreamMessage: typed fields."""

    kind: ClassVar[str] = "FIELDS"

    @property
    def text(self) -> str:
        return "FIELDS"

    def fit(self, value: Any) -> tuple[Header, ...]:
        if not isinstance(value, tuple) or not all(type(each) is Header for each in value):
            raise Misfit("a tuple of Header is needed")
        try:
            check_fields(value)
            encode_headers(value)
        except Exception as error:
            raise Misfit(str(error)[:300]) from None
        return value

    def dump(self, value: Any) -> str:
        return json.dumps(encode_headers(value) or "[]")

    def load(self, raw: Any) -> tuple[Header, ...]:
        return decode_headers(raw)


class Scalar(NamedTuple):
    """A type of the hub's own that ANYDATA wraps: its code in storage, and what its values have to be."""

    code: int
    type: SqlType
    jms: bool = False  # needs enable_jms_types


#: Type name to type. Codes are stored with messages and never change.
SCALARS = MappingProxyType(
    {
        "SYS.VARCHAR2": Scalar(-1, Text("VARCHAR2")),
        "SYS.NVARCHAR2": Scalar(-2, Text("NVARCHAR2")),
        "SYS.CHAR": Scalar(-3, Text("CHAR")),
        "SYS.RAW": Scalar(-4, Raw("RAW")),
        "SYS.NUMBER": Scalar(-5, Number()),
        "SYS.FLOAT": Scalar(-6, Double("FLOAT")),
        "SYS.BINARY_DOUBLE": Scalar(-7, Double("BINARY_DOUBLE")),
        "SYS.DATE": Scalar(-8, Moment("DATE", 0)),
        "SYS.TIMESTAMP": Scalar(-9, Moment("TIMESTAMP")),
        "SYS.TIMESTAMP_WITH_TIMEZONE": Scalar(-10, Moment("TIMESTAMP", 6, "TIME ZONE")),
        "SYS.TIMESTAMP_WITH_LTZ": Scalar(-11, Moment("TIMESTAMP", 6, "LOCAL TIME ZONE")),
        "SYS.INTERVAL_DAY_SECOND": Scalar(-12, Interval(False)),
        "SYS.INTERVAL_YEAR_MONTH": Scalar(-13, Interval(True)),
        "SYS.CLOB": Scalar(-14, Text("CLOB")),
        "SYS.BLOB": Scalar(-15, Raw("BLOB")),
        "SYS.BOOLEAN": Scalar(-16, Boolean()),
        "SYS.JSON": Scalar(-17, Json()),
        "SYS.XMLTYPE": Scalar(-18, Xml(), True),
        JMS_KINDS["TEXT"]: Scalar(-19, Text("CLOB"), True),
        JMS_KINDS["BYTES"]: Scalar(-20, Raw("BLOB"), True),
        JMS_KINDS["OBJECT"]: Scalar(-21, Raw("BLOB"), True),
        JMS_KINDS["MAP"]: Scalar(-22, _Fields(), True),
        JMS_KINDS["STREAM"]: Scalar(-23, _Fields(), True),
        ROW: Scalar(-24, ROW_LCR),
        DDL: Scalar(-25, DDL_LCR),
    }
)
_SPELLINGS = {
    "TIMESTAMP WITH TIME ZONE": "SYS.TIMESTAMP_WITH_TIMEZONE",
    "TIMESTAMP WITH LOCAL TIME ZONE": "SYS.TIMESTAMP_WITH_LTZ",
    "INTERVAL DAY TO SECOND": "SYS.INTERVAL_DAY_SECOND",
    "INTERVAL YEAR TO MONTH": "SYS.INTERVAL_YEAR_MONTH",
    "VARCHAR": "SYS.VARCHAR2",
    "DOUBLE PRECISION": "SYS.FLOAT",
}
_NEVER = {
    "NCLOB": "use CLOB",
    "ROWID": "wrap it as VARCHAR2",
    "UROWID": "wrap it as VARCHAR2",
    "BFILE": "wrap the content as BLOB",
    "BINARY_FLOAT": "use BINARY_DOUBLE",
    "ANYDATA": "wrap the value itself",
}


def canonical_type(name: str, schema: str = "MGW") -> str:
    """The name ``GetTypeName()`` has for a type: ``number`` is ``SYS.NUMBER``, ``oe.address`` is ``OE.ADDRESS``.

    Raises:
        AqError: 22626 a type that can never be wrapped; 25200 the name is not valid.
    """
    plain = " ".join(name.split()).upper()
    if plain in _SPELLINGS:
        return _SPELLINGS[plain]
    bare = plain.removeprefix("SYS.")
    if f"SYS.{bare}" in SCALARS:
        return f"SYS.{bare}"
    if bare in _NEVER or bare.startswith(("TABLE OF ", "NESTED TABLE")):
        raise AnyDataMismatch(
            f"a value of type {bare} cannot be wrapped",
            cause="ANYDATA cannot hold nested tables, NCLOB, files or row addresses",
            cure=_NEVER.get(bare, "wrap a VARRAY"),
        )
    return qualified(name, schema, what="type").key


def _natural(value: Any) -> str:
    """The type of a value that was wrapped without naming one."""
    if isinstance(value, ObjectValue):
        return value.type_name
    if isinstance(value, datetime):
        return "SYS.TIMESTAMP" if value.utcoffset() is None else "SYS.TIMESTAMP_WITH_TIMEZONE"
    found = _NATURAL.get(type(value))
    if found is None:
        raise AnyDataMismatch(
            f"a value of type {type(value).__name__} cannot be wrapped without a type",
            cause="the value does not determine its SQL type",
            cure="name the type: wrap(value, 'NUMBER')",
        )
    return found


_NATURAL: dict[type, str] = {
    str: "SYS.VARCHAR2",
    bool: "SYS.BOOLEAN",
    int: "SYS.NUMBER",
    Decimal: "SYS.NUMBER",
    float: "SYS.BINARY_DOUBLE",
    bytes: "SYS.RAW",
    date: "SYS.DATE",
    timedelta: "SYS.INTERVAL_DAY_SECOND",
    dict: "SYS.JSON",
    list: "SYS.JSON",
}


def wrap(value: Any, type: str | None = None, *, schema: str = "MGW") -> AnyData:  # noqa: A002
    """A value as ANYDATA (the ``Convert`` functions of AQ guide 12.2 §22.1.1).

    Args:
        value: what to wrap; a mapping for an object, None for NULL of the type.
        type: its SQL type; by default the one that fits the Python value: VARCHAR2, NUMBER, BINARY_DOUBLE, BOOLEAN,
            RAW, DATE, TIMESTAMP (WITH TIME ZONE), INTERVAL DAY TO SECOND, JSON, or the type of the object.
        schema: schema of a plain object type name.

    Raises:
        AqError: 22626 the value is not of that type, or the type can never be wrapped. Objects are checked against
            their type when they are enqueued.
    """
    name = canonical_type(_natural(value) if type is None else type, schema)
    scalar = SCALARS.get(name)
    if scalar is None:
        return AnyData(name, ObjectValue(name, value) if isinstance(value, dict) else value)
    try:
        return AnyData(name, None if value is None else scalar.type.fit(value))
    except Misfit as problem:
        raise AnyDataMismatch(
            f"the value cannot be wrapped as {name}", cause=problem.cause, cure=problem.cure
        ) from None


def type_name(value: AnyData) -> str:
    """``GetTypeName()``: ``SCHEMA.TYPE`` of an object, ``SYS.<SCALAR>`` of a scalar."""
    return value.type_name


def unwrap(value: Any, type: str, *, schema: str = "MGW") -> Any:  # noqa: A002
    """The wrapped value, which must be of ``type`` (``GetObject`` and the other ``Get`` functions).

    Raises:
        AqError: 22626 it is of another type, or not ANYDATA.
    """
    wanted = canonical_type(type, schema)
    if not isinstance(value, AnyData):
        raise AnyDataMismatch(
            f"the value cannot be unwrapped as {wanted}",
            cause=f"it is not ANYDATA ({value.__class__.__name__})",
            cure="unwrap the body of a message of an ANYDATA queue",
        )
    if value.type_name != wanted:
        raise AnyDataMismatch(
            f"the value cannot be unwrapped as {wanted}",
            cause=f"it is of type {value.type_name}",
            cure="check type_name first",
        )
    return value.value


def is_lcr(value: AnyData) -> bool:
    """Whether the value is a logical change record (AQ guide 12.2 §22.1)."""
    return value.type_name in (ROW, DDL)
