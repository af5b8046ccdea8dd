"""Messages as people write them, and back."""

from __future__ import annotations

from typing import Any

import pytest

from mgw.transforms.errors import ConversionFailure
from mgw.transforms.message import Header, Message, PayloadKind, ValueType
from mgw.transforms.payloads.written import message_of, written

FORMS: list[tuple[dict[str, Any], Message]] = [
    ({}, Message()),
    ({"body": "text"}, Message(body="text")),
    ({"body": {"a": [1, 2.5, None]}}, Message(body='{"a":[1,2.5,null]}')),
    ({"body_hex": "00ff"}, Message(body=b"\x00\xff")),
    (
        {"fields": {"n": 1, "s": {"type": "SHORT", "value": 2}}},
        Message(body=(Header("n", ValueType.INTEGER, 1), Header("s", ValueType.SHORT, 2)), kind=PayloadKind.FIELDS),
    ),
    (
        {"headers": {"a": "x", "b": True, "c": 2**40, "d": 0.5, "e": {"type": "RAW", "value": "0a"}}},
        Message(
            headers=(
                Header("a", ValueType.TEXT, "x"),
                Header("b", ValueType.BOOLEAN, True),
                Header("c", ValueType.LONG, 2**40),
                Header("d", ValueType.DOUBLE, 0.5),
                Header("e", ValueType.RAW, b"\n"),
            )
        ),
    ),
    (
        {"headers": [{"name": "a", "value": "1"}, {"name": "b", "value": 2}, {"name": "a", "value": "3"}]},
        Message(
            headers=(
                Header("a", ValueType.TEXT, "1"),
                Header("b", ValueType.INTEGER, 2),
                Header("a", ValueType.TEXT, "3"),
            )
        ),
    ),
    ({"correlation": "c", "priority": 5, "expiration": 60.0}, Message(correlation="c", priority=5, expiration=60.0)),
]


@pytest.mark.parametrize(("form", "message"), FORMS, ids=[str(list(form)) for form, _ in FORMS])
def test_a_message_is_read_and_written_in_one_form(form: dict[str, Any], message: Message) -> None:
    assert message_of(form) == message
    assert written(message) == form


@pytest.mark.parametrize(
    ("body", "form"),
    [
        (b"one\r\n\ttwo\n", {"body": "one\r\n\ttwo\n"}),
        (b'{"a": 1}\n', {"body": {"a": 1}}),
        (b'{"a": "\\ud800"}', {"body": '{"a": "\\ud800"}'}),
        (b"[1e999]", {"body": "[1e999]"}),
        (b"", {"body": ""}),
        (b"a\x00b", {"body_hex": "610062"}),
        (b"\xff", {"body_hex": "ff"}),
    ],
)
def test_bytes_that_are_text_are_written_as_text(body: bytes, form: dict[str, Any]) -> None:
    assert written(Message(body=body)) == form


def test_a_name_with_a_list_is_a_header_that_repeats() -> None:
    assert message_of({"headers": {"a": [1, 2]}}).headers == (
        Header("a", ValueType.INTEGER, 1),
        Header("a", ValueType.INTEGER, 2),
    )


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ({"body_hex": "0"}, "not made of hexadecimal digits"),
        ({"headers": {"a": None}}, "the value is null"),
        ({"headers": {"a": {"type": "LNOG", "value": 1}}}, "there is no type 'LNOG'"),
        ({"headers": {"a": {"typ": "LONG"}}}, "it is not {type: T, value: V}"),
        ({"headers": [{"name": "a"}]}, "is not {name: N, value: V}"),
        ({"headers": {"a": {"type": "LONG", "value": "x"}}}, "is not LONG"),
        ({"msgid": "00"}, "a message id has 16"),
    ],
)
def test_what_cannot_be_meant_is_refused(form: dict[str, Any], text: str) -> None:
    with pytest.raises(ConversionFailure) as refused:
        message_of(form)
    assert text in f"{refused.value.what} {refused.value.cause}"
