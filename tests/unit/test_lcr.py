"""Logical change records as XML: the document of the guide, what is refused, hostile documents."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from mgw.gateway.aq.payloads.anydata import is_lcr, wrap
from mgw.transforms import builtin
from mgw.transforms.errors import ConversionFailure
from mgw.transforms.lcr import DDL, NAMESPACE, ROW, lcr_to_xml, xml_to_lcr
from mgw.transforms.lcr.moments import read_moment
from mgw.transforms.message import Header, Message, PayloadKind, ValueType
from mgw.transforms.objects import AnyData

#: As the example of AQ guide 12.2 §22.3 prints it.
GUIDE = f"""<ROW_LCR xmlns='{NAMESPACE}' xmlns:xsi='http://www.w3.org/2001/XMLSchema-instance'
 xsi:schemaLocation='{NAMESPACE} http://xmlns.oracle.com/streams/schemas/lcr/streamslcr.xsd'>
<source_database_name>source_dbname</source_database_name>
<command_type>UPDATE</command_type> <object_owner>Ram</object_owner> <object_name>Emp</object_name>
<tag>0ABC</tag> <transaction_id>0.0.0</transaction_id> <scn>0</scn>
<old_values>
 <old_value><column_name>C01</column_name><data><varchar2>Clob old</varchar2></data></old_value>
 <old_value><column_name>C03</column_name><data>
  <date><value>1997-11-24</value><format>SYYYY-MM-DD</format></date></data></old_value>
 <old_value><column_name>C04</column_name><data>
  <timestamp><value>1999-05-31T13:20:00.000</value><format>SYYYY-MM-DD"T"HH24:MI:SS.FF</format></timestamp>
 </data></old_value>
 <old_value><column_name>C05</column_name><data><raw>ABCDE</raw></data></old_value>
</old_values>
<new_values>
 <new_value><column_name>C02</column_name><data><number>35.23</number></data></new_value>
 <new_value><column_name>C05</column_name><data><char>world</char></data></new_value>
 <!-- NULL of a type -->
 <new_value><column_name>C06</column_name><data><number xsi:nil="true"/></data></new_value>
</new_values></ROW_LCR>"""


def row(**changes: Any) -> AnyData:
    """A change of a row: an INSERT of (ID, NAME)."""
    record = {
        "source_database_name": "SHOP",
        "command_type": "INSERT",
        "object_owner": "OE",
        "object_name": "ORDERS",
        "new_values": [
            {"column_name": "ID", "data": wrap(7)},
            {"column_name": "NAME", "data": wrap("Müller <&>")},
        ],
    }
    return wrap(record | changes, ROW)


def values(record: Any, name: str) -> dict[str, Any]:
    return {unit["column_name"]: unit["data"] for unit in record.value[name] or ()}


def test_document_of_the_guide_is_read() -> None:
    record = xml_to_lcr(GUIDE)
    assert is_lcr(record)
    assert record.type_name == ROW
    assert (record.value["command_type"], record.value["object_name"]) == ("UPDATE", "Emp")
    assert (record.value["tag"], record.value["scn"]) == (b"\x0a\xbc", 0)
    assert values(record, "old_values") == {
        "C01": AnyData("SYS.VARCHAR2", "Clob old"),
        "C03": AnyData("SYS.DATE", datetime(1997, 11, 24)),
        "C04": AnyData("SYS.TIMESTAMP", datetime(1999, 5, 31, 13, 20)),
        "C05": AnyData("SYS.RAW", bytes.fromhex("0ABCDE")),
    }
    assert values(record, "new_values") == {
        "C02": AnyData("SYS.NUMBER", Decimal("35.23")),
        "C05": AnyData("SYS.CHAR", "world"),
        "C06": AnyData("SYS.NUMBER", None),
    }
    assert xml_to_lcr(lcr_to_xml(record)) == record


@pytest.mark.parametrize(
    "value",
    [
        wrap(""),
        wrap("  two\tlines\n"),
        wrap(Decimal("-0.00000000000000000001")),
        wrap(10**39),
        wrap(b"\x00\xff"),
        wrap(2.5),
        AnyData("SYS.BINARY_DOUBLE", float("inf")),
        wrap(datetime(2026, 2, 3, 4, 5, 6), "DATE"),
        wrap(datetime(2026, 2, 3, 4, 5, 6, 7)),
        wrap(datetime(2026, 2, 3, 4, 5, 6, 7, timezone(-timedelta(hours=9, minutes=30)))),
        wrap(datetime(2026, 2, 3, tzinfo=UTC), "TIMESTAMP WITH LOCAL TIME ZONE"),
        wrap(-timedelta(days=3, seconds=4, microseconds=5)),
        wrap(-14, "INTERVAL YEAR TO MONTH"),
        wrap("ß", "NVARCHAR2"),
        AnyData("SYS.DATE", None),
    ],
    ids=repr,
)
def test_value_of_a_column_comes_back(value: AnyData) -> None:
    record = row(new_values=[{"column_name": "C", "data": value}])
    found = values(xml_to_lcr(lcr_to_xml(record)), "new_values")["C"]
    assert found == value
    if isinstance(value.value, datetime):
        assert found.value.utcoffset() == value.value.utcoffset()


def test_ddl_comes_back() -> None:
    ddl = wrap(
        {
            "source_database_name": "SHOP",
            "command_type": "CREATE TABLE",
            "current_schema": "OE",
            "ddl_text": "CREATE TABLE t (a NUMBER) -- <&>",
            "object_type": "TABLE",
            "object_owner": "OE",
            "object_name": "T",
            "logon_user": "OE",
            "tag": b"\x01",
            "scn": 2**60,
        },
        DDL,
    )
    assert xml_to_lcr(lcr_to_xml(ddl)) == ddl


@pytest.mark.parametrize("value", [wrap("x"), wrap(1), "text", None, AnyData(ROW, None)], ids=repr)
def test_what_is_no_record_is_refused(value: Any) -> None:
    with pytest.raises(ConversionFailure, match="it is no logical change record"):
        lcr_to_xml(value)


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"command_type": "MERGE"}, "'MERGE' is no command"),
        ({"object_name": None}, "needs it"),
        ({"new_values": None}, "an INSERT has such values"),
        ({"command_type": "DELETE"}, "a[n]? DELETE has such values"),
        ({"new_values": [{"data": wrap(1)}]}, "without the name of its column"),
        ({"new_values": [{"column_name": "A", "data": wrap({}, "JSON")}]}, "a column of type SYS.JSON"),
    ],
)
def test_record_that_says_nothing_is_refused_where_it_is_wrapped(changes: dict[str, Any], cause: str) -> None:
    with pytest.raises(Exception, match=cause):
        row(**changes)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("", "."),
        ("not xml", "."),
        ("<other/>", "its root is 'other'"),
        (GUIDE.replace(NAMESPACE, "urn:other"), "is of namespace 'urn:other'"),
        (GUIDE.replace("<scn>0</scn>", "<scn>x</scn>"), "."),
        (GUIDE.replace("<scn>0</scn>", "<scn>0</scn><scn>1</scn>"), "'scn' is there twice"),
        (GUIDE.replace("<scn>0</scn>", "<more>0</more>"), "'more' is not part of ROW_LCR"),
        (GUIDE.replace("SYYYY-MM-DD<", "DD-MON-RR<"), "which is not supported"),
        (GUIDE.replace("1997-11-24", "24.11.1997"), "does not follow the format"),
        (GUIDE.replace("1997-11-24", "1997-13-24"), "month"),
        (GUIDE.replace("<raw>ABCDE</raw>", "<raw>XY</raw>"), "."),
        (GUIDE.replace("<raw>ABCDE</raw>", "<blob>AB</blob>"), "type 'blob' is not supported"),
        (GUIDE.replace("<number>35.23</number>", "<number>NaN</number>"), "."),
        (GUIDE.replace("<number>35.23</number>", "<number>1e99999999</number>"), "."),
        (f"<!DOCTYPE x [<!ENTITY e SYSTEM 'file:///etc/passwd'>]>{GUIDE.replace('Clob old', '&e;')}", "document type"),
    ],
)
def test_document_that_is_none_is_refused(text: str, cause: str) -> None:
    with pytest.raises(ConversionFailure, match=cause):
        xml_to_lcr(text)


def test_text_that_xml_does_not_have_is_refused() -> None:
    with pytest.raises(ConversionFailure, match="cannot be written as XML"):
        lcr_to_xml(row(object_name="a\x00b"))


@pytest.mark.parametrize(
    ("text", "form", "moment"),
    [
        (" 2003-05-31 13:20:00", "SYYYY-MM-DD HH24:MI:SS", datetime(2003, 5, 31, 13, 20)),
        ("2003-05-31T13:20:00.123456789", 'syyyy-mm-dd"T"hh24:mi:ss.ff9', None),
        ("31/05/2003", "DD/MM/YYYY", datetime(2003, 5, 31)),
        ("-0044-03-15", "SYYYY-MM-DD", None),
        ("2003", "YYYY YYYY", None),
        ("05-31", "MM-DD", None),
    ],
)
def test_moments_follow_their_format(text: str, form: str, moment: datetime | None) -> None:
    if moment is not None:
        assert read_moment(text, form) == moment
        return
    with pytest.raises(ValueError, match=r"format|digits|year"):
        read_moment(text, form)


@pytest.mark.parametrize("field", ["", "ORACLE_LCR"])
def test_transformations_of_both_directions(field: str) -> None:
    message = Message(row(), kind=PayloadKind.ANYDATA)
    sent = builtin.lcr_to_xml(message, field=field)
    if field:
        assert sent.body == (Header(field, ValueType.TEXT, lcr_to_xml(row())),)
    else:
        assert sent.body == lcr_to_xml(row())
    assert builtin.xml_to_lcr(sent, field=field) == message
    with pytest.raises((ConversionFailure, ValueError)):
        builtin.xml_to_lcr(Message("no document"), field=field)
