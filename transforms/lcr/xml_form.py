"""Logical change records as XML documents, and back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final

from mgw.transforms.errors import ConversionFailure
from mgw.transforms.lcr.moments import DATE_FORMAT, TIMESTAMP_FORMAT, ZONED_FORMAT, read_moment, write_moment
from mgw.transforms.lcr.types import COLUMN_TYPES, DDL_LCR, ROW_LCR, UNIT
from mgw.transforms.objects import AnyData, ObjectValue
from mgw.transforms.payloads.sql_types import Misfit, ObjectType
from mgw.transforms.payloads.xml_text import parse_xml

__all__ = ["NAMESPACE", "lcr_to_xml", "xml_to_lcr"]

NAMESPACE: Final = "http://xmlns.oracle.com/streams/schemas/lcr"
_XSI: Final = "http://www.w3.org/2001/XMLSchema-instance"
_NIL: Final = f"{{{_XSI}}}nil"
_RECORDS: Final[dict[str, ObjectType]] = {"ROW_LCR": ROW_LCR, "DDL_LCR": DDL_LCR}
#: Element of a value to the type of ANYDATA it stands for.
_ELEMENTS: Final = {
    "varchar2": "SYS.VARCHAR2",
    "nvarchar2": "SYS.NVARCHAR2",
    "char": "SYS.CHAR",
    "number": "SYS.NUMBER",
    "binary_double": "SYS.BINARY_DOUBLE",
    "raw": "SYS.RAW",
    "date": "SYS.DATE",
    "timestamp": "SYS.TIMESTAMP",
    "timestamp_tz": "SYS.TIMESTAMP_WITH_TIMEZONE",
    "timestamp_ltz": "SYS.TIMESTAMP_WITH_LTZ",
    "interval_ds": "SYS.INTERVAL_DAY_SECOND",
    "interval_ym": "SYS.INTERVAL_YEAR_MONTH",
}
_NAMES: Final = {name: element for element, name in _ELEMENTS.items()}
_FORMATS: Final = {
    "date": DATE_FORMAT,
    "timestamp": TIMESTAMP_FORMAT,
    "timestamp_tz": ZONED_FORMAT,
    "timestamp_ltz": ZONED_FORMAT,
}
_LISTS: Final = {"old_values": "old_value", "new_values": "new_value"}


# -- to XML ----------------------------------------------------------------------------------------------------------


def lcr_to_xml(value: Any) -> str:
    """The XML document of a row or DDL change (``DBMS_MGWMSG.LCR_TO_XML``, AQ guide 12.2 §20.1.5).

    Args:
        value: ANYDATA that holds an LCR, or the LCR itself.

    Raises:
        ConversionFailure: it is no LCR, or holds a character that XML does not have.
    """
    from lxml import etree

    record = value.value if isinstance(value, AnyData) else value
    name = record.type_name if isinstance(record, ObjectValue) else getattr(value, "type_name", type(value).__name__)
    element = next((each for each, declared in _RECORDS.items() if declared.name == name), None)
    if element is None or not isinstance(record, ObjectValue):
        raise ConversionFailure(
            f"a value of type {name} cannot be written as the XML of a change record",
            cause="it is no logical change record (LCR)",
            cure="let only LCRs into this job: a subscriber rule tab.user_data.GetTypeName() IN (...) or a filter",
        )
    try:
        record = _RECORDS[element].fit(record)
        root = etree.Element(f"{{{NAMESPACE}}}{element}", nsmap={None: NAMESPACE, "xsi": _XSI})
        for attribute in _RECORDS[element].attributes:
            _write(root, attribute.name, record[attribute.name])
        return str(etree.tostring(root, encoding="unicode"))
    except (Misfit, ValueError) as error:
        at = f"{error.path}: " if isinstance(error, Misfit) and error.path else ""
        raise ConversionFailure(
            f"a change record cannot be written as XML ({element})",
            cause=f"{at}{error}",
            cure="correct it where it is made",
        ) from None


def _add(parent: Any, name: str, text: str | None = None) -> Any:
    from lxml import etree

    child = etree.SubElement(parent, f"{{{NAMESPACE}}}{name}")
    child.text = text
    return child


def _write(root: Any, name: str, value: Any) -> None:
    if name in _LISTS:
        if value:
            parent = _add(root, name)
            for unit in value:
                _write_unit(_add(parent, _LISTS[name]), unit)
    elif value is not None:
        _add(root, name, value.hex().upper() if isinstance(value, bytes) else str(value))
    elif name in ("command_type", "object_owner", "object_name", "source_database_name"):
        _add(root, name, "")


def _write_unit(parent: Any, unit: Mapping[str, Any]) -> None:
    _add(parent, "column_name", unit["column_name"])
    data = unit["data"]
    if data is not None:
        element = _NAMES[data.type_name]
        child = _add(_add(parent, "data"), element)
        if data.value is None:
            child.set(_NIL, "true")
        elif element in _FORMATS:
            form = _FORMATS[element]
            _add(child, "value", write_moment(data.value, form))
            _add(child, "format", form)
        else:
            child.text = _WRITERS.get(element, str)(data.value)
    for name in ("lob_information", "lob_offset", "lob_operation_size", "long_information"):
        if unit[name] is not None:
            _add(parent, name, str(unit[name]))


def _days(value: timedelta) -> str:
    sign, value = ("-", -value) if value < timedelta() else ("+", value)
    seconds = value.seconds
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{value.microseconds:06}"
    return f"{sign}{value.days:02} {clock}"


def _months(value: int) -> str:
    return f"{'-' if value < 0 else '+'}{abs(value) // 12:02}-{abs(value) % 12:02}"


_WRITERS: Final[dict[str, Callable[[Any], str]]] = {
    "raw": lambda value: value.hex().upper(),
    "binary_double": repr,
    "interval_ds": _days,
    "interval_ym": _months,
}


# -- from XML --------------------------------------------------------------------------------------------------------


def xml_to_lcr(text: str | bytes) -> AnyData:
    """The row or DDL change that an XML document stands for, as ANYDATA (``DBMS_MGWMSG.XML_TO_LCR``).

    Entities, document types and the network are refused, as everywhere in :mod:`mgw.transforms.payloads.xml_text`.

    Raises:
        ConversionFailure: it is no well-formed XML, or not that of an LCR.
    """
    try:
        root = parse_xml(text)
        element = _local(root)
        declared = _RECORDS.get(element)
        if declared is None:
            raise ValueError(f"its root is {element[:60]!r}, not ROW_LCR or DDL_LCR")
        record = declared.fit(ObjectValue(declared.name, dict(_read(root, declared))))
    except (Misfit, ValueError, ArithmeticError) as error:
        at = f"{error.path}: " if isinstance(error, Misfit) and error.path else ""
        raise ConversionFailure(
            "the XML cannot be read as a change record (LCR)",
            cause=f"{at}{error}",
            cure=f"send a ROW_LCR or DDL_LCR document of the namespace {NAMESPACE}",
        ) from None
    return AnyData(declared.name, record)


def _local(node: Any) -> str:
    """Name of an element of the namespace of LCRs; documents without a namespace are read, too."""
    tag = node.tag
    if not isinstance(tag, str):
        return ""
    space, _, name = tag.rpartition("}")
    if space and space[1:] != NAMESPACE:
        raise ValueError(f"element {name!r} is of namespace {space[1:][:80]!r}")
    return name


def _children(parent: Any) -> Iterator[tuple[str, Any]]:
    seen: set[str] = set()
    for child in parent:
        name = _local(child)
        if not name:  # a comment
            continue
        if name in seen and name not in _LISTS.values():
            raise ValueError(f"element {name!r} is there twice in {_local(parent)!r}")
        seen.add(name)
        yield name, child


def _read(root: Any, declared: ObjectType) -> Iterator[tuple[str, Any]]:
    known = {attribute.name for attribute in declared.attributes}
    for name, child in _children(root):
        if name not in known:
            raise ValueError(f"element {name[:60]!r} is not part of {_local(root)}")
        if name in _LISTS:
            units = tuple(_read_unit(unit, each, _LISTS[name]) for each, unit in _children(child))
            yield name, units or None
        elif name == "tag":
            yield name, _raw(_text(child))
        elif name == "scn":
            yield name, _number(_text(child))
        else:
            yield name, _text(child) or None


def _read_unit(node: Any, name: str, wanted: str) -> ObjectValue:
    if name != wanted:
        raise ValueError(f"element {name[:60]!r} stands where {wanted} has to be")
    values: dict[str, Any] = {}
    for part, child in _children(node):
        if part == "data":
            values[part] = _read_data(child)
        elif part in ("column_name", "lob_information", "long_information"):
            values[part] = _text(child)
        elif part in ("lob_offset", "lob_operation_size"):
            values[part] = _number(_text(child))
        else:
            raise ValueError(f"element {part[:60]!r} is not part of {wanted}")
    return ObjectValue(UNIT, values)


def _read_data(node: Any) -> AnyData | None:
    found = list(_children(node))
    if not found:
        return None
    if len(found) > 1:
        raise ValueError("data has more than one value")
    name, child = found[0]
    if name not in _ELEMENTS:
        raise ValueError(f"a value of type {name[:60]!r} is not supported; the types are {', '.join(_ELEMENTS)}")
    kind = _ELEMENTS[name]
    if child.get(_NIL) in ("true", "1"):
        return AnyData(kind, None)
    if name in _FORMATS:
        parts = {part: _text(each) for part, each in _children(child)}
        if parts.keys() != {"value", "format"}:
            raise ValueError(f"{name} needs a value and a format")
        return AnyData(kind, COLUMN_TYPES[kind].fit(read_moment(parts["value"], parts["format"])))
    return AnyData(kind, COLUMN_TYPES[kind].fit(_READERS.get(name, str)(_text(child))))


def _text(node: Any) -> str:
    if any(isinstance(child.tag, str) for child in node):
        raise ValueError(f"element {_local(node)!r} holds elements, not text")
    return "".join(node.itertext())


def _raw(text: str) -> bytes:
    """Hexadecimal digits; HEXTORAW puts a zero before an odd number of them."""
    digits = text.strip()
    return bytes.fromhex(f"0{digits}" if len(digits) % 2 else digits)


def _number(text: str) -> Decimal | int:
    number = Decimal(text.strip())
    return (
        int(number)
        if number.is_finite() and number == number.to_integral_value() and number.adjusted() < 40
        else number
    )


def _read_days(text: str) -> timedelta:
    found = re.fullmatch(r"([+-]?)(\d{1,9})[ T](\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,6}))?", text.strip())
    if found is None:
        raise ValueError(f"{text[:60]!r} is no interval like +01 02:03:04.5")
    sign, days, hours, minutes, seconds, fraction = found.groups()
    value = timedelta(int(days), int(seconds), int((fraction or "").ljust(6, "0")), 0, int(minutes), int(hours))
    return -value if sign == "-" else value


def _read_months(text: str) -> int:
    found = re.fullmatch(r"([+-]?)(\d{1,9})-(\d{1,2})", text.strip())
    if found is None or int(found[3]) > 11:
        raise ValueError(f"{text[:60]!r} is no interval like +01-06")
    months = int(found[2]) * 12 + int(found[3])
    return -months if found[1] == "-" else months


_READERS: Final[dict[str, Callable[[str], Any]]] = {
    "number": _number,
    "binary_double": lambda text: float(text.strip()),
    "raw": _raw,
    "interval_ds": _read_days,
    "interval_ym": _read_months,
}
