"""Payload types, fields as JSON, exception queue messages."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any

import pytest

from mgw.transforms.errors import ConversionFailure
from mgw.transforms.language.values import to_text
from mgw.transforms.message import (
    MAX_HEADER_TEXT,
    MAX_HEADERS,
    Body,
    Header,
    Message,
    PayloadKind,
    ValueType,
    check_headers,
    decode_headers,
    encode_headers,
)
from mgw.transforms.objects import AnyData, ObjectValue, plain_body
from mgw.transforms.payloads.convert import from_payload, sendable, to_payload
from mgw.transforms.payloads.exception_message import error_headers, for_exception_queue
from mgw.transforms.payloads.fields import FIELD_TYPES_HEADER, fields_to_json, header_of, json_to_fields
from mgw.transforms.payloads.json_text import dump_json, parse_json
from mgw.transforms.payloads.scalar_types import Double, Json, Number, Text
from mgw.transforms.payloads.sql_types import Attribute, ObjectType

FIELDS = (Header("speed", ValueType.INTEGER, 7), Header("name", ValueType.TEXT, "süd"))


@pytest.mark.parametrize(
    ("payload_type", "body", "stored", "kind"),
    [
        ("RAW", b"\x00\xff", b"\x00\xff", PayloadKind.RAW),
        ("RAW", b"", b"", PayloadKind.RAW),
        ("RAW", None, None, PayloadKind.RAW),
        ("BASIC", b"\xff", b"\xff", PayloadKind.BASIC),
        ("BASIC", "text", "text", PayloadKind.BASIC),
        ("BASIC", None, None, PayloadKind.BASIC),
        ("TEXT", "süd".encode(), "süd", PayloadKind.BASIC),
        ("TEXT", "süd", "süd", PayloadKind.BASIC),
        ("TEXT", b"\x00", "\x00", PayloadKind.BASIC),
        ("TEXT", None, None, PayloadKind.BASIC),
        ("JSON", b' {"a": 1.0}', ' {"a": 1.0}', PayloadKind.BASIC),
        ("JSON", "[1]", "[1]", PayloadKind.BASIC),
        ("JSON", None, None, PayloadKind.BASIC),
        ("JSON", FIELDS, '{"speed":7,"name":"süd"}', PayloadKind.BASIC),
        ("FIELDS", FIELDS, FIELDS, PayloadKind.FIELDS),
        ("FIELDS", '{"speed":7,"name":"süd"}', FIELDS, PayloadKind.FIELDS),
    ],
)
def test_a_body_that_fits_is_stored_without_loss(
    payload_type: str, body: Body, stored: Body, kind: PayloadKind
) -> None:
    headers = (Header("h", ValueType.TEXT, "v"),)
    message = Message(body=body, headers=headers, priority=4, correlation="c")
    result = to_payload(message, payload_type, 100)
    assert (result.body, result.kind) == (stored, kind)
    assert (result.headers, result.priority, result.correlation) == (headers, 4, "c")


def test_a_message_that_fits_as_it_is_is_not_copied() -> None:
    message = Message(body=b"x", kind=PayloadKind.RAW)
    assert to_payload(message, "RAW", 1) is message
    assert from_payload(message, "RAW") is message


@pytest.mark.parametrize(
    ("payload_type", "body", "number", "cause"),
    [
        ("RAW", "text", 725, "bytes only"),
        ("RAW", FIELDS, 724, "named fields"),
        ("BASIC", FIELDS, 724, "named fields"),
        ("TEXT", FIELDS, 724, "named fields"),
        ("TEXT", b"ab\xff", 724, "byte 2 of 3"),
        ("JSON", b"\xff", 724, "not JSON"),
        ("JSON", "{", 724, "not JSON"),
        ("JSON", "", 724, "not JSON"),
        ("JSON", "NaN", 724, "NaN is not JSON"),
        ("JSON", "[" * 100_000, 724, "nested too deeply"),
        ("FIELDS", None, 724, "no body"),
        ("FIELDS", "[1]", 724, "not an object"),
        ("FIELDS", '{"a":null}', 724, "'a' cannot be a field: the value is null"),
        ("FIELDS", '{"a":{}}', 724, "an object"),
        ("FIELDS", '{"a":[1]}', 724, "an array"),
        ("FIELDS", '{"a":9223372036854775808}', 724, "64 bits"),
        ("FIELDS", '{"a":"\\ud800"}', 724, "surrogates"),
        ("FIELDS", tuple(Header(f"f{n}", ValueType.RAW, b"x" * 2001) for n in range(4)), 728, "at most 3"),
        ("FIELDS", dump_json({f"f{n}": "x" * 4001 for n in range(4)}), 729, "at most 3"),
        ("SYS.ANYDATA", b"", 724, "no canonical form"),
        ("RAW", b"x" * 50_001, 726, "smaller than"),
        ("BASIC", "ü" * 25_001, 726, "smaller than"),
        ("FIELDS", tuple(Header("a", ValueType.TEXT, "x" * 4000) for _ in range(13)), 726, "smaller than"),
    ],
)
def test_a_body_that_does_not_fit_fails_with_number_cause_and_cure(
    payload_type: str, body: Body, number: int, cause: str
) -> None:
    with pytest.raises(ConversionFailure) as caught:
        to_payload(Message(body=body), payload_type, 50_000)
    assert caught.value.number == number
    assert cause in caught.value.cause
    assert caught.value.cure
    assert str(caught.value).startswith(f"[{number}] ")


def test_three_large_fields_are_allowed() -> None:
    fields = tuple(Header(f"f{n}", ValueType.RAW, b"x" * 2001) for n in range(3))
    assert to_payload(Message(body=fields), "FIELDS").body == fields


def test_fields_of_every_type_survive_the_way_over_a_broker_without_fields() -> None:
    fields = (
        Header("text", ValueType.TEXT, "süd\x00"),
        Header("raw", ValueType.RAW, b"\x00\xff"),
        Header("yes", ValueType.BOOLEAN, True),
        Header("byte", ValueType.BYTE, -128),
        Header("short", ValueType.SHORT, 32767),
        Header("int", ValueType.INTEGER, -(2**31)),
        Header("long", ValueType.LONG, 2**63 - 1),
        Header("small long", ValueType.LONG, 1),
        Header("float", ValueType.FLOAT, 1.5),
        Header("double", ValueType.DOUBLE, 0.1),
        Header("inf", ValueType.DOUBLE, float("inf")),
        Header("date", ValueType.DATE, 1792490000.25),
    )
    message = Message(body=fields, kind=PayloadKind.FIELDS, headers=(Header("h", ValueType.TEXT, "v"),))
    sent = from_payload(message, "FIELDS")
    assert sent.kind is PayloadKind.BASIC
    assert json.loads(str(sent.body))["date"] == "2026-10-20T09:53:20.250000Z"
    assert sent.header(FIELD_TYPES_HEADER) is not None
    back = to_payload(sent, "FIELDS")
    assert back.body == fields
    assert [each.type for each in back.body] == [each.type for each in fields]  # type: ignore[union-attr]


def test_plain_fields_need_no_header_for_their_types() -> None:
    body, types = fields_to_json(FIELDS)
    assert (body, types) == ('{"speed":7,"name":"süd"}', None)
    assert json_to_fields(body) == FIELDS


@pytest.mark.parametrize(
    "fields",
    [
        (Header("a", ValueType.DATE, 1e18),),
        (Header("a", ValueType.DATE, float("nan")),),
        (Header("a", ValueType.TEXT, "\ud800"),),
        (Header("\ud800", ValueType.TEXT, "a"),),
    ],
)
def test_fields_that_json_cannot_hold_fail_outbound(fields: tuple[Header, ...]) -> None:
    with pytest.raises(ConversionFailure) as caught:
        from_payload(Message(body=fields, kind=PayloadKind.FIELDS), "FIELDS")
    assert caught.value.number == 720
    assert caught.value.cause


def test_fields_whose_names_repeat_travel_as_an_array_in_their_order() -> None:
    fields = (
        Header("line", ValueType.TEXT, "1"),
        Header("when", ValueType.DATE, 1792490000.25),
        Header("line", ValueType.RAW, b"\x00\xff"),
        Header("line", ValueType.BOOLEAN, True),
    )
    stale = Header(FIELD_TYPES_HEADER, ValueType.TEXT, '{"line":"DATE"}')
    sent = from_payload(Message(body=fields, kind=PayloadKind.FIELDS, headers=(stale,)), "FIELDS")
    assert sent.body == (
        '[["line","TEXT","1"],["when","DATE","2026-10-20T09:53:20.250000Z"],["line","RAW","AP8="],["line","BOOLEAN",true]]'
    )
    assert sent.headers == (Header(FIELD_TYPES_HEADER, ValueType.TEXT, '"array"'),)
    assert to_payload(sent, "FIELDS").body == fields
    assert to_payload(replace(sent, headers=()), "FIELDS").body == fields  # a program that passed on the body only
    assert json.loads(str(to_payload(Message(body=fields), "JSON").body))[2] == ["line", "RAW", "AP8="]


def test_types_that_need_more_than_a_header_travel_in_an_array() -> None:
    fields = tuple(Header(f"a long name of a field {n}", ValueType.SHORT, n) for n in range(200))
    sent = from_payload(Message(body=fields, kind=PayloadKind.FIELDS), "FIELDS")
    assert to_payload(sent, "FIELDS").body == fields


@pytest.mark.parametrize(
    "body",
    ['[["a"]]', '[["a","TEXT",5]]', '[["a","BYTE",128]]', '[["a","VARCHAR2","x"]]', '[[1,"TEXT","x"]]', "[5]", "[]"],
)
@pytest.mark.parametrize("types", [None, '{"a":"RAW"}'])
def test_an_array_of_anything_else_is_not_fields(body: str, types: str | None) -> None:
    with pytest.raises(ConversionFailure) as caught:
        json_to_fields(body, types)
    assert caught.value.number == 724


@pytest.mark.parametrize(
    ("body", "types"),
    [
        ('{"a":"x"}', '{"a":"RAW"}'),
        ('{"a":1}', '"array"'),
        ('{"a":5}', '{"a":"RAW"}'),
        ('{"a":"yesterday"}', '{"a":"DATE"}'),
        ('{"a":300}', '{"a":"BYTE"}'),
        ('{"a":true}', '{"a":"SHORT"}'),
        ('{"a":true}', '{"a":"DOUBLE"}'),
        ('{"a":1}', "{"),
        ('{"a":1}', "[]"),
        ('{"a":1}', '{"a":["DATE"]}'),
    ],
)
def test_a_member_that_is_not_of_its_declared_type_fails(body: str, types: str) -> None:
    with pytest.raises(ConversionFailure) as caught:
        json_to_fields(body, types)
    assert caught.value.number == 724


def test_an_unknown_payload_type_cannot_be_propagated() -> None:
    with pytest.raises(ConversionFailure, match="NESTED TABLE") as caught:
        from_payload(Message(), "NESTED TABLE")
    assert caught.value.number == 720


ADDRESS = ObjectType("OE.ADDRESS", (Attribute("street", Text("VARCHAR2", 9)), Attribute("zip", Number(5, 0))))
HOME = ObjectValue("OE.ADDRESS", {"street": "Weg", "zip": 7})


@pytest.mark.parametrize("body", [HOME, '{"STREET":"Weg","zip":7}', b'{"street":"Weg","zip":"7"}'])
def test_json_becomes_an_object_of_the_queues_type(body: Body) -> None:
    fitted = to_payload(Message(body=body), "OBJECT", declared=ADDRESS)
    assert fitted.body == HOME
    assert fitted.kind is PayloadKind.OBJECT


PRICE = ObjectType(
    "OE.PRICE", (Attribute("price", Number(18, 2)), Attribute("rate", Double()), Attribute("notes", Json()))
)


def test_decimals_of_json_keep_their_digits_on_their_way_into_an_object() -> None:
    text = '{"price": 1234567890123456.78, "rate": 0.10000000000000001, "notes": [0.12345678901234567890, 1e2]}'
    fitted = to_payload(Message(body=text), "OBJECT", declared=PRICE).body
    assert isinstance(fitted, ObjectValue)
    assert fitted["price"] == Decimal("1234567890123456.78")
    assert (fitted["rate"], fitted["notes"]) == (0.1, [0.12345678901234568, 100.0])
    assert [type(fitted["rate"]), *map(type, fitted["notes"])] == [float, float, float]
    with pytest.raises(ConversionFailure, match="attribute price"):
        to_payload(Message(body='{"price": 0.100000000000000000001}'), "OBJECT", declared=PRICE)
    for huge in ("1e400", "1e99999999999999999999"):
        with pytest.raises(ConversionFailure, match="attribute price"):
            to_payload(Message(body=f'{{"price": {huge}}}'), "OBJECT", declared=PRICE)


def test_round_numbers_are_written_out() -> None:
    fitted = to_payload(Message(body='{"price": 1e2}'), "OBJECT", declared=PRICE).body
    assert isinstance(fitted, ObjectValue)
    assert str(fitted["price"]) == "100"
    assert to_text(Decimal("1E+2")) == "100"
    assert to_text(Decimal("-1.5E-7")) == "-0.00000015"


def test_fields_become_an_object() -> None:
    fields = (Header("street", ValueType.TEXT, "Weg"), Header("zip", ValueType.INTEGER, 7))
    assert to_payload(Message(body=fields), "OBJECT", declared=ADDRESS).body == HOME


@pytest.mark.parametrize(
    ("payload_type", "body", "cause"),
    [
        ("OBJECT", '{"zip":"x"}', "attribute zip: 'x' is not a number"),
        ("OBJECT", '{"city":"x"}', "attribute city: type OE.ADDRESS has no such attribute"),
        ("OBJECT", "plain", "not JSON text"),
        ("XMLTYPE", "<a>", "not well-formed XML"),
        ("XMLTYPE", "<!DOCTYPE a><a/>", "document type declaration"),
        ("ANYDATA", (Header("a", ValueType.TEXT, "x"),), "named fields"),
    ],
)
def test_what_is_not_of_the_queues_type_is_a_misfit(payload_type: str, body: Body, cause: str) -> None:
    with pytest.raises(ConversionFailure, match=cause) as caught:
        to_payload(Message(body=body), payload_type, declared=ADDRESS)
    assert caught.value.number == 724


@pytest.mark.parametrize(
    ("body", "wrapped"),
    [
        ("text", AnyData("SYS.VARCHAR2", "text")),
        (b"raw", AnyData("SYS.RAW", b"raw")),
        (HOME, AnyData("OE.ADDRESS", HOME)),
        (AnyData("SYS.NUMBER", 5), AnyData("SYS.NUMBER", 5)),
        (None, None),
    ],
)
def test_an_anydata_queue_takes_everything_but_fields(body: Body, wrapped: Body) -> None:
    assert to_payload(Message(body=body), "ANYDATA").body == wrapped


@pytest.mark.parametrize("body", [HOME, AnyData("OE.ADDRESS", HOME)])
@pytest.mark.parametrize("payload_type", ["BASIC", "TEXT", "JSON"])
def test_an_object_becomes_json_for_queues_without_types(payload_type: str, body: Body) -> None:
    assert to_payload(Message(body=body), payload_type).body == '{"street":"Weg","zip":7}'


def test_objects_stay_objects_until_they_are_sent() -> None:
    message = Message(body=HOME, kind=PayloadKind.OBJECT)
    assert from_payload(message, "OBJECT", typed=True) is message
    assert from_payload(message, "OBJECT") == sendable(message)
    assert sendable(message) == Message(body='{"street":"Weg","zip":7}')
    assert plain_body(HOME) == '{"street":"Weg","zip":7}'
    assert plain_body(AnyData("SYS.VARCHAR2", "text")) == "text"
    assert plain_body(AnyData("SYS.RAW", b"raw")) == b"raw"
    assert plain_body(AnyData("SYS.NUMBER", Decimal("1.50"))) == "1.50"
    assert plain_body(AnyData("SYS.NUMBER", None)) is None


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_json_does_not_have_is_a_failure_of_its_message(number: float) -> None:
    for body in (AnyData("SYS.BINARY_DOUBLE", number), ObjectValue("OE.POINT", {"x": number})):
        message = Message(body=body)
        for convert in (
            sendable,
            partial(from_payload, payload_type="ANYDATA"),
            partial(to_payload, payload_type="TEXT"),
        ):
            with pytest.raises(ConversionFailure, match="NaN or infinite") as failure:
                convert(message)
            assert failure.value.number == 720


@pytest.mark.parametrize(
    ("value", "expected"),
    [("a", ValueType.TEXT), (True, ValueType.BOOLEAN), (1, ValueType.INTEGER), (2**31, ValueType.LONG),
     (1.0, ValueType.DOUBLE), (b"a", ValueType.RAW)],
)  # fmt: skip
def test_a_python_value_gets_the_header_type_that_holds_it(value: Any, expected: ValueType) -> None:
    header = header_of("n", value)
    assert header == ("n", expected, value)
    assert decode_headers(encode_headers((header,))) == (header,)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800"])
def test_json_text_that_others_could_not_read_is_never_made(value: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        dump_json([value])


def test_json_nested_beyond_reason_is_refused_and_no_crash() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ValueError, match="nested"):
        dump_json(deep)
    with pytest.raises(ValueError, match="nested"):
        parse_json("[" * 100_000 + "]" * 100_000)


FAILURE = ConversionFailure("the body is wrong", cause="it is", cure="mend it", number=724)


def test_error_headers_say_what_why_where_and_when() -> None:
    headers = error_headers(FAILURE, "J1", "commands/0@17", now=1000.5)
    assert {name: value for name, _, value in headers} == {
        "MGW_error": "[724] the body is wrong; cause: it is; cure: mend it",
        "MGW_error_number": 724,
        "MGW_error_job": "J1",
        "MGW_error_origin": "commands/0@17",
        "MGW_error_time": 1000.5,
    }
    check_headers(headers)
    assert decode_headers(encode_headers(headers)) == headers


def test_a_very_long_reason_fits_its_header_and_shows_that_it_was_longer() -> None:
    headers = error_headers(ConversionFailure("x" * 5000 + "\ud800"), "J" * 5000)
    check_headers(headers)
    assert str(headers[0].value).endswith(" ...")
    assert len(str(headers[0].value)) == MAX_HEADER_TEXT
    assert [header.name for header in headers] == ["MGW_error", "MGW_error_job", "MGW_error_time"]
    str(error_headers(ConversionFailure("half \ud800"), "J")[0].value).encode()


def test_a_message_for_the_exception_queue_keeps_body_and_headers_and_never_expires() -> None:
    own = Header("h", ValueType.TEXT, "v")
    message = Message(body=b"\xff", headers=(own,), expiration=5, expires_at=99, delay=3, correlation="c")
    first = for_exception_queue(message, FAILURE, "J1", "q#1", now=1)
    assert (first.body, first.correlation, first.headers[0]) == (b"\xff", "c", own)
    assert (first.expiration, first.expires_at, first.delay) == (None, None, 0)
    again = for_exception_queue(first, FAILURE, "J2", now=2)
    assert [header.name for header in again.headers] == [
        "h", "MGW_error", "MGW_error_number", "MGW_error_job", "MGW_error_time"
    ]  # fmt: skip
    assert again.header("MGW_error_job") == "J2"


@pytest.mark.parametrize(
    ("bad", "note"),
    [
        (Header("n" * 300, ValueType.TEXT, "v"), "its name has 300 characters"),
        (Header("big", ValueType.TEXT, "v" * 4001), "'big' (4001 characters)"),
        (Header("big", ValueType.RAW, b"v" * 2001), "'big' (2001 bytes)"),
    ],
)
def test_headers_that_cannot_be_stored_are_left_out_of_an_exception_message_and_named(bad: Header, note: str) -> None:
    kept = Header("h", ValueType.TEXT, "v")
    result = for_exception_queue(Message(headers=(bad, kept)), FAILURE, "J")
    check_headers(result.headers)
    assert kept in result.headers
    assert bad not in result.headers
    assert note in str(result.header("MGW_error_omitted"))


def test_too_many_headers_still_leave_room_for_the_reason() -> None:
    headers = tuple(Header(f"h{n}", ValueType.INTEGER, n) for n in range(2000))
    result = for_exception_queue(Message(headers=headers), FAILURE, "J", "o")
    assert len(result.headers) == MAX_HEADERS
    assert result.header("MGW_error_number") == 724
    assert "982 headers left out" in str(result.header("MGW_error_omitted"))


def test_headers_that_are_a_mapping_are_refused_with_the_right_form() -> None:
    headers: Any = {"colour": "red"}
    with pytest.raises(ConversionFailure, match=r"headers=\(Header\('name', ValueType.TEXT, 'value'\),\)"):
        check_headers(headers)
