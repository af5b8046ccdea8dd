"""Avro bodies as JSON text and back, with schemas from files and from a registry."""

from __future__ import annotations

import io
import json
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pytest

from mgw.transforms import builtin
from mgw.transforms.errors import ConfigInvalid, ConversionFailure, RegistryUnavailable, TransformFailed
from mgw.transforms.message import Message
from mgw.transforms.steps.registry import TransformationDefinition, compile_transformation
from tests.support.schema_registry import SchemaRegistry, schema_registry
from tests.support.waiting import eventually

READING = {
    "type": "record",
    "name": "Reading",
    "namespace": "plant",
    "fields": [
        {"name": "machine", "type": "string"},
        {"name": "celsius", "type": ["null", "double"], "default": None},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "micros", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "clock", "type": {"type": "long", "logicalType": "time-micros"}},
        {"name": "key", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["ON", "OFF"]}},
        {"name": "before", "type": ["null", "State"], "default": None},
        {"name": "raw", "type": "bytes"},
        {"name": "mark", "type": {"type": "fixed", "name": "Mark", "size": 2}},
        {"name": "counts", "type": {"type": "array", "items": "long"}},
        {"name": "tags", "type": {"type": "map", "values": "boolean"}},
        {"name": "next", "type": ["null", "Reading"], "default": None},
    ],
}
VALUE: dict[str, Any] = {
    "machine": "m7",
    "celsius": 91.5,
    "price": "1234567.80",
    "at": "2026-11-24T13:05:00.123000Z",
    "micros": "2026-11-24T13:05:00.123456Z",
    "local": "2026-11-24T13:05:00.000001",
    "day": "2026-11-24",
    "clock": "13:05:00.000001",
    "key": "a3bb189e-8bf9-3888-9912-ace4e6543002",
    "state": "ON",
    "before": "OFF",
    "raw": "AP8=",
    "mark": "AQI=",
    "counts": [1, -(2**63)],
    "tags": {"new": True},
    "next": None,
}


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with schema_registry() as found:
        yield found


@pytest.fixture
def schema(tmp_path: Path) -> str:
    path = tmp_path / "reading.avsc"
    path.write_text(json.dumps(READING))
    return str(path)


def written(schema: Any, value: Any, number: int | None = None) -> bytes:
    """As another program writes it."""
    stream = io.BytesIO()
    if number is not None:
        stream.write(struct.pack(">bI", 0, number))
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


def defined(name: str, **options: Any) -> Any:
    return compile_transformation(TransformationDefinition("z", f"mgw.transforms.builtin:{name}", options))


# ---------------------------------------------------------------------------------------------------------- from files


@pytest.mark.parametrize(
    "value", [VALUE, {**VALUE, "celsius": None, "next": {**VALUE, "celsius": 1.0, "price": "0.00"}}]
)
def test_every_type_comes_back_as_it_was(schema: str, value: dict[str, Any]) -> None:
    message = Message(json.dumps(value))
    sent = builtin.avro_encode(message, schema=schema)
    assert sent.header("content-type") == "application/avro"
    found = builtin.avro_decode(sent, schema=schema)
    assert json.loads(found.body) == value  # type: ignore[arg-type]
    assert found.header("content-type") == "application/json"
    parsed = fastavro.parse_schema(READING)
    theirs = fastavro.schemaless_reader(io.BytesIO(sent.body), parsed, None)  # type: ignore[arg-type]
    assert written(READING, theirs) == sent.body


def test_a_field_that_is_missing_gets_its_default(schema: str) -> None:
    without = {name: value for name, value in VALUE.items() if name not in ("celsius", "before", "next")}
    found = builtin.avro_decode(builtin.avro_encode(Message(json.dumps(without)), schema=schema), schema=schema)
    assert json.loads(found.body) == {**VALUE, "celsius": None, "before": None, "next": None}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("machine", 7, "the body.machine is not text"),
        ("celsius", "hot", "the body.celsius is not a number"),
        ("price", "1.234", "a decimal of 9 digits, 2 of them after the point"),
        ("price", "12345678.00", "a decimal of 9 digits"),
        ("price", "much", "text that is one"),
        ("at", "2026-11-24T13:05:00.123456Z", "no more than milliseconds"),
        ("at", "yesterday", "a time such as"),
        ("local", "2026-11-24T13:05:00Z", "a time without zone"),
        ("day", "24.11.2026", "a date such as"),
        ("key", "x", "a UUID"),
        ("state", "BROKEN", "one of ON, OFF"),
        ("raw", "?", "base64"),
        ("mark", "AQ==", "Avro"),
        ("counts", [1, "2"], "the body.counts[1] is not an integer of 64 bits"),
        ("counts", [2**63], "an integer of 64 bits"),
        ("tags", {"new": "yes"}, "the body.tags.new is not true or false"),
        ("next", {}, "the body.next.machine is not there"),
        ("colour", "red", "no field colour"),
    ],
)
def test_what_does_not_fit_the_schema_is_refused_with_its_place(schema: str, name: str, value: Any, said: str) -> None:
    with pytest.raises(ConversionFailure) as caught:
        builtin.avro_encode(Message(json.dumps({**VALUE, name: value})), schema=schema)
    assert said in str(caught.value)


def test_bytes_that_are_no_avro_of_the_schema_are_refused(schema: str) -> None:
    whole = builtin.avro_encode(Message(json.dumps(VALUE)), schema=schema).body
    assert isinstance(whole, bytes)
    for data in (*(whole[:length] for length in range(len(whole))), whole + b"x", b"\xff" * 40):
        with pytest.raises(ConversionFailure, match="cannot be decoded as Avro"):
            builtin.avro_decode(Message(data), schema=schema)
    for body in ("text", ()):
        with pytest.raises(ConversionFailure):
            builtin.avro_decode(Message(body), schema=schema)
    for body in ("no json", "[]", b"\xff"):
        with pytest.raises(ConversionFailure):
            builtin.avro_encode(Message(body), schema=schema)


def test_a_union_of_records_takes_the_one_that_fits(tmp_path: Path) -> None:
    def record(name: str, field: str, kind: str) -> dict[str, Any]:
        return {"type": "record", "name": name, "fields": [{"name": field, "type": kind}]}

    either = ["null", record("A", "x", "int"), record("B", "x", "string"), record("C", "y", "int"), "string"]
    path = tmp_path / "either.avsc"
    path.write_text(json.dumps(either))
    for number, value in enumerate([None, {"x": 1}, {"x": "1"}, {"y": 1}, "plain"]):
        sent = builtin.avro_encode(Message(json.dumps(value)), schema=str(path))
        assert sent.body[0] == number * 2  # type: ignore[index]
        assert json.loads(builtin.avro_decode(sent, schema=str(path)).body) == value  # type: ignore[arg-type]


def test_files_by_id_read_and_write_bodies_that_name_their_schema(schema: str) -> None:
    sent = defined("avro_encode", schemas={"7": schema}, schema_id=7)(Message(json.dumps(VALUE)))
    assert sent.body[:5] == b"\x00\x00\x00\x00\x07"
    decode = defined("avro_decode", schemas={7: schema})
    assert json.loads(decode(sent).body) == VALUE
    with pytest.raises(TransformFailed) as caught:
        decode(Message(b"\x00\x00\x00\x00\x08x"))
    assert "schema 8 is not among the files" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("avro_decode", {}, "exactly one of"),
        ("avro_decode", {"schema": "gone.avsc"}, "gone.avsc"),
        ("avro_decode", {"schemas": {"one": "x"}}, "option schemas"),
        ("avro_decode", {"registry": "ftp://x"}, "http"),
        ("avro_decode", {"registry": "http://me:secret@x"}, "registry_login_file"),
        ("avro_encode", {"registry": "http://x"}, "schema_id"),
        ("avro_encode", {"schemas": {}, "schema_id": 1}, "schema 1 is not among"),
    ],
)
def test_options_that_cannot_work_are_refused_when_they_are_defined(name: str, options: Any, said: str) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        defined(name, **options)
    assert said in str(caught.value)
    assert "secret" not in str(caught.value)


# ------------------------------------------------------------------------------------------------------ from a registry


def test_schemas_are_asked_for_once_and_read_what_other_clients_wrote(registry: SchemaRegistry) -> None:
    simple = {"type": "record", "name": "R", "fields": [{"name": "x", "type": "int"}]}
    number = registry.register("plant-value", json.dumps(simple))
    decode = defined("avro_decode", registry=registry.url)
    for value in range(3):
        assert decode(Message(written(simple, {"x": value}, number))).body == f'{{"x":{value}}}'
    assert registry.asked == [f"/schemas/ids/{number}"]


def test_the_latest_schema_of_a_subject_is_written(registry: SchemaRegistry) -> None:
    simple = {"type": "record", "name": "R", "fields": [{"name": "x", "type": "int"}]}
    registry.register("orders/new-value", '"string"')
    number = registry.register("orders/new-value", json.dumps(simple))
    encode = defined("avro_encode", registry=registry.url, subject="orders/new-value")
    assert encode(Message('{"x":5}')).body == written(simple, {"x": 5}, number)
    assert defined("avro_decode", registry=registry.url)(encode(Message('{"x":5}'))).body == '{"x":5}'


def test_a_schema_that_refers_to_others_is_read(registry: SchemaRegistry) -> None:
    money = {"type": "record", "name": "Money", "namespace": "m", "fields": [{"name": "cents", "type": "long"}]}
    order = {"type": "record", "name": "Order", "fields": [{"name": "sum", "type": "m.Money"}]}
    registry.register("money", json.dumps(money))
    registry.register("order", json.dumps(order), references={"m.Money": ("money", 1)})
    encode = defined("avro_encode", registry=registry.url, subject="order")
    sent = encode(Message('{"sum":{"cents":995}}'))
    assert defined("avro_decode", registry=registry.url)(sent).body == '{"sum":{"cents":995}}'


def test_a_registry_that_is_away_is_no_fault_of_the_message(registry: SchemaRegistry) -> None:
    number = registry.register("s", '"string"')
    decode, body = defined("avro_decode", registry=registry.url), written("string", "x", number)
    registry.broken = True
    with pytest.raises(RegistryUnavailable) as caught:
        decode(Message(body))
    assert "503" in caught.value.cause
    assert caught.value.cure
    registry.broken = False
    assert decode(Message(body)).body == '"x"'
    nobody = defined("avro_decode", registry="http://127.0.0.1:1")
    with pytest.raises(RegistryUnavailable):
        nobody(Message(body))
    with pytest.raises(RegistryUnavailable, match="subject gone"):
        defined("avro_encode", registry=registry.url, subject="gone")(Message('"x"'))


def test_a_schema_that_does_not_exist_is_the_fault_of_the_message_and_is_not_asked_for_again(
    registry: SchemaRegistry,
) -> None:
    decode = defined("avro_decode", registry=registry.url)
    for _ in range(3):
        with pytest.raises(TransformFailed) as caught:
            decode(Message(b"\x00\x00\x00\x00\x63x"))
        assert "schema 99 does not exist" in str(caught.value)
    assert registry.asked == ["/schemas/ids/99"]


def test_another_language_and_no_head_are_refused(registry: SchemaRegistry) -> None:
    number = registry.register("p", 'syntax = "proto3";', kind="PROTOBUF")
    decode = defined("avro_decode", registry=registry.url)
    for body, said in ((struct.pack(">bI", 0, number), "it is PROTOBUF"), (b"{}", "zero byte")):
        with pytest.raises(TransformFailed) as caught:
            decode(Message(body))
        assert said in str(caught.value)


def test_the_login_comes_from_a_file_and_is_read_again(registry: SchemaRegistry, tmp_path: Path) -> None:
    number, login = registry.register("s", '"string"'), tmp_path / "login"
    registry.login = "me:new"
    login.write_text("me:old\n")
    decode = defined("avro_decode", registry=registry.url, registry_login_file=str(login))
    body = written("string", "x", number)
    with pytest.raises(RegistryUnavailable) as caught:
        decode(Message(body))
    assert "401" in caught.value.cause
    login.write_text("me:new\n")
    assert decode(Message(body)).body == '"x"'


def test_the_last_known_schema_of_a_subject_is_written_while_the_registry_is_away(
    registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.register("s", '"string"')
    encode = defined("avro_encode", registry=registry.url, subject="s")
    first = encode(Message('"x"')).body
    monkeypatch.setattr("mgw.transforms.codecs.registry._LATEST", 0.0)
    other = registry.register("s", '"bytes"')
    assert encode(Message('"x"')).body == first  # asked less than five minutes ago
    clock = time.monotonic
    monkeypatch.setattr("mgw.transforms.codecs.registry.time.monotonic", lambda: clock() + 301)
    registry.broken = True
    assert encode(Message('"x"')).body == first
    registry.broken = False
    assert encode(Message('"eA=="')).body == struct.pack(">bI", 0, other) + b"\x02x"


def test_one_job_that_waits_for_the_registry_delays_no_schema_that_is_known(registry: SchemaRegistry) -> None:
    number = registry.register("s", '"string"')
    decode = defined("avro_decode", registry=registry.url)
    body = written("string", "x", number)
    decode(Message(body))
    registry.hold = threading.Event()

    def wait() -> None:
        with pytest.raises(TransformFailed):
            decode(Message(b"\x00\x00\x00\x00\x63x"))

    waiting = threading.Thread(target=wait)
    waiting.start()
    try:
        eventually(lambda: "/schemas/ids/99" in registry.asked, what="a question that is held")
        assert decode(Message(body)).body == '"x"'
        assert waiting.is_alive()
    finally:
        registry.hold.set()
        waiting.join()


@pytest.mark.parametrize("answer", [{"schema": 7}, [], {"schema": '"string"', "references": [{"name": "x"}]}, None])
def test_an_answer_that_is_none_is_no_fault_of_the_message(registry: SchemaRegistry, answer: Any) -> None:
    registry.odd = answer
    with pytest.raises(RegistryUnavailable) as caught:
        defined("avro_decode", registry=registry.url)(Message(b"\x00\x00\x00\x00\x01x"))
    assert "answer" in caught.value.cause or "Expecting value" in caught.value.cause


def test_the_login_does_not_go_to_where_the_registry_redirects(registry: SchemaRegistry, tmp_path: Path) -> None:
    number, login = registry.register("s", '"string"'), tmp_path / "login"
    login.write_text("me:secret")
    with schema_registry() as elsewhere:
        assert elsewhere.register("s", '"string"') == number
        registry.moved = elsewhere.url
        decode = defined("avro_decode", registry=registry.url, registry_login_file=str(login))
        assert decode(Message(written("string", "x", number))).body == '"x"'
        assert registry.logins == ["me:secret"]
        assert elsewhere.logins == [None]
