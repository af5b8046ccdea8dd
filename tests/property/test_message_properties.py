"""Headers and fields survive their stored and their travelling form."""

from __future__ import annotations

import json
import math
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from mgw.transforms.errors import ConversionFailure
from mgw.transforms.message import (
    Header,
    Message,
    PayloadKind,
    ValueType,
    check_headers,
    decode_headers,
    encode_headers,
)
from mgw.transforms.payloads.convert import from_payload, to_payload
from mgw.transforms.payloads.exception_message import for_exception_queue
from mgw.transforms.payloads.fields import json_to_fields
from mgw.transforms.payloads.json_text import dump_json, parse_json
from tests.support.examples import looks_at

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)  # any character, NUL too, no half surrogates
FLOATS = st.floats(width=64)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
DATES = st.integers(-62_135_596_800_000_000 + 1, 253_402_300_799_000_000).map(lambda micros: micros / 1e6)
VALUES: dict[ValueType, Any] = {
    ValueType.TEXT: TEXT,
    ValueType.RAW: st.binary(max_size=40),
    ValueType.BOOLEAN: st.booleans(),
    ValueType.BYTE: st.integers(-(2**7), 2**7 - 1),
    ValueType.SHORT: st.integers(-(2**15), 2**15 - 1),
    ValueType.INTEGER: st.integers(-(2**31), 2**31 - 1),
    ValueType.LONG: st.integers(-(2**63), 2**63 - 1),
    ValueType.FLOAT: FLOATS,
    ValueType.DOUBLE: FLOATS,
    ValueType.DATE: DATES,
    ValueType.JSON: st.lists(st.none() | TEXT, max_size=3).map(json.dumps),
    ValueType.DECIMAL: st.decimals(allow_nan=False, allow_infinity=False).map(str),
    ValueType.UBYTE: st.integers(0, 2**8 - 1),
    ValueType.USHORT: st.integers(0, 2**16 - 1),
    ValueType.UINT: st.integers(0, 2**32 - 1),
}
HEADER = st.sampled_from(list(ValueType)).flatmap(
    lambda kind: st.builds(Header, TEXT, st.just(kind), VALUES[kind]),
)
REPEATED = HEADER.map(lambda header: header._replace(name="again"))
HEADERS = st.lists(HEADER, max_size=6).map(tuple)


def same(left: Header, right: Header) -> bool:
    """Equal in name, type, Python type and value; NaN equals itself, -0.0 is not 0.0, dates within 20 microseconds."""
    if (left.name, left.type, type(left.value)) != (right.name, right.type, type(right.value)):
        return False
    if isinstance(left.value, float) and isinstance(right.value, float):
        if left.type is ValueType.DATE:
            return math.isclose(left.value, right.value, abs_tol=2e-5, rel_tol=0)
        return repr(left.value) == repr(right.value)
    return left.value == right.value


@looks_at(400)
@given(headers=HEADERS)
def test_headers_survive_storage(headers: tuple[Header, ...]) -> None:
    stored = encode_headers(headers)
    assert (stored is None) == (not headers)
    if stored is not None:
        stored.encode("ascii")
        assert "\x00" not in stored  # PostgreSQL refuses it in text
    back = decode_headers(stored)
    assert len(back) == len(headers)
    assert all(type(header) is Header and type(header.type) is ValueType for header in back)
    for left, right in zip(headers, back, strict=True):
        assert (left.name, left.type, type(left.value)) == (right.name, right.type, type(right.value))
        assert repr(left.value) == repr(right.value)


@looks_at(400)
@given(fields=st.lists(HEADER | REPEATED, max_size=6).map(tuple))
def test_fields_survive_the_way_over_a_broker_without_fields(fields: tuple[Header, ...]) -> None:
    message = Message(body=fields, kind=PayloadKind.FIELDS)
    sent = from_payload(message, "FIELDS")
    assert isinstance(sent.body, str)
    json.loads(sent.body.encode())
    check_headers(sent.headers)
    received = Message(body=sent.body.encode(), headers=decode_headers(encode_headers(sent.headers)))
    back = to_payload(received, "FIELDS")
    assert isinstance(back.body, tuple)
    assert len(back.body) == len(fields)
    for left, right in zip(fields, back.body, strict=True):
        assert same(left, right), (left, right)


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), FINITE, TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXT, inner, max_size=4)),
    max_leaves=12,
)


@looks_at(300)
@given(value=JSON)
def test_json_survives_and_is_utf_8(value: Any) -> None:
    text = dump_json(value)
    assert parse_json(text) == parse_json(text.encode()) == value
    assert to_payload(Message(body=text.encode()), "JSON").body == text


@looks_at(300)
@given(value=JSON)
def test_any_json_becomes_fields_without_loss_or_is_refused(value: Any) -> None:
    text = dump_json(value)
    try:
        fields = json_to_fields(text)
    except ConversionFailure as failure:
        refused = failure.number
        assert refused == 724
        members = value.values() if isinstance(value, dict) else [None]
        beyond = (isinstance(each, int) and not -(2**63) <= each < 2**63 for each in members)
        assert any(each is None or isinstance(each, (dict, list)) for each in members) or any(beyond)
        return
    assert {field.name: field.value for field in fields} == value


@looks_at(200)
@given(body=st.one_of(st.none(), st.binary(max_size=20), TEXT), payload_type=st.sampled_from(["RAW", "BASIC", "TEXT"]))
def test_a_stored_body_means_what_was_sent(body: bytes | str | None, payload_type: str) -> None:
    try:
        stored = to_payload(Message(body=body), payload_type).body
    except ConversionFailure:
        assert payload_type == "RAW" or isinstance(body, bytes)
        return
    if isinstance(stored, str) and isinstance(body, bytes):
        stored = stored.encode()
    assert stored == body


@looks_at(200)
@given(
    headers=st.lists(
        st.builds(
            Header, st.text(min_size=1, max_size=300), st.just(ValueType.TEXT), st.sampled_from(["", "v", "v" * 4001])
        ),
        max_size=8,
    ).map(tuple),
    what=st.text(max_size=200),
)
@example(headers=(Header("MGW_error", ValueType.TEXT, "of an earlier failure"),), what="J")
def test_any_refused_message_can_be_stored_in_an_exception_queue(headers: tuple[Header, ...], what: str) -> None:
    result = for_exception_queue(
        Message(headers=headers), ConversionFailure(what, number=724), what or "J", what, now=0.0
    )
    check_headers(result.headers)
    assert result.header("MGW_error_number") == 724
    own = [header for header in headers if not header.name.startswith("MGW_error")]  # those of a failure are replaced
    kept = [header for header in own if header in result.headers]
    assert len(kept) == len(own) or result.header("MGW_error_omitted")
    reasons = [header.name for header in result.headers if header.name.startswith("MGW_error")]
    assert len(reasons) == len(set(reasons))
    assert result.header("MGW_error") != "of an earlier failure"
