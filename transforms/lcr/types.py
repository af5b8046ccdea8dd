"""The types of logical change records: what a row or DDL change has to be to travel as ANYDATA.

Source: AQ guide 12.2 §22.2, PL/SQL packages reference (LCR$_ROW_RECORD, LCR$_ROW_UNIT, LCR$_DDL_RECORD).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Final

from mgw.transforms.objects import AnyData, ObjectValue
from mgw.transforms.payloads.scalar_types import Double, Interval, Moment, Number, Raw, Text
from mgw.transforms.payloads.sql_types import Attribute, Misfit, ObjectType, SqlType, Varray, dump_text, kind_of

__all__ = ["COLUMN_TYPES", "DDL", "DDL_LCR", "ROW", "ROW_LCR", "UNIT"]

ROW: Final = "SYS.LCR$_ROW_RECORD"
DDL: Final = "SYS.LCR$_DDL_RECORD"
UNIT: Final = "SYS.LCR$_ROW_UNIT"
MAX_COLUMNS: Final = 1000

#: What the value of a column may be: name of its type, and the type.
COLUMN_TYPES: Final = MappingProxyType(
    {
        "SYS.VARCHAR2": Text("VARCHAR2"),
        "SYS.NVARCHAR2": Text("NVARCHAR2"),
        "SYS.CHAR": Text("CHAR"),
        "SYS.NUMBER": Number(),
        "SYS.BINARY_DOUBLE": Double("BINARY_DOUBLE"),
        "SYS.RAW": Raw("RAW"),
        "SYS.DATE": Moment("DATE", 0),
        "SYS.TIMESTAMP": Moment("TIMESTAMP"),
        "SYS.TIMESTAMP_WITH_TIMEZONE": Moment("TIMESTAMP", 6, "TIME ZONE"),
        "SYS.TIMESTAMP_WITH_LTZ": Moment("TIMESTAMP", 6, "LOCAL TIME ZONE"),
        "SYS.INTERVAL_DAY_SECOND": Interval(False),
        "SYS.INTERVAL_YEAR_MONTH": Interval(True),
    }
)


@dataclass(frozen=True, slots=True)
class _ColumnData(SqlType):
    """The value of a column: ANYDATA of a scalar type; NULL keeps its type."""

    kind: ClassVar[str] = "ANYDATA"

    @property
    def text(self) -> str:
        return "ANYDATA"

    def fit(self, value: Any) -> AnyData:
        if not isinstance(value, AnyData):
            raise Misfit(f"ANYDATA is needed, this is {kind_of(value)}", "wrap it: wrap(value)")
        declared = COLUMN_TYPES.get(value.type_name)
        if declared is None:
            raise Misfit(
                f"a column of type {value.type_name} cannot be in a change record",
                f"use one of {', '.join(COLUMN_TYPES)}",
            )
        return AnyData(value.type_name, None if value.value is None else declared.fit(value.value))

    def dump(self, value: Any) -> str:
        return (
            f'{{"TYPE":{json.dumps(value.type_name)},"VALUE":{dump_text(COLUMN_TYPES[value.type_name], value.value)}}}'
        )

    def load(self, raw: Any) -> AnyData:
        value = raw["VALUE"]
        return AnyData(raw["TYPE"], None if value is None else COLUMN_TYPES[raw["TYPE"]].load(value))


def _attributes(*pairs: tuple[str, SqlType]) -> tuple[Attribute, ...]:
    return tuple(Attribute(name, declared) for name, declared in pairs)


_name, _text, _number = Text("VARCHAR2", 4000), Text("CLOB"), Number()
_ORIGIN = (("tag", Raw("RAW", 2000)), ("transaction_id", _name), ("scn", _number))
_UNIT = ObjectType(
    UNIT,
    _attributes(
        ("column_name", _name),
        ("data", _ColumnData()),
        ("lob_information", _name),
        ("lob_offset", _number),
        ("lob_operation_size", _number),
        ("long_information", _name),
    ),
)
_UNITS = Varray(MAX_COLUMNS, _UNIT, "SYS.LCR$_ROW_LIST")
#: Commands of a row change, and which lists of values it has: what must be there, what must not.
_COMMANDS: Final = {
    "INSERT": (("new_values",), ("old_values",)),
    "UPDATE": (("old_values", "new_values"), ()),
    "DELETE": (("old_values",), ("new_values",)),
    "LOB ERASE": (("new_values",), ()),
    "LOB WRITE": (("new_values",), ()),
    "LOB TRIM": (("new_values",), ()),
}


class _Record(ObjectType):
    """An LCR: an object that must name what it changes."""

    __slots__ = ()
    needed: ClassVar[tuple[str, ...]] = ()

    def fit(self, value: Any) -> ObjectValue:
        record = ObjectType.fit(self, value)
        for name in self.needed:
            if not record[name]:
                raise Misfit("a change record needs it", "give it", name)
        return record


class _RowRecord(_Record):
    __slots__ = ()
    needed: ClassVar[tuple[str, ...]] = ("source_database_name", "command_type", "object_owner", "object_name")

    def fit(self, value: Any) -> ObjectValue:
        record = _Record.fit(self, value)
        command = record["command_type"].upper()
        if command not in _COMMANDS:
            raise Misfit(f"{command[:40]!r} is no command", f"use {', '.join(_COMMANDS)}", "command_type")
        wanted, unwanted = _COMMANDS[command]
        for name in wanted:
            if not record[name]:
                raise Misfit(f"an {command} has such values", "give them", name)
        for name in unwanted:
            if record[name]:
                raise Misfit(f"an {command} has no such values", "leave them out", name)
        for name in ("old_values", "new_values"):
            for place, unit in enumerate(record[name] or ()):
                if unit is None or not unit["column_name"]:
                    raise Misfit("a value without the name of its column", "give column_name", f"{name}[{place}]")
        return record


class _DdlRecord(_Record):
    __slots__ = ()
    needed: ClassVar[tuple[str, ...]] = ("source_database_name", "command_type", "ddl_text")


ROW_LCR: Final = _RowRecord(
    ROW,
    _attributes(
        ("source_database_name", _name),
        ("command_type", _name),
        ("object_owner", _name),
        ("object_name", _name),
        *_ORIGIN,
        ("old_values", _UNITS),
        ("new_values", _UNITS),
    ),
)
DDL_LCR: Final = _DdlRecord(
    DDL,
    _attributes(
        ("source_database_name", _name),
        ("command_type", _name),
        ("current_schema", _name),
        ("ddl_text", _text),
        ("object_type", _name),
        ("object_owner", _name),
        ("object_name", _name),
        ("logon_user", _name),
        ("base_table_owner", _name),
        ("base_table_name", _name),
        *_ORIGIN,
    ),
)
